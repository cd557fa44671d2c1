//! The gateway: loads configuration documents, serves MCP, calls upstreams, filters, counts.

pub mod upstream;

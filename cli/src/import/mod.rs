//! `tamis import`: makes documents of Tamis out of documents of other products, and of what servers say about themselves.

mod api;
mod catalog;
mod client;
mod compare;
mod config_map;
mod credential;
mod descriptors;
mod events;
mod files;
mod graphql;
mod grpc;
mod introspect;
mod listing;
mod manifest;
mod mcp;
mod openapi;
mod program;
mod reflection;
mod stream;
mod tree;
mod update;

use std::process::ExitCode;

use crate::logging::LogArgs;

/// Make documents of Tamis out of documents of other products, of an MCP server's tools, or of an OpenAPI document, a GraphQL
/// schema or .proto files, or copy them from the catalogue.
///
/// `tamis serve`, `validate` and `filter` read documents of reShapr and kimbap as they are, but a cluster accepts only documents
/// of tamis.dev. `import reshapr` and `import kimbap` print them to standard output. Findings go to standard error; if one is an
/// error, nothing is printed. Labels and annotations are kept, comments are not.
///
/// `import mcp` asks an MCP server for its tools and writes a ServiceManifest that pins them. `import openapi` writes one of an
/// OpenAPI document, `import graphql` one of a GraphQL schema, and `import grpc` one of .proto files, a descriptor set, or what a server
/// says by reflection. `import catalog` copies a service that is ready to use.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import reshapr filters.yaml | kubectl apply -f -
  tamis import reshapr examples/seeds/reshapr --namespace team-a > reshapr.yaml
  tamis import kimbap github.yaml
  tamis import mcp https://mcp.example.com/mcp -o tickets.yaml
  tamis import openapi petstore.yaml -o api
  tamis import graphql schema.graphql --base-url https://api.example.com/graphql -o api
  tamis import catalog github -o services
  tamis import grpc service.proto --endpoint https://grpc.example.com -o api

Exit codes:
  0  converted (warnings do not count)
  1  a document cannot be read; nothing is printed
  2  usage error
  4  a server's tools differ from a manifest (tamis import mcp)")]
pub(crate) struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// Convert documents of reShapr's `reshapr.io/v1alpha1`
    #[command(after_long_help = "\
Examples:
  tamis import reshapr filters.yaml | kubectl apply -f -")]
    Reshapr(files::Args),
    /// Convert kimbap's service manifests
    #[command(after_long_help = "\
Examples:
  tamis import kimbap github.yaml")]
    Kimbap(files::Args),
    Mcp(mcp::Args),
    Openapi(openapi::Args),
    Graphql(graphql::Args),
    Catalog(catalog::Args),
    Grpc(grpc::Args),
}

/// Runs the import that the arguments name.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    match &args.from {
        From::Reshapr(args) | From::Kimbap(args) => files::run(args, log),
        From::Mcp(args) => mcp::run(args),
        From::Openapi(args) => openapi::run(args),
        From::Graphql(args) => graphql::run(args),
        From::Catalog(args) => catalog::run(args),
        From::Grpc(args) => grpc::run(args),
    }
}

/// Returns a server's text on one line that is not too long for a message.
fn line(text: &str) -> String {
    let mut line: String = text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(200).is_some() {
        line.push_str("..");
    }
    line
}

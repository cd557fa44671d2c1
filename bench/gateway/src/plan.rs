//! What is measured: targets, and the cases in which they are compared.

use serde::Serialize;

use crate::call::Era;
use crate::client::Protocol;

/// A measured server, with its configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    /// The upstream, called directly.
    Upstream,
    /// A bare proxy: axum and reqwest on a runtime of several threads.
    Proxy,
    /// A bare proxy: hyper on both sides, one single-threaded runtime per core.
    PerCoreProxy,
    /// `tamis serve` without a filter.
    Plain,
    /// `tamis serve` with `select`.
    Select,
    /// `tamis serve` with `retain` and `patches` under `Enforced`.
    Enforced,
    /// `select`, and callers need an API key.
    Key,
    /// `select`, and every call is traced.
    Traced,
    /// `select`, and every call is logged for audit, as by default.
    Logged,
    /// FastMCP, `from_openapi`.
    Fastmcp,
    /// `mcp-proxy`, in front of an MCP server.
    McpProxy,
    /// ContextForge, with a REST tool.
    Contextforge,
    /// The upstream as an MCP server, called directly.
    Mcp,
    /// The bare proxy with a runtime per core, in front of the MCP server.
    McpPerCoreProxy,
    /// `tamis serve` in front of the MCP server, without a filter.
    McpPlain,
    /// `tamis serve` in front of the MCP server, with `select`.
    McpSelect,
    /// `tamis serve` with `select`, and an OpenAPI document of the upstream.
    OpenapiSelect,
    /// The upstream as a GraphQL API, called directly.
    Graphql,
    /// `tamis serve` in front of the GraphQL API, with `select`.
    GraphqlSelect,
    /// The upstream as a gRPC server, called directly.
    Grpc,
    /// `tamis serve` in front of the gRPC server, with `select`.
    GrpcSelect,
    /// The upstream, which runs `cat` for each call.
    Command,
    /// `tamis serve` with `cat` as the source, with `select`.
    CommandSelect,
}

impl Target {
    /// Returns the name in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Proxy => "bare proxy",
            Self::PerCoreProxy => "bare proxy, per core",
            Self::Plain => "tamis",
            Self::Select => "tamis, `select`",
            Self::Enforced => "tamis, `Enforced`",
            Self::Key => "tamis, `select`, API key",
            Self::Traced => "tamis, `select`, traced",
            Self::Logged => "tamis, `select`, audit log",
            Self::Fastmcp => "FastMCP",
            Self::McpProxy => "`mcp-proxy`",
            Self::Contextforge => "ContextForge",
            Self::Mcp => "MCP server",
            Self::McpPerCoreProxy => "MCP server, bare proxy, per core",
            Self::McpPlain => "MCP server, tamis",
            Self::McpSelect => "MCP server, tamis, `select`",
            Self::OpenapiSelect => "OpenAPI, tamis, `select`",
            Self::Graphql => "GraphQL API",
            Self::GraphqlSelect => "GraphQL API, tamis, `select`",
            Self::Grpc => "gRPC server",
            Self::GrpcSelect => "gRPC server, tamis, `select`",
            Self::Command => "program",
            Self::CommandSelect => "program, tamis, `select`",
        }
    }

    /// Returns whether it is a published gateway, which `cargo xtask bench gateway` installs.
    pub(crate) fn is_peer(self) -> bool {
        match self {
            Self::Fastmcp | Self::McpProxy | Self::Contextforge => true,
            Self::Upstream | Self::Proxy | Self::PerCoreProxy => false,
            Self::Plain | Self::Select | Self::Enforced | Self::Key | Self::Traced | Self::Logged => false,
            Self::Mcp | Self::McpPerCoreProxy | Self::McpPlain | Self::McpSelect => false,
            Self::Graphql | Self::Grpc | Self::Command => false,
            Self::OpenapiSelect | Self::GraphqlSelect | Self::GrpcSelect | Self::CommandSelect => false,
        }
    }

    /// Returns whether it is the upstream itself, which shares its core with the load generator.
    pub(crate) fn is_upstream(self) -> bool {
        matches!(self, Self::Upstream | Self::Mcp | Self::Graphql | Self::Grpc | Self::Command)
    }

    /// Returns whether it is what the others of a case are compared with: a proxy that does as little as possible.
    pub(crate) fn is_reference(self) -> bool {
        matches!(self, Self::PerCoreProxy | Self::McpPerCoreProxy)
    }

    /// Returns the protocol of its connections, if it is not that of the case.
    pub(crate) fn protocol(self) -> Option<Protocol> {
        (self == Self::Grpc).then_some(Protocol::Http2)
    }

    /// Returns whether it is called by MCP, so that the era matters.
    pub(crate) fn has_eras(self) -> bool {
        match self {
            Self::Upstream | Self::Proxy | Self::PerCoreProxy => false,
            Self::Plain | Self::Select | Self::Enforced | Self::Key | Self::Traced | Self::Logged => true,
            Self::Fastmcp | Self::McpProxy | Self::Contextforge => true,
            Self::Mcp | Self::McpPerCoreProxy | Self::McpPlain | Self::McpSelect => true,
            Self::Graphql | Self::Grpc | Self::Command => false,
            Self::OpenapiSelect | Self::GraphqlSelect | Self::GrpcSelect | Self::CommandSelect => true,
        }
    }
}

/// The targets that are measured with every size of answers.
const MAIN: &[Target] =
    &[Target::Upstream, Target::Proxy, Target::PerCoreProxy, Target::Plain, Target::Select, Target::Enforced];
/// The targets that are measured with one size only.
const VARIANTS: &[Target] = &[Target::Key, Target::Logged, Target::Traced];
/// The targets that are measured with other numbers of connections and other protocols.
const TRANSPORT: &[Target] = &[Target::Proxy, Target::PerCoreProxy, Target::Plain, Target::Select];

/// The targets that are compared with published gateways, and these gateways.
const PEERS: &[Target] =
    &[Target::PerCoreProxy, Target::Plain, Target::Fastmcp, Target::McpProxy, Target::Contextforge];

/// The targets that are compared in front of an MCP server, with an HTTP API beside them.
const MCP: &[Target] =
    &[Target::Mcp, Target::McpPerCoreProxy, Target::McpPlain, Target::McpSelect, Target::Plain, Target::Select];

/// The sources of a service, each with its server called directly.
const SOURCES: &[Target] = &[
    Target::Upstream,
    Target::PerCoreProxy,
    Target::Select,
    Target::OpenapiSelect,
    Target::Graphql,
    Target::GraphqlSelect,
    Target::Grpc,
    Target::GrpcSelect,
    Target::Command,
    Target::CommandSelect,
];

/// The number of connections of the cases that compare sizes.
const CONNECTIONS: usize = 16;

/// A target within a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) target: Target,
    pub(crate) era: Era,
}

impl Row {
    /// Returns the name in the tables. The legacy era is not named: most clients speak it today.
    pub(crate) fn name(self) -> String {
        match self.era {
            Era::Legacy => self.target.name().to_owned(),
            Era::Modern => format!("{}, modern era", self.target.name()),
        }
    }
}

/// What a case compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    /// Sizes and configurations: throughput, and latency at one rate for all servers.
    Sizes,
    /// Protocols and numbers of connections: throughput only.
    Transport,
    /// An MCP server as the source: throughput, and latency at one rate for all servers.
    McpServer,
    /// Sources: throughput, and latency at a rate for each of them, since a program takes many times as long as a request.
    Sources,
    /// Published gateways: throughput, and latency at a rate for each server, since they differ by orders of magnitude.
    Peers,
}

/// Targets that are compared with each other, in alternating rounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) comparison: Comparison,
    /// Size of the upstream's answer.
    pub(crate) kb: usize,
    pub(crate) protocol: Protocol,
    /// Connections of HTTP/1.1, streams of one connection of HTTP/2.
    pub(crate) concurrency: usize,
    pub(crate) rows: Vec<Row>,
}

impl Case {
    /// Returns the name in the tables.
    pub(crate) fn name(&self) -> String {
        match (self.protocol, self.concurrency) {
            _ if self.comparison == Comparison::Peers => format!("{} kB, published gateways", self.kb),
            _ if self.comparison == Comparison::McpServer => format!("{} kB, MCP server", self.kb),
            _ if self.comparison == Comparison::Sources => format!("{} kB, sources", self.kb),
            (Protocol::Http1, CONNECTIONS) => format!("{} kB", self.kb),
            (Protocol::Http1, 1) => format!("{} kB, 1 connection", self.kb),
            (Protocol::Http1, count) => format!("{} kB, {count} connections", self.kb),
            (Protocol::Http2, count) => format!("{} kB, HTTP/2, {count} streams", self.kb),
        }
    }
}

/// Returns the size that is measured in detail: 4 kB, or else the first.
fn detailed(sizes: &[usize]) -> Option<usize> {
    sizes.iter().copied().find(|&kb| kb == 4).or(sizes.first().copied())
}

/// Returns the cases. Every size is measured with the main targets. One size, 4 kB or else the first, is measured in
/// detail: the modern era, an API key, the audit log, traces, other numbers of connections, HTTP/2, an MCP server, and the other sources.
/// `quick` leaves out the details.
pub(crate) fn cases(sizes: &[usize], targets: &[Target], quick: bool) -> Vec<Case> {
    let chosen = |of: &[Target], era: Era| chosen(of, targets, era);
    let detailed = detailed(sizes);
    let mut cases = Vec::new();
    for &kb in sizes {
        let mut rows = chosen(MAIN, Era::Legacy);
        if !quick && Some(kb) == detailed {
            rows.extend(chosen(&[Target::Plain, Target::Select], Era::Modern));
            rows.extend(chosen(VARIANTS, Era::Legacy));
        }
        let (comparison, protocol) = (Comparison::Sizes, Protocol::Http1);
        cases.push(Case { comparison, kb, protocol, concurrency: CONNECTIONS, rows });
    }
    if let (Some(kb), false) = (detailed, quick) {
        for (protocol, concurrency) in [(Protocol::Http1, 1), (Protocol::Http1, 256), (Protocol::Http2, CONNECTIONS)] {
            let rows = chosen(TRANSPORT, Era::Legacy);
            cases.push(Case { comparison: Comparison::Transport, kb, protocol, concurrency, rows });
        }
        for (of, comparison) in [(MCP, Comparison::McpServer), (SOURCES, Comparison::Sources)] {
            let rows = chosen(of, Era::Legacy);
            if rows.iter().any(|row| !MAIN.contains(&row.target)) {
                cases.push(Case { comparison, kb, protocol: Protocol::Http1, concurrency: CONNECTIONS, rows });
            }
        }
    }
    cases.retain(|case| !case.rows.is_empty());
    cases
}

/// Returns the case of the published gateways, with the size that is measured in detail.
pub(crate) fn peers(sizes: &[usize], targets: &[Target]) -> Option<Case> {
    let rows = chosen(PEERS, targets, Era::Legacy);
    let (comparison, protocol) = (Comparison::Peers, Protocol::Http1);
    let has_peer = rows.iter().any(|row| row.target.is_peer());
    detailed(sizes).filter(|_| has_peer).map(|kb| Case { comparison, kb, protocol, concurrency: CONNECTIONS, rows })
}

fn chosen(of: &[Target], targets: &[Target], era: Era) -> Vec<Row> {
    of.iter().filter(|target| targets.contains(target)).map(|&target| Row { target, era }).collect()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::{Target, cases, peers};
    use crate::call::Era;

    const SIZES: &[usize] = &[1, 4, 64];

    #[test]
    fn each_dimension_is_covered_once() {
        let cases = cases(SIZES, Target::value_variants(), false);
        let peers = peers(SIZES, Target::value_variants()).expect("a case");
        assert_eq!(peers.name(), "4 kB, published gateways");
        let names: Vec<String> = cases.iter().map(super::Case::name).collect();
        assert_eq!(
            names,
            [
                "1 kB",
                "4 kB",
                "64 kB",
                "4 kB, 1 connection",
                "4 kB, 256 connections",
                "4 kB, HTTP/2, 16 streams",
                "4 kB, MCP server",
                "4 kB, sources",
            ]
        );
        let targets: std::collections::BTreeSet<Target> = [&cases[1], &cases[6], &cases[7], &peers]
            .iter()
            .flat_map(|case| &case.rows)
            .map(|row| row.target)
            .collect();
        assert_eq!(targets.len(), Target::value_variants().len(), "{targets:?}");
        assert!(cases[1].rows.iter().any(|row| row.era == Era::Modern));
        assert!(cases.iter().flat_map(|case| &case.rows).all(|row| row.era == Era::Legacy || row.target.has_eras()));
    }

    #[test]
    fn a_choice_of_targets_leaves_no_empty_case() {
        let key = cases(SIZES, &[Target::Key], false);
        assert_eq!((key.len(), key[0].kb, key[0].rows.len()), (1, 4, 1));
        assert_eq!(peers(SIZES, &[Target::Plain, Target::Key]), None);
        let quick = cases(&[16], Target::value_variants(), true);
        assert_eq!((quick.len(), quick[0].rows.len()), (1, 6));
    }

    #[test]
    fn without_4_kb_the_first_size_is_measured_in_detail() {
        let ours = [Target::Proxy, Target::Select];
        let last = cases(&[16, 64], &ours, false).pop().expect("a case");
        assert_eq!(last.name(), "16 kB, HTTP/2, 16 streams");
    }
}

//! The reason of each allocation, found by the functions on its stack.

use std::fmt::Write as _;

use super::profile::Site;

/// The part of a call that allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Server,
    Call,
    Arguments,
    Rendering,
    Client,
    Filter,
    Answer,
}

impl Part {
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "HTTP server (hyper)",
            Self::Call => "call",
            Self::Arguments => "arguments",
            Self::Rendering => "rendering the request",
            Self::Client => "HTTP client (hyper)",
            Self::Filter => "filter",
            Self::Answer => "answer",
        }
    }
}

/// A reason applies to a stack that contains all of its texts. The first one that applies counts: the connection to the upstream
/// is polled by the call, so its reasons come before those of the connection to the client.
struct Reason {
    part: Part,
    stack: &'static [&'static str],
    why: &'static str,
}

const fn reason(part: Part, stack: &'static [&'static str], why: &'static str) -> Reason {
    Reason { part, stack, why }
}

/// Frames of the connection to the client, and of the connection to the upstream.
const SERVER: &str = "hyper::server::conn::";
const CLIENT: &str = "client/conn/http1.rs";

const REASONS: &[Reason] = &[
    reason(Part::Client, &["hyper::client::dispatch::Sender"], "the channel through which hyper passes the response"),
    reason(
        Part::Client,
        &["role::parse_headers", "smallvec", CLIENT],
        "places of the response's headers: more than 100 are allowed",
    ),
    reason(
        Part::Client,
        &["promote_to_shared", CLIENT],
        "the read buffer becomes shared: the body is a slice of it, not a copy",
    ),
    reason(
        Part::Client,
        &["poll_read_from_io", CLIENT],
        "a read buffer for the next response; the previous one is shared with this response",
    ),
    reason(
        Part::Client,
        &["body::chan::channel", CLIENT],
        "the channel through which hyper passes the response's body",
    ),
    reason(
        Part::Server,
        &["HeaderName::from_bytes", SERVER],
        "the names of the `Mcp-*` headers, which HTTP does not define",
    ),
    reason(
        Part::Server,
        &["promote_to_shared", SERVER],
        "the read buffer becomes shared: headers and body are slices of it, not copies",
    ),
    reason(
        Part::Server,
        &["poll_read_from_io", SERVER],
        "a read buffer for the next request; the previous one is shared with this request. hyper reads on during a call to \
         notice that the client has left",
    ),
    reason(Part::Server, &["body::chan::channel", SERVER], "the channel through which hyper passes the request's body"),
    reason(
        Part::Call,
        &["pin<tamis_gateway::call::run"],
        "the state of the call: a future is moved whole into the one that awaits it, unless it lies in a box",
    ),
    reason(
        Part::Call,
        &["pin<tamis_gateway::upstream::http::exchange::exchange"],
        "the state of the request to the upstream",
    ),
    reason(Part::Arguments, &["tamis_gateway::arguments::Arguments"], "the arguments, as one text"),
    reason(Part::Rendering, &["RequestPlan::render"], "the path and query as text, and the count of references to it"),
    reason(
        Part::Rendering,
        &["request (", "upstream/http/exchange.rs"],
        "a copy of the headers that are prepared for the tool",
    ),
    reason(Part::Client, &["on_informational"], "the limit on informational responses, as an extension of the request"),
    reason(Part::Filter, &["pass<", "src/stream/mod.rs"], "the filtered text"),
    reason(Part::Answer, &["engine/src/report.rs"], "the report of the filter in `_meta`"),
    reason(Part::Answer, &["tamis_gateway::mcp::encode::tool_result"], "the answer"),
];

/// Returns the rows of the table: part, reason and allocations.
///
/// # Panics
/// A stack has no reason.
pub(super) fn table(sites: &[Site]) -> String {
    let mut counts = vec![0; REASONS.len()];
    for site in sites {
        let stack = site.stack.join("\n");
        let found = REASONS.iter().position(|reason| reason.stack.iter().all(|text| stack.contains(text)));
        counts[found.unwrap_or_else(|| panic!("an allocation has no reason in reasons.rs: {site}"))] += site.calls;
    }
    let mut rows: Vec<(&Reason, usize)> = REASONS.iter().zip(counts).filter(|(_, count)| *count > 0).collect();
    rows.sort_by_key(|(reason, _)| reason.part);
    let mut out = String::from("| part | reason | allocations |\n|---|---|---:|\n");
    for (Reason { part, stack: _, why }, count) in &rows {
        writeln!(out, "| {} | {why} | {count} |", part.as_str()).expect("memory");
    }
    writeln!(out, "| | sum | {} |", rows.iter().map(|(_, count)| count).sum::<usize>()).expect("memory");
    out
}

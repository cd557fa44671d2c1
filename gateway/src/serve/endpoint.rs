//! Routing: which endpoint a request addresses. Decided before anything else, so that each kind of endpoint refuses requests
//! in its own form.

use hyper::Method;

/// An endpoint of the serving port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint<'a> {
    /// The list of expositions: `GET /`.
    List,
    /// The MCP endpoint of the exposition with this `NAMESPACE/NAME`, whether or not it exists.
    Mcp(&'a str),
    /// No endpoint.
    Unknown,
}

/// Returns the endpoint at `path`.
pub(super) fn route<'a>(method: &Method, path: &'a str) -> Endpoint<'a> {
    if path == "/" && matches!(*method, Method::GET | Method::HEAD) {
        return Endpoint::List;
    }
    match path.strip_prefix("/mcp/") {
        Some(name) => Endpoint::Mcp(name),
        None => Endpoint::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_and_path_decide_the_endpoint() {
        use Endpoint::{List, Mcp, Unknown};
        let cases = [
            (Method::GET, "/", List),
            (Method::HEAD, "/", List),
            (Method::POST, "/", Unknown),
            (Method::GET, "", Unknown),
            (Method::GET, "//", Unknown),
            (Method::POST, "/mcp/team-a/github", Mcp("team-a/github")),
            (Method::GET, "/mcp/team-a/github", Mcp("team-a/github")),
            (Method::DELETE, "/mcp/team-a/github", Mcp("team-a/github")),
            // No exposition has such a name; the client still speaks MCP.
            (Method::POST, "/mcp/", Mcp("")),
            (Method::POST, "/mcp/github", Mcp("github")),
            (Method::POST, "/mcp/team-a/github/", Mcp("team-a/github/")),
            (Method::POST, "/mcp/../mcp/team-a/github", Mcp("../mcp/team-a/github")),
            (Method::POST, "/mcp", Unknown),
            (Method::POST, "/MCP/team-a/github", Unknown),
            (Method::POST, "/mcpx/team-a/github", Unknown),
            (Method::POST, "//mcp/team-a/github", Unknown),
            (Method::POST, "/team-a/github", Unknown),
            (Method::GET, "/.well-known/oauth-protected-resource/mcp/team-a/github", Unknown),
            (Method::OPTIONS, "*", Unknown),
        ];
        for (method, path, expected) in cases {
            assert_eq!(route(&method, path), expected, "{method} {path}");
        }
    }
}

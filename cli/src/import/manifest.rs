//! ServiceManifests that pin the tools of an MCP server.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{anyhow, bail};
use tamis_crds::resources::{McpSpec, McpToolSpec};
use tamis_crds::{Loaded, diagnose, parse_document};

use super::client::ServerInfo;
use super::listing::Definition;
use super::tree::Tree;

/// Returns a tool of a manifest.
pub(super) fn definition(tool: &McpToolSpec) -> anyhow::Result<Definition> {
    let json = serde_json::to_string(tool)?;
    Ok(Definition::of(&Tree::parse(&json).map_err(|error| anyhow!(error))?))
}

pub(super) fn tools(tools: &BTreeMap<String, Definition>) -> Tree {
    Tree::Map(tools.iter().map(|(name, definition)| (name.clone(), definition.tree().clone())).collect())
}

/// Where a server is, as a manifest says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// At an address.
    Url(String),
    /// A program and its arguments.
    Command(Vec<String>),
}

impl Endpoint {
    /// Returns the endpoint of a manifest that has exactly one.
    pub(super) fn of(spec: &McpSpec) -> Option<Self> {
        match (&spec.url, &spec.command) {
            (Some(url), None) => Some(Self::Url(url.clone())),
            (None, Some(command)) => Some(Self::Command(command.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Command(command) => {
                let word = |word: &String| {
                    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@:=+,%".contains(c);
                    let is_plain = !word.is_empty() && word.chars().all(plain);
                    if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
                };
                f.write_str(&command.iter().map(word).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// Returns the document. `more`: members of `mcp` between the endpoint and the tools.
pub(super) fn manifest(
    name: &str,
    version: &str,
    server: &ServerInfo,
    endpoint: &Endpoint,
    more: Vec<(&str, Tree)>,
    pinned: &BTreeMap<String, Definition>,
) -> Tree {
    let mut mcp = match endpoint {
        Endpoint::Url(url) => Tree::map([("url", Tree::text(url))]),
        Endpoint::Command(command) => Tree::map([("command", Tree::List(command.iter().map(Tree::text).collect()))]),
    };
    for (name, value) in more {
        mcp.push(name, value);
    }
    mcp.push("tools", tools(pinned));
    let mut spec = Tree::map([("version", Tree::text(version))]);
    let about = [&server.description, &server.title].into_iter().flatten().find(|text| !text.trim().is_empty());
    if let Some(about) = about {
        spec.push("description", Tree::text(about));
    }
    spec.push("mcp", mcp);
    super::api::manifest(name, spec)
}

/// Checks that `tamis validate` accepts a manifest.
pub(super) fn check(manifest: &Tree) -> anyhow::Result<()> {
    let parsed = parse_document("the manifest", manifest.to_yaml(0).as_bytes());
    match diagnose(&Loaded::of(vec![parsed])).iter().find(|finding| finding.is_error()) {
        None => Ok(()),
        Some(error) => bail!("{}: {}; {}", error.field, error.message, error.remedy),
    }
}

/// Makes an object's name of a server's: `mcp-servers/everything` becomes `everything`.
pub(super) fn default_name(server: &str) -> String {
    let last = server.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let name: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

/// Returns the server's version if it can be a service's.
pub(super) fn default_version(server: &str) -> String {
    let fits = !server.trim().is_empty() && server.len() <= 128 && !server.chars().any(char::is_control);
    if fits { server.to_owned() } else { "1.0.0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::listing::listing;
    use super::*;

    #[test]
    fn names_and_versions_are_made_of_the_servers() {
        let rows = [
            ("mcp-servers/everything", "everything"),
            ("My Server!", "my-server"),
            ("", "server"),
            ("///", "server"),
            ("日本", "server"),
            (&*"x".repeat(80), &*"x".repeat(63)),
        ];
        for (server, name) in rows {
            assert_eq!(default_name(server), name, "{server}");
        }
        for (server, version) in
            [("2.0.0", "2.0.0"), ("", "1.0.0"), (" ", "1.0.0"), ("1\n2", "1.0.0"), (&*"1".repeat(129), "1.0.0")]
        {
            assert_eq!(default_version(server), version, "{server}");
        }
    }

    #[test]
    fn a_manifest_is_written_in_order_and_accepted() {
        let server = ServerInfo { title: Some("A: server".to_owned()), ..ServerInfo::default() };
        let found = listing([r#"{"name":"a","description":"One.","inputSchema":{"type":"object","x":1.0}}"#]);
        let secret = Tree::map([("name", Tree::text("s")), ("key", Tree::text("token"))]);
        let auth = Tree::map([("type", Tree::text("bearer")), ("secretRef", secret)]);
        let endpoint = Endpoint::Url("https://example.com/mcp".to_owned());
        let tree = manifest("s", "2.0.0", &server, &endpoint, vec![("auth", auth)], &found.tools);
        check(&tree).expect("is accepted");
        let expected = "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata:\n  name: s\nspec:\n  version: \"2.0.0\"\n  \
                        description: \"A: server\"\n  mcp:\n    url: https://example.com/mcp\n    auth:\n      type: bearer\n      \
                        secretRef:\n        name: s\n        key: token\n    tools:\n      a:\n        description: One.\n        \
                        inputSchema:\n          type: object\n          x: 1.0\n";
        assert_eq!(tree.to_yaml(0), expected);
    }

    #[test]
    fn a_command_is_written_word_for_word() {
        let command = ["npx", "-y", "a b", "it's", "", "$HOME"].map(str::to_owned).to_vec();
        let endpoint = Endpoint::Command(command.clone());
        assert_eq!(endpoint.to_string(), r"npx -y 'a b' 'it'\''s' '' '$HOME'");
        let tree = manifest("s", "1", &ServerInfo::default(), &endpoint, Vec::new(), &BTreeMap::new());
        check(&tree).expect("is accepted");
        let parsed = parse_document("s.yaml", tree.to_yaml(0).as_bytes());
        let spec = parsed.resources.manifests[0].spec.mcp.as_ref().expect("is there");
        assert_eq!(Endpoint::of(spec), Some(endpoint));
    }

    #[test]
    fn an_address_that_no_manifest_may_name_is_refused() {
        for url in [
            "http://example.com/mcp",
            "ftp://example.com",
            "https://example.com/?key=1",
            "https://u:p@example.com",
            "x",
        ] {
            let endpoint = Endpoint::Url(url.to_owned());
            check(&manifest("s", "1", &ServerInfo::default(), &endpoint, Vec::new(), &BTreeMap::new())).expect_err(url);
        }
    }
}

//! ServiceManifests that pin the tools of an MCP server.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use tamis_crds::resources::McpToolSpec;
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

/// Returns the document.
pub(super) fn manifest(
    name: &str,
    version: &str,
    server: &ServerInfo,
    url: &str,
    auth: Option<Tree>,
    pinned: &BTreeMap<String, Definition>,
) -> Tree {
    let mut mcp = Tree::map([("url", Tree::text(url))]);
    if let Some(auth) = auth {
        mcp.push("auth", auth);
    }
    mcp.push("tools", tools(pinned));
    let mut spec = Tree::map([("version", Tree::text(version))]);
    let about = [&server.description, &server.title].into_iter().flatten().find(|text| !text.trim().is_empty());
    if let Some(about) = about {
        spec.push("description", Tree::text(about));
    }
    spec.push("mcp", mcp);
    Tree::map([
        ("apiVersion", Tree::text(tamis_crds::resources::API_VERSION)),
        ("kind", Tree::text("ServiceManifest")),
        ("metadata", Tree::map([("name", Tree::text(name))])),
        ("spec", spec),
    ])
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
        let tree = manifest("s", "2.0.0", &server, "https://example.com/mcp", Some(auth), &found.tools);
        check(&tree).expect("is accepted");
        let expected = "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata:\n  name: s\nspec:\n  version: \"2.0.0\"\n  \
                        description: \"A: server\"\n  mcp:\n    url: https://example.com/mcp\n    auth:\n      type: bearer\n      \
                        secretRef:\n        name: s\n        key: token\n    tools:\n      a:\n        description: One.\n        \
                        inputSchema:\n          type: object\n          x: 1.0\n";
        assert_eq!(tree.to_yaml(0), expected);
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
            check(&manifest("s", "1", &ServerInfo::default(), url, None, &BTreeMap::new())).expect_err(url);
        }
    }
}

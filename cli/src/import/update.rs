//! Replaces the pinned tools in the text of a manifest. Everything else stays as its author wrote it.

use tamis_crds::EntryPlace;

use super::tree::Tree;

/// Returns the text with other tools at `place`, the place of the entry `tools`.
///
/// # Errors
/// The entry is not in block style, on lines of its own.
pub(super) fn splice(text: &str, place: EntryPlace, tools: &Tree) -> Result<String, &'static str> {
    const INLINE: &str = "its `tools` are not on lines of their own";
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let index = |line: u32| usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    let (first, indent) = (index(place.line), index(place.column));
    let head = lines.get(first).ok_or(INLINE)?;
    let (before, key) = head.split_at_checked(indent).ok_or(INLINE)?;
    let rest = key.strip_prefix("tools:").ok_or(INLINE)?.trim();
    if !before.bytes().all(|byte| byte == b' ') || !(rest.is_empty() || rest == "{}" || rest.starts_with('#')) {
        return Err(INLINE);
    }
    let is_marker = |line: &&str| line.starts_with("---") || line.starts_with("...");
    let end_of_document = lines[first + 1..].iter().position(is_marker).map_or(lines.len(), |at| first + 1 + at);
    let mut end = place.next.map_or(end_of_document, |line| index(line).min(end_of_document));
    if end <= first {
        return Err(INLINE);
    }
    // What is written above the next entry, or at the end, belongs to that.
    let is_apart = |line: &str| {
        let text = line.trim_start();
        text.is_empty() || (text.starts_with('#') && line.len() - text.len() <= indent)
    };
    while end > first + 1 && is_apart(lines[end - 1]) {
        end -= 1;
    }
    let mut block = Tree::map([("tools", tools.clone())]).to_yaml(indent);
    if text.contains("\r\n") {
        block = block.replace('\n', "\r\n");
    }
    Ok(lines[..first].concat() + &block + &lines[end..].concat())
}

#[cfg(test)]
mod tests {
    use tamis_crds::parse_document;

    use super::*;

    fn spliced(text: &str, tools: &str) -> Result<String, &'static str> {
        let parsed = parse_document("test.yaml", text.as_bytes());
        let place = parsed.resources.manifests[0].origin.entry(&["mcp", "tools"]).expect("is there");
        splice(text, place, &Tree::parse(tools).expect("is JSON"))
    }

    const HEAD: &str =
        "# Mine.\napiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: s}\nspec:\n  version: '1'\n";
    const NEW: &str = r#"{"b":{"inputSchema":{"type":"object"}}}"#;
    const WRITTEN: &str = "    tools:\n      b:\n        inputSchema:\n          type: object\n";

    #[test]
    fn only_the_tools_change() {
        let old = "    tools:   # pinned\n      a: {inputSchema: {type: object}}\n      # about a\n";
        let tails = [
            "",
            "\n# the end\n",
            "    # the address\n    url: https://example.com\n",
            "  # why\n  description: text\n",
            "---\n# other\nkind: Other\n",
            "...\n",
        ];
        for tail in tails {
            let url = if tail.contains("url:") { "" } else { "    url: https://example.com\n" };
            let text = format!("{HEAD}  mcp: # the server\n{url}{old}{tail}");
            let expected = format!("{HEAD}  mcp: # the server\n{url}{WRITTEN}{tail}");
            assert_eq!(spliced(&text, NEW).as_deref(), Ok(&*expected));
            let windows = text.replace('\n', "\r\n");
            assert_eq!(spliced(&windows, NEW).as_deref(), Ok(&*expected.replace('\n', "\r\n")));
        }
        let empty = format!("{HEAD}  mcp:\n    url: https://example.com\n    tools: {{}}");
        let filled = format!("{HEAD}  mcp:\n    url: https://example.com\n{WRITTEN}");
        assert_eq!(spliced(&empty, NEW).as_deref(), Ok(&*filled));
        assert_eq!(spliced(&filled, "{}").as_deref(), Ok(&*format!("{empty}\n")));
    }

    #[test]
    fn tools_on_one_line_stay() {
        for mcp in [
            "  mcp: {url: https://example.com, tools: {}}\n",
            "  mcp:\n    url: https://example.com\n    tools: {a: {inputSchema: {type: object}}}\n",
            "  mcp:\n    url: https://example.com\n    \"tools\":\n      a: {inputSchema: {type: object}}\n",
        ] {
            assert!(spliced(&format!("{HEAD}{mcp}"), NEW).is_err(), "{mcp}");
        }
    }
}

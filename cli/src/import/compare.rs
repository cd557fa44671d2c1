//! The differences between pinned tools and those that a server lists.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tamis_config::{same_annotations, same_json};

use super::listing::{Definition, PARTS};
use super::tree::Tree;

/// How a tool differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The server lists it; it is not pinned.
    Added,
    /// It is pinned; the server does not list it, or not in a form that can be pinned.
    Removed,
    /// These parts differ.
    Changed(Vec<&'static str>),
}

/// Returns the tools that differ, by name.
pub(super) fn differences(
    pinned: &BTreeMap<String, Definition>,
    listed: &BTreeMap<String, Definition>,
) -> BTreeMap<String, Change> {
    let mut changes = BTreeMap::new();
    for name in pinned.keys().chain(listed.keys()) {
        let change = match (pinned.get(name), listed.get(name)) {
            (None, Some(_)) => Change::Added,
            (Some(_), None) => Change::Removed,
            (Some(old), Some(new)) => match changed_parts(old, new) {
                parts if parts.is_empty() => continue,
                parts => Change::Changed(parts),
            },
            (None, None) => continue,
        };
        changes.insert(name.clone(), change);
    }
    changes
}

/// Returns the pinned members that differ.
pub(super) fn changed_parts(old: &Definition, new: &Definition) -> Vec<&'static str> {
    // As the gateway compares them, which withholds a tool that differs.
    let differs = |part: &&str| {
        let json = |of: &Definition| of.part(part).map(Tree::to_json);
        match (json(old), json(new)) {
            (old, new) if *part == "annotations" => !same_annotations(old.as_deref(), new.as_deref()),
            (None, None) => false,
            (Some(old), Some(new)) => !same_json(&old, &new),
            _ => true,
        }
    };
    PARTS.iter().filter(|part| differs(part)).copied().collect()
}

/// Describes the differences: one line a tool, and below it what was and what is, if `details`.
pub(super) fn describe(
    changes: &BTreeMap<String, Change>,
    (pinned, listed): (&BTreeMap<String, Definition>, &BTreeMap<String, Definition>),
    details: bool,
) -> String {
    let mut out = String::new();
    for (name, change) in changes {
        match change {
            Change::Added => {
                let _ = writeln!(out, "added    {name}");
            }
            Change::Removed => {
                let _ = writeln!(out, "removed  {name}");
            }
            Change::Changed(parts) => {
                let _ = writeln!(out, "changed  {name}: {}", parts.join(", "));
                for part in parts.iter().filter(|_| details) {
                    let text = |of: &BTreeMap<String, Definition>| {
                        let value = of.get(name).and_then(|definition| definition.part(part));
                        value.map_or_else(String::new, |value| Tree::map([(*part, value.clone())]).to_yaml(0))
                    };
                    lines(&text(pinned), &text(listed), &mut out);
                }
            }
        }
    }
    out
}

/// Writes the lines that differ, those that were with `-` and those that are with `+`. Equal lines at both ends are left out.
fn lines(old: &str, new: &str, out: &mut String) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let front = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[front..], &new[front..]);
    let back = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    for line in &old_rest[..old_rest.len() - back] {
        let _ = writeln!(out, "  - {line}");
    }
    for line in &new_rest[..new_rest.len() - back] {
        let _ = writeln!(out, "  + {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(json: &[(&str, &str)]) -> BTreeMap<String, Definition> {
        let tree = |json: &str| Definition::of(&Tree::parse(json).expect("is JSON"));
        json.iter().map(|(name, json)| ((*name).to_owned(), tree(json))).collect()
    }

    #[test]
    fn differences_are_found_by_value() {
        let base = r#"{"description":"a","inputSchema":{"type":"object","properties":{"x":{"maximum":1.0}}}}"#;
        let rows: [(&str, &[&str]); 8] = [
            (base, &[]),
            (r#"{"inputSchema":{"properties":{"x":{"maximum":1}},"type":"object"},"description":"\u0061"}"#, &[]),
            (
                r#"{"description":"a","inputSchema":{"type":"object","properties":{"x":{"maximum":1e0}}},"annotations":{}}"#,
                &[],
            ),
            (
                r#"{"description":"b","inputSchema":{"type":"object","properties":{"x":{"maximum":1}}}}"#,
                &["description"],
            ),
            (
                r#"{"description":"a","inputSchema":{"type":"object","properties":{"x":{"maximum":2}}}}"#,
                &["inputSchema"],
            ),
            (r#"{"title":"t","description":"a","inputSchema":{"type":"object"}}"#, &["title", "inputSchema"]),
            (
                r#"{"inputSchema":{"type":"object","properties":{"x":{"maximum":1}}},"annotations":{"readOnlyHint":true},"outputSchema":{}}"#,
                &["description", "outputSchema", "annotations"],
            ),
            (
                r#"{"description":"a","inputSchema":{"type":"object","properties":{"x":{"maximum":"1.0"}}}}"#,
                &["inputSchema"],
            ),
        ];
        for (json, parts) in rows {
            let found = differences(&tools(&[("t", base)]), &tools(&[("t", json)]));
            let expected = (!parts.is_empty()).then(|| Change::Changed(parts.to_vec()));
            assert_eq!(found.get("t").cloned(), expected, "{json}");
        }
    }

    #[test]
    fn differences_are_described() {
        let pinned = tools(&[
            ("gone", "{}"),
            ("kept", "{}"),
            ("other", r#"{"description":"one","inputSchema":{"type":"object","required":["a","b"]}}"#),
        ]);
        let listed = tools(&[
            ("kept", "{}"),
            ("new", "{}"),
            ("other", r#"{"description":"two","inputSchema":{"type":"object","required":["a","c"]}}"#),
        ]);
        let changes = differences(&pinned, &listed);
        let short = describe(&changes, (&pinned, &listed), false);
        assert_eq!(short, "removed  gone\nadded    new\nchanged  other: description, inputSchema\n");
        let long = describe(&changes, (&pinned, &listed), true);
        let expected = "changed  other: description, inputSchema\n  - description: one\n  + description: two\n  -     - b\n  +     - c\n";
        assert!(long.ends_with(expected), "{long}");
    }
}

//! The values of the charts are described once, by the comments of `values.yaml`. The tables of the READMEs and the
//! descriptions of `values.schema.json`, which editors show, are made of them.
//!
//! `TAMIS_UPDATE=1 cargo test -p tamis-tests --test chart_values` regenerates them.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use tamis_tests::root;

const CHARTS: [&str; 2] = ["tamis", "tamis-crds"];
const BEGIN: &str = "<!-- values: ";
const END: &str = "<!-- end of values -->";

/// A line of the table.
#[derive(Debug, PartialEq)]
enum Line {
    /// `# ---- Title ----`
    Section(String),
    /// A key with the comment above it.
    Value { path: Vec<String>, default: String, comment: String },
}

/// What `values.yaml` says. Keys without a comment are parts of a value, and are left out.
fn lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut comment = Vec::new();
    let mut above: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(title) = trimmed.strip_prefix("# ---- ").and_then(|title| title.strip_suffix(" ----")) {
            lines.push(Line::Section(title.to_owned()));
            comment.clear();
        } else if let Some(text) = trimmed.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some((key, default)) = trimmed.trim_start_matches("- ").split_once(':')
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            let indent = line.len() - trimmed.trim_start_matches("- ").len();
            above.retain(|(other, _)| *other < indent);
            above.push((indent, key.to_owned()));
            if !comment.is_empty() {
                let path = above.iter().map(|(_, key)| key.clone()).collect();
                lines.push(Line::Value { path, default: default.trim().to_owned(), comment: comment.join(" ") });
            }
            comment.clear();
        } else {
            comment.clear();
        }
    }
    lines
}

/// The schema of a value, through lists.
fn schema_of<'s>(schema: &'s mut Json, path: &[String]) -> Option<&'s mut Json> {
    let Some((key, rest)) = path.split_first() else { return Some(schema) };
    let holder = if schema.get("items").is_some() { &mut schema["items"] } else { schema };
    schema_of(holder.get_mut("properties")?.get_mut(key)?, rest)
}

/// Every property below a schema, with its path.
fn properties(schema: &Json, path: &str, each: &mut impl FnMut(String, &Json)) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        each(path.clone(), property);
        properties(property, &path, each);
    }
    if let Some(items) = schema.get("items") {
        properties(items, &format!("{path}[]"), each);
    }
}

fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    let head = "\n| value | default | description |\n|---|---|---|\n";
    if !matches!(lines.first(), Some(Line::Section(_))) {
        text.push_str(head);
    }
    for line in lines {
        match line {
            Line::Section(title) => text += &format!("\n### {title}\n{head}"),
            Line::Value { path, default, comment } => {
                let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
                let cell = |text: &str| text.replace('|', "\\|");
                text += &format!("| `{}` | {} | {} |\n", path.join("."), cell(&default), cell(comment));
            }
        }
    }
    text
}

/// The README with its table, and the schema with its descriptions.
fn generated(readme: &str, schema: &str, values: &str) -> (String, String) {
    let lines = lines(values);
    let (before, rest) = readme.split_once(BEGIN).expect("the README has a place for the table");
    let (note, rest) = rest.split_once('\n').expect("a line");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let readme = format!("{before}{BEGIN}{note}\n{}\n{END}{after}", table(&lines));
    let mut schema: Json = serde_json::from_str(schema).expect("the schema is JSON");
    for line in &lines {
        if let Line::Value { path, comment, .. } = line {
            let place = schema_of(&mut schema, path).unwrap_or_else(|| panic!("the schema has no {}", path.join(".")));
            place["description"] = comment.clone().into();
        }
    }
    properties(&schema, "", &mut |path, property| {
        assert!(
            property["description"].is_string(),
            "{path} has no description: write a comment above it in values.yaml"
        );
    });
    (readme, format!("{}\n", serde_json::to_string_pretty(&schema).expect("JSON")))
}

#[test]
fn readme_and_schema_describe_values_as_values_yaml_does() {
    for chart in CHARTS {
        let file = |name: &str| -> PathBuf { root().join("charts").join(chart).join(name) };
        let read =
            |name: &str| fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{chart}/{name}: {error}"));
        let (old_readme, old_schema) = (read("README.md"), read("values.schema.json"));
        let (readme, schema) = generated(&old_readme, &old_schema, &read("values.yaml"));
        if std::env::var_os("TAMIS_UPDATE").is_some() {
            fs::write(file("README.md"), readme).expect("the README can be written");
            fs::write(file("values.schema.json"), schema).expect("the schema can be written");
        } else {
            assert!(readme == old_readme, "charts/{chart}/README.md is stale: run with TAMIS_UPDATE=1");
            assert!(schema == old_schema, "charts/{chart}/values.schema.json is stale: run with TAMIS_UPDATE=1");
        }
    }
}

/// The operator, its definitions and its image have the same version.
#[test]
fn charts_have_the_version_of_the_program() {
    for chart in CHARTS {
        let text = fs::read_to_string(root().join("charts").join(chart).join("Chart.yaml")).expect("a chart");
        let has = |line: &str| text.lines().any(|other| other == line);
        assert!(has(&format!("version: {}", env!("CARGO_PKG_VERSION"))), "{chart}: version");
        assert!(has(&format!("appVersion: \"{}\"", env!("CARGO_PKG_VERSION"))), "{chart}: appVersion");
    }
}

#[test]
fn comments_of_values_yaml_are_parsed() {
    let text = "\
# Of the whole file.

# ---- One ----

# The first, on
# two lines.
first: {a: b}
second:
  # Within.
  inner: []
  bare: 1
# A list.
list:
    # Of each.
  - name: x
";
    let value = |path: &[&str], default: &str, comment: &str| Line::Value {
        path: path.iter().map(|&key| key.to_owned()).collect(),
        default: default.to_owned(),
        comment: comment.to_owned(),
    };
    let expected = [
        Line::Section("One".to_owned()),
        value(&["first"], "{a: b}", "The first, on two lines."),
        value(&["second", "inner"], "[]", "Within."),
        value(&["list"], "", "A list."),
        value(&["list", "name"], "x", "Of each."),
    ];
    assert_eq!(lines(text), expected);
}

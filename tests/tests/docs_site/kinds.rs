//! `docs/reference/`: every field of every kind, from the CustomResourceDefinitions. `kubectl explain` has the same text.

use std::fmt::Write as _;

use serde_json::Value as Json;
use tamis_crds::definitions::custom_resource_definitions;

use crate::markdown::cell;
use crate::same_as_committed;

const GENERATED: &str = "<!-- Generated: change the comments in crds/src/resources, then run TAMIS_UPDATE=1 cargo test -p tamis-tests --test docs_site -->";
/// The start of the description of a filter's fields, which have their own page.
const FILTER: &str = "\nA filter is an object with the fields below";
/// The largest number that the API server's schema says of a `u32`, which says nothing to a reader.
const LARGEST: u64 = 4_294_967_295;

#[test]
fn every_kind_has_its_reference() {
    let kinds = custom_resource_definitions();
    for kind in &kinds {
        same_as_committed(&path(kind), &page(kind));
    }
    same_as_committed("docs/reference/README.md", &contents(&kinds));
}

fn name(kind: &Json) -> &str {
    kind["spec"]["names"]["kind"].as_str().expect("a kind has a name")
}

fn path(kind: &Json) -> String {
    format!("docs/reference/{}.md", name(kind).to_lowercase())
}

fn contents(kinds: &[Json]) -> String {
    let mut page = format!("# Reference\n\n{GENERATED}\n\n## Kinds\n\n| kind | short | |\n|---|---|---|\n");
    for kind in kinds {
        let file = name(kind).to_lowercase();
        let short = kind["spec"]["names"]["shortNames"][0].as_str().unwrap_or_default();
        let what = cell(text(&schema(kind)["description"]));
        let _ = writeln!(page, "| [{}]({file}.md) | `{short}` | {what} |", name(kind));
    }
    page += "\nA filter, in ToolsFilters and in the actions of a ServiceManifest: [field by field](filters.md).\n\n\
             The JSON Schema of the same, for editors: [Editors](../editors.md).\n\n\
             ## Others\n\n\
             - [Command line](command-line.md)\n- [Validation messages](../errors.md)\n\
             - [Conditions](../operator.md#conditions), [reasons](../operator.md#reasons), \
             [labels and annotations](../operator.md#labels-and-annotations)\n- [Metrics](../metrics.md)\n";
    page
}

fn schema(kind: &Json) -> &Json {
    &kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

fn page(kind: &Json) -> String {
    let (names, version, schema) = (&kind["spec"]["names"], &kind["spec"]["versions"][0], schema(kind));
    let mut page = format!("# {}\n\n{GENERATED}\n\n{}\n\n", name(kind), text(&schema["description"]));
    let list = |names: &Json| {
        let names = names.as_array().into_iter().flatten();
        names.map(|name| format!("`{}`", text(name))).collect::<Vec<_>>().join(", ")
    };
    let (group, plural) = (text(&kind["spec"]["group"]), text(&names["plural"]));
    let _ = write!(page, "`apiVersion: {group}/{}`, `kind: {}`", text(&version["name"]), name(kind));
    let _ = write!(page, "; for kubectl `{plural}`, {}", list(&names["shortNames"]));
    let _ = match list(&names["categories"]) {
        categories if categories.is_empty() => writeln!(page, "."),
        categories => writeln!(page, ", and in the category {categories}."),
    };
    refused(&mut page, schema);
    for part in ["spec", "status"] {
        if schema["properties"][part].is_object() {
            object(&mut page, part, &schema["properties"][part]);
        }
    }
    page += "\n## Columns of `kubectl get`\n\n| column | from |\n|---|---|\n";
    for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
        let wide = if column["priority"] == 1 { ", with `-o wide`" } else { "" };
        let _ =
            writeln!(page, "| `{}` | `{}`{wide} |", text(&column["name"]).to_uppercase(), text(&column["jsonPath"]));
    }
    page
}

/// A table of the fields of an object, and then those of what it holds.
fn object(page: &mut String, path: &str, schema: &Json) {
    let _ = write!(page, "\n## {path}\n\n| field | type | |\n|---|---|---|\n");
    let required = schema["required"].as_array();
    let fields = schema["properties"].as_object();
    for (name, field) in fields.into_iter().flatten() {
        let must =
            if required.is_some_and(|names| names.iter().any(|known| known == name)) { ", required" } else { "" };
        let place = format!("{path}.{name}");
        let _ = writeln!(page, "| `{name}`{must} | {} | {} |", cell(&kind_of(&place, field)), cell(&said(field)));
    }
    refused(page, schema);
    for (name, field) in fields.into_iter().flatten() {
        if let Some((place, held)) = holds(&format!("{path}.{name}"), field) {
            object(page, &place, held);
        }
    }
}

/// The object that a field is, or that its list or map holds, if it has fields.
fn holds<'a>(place: &str, field: &'a Json) -> Option<(String, &'a Json)> {
    let (place, held) = if field["items"].is_object() {
        (format!("{place}[]"), &field["items"])
    } else if field["additionalProperties"].is_object() {
        (format!("{place}.NAME"), &field["additionalProperties"])
    } else {
        (place.to_owned(), field)
    };
    held["properties"].is_object().then_some((place, held))
}

fn kind_of(place: &str, field: &Json) -> String {
    if let Some((place, _)) = holds(place, field) {
        let anchor: String = place.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
        let what = match (field["items"].is_object(), field["additionalProperties"].is_object()) {
            (true, _) => "list of objects",
            (_, true) => "map of objects",
            _ => "object",
        };
        return format!("[{what}](#{anchor})");
    }
    if text(&field["description"]).contains(FILTER) {
        let map = if field["additionalProperties"].is_object() { "map of filters" } else { "filter" };
        return format!("[{map}](filters.md)");
    }
    match text(&field["type"]) {
        "array" => format!("list: {}", scalar(&field["items"])),
        "object" if field["additionalProperties"].is_object() => {
            format!("map: {}", scalar(&field["additionalProperties"]))
        }
        _ => scalar(field),
    }
}

fn scalar(field: &Json) -> String {
    if let Some(values) = field["enum"].as_array() {
        return values.iter().map(|value| format!("`{}`", text(value))).collect::<Vec<_>>().join(", ");
    }
    if field["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    match text(&field["type"]) {
        "string" => "text".to_owned(),
        "" => "any".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the description, the bounds and the validation rules of a field.
fn said(field: &Json) -> String {
    let description = text(&field["description"]);
    if description.contains(FILTER) {
        return description.split('\n').next().unwrap_or_default().to_owned();
    }
    if description.starts_with("Not implemented yet") {
        return description.to_owned();
    }
    let lines = std::iter::once(description.to_owned()).chain(bounds(field)).chain(rules(field, field));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn bounds(field: &Json) -> Option<String> {
    let of = |key: &str| field[key].as_u64().filter(|most| *most != LARGEST);
    let numbers = match (of("minimum").filter(|least| *least > 0), of("maximum")) {
        (Some(least), Some(most)) => Some(format!("From {least} to {most}.")),
        (Some(least), None) => Some(format!("From {least}.")),
        (None, Some(most)) => Some(format!("At most {most}.")),
        (None, None) => None,
    };
    let length = of("maxLength").map(|most| format!("At most {most} characters."));
    let count = of("maxItems").or_else(|| of("maxProperties")).map(|most| format!("At most {most} of them."));
    numbers.or(length).or(count)
}

/// What the API server refuses by rules that a field has; those of an object's own follow its table.
fn rules<'a>(field: &'a Json, own: &'a Json) -> impl Iterator<Item = String> + 'a {
    let shown = if field["properties"].is_object() { &Json::Null } else { own };
    let rules = shown["x-kubernetes-validations"].as_array().into_iter().flatten();
    rules.map(|rule| format!("Refused with: \"{}\"", text(&rule["message"])))
}

fn refused(page: &mut String, schema: &Json) {
    let rules: Vec<&Json> = schema["x-kubernetes-validations"].as_array().into_iter().flatten().collect();
    if !rules.is_empty() {
        page.push_str("\nRefused with:\n\n");
    }
    for rule in rules {
        let _ = writeln!(page, "- \"{}\"", text(&rule["message"]));
    }
}

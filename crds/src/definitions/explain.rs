//! The text of `kubectl explain` for filters. A filter is an object or a list, which a structural schema cannot type, so the
//! description of the field that holds a filter describes its members.

use serde_json::{Value as Json, json};
use tamis_engine::{FilterSpec, PatchSpec};

use super::structural::prose;

/// Returns the descriptions, by place.
pub(super) fn additions() -> Vec<(&'static str, Json)> {
    let fields = format!(
        "A filter is an object with the fields below, or a list of such objects, its branches. The first branch whose `test` \
                 holds applies; the last branch may set `otherwise: true` instead.\n{}\nFields of an operation of `patches`:\n{}",
        members::<FilterSpec>(),
        members::<PatchSpec>(),
    );
    let filters = format!("The filter of each tool, by the name of the tool.\n{fields}");
    let filter = format!("The default filter of the tool. Every filter set that names the tool replaces it.\n{fields}");
    vec![
        ("ToolsFiltersSpec.filters", json!({ "description": filters })),
        ("ResponseSpec.filter", json!({ "description": filter })),
    ]
}

/// Lists the members of a type, each with its doc comment.
fn members<T: schemars::JsonSchema>() -> String {
    let schema = schemars::schema_for!(T).to_value();
    let members = schema["properties"].as_object().into_iter().flatten();
    let lines = members
        .map(|(name, member)| format!("- `{name}`: {}", prose(member["description"].as_str().unwrap_or_default())));
    lines.collect::<Vec<_>>().join("\n")
}

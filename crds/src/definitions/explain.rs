//! What `kubectl explain` says where a schema ends: a filter is an object or a list, which a structural schema cannot
//! type, so its fields are told in the description of the field that holds it.

use serde_json::{Value as Json, json};
use tamis_engine::{FilterSpec, PatchSpec};

use super::structural::prose;

/// Descriptions, by place.
pub(super) fn additions() -> Vec<(&'static str, Json)> {
    let fields = format!(
        "A filter is an object with the fields below, or a list of such objects, its branches, of which the first whose \
         `test` holds applies; the last may say `otherwise: true` instead.\n{}\nAn operation of `patches`:\n{}",
        members::<FilterSpec>(),
        members::<PatchSpec>(),
    );
    let filters = format!("What of each tool's output may pass: the tool's name, and its filter.\n{fields}");
    let filter = format!("The tool's default filter; it gives way to every set that names the tool.\n{fields}");
    vec![
        ("ToolsFiltersSpec.filters", json!({ "description": filters })),
        ("ResponseSpec.filter", json!({ "description": filter })),
    ]
}

/// The members of a type, each with what its comment says.
fn members<T: schemars::JsonSchema>() -> String {
    let schema = schemars::schema_for!(T).to_value();
    let members = schema["properties"].as_object().into_iter().flatten();
    let lines = members
        .map(|(name, member)| format!("- `{name}`: {}", prose(member["description"].as_str().unwrap_or_default())));
    lines.collect::<Vec<_>>().join("\n")
}

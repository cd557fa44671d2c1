//! The JSON Schema of what a program gives.

use serde_json::{Map, Value, json};

use super::{Branch, Index, Pointer, Program, Root};
use crate::Enforcement;

impl Program {
    /// A JSON Schema that the structured content of every successful answer conforms to, where the filter alone
    /// decides its shape: under `Enforced`, with `compact` or `select` in every branch. Otherwise `None`.
    ///
    /// Nothing but the summary's members is `required`: a budget may leave out any other.
    #[must_use]
    pub fn output_schema(&self) -> Option<Value> {
        if self.0.enforcement != Enforcement::Enforced {
            return None;
        }
        let schemas = self.0.branches.iter().map(branch).collect::<Option<Vec<_>>>()?;
        let mut distinct: Vec<Value> = Vec::new();
        for schema in schemas {
            if !distinct.contains(&schema) {
                distinct.push(schema);
            }
        }
        match distinct.len() {
            0 => None,
            1 => distinct.pop(),
            _ => Some(json!({"anyOf": distinct})),
        }
    }
}

fn branch(branch: &Branch) -> Option<Value> {
    if branch.compact.is_some() {
        return Some(json!({
            "type": "object",
            "properties": {
                "summary": {"type": "string"},
                "_compact": {"const": true},
                "_original_items": {"type": "integer", "minimum": 0},
            },
            "required": ["summary", "_compact", "_original_items"],
        }));
    }
    if branch.select.is_empty() {
        return None;
    }
    let item = item(branch);
    let list = json!({"type": "array", "items": item});
    let payload = match branch.root {
        Root::List => list,
        _ => json!({"anyOf": [item, list]}),
    };
    match &branch.root {
        Root::Pointer(pointer) => around(pointer, payload),
        _ => Some(payload),
    }
}

fn item(branch: &Branch) -> Value {
    // What a pattern drops may be listed: no member is required.
    let kept = branch.select.iter().filter(|field| !branch.exclude.names.contains(&field.name));
    let properties: Map<String, Value> = kept.map(|field| (field.name.to_string(), json!({}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// The objects on the way to the payload. Not known where a segment may be an index.
fn around(pointer: &Pointer, payload: Value) -> Option<Value> {
    pointer.segments.iter().rev().try_fold(payload, |inner, name| {
        let properties: Map<String, Value> = std::iter::once((name.text.to_string(), inner)).collect();
        (name.index == Index::None).then(|| json!({"type": "object", "properties": properties}))
    })
}

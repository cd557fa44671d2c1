//! The JSON Schema of a program's output.

use serde_json::{Map, Value, json};

use super::{Branch, Index, Plan, Pointer, Program, Root, StructuredMode};
use crate::answer::{CHUNKS, PAGINATION, TRUNCATED};
use crate::{Enforcement, ReservedInput};

impl Program {
    /// Returns a JSON Schema that the structured content of every successful answer conforms to, if the filter alone decides
    /// the shape. `pagination` is the schema of `_pagination`, if the gateway attaches one.
    #[must_use]
    pub fn output_schema(&self, pagination: Option<&Value>) -> Option<Value> {
        self.0.output_schema(pagination)
    }
}

impl Plan {
    /// Returns a JSON Schema that the structured content of every successful answer conforms to. There is one if the
    /// filter alone decides the shape: under `Enforced`, with `compact` or `select` in every branch, if no answer may be
    /// anything else than JSON and `output.structured` is not `never`. `pagination` is
    /// the schema of `_pagination`, if the gateway attaches one.
    ///
    /// Only the summary's members and `result` are `required`: a budget may leave out any other.
    pub(crate) fn output_schema(&self, pagination: Option<&Value>) -> Option<Value> {
        if self.enforcement != Enforcement::Enforced || self.format_input {
            return None;
        }
        let mut distinct: Vec<Value> = Vec::new();
        for branch in &self.branches {
            for schema in shapes(branch, pagination)? {
                if !distinct.contains(&schema) {
                    distinct.push(schema);
                }
            }
        }
        match distinct.len() {
            0 => None,
            1 => distinct.pop(),
            _ => Some(json!({"type": "object", "anyOf": distinct})),
        }
    }
}

/// Returns the schemas of the objects that a branch may give.
fn shapes(branch: &Branch, pagination: Option<&Value>) -> Option<Vec<Value>> {
    let output = &branch.output;
    if output.structured == StructuredMode::Never || output.inputs.contains(ReservedInput::Format) {
        return None;
    }
    let with = |schema| attached(schema, output.notice, pagination);
    if branch.compact.is_some() {
        return Some(vec![with(json!({
            "type": "object",
            "properties": {
                "summary": {"type": "string"},
                "_compact": {"const": true},
                "_original_items": {"type": "integer", "minimum": 0},
            },
            "required": ["summary", "_compact", "_original_items"],
        }))]);
    }
    if branch.select.is_empty() || !output.is_json() {
        return None;
    }
    let item = item(branch);
    // `retain` leaves an empty list for a list among the items.
    let element = match branch.retain {
        Some(_) => json!({"anyOf": [item, {"type": "array", "maxItems": 0}]}),
        None => item.clone(),
    };
    let list = json!({"type": "array", "items": element});
    let wrapped = |list| with(json!({"type": "object", "properties": {"result": list}, "required": ["result"]}));
    match &branch.root {
        Root::Pointer(pointer) => Some(vec![with(around(pointer, json!({"anyOf": [item, list]}))?)]),
        Root::List => Some(vec![wrapped(list)]),
        Root::Unused | Root::Document | Root::Detect => Some(vec![with(item), wrapped(list)]),
    }
}

/// Adds to an object's schema the members that an answer adds. If the filter gives a member of the same name, its
/// schema stays, since an answer may add none.
fn attached(mut schema: Value, notice: bool, pagination: Option<&Value>) -> Value {
    let truncated = json!({
        "type": "object",
        "properties": {
            "shown": {"type": "integer", "minimum": 0},
            "total": {"type": "integer", "minimum": 0},
            "fewer": {"type": "integer", "minimum": 1},
            "strings": {"const": true},
            "members": {"const": true},
        },
        "additionalProperties": false,
    });
    let chunks = json!({"type": "string"});
    let added =
        [(TRUNCATED, notice.then_some(&truncated)), (CHUNKS, notice.then_some(&chunks)), (PAGINATION, pagination)];
    for (name, added) in added {
        if let (Some(added), Some(Value::Object(properties))) = (added, schema.get_mut("properties")) {
            properties.entry(name).or_insert_with(|| added.clone());
        }
    }
    schema
}

fn item(branch: &Branch) -> Value {
    // A pattern of `exclude` may drop a listed member: no member is required.
    let kept = branch.select.iter().filter(|field| !branch.exclude.names.contains(&field.name));
    let properties: Map<String, Value> = kept.map(|field| (field.name.to_string(), json!({}))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Returns the schema of the objects around the payload. `None` if a segment may be an index.
fn around(pointer: &Pointer, payload: Value) -> Option<Value> {
    pointer.segments.iter().rev().try_fold(payload, |inner, name| {
        let properties: Map<String, Value> = std::iter::once((name.text.to_string(), inner)).collect();
        (name.index == Index::None).then(|| json!({"type": "object", "properties": properties}))
    })
}

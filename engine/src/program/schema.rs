//! The JSON Schema of a program's output.

use serde_json::{Map, Value, json};

use super::{Branch, Index, Plan, Pointer, Program, Root, StructuredMode, declared};
use crate::answer::{CHUNKS, PAGINATION, TRUNCATED};
use crate::{Enforcement, ReservedInput};

impl Program {
    /// Returns a JSON Schema that the structured content of every successful answer conforms to, if there is one.
    ///
    /// There is one if the filter alone decides the shape: under `Enforced`, with `compact` or `select`. Otherwise it is made
    /// of `declared`, the schema that the source declares for its output, if every branch of the filter only removes: what a
    /// filter may remove is not required, and what it certainly removes is not described. Such a schema holds for the
    /// whole output too, which a caller gets under `Advisory`. No answer may be anything else than JSON, and
    /// `output.structured` must not be `never`.
    ///
    /// `pagination` is the schema of `_pagination`, if the gateway attaches one.
    #[must_use]
    pub fn output_schema(&self, pagination: Option<&Value>, declared: Option<&Value>) -> Option<Value> {
        self.0.output_schema(pagination, declared.filter(|declared| declared::is_readable(declared)))
    }

    /// Returns whether [`Program::output_schema`] can use a schema that a source declares: it describes an object, and
    /// its references name definitions of its own (`#/$defs/NAME`).
    #[must_use]
    pub fn reads_output_schema(declared: &Value) -> bool {
        declared::is_readable(declared)
    }
}

impl Plan {
    /// As [`Program::output_schema`], for a `declared` schema that can be read.
    ///
    /// Only the summary's members and `result` are `required`: a budget may leave out any other.
    fn output_schema(&self, pagination: Option<&Value>, declared: Option<&Value>) -> Option<Value> {
        if self.format_input {
            return None;
        }
        let mut distinct: Vec<Value> = Vec::new();
        for branch in &self.branches {
            let source = if gives_its_own(branch, self.enforcement) {
                Source::Filter { of_object: declared.is_some() }
            } else {
                Source::Declared(declared?, self.enforcement)
            };
            for schema in shapes(branch, pagination, source)? {
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

    /// Returns whether answers have a schema. `declares`: the source declares one that can be read.
    pub(crate) fn has_schema(&self, declares: bool) -> bool {
        let any = json!({"type": "object"});
        self.output_schema(None, declares.then_some(&any)).is_some()
    }
}

/// What decides the shape of what a branch gives.
#[derive(Clone, Copy)]
enum Source<'v> {
    /// The filter. `of_object`: the output is declared to be an object.
    Filter { of_object: bool },
    /// The output, for which this schema is declared.
    Declared(&'v Value, Enforcement),
}

/// Whether a branch decides the shape of everything that it gives. Under `Advisory` the output may pass as it came.
fn gives_its_own(branch: &Branch, enforcement: Enforcement) -> bool {
    enforcement == Enforcement::Enforced && (branch.compact.is_some() || !branch.select.is_empty())
}

/// Returns the schemas of the objects that a branch may give.
fn shapes(branch: &Branch, pagination: Option<&Value>, source: Source<'_>) -> Option<Vec<Value>> {
    let output = &branch.output;
    if output.structured == StructuredMode::Never || output.inputs.contains(ReservedInput::Format) {
        return None;
    }
    let with = |schema| attached(schema, output.notice, pagination);
    if let Source::Declared(declared, enforcement) = source {
        let removes = output.is_json() && declared::only_removes(branch);
        return removes.then(|| vec![with(declared::rewritten(declared, branch, enforcement))]);
    }
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
    if !output.is_json() {
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
        Root::Document if matches!(source, Source::Filter { of_object: true }) => Some(vec![with(item)]),
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
        let Some(schema) = schema.as_object_mut() else { continue };
        if let (Some(added), Value::Object(properties)) =
            (added, schema.entry("properties").or_insert_with(|| json!({})))
        {
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

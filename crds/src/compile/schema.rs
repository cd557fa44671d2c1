//! Checks of JSON Schemas in documents.

use serde_json::Value;
use tamis_engine::JsonText;
use tamis_schema::{Patterns, Segment};

use crate::origin::FieldPath;
use crate::sink::DiagnosticSink;

/// Returns whether a schema describes an object and the gateway can validate arguments with it. Reports what is wrong.
pub(super) fn check_object(
    schema: &JsonText,
    at: &FieldPath,
    patterns: &mut Patterns,
    sink: &mut DiagnosticSink<'_>,
) -> bool {
    let parsed: Value = serde_json::from_str(schema.as_str()).unwrap_or_default();
    if parsed.get("type").and_then(Value::as_str) != Some("object") {
        sink.error(at, "is not an object schema", "write `type: object`, with `properties`");
        return false;
    }
    check(schema, at, patterns, sink)
}

/// Returns whether a schema can be used for validation. Reports what is wrong.
pub(super) fn check(schema: &JsonText, at: &FieldPath, patterns: &mut Patterns, sink: &mut DiagnosticSink<'_>) -> bool {
    let Err(problems) = tamis_schema::compile(schema.as_str(), patterns) else { return true };
    for problem in problems {
        let at = problem.place.iter().fold(at.clone(), |at, segment| match segment {
            Segment::Key(key) => at.key(key),
            Segment::Index(index) => at.index(*index),
        });
        sink.error(&at, problem.message, problem.remedy);
    }
    false
}

//! Schemas as they are advertised.

use serde_json::{Value, json};

use crate::mcp::arguments::Reserved;

/// The input schema with the reserved inputs that apply.
pub(super) fn input(mut schema: Value, reserved: &Reserved) -> Value {
    if !reserved.apply {
        return schema;
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    if reserved.raw {
        properties[reserved.output_mode.as_ref()] = json!({
            "type": "string", "enum": ["default", "raw"],
            "description": "`raw` returns the output unfiltered",
        });
    }
    properties[reserved.budget.as_ref()] = json!({
        "type": "integer", "minimum": 1,
        "description": "Largest text to return, in bytes; can only lower the limit that holds",
    });
    schema
}

/// Whether a schema says that every value is an object.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// An output schema for clients that want an object: what [`crate::mcp::encode::tool_result`] does to the output.
pub(super) fn legacy_output(declared: &Value) -> Value {
    if is_object(declared) {
        return declared.clone();
    }
    let mut inner = declared.clone();
    // Definitions are referred to from the document's root, which the wrapper becomes.
    let mut wrapped = json!({"type": "object", "properties": {}, "required": ["result"]});
    for key in ["$schema", "$defs", "definitions"] {
        if let Some(value) = inner.as_object_mut().and_then(|object| object.shift_remove(key)) {
            wrapped[key] = value;
        }
    }
    wrapped["properties"]["result"] = inner;
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_inputs_are_added_as_enforcement_allows() {
        let declared =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        let names = |apply, raw| {
            let schema = input(declared.clone(), &Reserved::new(apply, raw, |_| false));
            schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(true, true), ["a", "_output_mode", "_budget"]);
        assert_eq!(names(true, false), ["a", "_budget"]);
        assert_eq!(names(false, true), ["a"]);
        let taken = input(json!({"type": "object"}), &Reserved::new(true, false, |name| name == "_budget"));
        assert!(taken["properties"].get("__budget").is_some());
    }

    #[test]
    fn output_schemas_of_lists_are_wrapped_with_their_definitions() {
        let object = json!({"type": "object", "properties": {}});
        assert_eq!(legacy_output(&object), object);
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "string"}}});
        let wrapped = legacy_output(&list);
        assert_eq!(wrapped["$defs"], list["$defs"]);
        assert_eq!(wrapped["properties"]["result"], json!({"type": "array", "items": {"$ref": "#/$defs/x"}}));
        let schema = tamis_schema::compile(&wrapped.to_string(), &mut tamis_schema::Patterns::default()).unwrap();
        let is_valid = |text: &str| schema.check(&crate::mcp::arguments::document(text).unwrap()).is_ok();
        assert!(is_valid(r#"{"result":["a"]}"#));
        assert!(!is_valid(r#"{"result":[1]}"#));
        assert!(!is_valid("{}"));
    }
}

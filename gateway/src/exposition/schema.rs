//! The schemas that a list advertises.

use serde_json::{Value, json};

use crate::mcp::arguments::Reserved;

/// Returns the input schema with the reserved inputs that apply.
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
        "description": "Largest answer to return, in bytes; can only lower the limit that holds",
    });
    schema
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
}

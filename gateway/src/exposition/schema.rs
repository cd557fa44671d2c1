//! The schemas that a list advertises.

use serde_json::{Value, json};
use tamis_engine::{Format, ReservedInput};

use crate::mcp::arguments::Reserved;

/// Returns the input schema with the reserved inputs of the tool.
pub(super) fn input(mut schema: Value, reserved: &Reserved) -> Value {
    for (input, name) in reserved.advertised() {
        if !schema.get("properties").is_some_and(Value::is_object) {
            schema["properties"] = json!({});
        }
        schema["properties"][name] = property(input);
    }
    schema
}

/// Returns the schema of a reserved input. It costs every conversation tokens, so it says no more than it must.
fn property(input: ReservedInput) -> Value {
    let whole = |description| json!({"type": "integer", "minimum": 1, "description": description});
    match input {
        ReservedInput::OutputMode => json!({
            "type": "string", "enum": ["default", "raw"],
            "description": "`raw` returns the output unfiltered",
        }),
        ReservedInput::Budget => whole("Largest answer to return, in bytes; can only lower the limit that holds"),
        ReservedInput::BudgetTokens => whole("Largest answer to return, in tokens"),
        ReservedInput::Format => json!({"type": "string", "enum": Format::CHOICES}),
        ReservedInput::Chunk => whole("Chunk to return, by its number in the index"),
        ReservedInput::Offset => json!({"type": "integer", "minimum": 0, "description": "First item to return"}),
        ReservedInput::Limit => whole("Number of items to return"),
    }
}

#[cfg(test)]
mod tests {
    use tamis_engine::ReservedInputs;

    use super::*;

    #[test]
    fn reserved_inputs_are_added_as_enforcement_allows() {
        let declared =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
        let names = |inputs: &[ReservedInput], raw| {
            let inputs = inputs.iter().copied().collect();
            let schema = input(declared.clone(), &Reserved::new(inputs, raw, |_| false));
            schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let both = [ReservedInput::OutputMode, ReservedInput::Budget];
        assert_eq!(names(&both, true), ["a", "_output_mode", "_budget"]);
        assert_eq!(names(&both, false), ["a", "_budget"]);
        assert_eq!(names(&[ReservedInput::BudgetTokens], true), ["a", "_budget_tokens"]);
        assert_eq!(names(&[], true), ["a"]);
        let budget: ReservedInputs = [ReservedInput::Budget].into_iter().collect();
        let taken = input(json!({"type": "object"}), &Reserved::new(budget, false, |name| name == "_budget"));
        assert!(taken["properties"].get("__budget").is_some());
    }
}

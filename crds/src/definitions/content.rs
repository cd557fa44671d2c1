//! Validation rules of Prompts and Resources.

use serde_json::{Value as Json, json};

use super::rules::{MAX_NAME, text};
use crate::compile::{MAX_CONTENT, MAX_PROMPT_BYTES, MAX_PROMPT_PARTS, MAX_RESOURCE_BYTES, MAX_VALUES};

/// Returns the keywords to add to the schemas, by place.
pub(super) fn additions() -> Vec<(&'static str, Json)> {
    let all = || json!({ "maxProperties": MAX_CONTENT, "x-kubernetes-map-type": "atomic" });
    let (values, value) = MAX_VALUES;
    let values = || json!({ "minItems": 1, "maxItems": values });
    let value = || json!({ "maxLength": value });
    vec![
        ("PromptsSpec.prompts", all()),
        ("PromptSpec.arguments", json!({ "maxItems": MAX_PROMPT_PARTS })),
        ("PromptArgumentSpec.name", json!({ "minLength": 1, "maxLength": 64, "pattern": "^[-_.A-Za-z0-9]+$" })),
        ("PromptArgumentSpec.enum", values()),
        ("PromptArgumentSpec.enum.*", value()),
        ("PromptResultSpec", json!({ "maxItems": MAX_PROMPT_PARTS, "maxLength": MAX_PROMPT_BYTES })),
        ("PromptMessageSpec.text", json!({ "maxLength": MAX_PROMPT_BYTES })),
        ("ResourcesSpec.resources", all()),
        ("ResourcesSpec.resourceTemplates", all()),
        ("ResourceSpec.name", text(MAX_NAME)),
        ("ResourceSpec.mimeType", text(256)),
        ("ResourceSpec.text", json!({ "maxLength": MAX_RESOURCE_BYTES })),
        ("ResourceSpec.blob", json!({ "maxLength": 2 * MAX_RESOURCE_BYTES })),
        ("ResourceTemplateSpec.name", text(MAX_NAME)),
        ("ResourceTemplateSpec.mimeType", text(256)),
        ("ResourceTemplateSpec.variables", json!({ "maxProperties": MAX_PROMPT_PARTS })),
        ("TemplateVariableSpec.enum", values()),
        ("TemplateVariableSpec.enum.*", value()),
    ]
}

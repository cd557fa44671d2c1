//! The documents that the suite runs against.

use crate::fixture::Fixture;
use crate::{Era, Upstream};

/// Returns an HTTP API with the tools, prompts and resources that the suite asks for, as far as it can have them.
#[must_use]
pub fn api(upstream: &Upstream) -> String {
    DOCUMENTS.replace("URL", &upstream.url)
}

const DOCUMENTS: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: conformance}
spec:
  name: conformance
  version: '1.0.0'
  description: What the conformance suite asks for
  http:
    baseUrl: URL
    actions:
      test_simple_text:
        description: Returns simple text
        method: GET
        path: /text/This%20is%20a%20simple%20text%20response%20for%20testing.
      test_error_handling:
        description: Always fails
        method: GET
        path: /status/500
      test_streaming_elicitation:
        description: Asks nothing, as no HTTP API does
        method: GET
        path: /log
      test_logging_tool:
        description: Logs nothing, as no HTTP API does
        method: GET
        path: /log
      test_trigger_tool_change:
        description: Changes the list of tools
        method: POST
        path: /trigger/tools
      test_trigger_prompt_change:
        description: Changes the list of prompts
        method: POST
        path: /trigger/prompts
      test_extra:
        description: Comes and goes with test_trigger_tool_change
        method: GET
        path: /log
---
apiVersion: tamis.dev/v1alpha1
kind: Prompts
metadata: {name: conformance}
spec:
  service: {name: conformance, version: '1.0.0'}
  prompts:
    test_simple_prompt:
      description: Has no arguments
      result: This is a simple prompt for testing.
    test_prompt_with_arguments:
      description: Has two arguments
      arguments:
      - {name: arg1, description: First test argument, required: true}
      - {name: arg2, description: Second test argument, required: true}
      result: "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
    test_prompt_with_values:
      description: Has an argument whose values are known
      arguments:
      - {name: arg, enum: [paris, park, party]}
      result: '{arg}'
    test_extra:
      description: Comes and goes with test_trigger_prompt_change
      result: Extra
---
apiVersion: tamis.dev/v1alpha1
kind: Resources
metadata: {name: conformance}
spec:
  service: {name: conformance, version: '1.0.0'}
  resources:
    test://static-text:
      name: static-text
      mimeType: text/plain
      text: This is the content of the static text resource.
    test://static-binary:
      name: static-binary
      mimeType: image/png
      blob: iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
  resourceTemplates:
    test://template/{id}/data:
      name: template
      mimeType: application/json
"#;

/// Returns the exposition of [`api`] with or without the tool `test_extra`, and with or without the prompt `test_extra`.
#[must_use]
pub fn api_exposition(tool: bool, prompt: bool) -> String {
    let exclude = if tool { "[]" } else { "[test_extra]" };
    let without = if prompt { "[]" } else { "[test_extra]" };
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: conformance}}\nspec:\n  service: {{name: conformance, version: '1.0.0'}}\n  \
         tools: {{include: ['*'], exclude: {exclude}}}\n  prompts: {{exclude: {without}}}\n  filters: []\n"
    )
}

/// Returns an exposition of the fixture, as it is.
#[must_use]
pub fn proxied(era: Era, fixture: &Fixture) -> String {
    let (name, url) = (name_of(era), &fixture.url);
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {name}}}\nspec:\n  version: '1.0.0'\n  \
         mcp: {{url: '{url}', follow: true}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec:\n  \
         service: {{name: {name}, version: '1.0.0'}}\n  filters: []\n"
    )
}

/// Returns the name of the exposition of the fixture of an era.
#[must_use]
pub fn name_of(era: Era) -> &'static str {
    match era {
        Era::Legacy => "proxied-legacy",
        Era::Modern => "proxied-modern",
    }
}

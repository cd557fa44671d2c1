//! The expected result of each scenario.

use super::Expected::{self, Except, Outside, Passes, Skipped};
use super::Subject;

/// Returns the expected result of a scenario, if it is known.
#[must_use]
pub fn expected(subject: Subject, scenario: &str) -> Option<Expected> {
    let find = |table: &[(&str, Expected)]| table.iter().find(|(name, _)| *name == scenario).map(|&(_, found)| found);
    match subject {
        Subject::Api => find(API),
        // Everything else passes. Scenarios that the suite adds are listed for the API.
        Subject::Fixture => find(FIXTURE).or_else(|| find(API).map(|_| Passes)),
        Subject::Proxied => find(PROXIED).or_else(|| find(API).map(|_| Passes)),
    }
}

/// The results of the fixture that are not passes.
const FIXTURE: &[(&str, Expected)] = &[
    ("tasks-lifecycle", Outside(TASKS)),
    ("tasks-capability-negotiation", Outside(TASKS)),
    ("tasks-wire-fields", Outside(TASKS)),
    ("tasks-request-state-removal", Outside(TASKS)),
    ("tasks-mrtr-input", Outside(TASKS)),
    ("tasks-request-headers", Outside(TASKS)),
    ("tasks-dispatch-and-envelope", Outside(TASKS)),
    ("tasks-status-notifications", Skipped(TASKS)),
    ("tasks-required-task-error", Outside(TASKS)),
    ("tasks-mrtr-composition", Outside(TASKS)),
];

/// The results of an exposition of the fixture that are not passes.
const PROXIED: &[(&str, Expected)] = &[
    ("server-sse-polling", Skipped(NO_STREAM)),
    ("tasks-lifecycle", Outside(TASKS)),
    ("tasks-capability-negotiation", Outside(TASKS)),
    ("tasks-wire-fields", Outside(TASKS)),
    ("tasks-request-state-removal", Outside(TASKS)),
    ("tasks-mrtr-input", Outside(TASKS)),
    ("tasks-request-headers", Outside(TASKS)),
    ("tasks-dispatch-and-envelope", Outside(TASKS)),
    ("tasks-status-notifications", Skipped(TASKS)),
    ("tasks-required-task-error", Outside(TASKS)),
    ("tasks-mrtr-composition", Outside(TASKS)),
];

const SUBSCRIPTIONS: &str = "changes of the resources of an HTTP API are not announced";
const ASKS: &str = "an HTTP API never sends requests to the client (sampling, elicitation, roots)";
const CONTENT: &str =
    "the answers of an HTTP API and the messages of our prompts are text; other content needs an MCP source";
const NOTIFIES: &str = "an HTTP API sends nothing before its answer; progress and log messages need an MCP source";
const TASKS: &str = "the tasks extension is not offered";
const NO_STREAM: &str = "a call of an HTTP API is answered with JSON, not with a stream that could be resumed";

/// The results of an HTTP API, in every run in which a scenario occurs.
const API: &[(&str, Expected)] = &[
    ("server-initialize", Passes),
    ("server-session-lifecycle", Passes),
    ("ping", Passes),
    ("logging-set-level", Passes),
    ("tools-list", Passes),
    ("tools-call-simple-text", Passes),
    ("tools-call-error", Passes),
    ("dns-rebinding-protection", Passes),
    ("server-sse-multiple-streams", Passes),
    ("http-header-validation", Passes),
    (
        "server-stateless",
        Except(
            &["sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"],
            "no tool of an HTTP API requires a capability of the client",
        ),
    ),
    ("caching", Passes),
    ("completion-complete", Passes),
    ("prompts-list", Passes),
    ("prompts-get-simple", Passes),
    ("prompts-get-with-args", Passes),
    ("prompts-get-embedded-resource", Outside(CONTENT)),
    ("prompts-get-with-image", Outside(CONTENT)),
    ("resources-list", Passes),
    ("resources-read-text", Passes),
    ("resources-read-binary", Passes),
    ("resources-templates-read", Passes),
    ("resources-subscribe", Outside(SUBSCRIPTIONS)),
    ("resources-unsubscribe", Outside(SUBSCRIPTIONS)),
    ("sep-2164-resource-not-found", Passes),
    ("tools-call-image", Outside(CONTENT)),
    ("tools-call-audio", Outside(CONTENT)),
    ("tools-call-embedded-resource", Outside(CONTENT)),
    ("tools-call-mixed-content", Outside(CONTENT)),
    ("tools-call-with-logging", Outside(NOTIFIES)),
    ("tools-call-with-progress", Outside(NOTIFIES)),
    ("server-sse-polling", Skipped(NO_STREAM)),
    ("tools-call-sampling", Outside(ASKS)),
    ("tools-call-elicitation", Outside(ASKS)),
    ("elicitation-sep1034-defaults", Outside(ASKS)),
    ("elicitation-sep1330-enums", Outside(ASKS)),
    ("input-required-result-basic-elicitation", Outside(ASKS)),
    ("input-required-result-basic-sampling", Outside(ASKS)),
    ("input-required-result-basic-list-roots", Outside(ASKS)),
    ("input-required-result-request-state", Outside(ASKS)),
    ("input-required-result-multiple-input-requests", Outside(ASKS)),
    ("input-required-result-multi-round", Outside(ASKS)),
    ("input-required-result-missing-input-response", Outside(ASKS)),
    ("input-required-result-non-tool-request", Outside(ASKS)),
    ("input-required-result-result-type", Outside(ASKS)),
    ("input-required-result-unsupported-methods", Passes),
    ("input-required-result-tampered-state", Outside(ASKS)),
    ("input-required-result-capability-check", Outside(ASKS)),
    ("input-required-result-ignore-extra-params", Outside(ASKS)),
    ("input-required-result-validate-input", Passes),
    ("tasks-lifecycle", Outside(TASKS)),
    ("tasks-capability-negotiation", Outside(TASKS)),
    ("tasks-wire-fields", Outside(TASKS)),
    ("tasks-request-state-removal", Outside(TASKS)),
    ("tasks-mrtr-input", Outside(TASKS)),
    ("tasks-request-headers", Outside(TASKS)),
    ("tasks-dispatch-and-envelope", Outside(TASKS)),
    ("tasks-status-notifications", Skipped(TASKS)),
    ("tasks-required-task-error", Outside(TASKS)),
    ("tasks-mrtr-composition", Outside(TASKS)),
    (
        "json-schema-2020-12",
        Outside("the arguments in a manifest produce plain schemas; other schemas need to be imported"),
    ),
    ("http-custom-header-server-validation", Outside("a manifest declares no `x-mcp-header` arguments")),
];

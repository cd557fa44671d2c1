//! The measured operations: filters as a document would declare them.

use anyhow::{Context, Result};
use tamis_engine::{Call, CompileOptions, Enforcement, Input, Limits, Program, ToolFilter};

use crate::payload::Document;

/// A filter.
pub(crate) struct Operation {
    /// The name in the table.
    pub(crate) name: &'static str,
    /// The name in the baseline.
    pub(crate) baseline: &'static str,
    program: Program,
}

impl Operation {
    /// Returns the filter's output for `input`.
    ///
    /// # Panics
    /// If the filter does not apply cleanly: the benchmark would measure something else.
    #[must_use]
    pub(crate) fn run(&self, input: &[u8]) -> String {
        let filtered = self.program.apply(Input::Json(input), &Call::default()).expect("the filter applies");
        assert!(filtered.report.applied && filtered.report.error.is_none(), "{:?}", filtered.report);
        filtered.text
    }
}

/// Returns the operations on `document`.
///
/// # Errors
/// If a filter does not compile.
pub(crate) fn of(document: Document) -> Result<Vec<Operation>> {
    let filters = match document {
        Document::Issues => [
            (
                "select",
                "select",
                Enforcement::Advisory,
                r#"{"select": {"number": "number", "title": "title", "state": "state", "author": "user.login",
                    "url": "html_url", "closed_at": "closed_at"}, "dropNulls": true}"#,
            ),
            (
                "retain",
                "retain",
                Enforcement::Advisory,
                r#"{"retain": ["/*/number", "/*/title", "/*/state", "/*/user/login", "/*/html_url", "/*/closed_at"]}"#,
            ),
            (
                "exclude",
                "exclude",
                Enforcement::Advisory,
                r#"{"exclude": ["user", "reactions", "repository_url", "labels_url"]}"#,
            ),
            (
                "remove",
                "remove",
                Enforcement::Advisory,
                r#"{"patches": [{"op": "remove", "path": "/0/user"}, {"op": "remove", "path": "/0/reactions"},
                    {"op": "remove", "path": "/0/repository_url"}, {"op": "remove", "path": "/0/labels_url"}]}"#,
            ),
            (
                "patch",
                "patch",
                Enforcement::Enforced,
                r#"{"retain": ["/*/number", "/*/title", "/*/user/login", "/*/assignee"], "patches": [
                    {"op": "test", "path": "/0/number", "value": 1},
                    {"op": "replace", "path": "/0/title", "value": "redacted"}, {"op": "remove", "path": "/0/user"}]}"#,
            ),
        ],
        Document::Items => [
            (
                "select",
                "items-select",
                Enforcement::Advisory,
                r#"{"select": {"number": "number", "title": "title", "author": "user.login", "assignee": "assignee"},
                    "dropNulls": true}"#,
            ),
            (
                "retain",
                "items-retain",
                Enforcement::Advisory,
                r#"{"retain": ["/*/number", "/*/title", "/*/user/login", "/*/assignee"]}"#,
            ),
            (
                "exclude",
                "items-exclude",
                Enforcement::Advisory,
                r#"{"exclude": ["user", "body", "locked", "assignee"]}"#,
            ),
            (
                "remove",
                "items-remove",
                Enforcement::Advisory,
                r#"{"patches": [{"op": "remove", "path": "/0/user"}, {"op": "remove", "path": "/0/body"},
                    {"op": "remove", "path": "/0/locked"}, {"op": "remove", "path": "/0/assignee"}]}"#,
            ),
            (
                "patch",
                "items-patch",
                Enforcement::Enforced,
                r#"{"retain": ["/*/number", "/*/title", "/*/user/login", "/*/assignee"], "patches": [
                    {"op": "test", "path": "/0/number", "value": 1},
                    {"op": "replace", "path": "/0/title", "value": "redacted"}, {"op": "remove", "path": "/0/user"}]}"#,
            ),
        ],
    };
    filters
        .into_iter()
        .map(|(name, baseline, enforcement, filter)| {
            let filter: ToolFilter = serde_json::from_str(filter)?;
            let limits = Limits { max_input_bytes: 1 << 30, ..Limits::default() };
            let options = CompileOptions { enforcement, limits, ..CompileOptions::default() };
            let compiled = tamis_engine::compile(&filter, &options);
            let program = compiled.program.with_context(|| format!("{baseline}: {:?}", compiled.findings))?;
            Ok(Operation { name, baseline, program })
        })
        .collect()
}

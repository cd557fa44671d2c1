//! What a caller learns about a filtering: `_meta`, and the message that replaces withheld data.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::json::encode;
use crate::{Enforcement, Refused, Report, TokenReport, Warning};

impl Report {
    /// Returns the JSON object that results carry as `_meta["tamis.dev/filter"]`.
    ///
    /// The keys are those of the seed's table (kimbap, "Filter metrics"), and further keys for what the table lacks:
    /// the size as compact JSON, warnings, paths that resolve nowhere, and what the budget left out. Under `Enforced`
    /// the object says only that a filter applied, and whether a budget cut the result: sizes and missed paths are
    /// for metrics and audit.
    #[must_use]
    pub fn meta(&self, enforcement: Enforcement) -> Cow<'static, str> {
        if enforcement == Enforcement::Enforced {
            return Cow::Borrowed(match (self.applied, self.budget.is_some()) {
                (true, true) => r#"{"filter_applied":true,"budget_applied":true}"#,
                (true, false) => r#"{"filter_applied":true}"#,
                (false, true) => r#"{"filter_applied":false,"budget_applied":true}"#,
                (false, false) => r#"{"filter_applied":false}"#,
            });
        }
        let mut object = Object::new();
        object.raw("filter_applied", self.applied);
        object.raw("filter_original_bytes", self.original_bytes);
        object.raw("filter_original_compact_bytes", self.compact_bytes);
        object.raw("filter_result_bytes", self.result_bytes);
        if let Some(items) = self.items_truncated_from {
            object.raw("filter_items_truncated_from", items);
        }
        object.list("filter_partial_miss", &self.partial_miss);
        object.list("filter_unresolved", &self.unresolved);
        if let Some(reason) = self.skipped {
            object.raw("filter_skipped", encode(reason));
        }
        if let Some(error) = &self.error {
            object.raw("filter_error", encode(&sentence(error)));
        }
        if let Some(format) = self.format {
            object.raw("format", encode(format.as_str()));
        }
        if let Some(TokenReport { counted, tokenizer, exact }) = self.tokens {
            object.raw("tokens", counted);
            object.raw("tokenizer", encode(tokenizer));
            if !exact {
                object.raw("tokens_are", "\"estimate\"");
            }
            if let Some(tokens) = ratio(self.original_bytes, counted.0, self.output_bytes) {
                object.raw("tokens_original_estimate", tokens);
            }
        }
        if (self.format.is_some() || self.tokens.is_some() || self.budget.is_some())
            && let Some(thousandths) = ratio(self.output_bytes, 1_000, self.original_bytes)
        {
            object.raw("compression_ratio", format_args!("{}.{:03}", thousandths / 1_000, thousandths % 1_000));
        }
        if self.items_truncated_from.is_some() || self.budget.is_some() || self.chunks.is_some() {
            object.raw("truncated", true);
        }
        if let Some(budget) = &self.budget {
            object.raw("budget_applied", true);
            if let Some(bytes) = budget.limit.bytes {
                object.raw("budget_limit", bytes);
            }
            if let Some(tokens) = budget.limit.tokens {
                object.raw("budget_limit_tokens", tokens);
            }
            object.raw("budget_original_bytes", budget.original);
            object.raw("budget_result_bytes", budget.result);
            for (key, count) in [
                ("budget_items_dropped", budget.items_dropped),
                ("budget_strings_truncated", budget.strings_truncated),
                ("budget_members_dropped", budget.members_dropped),
            ] {
                if count > 0 {
                    object.raw(key, count);
                }
            }
            if budget.exceeded {
                object.raw("budget_exceeded", true);
            }
        }
        if !self.levels.is_empty() {
            let levels: Vec<_> = self.levels.iter().map(|(name, items)| format!("{}:{items}", encode(name))).collect();
            object.raw("levels", format_args!("{{{}}}", levels.join(",")));
        }
        if let Some(chunks) = self.chunks {
            object.raw("chunks", chunks);
        }
        if let Some(list) = &self.list {
            object.raw("list", encode(list));
        }
        if let Some(error) = &self.compact_error {
            object.raw("compact_error", encode(error));
        }
        let warnings: Vec<_> = self.warnings.iter().map(sentence).collect();
        object.list("warnings", &warnings);
        Cow::Owned(object.end())
    }
}

/// Returns `number * times / of`, rounded to the nearest number; `None` if `of` is 0.
fn ratio(number: usize, times: usize, of: usize) -> Option<u128> {
    let product = number as u128 * times as u128;
    (of > 0).then(|| (product + of as u128 / 2) / of as u128)
}

fn sentence(warning: &Warning) -> String {
    format!("{}: {}", warning.stage.as_str(), warning.message)
}

/// Bytes of a report without warnings: it is written without growing.
const ROOM: usize = 160;

/// A JSON object under construction.
struct Object(String);

impl Object {
    fn new() -> Self {
        let mut text = String::with_capacity(ROOM);
        text.push('{');
        Self(text)
    }

    /// Adds a member. No key needs escapes.
    fn raw(&mut self, key: &'static str, value: impl std::fmt::Display) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{comma}\"{key}\":{value}");
    }

    /// Adds a list of strings, unless it is empty.
    fn list(&mut self, key: &'static str, values: &[String]) {
        if !values.is_empty() {
            let values: Vec<_> = values.iter().map(|value| encode(value)).collect();
            self.raw(key, format_args!("[{}]", values.join(",")));
        }
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

impl Refused {
    /// Returns the message that replaces the data. It is the same for every cause: which stage failed depends on data
    /// that the filter may have had to remove.
    ///
    /// `mutating` says that the call may have changed something upstream, and so must not be repeated.
    #[must_use]
    pub fn message(mutating: bool) -> &'static str {
        if mutating {
            "The call was executed, but its output is withheld because the output filter could not be applied. \
             Do not repeat the call: its effect has already taken place."
        } else {
            "The output of this call is withheld because the output filter could not be applied."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Budget, BudgetReport, Bytes, Enforcement, Refused, Report, Stage, TokenReport, Tokens, Warning};

    fn full() -> Report {
        Report {
            applied: true,
            original_bytes: 100,
            compact_bytes: 90,
            result_bytes: 50,
            output_bytes: 40,
            items_truncated_from: Some(7),
            partial_miss: vec!["user.\"login\"".to_owned()],
            unresolved: vec!["/a".to_owned()],
            skipped: Some("raw_output"),
            error: Some(Warning { stage: Stage::Patches, message: "patches[0]: `/a` does not exist".to_owned() }),
            warnings: vec![Warning { stage: Stage::Root, message: "w".to_owned() }],
            format: Some(crate::Format::Table),
            levels: vec![("minimal".into(), 3)],
            value: Some(2_100_000),
            chunks: Some(4),
            list: Some("3f9a1c".to_owned()),
            tokens: Some(TokenReport { counted: Tokens(12), tokenizer: "estimate", exact: false }),
            budget: Some(BudgetReport {
                limit: Budget { bytes: Some(Bytes(40)), tokens: Some(Tokens(13)) },
                original: Bytes(50),
                result: Bytes(40),
                items_dropped: 2,
                strings_truncated: 0,
                members_dropped: 0,
                exceeded: true,
            }),
            compact_error: Some("e".to_owned()),
        }
    }

    #[test]
    fn advisory_reports_everything() {
        let expected = r#"{"filter_applied":true,"filter_original_bytes":100,"filter_original_compact_bytes":90,
            "filter_result_bytes":50,"filter_items_truncated_from":7,"filter_partial_miss":["user.\"login\""],
            "filter_unresolved":["/a"],"filter_skipped":"raw_output",
            "filter_error":"patches: patches[0]: `/a` does not exist","format":"table","levels":{"minimal":3},"chunks":4,"list":"3f9a1c",
            "tokens":12,"tokenizer":"estimate","tokens_are":"estimate","tokens_original_estimate":30,
            "compression_ratio":0.4,"truncated":true,
            "budget_applied":true,"budget_limit":40,"budget_limit_tokens":13,
            "budget_original_bytes":50,"budget_result_bytes":40,"budget_items_dropped":2,"budget_exceeded":true,
            "compact_error":"e","warnings":["root: w"]}"#;
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        let actual: serde_json::Value = serde_json::from_str(&full().meta(Enforcement::Advisory)).unwrap();
        assert_eq!(actual, expected);
    }

    #[test]
    fn advisory_leaves_out_what_did_not_happen() {
        assert_eq!(
            Report { applied: true, ..Report::default() }.meta(Enforcement::Advisory),
            r#"{"filter_applied":true,"filter_original_bytes":0,"filter_original_compact_bytes":0,"filter_result_bytes":0}"#
        );
    }

    #[test]
    fn an_answer_is_compared_with_the_original_where_it_was_written_in_a_format_or_cut() {
        let member = |report: Report, key: &str| {
            let meta: serde_json::Value = serde_json::from_str(&report.meta(Enforcement::Advisory)).unwrap();
            meta.get(key).cloned()
        };
        let none = || Report { tokens: None, budget: None, format: None, ..full() };
        let whole = || Report { items_truncated_from: None, chunks: None, ..none() };
        let json = Some(crate::Format::Json);
        for (report, key, want) in [
            (whole(), "compression_ratio", None),
            (whole(), "truncated", None),
            (Report { format: json, ..whole() }, "compression_ratio", Some(0.4.into())),
            (Report { format: json, output_bytes: 1_234, ..whole() }, "compression_ratio", Some(12.34.into())),
            (Report { format: json, original_bytes: 0, ..whole() }, "compression_ratio", None),
            (Report { format: json, ..whole() }, "truncated", None),
            (Report { chunks: Some(2), ..whole() }, "truncated", Some(true.into())),
            (Report { items_truncated_from: Some(9), ..whole() }, "truncated", Some(true.into())),
            (Report { budget: full().budget, ..whole() }, "truncated", Some(true.into())),
            (none(), "tokens_original_estimate", None),
            (Report { output_bytes: 0, ..full() }, "tokens_original_estimate", None),
            (Report { original_bytes: 101, ..full() }, "tokens_original_estimate", Some(30.into())),
        ] {
            assert_eq!(member(report, key), want, "{key}");
        }
    }

    #[test]
    fn enforced_reports_only_that_a_filter_applied_and_that_a_budget_cut() {
        let cut = || full().budget;
        for (applied, budget, expected) in [
            (true, cut(), r#"{"filter_applied":true,"budget_applied":true}"#),
            (true, None, r#"{"filter_applied":true}"#),
            (false, cut(), r#"{"filter_applied":false,"budget_applied":true}"#),
            (false, None, r#"{"filter_applied":false}"#),
        ] {
            assert_eq!(Report { applied, budget, ..full() }.meta(Enforcement::Enforced), expected);
        }
    }

    #[test]
    fn a_refusal_says_whether_the_call_was_executed() {
        assert!(Refused::message(true).contains("was executed") && Refused::message(true).contains("Do not repeat"));
        assert!(!Refused::message(false).contains("executed"));
    }
}

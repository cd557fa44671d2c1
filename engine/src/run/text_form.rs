//! Outputs that are text: declared, not JSON, or text in a JSON object.

use std::borrow::Cow;

use super::{Failure, NotJson, Output, Run};
use crate::Stage;
use crate::json::{Member, Node, encode, to_string};
use crate::program::Branch;
use crate::work::text_steps;

/// The members that may accompany `raw` in an output that is text (seed kimbap: "Fast path").
pub(crate) const METADATA: [&str; 3] = ["_exit_code", "stderr", "_text_filtered"];

/// An output `{"raw": "..."}`, alone or with metadata members: text in a JSON object.
pub(super) struct RawForm<'n, 'a> {
    text: Cow<'n, str>,
    members: &'n [Member<'a>],
}

impl<'n, 'a> RawForm<'n, 'a> {
    pub(super) fn of(document: &'n Node<'a>) -> Option<Self> {
        let members = document.as_object()?;
        let known = |member: &Member<'_>| member.key.is("raw") || METADATA.iter().any(|name| member.key.is(name));
        let text = document.get("raw")?.as_str()?;
        members.iter().all(known).then_some(Self { text, members })
    }

    fn has_metadata(&self) -> bool {
        self.members.iter().any(|member| !member.key.is("raw"))
    }

    /// Returns the object without the text of the first `raw`: what is before it, and after it. Others of that name go.
    fn around(&self) -> Around {
        let first = self.members.iter().position(|member| member.key.is("raw")).unwrap_or(self.members.len());
        let (before, rest) = self.members.split_at(first);
        let key = rest.first().map_or("\"raw\"", |member| member.key.raw());
        let written = |member: &Member<'_>| format!("{}:{}", member.key.raw(), to_string(&member.value));
        let before: String = before.iter().map(|member| written(member) + ",").collect();
        let after = rest.iter().filter(|member| !member.key.is("raw"));
        let after: String = after.map(|member| format!(",{}", written(member))).collect();
        Around { head: format!("{{{before}{key}:"), tail: after + "}" }
    }
}

/// What is around the text of an object.
pub(super) struct Around {
    pub(super) head: String,
    pub(super) tail: String,
}

impl Around {
    /// Returns the object with `text`.
    pub(super) fn with(&self, text: &str) -> String {
        format!("{}{}{}", self.head, encode(text), self.tail)
    }

    /// Returns the object if it has at most `most` bytes, else without its text, else an empty one.
    pub(super) fn within(&self, object: String, most: usize) -> String {
        if object.len() <= most {
            return object;
        }
        let bare = self.with("");
        if bare.len() <= most { bare } else { "{}".to_owned() }
    }
}

impl<'p> Run<'p> {
    /// Filters an output that is not JSON. Only `text` applies and, under `Enforced`, only if it is the only stage.
    pub(super) fn text(&mut self, branch: &'p Branch, text: &str, why: &NotJson) -> Result<Output, Failure> {
        if branch.is_structural() {
            if self.enforced() {
                return Err(Failure::new(Stage::Parse, why.reason()));
            }
            self.report.skipped = Some("not_json");
            match why {
                NotJson::Declared => self.warn(Stage::Parse, "the output is text: only `text` applied"),
                NotJson::Broken(reason) => self.failed(Stage::Parse, reason.clone()),
            }
        }
        let text = self.clean(branch, text)?;
        self.report.result_bytes = text.len();
        self.lines(text, Some(branch))
    }

    /// Filters an output that is text in a JSON object. Its metadata stays under `Advisory` only; without metadata,
    /// the text alone is the output.
    pub(super) fn raw_form(&mut self, branch: &'p Branch, form: &RawForm<'_, '_>) -> Result<Output, Failure> {
        if branch.is_structural() {
            if self.enforced() {
                return Err(Failure::new(Stage::Parse, "the output is text"));
            }
            self.report.skipped = Some("raw_output");
            self.warn(Stage::Parse, "the output is text: only `text` applied");
        }
        let text = self.clean(branch, &form.text)?;
        if form.has_metadata() && !self.enforced() {
            return self.lines_in(&form.around(), &text, branch);
        }
        self.report.result_bytes = text.len();
        self.lines(text, Some(branch))
    }

    /// Stage 9. If it fails under `Advisory`, the text stays unchanged.
    fn clean(&mut self, branch: &'p Branch, text: &str) -> Result<String, Failure> {
        let Some(program) = &branch.text else {
            self.report.applied = !branch.is_structural() && !branch.is_empty();
            return Ok(text.to_owned());
        };
        let bound = text_steps(self.report.original_bytes);
        self.work.begin_stage(bound);
        let cleaned = program.apply_within(text, self.enforced(), self.work);
        if !self.work.end_stage() {
            self.report.applied = true;
            return Ok(cleaned);
        }
        let reason = format!("the expressions take more than {bound} steps on this output");
        if self.enforced() {
            return Err(Failure::new(Stage::Text, reason));
        }
        self.failed(Stage::Text, reason);
        Ok(text.to_owned())
    }
}

//! The reference executor: every stage on the tree of spans, in the order of `filters.md`.

mod finish;
mod items;
mod patch;
mod paths;
mod root;
mod settle;
mod stages;
mod streamed;
#[cfg(test)]
mod tests;
mod text_form;

use std::borrow::Cow;

use crate::json::{Node, compact_len, parse};
use crate::program::{Branch, Guard, Plan, Program};
use crate::{Call, Enforcement, Filtered, Input, Refused, Report, Stage, Structured, Warning};
use finish::Output;
use text_form::RawForm;

pub(crate) use root::{WRAPPERS, score};
pub(crate) use text_form::METADATA;

impl Program {
    /// Runs the program over one output, by the fast path where there is one.
    ///
    /// # Errors
    /// [`Refused`] under `Enforced`, where a stage fails: no data then goes to the caller.
    pub fn apply(&self, input: Input<'_>, call: &Call) -> Result<Filtered, Refused> {
        streamed::apply(self, input, call).unwrap_or_else(|| self.apply_reference(input, call))
    }

    /// Runs the program over one output, stage by stage on a tree: what [`Program::apply`] must equal.
    ///
    /// # Errors
    /// [`Refused`] under `Enforced`, where a stage fails: no data then goes to the caller.
    #[doc(hidden)]
    pub fn apply_reference(&self, input: Input<'_>, call: &Call) -> Result<Filtered, Refused> {
        let source = Source::read(input, &self.0);
        let report = Report {
            original_bytes: source.bytes.len(),
            compact_bytes: source.json.as_ref().map_or(source.bytes.len(), compact_len),
            ..Report::default()
        };
        let mut run = Run { plan: &self.0, call, report };
        let output = run.filter(source);
        run.finish(output)
    }

    /// The posture that the program was compiled for.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        self.0.enforcement
    }
}

/// A stage that failed, in words that hold nothing of the data but its shape.
#[derive(Debug)]
struct Failure {
    stage: Stage,
    reason: String,
}

impl Failure {
    fn new(stage: Stage, reason: impl Into<String>) -> Self {
        Self { stage, reason: reason.into() }
    }
}

/// One output, read.
struct Source<'a> {
    /// As it came.
    bytes: &'a [u8],
    /// The document, or why there is none.
    json: Result<Node<'a>, NotJson>,
}

/// Why an output is not JSON.
enum NotJson {
    /// It is declared to be text.
    Declared,
    /// It is larger than the limit, or does not parse.
    Broken(String),
}

impl NotJson {
    fn reason(&self) -> &str {
        match self {
            Self::Declared => "the output is text",
            Self::Broken(reason) => reason,
        }
    }
}

impl<'a> Source<'a> {
    fn read(input: Input<'a>, plan: &Plan) -> Self {
        let bytes = match input {
            Input::Text(bytes) => return Self { bytes, json: Err(NotJson::Declared) },
            // 204, and upstreams that answer nothing.
            Input::Json(b"") => return Self { bytes: b"", json: Ok(Node::Object(Vec::new())) },
            Input::Json(bytes) => bytes,
        };
        let max = plan.limits.max_input_bytes;
        let json = if bytes.len() > max {
            Err(NotJson::Broken(format!("the output is larger than the {max} bytes that a filter takes")))
        } else {
            parse(bytes, plan.limits.max_depth).map_err(|e| NotJson::Broken(format!("the output is not JSON: {e}")))
        };
        Self { bytes, json }
    }

    fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }

    /// The output as it came.
    fn verbatim(&self) -> Output {
        let structured = if self.json.is_ok() { Structured::Text } else { Structured::None };
        let empty = self.bytes.is_empty() && self.json.is_ok();
        Output { text: if empty { "{}".to_owned() } else { self.text().into_owned() }, structured }
    }
}

/// One application of a program.
struct Run<'p> {
    plan: &'p Plan,
    call: &'p Call,
    report: Report,
}

impl<'p> Run<'p> {
    /// The answer to the caller.
    fn finish(mut self, output: Result<Output, Failure>) -> Result<Filtered, Refused> {
        match output {
            Ok(output) => Ok(Filtered { text: output.text, structured: output.structured, report: self.report }),
            Err(Failure { stage, reason }) => {
                self.report.applied = false;
                self.report.error = Some(Warning { stage, message: reason });
                Err(Refused { stage, report: Box::new(self.report) })
            }
        }
    }

    fn enforced(&self) -> bool {
        self.plan.enforcement == Enforcement::Enforced
    }

    fn warn(&mut self, stage: Stage, message: impl Into<String>) {
        self.report.warnings.push(Warning { stage, message: message.into() });
    }

    /// Notes a stage that failed under `Advisory`; the first is the report's error.
    fn failed(&mut self, stage: Stage, message: String) {
        let warning = Warning { stage, message };
        match self.report.error {
            None => self.report.error = Some(warning),
            Some(_) => self.report.warnings.push(warning),
        }
    }

    fn filter(&mut self, source: Source<'p>) -> Result<Output, Failure> {
        if self.call.raw && !self.enforced() {
            self.report.skipped = Some("raw_mode");
            return Ok(self.untouched(&source));
        }
        if self.call.raw {
            // Callers are refused before the call is made; one that gets here sees what all others see.
            self.warn(Stage::Parse, "raw output was asked for, which `Enforced` refuses");
        }
        let Some(branch) = self.branch(source.json.as_ref().ok()) else {
            if self.enforced() {
                return Err(Failure::new(Stage::Branch, "no branch matches the output"));
            }
            self.report.skipped = Some("no_branch");
            return Ok(self.unfiltered(source));
        };
        if branch.passthrough {
            self.report.skipped = Some("passthrough");
            return Ok(if self.call.budget.is_some() { self.unfiltered(source) } else { self.untouched(&source) });
        }
        let text = source.text();
        match source.json {
            Err(why) => self.text(branch, &text, &why),
            Ok(document) => {
                if let Some(form) = RawForm::of(&document) {
                    return self.raw_form(branch, form);
                }
                if self.enforced() && branch.text.is_some() && !branch.is_structural() {
                    // Lines that happen to be JSON are lines all the same: what `text` is to remove must not
                    // decide whether it applies.
                    return self.text(branch, &text, &NotJson::Declared);
                }
                self.document(branch, document)
            }
        }
    }

    /// Stage 1: the first branch whose test holds on the original output.
    fn branch(&self, document: Option<&Node<'_>>) -> Option<&'p Branch> {
        self.plan.branches.iter().find(|branch| match &branch.guard {
            Guard::Always | Guard::Otherwise => true,
            Guard::Test(path, value) => document.is_some_and(|document| patch::holds(document, path, &value.node())),
        })
    }

    /// The output to the byte.
    fn untouched(&mut self, source: &Source<'_>) -> Output {
        let output = source.verbatim();
        self.report.result_bytes = output.text.len();
        self.report.output_bytes = output.text.len();
        output
    }

    /// The output without any stage but the budget of the call.
    fn unfiltered(&mut self, source: Source<'_>) -> Output {
        match source.json {
            Ok(mut document) => {
                self.report.result_bytes = compact_len(&document);
                let list = document.as_array().is_some().then_some(&[][..]);
                self.json(&mut document, list, None)
            }
            Err(_) => {
                let text = source.text().into_owned();
                self.report.result_bytes = text.len();
                self.lines(text, None)
            }
        }
    }
}

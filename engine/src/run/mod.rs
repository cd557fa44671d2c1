//! The reference executor: runs every stage on a tree of spans, in the order of `filters.md`. It also hands outputs
//! to the fast path, and finishes its results.

mod cascade;
mod compact_rows;
mod editable;
mod finish;
mod fit_chunks;
mod fit_list;
mod items;
mod lines;
mod list;
mod list_answer;
mod lookup;
mod nodes;
mod patch;
mod paths;
mod root;
mod row_pages;
mod row_weights;
mod rows;
mod stages;
mod streamed;
mod summary;
#[cfg(test)]
mod tests;
mod text_form;
mod weigh;

use std::borrow::Cow;

use crate::answer::Output;
use crate::json::{self, Document, Node, ParseErrorKind, to_string_within, values_allowed};
use crate::program::{Branch, Guard, Plan, Program};
use crate::stream;
use crate::work::{Interrupted, Work, stage_steps};
use crate::{Call, Enforcement, Filtered, Input, PageError, Refused, Report, Stage, Warning};
use finish::List;
use lookup::Lookups;
use text_form::RawForm;

pub(crate) use cascade::edited as remove_emptied;
pub(crate) use editable::{Context, Editable, Entered, Miss, Value, View};
pub(crate) use paths::narrowed;
pub(crate) use root::{WRAPPERS, score};
pub(crate) use text_form::METADATA;

/// Outputs of more bytes are not filtered inline by [`Program::apply_light`], if they stream.
const LIGHT_STREAMED: usize = 128 << 10;
/// The same limit for outputs whose stages run on a tree or on text.
const LIGHT_TREE: usize = 16 << 10;
/// The steps after which an inline run is abandoned: about 100 microseconds.
const LIGHT_STEPS: usize = 50_000;

impl Program {
    /// Runs the program over one output, by the fast path if possible.
    ///
    /// # Errors [`Refused`] if a stage fails under `Enforced`: no data then goes to the caller.
    pub fn apply(&self, input: Input<'_>, call: &Call<'_>) -> Result<Filtered, Refused> {
        self.run(input, call, &Work::unlimited()).expect("nothing interrupts this run")
    }

    /// Runs the program over one output as long as `interrupt` returns `false`. It is polled every few thousand
    /// steps, 10 to 100 microseconds, in every loop whose length depends on the output.
    ///
    /// # Errors [`Interrupted`] if `interrupt` returned `true`, under either enforcement: there is then no output,
    /// not even an unfiltered one. Otherwise the result is that of [`Program::apply`].
    pub fn apply_until(
        &self,
        input: Input<'_>,
        call: &Call<'_>,
        interrupt: &dyn Fn() -> bool,
    ) -> Result<Result<Filtered, Refused>, Interrupted> {
        self.run(input, call, &Work::until(interrupt))
    }

    /// Runs the program over one output if that takes at most about 100 microseconds, so that a thread that serves
    /// other calls can run it inline. Returns `None` if it takes longer: run [`Program::apply_until`] on another
    /// thread then. Streamed outputs may have 128 KiB; outputs that need a tree, a template or patterns may have 16
    /// KiB.
    #[must_use]
    pub fn apply_light(&self, input: Input<'_>, call: &Call<'_>) -> Option<Result<Filtered, Refused>> {
        let bytes = input.bytes().len();
        if bytes > LIGHT_STREAMED {
            return None;
        }
        let work = Work::at_most(LIGHT_STEPS);
        let done = match streamed::apply(self, input, call, &work) {
            Some(done) => done,
            None if bytes > LIGHT_TREE || work.is_interrupted() => return None,
            None => self.stages(input, call, &work),
        };
        (!work.is_interrupted()).then_some(done)
    }

    /// Runs the program over one output, stage by stage on a tree: the reference that [`Program::apply`] must equal.
    ///
    /// # Errors [`Refused`] if a stage fails under `Enforced`: no data then goes to the caller.
    #[doc(hidden)]
    pub fn apply_reference(&self, input: Input<'_>, call: &Call<'_>) -> Result<Filtered, Refused> {
        self.stages(input, call, &Work::unlimited())
    }

    fn run(
        &self,
        input: Input<'_>,
        call: &Call<'_>,
        work: &Work<'_>,
    ) -> Result<Result<Filtered, Refused>, Interrupted> {
        work.poll()?;
        let streamed = streamed::apply(self, input, call, work);
        work.poll()?;
        let done = streamed.unwrap_or_else(|| self.stages(input, call, work));
        // A result that was cut short is not an answer.
        if work.is_interrupted() { Err(Interrupted) } else { Ok(done) }
    }

    fn stages(&self, input: Input<'_>, call: &Call<'_>, work: &Work<'_>) -> Result<Filtered, Refused> {
        work.end_stage();
        let source = Source::read(input, &self.0, call, work);
        let report =
            Report { original_bytes: input.bytes().len(), compact_bytes: source.compact_bytes, ..Report::default() };
        let mut run = Run { plan: &self.0, call, work, exceeded: false, report };
        let output = run.filter(source);
        run.finish(output)
    }

    /// Returns the enforcement that the program was compiled for.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        self.0.enforcement
    }
}

/// A failed stage. The reason describes the shape of the data at most, never its content.
#[derive(Debug)]
struct Failure {
    stage: Stage,
    reason: String,
    /// Set if the call asks for a page that there is not.
    page: Option<PageError>,
}

impl Failure {
    fn new(stage: Stage, reason: impl Into<String>) -> Self {
        Self { stage, reason: reason.into(), page: None }
    }
}

/// One output, parsed.
struct Source<'a> {
    /// The original bytes, without a byte order mark before JSON.
    bytes: &'a [u8],
    /// The document, or the reason why there is none.
    json: Result<Node<'a>, NotJson>,
    /// The size without insignificant whitespace.
    compact_bytes: usize,
}

/// Why an output is not JSON.
enum NotJson {
    /// It is declared to be text.
    Declared,
    /// It exceeds a limit, or does not parse.
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
    fn read(input: Input<'a>, plan: &Plan, call: &Call<'_>, work: &Work<'_>) -> Self {
        let Input::Json(bytes) = input else {
            let bytes = input.bytes();
            return Self { bytes, json: Err(NotJson::Declared), compact_bytes: bytes.len() };
        };
        let bytes = without_bom(bytes);
        let (json, compact_bytes) = match document(bytes, plan, plan.is_verbatim(call), work) {
            Ok(Document { node, compact_len }) => (Ok(node), compact_len),
            Err(reason) => (Err(NotJson::Broken(reason)), bytes.len()),
        };
        Self { bytes, json, compact_bytes }
    }

    fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

/// Parses an output, or returns the reason why it is not a document. An output that passes `verbatim` is only
/// validated: the tree is then not the document.
fn document<'a>(bytes: &'a [u8], plan: &Plan, verbatim: bool, work: &Work<'_>) -> Result<Document<'a>, String> {
    let limits = plan.limits;
    if bytes.is_empty() {
        // The body of a 204, and of upstreams that answer nothing.
        return Ok(Document { node: Node::Object(Vec::new()), compact_len: 2 });
    }
    if bytes.len() > limits.max_input_bytes {
        return Err(format!("the output is larger than the {} bytes that a filter takes", limits.max_input_bytes));
    }
    if verbatim && let Some(compact_len) = stream::compact_len(bytes, limits.max_depth, work) {
        return Ok(Document { node: Node::NULL, compact_len });
    }
    let values = values_allowed(bytes.len());
    json::read(bytes, limits.max_depth, values, work).map_err(|error| match error.kind {
        ParseErrorKind::TooManyValues => {
            format!("the output has more than {values} members and elements, which is the limit for its size")
        }
        _ => format!("the output is not JSON: {error}"),
    })
}

/// Returns JSON without the UTF-8 byte order mark that some upstreams put before it (RFC 8259 section 8.1).
pub(crate) fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// One application of a program.
struct Run<'p> {
    plan: &'p Plan,
    call: &'p Call<'p>,
    work: &'p Work<'p>,
    /// Whether the last stage reached its bound.
    exceeded: bool,
    report: Report,
}

impl<'p> Run<'p> {
    /// Returns the answer to the caller.
    fn finish(mut self, output: Result<Output, Failure>) -> Result<Filtered, Refused> {
        match output {
            Ok(Output { text, notice, structured }) => Ok(Filtered { text, notice, structured, report: self.report }),
            Err(Failure { stage, reason, page }) => {
                self.report.applied = false;
                self.report.error = Some(Warning { stage, message: reason });
                Err(Refused { stage, report: Box::new(self.report), page })
            }
        }
    }

    fn enforced(&self) -> bool {
        self.plan.enforcement == Enforcement::Enforced
    }

    fn warn(&mut self, stage: Stage, message: impl Into<String>) {
        self.report.warnings.push(Warning { stage, message: message.into() });
    }

    /// Records a stage that failed under `Advisory`; the first one becomes the report's error.
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
            return self.passed(source);
        }
        if self.call.raw {
            // The gateway refuses such calls; one that arrives here gets the filtered output like any other.
            self.warn(Stage::Parse, "raw output was asked for, which `Enforced` refuses");
        }
        self.work.begin_stage(stage_steps(self.report.original_bytes));
        let branch = self.branch(source.json.as_ref().ok());
        if self.work.end_stage() {
            let reason = "the tests take too many steps on this output";
            if self.enforced() {
                return Err(Failure::new(Stage::Branch, reason));
            }
            self.failed(Stage::Branch, reason.to_owned());
            return self.unfiltered(source);
        }
        let Some(branch) = branch else {
            if self.enforced() {
                return Err(Failure::new(Stage::Branch, "no branch matches the output"));
            }
            self.report.skipped = Some("no_branch");
            return self.unfiltered(source);
        };
        if branch.passthrough {
            self.report.skipped = Some("passthrough");
            return self.passed(source);
        }
        if branch.is_empty() {
            self.report.skipped = Some("no_stage");
        }
        let text = source.text();
        match source.json {
            Err(why) => self.text(branch, &text, &why),
            Ok(document) => {
                if let Some(form) = RawForm::of(&document) {
                    return self.raw_form(branch, &form);
                }
                if self.enforced() && branch.text.is_some() && !branch.is_structural() {
                    // Lines that happen to be JSON are lines all the same: data that `text` removes must not decide
                    // whether `text` applies.
                    return self.text(branch, &text, &NotJson::Declared);
                }
                self.document(branch, document, source.bytes)
            }
        }
    }

    /// Stage 1: returns the first branch whose test holds on the original output.
    fn branch(&self, document: Option<&Node<'_>>) -> Option<&'p Branch> {
        let mut lookups = Lookups::new(&self.plan.tested_names, self.work);
        self.plan.branches.iter().find(|branch| match &branch.guard {
            Guard::Always | Guard::Otherwise => true,
            Guard::Test(path, value) => {
                let found = document.and_then(|document| lookups.at(document, path));
                found.is_some_and(|found| found.equals_within(&value.node(), self.work))
            }
        })
    }

    /// Returns the output byte for byte, unless the call has a budget, a format or a page.
    fn passed(&mut self, source: Source<'_>) -> Result<Output, Failure> {
        if self.call.shapes() { self.unfiltered(source) } else { Ok(self.untouched(&source)) }
    }

    /// Returns the output byte for byte.
    fn untouched(&mut self, source: &Source<'_>) -> Output {
        let is_json = source.json.is_ok();
        let text = if is_json && source.bytes.is_empty() { "{}".to_owned() } else { source.text().into_owned() };
        self.verbatim(text, is_json)
    }

    /// Returns the output unfiltered, within the budget of the call.
    fn unfiltered(&mut self, source: Source<'_>) -> Result<Output, Failure> {
        match source.json {
            Ok(document) => {
                let text = to_string_within(&document, self.work);
                self.report.result_bytes = text.len();
                let list = if self.enforced() { List::At(&[], None) } else { List::Detect };
                self.json(text, list, None)
            }
            Err(_) => {
                let text = source.text().into_owned();
                self.report.result_bytes = text.len();
                self.lines(text, None)
            }
        }
    }
}

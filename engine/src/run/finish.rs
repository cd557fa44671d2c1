//! Stages 10 and 11, for both executors: fit an output and its frame into the budget, and write it.

use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;

use super::{Failure, Run, root};
use crate::budget::{self, Attempt, Cut, Form, Frame, Items, PAGINATION, TRUNCATED, fit_json, fit_text, search};
use crate::json::{Node, compact_len_within, write_within};
use crate::program::Branch;
use crate::stream;
use crate::template::{CompactProgram, Meter, Room};
use crate::work::Work;
use crate::{Budget, BudgetReport, Bytes, Parts, Stage, Structured, TokenReport, Tokens};

/// The blocks that go to the model.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) notice: Option<String>,
    pub(super) structured: Structured,
}

/// Where a budget finds the items.
#[derive(Clone, Copy)]
pub(super) enum List<'p> {
    /// At this place, if there is a list. The number is its length before `maxItems`; `None` means its present
    /// length.
    At(&'p [usize], Option<usize>),
    /// Where `maxItems` would find them.
    Detect,
    /// Nowhere: the output is not a list.
    None,
}

/// Why `compact` rendered nothing.
enum NoSummary {
    /// The payload is not a list, and `compact` works on lists.
    NoList,
    /// The renderer reached a limit.
    Failed(String),
}

impl NoSummary {
    fn as_str(&self) -> &str {
        match self {
            Self::NoList => "the payload is not a list",
            Self::Failed(reason) => reason,
        }
    }
}

impl Output {
    /// Returns the bytes of the text blocks or of the structured content, whichever are more.
    fn bytes(&self) -> Bytes {
        let Self { text, notice, structured } = self;
        let blocks = text.len() + notice.as_ref().map_or(0, String::len);
        let object = structured.parts(text).map_or(0, |Parts { open, json, rest }| {
            open.len() + json.len() + rest.iter().map(|part| part.len()).sum::<usize>()
        });
        Bytes(blocks.max(object))
    }
}

/// An answer that was made for one limit in bytes.
struct Fitted {
    output: Output,
    /// Set if it was trimmed.
    budget: Option<BudgetReport>,
}

/// How many bytes of a text, for each token that the answer may have, are counted to learn the size of its tokens.
const SAMPLE: usize = 4;

/// Adds its frame to an output that is JSON.
fn framed(frame: Frame<'_>, text: String, cut: Cut, work: &Work<'_>) -> Output {
    let members = frame.members(cut);
    let structured = if members.is_empty() || Form::of(&text) == Form::Wrapped {
        Structured::Text { members }
    } else {
        // No name may occur twice, in any spelling: readers would take different values.
        match stream::without_members(&text, &[PAGINATION, TRUNCATED], work) {
            None => Structured::Text { members },
            Some(text) => {
                let json = Structured::Text { members }.to_json(&text);
                json.map_or(Structured::None, Structured::Json)
            }
        }
    };
    Output { text, notice: frame.notice(cut), structured }
}

impl<'p> Run<'p> {
    /// Returns the limits on the answer: for each unit, the smaller of the filter's and the call's.
    fn limit(&self, branch: Option<&Branch>) -> Budget {
        let Budget { bytes, tokens } = self.call.budget;
        let asked = Budget { bytes: bytes.filter(|bytes| bytes.0 > 0), tokens: tokens.filter(|tokens| tokens.0 > 0) };
        branch.map_or(asked, |branch| branch.budget.tightest(asked))
    }

    /// Returns what is added to an output. `branch` is `None` for an output that passes unchanged.
    fn frame(&self, branch: Option<&Branch>) -> Frame<'p> {
        Frame { pagination: self.call.pagination, notice: branch.is_none_or(|branch| branch.notice) }
    }

    /// Counts the tokens of `text`, at least as far as `most`.
    fn count(&self, text: &str, most: Tokens) -> Tokens {
        let mut keep_going = |bytes: usize| self.work.spend_unbounded(bytes / 16);
        // An interrupted run has no result, whatever its size.
        self.call.counter.count(text, most, &mut keep_going).unwrap_or_default()
    }

    /// Counts the tokens of an answer, at least as far as `most`: of its text blocks or its structured content,
    /// whichever has more.
    fn tokens(&self, output: &Output, most: Tokens) -> Tokens {
        let Output { text, notice, structured } = output;
        let first = self.count(text, most);
        let second = notice.as_ref().map_or(Tokens(0), |notice| self.count(notice, most));
        let blocks = Tokens(first.0.saturating_add(second.0));
        if blocks > most {
            return blocks;
        }
        let structured = match structured {
            Structured::None => Tokens(0),
            Structured::Text { members } if members.is_empty() && Form::of(text) == Form::Object => first,
            Structured::Text { .. } => structured.to_json(text).map_or(Tokens(0), |object| self.count(&object, most)),
            Structured::Json(object) => self.count(object, most),
        };
        blocks.max(structured)
    }

    /// Takes over an answer that fits, or that is the smallest there is. `tokens` is its count where one was asked for.
    fn finished(&mut self, output: Output, tokens: Option<Tokens>) -> Output {
        self.report.output_bytes = output.text.len() + output.notice.as_ref().map_or(0, String::len);
        let counter = self.call.counter;
        let report = |counted| TokenReport { counted, tokenizer: counter.tokenizer.name(), exact: counter.is_exact() };
        self.report.tokens = tokens.map(report);
        output
    }

    /// Finds the best answer within `limit`. `attempt` makes the answer for a limit in bytes, if there is one.
    fn fitted<E>(&mut self, limit: Budget, attempt: impl Fn(Option<Bytes>) -> Result<Fitted, E>) -> Result<Output, E> {
        let mut fitted = attempt(limit.bytes)?;
        let mut tokens = None;
        if let Some(most) = limit.tokens {
            let found = self.within(most, fitted, attempt)?;
            // Counting ends above the limit, but the report has the whole count.
            let whole = || self.tokens(&found.answer.output, Tokens(usize::MAX));
            tokens = Some(if found.tokens > most { whole() } else { found.tokens });
            fitted = found.answer;
        }
        let Fitted { output, budget } = fitted;
        self.report.budget = budget.map(|budget| {
            let too_many_bytes = limit.bytes.is_some_and(|most| budget.result > most);
            BudgetReport { limit, exceeded: too_many_bytes || tokens > limit.tokens, ..budget }
        });
        Ok(self.finished(output, tokens))
    }

    /// Finds the best answer of at most `most` tokens. `whole` is the answer without that limit.
    fn within<E>(
        &self,
        most: Tokens,
        whole: Fitted,
        attempt: impl Fn(Option<Bytes>) -> Result<Fitted, E>,
    ) -> Result<Attempt<Fitted>, E> {
        let counted = |answer: Fitted| {
            let tokens = self.tokens(&answer.output, most);
            Attempt { bytes: answer.output.bytes(), tokens, answer }
        };
        let whole = counted(whole);
        if whole.tokens <= most {
            return Ok(whole);
        }
        let text = &whole.answer.output.text;
        let sample = &text[..text.floor_char_boundary(most.0.saturating_mul(SAMPLE).max(64))];
        let tokens = self.count(sample, Tokens(usize::MAX)).0.max(1);
        let guess = Bytes(sample.len().saturating_mul(most.0) / tokens);
        search(most, whole.bytes, guess, |limit| attempt(Some(limit)).map(counted))
    }

    /// Returns the output byte for byte. `is_json` says whether it was parsed as JSON.
    pub(super) fn verbatim(&mut self, text: String, is_json: bool) -> Output {
        let frame = self.frame(None);
        self.report.result_bytes = text.len();
        let cut = Cut::default();
        let output = if is_json {
            framed(frame, text, cut, self.work)
        } else {
            Output { text, notice: frame.notice(cut), structured: Structured::None }
        };
        self.finished(output, None)
    }

    /// Returns the answer with the whole document, if it fits. `size` is that of the compact document.
    fn whole(&mut self, document: &Node<'_>, size: usize, (frame, limit): (Frame<'p>, Budget)) -> Option<Output> {
        let form = if document.as_object().is_some() { Form::Object } else { Form::Wrapped };
        let cut = Cut::default();
        if limit.bytes.is_some_and(|limit| !frame.cost(size, form, cut).fits(limit)) {
            return None;
        }
        let mut text = String::with_capacity(size);
        write_within(document, &mut text, self.work);
        self.counted(framed(frame, text, cut, self.work), limit).ok()
    }

    /// Counts the tokens of an answer, if there is a limit in tokens. Returns the answer as an error if it does not fit.
    fn counted(&mut self, output: Output, limit: Budget) -> Result<Output, Output> {
        let counted = limit.tokens.map(|most| (self.tokens(&output, most), most));
        if counted.is_some_and(|(counted, most)| counted > most) {
            return Err(output);
        }
        Ok(self.finished(output, counted.map(|(counted, _)| counted)))
    }

    /// Adds its frame to a document that has been written. Returns the document as an error if it must be rendered or
    /// trimmed, which needs a tree.
    pub(super) fn written(&mut self, branch: &Branch, text: String) -> Result<Output, String> {
        let frame = self.frame(Some(branch));
        // If `maxItems` left something out, it shows as many items as it may.
        let items = self.report.items_truncated_from.zip(branch.max_items);
        let cut = Cut { items: items.and_then(|(total, shown)| Items::cut(shown, total)), ..Cut::default() };
        let limit = self.limit(Some(branch));
        let fits = |limit| frame.cost(text.len(), Form::of(&text), cut).fits(limit);
        if branch.compact.is_some() || !limit.bytes.is_none_or(fits) {
            return Err(text);
        }
        self.counted(framed(frame, text, cut, self.work), limit).map_err(|output| output.text)
    }

    /// Encodes a document. `payload` is the place of its payload, with the number of items before `maxItems` if it is
    /// a list.
    pub(super) fn encode(
        &mut self,
        branch: &Branch,
        mut document: Node<'_>,
        payload: Option<&(root::Place, Option<usize>)>,
    ) -> Result<Output, Failure> {
        if let Some(compact) = &branch.compact {
            match self.summary(compact, branch, &mut document, payload) {
                Ok(output) => return Ok(output),
                // Without the templates, fields that they do not print would show.
                Err(reason) if self.enforced() => return Err(Failure::new(Stage::Compact, reason.as_str())),
                Err(NoSummary::NoList) => self.warn(Stage::Compact, NoSummary::NoList.as_str()),
                Err(NoSummary::Failed(reason)) => self.report.compact_error = Some(reason),
            }
        }
        let list = match payload {
            Some((place, Some(total))) => List::At(place.as_slice(), Some(*total)),
            _ if branch.detects_list => List::Detect,
            // No stage looked for a payload: a document that is a list is trimmed as one.
            _ => List::At(&[], None),
        };
        Ok(self.json(&mut document, list, Some(branch)))
    }

    fn summary(
        &mut self,
        compact: &CompactProgram,
        branch: &Branch,
        document: &mut Node<'_>,
        payload: Option<&(root::Place, Option<usize>)>,
    ) -> Result<Output, NoSummary> {
        let place = match payload {
            Some((place, Some(total))) => Some((place.clone(), Some(*total))),
            _ if branch.detects_list => root::list(document, self.work).map(|place| (place, None)),
            _ => None,
        };
        let Some((place, total)) = place else { return Err(NoSummary::NoList) };
        let Some(Node::Array(items)) = root::at(document, &place) else { return Err(NoSummary::NoList) };
        let (frame, limit) = (self.frame(Some(branch)), self.limit(Some(branch)));
        let total = total.unwrap_or(items.len());
        let original = self.report.original_bytes;
        let render = |limit: Option<Bytes>| {
            let room = limit.map(|limit| Room { limit, frame });
            compact.render(items, total, room, Meter::of(original, self.work))
        };
        let silent = Cell::new(false);
        let output = self.fitted(limit, |limit| {
            let summary = render(limit).map_err(|error| NoSummary::Failed(error.to_string()))?;
            silent.set(summary.silent);
            let cut = summary.cut();
            let structured = Structured::Json(summary.structured(&frame.members(cut)));
            let output = Output { text: summary.text, notice: frame.notice(cut), structured };
            Ok(Fitted { output, budget: summary.budget })
        })?;
        if silent.get() {
            self.report.unresolved.push("compact.item".to_owned());
            self.warn(Stage::Compact, "`compact.item` printed nothing of any item");
        }
        Ok(output)
    }

    /// Encodes a document as JSON, within the budget.
    pub(super) fn json(&mut self, document: &mut Node<'_>, list: List<'_>, branch: Option<&Branch>) -> Output {
        let (frame, limit) = (self.frame(branch), self.limit(branch));
        let size = compact_len_within(document, self.work);
        let found;
        let list = match list {
            List::At(place, total) => Some((place, total)),
            List::Detect => {
                if let Some(output) = self.whole(document, size, (frame, limit)) {
                    return output;
                }
                found = root::list(document, self.work);
                found.as_deref().map(|place| (place, None))
            }
            List::None => None,
        };
        let list = list.and_then(|(place, total)| {
            let length = root::at(document, place).and_then(|list| list.as_array().map(<[_]>::len))?;
            Some(budget::List { place, total: total.unwrap_or(length) })
        });
        let document = &*document;
        let Ok(output) = self.fitted(limit, |limit| {
            // Only an answer that is trimmed needs a copy.
            let mut document = Cow::Borrowed(document);
            let (cut, budget) = fit_json(&mut document, list, (size, limit), &frame, self.work);
            // A trimmed document is written into a buffer of its trimmed size.
            let mut text = String::with_capacity(budget.as_ref().map_or(size, |report| report.result.0));
            write_within(&document, &mut text, self.work);
            Ok::<_, Infallible>(Fitted { output: framed(frame, text, cut, self.work), budget })
        });
        output
    }

    /// Encodes text, within the budget.
    pub(super) fn lines(&mut self, text: String, branch: Option<&Branch>) -> Output {
        let (frame, limit) = (self.frame(branch), self.limit(branch));
        let whole = frame.cost(text.len(), Form::Text, Cut::default());
        let Ok(output) = self.fitted(limit, |limit| {
            let mut cut = Cut::default();
            let Some(limit) = limit.filter(|limit| !whole.fits(*limit)) else {
                let output = Output { text: text.clone(), notice: frame.notice(cut), structured: Structured::None };
                return Ok::<_, Infallible>(Fitted { output, budget: None });
            };
            let room = |cut| limit.0.saturating_sub(frame.cost(0, Form::Text, cut).counted().0);
            let mut fitted = fit_text(&text, room(cut));
            cut.strings = fitted.as_ref().is_some_and(|fitted| fitted.shortened);
            if cut.strings {
                fitted = fit_text(&text, room(cut));
            }
            let text = fitted.map_or_else(|| text.clone(), |fitted| fitted.text);
            let after = frame.cost(text.len(), Form::Text, cut);
            let budget = BudgetReport {
                result: after.counted(),
                strings_truncated: usize::from(cut.strings),
                ..BudgetReport::new(limit, whole.counted())
            };
            let output = Output { text, notice: frame.notice(cut), structured: Structured::None };
            Ok(Fitted { output, budget: Some(budget) })
        });
        output
    }
}

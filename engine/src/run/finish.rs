//! Stages 10 and 11, for both executors: fit an output and its frame into the budget, and write it.

use super::{Failure, Run, root};
use crate::budget::{self, Cut, Form, Frame, Items, PAGINATION, TRUNCATED, fit_json, fit_text};
use crate::json::{Node, compact_len_within, write_within};
use crate::program::Branch;
use crate::stream;
use crate::template::{CompactProgram, Meter, Room};
use crate::{BudgetReport, Bytes, Stage, Structured};

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

impl<'p> Run<'p> {
    /// Returns the smaller of the filter's budget and the call's.
    fn limit(&self, branch: Option<&Branch>) -> Option<Bytes> {
        let asked = self.call.budget.filter(|bytes| *bytes > Bytes(0));
        branch.and_then(|branch| branch.budget).into_iter().chain(asked).min()
    }

    /// Returns what is added to an output. `branch` is `None` for an output that passes unchanged.
    fn frame(&self, branch: Option<&Branch>) -> Frame<'p> {
        Frame { pagination: self.call.pagination, notice: branch.is_none_or(|branch| branch.notice) }
    }

    /// Adds its frame to an output that is JSON.
    fn framed(&mut self, frame: Frame<'_>, text: String, cut: Cut) -> Output {
        let members = frame.members(cut);
        let structured = if members.is_empty() || Form::of(&text) == Form::Wrapped {
            Structured::Text { members }
        } else {
            // No name may occur twice, in any spelling: readers would take different values.
            match stream::without_members(&text, &[PAGINATION, TRUNCATED], self.work) {
                None => Structured::Text { members },
                Some(text) => {
                    let json = Structured::Text { members }.to_json(&text);
                    json.map_or(Structured::None, Structured::Json)
                }
            }
        };
        self.output(frame, text, structured, cut)
    }

    fn output(&mut self, frame: Frame<'_>, text: String, structured: Structured, cut: Cut) -> Output {
        let notice = frame.notice(cut);
        self.report.output_bytes = text.len() + notice.as_ref().map_or(0, String::len);
        Output { text, notice, structured }
    }

    /// Returns the output byte for byte. `is_json` says whether it was parsed as JSON.
    pub(super) fn verbatim(&mut self, text: String, is_json: bool) -> Output {
        let frame = self.frame(None);
        self.report.result_bytes = text.len();
        if is_json {
            self.framed(frame, text, Cut::default())
        } else {
            self.output(frame, text, Structured::None, Cut::default())
        }
    }

    /// Adds its frame to a document that has been written. Returns the document as an error if it must be rendered or
    /// trimmed, which needs a tree.
    pub(super) fn written(&mut self, branch: &Branch, text: String) -> Result<Output, String> {
        let frame = self.frame(Some(branch));
        // If `maxItems` left something out, it shows as many items as it may.
        let items = self.report.items_truncated_from.zip(branch.max_items);
        let cut = Cut { items: items.and_then(|(total, shown)| Items::cut(shown, total)), ..Cut::default() };
        let fits = |limit| frame.cost(text.len(), Form::of(&text), cut).fits(limit);
        if branch.compact.is_some() || !self.limit(Some(branch)).is_none_or(fits) {
            return Err(text);
        }
        Ok(self.framed(frame, text, cut))
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
        let frame = self.frame(Some(branch));
        let room = self.limit(Some(branch)).map(|limit| Room { limit, frame });
        let total = total.unwrap_or(items.len());
        let meter = Meter::of(self.report.original_bytes, self.work);
        let summary = compact.render(items, total, room, meter);
        let summary = summary.map_err(|error| NoSummary::Failed(error.to_string()))?;
        if summary.silent {
            self.report.unresolved.push("compact.item".to_owned());
            self.warn(Stage::Compact, "`compact.item` printed nothing of any item");
        }
        let cut = summary.cut();
        let structured = Structured::Json(summary.structured(&frame.members(cut)));
        self.report.budget = summary.budget;
        Ok(self.output(frame, summary.text, structured, cut))
    }

    /// Encodes a document as JSON, within the budget.
    pub(super) fn json(&mut self, document: &mut Node<'_>, list: List<'_>, branch: Option<&Branch>) -> Output {
        let (frame, limit) = (self.frame(branch), self.limit(branch));
        let size = compact_len_within(document, self.work);
        let form = if document.as_object().is_some() { Form::Object } else { Form::Wrapped };
        let found;
        let list = match list {
            List::At(place, total) => Some((place, total)),
            List::Detect if limit.is_some_and(|limit| !frame.cost(size, form, Cut::default()).fits(limit)) => {
                found = root::list(document, self.work);
                found.as_deref().map(|place| (place, None))
            }
            List::Detect | List::None => None,
        };
        let list = list.and_then(|(place, total)| {
            let length = root::at(document, place).and_then(|list| list.as_array().map(<[_]>::len))?;
            Some(budget::List { place, total: total.unwrap_or(length) })
        });
        let (cut, report) = fit_json(document, list, (size, limit), &frame, self.work);
        // A trimmed document is written into a buffer of its trimmed size.
        let mut text = String::with_capacity(report.as_ref().map_or(size, |report| report.result.0));
        self.report.budget = report;
        write_within(document, &mut text, self.work);
        self.framed(frame, text, cut)
    }

    /// Encodes text, within the budget.
    pub(super) fn lines(&mut self, mut text: String, branch: Option<&Branch>) -> Output {
        let (frame, limit) = (self.frame(branch), self.limit(branch));
        let mut cut = Cut::default();
        let cost = frame.cost(text.len(), Form::Text, cut);
        if let Some(limit) = limit.filter(|limit| !cost.fits(*limit)) {
            let room = |cut| limit.0.saturating_sub(frame.cost(0, Form::Text, cut).counted().0);
            let mut fitted = fit_text(&text, room(cut));
            cut.strings = fitted.as_ref().is_some_and(|fitted| fitted.shortened);
            if cut.strings {
                fitted = fit_text(&text, room(cut));
            }
            text = fitted.map_or(text, |fitted| fitted.text);
            let after = frame.cost(text.len(), Form::Text, cut);
            self.report.budget = Some(BudgetReport {
                result: after.counted(),
                strings_truncated: usize::from(cut.strings),
                exceeded: !after.fits(limit),
                ..BudgetReport::new(limit, cost.counted())
            });
        }
        self.output(frame, text, Structured::None, cut)
    }
}

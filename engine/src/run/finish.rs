//! Stages 10 and 11: budget, summary, encoding.

use super::{Failure, Run, root};
use crate::budget::{fit_json, fit_text};
use crate::json::{Node, compact_len_within, write_within};
use crate::program::Branch;
use crate::template::{CompactProgram, Meter};
use crate::{Stage, Structured};

/// What goes to the model.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) structured: Structured,
}

/// Where a budget finds the items.
#[derive(Clone, Copy)]
pub(super) enum List<'p> {
    /// There, if there is a list.
    At(&'p [usize]),
    /// Where `maxItems` would find them.
    Detect,
    /// The output is no list.
    None,
}

/// Why `compact` rendered nothing.
enum NoSummary {
    /// It works on lists.
    NoList,
    /// A limit of the renderer was reached.
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

impl Run<'_> {
    /// The smaller of the filter's budget and the call's.
    pub(super) fn limit(&self, own: Option<usize>) -> Option<usize> {
        let asked = self.call.budget.filter(|bytes| *bytes > 0);
        own.into_iter().chain(asked).min()
    }

    /// Encodes a document whose payload, of `total` items if it is a list, is at `place`.
    pub(super) fn encode(
        &mut self,
        branch: &Branch,
        mut document: Node<'_>,
        payload: Option<&(root::Place, Option<usize>)>,
    ) -> Result<Output, Failure> {
        if let Some(compact) = &branch.compact {
            match self.summary(compact, branch, &mut document, payload) {
                Ok(output) => return Ok(output),
                // The fields that the templates do not print were not meant to be seen.
                Err(reason) if self.enforced() => return Err(Failure::new(Stage::Compact, reason.as_str())),
                Err(NoSummary::NoList) => self.warn(Stage::Compact, NoSummary::NoList.as_str()),
                Err(NoSummary::Failed(reason)) => self.report.compact_error = Some(reason),
            }
        }
        let list = match payload {
            Some((place, Some(_))) => List::At(place.as_slice()),
            _ if branch.detects => List::Detect,
            // No stage has looked for a payload: a document that is a list is trimmed as one.
            _ => List::At(&[]),
        };
        Ok(self.json(&mut document, list, branch.budget))
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
            _ if branch.detects => root::list(document, self.work).map(|place| (place, None)),
            _ => None,
        };
        let Some((place, total)) = place else { return Err(NoSummary::NoList) };
        let Some(Node::Array(items)) = root::at(document, &place) else { return Err(NoSummary::NoList) };
        let limit = self.limit(branch.budget);
        let total = total.unwrap_or(items.len());
        let meter = Meter::of(self.report.original_bytes, self.work);
        let summary = compact.render_within(items, total, limit, meter);
        let summary = summary.map_err(|error| NoSummary::Failed(error.to_string()))?;
        if summary.silent {
            self.report.unresolved.push("compact.item".to_owned());
            self.warn(Stage::Compact, "`compact.item` printed nothing of any item");
        }
        let structured = Structured::Json(summary.structured());
        self.report.budget = summary.budget;
        self.report.output_bytes = summary.text.len();
        Ok(Output { text: summary.text, structured })
    }

    /// Encodes a document as JSON, within the budget.
    pub(super) fn json(&mut self, document: &mut Node<'_>, list: List<'_>, own: Option<usize>) -> Output {
        if let Some(limit) = self.limit(own) {
            let found;
            let list = match list {
                List::At(place) => Some(place),
                List::Detect if compact_len_within(document, self.work) > limit => {
                    found = root::list(document, self.work);
                    found.as_deref()
                }
                List::Detect | List::None => None,
            };
            self.report.budget = fit_json(document, list, limit, self.work);
        }
        let mut text = String::with_capacity(compact_len_within(document, self.work));
        write_within(document, &mut text, self.work);
        self.report.output_bytes = text.len();
        Output { text, structured: Structured::Text }
    }

    /// Gives text, within the budget.
    pub(super) fn lines(&mut self, mut text: String, own: Option<usize>) -> Output {
        if let Some((fitted, report)) = self.limit(own).and_then(|limit| fit_text(&text, limit)) {
            text = fitted;
            self.report.budget = Some(report);
        }
        self.report.output_bytes = text.len();
        Output { text, structured: Structured::None }
    }
}

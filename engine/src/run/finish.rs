//! Stages 10 and 11: budget, summary, encoding.

use super::{Failure, Run, root};
use crate::budget::{fit_json, fit_text};
use crate::json::{Node, to_string};
use crate::program::Branch;
use crate::template::CompactProgram;
use crate::{Stage, Structured};

/// What goes to the model.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) structured: Structured,
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
                Err(reason) if self.enforced() => return Err(Failure::new(Stage::Compact, reason)),
                Err(reason) => self.report.compact_error = Some(reason),
            }
        }
        let list = match payload {
            Some((place, Some(_))) => Some(place.as_slice()),
            // No stage has looked for a payload: a document that is a list is trimmed as one.
            _ => document.as_array().is_some().then_some(&[][..]),
        };
        Ok(self.json(&mut document, list, branch.budget))
    }

    fn summary(
        &mut self,
        compact: &CompactProgram,
        branch: &Branch,
        document: &mut Node<'_>,
        payload: Option<&(root::Place, Option<usize>)>,
    ) -> Result<Output, String> {
        let found = payload.and_then(|(place, total)| Some((root::at(document, place)?, (*total)?)));
        let Some((Node::Array(items), total)) = found else {
            return Err("the payload is not a list".to_owned());
        };
        let limit = self.limit(branch.budget);
        let summary = compact.render(items, total, limit).map_err(|error| error.to_string())?;
        let structured = Structured::Json(summary.structured());
        self.report.budget = summary.budget;
        self.report.output_bytes = summary.text.len();
        Ok(Output { text: summary.text, structured })
    }

    /// Encodes a document as JSON, within the budget.
    pub(super) fn json(&mut self, document: &mut Node<'_>, list: Option<&[usize]>, own: Option<usize>) -> Output {
        if let Some(limit) = self.limit(own) {
            self.report.budget = fit_json(document, list, limit);
        }
        let text = to_string(document);
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

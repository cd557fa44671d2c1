//! Stage 11, `compact`, for both executors: fits a summary into the budget.

use std::cell::Cell;

use super::finish::{Fitted, Settings};
use super::{Run, root};
use crate::answer::Output;
use crate::json::Node;
use crate::pages::PageError;
use crate::program::Branch;
use crate::template::{CompactProgram, Meter, Room};
use crate::{Bytes, Stage, Structured};

/// Why `compact` rendered nothing.
pub(super) enum NoSummary {
    /// The payload is not a list, and `compact` works on lists.
    NoList,
    /// The renderer reached a limit.
    Failed(String),
    /// There is no such chunk.
    NoPage(PageError),
}

impl NoSummary {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::NoList => "the payload is not a list",
            Self::Failed(reason) => reason,
            Self::NoPage(_) => "there is no such chunk",
        }
    }
}

impl<'p> Run<'p> {
    /// Answers with a summary of the list: a rendered line for each item, within the budget.
    ///
    /// # Errors The reason why there is none.
    pub(super) fn summary(
        &mut self,
        compact: &CompactProgram,
        branch: &'p Branch,
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
        self.call.page.of_one_chunk().map_err(NoSummary::NoPage)?;
        let Settings { frame, scale, .. } = self.settings(Some(branch));
        let total = total.unwrap_or(items.len());
        let items = &items[self.call.page.window(items.len())];
        let original = self.report.original_bytes;
        let render = |limit: Option<Bytes>| {
            let room = limit.map(|limit| Room { limit, frame });
            compact.render(items, total, room, Meter::of(original, self.work))
        };
        let silent = Cell::new(false);
        let output = self.fitted(scale, |limit| {
            let summary = render(limit).map_err(|error| NoSummary::Failed(error.to_string()))?;
            silent.set(summary.silent);
            let cut = summary.cut();
            let structured = match frame.structured {
                true => Structured::Json(summary.structured(&frame.members(cut))),
                false => Structured::None,
            };
            let output = Output { text: summary.text, notice: frame.notice(cut), structured };
            Ok(Fitted { output, budget: summary.budget })
        })?;
        if silent.get() {
            self.report.unresolved.push("compact.item".to_owned());
            self.warn(Stage::Compact, "`compact.item` printed nothing of any item");
        }
        Ok(output)
    }
}

//! Stage 11, `compact`: answers with a summary of the list.

use super::compact_rows::CompactRows;
use super::{Failure, Run, root};
use crate::Stage;
use crate::answer::Output;
use crate::json::Node;
use crate::program::Branch;
use crate::template::{CompactProgram, Meter};

/// Why there is no summary.
pub(super) enum NoSummary {
    /// The payload is not a list.
    NoList,
    /// The renderer reached a limit.
    Failed(String),
    /// There is no chunk of the number that the call asks for.
    NoPage(Failure),
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
        compact: &'p CompactProgram,
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
        let original = self.report.original_bytes;
        let mut meter = Meter::of(original, self.work);
        let lines = compact.lines(items, &mut meter).map_err(|error| NoSummary::Failed(error.to_string()))?;
        let settings = self.settings(Some(branch));
        let total = total.unwrap_or(items.len());
        let rows = CompactRows::new(&settings, compact, &lines, (items, total), original, self.work);
        let output = self.rows(&settings, &rows);
        if let Some(error) = rows.failed() {
            // What is said of the summary does not hold for what takes its place.
            (self.report.chunks, self.report.list, self.report.budget) = (None, None, None);
            return Err(NoSummary::Failed(error.to_string()));
        }
        let output = output.map_err(NoSummary::NoPage)?;
        if lines.silent {
            self.report.unresolved.push("compact.item".to_owned());
            self.warn(Stage::Compact, "`compact.item` printed nothing of any item");
        }
        Ok(output)
    }
}

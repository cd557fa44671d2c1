//! The compiled settings of a filter.

use std::sync::Arc;

use super::candidates::Candidates;
use super::choose::Algorithm;
use super::details::{Details, Levels};
use super::fields::Field;
use super::presets::{Preset, ToolKind};
use super::values::{Strategy, groups};
use crate::work::Work;

/// The number of items and comments from which on the default is `greedy` and not `knapsack`.
const FEW: usize = 100;

/// How a budget decides what to show: the compiled fields `preset`, `strategy`, `algorithm` and `levels` of `output`.
#[derive(Debug)]
pub(crate) struct FitProgram {
    pub(crate) preset: Option<Preset>,
    pub(crate) strategy: Strategy,
    /// The field with the group of an item.
    pub(crate) group: Option<Field>,
    /// The algorithm that the filter names.
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) levels: Levels,
}

impl FitProgram {
    /// Returns the program of a filter that says nothing: the strategy follows from the tool.
    pub(crate) fn of(tool: ToolKind) -> Self {
        let strategy = tool.strategy();
        Self { preset: None, strategy, group: None, algorithm: None, levels: Levels::default() }
    }

    /// Returns the value of each item, see [`Strategy::values`].
    pub(crate) fn values(&self, items: &[&str], work: &Work<'_>) -> Vec<u64> {
        self.strategy.values(items, work)
    }

    /// Returns the group of each item, for [`Candidates::set_groups`]; `None` if there are no groups.
    pub(crate) fn groups(&self, items: &[&str], work: &Work<'_>) -> Option<Vec<u32>> {
        self.group.as_ref().map(|field| groups(field, items, work))
    }

    /// Returns whether values or groups depend on fields of the items.
    pub(crate) fn reads_items(&self) -> bool {
        self.group.is_some() || self.strategy.reads_items()
    }

    /// Returns the forms of an item. If all items take the same form, as in a table, those are the item and its levels.
    pub(crate) fn details<'p, 'i>(&'p self, item: &'i str, uniform: bool, work: &Work<'_>) -> Details<'p, 'i> {
        Details::new(item, &self.levels, self.strategy.comments().filter(|_| !uniform), work)
    }

    /// Returns whether items have forms with fewer comments.
    pub(crate) fn has_comments(&self) -> bool {
        self.strategy.comments().is_some()
    }

    /// Returns the algorithm for a list: the one that the filter names, or else `head_tail` with that strategy, `fair`
    /// where there are groups, `knapsack` below 100 items and comments, and `greedy`.
    ///
    /// The default never works against the strategy: the seed takes both ends of 10,000 items whatever they are worth.
    pub(crate) fn algorithm(&self, candidates: &Candidates) -> Algorithm {
        let comments = candidates.forms_in_all().saturating_sub(candidates.len() * self.levels.len());
        match (self.algorithm, &self.strategy, &self.group) {
            (Some(named), _, _) => named,
            (None, Strategy::HeadTail { .. }, _) => Algorithm::HeadTail,
            (None, _, Some(_)) => Algorithm::Fair,
            (None, _, None) if comments.max(candidates.len()) < FEW => Algorithm::Knapsack,
            (None, _, None) => Algorithm::Greedy,
        }
    }

    /// Returns the list of expressions that the program holds, see [`crate::Program::expressions`].
    pub(crate) fn expressions(&self) -> Option<(usize, usize)> {
        self.strategy.boost().map(|boost| (Arc::as_ptr(boost) as usize, boost.bytes()))
    }

    /// Returns the bytes that one search may hold at once.
    pub(crate) fn search_bytes(&self) -> usize {
        self.strategy.boost().map_or(0, |boost| boost.search_bytes())
    }
}

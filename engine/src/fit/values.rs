//! What items are worth (`filters.md`, "Values"; seed 002, "Trimming Strategies").

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::fields::Field;
use super::weights::Weights;
use crate::json;
use crate::text::Patterns;
use crate::work::{Work, text_steps};

/// The value of an ordinary item. Values are whole numbers, so that every machine computes the same ones.
pub(crate) const ORDINARY: u64 = 1_000_000;
/// What the position in the list takes from the last item under `element_count`.
const LAST: u64 = 700_000;
/// The value of a thread that is resolved.
const RESOLVED: u64 = 300_000;

/// Which items are worth most.
#[derive(Debug, Clone)]
pub(crate) enum Strategy {
    /// All items are worth the same.
    Default,
    /// The first item is worth most.
    ElementCount,
    /// The newest item is worth most.
    Cascading {
        /// Where the newest item is.
        newest: Newest,
    },
    /// The type of a file decides.
    SizeProportional {
        /// The field with the path of the file.
        path: Field,
        /// What the types are worth.
        weights: Arc<Weights>,
    },
    /// Open threads are worth more than resolved ones, and have a form for each number of comments.
    ThreadLevel {
        /// The field that says whether the thread is resolved.
        resolved: Field,
        /// The field with the list of comments.
        comments: Field,
    },
    /// Lines, or items, that match are worth twice as much.
    HeadTail {
        /// What matches; `None` if nothing does.
        boost: Option<Arc<Patterns>>,
    },
}

/// The place of the newest item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newest {
    First,
    Last,
}

impl Strategy {
    /// Returns the value of each item, in millionths of an ordinary item, at least 1. `items` are JSON.
    ///
    /// A field that is absent, or of another type, counts as if `resolved` were false and the path another file. The
    /// expressions of `boost` are a stage of their own; if they exceed its steps, no item matches.
    pub(crate) fn values(&self, items: &[&str], work: &Work<'_>) -> Vec<u64> {
        let count = items.len();
        let each = |value: &mut dyn FnMut(&str) -> u64| {
            let polled = items.iter().take_while(|_| work.spend_unbounded(1));
            let mut values: Vec<u64> = polled.map(|item| value(item).max(1)).collect();
            // Only an interrupted run, which has no result, leaves items without a value.
            values.resize(count, 1);
            values
        };
        match self {
            Self::Default => vec![ORDINARY; count],
            Self::ElementCount => {
                let last = count.saturating_sub(1).max(1) as u64;
                (0..count as u64).map(|i| ORDINARY - LAST * i / last).collect()
            }
            Self::Cascading { newest } => {
                let older = |newer: &u64| Some((newer * 95 / 100).max(1));
                let mut values: Vec<u64> = std::iter::successors(Some(ORDINARY), older).take(count).collect();
                if *newest == Newest::Last {
                    values.reverse();
                }
                values
            }
            Self::SizeProportional { path, weights } => {
                each(&mut |item| path.text(item, work).map_or(ORDINARY, |path| weights.of(&path, work)))
            }
            Self::ThreadLevel { resolved, comments: _ } => each(&mut |item| {
                if resolved.json(item, work) == Some("true") { RESOLVED } else { ORDINARY }
            }),
            Self::HeadTail { boost: None } => vec![ORDINARY; count],
            Self::HeadTail { boost: Some(boost) } => {
                let mut cache = boost.cache();
                work.begin_stage(text_steps(items.iter().map(|item| item.len()).sum()));
                let values =
                    each(&mut |item| if boost.is_match(&mut cache, item, work) { 2 * ORDINARY } else { ORDINARY });
                if work.end_stage() { vec![ORDINARY; count] } else { values }
            }
        }
    }

    /// Returns whether values depend on fields of the items.
    pub(crate) fn reads_items(&self) -> bool {
        match self {
            Self::SizeProportional { .. } | Self::ThreadLevel { .. } => true,
            Self::Default | Self::ElementCount | Self::Cascading { .. } | Self::HeadTail { .. } => false,
        }
    }

    /// Returns the expressions of lines and items that are worth more.
    pub(crate) fn boost(&self) -> Option<&Arc<Patterns>> {
        match self {
            Self::HeadTail { boost } => boost.as_ref(),
            Self::Default
            | Self::ElementCount
            | Self::Cascading { .. }
            | Self::SizeProportional { .. }
            | Self::ThreadLevel { .. } => None,
        }
    }

    /// Returns the field with the comments of an item, if the strategy shows so many of them.
    pub(crate) fn comments(&self) -> Option<&Field> {
        match self {
            Self::ThreadLevel { resolved: _, comments } => Some(comments),
            Self::Default
            | Self::ElementCount
            | Self::Cascading { .. }
            | Self::SizeProportional { .. }
            | Self::HeadTail { .. } => None,
        }
    }
}

/// Returns the group of each item: equal values of `field` are one group, and items without it are one too. Groups are
/// numbered in the order of their first items.
pub(crate) fn groups<'i>(field: &Field, items: &[&'i str], work: &Work<'_>) -> Vec<u32> {
    let mut numbers: HashMap<Option<Cow<'i, str>>, u32> = HashMap::new();
    let group = |item: &&'i str| {
        let value = field.json(item, work).map(|value| {
            // Two spellings of a string are one value.
            let spelled = value.starts_with('"') && value.contains('\\');
            if spelled { Cow::Owned(json::encode(&json::decode_lossy(value))) } else { Cow::Borrowed(value) }
        });
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(value).or_insert(next)
    };
    items.iter().map(group).collect()
}

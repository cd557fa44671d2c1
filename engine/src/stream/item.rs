//! Narrows the items of a list that has been filtered: single values, known to be valid JSON.

use super::automaton::Automaton;
use super::narrow::Narrow;
use super::run::Run;
use crate::json::DEPTH_CEILING;
use crate::program::Trie;
use crate::work::Work;

/// Paths of what an item keeps.
#[derive(Debug)]
pub(crate) struct ItemPaths(Narrow);

impl ItemPaths {
    /// Returns `None` if the paths need the tree. With `scalars`, a scalar stays where a path continues.
    pub(crate) fn new(trie: &Trie, scalars: bool) -> Option<Self> {
        Some(Self(Narrow { paths: Automaton::new(trie)?, way: None, selects: false, scalars }))
    }

    /// Appends what the paths keep of `item`, as `retain` does. Returns `false`, and appends nothing, if the item needs
    /// the tree.
    pub(crate) fn keep(&self, item: &str, out: &mut String, work: &Work<'_>) -> bool {
        let mut bytes = Vec::with_capacity(item.len());
        let mut run = Run::new(item.as_bytes(), &mut bytes, work);
        let kept = run.document(|run, pos| self.0.document(run, pos, DEPTH_CEILING)).is_ok();
        drop(run);
        // The paths copy whole values and keys of a text, so the result is a text.
        if kept && let Ok(text) = str::from_utf8(&bytes) {
            out.push_str(text);
        }
        kept
    }
}

//! Reads and narrows the items of a list that has been filtered: single values, known to be valid JSON.

use std::ops::Range;

use super::automaton::Automaton;
use super::narrow::Narrow;
use super::run::Run;
use super::scan::{self, Scan};
use crate::json::{DEPTH_CEILING, Key};
use crate::program::{Name, Trie};
use crate::work::Work;

/// Returns the place of the value that `path` names in `item`; of duplicate members the last. `None` if there is none.
pub(crate) fn value_at(item: &str, path: &[Name], work: &Work<'_>) -> Option<Range<usize>> {
    let mut unused = Vec::new();
    let mut run = Run::new(item.as_bytes(), &mut unused, work);
    let mut pos = scan::blanks(run.bytes, 0, &mut run.tally);
    for name in path {
        pos = below(&mut run, item, pos, name).ok()??;
    }
    Some(pos..run.skip(pos, DEPTH_CEILING).ok()?)
}

/// Returns the position of the value of member or element `name` of the value at `pos`.
fn below(run: &mut Run<'_>, item: &str, pos: usize, name: &Name) -> Scan<Option<usize>> {
    let close = match (run.at(pos), name.index.number()) {
        (b'{', _) => b'}',
        (b'[', Some(_)) => b']',
        _ => return Ok(None),
    };
    let mut found = None;
    let mut index = 0;
    let (mut pos, mut more) = run.open(pos, close)?;
    while more {
        let value = if close == b'}' {
            let end = scan::string(run.bytes, pos + 1)?;
            let value = scan::colon(run.bytes, end, &mut run.tally)?;
            if Key::from_raw(&item[pos..end]).is(&name.text) {
                found = Some(value);
            }
            value
        } else {
            if name.index.number() == Some(index) {
                return Ok(Some(pos));
            }
            pos
        };
        index += 1;
        (pos, more) = {
            let after = run.skip(value, DEPTH_CEILING)?;
            run.next(after, close)?
        };
    }
    Ok(found)
}

/// Returns the places of the elements of the list at `list` in `item`. `None` if the value there is no list.
pub(crate) fn elements(item: &str, list: Range<usize>, work: &Work<'_>) -> Option<Vec<Range<usize>>> {
    let mut unused = Vec::new();
    let mut run = Run::new(&item.as_bytes()[..list.end], &mut unused, work);
    if run.at(list.start) != b'[' {
        return None;
    }
    let mut elements = Vec::new();
    let (mut pos, mut more) = run.open(list.start, b']').ok()?;
    while more {
        let end = run.skip(pos, DEPTH_CEILING).ok()?;
        elements.push(pos..end);
        (pos, more) = run.next(end, b']').ok()?;
    }
    Some(elements)
}

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
        let mut bytes = std::mem::take(out).into_bytes();
        let start = bytes.len();
        let mut run = Run::new(item.as_bytes(), &mut bytes, work);
        let kept = run.document(|run, pos| self.0.document(run, pos, DEPTH_CEILING)).is_ok();
        drop(run);
        if !kept {
            bytes.truncate(start);
        }
        // The paths copy whole values and keys of a text, so the result is a text.
        *out = String::from_utf8(bytes).unwrap_or_default();
        kept
    }
}

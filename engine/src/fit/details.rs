//! The forms of an item: in full, with fewer comments, and the declared levels.

use std::ops::Range;

use super::fields::Field;
use crate::json::{self, DEPTH_CEILING};
use crate::program::Trie;
use crate::run;
use crate::stream::ItemPaths;
use crate::work::Work;

/// Levels of detail, from rich to poor.
#[derive(Debug, Default)]
pub(crate) struct Levels(Box<[Level]>);

/// A level of detail: what an item keeps.
#[derive(Debug)]
pub(crate) struct Level {
    name: Box<str>,
    paths: Trie,
    scalars: bool,
    /// The paths, if they need no tree.
    fast: Option<ItemPaths>,
}

impl Level {
    /// Returns a level that keeps what `paths` lead to, as `retain` does. With `scalars`, a scalar stays where a path
    /// continues.
    pub(crate) fn new(name: impl Into<Box<str>>, mut paths: Trie, scalars: bool) -> Self {
        paths.shrink();
        Self { name: name.into(), fast: ItemPaths::new(&paths, scalars), paths, scalars }
    }

    /// Returns the name of the level in documents and reports.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends what the level keeps of `item`, an object.
    fn write(&self, item: &str, out: &mut String, work: &Work<'_>) {
        if self.fast.as_ref().is_some_and(|fast| fast.keep(item, out, work)) {
            return;
        }
        // The item is JSON, so only an interruption ends the parser early: the run then has no result.
        if let Ok(document) = json::read(item.as_bytes(), DEPTH_CEILING, usize::MAX, work) {
            json::write_within(&run::narrowed(document.node, &self.paths, self.scalars, work), out, work);
        }
    }
}

impl Levels {
    /// Returns levels in this order, from rich to poor.
    pub(crate) fn new(levels: Vec<Level>) -> Self {
        Self(levels.into())
    }

    /// Returns the number of levels.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the levels, from rich to poor.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.0.iter()
    }
}

/// What a level leaves that keeps nothing.
const NOTHING: &str = "{}";

/// A form of an item: its value in millionths of an ordinary item, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Detail {
    pub(crate) value: u64,
    pub(crate) bytes: usize,
    /// Whether the form shows something of the item. A form that does not is none.
    pub(crate) shows: bool,
}

/// One item and its forms, from rich to poor. Form 0 is the item in full; then follow the forms with fewer comments,
/// and then the levels.
///
/// A level comes last, and so it keeps no more comments than the form before it.
#[derive(Debug)]
pub(crate) struct Details<'p, 'i> {
    item: &'i str,
    /// The list of comments, if the item has a form for each number of them.
    comments: Option<Box<Comments>>,
    /// The levels; empty for an item that is no object.
    levels: &'p [Level],
}

/// A list of three or more comments.
#[derive(Debug)]
struct Comments {
    list: Range<usize>,
    elements: Vec<Range<usize>>,
}

impl Comments {
    /// The comments that every form shows: the first and the last.
    const LEAST: usize = 2;

    /// Returns the number of forms, with the one that shows all.
    fn forms(&self) -> usize {
        self.elements.len() - Self::LEAST + 1
    }

    /// Returns the size of the list with the first comment and `others` of the last ones.
    fn bytes(&self, shown: &[Range<usize>]) -> usize {
        let elements = self.elements[..1].iter().chain(shown);
        1 + elements.map(|element| element.len() + 1).sum::<usize>()
    }

    /// Returns the comments that a form shows after the first one: the newest are the last.
    fn others(&self, form: usize) -> &[Range<usize>] {
        &self.elements[1 + form..]
    }
}

impl<'p, 'i> Details<'p, 'i> {
    /// Returns the forms of `item`. `comments` is the field with its list of comments, if it has a form for each number
    /// of them; leave it out where all items take the same form.
    pub(crate) fn new(item: &'i str, levels: &'p Levels, comments: Option<&Field>, work: &Work<'_>) -> Self {
        let list = comments.and_then(|field| field.list(item, work));
        let list = list.filter(|(_, elements)| elements.len() > Comments::LEAST);
        let levels = if item.trim_ascii_start().starts_with('{') { &*levels.0 } else { &[] };
        let comments = list.map(|(list, elements)| Box::new(Comments { list, elements }));
        Self { item, comments, levels }
    }

    /// Returns the forms with all comments and with fewer.
    fn threads(&self) -> usize {
        self.comments.as_ref().map_or(1, |comments| comments.forms())
    }

    /// Returns the number of forms.
    pub(crate) fn len(&self) -> usize {
        self.threads() + self.levels.len()
    }

    /// Returns the position among the levels of a form that is one.
    pub(crate) fn level(&self, form: usize) -> Option<usize> {
        form.checked_sub(self.threads())
    }

    /// Calls `each` with every form, from rich to poor. `worth` is the value of the item: with its first and last
    /// comment, or in full if it has no more of them. Each further comment is worth half of that, and of k levels the
    /// j-th is worth 1 - 0.6 j/k of it.
    ///
    /// `buffer` is overwritten. The time is linear in the item, once for each level.
    pub(crate) fn each(&self, worth: u64, buffer: &mut String, work: &Work<'_>, mut each: impl FnMut(Detail)) {
        let threads = self.threads();
        let (mut bytes, mut value) = (self.item.len(), worth);
        if let Some(comments) = &self.comments {
            value += worth * (comments.forms() as u64 - 1) / 2;
            each(Detail { value, bytes, shows: true });
            // Without whitespace in the list, which compact JSON does not have.
            bytes = bytes - comments.list.len() + comments.bytes(&comments.elements[1..]);
            for form in 1..threads {
                let _ = work.spend_unbounded(1);
                bytes -= comments.elements[form].len() + 1;
                value = worth + worth * (threads - 1 - form) as u64 / 2;
                each(Detail { value, bytes, shows: true });
            }
        } else {
            each(Detail { value, bytes, shows: true });
        }
        for form in threads..self.len() {
            buffer.clear();
            self.write(form, buffer, work);
            let shows = self.shows(buffer);
            each(Detail { value: self.worth(form, worth), bytes: buffer.len(), shows });
        }
    }

    /// Returns the value of a form that has no further comments, see [`Details::each`].
    pub(crate) fn worth(&self, form: usize, worth: u64) -> u64 {
        let (number, count) = (self.level(form).map_or(0, |level| level as u64 + 1), self.levels.len().max(1) as u64);
        worth * (10 * count - 6 * number) / (10 * count)
    }

    /// Returns whether a form, which is `written`, shows something of the item.
    pub(crate) fn shows(&self, written: &str) -> bool {
        written != NOTHING || self.item == NOTHING
    }

    /// Appends a form of the item as JSON.
    pub(crate) fn write(&self, form: usize, out: &mut String, work: &Work<'_>) {
        match self.level(form).and_then(|level| self.levels.get(level)) {
            None => self.write_thread(form, out),
            Some(level) if self.comments.is_none() => level.write(self.item, out, work),
            Some(level) => {
                let mut thread = String::new();
                self.write_thread(self.threads() - 1, &mut thread);
                level.write(&thread, out, work);
            }
        }
    }

    /// Appends the item with as many comments as `form` shows.
    fn write_thread(&self, form: usize, out: &mut String) {
        let Some(comments) = self.comments.as_ref().filter(|_| form > 0) else {
            out.push_str(self.item);
            return;
        };
        out.push_str(&self.item[..comments.list.start]);
        out.push('[');
        out.push_str(&self.item[comments.elements[0].clone()]);
        for element in comments.others(form) {
            out.push(',');
            out.push_str(&self.item[element.clone()]);
        }
        out.push(']');
        out.push_str(&self.item[comments.list.end..]);
    }
}

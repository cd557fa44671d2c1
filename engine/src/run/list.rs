//! The list of an answer: chooses what is shown of it, and writes that.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::Run;
use super::finish::Settings;
use crate::answer::{self, Cut, Output, Scale, Size};

use crate::format::Format;
use crate::json;
use crate::pages::{Division, Index, ListId, ListSettings, PageInputs};
use crate::stream;
use crate::work::Work;
use crate::{Bytes, Tokens};

/// The items of a list in a document that is compact JSON.
pub(super) struct Items<'t> {
    /// The document.
    text: &'t str,
    /// The positions of members and elements from the document to the list.
    pub(super) place: Cow<'t, [usize]>,
    /// Where the list is.
    range: Range<usize>,
    items: Vec<&'t str>,
    /// The length of the list before `maxItems`.
    before: usize,
    /// The id of the list, once it is needed.
    id: OnceCell<ListId>,
}

impl<'t> Items<'t> {
    /// Returns `None` if there is no list at `place`.
    pub(super) fn of(text: &'t str, place: Cow<'t, [usize]>, before: Option<usize>, work: &Work<'_>) -> Option<Self> {
        let range = stream::range(text, &place, work)?;
        let mut items: Vec<_> =
            stream::elements(text, range.clone(), work)?.into_iter().map(|item| &text[item]).collect();
        items.shrink_to_fit();
        let before = before.unwrap_or(items.len());
        Some(Self { text, place, range, items, before, id: OnceCell::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the length of the list before `maxItems`.
    pub(super) fn before(&self) -> usize {
        self.before
    }

    /// Returns the document.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Returns what an answer with all items of `window` leaves out.
    pub(super) fn window_cut(&self, window: &Range<usize>, inputs: PageInputs<'_>) -> ShownCut {
        let more = inputs.window && window.end < self.len();
        ShownCut { items: self.cut(window.len()), fewer: 0, next: more.then_some(window.end) }
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the counts if an answer that shows `shown` items leaves some out.
    pub(super) fn cut(&self, shown: usize) -> Option<answer::Items> {
        answer::Items::cut(shown, self.before)
    }

    /// Returns the document with other items, of about `bytes` bytes, and where its list is. `write` appends an item to
    /// the text.
    pub(super) fn with<T>(
        &self,
        bytes: usize,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(T, &mut String),
    ) -> (String, Range<usize>) {
        let (head, tail) = (&self.text[..self.range.start], &self.text[self.range.end..]);
        let mut out = String::with_capacity(head.len() + bytes + tail.len() + 2);
        out.push_str(head);
        out.push('[');
        let open = out.len();
        for item in items {
            if out.len() > open {
                out.push(',');
            }
            write(item, &mut out);
        }
        out.push(']');
        let list = self.range.start..out.len();
        out.push_str(tail);
        (out, list)
    }

    /// Returns the document with these of its items, and where its list is.
    pub(super) fn only(&self, items: impl Iterator<Item = usize> + Clone) -> (String, Range<usize>) {
        let bytes = items.clone().map(|item| self.items[item].len() + 1).sum();
        self.with(bytes, items, |item, out| out.push_str(self.items[item]))
    }

    /// Returns an item.
    pub(super) fn text_of(&self, item: usize) -> &'t str {
        self.items[item]
    }

    /// Returns the items of `window`.
    pub(super) fn texts(&self, window: Range<usize>) -> &[&'t str] {
        &self.items[window]
    }
}

/// An answer with a part of a list.
pub(super) struct Listed {
    pub(super) format: Format,
    pub(super) output: Output,
    pub(super) size: Size,
    /// The document that the answer shows, as JSON.
    pub(super) json: String,
    /// What is shown, and how the rest is divided.
    pub(super) division: Division,
    pub(super) index: Option<String>,
    pub(super) list: Option<ListId>,
    /// By level, how many items have it.
    pub(super) levels: Vec<usize>,
    /// The value of what is shown.
    pub(super) value: u64,
    pub(super) cut: ShownCut,
}

/// What an answer with a part of a list leaves out.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownCut {
    pub(super) items: Option<answer::Items>,
    pub(super) fewer: usize,
    pub(super) next: Option<usize>,
}

impl ShownCut {
    pub(super) fn with(self, index: Option<&str>) -> Cut<'_> {
        let Self { items, fewer, next } = self;
        Cut { items, fewer, next: next.filter(|_| index.is_none()), index, ..Cut::default() }
    }
}

/// Returns the size that a text adds to an answer: to its second block, and to its structured content.
pub(super) fn added(scale: &Scale<'_>, text: &str) -> Size {
    let member = json::encode(text);
    let tokens = scale.budget.tokens.map(|_| Tokens(scale.count(&member, Tokens(usize::MAX)).0 + 6));
    Size { bytes: Bytes(member.len() + 12), tokens }
}

impl<'p> Run<'p> {
    /// Returns the id of a list. It is computed once, since it takes a digest of all items.
    pub(super) fn list_id(&self, settings: &Settings<'p>, items: &Items<'_>) -> ListId {
        *items.id.get_or_init(|| {
            let formats: Vec<_> = settings.formats.iter().map(|format| format.as_str()).collect();
            let id = ListSettings {
                budget: settings.scale.budget,
                counter: settings.scale.counter,
                format: &formats.join(","),
                strategy: &settings.program.settings,
            };
            // What is around the list takes a part of the budget too.
            let around = [&items.text[..items.range.start], &items.text[items.range.end..]];
            ListId::new(&id, around.into_iter().chain(items.items.iter().copied()), self.work)
        })
    }

    /// Returns the line of a chunk.
    pub(super) fn chunk_line(
        &self,
        settings: &Settings<'p>,
        items: &Items<'_>,
        division: &Division,
        number: std::num::NonZeroUsize,
    ) -> Option<String> {
        if !settings.frame.notice {
            return None;
        }
        let index = Index {
            division,
            inputs: self.call.inputs,
            noun: settings.program.chunks.noun(),
            fewer: 0,
            summary: &|_| String::new(),
            list: &|| self.list_id(settings, items),
        };
        let scale = settings.scale;
        index.fetched(number, &mut |line| scale.share(added(&scale, line)) <= Scale::WHOLE / 4)
    }
}

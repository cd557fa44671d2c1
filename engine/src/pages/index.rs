//! The index of an answer: the text that says where the items are that it leaves out.

use std::num::NonZeroUsize;

use super::{Chunk, Division, ListId, PageInputs};

/// The most lines about chunks that the first attempt has. Most indexes have fewer lines, and are measured once.
const FIRST_LINES: usize = 16;

/// What an index is written from.
pub(crate) struct Index<'a> {
    /// Where the items are.
    pub(crate) division: &'a Division,
    /// The inputs that the index may name.
    pub(crate) inputs: PageInputs<'a>,
    /// What the items are called.
    pub(crate) noun: &'a str,
    /// How many of the items that the answer shows have fewer fields than in the list.
    pub(crate) fewer: usize,
    /// Returns the summary of a chunk; see [`super::ChunksProgram::summary`].
    pub(crate) summary: &'a dyn Fn(Chunk<'_>) -> String,
    /// Returns the id of the list. It is called for a text that names the id, so an answer that leaves nothing out pays
    /// for no digest.
    pub(crate) list: &'a dyn Fn() -> ListId,
}

/// The lines about chunks that are written so far: the first ones, and the last ones from the end.
#[derive(Default)]
struct Lines {
    front: Vec<String>,
    back: Vec<String>,
}

impl Index<'_> {
    /// Returns the text of the index, or `None` if there is nothing to say or no form of it fits. `fits` measures a
    /// text: it says whether an index may be as large.
    ///
    /// The forms, from the largest:
    /// 1. a line for each chunk;
    /// 2. the same, with chunks from the middle of the list joined into one line, as few as possible;
    /// 3. one line in all, which names an input that gives more items.
    ///
    /// If no item is left out, and some have fewer fields, the text is one line about those.
    pub(crate) fn text(&self, fits: &mut dyn FnMut(&str) -> bool) -> Option<String> {
        let chunks = self.division.chunks();
        if chunks == 1 {
            return self.levels().filter(|line| fits(line));
        }
        let line = self.one_line().filter(|line| fits(line))?;
        let (head, foot) = (self.head(), self.foot());
        let mut lines = Lines::default();
        // Attempt n has n lines about one chunk each; the last attempt has a line for every chunk. An attempt with a
        // line for all chunks but one would join a single chunk.
        let last = chunks - 1;
        let mut attempt = |lines_of_one: usize| {
            let kept = if lines_of_one == last { chunks } else { lines_of_one };
            let text = self.compose(kept, &head, &foot, &mut lines);
            fits(&text).then_some(text)
        };
        let (mut fitting, mut text) = (0, line);
        let mut failing = chunks;
        let mut next = FIRST_LINES.min(last);
        while next < failing && next > fitting {
            match attempt(next) {
                Some(larger) => (fitting, text) = (next, larger),
                None => failing = next,
            }
            // While everything fits, the attempts double; then they halve the distance.
            next = if failing == chunks { next.saturating_mul(2).min(last) } else { fitting.midpoint(failing) };
        }
        Some(text)
    }

    /// Returns the line that a chunk has in place of an index, or `None` if no form of it fits.
    pub(crate) fn fetched(&self, number: NonZeroUsize, fits: &mut dyn FnMut(&str) -> bool) -> Option<String> {
        let chunk = self.division.chunk(number).ok()?;
        let items = match (chunk.numbers(), chunk.len()) {
            (Some(numbers), 1) => format!("item {numbers}"),
            (Some(numbers), _) => format!("items {numbers}"),
            (None, 1) => "1 item".to_owned(),
            (None, count) => format!("{count} items"),
        };
        let (chunks, total) = (self.division.chunks(), self.division.total());
        let line = format!("[chunks] chunk {number} of {chunks}, {items} of {total}.");
        if !fits(&line) {
            return None;
        }
        let whole = format!("{line} List {}.", (self.list)());
        Some(if fits(&whole) { whole } else { line })
    }

    /// Returns the line about items with fewer fields, where no item is left out.
    fn levels(&self) -> Option<String> {
        let shown = self.division.divided();
        let remedy = if self.inputs.window { ", use offset and limit for all of them" } else { "" };
        (self.fewer > 0).then(|| format!("[levels] {} of {shown} {} with fewer fields{remedy}", self.fewer, self.noun))
    }

    /// Returns the name of the input `chunk`, if it gives chunks of this division. The chunks of a window have no
    /// numbers that a call could ask for.
    fn chunk_input(&self) -> Option<&str> {
        self.inputs.chunk.filter(|_| self.division.window().is_none())
    }

    /// Returns what every index begins with: `15/52 diffs`.
    fn counts(&self) -> String {
        let (shown, of) = (self.division.shown().len(), self.division.divided());
        let window = self.division.window().map(|window| {
            format!(" (items {}-{} of {})", window.start, window.end.saturating_sub(1), self.division.total())
        });
        format!("[chunks] {shown}/{of} {}{}", self.noun, window.unwrap_or_default())
    }

    /// Returns the index in one line. It names an input with which a call gives items that the answer leaves out:
    /// `offset` alone where the answer shows the beginning; else chunk 2, which is always left out; else the first
    /// items that are left out.
    fn one_line(&self) -> Option<String> {
        let PageInputs { chunk: _, window } = self.inputs;
        let more = match (self.division.next().filter(|_| window), self.chunk_input()) {
            (Some(offset), _) => format!("offset={offset}"),
            (None, Some(chunk)) => format!("{chunk}=2"),
            (None, None) => {
                let run = self.division.joined(1..2).first_run().filter(|_| window)?;
                format!("offset={}, limit={}", run.start, run.len())
            }
        };
        Some(format!("{}, {more} for more", self.counts()))
    }

    fn head(&self) -> String {
        format!("{} in {} chunks:\n", self.counts(), self.division.chunks())
    }

    fn foot(&self) -> String {
        let hint = match self.chunk_input() {
            Some(chunk) => format!("Use `{chunk}: N` parameter to fetch a specific chunk."),
            None => "Use `offset` and `limit` parameters to fetch other items.".to_owned(),
        };
        format!("[/chunks]\n{hint} You may not need all chunks. List {}.", (self.list)())
    }

    /// Returns the index with lines about `kept` chunks, the first and the last ones, and one about all others.
    fn compose(&self, kept: usize, head: &str, foot: &str, lines: &mut Lines) -> String {
        let chunks = self.division.chunks();
        let (front, back) = (kept.div_ceil(2), kept / 2);
        lines.front.extend((lines.front.len()..front).map(|chunk| self.line(chunk)));
        lines.back.extend((lines.back.len()..back).map(|from_end| self.line(chunks - 1 - from_end)));
        let joined = (kept < chunks).then(|| {
            let place = self.place(self.division.joined(front..chunks - back));
            format!("chunks {}-{} ({place})\n", front + 1, chunks - back)
        });
        let (front, back) = (lines.front[..front].iter(), lines.back[..back].iter().rev());
        let lines = front.chain(&joined).chain(back).map(String::as_str);
        std::iter::once(head).chain(lines).chain([foot]).collect()
    }

    /// Returns the line about a chunk, which is counted from 0.
    fn line(&self, number: usize) -> String {
        let chunk = self.division.joined(number..number + 1);
        let mut about = (self.summary)(chunk);
        let mut mark = "";
        if number == 0 {
            mark = " << returned in this response";
            if self.fewer > 0 {
                let comma = if about.is_empty() { "" } else { ", " };
                about = format!("{about}{comma}{} with fewer fields", self.fewer);
            }
        }
        let colon = if about.is_empty() { "" } else { ": " };
        format!("chunk {} ({}){colon}{about}{mark}\n", number + 1, self.place(chunk))
    }

    /// Returns where the items of a chunk are: as the inputs of a call that gives them, if they are consecutive, else
    /// as their numbers, else as how many there are.
    fn place(&self, chunk: Chunk<'_>) -> String {
        match (chunk.consecutive().filter(|_| self.inputs.window), chunk.numbers(), chunk.len()) {
            (Some(run), ..) => format!("offset={}, limit={}", run.start, run.len()),
            (None, Some(numbers), _) => format!("items={numbers}"),
            (None, None, count) => {
                // Without `chunk`, a call must be able to ask for them by their numbers.
                let span = chunk.span();
                let within = if self.chunk_input().is_none() && !span.is_empty() {
                    format!(" within offset={}, limit={}", span.start, span.len())
                } else {
                    String::new()
                };
                format!("{count} items{within}")
            }
        }
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;

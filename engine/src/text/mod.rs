//! Stage 9: cleans outputs that are text (`filters.md`, "text"; seed kimbap: `text_filter`).
//!
//! ANSI sequences are removed first, and `\r\n` and lone `\r` become `\n`. Then follow `strip`, `keep`, `dedup`,
//! `maxLines` and `onEmpty`. One pass over the lines, linear in the input: the expressions run on automata, never by
//! backtracking.

mod ansi;
mod numbered;
mod patterns;

use std::borrow::Cow;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use crate::work::Work;
use crate::{Finding, TextSpec};
use patterns::Cache;

pub use ansi::strip_ansi;
pub(crate) use numbered::Numbered;
pub use patterns::PatternBudget;
pub(crate) use patterns::Patterns;

/// A compiled [`TextSpec`]. Immutable, cheap to clone.
#[derive(Debug, Clone)]
pub struct TextProgram {
    strip_ansi: bool,
    strip: Option<Arc<Patterns>>,
    keep: Option<Arc<Patterns>>,
    dedup: bool,
    max_lines: usize,
    on_empty: Option<Box<str>>,
}

impl TextProgram {
    /// Checks `spec` and compiles it.
    ///
    /// # Errors Every mistake, each with the path of its field below the filter entry (`text.keep[0]`). Expressions
    /// that are too large, alone or together with those that `budget` has counted, are mistakes too.
    pub fn compile(spec: &TextSpec, budget: &mut PatternBudget) -> Result<Self, Vec<Finding>> {
        let TextSpec { strip_ansi, strip, keep, dedup, max_lines, on_empty } = spec;
        let mut findings = Vec::new();
        let strip = Patterns::compile("text.strip", strip, budget, &mut findings);
        let keep = Patterns::compile("text.keep", keep, budget, &mut findings);
        let max_lines = usize::try_from(max_lines.unwrap_or(0)).unwrap_or_else(|_| {
            findings.push(Finding::error(
                "text.maxLines",
                "is negative",
                "give the number of lines to keep, or 0 for no limit",
            ));
            0
        });
        if findings.is_empty() {
            Ok(Self {
                strip_ansi: *strip_ansi,
                strip,
                keep,
                dedup: *dedup,
                max_lines,
                on_empty: on_empty.as_deref().map(Into::into),
            })
        } else {
            Err(findings)
        }
    }

    /// Cleans one text.
    ///
    /// A line end at the very end stays if any line is left. `dedup` writes blank lines once, without a count. If
    /// nothing but whitespace is left, the result is `onEmpty`, if there is one.
    ///
    /// `maxLines` counts the lines that it leaves out before `dedup` joins them, since whether they were equal is
    /// removed with them. If it would leave out a single line that is no longer than the note about it, the line
    /// stays, unless `hides` says that nothing about the lines left out may show, not even a length.
    #[must_use]
    pub fn apply(&self, text: &str, hides: bool) -> String {
        self.apply_within(text, hides, &Work::unlimited())
    }

    /// As [`TextProgram::apply`], but counts steps. The result is meaningless once `work` has ended.
    pub(crate) fn apply_within(&self, text: &str, hides: bool, work: &Work<'_>) -> String {
        let Self {
            strip_ansi,
            // Applied by `Search`.
            strip: _,
            keep: _,
            // Applied by `Lines`.
            dedup: _,
            max_lines: _,
            on_empty,
        } = self;
        let text = if *strip_ansi { ansi::strip_ansi_within(text, work) } else { Cow::Borrowed(text) };
        let text = line_ends(&text, work);
        let (body, closed) = match text.strip_suffix('\n') {
            Some(body) => (body, true),
            None => (text.as_ref(), false),
        };
        let mut out = Lines::new(self, hides, body.len() + 1);
        if !text.is_empty() {
            let mut search = Search::new(self);
            for line in lines(body) {
                if !work.spend_unbounded(1 + line.len() / 64) {
                    break;
                }
                if search.keeps(line, work) {
                    out.push(line);
                }
            }
        }
        let result = out.finish(closed);
        match on_empty {
            Some(message) if result.trim().is_empty() => message.to_string(),
            _ => result,
        }
    }
}

impl TextProgram {
    /// Returns the lists of expressions: an address that equal lists share while one of them is in use, and the size
    /// of the list in bytes.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = (usize, usize)> {
        let lists = [&self.strip, &self.keep].into_iter().flatten();
        lists.map(|list| (Arc::as_ptr(list) as usize, list.bytes()))
    }

    /// Returns the bytes that one run may hold at once, in addition to the text.
    pub(crate) fn search_bytes(&self) -> usize {
        [&self.strip, &self.keep].into_iter().flatten().map(|patterns| patterns.search_bytes()).sum()
    }
}

/// The searches over one text.
struct Search<'p> {
    strip: Option<(&'p Patterns, Cache)>,
    keep: Option<(&'p Patterns, Cache)>,
}

impl<'p> Search<'p> {
    fn new(program: &'p TextProgram) -> Self {
        let with_cache = |patterns: &'p Option<Arc<Patterns>>| patterns.as_deref().map(|p| (p, p.cache()));
        Self { strip: with_cache(&program.strip), keep: with_cache(&program.keep) }
    }

    fn keeps(&mut self, line: &str, work: &Work<'_>) -> bool {
        let matches = |search: &mut Option<(&Patterns, Cache)>| {
            search.as_mut().map(|(patterns, cache)| patterns.is_match(cache, line, work))
        };
        matches(&mut self.strip) != Some(true) && matches(&mut self.keep) != Some(false)
    }
}

/// Returns the line that replaces `count` lines, here and where a budget cuts text.
#[must_use]
pub fn left_out(count: usize) -> String {
    format!("... {count} more {}", if count == 1 { "line" } else { "lines" })
}

/// Replaces `\r\n` and a lone `\r` by `\n`.
fn line_ends<'t>(text: &'t str, work: &Work<'_>) -> Cow<'t, str> {
    let bytes = text.as_bytes();
    if memchr(b'\r', bytes).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for at in memchr_iter(b'\r', bytes).take_while(|_| work.spend_unbounded(1)) {
        out.push_str(&text[from..at]);
        if bytes.get(at + 1) != Some(&b'\n') {
            out.push('\n');
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

/// Returns the lines of a text: what is before, between and behind its line ends.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        match memchr(b'\n', text.as_bytes()) {
            Some(at) => {
                rest = Some(&text[at + 1..]);
                Some(&text[..at])
            }
            None => rest.take(),
        }
    })
}

/// Writes lines in order, and applies `dedup` and `maxLines`.
struct Lines<'p, 't> {
    program: &'p TextProgram,
    /// Nothing about the lines left out may show.
    hides: bool,
    out: String,
    /// Lines written.
    written: usize,
    /// The number of lines that `maxLines` left out, before `dedup`, and the last of them.
    over: usize,
    last_over: &'t str,
    /// The line that has not been written yet, and how often it occurred.
    held: Option<(&'t str, usize)>,
}

impl<'p, 't> Lines<'p, 't> {
    fn new(program: &'p TextProgram, hides: bool, capacity: usize) -> Self {
        // Filtered text is usually much smaller than the original.
        let out = String::with_capacity(capacity.min(64 << 10));
        Self { program, hides, out, written: 0, over: 0, last_over: "", held: None }
    }

    fn push(&mut self, line: &'t str) {
        if let Some((held, count)) = &mut self.held
            && self.program.dedup
            && *held == line
        {
            *count += 1;
            return;
        }
        self.flush();
        self.held = Some((line, 1));
    }

    fn flush(&mut self) {
        let Some((line, count)) = self.held.take() else { return };
        if self.program.max_lines > 0 && self.written == self.program.max_lines {
            self.over += count;
            self.last_over = line;
            return;
        }
        self.break_line();
        self.out.push_str(line);
        if count > 1 && !line.trim().is_empty() {
            self.out.push_str(&format!(" (x{count})"));
        }
        self.written += 1;
    }

    fn break_line(&mut self) {
        if self.written > 0 {
            self.out.push('\n');
        }
    }

    fn finish(mut self, closed: bool) -> String {
        self.flush();
        if self.over > 0 {
            self.break_line();
            let note = left_out(self.over);
            let line = Some(self.last_over).filter(|line| !self.hides && self.over == 1 && line.len() <= note.len());
            self.out.push_str(line.unwrap_or(&note));
        }
        if closed && self.written > 0 {
            self.out.push('\n');
        }
        self.out
    }
}

#[cfg(test)]
mod tests;

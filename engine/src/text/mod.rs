//! Stage 9: cleaning outputs that are text (`filters.md`, "text"; seed kimbap: `text_filter`).
//!
//! Order: ANSI sequences go and `\r\n` and lone `\r` become `\n`; then `strip`, `keep`, `dedup`,
//! `maxLines`, `onEmpty`. One pass over the lines, linear in the input: the expressions run on
//! automata, never by backtracking.

mod ansi;
mod patterns;

use std::borrow::Cow;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use crate::work::Work;
use crate::{Finding, TextSpec};
use patterns::{Cache, Patterns};

pub use ansi::strip_ansi;
pub use patterns::PatternBudget;

/// A [`TextSpec`] that runs. Immutable, cheap to clone.
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
    /// Checks `spec` and makes a program of it.
    ///
    /// # Errors
    /// Every mistake, each with the path of its field below the filter entry (`text.keep[0]`); expressions that are
    /// too large, also together with others that `budget` has counted, are one.
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
    /// A line end at the very end stays where a line is left. `dedup` writes blank lines once, without
    /// a count. Where nothing but white space is left, the result is `onEmpty`, if there is one.
    ///
    /// `maxLines` counts the lines that it leaves out as they came, before `dedup` joins them: whether they were equal
    /// is removed with them. Where it would leave out one line that is no longer than the note about it, the line
    /// stays, unless `hides` says that what is left out must not show, its length included.
    #[must_use]
    pub fn apply(&self, text: &str, hides: bool) -> String {
        self.apply_within(text, hides, &Work::unlimited())
    }

    /// The same, counting steps. What it gives once `work` has ended means nothing.
    pub(crate) fn apply_within(&self, text: &str, hides: bool, work: &Work<'_>) -> String {
        let Self {
            strip_ansi,
            // `Search`.
            strip: _,
            keep: _,
            // `Lines`.
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
                if !work.pass(1 + line.len() / 64) {
                    break;
                }
                if search.wants(line, work) {
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
    /// The lists of expressions: an address that equal lists share while one of them is in use, and the bytes it takes.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = (usize, usize)> {
        let lists = [&self.strip, &self.keep].into_iter().flatten();
        lists.map(|list| (Arc::as_ptr(list) as usize, list.bytes()))
    }

    /// Bytes that one run may hold at once, beside the text.
    pub(crate) fn search_bytes(&self) -> usize {
        [&self.strip, &self.keep].into_iter().flatten().map(|patterns| patterns.search_bytes()).sum()
    }
}

/// The searches of one text.
struct Search<'p> {
    strip: Option<(&'p Patterns, Cache)>,
    keep: Option<(&'p Patterns, Cache)>,
}

impl<'p> Search<'p> {
    fn new(program: &'p TextProgram) -> Self {
        let with_cache = |patterns: &'p Option<Arc<Patterns>>| patterns.as_deref().map(|p| (p, p.cache()));
        Self { strip: with_cache(&program.strip), keep: with_cache(&program.keep) }
    }

    fn wants(&mut self, line: &str, work: &Work<'_>) -> bool {
        let matches = |search: &mut Option<(&Patterns, Cache)>| {
            search.as_mut().map(|(patterns, cache)| patterns.is_match(cache, line, work))
        };
        matches(&mut self.strip) != Some(true) && matches(&mut self.keep) != Some(false)
    }
}

/// The line that stands for `count` lines left out, here and where a budget cuts text.
#[must_use]
pub fn left_out(count: usize) -> String {
    format!("... {count} more {}", if count == 1 { "line" } else { "lines" })
}

/// Makes `\n` of `\r\n` and of a lone `\r`.
fn line_ends<'t>(text: &'t str, work: &Work<'_>) -> Cow<'t, str> {
    let bytes = text.as_bytes();
    if memchr(b'\r', bytes).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for at in memchr_iter(b'\r', bytes).take_while(|_| work.pass(1)) {
        out.push_str(&text[from..at]);
        if bytes.get(at + 1) != Some(&b'\n') {
            out.push('\n');
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
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

/// Takes the wanted lines in order; does `dedup` and `maxLines`.
struct Lines<'p, 't> {
    program: &'p TextProgram,
    /// What is left out must not show.
    hides: bool,
    out: String,
    /// Lines written.
    written: usize,
    /// Lines that `maxLines` left out, as they came, and the last of them.
    over: usize,
    last_over: &'t str,
    /// The line not yet written, and how often it came.
    held: Option<(&'t str, usize)>,
}

impl<'p, 't> Lines<'p, 't> {
    fn new(program: &'p TextProgram, hides: bool, capacity: usize) -> Self {
        // Filtered text is usually much smaller than its source.
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

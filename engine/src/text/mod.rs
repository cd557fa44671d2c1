//! Stage 9: cleaning outputs that are text (`filters.md`, "text"; seed kimbap: `text_filter`).
//!
//! Order: ANSI sequences go and `\r\n` and lone `\r` become `\n`; then `strip`, `keep`, `dedup`,
//! `maxLines`, `onEmpty`. One pass over the lines, linear in the input: the expressions run on
//! automata, never by backtracking.

mod ansi;

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::{Finding, TextSpec};

pub use ansi::strip_ansi;

/// Expressions in one list; more is an error.
const MAX_PATTERNS: usize = 256;
/// Bytes of one expression; more is an error.
const MAX_PATTERN_BYTES: usize = 4 << 10;
/// Bytes that the compiled expressions of one list may take.
const MAX_COMPILED_BYTES: usize = 16 << 20;
/// Bytes that one compiled expression may take.
const MAX_COMPILED_PATTERN_BYTES: usize = 4 << 20;

/// A [`TextSpec`] that runs. Immutable, cheap to clone.
#[derive(Debug, Clone)]
pub struct TextProgram {
    strip_ansi: bool,
    strip: Option<RegexSet>,
    keep: Option<RegexSet>,
    dedup: bool,
    max_lines: usize,
    on_empty: Option<Box<str>>,
}

impl TextProgram {
    /// Checks `spec` and makes a program of it.
    ///
    /// # Errors
    /// Every mistake, each with the path of its field below the filter entry (`text.keep[0]`).
    pub fn compile(spec: &TextSpec) -> Result<Self, Vec<Finding>> {
        let mut findings = Vec::new();
        let strip = patterns("text.strip", &spec.strip, &mut findings);
        let keep = patterns("text.keep", &spec.keep, &mut findings);
        let max_lines = usize::try_from(spec.max_lines.unwrap_or(0)).unwrap_or_else(|_| {
            findings.push(Finding::error(
                "text.maxLines",
                "is negative",
                "give the number of lines to keep, or 0 for no limit",
            ));
            0
        });
        if findings.is_empty() {
            Ok(Self {
                strip_ansi: spec.strip_ansi,
                strip,
                keep,
                dedup: spec.dedup,
                max_lines,
                on_empty: spec.on_empty.as_deref().map(Into::into),
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
        let text = if self.strip_ansi { strip_ansi(text) } else { Cow::Borrowed(text) };
        let text = line_ends(&text);
        let (body, closed) = match text.strip_suffix('\n') {
            Some(body) => (body, true),
            None => (text.as_ref(), false),
        };
        let mut out = Lines::new(self, hides, body.len() + 1);
        if !text.is_empty() {
            for line in lines(body).filter(|line| self.wants(line)) {
                out.push(line);
            }
        }
        let result = out.finish(closed);
        match &self.on_empty {
            Some(message) if result.trim().is_empty() => message.to_string(),
            _ => result,
        }
    }

    fn wants(&self, line: &str) -> bool {
        !self.strip.as_ref().is_some_and(|set| set.is_match(line))
            && self.keep.as_ref().is_none_or(|set| set.is_match(line))
    }
}

/// The line that stands for `count` lines left out, here and where a budget cuts text.
#[must_use]
pub fn left_out(count: usize) -> String {
    format!("... {count} more {}", if count == 1 { "line" } else { "lines" })
}

/// Makes `\n` of `\r\n` and of a lone `\r`.
fn line_ends(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    if memchr(b'\r', bytes).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for at in memchr_iter(b'\r', bytes) {
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

fn patterns(field: &str, patterns: &[String], findings: &mut Vec<Finding>) -> Option<RegexSet> {
    if patterns.is_empty() {
        return None;
    }
    if patterns.len() > MAX_PATTERNS {
        findings.push(Finding::error(
            field,
            format!("has {} expressions, at most {MAX_PATTERNS} are allowed", patterns.len()),
            "join expressions with |",
        ));
        return None;
    }
    let before = findings.len();
    for (index, pattern) in patterns.iter().enumerate() {
        if let Err((message, remedy)) = check_pattern(pattern) {
            findings.push(Finding::error(format!("{field}[{index}]"), message, remedy));
        }
    }
    if findings.len() > before {
        return None;
    }
    let set = RegexSetBuilder::new(patterns).size_limit(MAX_COMPILED_BYTES).build();
    set.map_err(|_| {
        findings.push(Finding::error(
            field,
            "the expressions are too large together",
            "use smaller counted repetitions, or fewer expressions",
        ));
    })
    .ok()
}

fn check_pattern(pattern: &str) -> Result<(), (String, &'static str)> {
    if pattern.is_empty() {
        return Err(("is empty, which matches every line".into(), "remove it, or write the expression"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err((
            format!("has {} bytes, at most {MAX_PATTERN_BYTES} are allowed", pattern.len()),
            "split the expression into several",
        ));
    }
    compile_one(pattern).map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            ("the expression is too large once compiled".into(), "use smaller counted repetitions, such as {1,20}")
        }
        error => {
            // A syntax error's text shows the pattern over several lines; the reason is its last.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
            let remedy = if reason.contains("look-around") {
                "say what to drop under strip and what to keep under keep instead"
            } else if reason.contains("backreferences") {
                "write the repeated part out"
            } else {
                "correct the expression; a literal special character is written with a backslash, such as \\["
            };
            (format!("is not a regular expression: {reason}"), remedy)
        }
    })
}

fn compile_one(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED_PATTERN_BYTES).build()
}

#[cfg(test)]
mod tests;

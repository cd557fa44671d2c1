//! The lines of a text by their numbers.

use std::ops::Range;

use memchr::memchr_iter;

use super::{left_out, lines};
use crate::work::Work;

/// The place of every line of this number or a multiple is kept; others are found from there.
const EVERY: usize = 64;

/// A text whose lines have numbers, from 0. A line end at the very end of the text is none of it.
///
/// It holds eight bytes for each 64 lines.
#[derive(Debug)]
pub(crate) struct Numbered<'t> {
    text: &'t str,
    /// Where the lines 0, [`EVERY`], 2 · [`EVERY`] and so on begin.
    marks: Vec<usize>,
    len: usize,
}

impl<'t> Numbered<'t> {
    /// Finds the lines of `text`.
    pub(crate) fn new(text: &'t str, work: &Work<'_>) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (mut marks, mut len, mut from) = (vec![0], 1_usize, 0);
        for at in memchr_iter(b'\n', text.as_bytes()) {
            if len.is_multiple_of(EVERY) {
                marks.push(at + 1);
                if !work.spend_unbounded(EVERY + (at - from) / 64) {
                    break;
                }
                from = at;
            }
            len += 1;
        }
        Self { text, marks, len }
    }

    /// Returns the number of lines, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the text without a line end at its end.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the places of the lines from number `first` on, without their line ends.
    pub(crate) fn places(&self, first: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let start = self.start(first);
        let mut next = start;
        lines(&self.text[start..]).take(self.len.saturating_sub(first)).map(move |line| {
            let place = next..next + line.len();
            next = place.end + 1;
            place
        })
    }

    /// Returns the place of a line. Beyond the last line it is the end of the text.
    pub(crate) fn place(&self, number: usize) -> Range<usize> {
        self.places(number).next().unwrap_or(self.text.len()..self.text.len())
    }

    /// Returns the place of consecutive lines, with the line ends between them.
    pub(crate) fn place_of(&self, run: &Range<usize>) -> Range<usize> {
        match run.len() {
            0 => self.text.len()..self.text.len(),
            _ => self.place(run.start).start..self.place(run.end - 1).end,
        }
    }

    /// Returns where a line begins.
    fn start(&self, number: usize) -> usize {
        if number >= self.len {
            return self.text.len();
        }
        let mark = self.marks[number / EVERY];
        match number % EVERY {
            0 => mark,
            after => memchr_iter(b'\n', &self.text.as_bytes()[mark..])
                .nth(after - 1)
                .map_or(self.text.len(), |end| mark + end + 1),
        }
    }

    /// Appends lines: `rows` are their numbers in order, as ranges that do not touch. A line between two ranges says how
    /// many are left out there, and so does one at either end if lines of `within` are left out there. Each line is cut
    /// by `cut`, if it is given.
    pub(crate) fn write(
        &self,
        rows: &[Range<usize>],
        within: Option<&Range<usize>>,
        cut: Option<&dyn Fn(&str) -> String>,
        out: &mut String,
    ) {
        let open = out.len();
        let begin = |out: &mut String, first: bool| {
            if !first {
                out.push('\n');
            }
        };
        let mut next = within.map(|within| within.start);
        let mut first = true;
        for run in rows {
            if let Some(left) = next.map(|next| run.start - next).filter(|left| *left > 0) {
                begin(out, first);
                out.push_str(&left_out(left));
                first = false;
            }
            match cut {
                None => {
                    begin(out, first);
                    out.push_str(&self.text[self.place_of(run)]);
                }
                Some(cut) => {
                    for place in self.places(run.start).take(run.len()) {
                        begin(out, std::mem::take(&mut first));
                        out.push_str(&cut(&self.text[place]));
                    }
                }
            }
            first = false;
            next = Some(run.end);
        }
        if let Some((next, within)) = next.zip(within)
            && next < within.end
        {
            begin(out, first);
            out.push_str(&left_out(within.end - next));
        }
        debug_assert!(out.len() >= open);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_left_out_are_counted_where_they_were() {
        let text: Vec<String> = (0..200).map(|n| format!("line {n}")).collect();
        let text = text.join("\n");
        let lines = Numbered::new(&text, &Work::unlimited());
        let write = |rows: &[Range<usize>], within: Option<Range<usize>>, cut: Option<&dyn Fn(&str) -> String>| {
            let mut out = String::new();
            lines.write(rows, within.as_ref(), cut, &mut out);
            out
        };
        let all = Some(0..200);
        let run = std::slice::from_ref::<Range<usize>>;
        assert_eq!(write(run(&(0..200)), all.clone(), None), text);
        assert_eq!(write(run(&(64..66)), all.clone(), None), "... 64 more lines\nline 64\nline 65\n... 134 more lines");
        assert_eq!(write(&[64..65, 130..131], None, None), "line 64\n... 65 more lines\nline 130");
        assert_eq!(write(run(&(64..65)), Some(63..66), None), "... 1 more line\nline 64\n... 1 more line");
        let short = |line: &str| line[..3].to_owned();
        assert_eq!(write(&[0..2, 3..4], None, Some(&short)), "lin\nlin\n... 1 more line\nlin");
        assert_eq!(write(&[], all, None), "... 200 more lines");
        assert_eq!(write(&[], None, None), "");
    }

    proptest! {
        #[test]
        fn every_line_is_found_by_its_number(
            all in prop::collection::vec("[a-c\u{e9}]{0,3}", 1..300), closed: bool, from in 0_usize..320,
        ) {
            let text = all.join("\n") + if closed { "\n" } else { "" };
            let lines = Numbered::new(&text, &Work::unlimited());
            let body = text.strip_suffix('\n').unwrap_or(&text);
            let all: Vec<&str> = body.split('\n').collect();
            prop_assert_eq!((lines.text(), lines.len()), (body, all.len()));
            let rest: Vec<&str> = lines.places(from).map(|place| &body[place]).collect();
            prop_assert_eq!(&rest, &all[from.min(all.len())..]);
            for (number, line) in all.iter().enumerate() {
                prop_assert_eq!(&body[lines.place(number)], *line);
            }
        }
    }
}

//! Finds values in a compact document that is known to be valid: by names, and by positions.

use std::ops::Range;

use super::run::Run;
use super::scan::{self, Scan};
use crate::json::{DEPTH_CEILING, Key};
use crate::program::Name;
use crate::work::Work;

/// Returns the positions of members and elements that `path` leads through. Of equal keys the first counts.
pub(crate) fn positions(text: &str, path: &[Name], work: &Work<'_>) -> Option<Vec<usize>> {
    let mut positions = Vec::with_capacity(path.len());
    let mut steps = path.iter();
    walk(text, work, |run, pos| {
        let Some(name) = steps.next() else { return Ok(Step::End) };
        let found = match run.at(pos) {
            b'{' => child(run, pos, |_, key| Key::from_raw(&text[key]).is(&name.text))?,
            b'[' => child(run, pos, |at, _| name.index.number() == Some(at))?,
            _ => None,
        };
        Ok(found.map_or(Step::None, |(at, value)| {
            positions.push(at);
            Step::Down(value)
        }))
    })?;
    Some(positions)
}

/// Returns where the value is that the positions of members and elements lead to.
pub(crate) fn range(text: &str, place: &[usize], work: &Work<'_>) -> Option<Range<usize>> {
    let mut steps = place.iter();
    walk(text, work, |run, pos| {
        let Some(position) = steps.next() else { return Ok(Step::End) };
        let found = match run.at(pos) {
            b'{' | b'[' => child(run, pos, |at, _| at == *position)?,
            _ => None,
        };
        Ok(found.map_or(Step::None, |(_, value)| Step::Down(value)))
    })
}

/// Returns where the elements of the list at `list` are. `None` if the value there is no list.
pub(crate) fn items(text: &str, list: Range<usize>, work: &Work<'_>) -> Option<Vec<Range<usize>>> {
    let mut unused = Vec::new();
    let mut run = Run::new(&text.as_bytes()[..list.end], &mut unused, work);
    if run.at(list.start) != b'[' {
        return None;
    }
    let mut items = Vec::new();
    let (mut pos, mut more) = run.open(list.start, b']').ok()?;
    while more {
        let end = run.skip(pos, DEPTH_CEILING).ok()?;
        items.push(pos..end);
        (pos, more) = run.next(end, b']').ok()?;
    }
    Some(items)
}

/// What follows on the way to a value.
enum Step {
    /// The value at this position.
    Down(usize),
    /// Nothing: this is the value.
    End,
    /// There is no such value.
    None,
}

fn walk(text: &str, work: &Work<'_>, mut step: impl FnMut(&mut Run<'_>, usize) -> Scan<Step>) -> Option<Range<usize>> {
    let mut unused = Vec::new();
    let mut run = Run::new(text.as_bytes(), &mut unused, work);
    let mut pos = 0;
    loop {
        match step(&mut run, pos).ok()? {
            Step::Down(value) => pos = value,
            Step::End => return Some(pos..run.skip(pos, DEPTH_CEILING).ok()?),
            Step::None => return None,
        }
    }
}

/// Returns the first member or element of the value at `pos` that `is` accepts, by its position and its key, with the
/// position of its value.
fn child(
    run: &mut Run<'_>,
    pos: usize,
    mut is: impl FnMut(usize, Range<usize>) -> bool,
) -> Scan<Option<(usize, usize)>> {
    let close = if run.at(pos) == b'{' { b'}' } else { b']' };
    let (mut pos, mut more) = run.open(pos, close)?;
    let mut number = 0;
    while more {
        let (key, value) = if close == b'}' {
            let end = scan::string(run.bytes, pos + 1)?;
            (pos..end, scan::colon(run.bytes, end, &mut run.tally)?)
        } else {
            (pos..pos, pos)
        };
        if is(number, key) {
            return Ok(Some((number, value)));
        }
        number += 1;
        let after = run.skip(value, DEPTH_CEILING)?;
        (pos, more) = run.next(after, close)?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{items, positions, range};
    use crate::program::Name;
    use crate::work::Work;

    #[test]
    fn values_are_found_by_names_and_by_positions() {
        let text = r#"{"n":1,"a\u0062":[[],{"x":"]","list":[1,{"y":"}"},"s"]}],"list":null}"#;
        let work = Work::unlimited();
        for (path, place, value) in [
            (&[][..], &[][..], text),
            (&["n"], &[0], "1"),
            (&["ab", "1", "list"], &[1, 1, 1], r#"[1,{"y":"}"},"s"]"#),
            (&["ab", "1", "x"], &[1, 1, 0], r#""]""#),
            (&["ab", "0"], &[1, 0], "[]"),
            (&["list"], &[2], "null"),
        ] {
            let names: Vec<_> = path.iter().copied().map(Name::new).collect();
            assert_eq!(positions(text, &names, &work).as_deref(), Some(place), "{path:?}");
            assert_eq!(&text[range(text, place, &work).unwrap()], value, "{path:?}");
        }
        for path in [&["x"][..], &["n", "x"], &["ab", "2"], &["ab", "x"], &["list", "0"]] {
            let names: Vec<_> = path.iter().copied().map(Name::new).collect();
            assert_eq!(positions(text, &names, &work), None, "{path:?}");
        }
        for place in [&[3][..], &[0, 0], &[1, 2]] {
            assert_eq!(range(text, place, &work), None, "{place:?}");
        }
        let list = range(text, &[1, 1, 1], &work).unwrap();
        let items: Vec<_> = items(text, list, &work).unwrap().into_iter().map(|item| &text[item]).collect();
        assert_eq!(items, ["1", r#"{"y":"}"}"#, "\"s\""]);
        assert_eq!(super::items(text, 5..6, &work), None);
    }
}

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
    descend(text, path, work, |run, pos, name| {
        let mut found = None;
        children(run, pos, |child| {
            found = child.is(text, name).then_some(child.value);
            positions.extend(found.map(|_| child.number));
            found.is_some()
        })?;
        Ok(found)
    })?;
    Some(positions)
}

/// Returns where the value is that `path` names. Of equal keys the last counts.
pub(crate) fn value_at(text: &str, path: &[Name], work: &Work<'_>) -> Option<Range<usize>> {
    descend(text, path, work, |run, pos, name| {
        let mut found = None;
        children(run, pos, |child| {
            if child.is(text, name) {
                found = Some(child.value);
            }
            // An element is the only one of its number.
            found.is_some() && child.key.is_none()
        })?;
        Ok(found)
    })
}

/// Returns where the value is that the positions of members and elements lead to.
pub(crate) fn range(text: &str, place: &[usize], work: &Work<'_>) -> Option<Range<usize>> {
    descend(text, place, work, |run, pos, number| {
        let mut found = None;
        children(run, pos, |child| {
            found = (child.number == *number).then_some(child.value);
            found.is_some()
        })?;
        Ok(found)
    })
}

/// Returns where the elements of the list at `list` are. `None` if the value there is no list.
pub(crate) fn elements(text: &str, list: Range<usize>, work: &Work<'_>) -> Option<Vec<Range<usize>>> {
    let mut unused = Vec::new();
    let mut run = Run::new(&text.as_bytes()[..list.end], &mut unused, work);
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

/// Follows `path` from the document down: `step` returns the position of the value that a part of the path leads to.
fn descend<T>(
    text: &str,
    path: &[T],
    work: &Work<'_>,
    mut step: impl FnMut(&mut Run<'_>, usize, &T) -> Scan<Option<usize>>,
) -> Option<Range<usize>> {
    let mut unused = Vec::new();
    let mut run = Run::new(text.as_bytes(), &mut unused, work);
    let mut pos = scan::blanks(run.bytes, 0, &mut run.tally);
    for part in path {
        pos = step(&mut run, pos, part).ok()??;
    }
    Some(pos..run.skip(pos, DEPTH_CEILING).ok()?)
}

/// A member or an element.
struct Child {
    /// Its position in the object or array.
    number: usize,
    /// Where the key of a member is.
    key: Option<Range<usize>>,
    /// The position of its value.
    value: usize,
}

impl Child {
    /// Returns whether `name` names it.
    fn is(&self, text: &str, name: &Name) -> bool {
        match &self.key {
            Some(key) => Key::from_raw(&text[key.clone()]).is(&name.text),
            None => name.index.number() == Some(self.number),
        }
    }
}

/// Calls `each` with the members or elements of the value at `pos`, until it returns `true`. Any other value has none.
fn children(run: &mut Run<'_>, pos: usize, mut each: impl FnMut(&Child) -> bool) -> Scan<()> {
    let close = match run.at(pos) {
        b'{' => b'}',
        b'[' => b']',
        _ => return Ok(()),
    };
    let (mut pos, mut more) = run.open(pos, close)?;
    let mut number = 0;
    while more {
        let child = if close == b'}' {
            let end = scan::string(run.bytes, pos + 1)?;
            Child { number, key: Some(pos..end), value: scan::colon(run.bytes, end, &mut run.tally)? }
        } else {
            Child { number, key: None, value: pos }
        };
        if each(&child) {
            return Ok(());
        }
        number += 1;
        let after = run.skip(child.value, DEPTH_CEILING)?;
        (pos, more) = run.next(after, close)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{elements, positions, range, value_at};
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
            assert_eq!(&text[value_at(text, &names, &work).unwrap()], value, "{path:?}");
        }
        for path in [&["x"][..], &["n", "x"], &["ab", "2"], &["ab", "x"], &["list", "0"]] {
            let names: Vec<_> = path.iter().copied().map(Name::new).collect();
            assert_eq!(positions(text, &names, &work), None, "{path:?}");
            assert_eq!(value_at(text, &names, &work), None, "{path:?}");
        }
        for place in [&[3][..], &[0, 0], &[1, 2]] {
            assert_eq!(range(text, place, &work), None, "{place:?}");
        }
        let list = range(text, &[1, 1, 1], &work).unwrap();
        let items: Vec<_> = elements(text, list, &work).unwrap().into_iter().map(|item| &text[item]).collect();
        assert_eq!(items, ["1", r#"{"y":"}"}"#, "\"s\""]);
        assert_eq!(elements(text, 5..6, &work), None);
        let (twice, key) = (r#"{"a":1,"a":[2]}"#, [Name::new("a")]);
        assert_eq!(positions(twice, &key, &work), Some(vec![0]));
        assert_eq!(value_at(twice, &key, &work), Some(11..14));
    }
}

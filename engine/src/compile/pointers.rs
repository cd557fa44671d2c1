//! Parses JSON Pointers: strict ones, and the extended ones of `retain` and `exclude`.

use super::check::Problem;
use crate::json::DEPTH_CEILING;
use crate::program::{Glob, Index, Name, Pointer, Segment};

/// Parses a strict JSON Pointer (RFC 6901). `*` is an ordinary key, and `~2` is an error.
pub(super) fn strict(text: &str) -> Result<Pointer, Problem> {
    let segments = tokens(text)?
        .enumerate()
        .map(|(i, token)| unescape(token, i, false).map(Name::new))
        .collect::<Result<_, _>>()?;
    Ok(Pointer { text: text.into(), segments })
}

/// Parses a pointer of `retain` or `exclude`. The segment `*` matches every member and element, `*` within a segment
/// any characters, and `**` any number of segments; `~2` is a literal `*`.
pub(super) fn extended(text: &str) -> Result<Vec<Segment>, Problem> {
    let mut segments: Vec<Segment> = Vec::new();
    for (i, token) in tokens(text)?.enumerate() {
        let segment = match token {
            "*" => Segment::Any,
            "**" if segments.last() == Some(&Segment::Deep) => continue,
            "**" => Segment::Deep,
            _ => {
                let parts = token.split('*').map(|part| unescape(part, i, true)).collect::<Result<Vec<_>, _>>()?;
                named(parts, Name::new)
            }
        };
        segments.push(segment);
    }
    Ok(segments)
}

/// Parses the name of a member of an item. It is like a segment, but `~` is an ordinary character except in `~2`, a
/// literal `*`.
pub(super) fn member(text: &str) -> Segment {
    let parts = text.split('*').map(|part| part.replace("~2", "*")).collect();
    named(parts, |text| Name { text: text.into(), index: Index::None })
}

/// Returns the segment with `parts` between its `*`.
fn named(mut parts: Vec<String>, name: impl Fn(String) -> Name) -> Segment {
    match (parts.len(), parts.pop()) {
        (1, Some(text)) => Segment::Name(name(text)),
        (_, last) => match Glob::new(parts.into_iter().chain(last)) {
            Some(glob) => Segment::Glob(glob),
            None => Segment::Any,
        },
    }
}

fn tokens(text: &str) -> Result<impl Iterator<Item = &str>, Problem> {
    // A pointer has one token for each slash.
    let deep = memchr::memchr_iter(b'/', text.as_bytes()).count();
    if deep > DEPTH_CEILING {
        let message = format!("has {deep} segments, at most {DEPTH_CEILING} are allowed");
        return Err(Problem::new(message, "name something less deep: no output is nested that far"));
    }
    match text.strip_prefix('/') {
        Some(rest) => Ok(rest.split('/').take(usize::MAX)),
        // `split` of "" gives one token; the whole document has none.
        None if text.is_empty() => Ok("".split('/').take(0)),
        None => Err(not_a_pointer(text)),
    }
}

/// Suggests the pointer for other notations that people write in its place.
fn not_a_pointer(text: &str) -> Problem {
    let bare = text.trim_start_matches(['$', '#']).trim_start_matches(['.', '/']);
    let escaped = bare.replace('~', "~0");
    let pointer = if bare.contains('/') {
        bare.to_owned()
    } else {
        escaped.replace("[*]", "/*").replace(['.', '['], "/").replace(']', "").replace("//", "/")
    };
    Problem::new(format!("`{text}` is no JSON Pointer: it does not begin with `/`"), format!("write `/{pointer}`"))
}

fn unescape(token: &str, index: usize, extended: bool) -> Result<String, Problem> {
    let mut out = String::with_capacity(token.len());
    let mut parts = token.split('~');
    out.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let plain = match part.chars().next() {
            Some('0') => '~',
            Some('1') => '/',
            Some('2') if extended => '*',
            Some('2') => {
                return Err(Problem::new(
                    format!("segment {} (`{token}`) has `~2`, which only `retain` and `exclude` know", index + 1),
                    "write `*`, which is an ordinary key here",
                ));
            }
            other => {
                let escape = other.map_or_else(|| "~ at the end".to_owned(), |c| format!("~{c}"));
                return Err(Problem::new(
                    format!("segment {} (`{token}`) has `{escape}`, which is no escape", index + 1),
                    if extended {
                        "write `~0` for `~`, `~1` for `/`, `~2` for `*`"
                    } else {
                        "write `~0` for `~`, `~1` for `/`"
                    },
                ));
            }
        };
        out.push(plain);
        out.push_str(&part[1..]);
    }
    Ok(out)
}

/// Returns whether everything that `below` matches is within what `path` matches.
pub(super) fn covers(path: &[Segment], below: &[Segment]) -> bool {
    let covers = |(path, below): (&Segment, &Segment)| match (path, below) {
        (Segment::Any, Segment::Name(_) | Segment::Any | Segment::Glob(_)) => true,
        // A glob matches names, not indices.
        (Segment::Glob(glob), Segment::Name(name)) => name.index.number().is_none() && glob.matches(&name.text),
        (path, below) => path == below,
    };
    path.len() <= below.len() && path.iter().zip(below).all(covers)
}

/// Returns whether `kept` may leave something at or below the strict path `at`, or on the way to it. Names of `kept`
/// map over arrays, which strict paths enter by index.
pub(super) fn may_keep(kept: &[Segment], at: &[Name]) -> bool {
    let (Some((first, rest)), Some((name, below))) = (kept.split_first(), at.split_first()) else {
        return true;
    };
    let same = match first {
        Segment::Any => true,
        Segment::Name(kept) => kept == name,
        Segment::Glob(glob) => glob.matches(&name.text),
        // It may lead anywhere.
        Segment::Deep => return true,
    };
    let mapped = matches!(name.index, Index::At(_) | Index::End);
    (same && may_keep(rest, below)) || (mapped && may_keep(kept, below))
}

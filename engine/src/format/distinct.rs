//! Documents in which an object has the same key twice, which no answer of a sound program has.
//!
//! The last value counts, at the place of the first (`dedupe`). Such a document is parsed and written once more without
//! them, so that nothing else has to know.

use std::ops::Range;

use super::scan::{at, string, value};
use crate::json::{DEPTH_CEILING, Key, Node, dedupe, read};
use crate::work::Work;

/// Returns compact JSON with one member for each key, and the range of the value at `part` in it: an empty range if
/// `part` is empty, or if that value does not count. Returns `None` if the run is interrupted.
pub(super) fn keys(json: &str, part: Range<usize>, work: &Work<'_>) -> Option<(String, Range<usize>)> {
    let document = read(json.as_bytes(), DEPTH_CEILING, usize::MAX, work).ok()?;
    let mut writer = Writer { out: String::with_capacity(json.len()), part: 0..0, work };
    writer.write(document.node, path(json, &part).as_deref());
    let written = work.spend_unbounded(1);
    written.then_some((writer.out, writer.part))
}

/// Returns the way to the value at `part`: the number of the element or member in each array and object around it.
fn path(json: &str, part: &Range<usize>) -> Option<Vec<usize>> {
    if part.is_empty() {
        return None;
    }
    let bytes = json.as_bytes();
    let (mut pos, mut path) = (0, Vec::new());
    while pos != part.start {
        let keyed = match at(bytes, pos) {
            b'{' => true,
            b'[' => false,
            _ => return None,
        };
        let mut number = 0;
        loop {
            // Behind the bracket or the comma.
            pos += 1;
            if keyed {
                pos = string(bytes, pos) + 1;
            }
            let end = value(bytes, pos);
            if part.start < end {
                break;
            }
            if at(bytes, end) != b',' {
                return None;
            }
            (pos, number) = (end, number + 1);
        }
        if part.start < pos {
            return None;
        }
        path.push(number);
    }
    Some(path)
}

struct Writer<'w> {
    out: String,
    part: Range<usize>,
    work: &'w Work<'w>,
}

impl Writer<'_> {
    /// Appends `node`. `path` leads from it to the part, if the part is in it.
    fn write(&mut self, node: Node<'_>, path: Option<&[usize]>) {
        if !self.work.spend_unbounded(1) {
            return;
        }
        let start = self.out.len();
        let rest = |number: usize| path.and_then(<[usize]>::split_first).filter(|(n, _)| **n == number).map(|(_, p)| p);
        match node {
            Node::Scalar(raw) => self.out.push_str(raw),
            Node::String(raw) => self.out.push_str(&raw),
            Node::Array(elements) => {
                self.out.push('[');
                for (number, element) in elements.into_iter().enumerate() {
                    self.separate(number);
                    self.write(element, rest(number));
                }
                self.out.push(']');
            }
            Node::Object(members) => {
                self.out.push('{');
                let mut members: Vec<_> = members
                    .into_iter()
                    .enumerate()
                    .map(|(number, member)| crate::json::Member { key: member.key, value: (number, member.value) })
                    .collect();
                dedupe(&mut members, self.work);
                for (place, member) in members.into_iter().enumerate() {
                    self.separate(place);
                    let (number, value) = member.value;
                    self.key(&member.key);
                    self.write(value, rest(number));
                }
                self.out.push('}');
            }
        }
        if path.is_some_and(<[usize]>::is_empty) {
            self.part = start..self.out.len();
        }
    }

    fn separate(&mut self, place: usize) {
        if place > 0 {
            self.out.push(',');
        }
    }

    fn key(&mut self, key: &Key<'_>) {
        self.out.push_str(key.raw());
        self.out.push(':');
    }
}

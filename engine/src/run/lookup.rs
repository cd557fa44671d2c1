//! Finds the members that `select` and the tests of branches name, fast for many names and for large objects.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::items::Traces;
use crate::json::{Node, compact_len};
use crate::program::{Pointer, Step};
use crate::stream::Keys;
use crate::work::Work;

/// Objects with at most this many members are searched linearly for each name.
const SMALL_OBJECT: usize = 8;
/// The smallest weight of a value, where a value may be found more than once.
const MIN_VALUE_BYTES: usize = 8;

/// The lookups in one item. A large object is scanned once, for all names of all paths.
pub(super) struct Lookups<'p, 'n, 'a> {
    names: &'p Keys,
    work: &'p Work<'p>,
    /// Large objects that have been scanned, by address.
    seen: HashSet<*const Node<'a>>,
    /// Members of large objects, by the number of their name.
    known: HashMap<(*const Node<'a>, usize), &'n Node<'a>>,
}

impl<'p, 'n, 'a> Lookups<'p, 'n, 'a> {
    pub(super) fn new(names: &'p Keys, work: &'p Work<'p>) -> Self {
        Self { names, work, seen: HashSet::new(), known: HashMap::new() }
    }

    /// Begins an item from which `fields` fields are looked up. Returns `false` where the stage must end.
    pub(super) fn begin(&mut self, fields: usize) -> bool {
        if !self.seen.is_empty() {
            self.seen.clear();
            self.known.clear();
        }
        self.work.spend(fields)
    }

    /// Returns what a source path finds; a path with `[*]` makes a list.
    pub(super) fn find(&mut self, node: &'n Node<'a>, path: &[Step]) -> Option<Cow<'n, Node<'a>>> {
        let Some((step, rest)) = path.split_first() else { return Some(Cow::Borrowed(node)) };
        match (step, node) {
            (Step::Name(name), Node::Object(_)) => {
                let value = self.member(node, name)?;
                self.find(value, rest)
            }
            (Step::Index(index), Node::Array(elements)) => self.find(elements.get(*index)?, rest),
            (Step::Each, Node::Array(elements)) => {
                let mut list = Vec::new();
                for element in elements {
                    if !self.work.spend(1) {
                        return None;
                    }
                    list.extend(self.find(element, rest).map(Cow::into_owned));
                }
                (!list.is_empty() || elements.is_empty()).then_some(Cow::Owned(Node::Array(list)))
            }
            _ => None,
        }
    }

    /// Follows a source path everywhere and records what it meets. Returns whether it finds a value.
    pub(super) fn trace(&mut self, node: &'n Node<'a>, path: &[Step], traces: &mut Traces) -> bool {
        let Some((step, rest)) = path.split_first() else {
            traces.reached = true;
            return true;
        };
        match (step, node) {
            (Step::Name(name), Node::Object(_)) => {
                self.member(node, name).is_some_and(|value| self.trace(value, rest, traces))
            }
            (Step::Index(index), Node::Array(elements)) => {
                elements.get(*index).is_some_and(|element| self.trace(element, rest, traces))
            }
            (Step::Each, Node::Array(elements)) => {
                let mut found = elements.is_empty();
                for element in elements {
                    if !self.work.spend_unbounded(1) {
                        break;
                    }
                    found |= self.trace(element, rest, traces);
                }
                traces.lacking |= !found;
                found
            }
            _ => false,
        }
    }

    /// Returns whether a source path finds a value.
    pub(super) fn resolves(&mut self, node: &'n Node<'a>, path: &[Step]) -> bool {
        let Some((step, rest)) = path.split_first() else { return true };
        match (step, node) {
            (Step::Name(name), Node::Object(_)) => {
                self.member(node, name).is_some_and(|value| self.resolves(value, rest))
            }
            (Step::Index(index), Node::Array(elements)) => {
                elements.get(*index).is_some_and(|element| self.resolves(element, rest))
            }
            (Step::Each, Node::Array(elements)) => {
                elements.is_empty()
                    || elements.iter().any(|element| self.work.spend_unbounded(1) && self.resolves(element, rest))
            }
            _ => false,
        }
    }

    /// Returns the value at a strict pointer. The last of duplicate keys counts.
    pub(super) fn at(&mut self, document: &'n Node<'a>, pointer: &Pointer) -> Option<&'n Node<'a>> {
        pointer.segments.iter().try_fold(document, |node, name| match node {
            Node::Array(elements) => elements.get(name.index.number()?),
            Node::Object(_) => self.member(node, &name.text),
            Node::Scalar(_) | Node::String(_) => None,
        })
    }

    /// Returns the size of a value, in bytes of a document.
    pub(super) fn weight(&self, value: &Node<'a>) -> usize {
        compact_len(value).max(MIN_VALUE_BYTES * values(value))
    }

    /// Returns the member `name` of an object; the last of duplicates.
    fn member(&mut self, node: &'n Node<'a>, name: &str) -> Option<&'n Node<'a>> {
        let members = node.as_object()?;
        if members.len() <= SMALL_OBJECT {
            return node.get(name);
        }
        let address = std::ptr::from_ref(node);
        if self.seen.insert(address) {
            for member in members.iter().take_while(|_| self.work.spend_unbounded(1)) {
                if let Some(number) = self.names.find(&member.key.plain()) {
                    self.known.insert((address, number), &member.value);
                }
            }
        }
        self.known.get(&(address, self.names.find(name.as_bytes())?)).copied()
    }
}

fn values(node: &Node<'_>) -> usize {
    1 + match node {
        Node::Scalar(_) | Node::String(_) => 0,
        Node::Array(elements) => elements.iter().map(values).sum(),
        Node::Object(members) => members.iter().map(|member| values(&member.value)).sum(),
    }
}

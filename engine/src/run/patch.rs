//! Stage 3: JSON Patch, RFC 6902, on the tree.

use crate::Limits;
use crate::json::{Key, Member, Node, compact_len, dedupe, encode};
use crate::program::{Index, Name, Patch, Pointer};

/// How a sequence of operations ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All were applied.
    Done,
    /// The `test` at this place failed: what came before stays applied.
    TestFailed(usize),
}

/// An operation that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// Its place in the list.
    pub(super) at: usize,
    /// Why, in words that say nothing of the data but its shape.
    pub(super) reason: String,
}

/// Why a pointer leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Miss {
    /// A member or an element is absent, or there is a scalar where one would be.
    Absent,
    /// A name where the document has an array.
    NameOnArray,
    /// A name where the document has an empty array.
    NameOnEmptyArray,
}

impl Miss {
    fn reason(self, pointer: &Pointer) -> String {
        match self {
            Self::Absent => format!("`{}` does not exist", pointer.text),
            Self::NameOnArray | Self::NameOnEmptyArray => format!("`{}` goes by a name into a list", pointer.text),
        }
    }
}

/// How operations are applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// `remove` of what is absent fails (RFC 6902); else it is satisfied.
    pub(super) strict: bool,
    /// An empty array is as good as absent to `remove`, since a later stage drops it: under `Enforced` it must not
    /// be told from what is absent.
    pub(super) empty_is_absent: bool,
    /// A member that is set becomes the last one, also where there was one by its name: under `Enforced` its place
    /// must not tell that.
    pub(super) set_is_last: bool,
    /// How large a document may become.
    pub(super) limits: Limits,
}

/// What operations have done so far.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// What a `remove` did not find.
    pub(super) absent: Vec<String>,
    /// Bytes that `copy` has added.
    copied: usize,
}

/// Applies the operations in order, and notes in `done` what they did.
pub(super) fn apply<'a>(
    document: &mut Node<'a>,
    patches: &'a [Patch],
    rules: Rules,
    done: &mut Done,
) -> Result<Ended, Failed> {
    let limits = rules.limits;
    for (at, patch) in patches.iter().enumerate() {
        let failed = |reason: String| Failed { at, reason };
        match patch {
            Patch::Add { path, value } => add(document, path, value.node(), rules).map_err(failed)?,
            Patch::Remove { path } => match remove(document, path) {
                Ok(_) => {}
                Err(Miss::Absent) if !rules.strict => done.absent.push(path.text.to_string()),
                Err(Miss::NameOnEmptyArray) if rules.empty_is_absent => done.absent.push(path.text.to_string()),
                Err(miss) => return Err(failed(miss.reason(path))),
            },
            Patch::Replace { path, value } => {
                let value = value.node();
                fits(path, &value, limits).map_err(failed)?;
                *find(document, &path.segments).map_err(|miss| failed(miss.reason(path)))? = value;
            }
            Patch::Move { from, path } if from.segments == path.segments => {
                find(document, &from.segments).map_err(|miss| failed(miss.reason(from)))?;
            }
            Patch::Move { from, path } => {
                let value = remove(document, from).map_err(|miss| failed(miss.reason(from)))?;
                add(document, path, value, rules).map_err(failed)?;
            }
            Patch::Copy { from, path } => {
                let value = &*find(document, &from.segments).map_err(|miss| failed(miss.reason(from)))?;
                // Copies can double the document each time.
                done.copied += compact_len(value);
                if done.copied > limits.max_input_bytes {
                    return Err(failed("the copies together are larger than an output may be".to_owned()));
                }
                let value = value.clone();
                add(document, path, value, rules).map_err(failed)?;
            }
            Patch::Test { path, value } => {
                let holds = find(document, &path.segments).is_ok_and(|found| found.equals(&value.node()));
                if !holds {
                    return Ok(Ended::TestFailed(at));
                }
            }
        }
    }
    Ok(Ended::Done)
}

/// Whether operation `at` is about a place within one that a later operation removes, and nothing
/// between them reads or writes there.
///
/// Under `Enforced` such an operation must not fail: whether it can apply depends on what is removed.
pub(super) fn is_moot(patches: &[Patch], at: usize) -> bool {
    let Some(Patch::Remove { path }) = patches.get(at) else { return false };
    for later in &patches[at + 1..] {
        match later {
            Patch::Remove { path: outer } if path.segments.starts_with(&outer.segments) => return true,
            other if places(other).any(|place| overlaps(place, &path.segments)) => return false,
            _ => {}
        }
    }
    false
}

fn places(patch: &Patch) -> impl Iterator<Item = &[Name]> {
    let (path, from) = match patch {
        Patch::Add { path, .. } | Patch::Remove { path } | Patch::Replace { path, .. } | Patch::Test { path, .. } => {
            (path, None)
        }
        Patch::Move { from, path } | Patch::Copy { from, path } => (path, Some(from)),
    };
    std::iter::once(path).chain(from).map(|pointer| pointer.segments.as_slice())
}

fn overlaps(a: &[Name], b: &[Name]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// The value at a strict pointer. Objects on the way lose their duplicates.
fn find<'n, 'a>(node: &'n mut Node<'a>, segments: &[Name]) -> Result<&'n mut Node<'a>, Miss> {
    let mut node = node;
    for name in segments {
        node = match node {
            Node::Object(members) => {
                dedupe(members);
                let found = members.iter_mut().find(|member| member.key.is(&name.text));
                &mut found.ok_or(Miss::Absent)?.value
            }
            Node::Array(elements) => {
                let index = index(name, elements)?;
                elements.get_mut(index).ok_or(Miss::Absent)?
            }
            Node::Scalar(_) | Node::String(_) => return Err(Miss::Absent),
        };
    }
    Ok(node)
}

/// The index that `name` is in an array; `-` is behind its end.
fn index(name: &Name, elements: &[Node<'_>]) -> Result<usize, Miss> {
    match name.index {
        Index::At(index) => Ok(index),
        Index::End => Ok(usize::MAX),
        Index::None if elements.is_empty() => Err(Miss::NameOnEmptyArray),
        Index::None => Err(Miss::NameOnArray),
    }
}

fn remove<'a>(document: &mut Node<'a>, pointer: &Pointer) -> Result<Node<'a>, Miss> {
    let Some((last, parents)) = pointer.segments.split_last() else {
        return Ok(std::mem::replace(document, Node::NULL));
    };
    match find(document, parents)? {
        Node::Object(members) => {
            dedupe(members);
            let at = members.iter().position(|member| member.key.is(&last.text)).ok_or(Miss::Absent)?;
            Ok(members.remove(at).value)
        }
        Node::Array(elements) => {
            let index = index(last, elements)?;
            if index < elements.len() { Ok(elements.remove(index)) } else { Err(Miss::Absent) }
        }
        Node::Scalar(_) | Node::String(_) => Err(Miss::Absent),
    }
}

fn add<'a>(document: &mut Node<'a>, pointer: &Pointer, value: Node<'a>, rules: Rules) -> Result<(), String> {
    fits(pointer, &value, rules.limits)?;
    let Some((last, parents)) = pointer.segments.split_last() else {
        *document = value;
        return Ok(());
    };
    let parent = find(document, parents).map_err(|miss| match miss {
        Miss::Absent => format!("what `{}` is in does not exist", pointer.text),
        Miss::NameOnArray | Miss::NameOnEmptyArray => miss.reason(pointer),
    })?;
    match parent {
        Node::Object(members) => {
            dedupe(members);
            if rules.set_is_last {
                members.retain(|member| !member.key.is(&last.text));
            }
            match members.iter_mut().find(|member| member.key.is(&last.text)) {
                Some(member) => member.value = value,
                None => members.push(Member { key: Key::from_raw(encode(&last.text)), value }),
            }
            Ok(())
        }
        Node::Array(elements) => {
            let index = match last.index {
                Index::End => elements.len(),
                _ => index(last, elements).map_err(|miss| miss.reason(pointer))?,
            };
            if index > elements.len() {
                return Err(format!("`{}` is beyond the end of the list", pointer.text));
            }
            elements.insert(index, value);
            Ok(())
        }
        Node::Scalar(_) | Node::String(_) => {
            Err(format!("what `{}` is in is {}", pointer.text, parent.kind().as_str()))
        }
    }
}

/// Everything that walks a tree recurses: it must not grow deeper than what is parsed.
fn fits(pointer: &Pointer, value: &Node<'_>, limits: Limits) -> Result<(), String> {
    if pointer.segments.len() + value.depth() > limits.max_depth.min(crate::json::DEPTH_CEILING) {
        return Err(format!("at `{}` the document becomes nested too deep", pointer.text));
    }
    Ok(())
}

/// Whether the value at `pointer` equals `value`; reads only. Of duplicate keys the last counts.
pub(super) fn holds(document: &Node<'_>, pointer: &Pointer, value: &Node<'_>) -> bool {
    let mut node = document;
    for name in &pointer.segments {
        let next = match node {
            Node::Array(elements) => match name.index {
                Index::At(index) => elements.get(index),
                Index::End | Index::None => None,
            },
            Node::Object(_) => node.get(&name.text),
            Node::Scalar(_) | Node::String(_) => None,
        };
        let Some(next) = next else { return false };
        node = next;
    }
    node.equals(value)
}

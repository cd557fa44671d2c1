//! Writes compact JSON: without insignificant whitespace, otherwise as written.

use super::Node;
use crate::work::Work;

/// Appends `node` as compact JSON.
pub fn write(node: &Node<'_>, out: &mut String) {
    write_within(node, out, &Work::unlimited());
}

/// As [`write()`], until the run is interrupted.
pub(crate) fn write_within(node: &Node<'_>, out: &mut String, work: &Work<'_>) {
    if !work.spend_unbounded(1) {
        return;
    }
    match node {
        Node::Scalar(raw) => out.push_str(raw),
        Node::String(raw) => out.push_str(raw),
        Node::Array(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_within(element, out, work);
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (i, member) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(member.key.raw());
                out.push(':');
                write_within(&member.value, out, work);
            }
            out.push('}');
        }
    }
}

/// Returns `node` as compact JSON.
#[must_use]
pub fn to_string(node: &Node<'_>) -> String {
    let mut out = String::with_capacity(compact_len(node));
    write(node, &mut out);
    out
}

/// As [`to_string`], until the run is interrupted.
pub(crate) fn to_string_within(node: &Node<'_>, work: &Work<'_>) -> String {
    let mut out = String::with_capacity(compact_len_within(node, work));
    write_within(node, &mut out, work);
    out
}

/// Returns the number of bytes that [`write()`] appends.
#[must_use]
pub fn compact_len(node: &Node<'_>) -> usize {
    compact_len_within(node, &Work::unlimited())
}

/// As [`compact_len`], until the run is interrupted.
pub(crate) fn compact_len_within(node: &Node<'_>, work: &Work<'_>) -> usize {
    if !work.spend_unbounded(1) {
        return 2;
    }
    match node {
        Node::Scalar(raw) => raw.len(),
        Node::String(raw) => raw.len(),
        Node::Array(elements) => {
            let inner: usize = elements.iter().map(|element| compact_len_within(element, work)).sum();
            2 + elements.len().saturating_sub(1) + inner
        }
        Node::Object(members) => {
            let inner: usize = members.iter().map(|m| m.key.raw().len() + 1 + compact_len_within(&m.value, work)).sum();
            2 + members.len().saturating_sub(1) + inner
        }
    }
}

//! Compact JSON: insignificant whitespace goes, all else stays as it was written.

use super::Node;

/// Appends `node` as compact JSON.
pub fn write(node: &Node<'_>, out: &mut String) {
    match node {
        Node::Scalar(raw) => out.push_str(raw),
        Node::String(raw) => out.push_str(raw),
        Node::Array(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(element, out);
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
                write(&member.value, out);
            }
            out.push('}');
        }
    }
}

/// `node` as compact JSON.
#[must_use]
pub fn to_string(node: &Node<'_>) -> String {
    let mut out = String::with_capacity(compact_len(node));
    write(node, &mut out);
    out
}

/// The bytes that [`write()`] appends.
#[must_use]
pub fn compact_len(node: &Node<'_>) -> usize {
    match node {
        Node::Scalar(raw) => raw.len(),
        Node::String(raw) => raw.len(),
        Node::Array(elements) => 2 + elements.len().saturating_sub(1) + elements.iter().map(compact_len).sum::<usize>(),
        Node::Object(members) => {
            let inner: usize = members.iter().map(|m| m.key.raw().len() + 1 + compact_len(&m.value)).sum();
            2 + members.len().saturating_sub(1) + inner
        }
    }
}

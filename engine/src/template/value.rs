//! The values of expressions.

use std::borrow::Cow;
use std::cmp::Ordering;

use indexmap::IndexMap;

use super::decimal::Decimal;
use crate::json::{self, Kind, Node};

/// A value. Both `null` and a missing value are `Nil`.
#[derive(Clone)]
pub(super) enum Value<'v> {
    Nil,
    Bool(bool),
    /// The digits of a JSON number.
    Number(Cow<'v, str>),
    /// Text with its escapes resolved.
    Text(Cow<'v, str>),
    /// An array or object.
    Node(&'v Node<'v>),
}

impl<'v> Value<'v> {
    pub(super) fn of(node: &'v Node<'v>) -> Self {
        match node {
            Node::Scalar(raw) => match node.kind() {
                Kind::Null => Self::Nil,
                Kind::Boolean => Self::Bool(*raw == "true"),
                _ => Self::Number(Cow::Borrowed(raw)),
            },
            Node::String(_) => Self::Text(node.as_str().unwrap_or_default()),
            Node::Array(_) | Node::Object(_) => Self::Node(node),
        }
    }

    /// Returns Go's truth: a value is true unless it is false, 0, nil or empty.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Number(digits) => !Decimal::parse(digits).is_zero(),
            Self::Text(text) => !text.is_empty(),
            Self::Node(node) => self.length() > 0 || !matches!(node.kind(), Kind::Array | Kind::Object),
        }
    }

    /// Returns the number of bytes, elements or members; 0 for a value without length.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Node(Node::Array(elements)) => elements.len(),
            Self::Node(node @ Node::Object(_)) => members(node).len(),
            _ => 0,
        }
    }

    /// Returns the member or element at a key; `Nil` if there is none.
    pub(super) fn at(&self, key: &Value<'_>) -> Value<'v> {
        let found = match (self, key) {
            (Self::Node(node @ Node::Object(_)), Value::Text(name)) => node.get(name),
            (Self::Node(Node::Array(elements)), Value::Number(digits)) => {
                digits.parse::<usize>().ok().and_then(|index| elements.get(index))
            }
            _ => None,
        };
        found.map_or(Self::Nil, Self::of)
    }

    pub(super) fn field(&self, name: &str) -> Value<'v> {
        match self {
            Self::Node(node) => node.get(name).map_or(Self::Nil, Self::of),
            _ => Self::Nil,
        }
    }

    /// Returns whether two scalars are equal; numbers by value. Arrays and objects equal nothing.
    pub(super) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Nil, Value::Nil) => true,
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Text(a), Value::Text(b)) => a == b,
            (Self::Number(a), Value::Number(b)) => Node::Scalar(a).equals(&Node::Scalar(b)),
            _ => false,
        }
    }

    /// Returns the order of two numbers or two texts; `None` for anything else.
    pub(super) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(a), Value::Number(b)) => Some(Decimal::parse(a).compare(&Decimal::parse(b))),
            (Self::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Returns the value as it is printed.
    pub(super) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Nil => Cow::Borrowed(""),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            Self::Number(text) | Self::Text(text) => Cow::Borrowed(text),
            Self::Node(node) => Cow::Owned(json::to_string(node)),
        }
    }

    /// Returns the work of reading all of the value, in bytes or members.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Nil | Self::Bool(_) => 1,
            Self::Number(text) | Self::Text(text) => text.len(),
            Self::Node(Node::Array(elements)) => elements.len(),
            Self::Node(Node::Object(members)) => members.len(),
            Self::Node(_) => 1,
        }
    }
}

/// Returns the members of an object by key: the last value of duplicates, at the place of the first.
pub(super) fn members<'v>(node: &'v Node<'v>) -> IndexMap<Cow<'v, str>, &'v Node<'v>> {
    let members = node.as_object().unwrap_or_default();
    members.iter().map(|member| (member.key.decoded(), &member.value)).collect()
}

//! A compiled schema: a graph of nodes, each with its rules by type of value.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::decimal::Divisor;
use crate::document::{Document, Kind};
use crate::pattern::Pattern;

/// The index of a node.
pub(crate) type NodeId = usize;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    /// The schema's own text, which holds the constants.
    pub(crate) source: Document<'static>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
}

/// The types that `type` allows, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(pub(crate) u8);

impl Types {
    pub(crate) const NAMES: [&'static str; 7] = ["null", "boolean", "number", "string", "array", "object", "integer"];
    /// A number without a fraction; the other bits are those of [`Kind`].
    pub(crate) const INTEGER: u8 = 1 << 6;

    pub(crate) fn bit(kind: Kind) -> u8 {
        match kind {
            Kind::Null => 1,
            Kind::Boolean => 1 << 1,
            Kind::Number => 1 << 2,
            Kind::String => 1 << 3,
            Kind::Array => 1 << 4,
            Kind::Object => 1 << 5,
        }
    }

    /// Returns the bit of the type with the given name.
    pub(crate) fn named(name: &str) -> Option<u8> {
        Self::NAMES.iter().position(|known| *known == name).map(|at| 1 << at)
    }

    /// Returns the names of the types, joined for a message.
    pub(crate) fn describe(self) -> String {
        let names = Self::NAMES.iter().enumerate().filter(|(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| *name);
        names.collect::<Vec<_>>().join(" or ")
    }
}

/// One schema of the graph. An absent rule holds for every value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// `false`: no value is valid.
    pub(crate) never: bool,
    pub(crate) types: Option<Types>,
    pub(crate) constants: Option<Box<Constants>>,
    pub(crate) number: Option<Box<NumberRules>>,
    pub(crate) string: Option<Box<StringRules>>,
    pub(crate) array: Option<Box<ArrayRules>>,
    pub(crate) object: Option<Box<ObjectRules>>,
    pub(crate) logic: Option<Box<Logic>>,
}

/// `enum` and `const`: a value must be in every list.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    pub(crate) lists: Vec<OneOf>,
}

/// A list of allowed values.
#[derive(Debug, Default)]
pub(crate) struct OneOf {
    /// The strings, in a set, so that a lookup does not depend on their number.
    pub(crate) strings: HashSet<Box<str>>,
    /// The places of the other values in the schema's text; they are compared one by one.
    pub(crate) others: Vec<usize>,
    /// The description for a message.
    pub(crate) described: Box<str>,
}

#[derive(Debug, Default)]
pub(crate) struct NumberRules {
    /// The bounds, each as the place of a number in the schema's text.
    pub(crate) minimum: Option<usize>,
    pub(crate) above: Option<usize>,
    pub(crate) maximum: Option<usize>,
    pub(crate) below: Option<usize>,
    pub(crate) multiple: Option<(Divisor, usize)>,
}

#[derive(Debug, Default)]
pub(crate) struct StringRules {
    pub(crate) min: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) pattern: Option<Arc<Pattern>>,
}

#[derive(Debug, Default)]
pub(crate) struct ArrayRules {
    pub(crate) prefix: Vec<NodeId>,
    pub(crate) items: Option<NodeId>,
    pub(crate) contains: Option<NodeId>,
    pub(crate) min_contains: Option<usize>,
    pub(crate) max_contains: Option<usize>,
    pub(crate) min: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) unique: bool,
    pub(crate) unevaluated: Option<NodeId>,
    /// Whether `contains` marks an element as evaluated: from 2020-12 on.
    pub(crate) contains_evaluates: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ObjectRules {
    pub(crate) properties: HashMap<Box<str>, Property>,
    /// The number of required properties.
    pub(crate) required: usize,
    /// The required names in the order of the schema, for messages.
    pub(crate) required_names: Vec<Box<str>>,
    pub(crate) patterns: Vec<(Arc<Pattern>, NodeId)>,
    pub(crate) additional: Option<NodeId>,
    pub(crate) names: Option<NodeId>,
    pub(crate) min: Option<usize>,
    pub(crate) max: Option<usize>,
    pub(crate) dependent_required: Vec<(Box<str>, Vec<Box<str>>)>,
    pub(crate) dependent_schemas: Vec<(Box<str>, NodeId)>,
    pub(crate) unevaluated: Option<NodeId>,
}

/// What the schema says about one name.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Property {
    pub(crate) schema: Option<NodeId>,
    pub(crate) required: bool,
}

/// The schemas that apply to the same value.
#[derive(Debug, Default)]
pub(crate) struct Logic {
    /// `$ref`, `allOf`.
    pub(crate) all: Vec<NodeId>,
    /// `anyOf`: at least one of them must be valid.
    pub(crate) any: Option<Vec<NodeId>>,
    pub(crate) one: Option<Vec<NodeId>>,
    pub(crate) not: Option<NodeId>,
    pub(crate) condition: Option<Condition>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) when: NodeId,
    pub(crate) then: Option<NodeId>,
    pub(crate) otherwise: Option<NodeId>,
}

impl Node {
    /// Returns the schemas that apply to the same value: a check enters them without going deeper into the value.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = NodeId> {
        let logic = self.logic.iter().flat_map(|logic| {
            let Logic { all, any, one, not, condition } = logic.as_ref();
            let condition = condition.iter().flat_map(|condition| {
                let Condition { when, then, otherwise } = *condition;
                [Some(when), then, otherwise].into_iter().flatten()
            });
            all.iter().chain(any.iter().flatten()).chain(one.iter().flatten()).chain(not).copied().chain(condition)
        });
        let dependent = self.object.iter().flat_map(|object| object.dependent_schemas.iter().map(|(_, node)| *node));
        logic.chain(dependent)
    }
}

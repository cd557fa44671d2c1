//! Compiles the text of a schema into a graph, or reports what is wrong with it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::decimal::Decimal;
use crate::document::{Document, Kind, Limits, Value, clipped};
use crate::node::{ArrayRules, Condition, Logic, Node, NodeId, NumberRules, ObjectRules, OneOf, Schema, Types};
use crate::pattern::{Pattern, Patterns};

/// The number of schemas within one schema.
const MAX_NODES: usize = 20_000;
/// The number of schemas that refer to each other without going deeper into the value.
const MAX_IN_PLACE: usize = 64;
/// The number of problems that are reported.
const MAX_PROBLEMS: usize = 20;
/// The number of constants that a message names.
const SHOWN_CONSTANTS: usize = 8;

const COMPARE: &str = "compare it with JSON Schema 2020-12";

/// A step on the path to a place in a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A member of an object.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// A problem with a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The place, from the root of the schema.
    pub place: Vec<Segment>,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.place {
            match segment {
                Segment::Key(key) => write!(f, "/{}", clipped(key))?,
                Segment::Index(index) => write!(f, "/{index}")?,
            }
        }
        let colon = if self.place.is_empty() { "" } else { ": " };
        write!(f, "{colon}{}, {}", self.message, self.remedy)
    }
}

/// The dialects that differ in the meaning of a keyword, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Seven,
    Of2019,
    Of2020,
}

/// Compiles a schema. It shares its patterns with the other schemas of the same service, through `patterns`.
///
/// # Errors Each problem names a place and a remedy. Rejected are keywords of a wrong type, references to other
/// documents, schemas that refer to themselves without going deeper into the value, patterns that cannot be searched
/// in linear time, and schemas of more than 20,000 parts.
pub fn compile(text: &str, patterns: &mut Patterns) -> Result<Schema, Vec<Problem>> {
    let problem = |message: String, remedy: &str| Problem { place: Vec::new(), message, remedy: remedy.to_owned() };
    let source = Document::parse(text.to_owned(), Limits::SCHEMA)
        .map_err(|error| vec![problem(format!("cannot be read: {error}"), "correct it")])?;
    let root = source.root();
    let draft = match root.get("$schema").and_then(Value::as_str) {
        None => Draft::Of2020,
        Some(name) => draft(&name).ok_or_else(|| {
            vec![problem(
                "`$schema` names a dialect that is not known".to_owned(),
                "name draft 4, 6, 7, 2019-09 or 2020-12",
            )]
        })?,
    };
    let mut compiler = Compiler {
        source: &source,
        draft,
        patterns,
        known: HashMap::new(),
        queue: VecDeque::new(),
        places: Vec::new(),
        anchors: None,
        problems: Vec::new(),
    };
    let root = compiler.id_of(root, &Place::default());
    let mut nodes = Vec::new();
    while let Some((at, place)) = compiler.queue.pop_front() {
        let node = compiler.node(source.value(at), &place);
        nodes.push(node);
        if compiler.problems.len() >= MAX_PROBLEMS {
            break;
        }
    }
    if compiler.problems.is_empty() {
        compiler.in_place(&nodes);
    }
    let Compiler { problems, .. } = compiler;
    if problems.is_empty() { Ok(Schema { source, nodes, root }) } else { Err(problems) }
}

fn draft(name: &str) -> Option<Draft> {
    [
        ("draft-04/", Draft::Four),
        ("draft-06/", Draft::Seven),
        ("draft-07/", Draft::Seven),
        ("2019-09/", Draft::Of2019),
        ("2020-12/", Draft::Of2020),
    ]
    .into_iter()
    .find_map(|(part, draft)| name.contains(part).then_some(draft))
}

struct Compiler<'s, 'p> {
    source: &'s Document<'static>,
    draft: Draft,
    patterns: &'p mut Patterns,
    /// The nodes by their place in the text.
    known: HashMap<usize, NodeId>,
    /// Schemas that have a node but have not been read, in the order of their nodes.
    queue: VecDeque<(usize, Place)>,
    /// The place at which each node was first met.
    places: Vec<Place>,
    /// Built at the first reference by name.
    anchors: Option<HashMap<String, usize>>,
    problems: Vec<Problem>,
}

/// The place of a part of the schema. Parts share the path to them, since a schema of many deep parts has many
/// places.
#[derive(Debug, Clone, Default)]
struct Place(Option<Rc<(Place, Segment)>>);

impl Place {
    fn key(&self, name: &str) -> Self {
        Self(Some(Rc::new((self.clone(), Segment::Key(name.to_owned())))))
    }

    fn index(&self, index: usize) -> Self {
        Self(Some(Rc::new((self.clone(), Segment::Index(index)))))
    }

    fn is_root(&self) -> bool {
        self.0.is_none()
    }

    fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut place = self;
        while let Some((outer, segment)) = place.0.as_deref() {
            segments.push(segment.clone());
            place = outer;
        }
        segments.reverse();
        segments
    }
}

impl<'s> Compiler<'s, '_> {
    fn problem(&mut self, place: &Place, message: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem { place: place.segments(), message: message.into(), remedy: remedy.into() });
    }

    /// Returns the node of the schema at a value, which is read later.
    fn id_of(&mut self, schema: Value<'s>, place: &Place) -> NodeId {
        if let Some(known) = self.known.get(&schema.at()) {
            return *known;
        }
        let id = self.known.len();
        if id == MAX_NODES {
            self.problem(place, format!("the schema has more than {MAX_NODES} parts"), "write a smaller schema");
        }
        if id >= MAX_NODES {
            return 0;
        }
        self.known.insert(schema.at(), id);
        self.places.push(place.clone());
        self.queue.push_back((schema.at(), place.clone()));
        id
    }

    fn node(&mut self, schema: Value<'s>, place: &Place) -> Node {
        match schema.kind() {
            Kind::Boolean => Node { never: schema.raw() == "false", ..Node::default() },
            Kind::Object => self.keywords(schema, place),
            Kind::Null | Kind::Number | Kind::String | Kind::Array => {
                self.problem(place, "is not a schema", "write an object, true or false");
                Node::default()
            }
        }
    }

    fn keywords(&mut self, schema: Value<'s>, place: &Place) -> Node {
        let mut node = Node::default();
        let mut logic = Logic::default();
        let is_root = place.is_root();
        let reference = schema.get("$ref").is_some();
        if !is_root && let Some(id) = schema.get("$id").and_then(Value::as_str).filter(|id| !id.starts_with('#')) {
            let remedy = "remove it, and refer to the part by `#/$defs/NAME`";
            self.problem(&place.key("$id"), format!("`{}` makes a document of its own here", clipped(&id)), remedy);
        }
        for (name, value) in schema.members() {
            let Some(name) = name.as_str() else { continue };
            let at = place.key(&name);
            match name.as_ref() {
                "$ref" | "$dynamicRef" => logic.all.extend(self.reference(value, &at)),
                "$recursiveRef" if self.draft == Draft::Of2019 => logic.all.extend(self.reference(value, &at)),
                // Up to draft 7 a reference ignores its siblings.
                _ if reference && self.draft <= Draft::Seven => {}
                "type" => node.types = self.types(value, &at),
                "enum" if value.kind() == Kind::Array => {
                    let list = one_of(value.elements());
                    node.constants.get_or_insert_default().lists.push(list);
                }
                "enum" => self.problem(&at, "must be a list of values", COMPARE),
                "const" => node.constants.get_or_insert_default().lists.push(one_of([value].into_iter())),
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                    self.number(&name, value, schema, node.number.get_or_insert_default(), &at);
                }
                "minLength" => node.string.get_or_insert_default().min = self.size(value, &at),
                "maxLength" => node.string.get_or_insert_default().max = self.size(value, &at),
                "pattern" => node.string.get_or_insert_default().pattern = self.pattern(value, &at),
                "minItems" => node.array.get_or_insert_default().min = self.size(value, &at),
                "maxItems" => node.array.get_or_insert_default().max = self.size(value, &at),
                "minContains" => node.array.get_or_insert_default().min_contains = self.size(value, &at),
                "maxContains" => node.array.get_or_insert_default().max_contains = self.size(value, &at),
                "uniqueItems" if value.kind() == Kind::Boolean => {
                    node.array.get_or_insert_default().unique = value.raw() == "true";
                }
                "uniqueItems" => self.problem(&at, "must be true or false", COMPARE),
                "items" | "prefixItems" | "additionalItems" | "contains" | "unevaluatedItems" => {
                    self.array(&name, value, schema, node.array.get_or_insert_default(), &at);
                }
                "minProperties" => node.object.get_or_insert_default().min = self.size(value, &at),
                "maxProperties" => node.object.get_or_insert_default().max = self.size(value, &at),
                "properties"
                | "patternProperties"
                | "additionalProperties"
                | "propertyNames"
                | "required"
                | "dependentRequired"
                | "dependentSchemas"
                | "unevaluatedProperties" => {
                    self.object(&name, value, node.object.get_or_insert_default(), &at);
                }
                "dependencies" => {
                    self.dependencies(value, node.object.get_or_insert_default(), &at);
                }
                "allOf" => logic.all.extend(self.schemas(value, &at)),
                "anyOf" => logic.any = Some(self.schemas(value, &at)),
                "oneOf" => logic.one = Some(self.schemas(value, &at)),
                "not" => logic.not = Some(self.id_of(value, &at)),
                "if" if self.draft >= Draft::Seven => {
                    let when = self.id_of(value, &at);
                    let mut part = |name: &str| schema.get(name).map(|part| self.id_of(part, &place.key(name)));
                    logic.condition = Some(Condition { when, then: part("then"), otherwise: part("else") });
                }
                // Annotations and unknown keywords.
                _ => {}
            }
        }
        let Logic { all, any, one, not, condition } = &logic;
        if !all.is_empty() || any.is_some() || one.is_some() || not.is_some() || condition.is_some() {
            node.logic = Some(Box::new(logic));
        }
        node
    }

    fn types(&mut self, value: Value<'s>, at: &Place) -> Option<Types> {
        let mut bits = 0;
        let names: Vec<Value<'s>> = if value.kind() == Kind::Array { value.elements().collect() } else { vec![value] };
        for name in &names {
            match name.as_str().and_then(|name| Types::named(&name)) {
                Some(bit) => bits |= bit,
                None => {
                    let remedy = "use string, number, integer, boolean, array, object or null";
                    self.problem(at, "is not a type", remedy);
                    return None;
                }
            }
        }
        if names.is_empty() {
            self.problem(at, "is an empty list", "name a type, or remove it");
            return None;
        }
        Some(Types(bits))
    }

    /// Reads a number of characters, elements or members.
    fn size(&mut self, value: Value<'s>, at: &Place) -> Option<usize> {
        let size = value.raw().parse::<f64>().ok().filter(|size| *size >= 0.0 && size.fract() == 0.0);
        match size.filter(|_| value.kind() == Kind::Number) {
            // The conversion saturates, at a number beyond every document.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(size) => Some(size as usize),
            None => {
                self.problem(at, "must be a whole number, 0 or more", COMPARE);
                None
            }
        }
    }

    fn number(&mut self, name: &str, value: Value<'s>, schema: Value<'s>, rules: &mut NumberRules, at: &Place) {
        if self.draft == Draft::Four && value.kind() == Kind::Boolean && name.starts_with("exclusive") {
            // In draft 4 this is a flag that makes the bound in the same schema exclusive.
            let bound = schema.get(if name == "exclusiveMinimum" { "minimum" } else { "maximum" });
            if let (Some(bound), "true") = (bound.filter(|bound| bound.kind() == Kind::Number), value.raw()) {
                let slot = if name == "exclusiveMinimum" { &mut rules.above } else { &mut rules.below };
                *slot = Some(bound.at());
            }
            return;
        }
        let Some(number) = Decimal::parse(value.raw()) else {
            return self.problem(at, "must be a number", COMPARE);
        };
        let place = Some(value.at());
        match name {
            "minimum" => rules.minimum = place,
            "maximum" => rules.maximum = place,
            "exclusiveMinimum" => rules.above = place,
            "exclusiveMaximum" => rules.below = place,
            _ => match number.divisor() {
                Some(divisor) => rules.multiple = Some((divisor, value.at())),
                None => self.problem(at, "must be above 0, with 18 digits at most", COMPARE),
            },
        }
    }

    fn pattern(&mut self, value: Value<'s>, at: &Place) -> Option<Arc<Pattern>> {
        let Some(text) = value.as_str() else {
            self.problem(at, "must be a string", COMPARE);
            return None;
        };
        self.pattern_of(&text, at)
    }

    fn pattern_of(&mut self, text: &str, at: &Place) -> Option<Arc<Pattern>> {
        match self.patterns.get(text) {
            Ok(pattern) => Some(pattern),
            Err((message, remedy)) => {
                self.problem(at, message, remedy);
                None
            }
        }
    }

    fn array(&mut self, name: &str, value: Value<'s>, schema: Value<'s>, rules: &mut ArrayRules, at: &Place) {
        let later = self.draft >= Draft::Of2020;
        match name {
            "prefixItems" if later => rules.prefix = self.schemas(value, at),
            "prefixItems" => {}
            "items" if value.kind() == Kind::Array && later => {
                self.problem(at, "is a list", "write `prefixItems`, or name an older `$schema`");
            }
            "items" if value.kind() == Kind::Array => rules.prefix = self.schemas(value, at),
            "items" => rules.items = Some(self.id_of(value, at)),
            // It counts only together with a list of `items`.
            "additionalItems" if !later && schema.get("items").is_some_and(|items| items.kind() == Kind::Array) => {
                rules.items = Some(self.id_of(value, at));
            }
            "contains" if self.draft >= Draft::Seven => {
                rules.contains = Some(self.id_of(value, at));
                rules.contains_evaluates = later;
            }
            "unevaluatedItems" if self.draft >= Draft::Of2019 => rules.unevaluated = Some(self.id_of(value, at)),
            _ => {}
        }
    }

    fn object(&mut self, name: &str, value: Value<'s>, rules: &mut ObjectRules, at: &Place) {
        match name {
            "additionalProperties" => rules.additional = Some(self.id_of(value, at)),
            "propertyNames" if self.draft >= Draft::Seven => rules.names = Some(self.id_of(value, at)),
            "unevaluatedProperties" if self.draft >= Draft::Of2019 => rules.unevaluated = Some(self.id_of(value, at)),
            "propertyNames" | "unevaluatedProperties" => {}
            "required" => {
                for name in self.names(value, at) {
                    let property = rules.properties.entry(name.clone()).or_default();
                    if !std::mem::replace(&mut property.required, true) {
                        rules.required += 1;
                        rules.required_names.push(name);
                    }
                }
            }
            _ if value.kind() != Kind::Object => self.problem(at, "must be an object", COMPARE),
            _ => {
                for (name_of, part) in value.members() {
                    let Some(member) = name_of.as_str() else { continue };
                    let at = at.key(&member);
                    match name {
                        "properties" => {
                            let id = self.id_of(part, &at);
                            rules.properties.entry(member.as_ref().into()).or_default().schema = Some(id);
                        }
                        "patternProperties" => {
                            let id = self.id_of(part, &at);
                            rules.patterns.extend(self.pattern_of(&member, &at).map(|pattern| (pattern, id)));
                        }
                        "dependentRequired" if self.draft >= Draft::Of2019 => {
                            let names = self.names(part, &at);
                            rules.dependent_required.push((member.as_ref().into(), names));
                        }
                        "dependentSchemas" if self.draft >= Draft::Of2019 => {
                            let id = self.id_of(part, &at);
                            rules.dependent_schemas.push((member.as_ref().into(), id));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Reads `dependencies` of draft 7 and before, which is still in use: a list of names, or a schema.
    fn dependencies(&mut self, value: Value<'s>, rules: &mut ObjectRules, at: &Place) {
        if value.kind() != Kind::Object {
            return self.problem(at, "must be an object", COMPARE);
        }
        for (name, part) in value.members() {
            let Some(name) = name.as_str() else { continue };
            let at = at.key(&name);
            if part.kind() == Kind::Array {
                let names = self.names(part, &at);
                rules.dependent_required.push((name.as_ref().into(), names));
            } else {
                let id = self.id_of(part, &at);
                rules.dependent_schemas.push((name.as_ref().into(), id));
            }
        }
    }

    fn names(&mut self, value: Value<'s>, at: &Place) -> Vec<Box<str>> {
        let names: Vec<_> = value.elements().filter_map(Value::as_str).map(|name| name.as_ref().into()).collect();
        if value.kind() != Kind::Array || names.len() != value.count() {
            self.problem(at, "must be a list of names", COMPARE);
        }
        names
    }

    fn schemas(&mut self, value: Value<'s>, at: &Place) -> Vec<NodeId> {
        if value.kind() != Kind::Array || value.count() == 0 {
            self.problem(at, "must be a list of one schema or more", COMPARE);
        }
        let indexed = value.elements().enumerate();
        indexed.map(|(index, part)| self.id_of(part, &at.index(index))).collect()
    }

    /// Returns the node that a reference leads to.
    fn reference(&mut self, value: Value<'s>, at: &Place) -> Option<NodeId> {
        let Some(target) = value.as_str() else {
            self.problem(at, "must be a string", COMPARE);
            return None;
        };
        let own = self.source.root().get("$id").and_then(Value::as_str);
        let fragment = match own.as_deref().and_then(|own| target.strip_prefix(own.trim_end_matches('#'))) {
            Some("") => "#",
            Some(rest) if rest.starts_with('#') => rest,
            _ => &target,
        };
        let Some(fragment) = fragment.strip_prefix('#') else {
            let remedy = "copy the definition into this schema under `$defs`, and refer to it by `#/$defs/NAME`";
            self.problem(at, format!("`{}` is another document", clipped(&target)), remedy);
            return None;
        };
        let fragment = percent_decoded(fragment);
        let found = match fragment.strip_prefix('/') {
            None if fragment.is_empty() => Some(self.source.root()),
            Some(pointer) => pointer.split('/').try_fold(self.source.root(), |value, segment| {
                let segment = segment.replace("~1", "/").replace("~0", "~");
                match value.kind() {
                    Kind::Array => segment.parse().ok().and_then(|index| value.elements().nth(index)),
                    _ => value.get(&segment),
                }
            }),
            None => self.anchor(&fragment),
        };
        match found {
            Some(schema) => Some(self.id_of(schema, at)),
            None => {
                self.problem(at, format!("`{}` leads nowhere", clipped(&target)), "name a part of this schema");
                None
            }
        }
    }

    fn anchor(&mut self, name: &str) -> Option<Value<'s>> {
        let source = self.source;
        let anchors = self.anchors.get_or_insert_with(|| {
            let mut anchors = HashMap::new();
            let mut open = vec![source.root()];
            while let Some(value) = open.pop() {
                open.extend(value.elements());
                for (key, part) in value.members() {
                    open.push(part);
                    let (Some(key), Some(name)) = (key.as_str(), part.as_str()) else { continue };
                    match key.as_ref() {
                        "$anchor" | "$dynamicAnchor" => drop(anchors.insert(name.into_owned(), value.at())),
                        "$id" | "id" if name.starts_with('#') => drop(anchors.insert(name[1..].to_owned(), value.at())),
                        _ => {}
                    }
                }
            }
            anchors
        });
        anchors.get(name).map(|at| source.value(*at))
    }

    /// Rejects schemas that refer to themselves without going deeper into the value, and long chains of references.
    /// Together with the limit on the depth of a value, this limits the depth of a check.
    fn in_place(&mut self, nodes: &[Node]) {
        const OPEN: usize = usize::MAX;
        // The longest chain that begins at each node; 0 where it is unknown.
        let mut chains = vec![0; nodes.len()];
        for start in 0..nodes.len() {
            let mut stack = vec![(start, false)];
            while let Some((id, is_done)) = stack.pop() {
                if is_done {
                    chains[id] = 1 + nodes[id].in_place().map(|below| chains[below]).max().unwrap_or(0);
                    if chains[id] > MAX_IN_PLACE {
                        let remedy = "refer to the last of them directly";
                        let message = format!("leads through more than {MAX_IN_PLACE} schemas for one value");
                        return self.problem(&self.places[id].clone(), message, remedy);
                    }
                    continue;
                }
                if chains[id] != 0 {
                    continue;
                }
                chains[id] = OPEN;
                stack.push((id, true));
                for below in nodes[id].in_place() {
                    match chains[below] {
                        OPEN => {
                            let message = "refers to itself without going deeper into the value, which never ends";
                            return self.problem(&self.places[below].clone(), message, "remove the reference");
                        }
                        0 => stack.push((below, false)),
                        _ => {}
                    }
                }
            }
        }
    }
}

fn one_of<'s>(values: impl Iterator<Item = Value<'s>>) -> OneOf {
    let mut list = OneOf::default();
    let mut described = String::new();
    for (index, value) in values.enumerate() {
        match index {
            0..SHOWN_CONSTANTS => {
                described.push_str(if index == 0 { "" } else { ", " });
                described.push_str(&clipped(value.raw()));
            }
            SHOWN_CONSTANTS => described.push_str(", .."),
            _ => {}
        }
        match value.as_str() {
            Some(text) => drop(list.strings.insert(text.as_ref().into())),
            None => list.others.push(value.at()),
        }
    }
    list.described = described.into();
    list
}

fn percent_decoded(fragment: &str) -> String {
    let mut out = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;

//! Schemas of OpenAPI as JSON Schema 2020-12, each with the definitions that it reaches.

use std::collections::{HashMap, HashSet, VecDeque};

use indexmap::IndexMap;
use tamis_schema::Patterns;

use super::super::names::{bounded, definition_name, quoted};
use super::document::{At, Document, Halt, Version};
use crate::diagnostic::did_you_mean;
use crate::read::excerpt;
use crate::yaml::{Node, Resolved, Value};

/// Bytes of a description within a schema.
const MAX_DESCRIPTION: usize = 1024;

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

/// What a schema describes: `readOnly` members are not sent, and `writeOnly` members are not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What is sent.
    Input,
    /// What is answered.
    Output,
}

/// Knows which patterns the gateway can search.
#[derive(Debug, Default)]
pub(super) struct KnownPatterns {
    patterns: Patterns,
    known: HashMap<Box<str>, bool>,
}

impl KnownPatterns {
    /// Returns the compiled patterns of all schemas.
    pub(super) fn all(&mut self) -> &mut Patterns {
        &mut self.patterns
    }

    fn accepts(&mut self, text: &str) -> bool {
        let Self { patterns, known } = self;
        *known
            .entry(text.into())
            .or_insert_with(|| tamis_schema::compile(&format!("{{\"pattern\":{}}}", quoted(text)), patterns).is_ok())
    }
}

/// Writes the schemas of one tool's input or output.
pub(super) struct Writer<'d, 'n> {
    document: &'d Document<'n>,
    patterns: &'d mut KnownPatterns,
    side: Side,
    /// The names of definitions, by what refers to them.
    names: IndexMap<String, String>,
    taken: HashSet<String>,
    queue: VecDeque<(usize, At<'n>)>,
    /// References that do not go deeper into the value, from one definition to another.
    in_place: Vec<(usize, usize, At<'n>)>,
    /// The definition that is being written.
    current: Option<usize>,
    bytes: usize,
    limit: usize,
}

impl<'d, 'n> Writer<'d, 'n> {
    /// `limit`: the most bytes of all schemas together.
    pub(super) fn new(document: &'d Document<'n>, patterns: &'d mut KnownPatterns, side: Side, limit: usize) -> Self {
        Self {
            document,
            patterns,
            side,
            names: IndexMap::new(),
            taken: HashSet::new(),
            queue: VecDeque::new(),
            in_place: Vec::new(),
            current: None,
            bytes: 0,
            limit,
        }
    }

    /// Returns a schema. `description` is used if the schema has none.
    ///
    /// # Errors
    /// For a mistake in the schema, and for one that is too large.
    pub(super) fn schema(&mut self, at: &At<'n>, description: Option<&str>) -> Result<String, Halt> {
        let mut out = String::new();
        self.write(at, false, &mut out)?;
        let own = at.node.get("description").is_some()
            && !(self.document.version == Version::Three0 && at.node.get("$ref").is_some());
        if let (Some(description), false, true) = (description, own, out.starts_with('{')) {
            let comma = if out == "{}" { "" } else { "," };
            out.insert_str(1, &format!("\"description\":{}{comma}", quoted(&bounded(description, MAX_DESCRIPTION))));
        }
        self.count(&out)?;
        Ok(out)
    }

    /// Returns the definitions that the schemas so far refer to, as the JSON of `$defs`; `None` without any.
    ///
    /// # Errors
    /// For a mistake in one of them, for definitions that consist of each other, and for too large ones.
    pub(super) fn definitions(&mut self) -> Result<Option<String>, Halt> {
        let mut written: IndexMap<String, String> = IndexMap::new();
        while let Some((index, at)) = self.queue.pop_front() {
            self.current = Some(index);
            let mut out = String::new();
            self.write(&at, true, &mut out)?;
            self.count(&out)?;
            written.insert(self.names[index].clone(), out);
        }
        self.check_cycles()?;
        let members: Vec<String> = written.iter().map(|(name, schema)| format!("{}:{schema}", quoted(name))).collect();
        Ok((!members.is_empty()).then(|| format!("{{{}}}", members.join(","))))
    }

    fn count(&mut self, out: &str) -> Result<(), Halt> {
        self.bytes += out.len();
        self.fits(0)
    }

    fn fits(&self, more: usize) -> Result<(), Halt> {
        if self.bytes + more > self.limit {
            return Err(Halt::LeftOut(format!("has schemas of more than {} KiB", self.limit >> 10)));
        }
        Ok(())
    }

    /// Rejects definitions that lead back to themselves without going deeper into the value: no value settles them.
    fn check_cycles(&self) -> Result<(), Halt> {
        let mut waiting = vec![0_usize; self.names.len()];
        self.in_place.iter().for_each(|(_, to, _)| waiting[*to] += 1);
        let mut from: HashMap<usize, Vec<usize>> = HashMap::new();
        self.in_place.iter().for_each(|(of, to, _)| from.entry(*of).or_default().push(*to));
        let mut free: Vec<usize> = (0..waiting.len()).filter(|index| waiting[*index] == 0).collect();
        while let Some(index) = free.pop() {
            for to in from.remove(&index).unwrap_or_default() {
                waiting[to] -= 1;
                if waiting[to] == 0 {
                    free.push(to);
                }
            }
        }
        match self.in_place.iter().find(|(of, to, _)| waiting[*of] > 0 && waiting[*to] > 0) {
            None => Ok(()),
            Some((_, _, at)) => {
                let message = "the schema leads back to itself by references, `allOf` and the like alone";
                Err(self.document.mistake(at, message, "remove one of the references"))
            }
        }
    }

    /// Returns the name of the definition that a `$ref` names.
    fn reference(&mut self, at: &At<'n>, in_place: bool) -> Result<String, Halt> {
        let text = at.text().unwrap_or_default();
        let index = match self.names.get_index_of(text) {
            Some(index) => index,
            None => {
                let target = self.document.target(at)?;
                let name = definition_name(text, &mut self.taken);
                let (index, _) = self.names.insert_full(text.to_owned(), name);
                self.queue.push_back((index, target));
                index
            }
        };
        if let (true, Some(current)) = (in_place, self.current) {
            self.in_place.push((current, index, at.clone()));
        }
        Ok(self.names[index].clone())
    }

    /// Writes a schema. `in_place`: whether it applies to the same value as the definition that is being written.
    fn write(&mut self, at: &At<'n>, in_place: bool, out: &mut String) -> Result<(), Halt> {
        let entries = match &at.node.value {
            Value::Map(entries) => entries,
            Value::Scalar(scalar) if matches!(scalar.resolved, Resolved::Bool(_)) => {
                out.push_str(if scalar.resolved == Resolved::Bool(true) { "true" } else { "false" });
                return Ok(());
            }
            Value::Scalar(_) | Value::List(_) => {
                let message = format!("expected a schema, found {}", at.node.describe());
                return Err(self.document.mistake(at, message, "write `type: ..`, or `{}` for any value"));
            }
        };
        let has = |key: &str| entries.iter().any(|entry| &*entry.key == key);
        let nullable = at.flag("nullable");
        // `nullable` next to `allOf` alone is common, and means that null is allowed too.
        let wraps = nullable && !has("$ref") && !has("type") && ["allOf", "anyOf", "oneOf"].into_iter().any(has);
        out.push_str(if wraps { "{\"anyOf\":[{" } else { "{" });
        let mut members = Members { first: true };
        // In 3.0 nothing next to `$ref` counts.
        let alone = self.document.version == Version::Three0 && has("$ref");
        for (key, child) in at.members().filter(|(key, _)| !alone || *key == "$ref") {
            self.fits(out.len())?;
            self.keyword(at, key, &child, in_place, &mut members, out)?;
        }
        out.push_str(if wraps { "},{\"type\":\"null\"}]}" } else { "}" });
        Ok(())
    }

    fn keyword(
        &mut self,
        at: &At<'n>,
        key: &'n str,
        child: &At<'n>,
        in_place: bool,
        members: &mut Members,
        out: &mut String,
    ) -> Result<(), Halt> {
        match key {
            "$ref" => {
                let name = self.reference(child, in_place)?;
                members.key("$ref", out);
                out.push_str(&quoted(&format!("#/$defs/{name}")));
            }
            "$dynamicRef" | "$recursiveRef" => {
                return Err(Halt::LeftOut(format!("has a schema with `{key}`")));
            }
            "type" => {
                let types = self.types(child, at.flag("nullable"))?;
                members.key("type", out);
                out.push_str(&types);
            }
            "enum" => {
                if !matches!(&child.node.value, Value::List(values) if !values.is_empty()) {
                    return Err(self.document.mistake(child, "is not a list of values", "list the allowed values"));
                }
                let mut values = self.json(child)?;
                if at.flag("nullable") && !child.items().any(|item| is_null(item.node)) {
                    values.truncate(values.len() - 1);
                    values.push_str(",null]");
                }
                members.key("enum", out);
                out.push_str(&values);
            }
            "const" => self.value(key, child, members, out)?,
            "default" if self.side == Side::Input => self.value(key, child, members, out)?,
            "example" if self.side == Side::Input && at.node.get("examples").is_none() => {
                let value = self.json(child)?;
                members.key("examples", out);
                out.push_str(&format!("[{value}]"));
            }
            "examples" if self.side == Side::Input && matches!(child.node.value, Value::List(_)) => {
                self.value(key, child, members, out)?;
            }
            "title" | "description" | "format" => {
                if let Some(text) = child.text().filter(|text| !text.trim().is_empty()) {
                    members.key(key, out);
                    out.push_str(&quoted(&bounded(text, MAX_DESCRIPTION)));
                }
            }
            "pattern" => {
                let text = child.text().unwrap_or_default();
                // One that cannot be searched in linear time is not checked.
                if self.patterns.accepts(text) {
                    members.key(key, out);
                    out.push_str(&quoted(text));
                }
            }
            "minimum" | "maximum" => {
                let exclusive = if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                let value = self.number(child)?;
                members.key(if at.flag(exclusive) { exclusive } else { key }, out);
                out.push_str(&value);
            }
            "exclusiveMinimum" | "exclusiveMaximum" => {
                // True or false belongs to `minimum`, in 3.0.
                let is_flag = matches!(&child.node.value, Value::Scalar(s) if matches!(s.resolved, Resolved::Bool(_)));
                if !is_flag {
                    let value = self.number(child)?;
                    members.key(key, out);
                    out.push_str(&value);
                }
            }
            "multipleOf" => {
                let value = self.number(child)?;
                members.key(key, out);
                out.push_str(&value);
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
            | "maxContains" => {
                let value = self.number(child)?;
                if value.contains(['-', '.', 'e', 'E']) {
                    let message = format!("{} is not a count", excerpt(&value));
                    return Err(self.document.mistake(child, message, "write a whole number that is not negative"));
                }
                members.key(key, out);
                out.push_str(&value);
            }
            "uniqueItems" | "deprecated" if at.flag(key) => {
                members.key(key, out);
                out.push_str("true");
            }
            "required" => self.required(at, child, members, out)?,
            "properties" => {
                self.maps(child)?;
                members.key(key, out);
                out.push('{');
                let mut inner = Members { first: true };
                for (name, property) in child.members() {
                    if self.is_hidden(&property) {
                        continue;
                    }
                    inner.key(name, out);
                    self.write(&property, false, out)?;
                    self.fits(out.len())?;
                }
                out.push('}');
            }
            "patternProperties" | "dependentSchemas" => {
                self.maps(child)?;
                members.key(key, out);
                out.push('{');
                let mut inner = Members { first: true };
                for (name, schema) in child.members() {
                    if key == "dependentSchemas" || self.patterns.accepts(name) {
                        inner.key(name, out);
                        self.write(&schema, in_place && key == "dependentSchemas", out)?;
                    }
                }
                out.push('}');
            }
            "dependentRequired" => self.value(key, child, members, out)?,
            "items"
            | "additionalProperties"
            | "contains"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties" => {
                members.key(key, out);
                self.write(child, false, out)?;
            }
            "not" | "if" | "then" | "else" => {
                members.key(key, out);
                self.write(child, in_place, out)?;
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                if !matches!(&child.node.value, Value::List(schemas) if !schemas.is_empty()) {
                    return Err(self.document.mistake(child, "is not a list of schemas", "list one schema or more"));
                }
                members.key(key, out);
                out.push('[');
                for (index, schema) in child.items().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    self.write(&schema, in_place && key != "prefixItems", out)?;
                }
                out.push(']');
            }
            // `xml`, `discriminator`, `externalDocs`, extensions and the like say nothing about the value.
            _ => {}
        }
        Ok(())
    }

    fn maps(&self, at: &At<'n>) -> Result<(), Halt> {
        if at.is_map() {
            return Ok(());
        }
        let message = format!("expected a mapping of schemas, found {}", at.node.describe());
        Err(self.document.mistake(at, message, "write the members by name"))
    }

    fn value(&mut self, key: &str, at: &At<'n>, members: &mut Members, out: &mut String) -> Result<(), Halt> {
        let value = self.json(at)?;
        members.key(key, out);
        out.push_str(&value);
        Ok(())
    }

    fn required(&mut self, at: &At<'n>, child: &At<'n>, members: &mut Members, out: &mut String) -> Result<(), Halt> {
        let mut names = Vec::new();
        let is_list = matches!(child.node.value, Value::List(_));
        let properties = at.get("properties");
        for item in child.items() {
            let Some(name) = item.text() else {
                return Err(self.document.mistake(&item, "is not a name", "list names of `properties`"));
            };
            let property = properties.as_ref().and_then(|properties| self.document.member(properties, name));
            if !property.is_some_and(|property| self.is_hidden(&property)) {
                names.push(quoted(name));
            }
        }
        if !is_list {
            let message = format!("expected a list of names, found {}", child.node.describe());
            return Err(self.document.mistake(child, message, "list the required names of `properties`"));
        }
        // A repeated name is harmless in OpenAPI, and an error in JSON Schema.
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if !names.is_empty() {
            members.key("required", out);
            out.push_str(&format!("[{}]", names.join(",")));
        }
        Ok(())
    }

    /// Returns whether a member is absent on this side.
    pub(super) fn is_hidden(&self, property: &At<'n>) -> bool {
        let flag = match self.side {
            Side::Input => "readOnly",
            Side::Output => "writeOnly",
        };
        if property.flag(flag) {
            return true;
        }
        let Some(reference) = property.get("$ref") else { return false };
        // A broken reference is reported where it is written.
        let before = self.document.findings();
        let target = self.document.target(&reference);
        self.document.forget(before);
        target.is_ok_and(|target| target.flag(flag))
    }

    fn types(&self, at: &At<'n>, nullable: bool) -> Result<String, Halt> {
        let one = |at: &At<'n>| match at.text() {
            Some(name) if TYPES.contains(&name) => Ok(quoted(name)),
            name => {
                let name = name.unwrap_or_default();
                let remedy = match did_you_mean(name, TYPES) {
                    Some(known) => format!("did you mean {known}?"),
                    None => format!("write one of {}", TYPES.join(", ")),
                };
                Err(self.document.mistake(at, format!("`{}` is not a type", excerpt(name)), remedy))
            }
        };
        let mut types = match &at.node.value {
            Value::List(_) => at.items().map(|item| one(&item)).collect::<Result<Vec<_>, _>>()?,
            Value::Map(_) | Value::Scalar(_) => vec![one(at)?],
        };
        let null = quoted("null");
        if nullable && !types.contains(&null) {
            types.push(null);
        }
        match &types[..] {
            [] => Err(self.document.mistake(at, "is empty", "name a type, or remove it")),
            [one] => Ok(one.clone()),
            several => Ok(format!("[{}]", several.join(","))),
        }
    }

    fn number(&self, at: &At<'n>) -> Result<String, Halt> {
        match &at.node.value {
            Value::Scalar(scalar) => match &scalar.resolved {
                Resolved::Number(digits) => Ok(digits.to_string()),
                _ => {
                    let message = format!("expected a number, found `{}`", excerpt(&scalar.source));
                    Err(self.document.mistake(at, message, "write a number, or remove the keyword"))
                }
            },
            Value::Map(_) | Value::List(_) => {
                let message = format!("expected a number, found {}", at.node.describe());
                Err(self.document.mistake(at, message, "write a number, or remove the keyword"))
            }
        }
    }

    /// Returns a value as JSON, with the digits as they are written.
    fn json(&self, at: &At<'n>) -> Result<String, Halt> {
        let mut out = String::new();
        match json(at.node, &mut out) {
            Ok(()) => {
                self.fits(out.len())?;
                Ok(out)
            }
            Err(source) => {
                let message = format!("JSON cannot represent {}", excerpt(source));
                Err(self.document.mistake(at, message, "quote it, or write a number"))
            }
        }
    }
}

/// Separates the members of an object.
struct Members {
    first: bool,
}

impl Members {
    fn key(&mut self, key: &str, out: &mut String) {
        if !std::mem::replace(&mut self.first, false) {
            out.push(',');
        }
        out.push_str(&quoted(key));
        out.push(':');
    }
}

fn is_null(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.resolved == Resolved::Null)
}

/// Writes a node as JSON.
///
/// # Errors
/// Returns the text of a number that JSON cannot represent.
pub(super) fn json<'n>(node: &'n Node, out: &mut String) -> Result<(), &'n str> {
    match &node.value {
        Value::Scalar(scalar) => match &scalar.resolved {
            Resolved::Null => out.push_str("null"),
            Resolved::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Resolved::Number(digits) => out.push_str(digits),
            Resolved::NotJson => return Err(&scalar.source),
            Resolved::Text => out.push_str(&quoted(&scalar.source)),
        },
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json(item, out)?;
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            let mut members = Members { first: true };
            for entry in entries {
                members.key(&entry.key, out);
                json(&entry.value, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

//! Rewrites the output schema that a source declares, so that it holds for what a filter leaves.
//!
//! A filter without `select`, `compact` and patches that write gives a part of the value: members and elements are missing,
//! and a budget may cut strings. The rewritten schema has only keywords that hold for every such part, and so for the whole
//! value too. What the filter certainly removes is not described.

use serde_json::{Map, Value, json};

use super::{Branch, Index, Name, Patch, Root, Trie};
use crate::Enforcement;
use crate::answer::{CHUNKS, PAGINATION, TRUNCATED};

/// The versions of JSON Schema that are read, without the `#` at their end.
const VERSIONS: [&str; 3] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
];
/// Levels of a rewritten schema, references followed.
const MAX_DEPTH: usize = 160;
/// Subschemas that following references may add.
const MAX_ADDED: usize = 10_000;
/// How a definition is named in a reference.
const DEFINITIONS: [(&str, &str); 2] = [("$defs", "#/$defs/"), ("definitions", "#/definitions/")];

/// Returns whether a declared schema can be rewritten: it describes an object, and all its references name its own
/// definitions.
pub(super) fn is_readable(declared: &Value) -> bool {
    let version = match declared.get("$schema") {
        None => true,
        Some(version) => version.as_str().is_some_and(|v| VERSIONS.contains(&v.trim_end_matches('#'))),
    };
    version && declared.get("type") == Some(&json!("object")) && refers_to_itself(declared, declared)
}

fn refers_to_itself(schema: &Value, declared: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(name, value)| {
            let readable = match (name.as_str(), value) {
                ("$ref", Value::String(reference)) => definition(declared, reference).is_some(),
                // A base of its own, or a reference that depends on the way to it. As names of members they hold schemas.
                ("$id" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                    std::ptr::eq(schema, declared) && name == "$id"
                }
                _ => true,
            };
            readable && refers_to_itself(value, declared)
        }),
        Value::Array(elements) => elements.iter().all(|element| refers_to_itself(element, declared)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Returns the definition that a reference names.
fn definition<'v>(declared: &'v Value, reference: &str) -> Option<&'v Value> {
    DEFINITIONS.iter().find_map(|(member, prefix)| {
        let name = reference.strip_prefix(prefix).filter(|name| !name.contains(['/', '~', '%']))?;
        declared.get(member)?.get(name)
    })
}

/// Returns whether a branch only removes, whatever it is given.
pub(super) fn only_removes(branch: &Branch) -> bool {
    let removes = |patch: &Patch| match patch {
        Patch::Remove { .. } | Patch::Test { .. } => true,
        Patch::Add { .. } | Patch::Replace { .. } | Patch::Move { .. } | Patch::Copy { .. } => false,
    };
    branch.select.is_empty() && branch.compact.is_none() && branch.patches.iter().all(removes)
}

/// Returns the schema of what a branch that [`only_removes`] leaves of an object for which `declared`, which
/// [`is_readable`], holds.
pub(super) fn rewritten(declared: &Value, branch: &Branch, enforcement: Enforcement) -> Value {
    let alone = enforcement == Enforcement::Enforced && branch.retain.is_none();
    let way = match &branch.root {
        Root::Pointer(pointer) => Way::Around { rest: &pointer.segments, alone },
        Root::Document => Way::item(),
        Root::Unused | Root::List | Root::Detect => Way::Inside,
    };
    let kept = branch.retain.as_ref().map(|retain| vec![&retain.trie]);
    let narrow = Scope { kept: Scope::narrowed(kept), way, is_root: true };
    let whole = Scope { kept: None, way: Way::Inside, is_root: true };
    // Where it is not known which elements `retain` narrows, or where following references would make the schema large,
    // nothing is left out, and any element may be `{}`.
    let placeholders = branch.retain.is_some();
    let read = [(narrow, false), (whole, placeholders)].iter().find_map(|(scope, placeholders)| {
        let left = count(declared) + MAX_ADDED;
        Rewriter { declared, branch, placeholders: *placeholders, left, needed: Vec::new() }.document(scope)
    });
    read.unwrap_or_else(|| json!({"type": "object"}))
}

/// Returns the number of values in a schema.
fn count(schema: &Value) -> usize {
    1 + match schema {
        Value::Object(members) => members.values().map(count).sum(),
        Value::Array(elements) => elements.iter().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0_usize,
    }
}

/// Where a value is that a schema describes, and what the filter leaves of it.
#[derive(Clone)]
struct Scope<'p> {
    /// The paths of `retain` from here; `None` if all is kept.
    kept: Option<Vec<&'p Trie>>,
    way: Way<'p>,
    /// Whether it is the document, to which an answer adds members.
    is_root: bool,
}

/// Where a value is, as seen from the payload.
#[derive(Clone, Copy)]
enum Way<'p> {
    /// Around the payload. `alone`: what is beside the way to it is removed.
    Around { rest: &'p [Name], alone: bool },
    /// The payload, or an element of it: `exclude` removes members.
    Item { of_list: bool },
    /// In an item, or the place of the payload is not known.
    Inside,
}

impl Way<'_> {
    fn item() -> Self {
        Self::Item { of_list: false }
    }
}

impl<'p> Scope<'p> {
    /// Returns the paths, or none if one of them covers everything.
    fn narrowed(kept: Option<Vec<&'p Trie>>) -> Option<Vec<&'p Trie>> {
        kept.filter(|tries| tries.iter().all(|trie| trie.end.is_none()))
    }

    /// Returns whether it is known what `retain` leaves: no path names an element by its index, or may match at any depth.
    fn is_known(&self) -> bool {
        let numbered = |trie: &Trie| trie.names.iter().any(|(name, _)| matches!(name.index, Index::At(_)));
        let mut tries = self.kept.iter().flatten();
        tries.all(|trie| trie.globs.is_empty() && trie.deep.is_none() && !numbered(trie))
    }

    /// Returns the way with the payload as its end.
    fn way(&self) -> Way<'p> {
        match self.way {
            Way::Around { rest: [], .. } => Way::item(),
            other => other,
        }
    }

    /// Returns whether everything in the value passes.
    fn is_whole(&self, branch: &Branch) -> bool {
        let passes = match self.way() {
            Way::Around { alone, .. } => !alone && branch.exclude.names.is_empty(),
            Way::Item { .. } => branch.exclude.names.is_empty(),
            Way::Inside => true,
        };
        passes && self.kept.is_none() && !self.is_root
    }

    /// Returns the scope of a member; none if the filter removes it.
    fn member(&self, name: &str, branch: &Branch) -> Option<Self> {
        let way = match self.way() {
            Way::Around { rest: [first, rest @ ..], alone } if *first.text == *name => Way::Around { rest, alone },
            Way::Around { alone: true, .. } => return None,
            Way::Item { .. } if branch.exclude.names.iter().any(|excluded| **excluded == *name) => return None,
            Way::Around { .. } | Way::Item { .. } | Way::Inside => Way::Inside,
        };
        let below = |trie: &&'p Trie| -> Vec<&'p Trie> {
            let trie: &'p Trie = trie;
            trie.named(name.as_bytes()).map(|(_, below)| below).chain(trie.any.as_deref()).collect()
        };
        let kept = match &self.kept {
            None => None,
            Some(tries) => {
                let below: Vec<_> = tries.iter().flat_map(below).collect();
                if below.is_empty() {
                    return None;
                }
                Some(below)
            }
        };
        Some(Self { kept: Self::narrowed(kept), way, is_root: false })
    }

    /// Returns the scope of an element, and whether `retain` may leave `{}` in its place.
    fn element(&self) -> (Self, bool) {
        let way = match self.way() {
            Way::Around { rest: [Name { index: Index::At(_), .. }, rest @ ..], alone } => Way::Around { rest, alone },
            Way::Item { of_list: false } => Way::Item { of_list: true },
            Way::Around { .. } | Way::Item { .. } | Way::Inside => Way::Inside,
        };
        let at = |kept| Self { kept, way, is_root: false };
        let Some(tries) = &self.kept else { return (at(None), false) };
        // Names map over the elements.
        let each = |trie: &&'p Trie| {
            let trie: &'p Trie = trie;
            trie.maps().then_some(trie).into_iter().chain(trie.any.as_deref())
        };
        (at(Self::narrowed(Some(tries.iter().flat_map(each).collect()))), true)
    }
}

struct Rewriter<'v> {
    declared: &'v Value,
    branch: &'v Branch,
    /// Whether any element may be `{}`.
    placeholders: bool,
    /// Subschemas that may still be read.
    left: usize,
    /// References in what was written.
    needed: Vec<&'v str>,
}

impl<'v> Rewriter<'v> {
    /// Returns the schema of the document, with the definitions that it refers to.
    fn document(&mut self, scope: &Scope<'_>) -> Option<Value> {
        let mut schema = self.schema(self.declared, scope, 0)?;
        let whole = Scope { kept: None, way: Way::Inside, is_root: false };
        let mut next = 0;
        while let Some(&reference) = self.needed.get(next) {
            next += 1;
            if self.needed[..next - 1].contains(&reference) {
                continue;
            }
            let definition = self.schema(definition(self.declared, reference)?, &whole, 0)?;
            let (member, prefix) = DEFINITIONS.iter().find(|(_, prefix)| reference.starts_with(prefix))?;
            schema.as_object_mut()?.entry(*member).or_insert_with(|| json!({}))[&reference[prefix.len()..]] =
                definition;
        }
        if let Some(version) = self.declared.get("$schema") {
            schema["$schema"] = version.clone();
        }
        Some(schema)
    }

    fn schema(&mut self, schema: &'v Value, scope: &Scope<'_>, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_DEPTH || !scope.is_known() {
            return None;
        }
        let members = match schema {
            Value::Bool(all) => return Some(Value::Bool(*all)),
            Value::Object(members) => members,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
        };
        let whole = scope.is_whole(self.branch);
        let mut out = Map::new();
        let reference = members.get("$ref").and_then(Value::as_str);
        if let Some(reference) = reference.filter(|_| !whole) {
            let mut target = self.schema(definition(self.declared, reference)?, scope, depth + 1)?;
            if let (Some(target), Some(description)) = (target.as_object_mut(), members.get("description")) {
                target.insert("description".to_owned(), description.clone());
            }
            return Some(target);
        }
        for (name, value) in members {
            let rewritten = match name.as_str() {
                "type" | "title" | "description" | "deprecated" | "minimum" | "maximum" | "exclusiveMinimum"
                | "exclusiveMaximum" | "multipleOf" | "maxItems" => value.clone(),
                "$ref" => {
                    self.needed.extend(reference);
                    value.clone()
                }
                "properties" => self.properties(value.as_object()?, scope, depth)?,
                "patternProperties" if whole => self.each(value.as_object()?, scope, depth)?,
                "additionalProperties" if whole && value.is_object() => self.schema(value, scope, depth + 1)?,
                "anyOf" | "oneOf" | "allOf" => {
                    let all = value.as_array()?.iter().map(|schema| self.schema(schema, scope, depth + 1));
                    Value::Array(all.collect::<Option<_>>()?)
                }
                "enum" if value.as_array()?.iter().all(is_kept) => value.clone(),
                "const" if is_kept(value) => value.clone(),
                // Everything else need not hold for a part of the value, or describes nothing of it.
                _ => continue,
            };
            let name = if name == "oneOf" { "anyOf" } else { name };
            match (name, out.get_mut(name)) {
                // `oneOf` beside `anyOf`: either is enough of a description.
                ("anyOf", Some(_)) => {}
                _ => {
                    out.insert(name.to_owned(), rewritten);
                }
            }
        }
        if let Some(items) = self.items(members, scope, depth)? {
            out.insert("items".to_owned(), items);
        }
        Some(Value::Object(out))
    }

    fn properties(&mut self, members: &'v Map<String, Value>, scope: &Scope<'_>, depth: usize) -> Option<Value> {
        let mut out = Map::new();
        for (name, schema) in members {
            if scope.is_root && [TRUNCATED, CHUNKS].contains(&name.as_str()) {
                // Only an answer's own are in the structured content.
            } else if scope.is_root && name == PAGINATION {
                // The source's, or the answer's own.
                out.insert(name.clone(), json!({}));
            } else if let Some(member) = scope.member(name, self.branch) {
                let schema = self.schema(schema, &member, depth + 1)?;
                let schema = if self.stays(name, member.way) { or_empty(schema) } else { schema };
                out.insert(name.clone(), schema);
            }
        }
        Some(Value::Object(out))
    }

    /// Returns whether `retain` may leave `{}` for a member because it is on the way to the payload ([`Root::way`]).
    fn stays(&self, name: &str, way: Way<'_>) -> bool {
        let Some(names) = self.branch.root.way().filter(|_| self.branch.retain.is_some()) else { return false };
        match way {
            Way::Around { .. } => true,
            Way::Item { .. } | Way::Inside => self.placeholders && names.iter().any(|on| *on.text == *name),
        }
    }

    fn each(&mut self, members: &'v Map<String, Value>, scope: &Scope<'_>, depth: usize) -> Option<Value> {
        let each = members.iter().map(|(name, schema)| Some((name.clone(), self.schema(schema, scope, depth + 1)?)));
        each.collect::<Option<_>>().map(Value::Object)
    }

    /// Returns the schema of every element: without those before it, an element is at another place. The outer option is
    /// none if there is no schema at all.
    #[expect(clippy::option_option, reason = "the outer one ends the whole, the inner one leaves out a keyword")]
    fn items(&mut self, members: &'v Map<String, Value>, scope: &Scope<'_>, depth: usize) -> Option<Option<Value>> {
        let prefix = members.get("prefixItems").and_then(Value::as_array);
        let all: Vec<&Value> = match (prefix, members.get("items")) {
            // Until draft 2019-09 a list is what `prefixItems` is now.
            (_, Some(Value::Array(_))) | (_, None) => return Some(None),
            (prefix, Some(items)) => prefix.into_iter().flatten().chain([items]).collect(),
        };
        let (scope, narrowed) = scope.element();
        let placeholder = narrowed || self.placeholders;
        let mut distinct: Vec<Value> = Vec::new();
        for schema in all {
            let rewritten = self.schema(schema, &scope, depth + 1)?;
            if !distinct.contains(&rewritten) {
                distinct.push(rewritten);
            }
        }
        if placeholder && !distinct.iter().any(takes_empty_object) {
            distinct.push(empty_object());
        }
        let one = if distinct.len() == 1 { distinct.pop() } else { None };
        Some(Some(one.unwrap_or_else(|| json!({"anyOf": distinct}))))
    }
}

/// Whether a value among those that `enum` or `const` allows stays what it is: strings may be cut, and values in lists and
/// objects may go.
fn is_kept(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(_) | Value::Number(_))
}

/// Returns the schema of `{}`, which `retain` leaves for an element of which nothing is kept.
fn empty_object() -> Value {
    json!({"type": "object", "maxProperties": 0})
}

/// Returns a schema that holds for `{}` too.
fn or_empty(schema: Value) -> Value {
    if takes_empty_object(&schema) { schema } else { json!({"anyOf": [schema, empty_object()]}) }
}

/// Whether a rewritten schema certainly holds for `{}`.
fn takes_empty_object(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return schema == &Value::Bool(true) };
    let objects = match members.get("type") {
        None => true,
        Some(Value::String(name)) => name == "object",
        Some(names) => names.as_array().is_some_and(|names| names.contains(&json!("object"))),
    };
    let decides = ["$ref", "allOf", "anyOf", "enum", "const"];
    objects && !decides.iter().any(|name| members.contains_key(*name))
}

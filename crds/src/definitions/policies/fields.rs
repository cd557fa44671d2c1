//! Every member of an object is a field of its kind, and none is null.
//!
//! If a client does not ask for strict validation, the API server drops unknown fields and null without an error:
//! `enforcment: Enforced` would be stored without any enforcement. The definitions therefore keep both
//! ([`keep_unknown`](super::super::structural::keep_unknown)), and this policy rejects them. It is generated from the
//! definitions, level by level.
//!
//! One expression for each kind decides and builds nothing; the text of the message is built only after it has
//! failed. Each expression visits every member once.

use serde_json::{Map, Value as Json, json};

use super::super::structural::OPEN;
use super::super::written_schemas;
use super::cel;

/// The fields at the top of every object.
const ENVELOPE: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Returns the policy's `spec`.
pub(super) fn spec() -> Json {
    let schemas = written_schemas();
    let kinds: Vec<&str> = schemas.iter().map(|(plural, _)| plural.as_str()).collect();
    let top = set(ENVELOPE.iter().copied());
    let mut expressions: Vec<String> = Vec::new();
    for (plural, schema) in &schemas {
        let spec = &schema["properties"]["spec"];
        let text = texts::of(spec, "object.spec", "'spec'", 0).unwrap_or_else(|| "''".to_owned());
        expressions.push(format!(
            "((size(object) > {MAX_EXAMINED} ? ['the object' + '{TOO_MANY_MEMBERS}'] : object.filter(k, !(k in {top})).map(k, k + ': unknown field; \
             move it into spec, or remove it')) + [{text}]).filter(text, text != '').join('; ')"
        ));
        let check = checks::of(spec, "object.spec", 0).unwrap_or_else(|| "true".to_owned());
        expressions.push(format!(
            "request.resource.resource != '{plural}' || (size(object) <= {} && object.all(k, k in {top}) && {check})",
            ENVELOPE.len()
        ));
    }
    let mut variables = vec![cel::side()];
    variables.extend(cel::hoist(&mut expressions));
    let mut validations = Vec::new();
    for ((plural, _), pair) in schemas.iter().zip(expressions.chunks(2)) {
        let [text, check] = pair else { continue };
        variables.push(json!({ "name": plural, "expression": text }));
        let said = format!("variables.{plural}");
        validations.push(json!({
            "expression": check,
            "message": "has an unknown field, or a field that is null",
            "messageExpression": format!("size({said}) > 1000 ? {said}.substring(0, 1000) + ' ..' : {said}"),
        }));
    }
    json!({
        // An object whose check exceeds the cost limit of the API server is admitted. `Fail` would reject large valid
        // objects. The operator checks every stored object, and rejects unknown fields itself.
        "failurePolicy": "Ignore",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["tamis.dev"],
            "apiVersions": ["*"],
            "resources": kinds,
            "operations": ["CREATE", "UPDATE"],
        }] },
        // An object that was stored without this policy can still be labelled, and deleted by users who have to
        // unlock it first.
        "matchConditions": [{
            "name": "content-is-new",
            "expression": format!(
                "request.operation == 'CREATE' || object.spec != oldObject.spec || size(object) > {MAX_EXAMINED} || \
                 !object.all(k, k in {top} || (k in oldObject && object[k] == oldObject[k]))"
            ),
        }],
        "variables": variables,
        "validations": validations,
    })
}

/// Returns names as a CEL map, in which a lookup costs one step, however many names there are.
fn set<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("{{{}}}", names.map(|name| format!("'{name}': true")).collect::<Vec<_>>().join(", "))
}

/// The content of a place in a schema.
enum Content<'s> {
    /// Members with fixed names.
    Members(&'s Map<String, Json>),
    /// Members with fixed names, or a list of such objects.
    Either(&'s Map<String, Json>),
    /// Members with fixed names, or text.
    OrText(&'s Map<String, Json>),
    /// Values under names that the author chose.
    Values(&'s Json),
    /// A list of objects.
    Items(&'s Json),
    /// A value without members, or any JSON.
    Leaf,
}

impl<'s> Content<'s> {
    fn of(schema: &'s Json) -> Self {
        match (schema["properties"].as_object(), schema.get("additionalProperties"), schema.get("items")) {
            (Some(members), _, Some(_)) => Self::Either(members),
            (Some(members), ..) if schema.get("type").is_none() => Self::OrText(members),
            (Some(members), ..) => Self::Members(members),
            (None, Some(values), _) if values.is_object() => Self::Values(values),
            (None, _, Some(items)) if items.get("properties").is_some() => Self::Items(items),
            _ => Self::Leaf,
        }
    }
}

/// Returns whether the place may hold any JSON, including null.
fn is_any(schema: &Json) -> bool {
    schema[OPEN] == true && ["properties", "items", "type"].iter().all(|key| schema.get(*key).is_none())
}

/// Returns the members that may be null, because they hold any JSON.
fn free(members: &Map<String, Json>) -> Vec<&str> {
    members.iter().filter(|(_, schema)| is_any(schema)).map(|(name, _)| name.as_str()).collect()
}

/// Expressions that return whether all members are valid.
mod checks {
    use super::super::cel;
    use super::{Content, Json, Map, free, is_any, set};

    /// Returns an expression for the value of `at`, or `None` if nothing can be wrong. `depth` keeps names of variables apart.
    pub(super) fn of(schema: &Json, at: &str, depth: usize) -> Option<String> {
        let v = format!("v{depth}");
        match Content::of(schema) {
            Content::Members(members) => Some(self::members(members, at, depth)),
            Content::Either(members) => {
                let (l, branch) = (format!("e{depth}"), self::members(members, &v, depth + 1));
                let each = cel::all(&l, &v, &depth.to_string(), &format!("type({v}) != map || {branch}"));
                Some(format!("[type({at}) == list ? {at} : [{at}]].all({l}, {each})"))
            }
            Content::OrText(members) => Some(format!("(type({at}) != map || {})", self::members(members, at, depth))),
            Content::Values(values) if is_any(values) => None,
            Content::Values(values) => {
                let check = of(values, &v, depth + 1).map_or_else(String::new, |check| format!(" && {check}"));
                let body = format!("{v} != null{check}");
                Some(match schema["maxProperties"].as_u64() {
                    Some(0..64) => format!("{at}.all(k{depth}, [{at}[k{depth}]].all({v}, {body}))"),
                    _ => cel::all_values(at, &v, &depth.to_string(), &body),
                })
            }
            Content::Items(items) => of(items, &v, depth + 1).map(|check| {
                let all = cel::all(at, &v, &depth.to_string(), &check);
                // A place without a type may hold text.
                if schema.get("type").is_some() { all } else { format!("(type({at}) != list || {all})") }
            }),
            Content::Leaf => None,
        }
    }

    pub(super) fn members(members: &Map<String, Json>, at: &str, depth: usize) -> String {
        let k = format!("k{depth}");
        let known = set(members.keys().map(String::as_str));
        let free = free(members);
        let null = match free.is_empty() {
            true => format!("{at}[{k}] != null"),
            false => format!("({at}[{k}] != null || {k} in {})", set(free.into_iter())),
        };
        // The size comes first: an object with more members than fields is rejected without a loop over them.
        let mut all = format!("size({at}) <= {} && {at}.all({k}, {k} in {known} && {null})", members.len());
        for (name, schema) in members {
            if let Some(check) = of(schema, &format!("{at}.{name}"), depth + 1) {
                all.push_str(&format!("\n&& (!has({at}.{name}) || {check})"));
            }
        }
        format!("({all})")
    }
}

/// Expressions that describe the invalid members in one text, empty if all are valid. Of a map of entries, the text
/// describes the first invalid ones. About members nested in those it says only that they exist: each further level
/// would double the expression that the API server has to compile.
mod texts {
    use super::super::cel;
    use super::{
        Content, Json, MAX_EXAMINED, Map, NESTED, NULL, TOO_MANY_MEMBERS, checks, free, is_any, is_later, set,
    };

    /// Returns the text for the value of `at`, or `None` if nothing can be wrong. `place` is an expression for its path.
    pub(super) fn of(schema: &Json, at: &str, place: &str, depth: usize) -> Option<String> {
        let (k, v) = (format!("k{depth}"), format!("v{depth}"));
        match Content::of(schema) {
            Content::Members(members) => Some(self::members(members, at, place, depth, true)),
            Content::Values(values) if !is_any(values) => {
                let fine = checks::of(values, &v, depth + 1).map_or_else(String::new, |check| format!(" && {check}"));
                let wrong = cel::wrong_values(at, &v, &depth.to_string(), &format!("{v} != null{fine}"));
                let inner = format!("{place} + '.' + {k}");
                let text = match Content::of(values) {
                    Content::Members(members) | Content::Either(members) => {
                        let own = self::members(members, &v, &inner, depth + 1, false);
                        let held = format!("[{own}].map(text, text == '' ? {inner} + '{NESTED}' : text)[0]");
                        format!("type({v}) == map ? {held} : {inner} + '{NESTED}'")
                    }
                    Content::OrText(_) | Content::Values(_) | Content::Items(_) | Content::Leaf => {
                        format!("{inner} + '{NESTED}'")
                    }
                };
                Some(format!(
                    "{wrong}.map({k}, [{at}[{k}]].map({v}, {v} == null ? {inner} + '{NULL}' : {text})[0])\
                     .filter(text, text != '').join('; ')"
                ))
            }
            Content::Either(_) | Content::OrText(_) | Content::Values(_) | Content::Items(_) | Content::Leaf => {
                let check = checks::of(schema, at, depth)?;
                Some(format!("({check} ? '' : {place} + '{NESTED}')"))
            }
        }
    }

    fn members(members: &Map<String, Json>, at: &str, place: &str, depth: usize, further: bool) -> String {
        let k = format!("k{depth}");
        let known = set(members.keys().map(String::as_str));
        // Fields of later releases have a message of their own, and are not suggested here.
        let possible: Vec<&str> =
            members.iter().filter(|(_, schema)| !is_later(schema)).map(|(name, _)| name.as_str()).collect();
        let possible = possible.join(", ");
        let free = free(members);
        let null = match free.is_empty() {
            true => format!("{at}[{k}] == null"),
            false => format!("{at}[{k}] == null && !({k} in {})", set(free.into_iter())),
        };
        let mut parts = vec![format!(
            "(size({at}) > {MAX_EXAMINED} ? [{place} + '{TOO_MANY_MEMBERS}'] : {at}.filter({k}, !({k} in {known})).map({k}, {place} + '.' + {k} + \
                 ': unknown field; remove it, or use one of: {possible}')\n\
                 + {at}.filter({k}, {k} in {known} && {null}).map({k}, {place} + '.' + {k} + '{NULL}'))"
        )];
        for (name, schema) in members {
            let (inner, place) = (format!("{at}.{name}"), format!("{place} + '.{name}'"));
            let text = match Content::of(schema) {
                _ if further => of(schema, &inner, &place, depth + 1),
                Content::Members(members) => Some(self::members(members, &inner, &place, depth + 1, false)),
                Content::Either(members) | Content::OrText(members) => {
                    let own = self::members(members, &inner, &place, depth + 1, false);
                    Some(format!("type({inner}) == map ? {own} : ''"))
                }
                Content::Values(_) | Content::Items(_) | Content::Leaf => None,
            };
            if let Some(text) = text {
                parts.push(format!("(has({inner}) && {inner} != null ? [{text}] : [])"));
            }
        }
        format!("({}).filter(text, text != '').join('; ')", parts.join("\n+ "))
    }
}

/// The number of members of an object that a message examines. No kind has an object with as many fields, and the
/// cost of a plain loop grows with the square of its length.
const MAX_EXAMINED: usize = 64;
/// The message for an object with more members than that.
const TOO_MANY_MEMBERS: &str = ": has more fields than its type; remove the unknown fields";
/// The message for a nested member.
const NESTED: &str = ": has an unknown field, or a field that is null; remove it";
/// The message for null, which server-side apply also makes of an object whose fields have all been removed.
const NULL: &str = ": has no value; set one, or remove the field";

fn is_later(schema: &Json) -> bool {
    schema["x-kubernetes-validations"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["rule"] == "false"))
}

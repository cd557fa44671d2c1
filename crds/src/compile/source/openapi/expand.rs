//! The tools of an OpenAPI document as actions of `http`, to continue by hand: `tamis import openapi --expand`.
//!
//! An action sends the same requests as its tool. Its arguments have types, descriptions and allowed values, and nothing else of their
//! schemas; what they lose is named. An operation whose request no action can express is left out.

use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{ArgumentStyle, AuthKind, Call, HttpCall, RequestTemplate, ServiceTool};
use tamis_engine::JsonText;

use super::super::report::ApiReport;
use super::report::examined;
use super::schema::json;
use crate::compile::action;
use crate::resources::{
    ActionSpec, ArgSpec, ArgStyle, ArgType, AuthSpec, AuthType, ItemsSpec, RequestSpec, ResponseSpec, RiskSpec,
};
use crate::yaml::{self, Node, Resolved, Value};

/// The most references and single `allOf` that lead from one schema to another.
const MAX_LAYERS: usize = 16;
/// The most schemas that are read for one type: references could multiply them.
const MAX_STEPS: usize = 1_000;
/// What an action keeps of a schema, or what only leads to another schema.
const KEPT: [&str; 3] = ["type", "description", "$ref"];

/// The actions of an OpenAPI document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expansion {
    /// What becomes of the document: its tools are those that are actions, and `omitted` says what an action lacks.
    pub report: ApiReport,
    /// The actions by tool name, in the order of the document.
    pub actions: IndexMap<String, ActionSpec>,
}

/// Reads an OpenAPI document as [`super::examine_api`] does, and writes the actions of a service with the credential that the document
/// names.
#[must_use]
pub fn expand_api(file: &str, bytes: &[u8], include: Option<&[String]>, base_url: Option<&str>) -> Expansion {
    let (mut report, tools) = examined(file, bytes, (include, base_url), true);
    let mut actions = IndexMap::new();
    for (name, converted) in tools {
        match action(&converted.tool) {
            Ok((action, lost)) => {
                if let Some(tool) = report.tools.iter_mut().find(|tool| tool.name == name) {
                    tool.omitted.extend(lost);
                }
                actions.insert(name, action);
            }
            Err(reason) => report.left_out.push((converted.operation, reason)),
        }
    }
    report.tools.retain(|tool| actions.contains_key(&tool.name));
    report.pruned = None;
    Expansion { report, actions }
}

/// Returns the action with the requests of a tool, and what it lacks of the tool, or why there is none, as the end of a sentence about
/// the operation.
fn action(tool: &ServiceTool) -> Result<(ActionSpec, Vec<String>), String> {
    let ServiceTool { title, description, input_schema, output_schema, response_type, risk, pagination: _, call } =
        tool;
    let Call::Http(call) = call else { return Err("is no HTTP request".to_owned()) };
    let HttpCall { method, path, request, auth, .. } = &**call;
    let (mut args, mut lost) = arguments(input_schema)?;
    let request = request_of(request, &mut args)?;
    if output_schema.is_some() {
        lost.push("the output schema".to_owned());
    }
    let mut spec = ActionSpec {
        title: title.clone(),
        description: description.clone(),
        method: Some(method.clone()),
        path: path.clone(),
        args,
        request: (request != RequestSpec::default()).then_some(request),
        response: response_type.map(|kind| ResponseSpec { kind: Some(kind), ..ResponseSpec::default() }),
        auth: auth.as_ref().filter(|auth| auth.kind == AuthKind::None).map(|_| AuthSpec {
            kind: AuthType::None,
            name: None,
            prefix: None,
            username: None,
            secret_ref: None,
        }),
        ..ActionSpec::default()
    };
    let usual = action::risk(&spec, method);
    if usual.mutating != risk.mutating {
        spec.risk = Some(RiskSpec { level: None, mutating: Some(risk.mutating) });
    }
    if usual.idempotent != risk.idempotent {
        spec.idempotent = Some(risk.idempotent);
    }
    Ok((spec, lost))
}

fn request_of(request: &RequestTemplate, args: &mut IndexMap<String, ArgSpec>) -> Result<RequestSpec, String> {
    let RequestTemplate {
        path_params,
        query,
        headers,
        cookies,
        body,
        form,
        form_styles,
        parts,
        content,
        styles,
        separators,
        objects,
    } = request;
    let needs = [
        (cookies.is_empty(), "sends a cookie"),
        (form.is_empty() && form_styles.is_empty(), "sends a form"),
        (parts.is_empty(), "sends a multipart body"),
        (content.is_none(), "sends a body that is not JSON"),
        (separators.is_empty(), "has a list or an object in the path"),
        (objects.is_empty(), "writes an object as a list"),
    ];
    if let Some((_, reason)) = needs.into_iter().find(|(is_plain, _)| !is_plain) {
        return Err(format!("{reason}, which no action does"));
    }
    for (name, style) in styles {
        let template = query.get(name).map(String::as_str).unwrap_or_default();
        let argument = args.get_mut(template.trim_start_matches('{').trim_end_matches('}'));
        match argument.filter(|arg| *style == ArgumentStyle::Comma && arg.kind == ArgType::Array) {
            Some(arg) => arg.style = Some(ArgStyle::Comma),
            None => {
                let name = crate::read::excerpt(name);
                return Err(format!("has query `{name}` in a style that no argument of an action has"));
            }
        }
    }
    Ok(RequestSpec {
        path_params: path_params.clone(),
        query: query.clone(),
        headers: headers.clone(),
        body: body.as_ref().map(|body| body.0.clone()),
    })
}

/// Returns the arguments of an input schema, and what they lack of it.
fn arguments(schema: &JsonText) -> Result<(IndexMap<String, ArgSpec>, Vec<String>), String> {
    let unreadable = || "has arguments with a schema that is nested too deeply".to_owned();
    let file: Arc<str> = "".into();
    let root = yaml::parse_json(&file, schema.as_str()).ok().flatten().ok_or_else(unreadable)?;
    let required: Vec<&str> = items(root.get("required")).filter_map(Node::as_source).collect();
    let (mut args, mut lost) = (IndexMap::new(), Vec::new());
    for entry in root.get("properties").and_then(Node::entries).unwrap_or_default() {
        let name = &*entry.key;
        if name.starts_with('_') {
            return Err(format!("has the argument `{name}`, and actions reserve names that begin with `_`"));
        }
        let Some((arg, lacks)) = argument(&entry.value, &root, required.contains(&name)) else {
            return Err(format!("has the argument `{name}`, which is not of one type"));
        };
        if !lacks.is_empty() {
            lost.push(format!("{} of `{name}`", lacks.join(", ")));
        }
        args.insert(name.to_owned(), arg);
    }
    Ok((args, lost))
}

/// Returns an argument, and the keywords of its schema that it lacks. `None` if it is not of one type.
fn argument<'n>(schema: &'n Node, root: &'n Node, required: bool) -> Option<(ArgSpec, Vec<&'n str>)> {
    let kind = kind(schema, root, &mut { MAX_STEPS })?;
    let layers = layers(schema, root);
    let get = |key: &str| layers.iter().find_map(|layer| layer.get(key));
    let fits = |value: &Node| {
        let of = kind_of(value);
        of == Some(kind) || (kind == ArgType::Number && of == Some(ArgType::Integer))
    };
    // Without `null`, an argument accepts less than its tool does, and what it accepts means the same.
    let allowed: Vec<&Node> = items(get("enum")).filter(|value| kind_of(value).is_some()).collect();
    let is_enum = !allowed.is_empty() && allowed.iter().all(|value| fits(value));
    let values = allowed.iter().map(|value| text(value)).collect::<Option<Vec<JsonText>>>().filter(|_| is_enum);
    let element = get("items").filter(|_| kind == ArgType::Array);
    let of_items = element.and_then(|items| self::kind(items, root, &mut { MAX_STEPS }));
    let is_bare =
        element.and_then(Node::entries).is_some_and(|entries| entries.len() == 1 && &*entries[0].key == "type");
    let mut lacks: Vec<&str> = Vec::new();
    for layer in &layers {
        for entry in layer.entries().unwrap_or_default() {
            let is_kept = KEPT.contains(&&*entry.key)
                || (&*entry.key == "enum" && values.is_some())
                || (&*entry.key == "items" && of_items.is_some() && is_bare)
                || (&*entry.key == "allOf" && items(Some(&entry.value)).count() == 1);
            if !is_kept && !lacks.contains(&&*entry.key) {
                lacks.push(&entry.key);
            }
        }
    }
    let is_null = items(get("type")).any(|item| item.as_source() == Some("null"));
    if is_null {
        lacks.push("null");
    }
    let arg = ArgSpec {
        kind,
        description: get("description").and_then(Node::as_source).map(str::to_owned),
        required,
        // An action would send it.
        default: None,
        values,
        items: of_items.map(|kind| ItemsSpec { kind }),
        style: None,
    };
    Some((arg, lacks))
}

/// Returns a schema, and those that a reference or a single `allOf` leads to.
fn layers<'n>(schema: &'n Node, root: &'n Node) -> Vec<&'n Node> {
    let mut layers = vec![schema];
    let mut at = schema;
    while let Some(next) = next(at, root).filter(|_| layers.len() < MAX_LAYERS) {
        layers.push(next);
        at = next;
    }
    layers
}

fn next<'n>(schema: &'n Node, root: &'n Node) -> Option<&'n Node> {
    if let Some(reference) = schema.get("$ref").and_then(Node::as_source) {
        return root.get("$defs")?.get(reference.strip_prefix("#/$defs/")?);
    }
    let mut all = items(schema.get("allOf"));
    all.next().filter(|_| all.next().is_none())
}

/// Returns the one type of the values that a schema accepts, besides `null`. `steps`: how many schemas may be read.
fn kind(schema: &Node, root: &Node, steps: &mut usize) -> Option<ArgType> {
    *steps = steps.checked_sub(1)?;
    match schema.get("type").map(|types| &types.value) {
        Some(Value::Scalar(scalar)) => return named(&scalar.source),
        Some(Value::List(types)) => {
            let mut kinds = types.iter().filter_map(|one| named(one.as_source()?));
            return kinds.next().filter(|_| kinds.next().is_none());
        }
        Some(Value::Map(_)) => return None,
        None => {}
    }
    if let Some(next) = next(schema, root) {
        return kind(next, root, steps);
    }
    let one_of = |values: Vec<Option<ArgType>>| {
        let first = values.first().copied().flatten()?;
        values.iter().all(|kind| *kind == Some(first)).then_some(first)
    };
    if let Some(all) = schema.get("allOf") {
        return items(Some(all)).find_map(|one| kind(one, root, steps));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(any) = schema.get(key) {
            let is_null = |one: &&Node| one.get("type").and_then(Node::as_source) == Some("null");
            return one_of(items(Some(any)).filter(|one| !is_null(one)).map(|one| kind(one, root, steps)).collect());
        }
    }
    one_of(items(schema.get("enum")).map(kind_of).collect())
}

fn named(kind: &str) -> Option<ArgType> {
    match kind {
        "string" => Some(ArgType::String),
        "integer" => Some(ArgType::Integer),
        "number" => Some(ArgType::Number),
        "boolean" => Some(ArgType::Boolean),
        "array" => Some(ArgType::Array),
        "object" => Some(ArgType::Object),
        _ => None,
    }
}

/// Returns the type of a value, or `None` for `null`.
fn kind_of(value: &Node) -> Option<ArgType> {
    match &value.value {
        Value::List(_) => Some(ArgType::Array),
        Value::Map(_) => Some(ArgType::Object),
        Value::Scalar(scalar) => match &scalar.resolved {
            Resolved::Null | Resolved::NotJson => None,
            Resolved::Bool(_) => Some(ArgType::Boolean),
            Resolved::Number(digits) if digits.contains(['.', 'e', 'E']) => Some(ArgType::Number),
            Resolved::Number(_) => Some(ArgType::Integer),
            Resolved::Text => Some(ArgType::String),
        },
    }
}

fn items(list: Option<&Node>) -> std::slice::Iter<'_, Node> {
    match list.map(|node| &node.value) {
        Some(Value::List(items)) => items.iter(),
        _ => [].iter(),
    }
}

fn text(value: &Node) -> Option<JsonText> {
    let mut out = String::new();
    json(value, &mut out).ok()?;
    JsonText::parse(out).ok()
}

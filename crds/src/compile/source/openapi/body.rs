//! Bodies of operations: JSON, and what is not.

use std::collections::HashSet;

use tamis_config::{Auth, AuthKind};
use tamis_engine::ResponseType;

use super::super::names::{argument_name, quoted};
use super::content;
use super::document::{At, Document, Halt};
use super::operation::{Arguments, Operation, Request, shape};
use super::schema::Writer;
use crate::yaml::{Resolved, Value};

/// The name of the argument for a body that is not divided into its members.
pub(super) const WHOLE: &str = "body";
/// The most members that become arguments of their own.
const MAX_MEMBERS: usize = 256;

/// The members of an object: name, schema, and whether the object requires it.
pub(super) type ObjectMembers<'n> = Vec<(&'n str, At<'n>, bool)>;

/// Returns a media type without its parameters, in lower case.
pub(super) fn plain(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns whether a media type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let plain = plain(media_type);
    plain == "application/json" || plain == "text/json" || plain.ends_with("+json")
}

/// Returns a media type that a header can hold.
///
/// # Errors
/// For any other.
pub(super) fn valid(media_type: &str) -> Result<&str, Halt> {
    if media_type.contains(['{', '}']) || media_type.chars().any(|c| c.is_control() || !c.is_ascii()) {
        return Err(Halt::LeftOut("has a body of an invalid media type".to_owned()));
    }
    Ok(media_type)
}

/// Adds the body of an operation to its arguments and its request.
///
/// # Errors
/// For a mistake, and for a required body that a request cannot express.
pub(super) fn add<'n>(
    document: &Document<'n>,
    operation: &Operation<'n>,
    auth: Option<&Auth>,
    writer: &mut Writer<'_, 'n>,
    arguments: &mut Arguments,
    request: &mut Request,
) -> Result<(), Halt> {
    let Some(body) = operation.at.get("requestBody") else { return Ok(()) };
    let body = document.resolve(&body)?;
    let is_required = body.flag("required");
    if matches!(&*operation.method, "GET" | "HEAD" | "OPTIONS") {
        let method = &operation.method;
        if is_required {
            return Err(Halt::LeftOut(format!("requires a body with {method}")));
        }
        request.omitted.push(format!("the body, which {method} cannot have"));
        return Ok(());
    }
    let content: Vec<(&str, At<'n>)> = body.get("content").iter().flat_map(At::members).collect();
    let exact = content.iter().find(|(media, _)| plain(media) == "application/json");
    let json = exact.or_else(|| content.iter().find(|(media, _)| is_json(media) || *media == "*/*"));
    if let Some((media, at)) = json {
        let is_secret = auth.is_some_and(|auth| auth.kind == AuthKind::Body);
        return add_json(document, (media, at, &body), is_secret, writer, arguments, request);
    }
    if auth.is_some_and(|auth| auth.kind == AuthKind::Body) {
        return Err(Halt::LeftOut(
            "has a body that is not JSON, which `auth` of type body cannot be added to".to_owned(),
        ));
    }
    content::add(document, &content, is_required, writer, arguments, request)
}

/// `is_secret`: whether authentication adds a member to the body.
fn add_json<'n>(
    document: &Document<'n>,
    (media_type, media, body): (&str, &At<'n>, &At<'n>),
    is_secret: bool,
    writer: &mut Writer<'_, 'n>,
    arguments: &mut Arguments,
    request: &mut Request,
) -> Result<(), Halt> {
    if media_type != "*/*" && !media_type.eq_ignore_ascii_case("application/json") {
        request.headers.insert("Content-Type".to_owned(), valid(media_type)?.to_owned());
    }
    let is_required = body.flag("required");
    let schema = media.get("schema");
    let parts = schema.as_ref().and_then(|schema| members(document, schema)).filter(|members| {
        let mut names = HashSet::new();
        // Where a name is not its own, the body stays whole.
        !members.is_empty()
            && members.len() <= MAX_MEMBERS
            && members.iter().all(|(name, ..)| !arguments.is_taken(name) && names.insert(argument_name(name)))
            // Without a body, nothing is required; with one, its members are.
            && (is_required || members.iter().all(|(_, _, required)| !required))
    });
    match parts {
        Some(members) => {
            let mut template = Vec::new();
            for (name, schema, required) in members {
                // Read-only members are not sent.
                if writer.is_hidden(&schema) {
                    continue;
                }
                let written = writer.schema(&schema, None)?;
                let argument = arguments.add(name, WHOLE, written, required)?;
                template.push(format!("{}:{}", quoted(name), quoted(&format!("{{{argument}}}"))));
            }
            request.body = Some(format!("{{{}}}", template.join(",")));
        }
        None if is_secret => {
            let reason = "has a body that is not divided into members, which `auth` of type body needs";
            return Err(Halt::LeftOut(reason.to_owned()));
        }
        None => {
            let description = body.text_of("description");
            let written = match &schema {
                Some(schema) => writer.schema(schema, description)?,
                None => "{}".to_owned(),
            };
            let argument = arguments.add(WHOLE, "json", written, is_required)?;
            request.body = Some(quoted(&format!("{{{argument}}}")));
        }
    }
    Ok(())
}

/// Returns the members of a schema that describes an object by them alone; `None` where other keywords, or members of any name,
/// would be lost.
pub(super) fn members<'n>(document: &Document<'n>, schema: &At<'n>) -> Option<ObjectMembers<'n>> {
    const WHOLE_ONLY: [&str; 14] = [
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "patternProperties",
        "propertyNames",
        "dependentSchemas",
        "dependentRequired",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
        "discriminator",
        "enum",
    ];
    if shape(document, schema) != Some(ResponseType::Object) {
        return None;
    }
    let before = document.findings();
    let resolved = document.resolve(schema);
    document.forget(before);
    let resolved = resolved.ok()?;
    let is_open = resolved.get("additionalProperties").is_some_and(|more| match &more.node.value {
        Value::Scalar(scalar) => scalar.resolved != Resolved::Bool(false),
        Value::Map(_) | Value::List(_) => true,
    });
    let is_null = resolved.flag("nullable")
        || resolved.get("type").is_some_and(|types| types.items().any(|item| item.text() == Some("null")));
    if is_open || is_null || WHOLE_ONLY.iter().any(|key| resolved.node.get(key).is_some()) {
        return None;
    }
    let required: HashSet<&str> =
        resolved.get("required").iter().flat_map(At::items).filter_map(|at| at.text()).collect();
    let properties = resolved.get("properties")?;
    let members: ObjectMembers<'n> =
        properties.members().map(|(name, at)| (name, at, required.contains(name))).collect();
    // A required member that is not described could not be sent.
    let described: HashSet<&str> = members.iter().map(|(name, ..)| *name).collect();
    required.iter().all(|name| described.contains(name)).then_some(members)
}

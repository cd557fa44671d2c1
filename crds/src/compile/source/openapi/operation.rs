//! The operations of a document, and the tools that they become.

use std::collections::HashSet;

use indexmap::IndexMap;
use tamis_config::{
    ArgumentStyle, Auth, AuthKind, BodyTemplate, Call, ContentTemplate, CookieTemplate, HttpCall, MemberStyle,
    RequestTemplate, Risk, ServiceTool,
};
use tamis_engine::{JsonText, ResponseType};

use super::super::names::{argument_name, bounded, quoted};
use super::answer::{self, Answer};
use super::body;
use super::document::{At, Document, Halt};
use super::parameter;
use super::schema::{KnownPatterns, Side, Writer};
use super::server;
use crate::read::excerpt;

/// Bytes of a tool's title, and of its description.
const MAX_TITLE: usize = 128;
const MAX_TEXT: usize = 2048;
/// Bytes of the schemas of a tool's input.
const MAX_INPUT: usize = 256 << 10;
/// The methods of a path item that become tools.
pub(super) const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];
/// The methods that do not: the gateway sends none of them.
pub(super) const OTHER_METHODS: [&str; 2] = ["trace", "query"];

/// An operation of a document.
#[derive(Debug, Clone)]
pub(super) struct Operation<'n> {
    /// In capital letters.
    pub(super) method: String,
    pub(super) path: &'n str,
    /// The path item, with the parameters of all of its operations.
    pub(super) item: At<'n>,
    pub(super) at: At<'n>,
}

impl<'n> Operation<'n> {
    /// Returns the method and path, which identify an operation.
    pub(super) fn key(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(super) fn id(&self) -> Option<&'n str> {
        self.at.text_of("operationId").filter(|id| !id.is_empty())
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = &'n str> {
        self.at.get("tags").into_iter().flat_map(|tags| tags.items().collect::<Vec<_>>()).filter_map(|tag| tag.text())
    }
}

/// The arguments of a tool while it is made.
pub(super) struct Arguments {
    properties: IndexMap<String, String>,
    required: Vec<String>,
    taken: HashSet<String>,
}

impl Arguments {
    /// Adds an argument for a name in the document, and returns its own name. `place` distinguishes it from an argument of
    /// another place.
    ///
    /// # Errors
    /// If both names are taken.
    pub(super) fn add(&mut self, name: &str, place: &str, schema: String, is_required: bool) -> Result<String, Halt> {
        let plain = argument_name(name);
        let placed = argument_name(&format!("{plain}_{place}"));
        let argument = [plain, placed].into_iter().find(|name| !self.taken.contains(name));
        let Some(argument) = argument else {
            return Err(Halt::LeftOut(format!(
                "has several parameters that would be called `{}`",
                argument_name(name)
            )));
        };
        self.taken.insert(argument.clone());
        if is_required {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument.clone(), schema);
        Ok(argument)
    }

    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(&argument_name(name))
    }

    fn schema(&self, definitions: Option<&str>) -> String {
        let properties: Vec<String> =
            self.properties.iter().map(|(name, schema)| format!("{}:{schema}", quoted(name))).collect();
        let mut schema = format!("{{\"type\":\"object\",\"properties\":{{{}}}", properties.join(","));
        if !self.required.is_empty() {
            let names: Vec<String> = self.required.iter().map(|name| quoted(name)).collect();
            schema.push_str(&format!(",\"required\":[{}]", names.join(",")));
        }
        schema.push_str(",\"additionalProperties\":false");
        if let Some(definitions) = definitions {
            schema.push_str(&format!(",\"$defs\":{definitions}"));
        }
        schema.push('}');
        schema
    }
}

/// What the request of a tool consists of, while it is made.
#[derive(Default)]
pub(super) struct Request {
    /// The path with its placeholders, and what the styles of parameters put around them.
    pub(super) path: String,
    pub(super) path_params: IndexMap<String, String>,
    pub(super) query: IndexMap<String, String>,
    pub(super) styles: IndexMap<String, ArgumentStyle>,
    pub(super) separators: IndexMap<String, String>,
    pub(super) objects: IndexMap<String, MemberStyle>,
    pub(super) headers: IndexMap<String, String>,
    pub(super) cookies: IndexMap<String, CookieTemplate>,
    pub(super) body: Option<String>,
    pub(super) form: IndexMap<String, String>,
    pub(super) form_styles: IndexMap<String, ArgumentStyle>,
    pub(super) parts: IndexMap<String, ContentTemplate>,
    pub(super) content: Option<ContentTemplate>,
    /// Parameters that are not sent, with the reason.
    pub(super) omitted: Vec<String>,
}

/// A tool, and what of its operation is not part of it.
pub(super) struct Made {
    pub(super) tool: ServiceTool,
    pub(super) omitted: Vec<String>,
}

/// Converts an operation. `auth`: how the service is authenticated. `own_url`: the `baseUrl` of the manifest.
///
/// # Errors
/// For an operation with a mistake, and for one that needs what is not supported.
pub(super) fn tool<'n>(
    document: &Document<'n>,
    operation: &Operation<'n>,
    (auth, own_url): (Option<&Auth>, Option<&str>),
    patterns: &mut KnownPatterns,
) -> Result<Made, Halt> {
    if let Some(url) = server::elsewhere(document, operation, own_url) {
        let url = excerpt(&url);
        return Err(Halt::LeftOut(format!(
            "has a server of its own, `{url}`, which the `baseUrl` of another manifest can name"
        )));
    }
    let mut arguments = Arguments { properties: IndexMap::new(), required: Vec::new(), taken: HashSet::new() };
    let mut request = Request { path: operation.path.to_owned(), ..Request::default() };
    let mut writer = Writer::new(document, patterns, Side::Input, MAX_INPUT);
    parameter::add_all(document, operation, auth, &mut writer, &mut arguments, &mut request)?;
    body::add(document, operation, auth, &mut writer, &mut arguments, &mut request)?;
    let definitions = writer.definitions()?;
    let schema = arguments.schema(definitions.as_deref());
    let schema = JsonText::parse(schema).map_err(|_| Halt::LeftOut("has a schema that is no JSON".to_owned()))?;
    if let Err(problems) = tamis_schema::compile(schema.as_str(), patterns.all()) {
        let problem = problems.into_iter().next().map(|problem| problem.to_string()).unwrap_or_default();
        let message = format!("the schema of its arguments cannot be used: {problem}");
        return Err(document.mistake(&operation.at, message, "correct the schemas of its parameters and its body"));
    }
    let Answer { kind, output_schema } = answer::read(document, operation, patterns)?;
    let Request {
        path,
        path_params,
        query,
        styles,
        separators,
        objects,
        headers,
        cookies,
        body,
        form,
        form_styles,
        parts,
        content,
        omitted,
    } = request;
    let body =
        body.map(JsonText::parse).transpose().map_err(|_| Halt::LeftOut("has a body that is no JSON".to_owned()))?;
    let own_auth = is_anonymous(document, operation) && auth.is_some();
    let (title, description) = texts(operation);
    Ok(Made {
        tool: ServiceTool {
            title,
            description: Some(description),
            input_schema: schema,
            output_schema,
            response_type: kind,
            risk: risk(&operation.method),
            pagination: None,
            call: Call::Http(Box::new(HttpCall {
                method: operation.method.clone(),
                path,
                defaults: IndexMap::new(),
                request: RequestTemplate {
                    path_params,
                    query,
                    headers,
                    cookies,
                    body: body.map(BodyTemplate),
                    form,
                    form_styles,
                    parts,
                    content,
                    styles,
                    separators,
                    objects,
                },
                extract: None,
                auth: own_auth.then_some(Auth {
                    kind: AuthKind::None,
                    name: None,
                    prefix: None,
                    username: None,
                    credential: None,
                }),
                retry: None,
                error_mapping: IndexMap::new(),
                graphql: None,
            })),
        },
        omitted,
    })
}

/// Returns whether `security: []` says that an operation takes no credential.
fn is_anonymous(document: &Document<'_>, operation: &Operation<'_>) -> bool {
    let security = operation.at.get("security").or_else(|| document.root().get("security"));
    security.is_some_and(|security| security.items().next().is_none())
}

/// Returns title and description, for a model.
fn texts(operation: &Operation<'_>) -> (Option<String>, String) {
    let text = |key: &str| operation.at.text_of(key).map(str::trim).filter(|text| !text.is_empty());
    let (summary, description) = (text("summary"), text("description"));
    let title = summary.map(|summary| bounded(&summary.split_whitespace().collect::<Vec<_>>().join(" "), MAX_TITLE));
    let own = description.or(summary).map_or_else(|| operation.key(), str::to_owned);
    let own = if operation.at.flag("deprecated") { format!("Deprecated. {own}") } else { own };
    (title, bounded(&own, MAX_TEXT))
}

/// What a method implies (RFC 9110, 9.2).
fn risk(method: &str) -> Risk {
    let reads = matches!(method, "GET" | "HEAD" | "OPTIONS");
    Risk { mutating: !reads, destructive: method == "DELETE", idempotent: reads || matches!(method, "PUT" | "DELETE") }
}

/// Returns the shape that a schema says a value has, as far as one look shows.
pub(super) fn shape<'n>(document: &Document<'n>, schema: &At<'n>) -> Option<ResponseType> {
    let before = document.findings();
    let resolved = document.resolve(schema);
    // A broken reference is reported where the schema is written.
    document.forget(before);
    let resolved = resolved.ok()?;
    let has = |name: &str| {
        resolved
            .get("type")
            .is_some_and(|at| at.text() == Some(name) || at.items().any(|item| item.text() == Some(name)))
    };
    if has("array") || (resolved.get("type").is_none() && resolved.get("items").is_some()) {
        Some(ResponseType::Array)
    } else if has("object") || (resolved.get("type").is_none() && resolved.get("properties").is_some()) {
        Some(ResponseType::Object)
    } else {
        None
    }
}

/// Returns whether a schema describes an object, or a list of lists or objects, as far as one look shows.
pub(super) fn is_deep<'n>(document: &Document<'n>, schema: &At<'n>) -> bool {
    shape(document, schema) == Some(ResponseType::Object) || is_nested(document, schema)
}

/// Returns whether a schema describes a list of lists or objects, as far as one look shows.
pub(super) fn is_nested<'n>(document: &Document<'n>, schema: &At<'n>) -> bool {
    let before = document.findings();
    let resolved = document.resolve(schema);
    document.forget(before);
    let items = resolved.ok().and_then(|resolved| resolved.get("items"));
    shape(document, schema) == Some(ResponseType::Array) && items.is_some_and(|items| shape(document, &items).is_some())
}

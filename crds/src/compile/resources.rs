//! Compiles one resource, and one resource template: a `GET` below the base URL of the service.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use serde_json::Value;
use tamis_config::{Reason, ResourceContent, ResourceInfo, ServiceResource, ServiceTemplate};
use tamis_engine::{JsonText, ResponseType};

use super::action;
use super::content::{check_values, is_short_line};
use super::template::{is_name, literal, placeholders};
use crate::origin::FieldPath;
use crate::resources::{ActionSpec, ArgSpec, ArgType, RequestSpec, ResourceSpec, ResourceTemplateSpec};
use crate::sink::DiagnosticSink;
use crate::{Diagnostic, origin::Origin};

/// The most bytes of a resource, as it is written.
pub(crate) const MAX_RESOURCE_BYTES: usize = 1 << 20;
/// The most bytes of a URI.
const MAX_URI: usize = 2048;

/// Checks a resource and converts it for the gateway. Errors leave the result unspecified.
pub(super) fn resource(
    uri: &str,
    spec: &ResourceSpec,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> ServiceResource {
    let ResourceSpec { name, title, description, mime_type, text, blob, annotations, icons } = spec;
    check_uri(uri, uri, at, sink);
    let content = match (text, blob) {
        (Some(text), None) => ResourceContent::Text(text.clone()),
        (None, Some(blob)) => ResourceContent::Blob(base64(blob, &at.key("blob"), sink)),
        (Some(_), Some(_)) => {
            sink.error(&at.key("blob"), "`text` and `blob` are mutually exclusive", "remove one of them");
            ResourceContent::Text(String::new())
        }
        (None, None) => {
            sink.error(at, "has no content", "set `text`, or `blob` with the bytes in base64");
            ResourceContent::Text(String::new())
        }
    };
    let bytes = match &content {
        ResourceContent::Text(text) | ResourceContent::Blob(text) => text.len(),
    };
    if bytes > MAX_RESOURCE_BYTES {
        let message = format!("has {bytes} bytes of content, more than the limit of {MAX_RESOURCE_BYTES}");
        sink.because(Reason::TooLarge).error(at, message, "split it, or serve it with a resource template");
        sink.because(Reason::InvalidManifest);
    }
    ServiceResource { info: info((name, title, description, mime_type), (annotations, icons), at, sink), content }
}

/// Checks a resource template and converts it for the gateway. Errors leave the result unspecified.
pub(super) fn template(
    uri: &str,
    spec: &ResourceTemplateSpec,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> ServiceTemplate {
    let ResourceTemplateSpec { name, title, description, mime_type, annotations, icons, variables } = spec;
    check_uri(uri, &literal(uri), at, sink);
    let names: Vec<&str> = placeholders(uri).collect();
    if names.is_empty() {
        sink.error(at, "has no variable", "write one in braces, such as docs://handbook/{page}, or use `resources`");
    }
    for (index, name) in names.iter().enumerate() {
        if !is_name(name) {
            let message = format!("`{{{name}}}` is not a simple variable");
            sink.error(at, message, "use a name of A-Z a-z 0-9 _ - . without an operator");
        } else if names[..index].contains(name) {
            sink.error(at, format!("has the variable `{name}` twice"), "use each variable once");
        }
    }
    if adjacent(uri) {
        sink.error(at, "has two variables without text between them", "separate them, for example by /");
    }
    for (name, variable) in variables {
        let at = at.key("variables").key(name);
        if !names.contains(&name.as_str()) {
            sink.error(&at, format!("the template has no `{{{name}}}`"), "remove it, or use it in the template");
        }
        check_values(&variable.values, &at.key("enum"), sink);
    }
    let (path, query) = request(uri, at, sink);
    let action = ActionSpec {
        title: title.clone(),
        description: description.clone(),
        path,
        args: names.iter().map(|name| ((*name).to_owned(), variable())).collect(),
        request: Some(RequestSpec { query, ..RequestSpec::default() }),
        ..ActionSpec::default()
    };
    let mut found = Vec::new();
    let origin = Origin::nowhere();
    let mut read = action::compile(&action, &FieldPath::default(), &mut DiagnosticSink::new(&origin, &mut found));
    read.response_type = Some(ResponseType::Text);
    // One message for one mistake.
    let first = found.iter().find(|found| found.is_error()).filter(|_| !sink.failed);
    if let Some(Diagnostic { message, remedy, .. }) = first {
        sink.error(at, format!("the path of its requests {message}"), remedy.clone());
    }
    ServiceTemplate {
        info: info((name, title, description, mime_type), (annotations, icons), at, sink),
        values: variables.iter().map(|(name, variable)| (name.clone(), variable.values.clone())).collect(),
        read,
    }
}

/// A variable as an argument: a string that every read has.
fn variable() -> ArgSpec {
    ArgSpec {
        kind: ArgType::String,
        description: None,
        required: true,
        default: None,
        values: None,
        items: None,
        style: None,
    }
}

/// Returns whether two placeholders follow each other.
fn adjacent(uri: &str) -> bool {
    use tamis_config::placeholder::{Piece, pieces};
    let kinds: Vec<bool> = pieces(uri).map(|piece| matches!(piece, Piece::Placeholder(_))).collect();
    kinds.windows(2).any(|two| two == [true, true])
}

/// Returns the path and the query of the requests that read a template: those of the URI.
fn request(uri: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> (String, IndexMap<String, String>) {
    let rest = uri.split_once("://").map(|(_, rest)| rest);
    let Some((authority, path)) = rest.and_then(|rest| rest.split_once('/')) else {
        sink.error(at, "has no path below which requests are sent", "write SCHEME://NAME/PATH, or SCHEME:///PATH");
        return ("/".to_owned(), IndexMap::new());
    };
    if placeholders(authority).next().is_some() {
        sink.error(at, "has a variable before its path", "use variables in the path or in the query only");
    }
    if path.contains('#') {
        sink.error(at, "has a fragment, which no request carries", "remove it");
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut pairs = IndexMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if placeholders(name).next().is_some() {
            sink.error(at, "has a variable as the name of a query parameter", "write the name out");
        }
        if pairs.insert(name.to_owned(), value.to_owned()).is_some() {
            sink.error(at, format!("has the query parameter `{name}` twice"), "remove one of them");
        }
    }
    (format!("/{path}"), pairs)
}

/// Checks that a text is an absolute URI (RFC 3986, 4.3). `fixed` is the text without variables.
fn check_uri(uri: &str, fixed: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(letters) {
        sink.error(at, "is not a URI", "begin with a scheme, such as docs://");
    }
    if uri.len() > MAX_URI {
        sink.error(at, format!("is longer than {MAX_URI} bytes"), "shorten it");
    }
    if fixed.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '\\' | '"' | '<' | '>' | '{' | '}')) {
        sink.error(at, "has a character that no URI has", "write it percent-encoded");
    }
}

/// Returns bytes in base64 without the line breaks that documents have.
fn base64(text: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> String {
    let text: String = text.split_ascii_whitespace().collect();
    if BASE64_STANDARD.decode(&text).is_err() {
        sink.error(at, "is not base64", "write the output of `base64 FILE`");
    }
    text
}

/// The name, the title, the description and the media type of a resource.
type Names<'s> = (&'s String, &'s Option<String>, &'s Option<String>, &'s Option<String>);

fn info(
    (name, title, description, mime_type): Names<'_>,
    (annotations, icons): (&Option<JsonText>, &Option<JsonText>),
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> ResourceInfo {
    if !is_short_line(name) {
        sink.error(&at.key("name"), "must be one line of 1 to 128 characters", "write 1 to 128 characters");
    }
    let is_media_type = |text: &String| {
        text.len() <= 256 && text.contains('/') && text.chars().all(|c| c.is_ascii_graphic() || c == ' ')
    };
    if mime_type.as_ref().is_some_and(|text| !is_media_type(text)) {
        sink.error(&at.key("mimeType"), "is not a media type", "write one such as text/markdown");
    }
    let parsed =
        |json: &Option<JsonText>| json.as_ref().and_then(|json| serde_json::from_str::<Value>(json.as_str()).ok());
    if let Some(value) = parsed(annotations) {
        check_annotations(&value, &at.key("annotations"), sink);
    }
    if let Some(value) = parsed(icons) {
        check_icons(&value, &at.key("icons"), sink);
    }
    ResourceInfo {
        name: name.clone(),
        title: title.clone(),
        description: description.clone(),
        mime_type: mime_type.clone(),
        annotations: annotations.clone(),
        icons: icons.clone(),
    }
}

/// Checks annotations (MCP 2025-11-25, `Annotations`): published clients refuse a whole list for one wrong value.
fn check_annotations(value: &Value, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let Some(annotations) = value.as_object() else {
        sink.error(at, "is not an object", "write an object as in MCP, or remove it");
        return;
    };
    let is_role = |role: &Value| matches!(role.as_str(), Some("user" | "assistant"));
    if annotations.get("audience").is_some_and(|roles| !roles.as_array().is_some_and(|roles| roles.iter().all(is_role)))
    {
        sink.error(&at.key("audience"), "is not a list of roles", "write a list of `user` and `assistant`");
    }
    let is_priority = |number: &Value| number.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number));
    if annotations.get("priority").is_some_and(|number| !is_priority(number)) {
        sink.error(&at.key("priority"), "is not a number from 0 to 1", "write 1 for the most important resources");
    }
    if annotations.get("lastModified").is_some_and(|time| !time.is_string()) {
        sink.error(&at.key("lastModified"), "is not a text", "write a time, such as \"2026-11-25T15:00:00Z\"");
    }
}

/// Checks icons (MCP 2025-11-25, `Icon`).
fn check_icons(value: &Value, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let Some(icons) = value.as_array() else {
        sink.error(at, "is not a list", "write a list as in MCP, or remove it");
        return;
    };
    for (index, icon) in icons.iter().enumerate() {
        let text_or_absent = |field: &str| icon.get(field).is_none_or(Value::is_string);
        let texts = |sizes: &Value| sizes.as_array().is_some_and(|sizes| sizes.iter().all(Value::is_string));
        if !icon.get("src").is_some_and(Value::is_string)
            || !text_or_absent("mimeType")
            || !icon.get("sizes").is_none_or(texts)
        {
            let remedy = "write {src: URI, mimeType: image/png, sizes: ['48x48']}; only `src` is required";
            sink.error(&at.index(index), "is not an icon", remedy);
        }
    }
}

//! From a tool's templates and a call's arguments to a request. No network, no secrets.
//!
//! An argument fills the place that its template gives it and nothing else: it cannot change the host, add a path
//! segment, a query parameter or a header line.

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use indexmap::IndexMap;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tamis_config::{ArgumentStyle, ServiceTool};
use tamis_engine::{JsonText, ResponseType};
use url::Url;

use super::auth::AuthPlan;
use super::body::Body;
use super::template::{Part, Template, Text, Values, declared, joined, refuse, text};
use super::{Arguments, InvalidService, Secret, UpstreamError};

/// RFC 3986 `unreserved` stays; everything else of an argument is encoded.
const ARGUMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What the author of a path wrote stays, but for what no URL may hold.
const LITERAL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'\\');

/// Headers that the client writes itself.
const RESERVED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "proxy-authorization",
];

/// Parameters that move a paginated call on.
const PAGING: [&str; 3] = ["limit", "cursor", "offset"];

/// How one tool's request is made, parsed once.
#[derive(Debug)]
pub(super) struct RequestPlan {
    pub(super) method: Method,
    defaults: IndexMap<String, JsonText>,
    /// Scheme, host, port and prefix, without a final slash.
    base: Box<str>,
    segments: Vec<Vec<PathPart>>,
    query: Vec<Parameter>,
    /// Parameters that pagination takes over; their templates give where to begin.
    paging: Vec<Parameter>,
    headers: Vec<(HeaderName, Template)>,
    /// Headers that no argument is part of.
    fixed: HeaderMap,
    body: Option<Body>,
}

#[derive(Debug)]
enum PathPart {
    /// Percent-encoded.
    Text(Box<str>),
    Argument(Template),
}

#[derive(Debug)]
struct Parameter {
    /// Percent-encoded.
    name: Box<str>,
    template: Template,
    style: ArgumentStyle,
}

/// A request without its credential, but for one in the body.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

/// Percent-encodes all of `text`.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ARGUMENT).to_string()
}

/// A header name that a document may set.
pub(super) fn header_name(name: &str) -> Result<HeaderName, String> {
    let header = HeaderName::try_from(name).map_err(|_| format!("`{name}` is not a header name"))?;
    if RESERVED.contains(&header.as_str()) {
        return Err(format!("`{name}` is set by the gateway"));
    }
    Ok(header)
}

impl RequestPlan {
    /// Parses the templates of `tool`.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn new(
        field: &str,
        base: &Url,
        tool: &ServiceTool,
        auth: Option<&AuthPlan>,
    ) -> Result<Self, InvalidService> {
        let call = &tool.http;
        let arguments = declared(tool);
        let known = |name: &str| arguments.iter().any(|a| a == name);
        let template = |field: String, text: &str| match Template::parse(text, known) {
            (template, unknown) if unknown.is_empty() => Ok(template),
            (_, unknown) => Err(InvalidService::new(field, format!("`{{{}}}` is no argument of the tool", unknown[0]))),
        };
        let method = Method::from_bytes(call.method.as_bytes())
            .ok()
            .filter(|m| !m.as_str().is_empty() && *m != Method::CONNECT && *m != Method::TRACE)
            .ok_or_else(|| {
                InvalidService::new(format!("{field}.method"), format!("`{}` is not supported", call.method))
            })?;

        let (path, inline) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let segments = segments(&format!("{field}.path"), path, tool, &template)?;

        let paged = if call.pagination.is_some() { PAGING.as_slice() } else { &[] };
        let (mut query, mut paging) = (Vec::new(), Vec::new());
        let own = inline.split('&').filter(|p| !p.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            (decoded(name), decoded(value))
        });
        for (name, text) in own.chain(call.request.query.iter().map(|(k, v)| (k.clone(), v.clone()))) {
            let at = format!("{field}.request.query.{name}");
            let parameter = Parameter {
                template: template(at, &text)?,
                style: call.request.styles.get(&name).copied().unwrap_or_default(),
                name: encoded(&name).into(),
            };
            let taken = auth.and_then(AuthPlan::query_parameter) == Some(&parameter.name);
            if paged.contains(&name.as_str()) {
                paging.push(parameter);
            } else if !taken {
                query.push(parameter);
            }
        }

        let secret = auth.and_then(AuthPlan::body_member);
        let json = call.request.body.as_ref().map(|b| b.0.as_str());
        let body = Body::parse(&format!("{field}.request.body"), json, secret, &known)?;
        let (headers, fixed) = headers(field, tool, body.is_some(), &template)?;
        Ok(Self {
            method,
            defaults: call.defaults.clone(),
            base: base.as_str().trim_end_matches('/').into(),
            segments,
            query,
            paging,
            headers,
            fixed,
            body,
        })
    }

    /// Puts arguments in their places.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for one that does not fit its place.
    pub(super) fn render(&self, arguments: &Arguments, secret: Option<&Secret>) -> Result<Rendered, UpstreamError> {
        let values = Values::new(arguments, &self.defaults);
        let mut url = String::with_capacity(self.base.len() + 128);
        url.push_str(&self.base);
        for segment in &self.segments {
            url.push('/');
            write_segment(segment, &values, &mut url)?;
        }
        let path_end = url.len();
        let mut separator = '?';
        for parameter in &self.query {
            parameter.write(&values, &mut url, &mut separator)?;
        }
        let parsed = Url::parse(&url).map_err(|_| refuse("path", "does not give a valid URL"))?;
        // The parser must have changed nothing: what it would normalise is refused above.
        if !self.segments.is_empty() && parsed[..url::Position::AfterPath] != url[..path_end] {
            return Err(refuse("path", "does not give the path of the manifest"));
        }

        let mut headers = self.fixed.clone();
        for (name, template) in &self.headers {
            if let Some(value) = header_value(template, &values)? {
                headers.insert(name.clone(), value);
            }
        }
        let body = match &self.body {
            Some(body) => body.write(&values, secret.map(Secret::expose))?.map(Bytes::from),
            None => None,
        };
        Ok(Rendered { url: parsed, headers, body })
    }

    /// What arguments and defaults say of a paging parameter, whether the manifest gives it a place or not.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for a value that is no text.
    pub(super) fn paging(&self, arguments: &Arguments, name: &str) -> Result<Option<String>, UpstreamError> {
        let values = Values::new(arguments, &self.defaults);
        let mut out = String::new();
        match self.paging.iter().find(|p| *p.name == *name) {
            Some(parameter) => parameter.template.write(&values, &mut out)?,
            None => {
                if let Some(json) = values.get(name) {
                    out.push_str(&joined(name, json)?);
                }
            }
        }
        Ok(Some(out).filter(|o| !o.is_empty()))
    }
}

type ParseTemplate<'a> = dyn Fn(String, &str) -> Result<Template, InvalidService> + 'a;

/// Splits a path template at its slashes.
fn segments(
    field: &str,
    path: &str,
    tool: &ServiceTool,
    template: &ParseTemplate<'_>,
) -> Result<Vec<Vec<PathPart>>, InvalidService> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let parameters = &tool.http.request.path_params;
    let arguments = declared(tool);
    let mut all = Vec::new();
    for segment in path.split('/') {
        let (places, unknown) =
            Template::parse(segment, |name| parameters.contains_key(name) || arguments.iter().any(|a| a == name));
        if let Some(name) = unknown.first() {
            let message = format!("`{{{name}}}` is neither in request.pathParams nor an argument of the tool");
            return Err(InvalidService::new(field, message));
        }
        if places.constant().is_some_and(|text| matches!(text, "." | "..")) {
            return Err(InvalidService::new(field, "has a segment `.` or `..`"));
        }
        let part = |part: &Part| match part {
            Part::Text(text) => Ok(PathPart::Text(utf8_percent_encode(text, LITERAL).to_string().into())),
            Part::Argument(name) => {
                let own = format!("{{{name}}}");
                let text = parameters.get(&**name).unwrap_or(&own);
                template(format!("{field}: {name}"), text).map(PathPart::Argument)
            }
        };
        all.push(places.parts().iter().map(part).collect::<Result<_, _>>()?);
    }
    Ok(all)
}

/// Writes one segment. It stays one: what would be read as another, or as a step upwards, is refused.
fn write_segment(parts: &[PathPart], values: &Values<'_>, url: &mut String) -> Result<(), UpstreamError> {
    let start = url.len();
    let mut last = None;
    for part in parts {
        match part {
            PathPart::Text(text) => url.push_str(text),
            PathPart::Argument(template) => {
                for part in template.parts() {
                    match part {
                        Part::Text(text) => url.extend(utf8_percent_encode(text, ARGUMENT)),
                        Part::Argument(name) => {
                            let json = values.get(name).ok_or_else(|| refuse(name, "is missing: the path needs it"))?;
                            let value = joined(name, json)?;
                            check_path_value(name, &value)?;
                            url.extend(utf8_percent_encode(&value, ARGUMENT));
                            last = Some(name);
                        }
                    }
                }
            }
        }
    }
    match (&url[start..], last) {
        ("", Some(name)) => Err(refuse(name, "is empty: the path needs it")),
        ("." | "..", Some(name)) => Err(refuse(name, "makes a path segment `.` or `..`")),
        _ => Ok(()),
    }
}

/// A `/` is sent as `%2F`, one segment; but servers exist that decode before they route, so steps in it are refused.
fn check_path_value(name: &str, value: &str) -> Result<(), UpstreamError> {
    if value.chars().any(char::is_control) {
        return Err(refuse(name, "holds a control character, which a path cannot have"));
    }
    let steps = |piece: &str| matches!(piece, "." | "..");
    if value.contains(['/', '\\']) && value.split(['/', '\\']).any(steps) {
        return Err(refuse(name, "holds a path step `.` or `..`"));
    }
    Ok(())
}

impl Parameter {
    fn write(&self, values: &Values<'_>, url: &mut String, separator: &mut char) -> Result<(), UpstreamError> {
        let mut pair = |url: &mut String| {
            url.push(std::mem::replace(separator, '&'));
            url.push_str(&self.name);
            url.push('=');
        };
        let Some(name) = self.template.sole() else {
            pair(url);
            for part in self.template.parts() {
                match part {
                    Part::Text(text) => url.extend(utf8_percent_encode(text, ARGUMENT)),
                    Part::Argument(name) => {
                        if let Some(json) = values.get(name) {
                            url.extend(utf8_percent_encode(&joined(name, json)?, ARGUMENT));
                        }
                    }
                }
            }
            return Ok(());
        };
        match values.get(name).map(|json| text(name, json)).transpose()? {
            None => {}
            Some(Text::One(value)) => {
                pair(url);
                url.extend(utf8_percent_encode(&value, ARGUMENT));
            }
            Some(Text::Many(all)) if self.style == ArgumentStyle::Repeat => {
                for value in &all {
                    pair(url);
                    url.extend(utf8_percent_encode(value, ARGUMENT));
                }
            }
            Some(Text::Many(all)) => {
                for (i, value) in all.iter().enumerate() {
                    if i == 0 {
                        pair(url)
                    } else {
                        url.push(',')
                    }
                    url.extend(utf8_percent_encode(value, ARGUMENT));
                }
            }
        }
        Ok(())
    }
}

/// The headers with places, and those without, which every call has.
fn headers(
    field: &str,
    tool: &ServiceTool,
    has_body: bool,
    template: &ParseTemplate<'_>,
) -> Result<(Vec<(HeaderName, Template)>, HeaderMap), InvalidService> {
    let (mut varying, mut fixed) = (Vec::new(), HeaderMap::new());
    let text = tool.response_type == Some(ResponseType::Text);
    fixed.insert(ACCEPT, HeaderValue::from_static(if text { "*/*" } else { "application/json, */*;q=0.5" }));
    if has_body {
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &tool.http.request.headers {
        let at = format!("{field}.request.headers.{name}");
        let header = header_name(name).map_err(|reason| InvalidService::new(&at, reason))?;
        let template = template(at.clone(), value)?;
        match template.constant() {
            Some(text) => {
                let value = HeaderValue::from_str(text)
                    .map_err(|_| InvalidService::new(at, "holds characters that no header can have"))?;
                fixed.insert(header, value);
            }
            None => varying.push((header, template)),
        }
    }
    Ok((varying, fixed))
}

/// None where the header consists of one absent argument.
fn header_value(template: &Template, values: &Values<'_>) -> Result<Option<HeaderValue>, UpstreamError> {
    if template.sole().is_some_and(|name| values.get(name).is_none()) {
        return Ok(None);
    }
    let mut out = String::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Argument(name) => {
                let Some(json) = values.get(name) else { continue };
                let value = joined(name, json)?;
                if value.chars().any(char::is_control) {
                    return Err(refuse(name, "holds a control character, which a header cannot have"));
                }
                out.push_str(&value);
            }
        }
    }
    // Only the template's own text can fail here; the parser of headers has seen that of constant ones.
    let invalid = || refuse(template_name(template), "does not make a valid header");
    HeaderValue::from_maybe_shared(Bytes::from(out)).map(Some).map_err(|_| invalid())
}

fn template_name(template: &Template) -> &str {
    template.parts().iter().find_map(|p| if let Part::Argument(name) = p { Some(&**name) } else { None }).unwrap_or("")
}

#[cfg(test)]
#[path = "tests/render.rs"]
mod tests;

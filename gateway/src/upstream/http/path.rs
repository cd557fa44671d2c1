//! Paths of requests. An argument fills its placeholder in one segment, and cannot leave the segment.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tamis_config::HttpCall;

use crate::upstream::syntax::{encoded, push_encoded};
use crate::upstream::template::{Part, Template, Values, invalid_argument};
use crate::upstream::{InvalidService, UpstreamError};

/// The literal text of a path stays as it is, except for characters that no URL may hold.
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

/// A path below the base URL, split at the slashes of its template.
#[derive(Debug)]
pub(super) struct Path {
    /// Percent-encoded.
    segments: Vec<Template>,
}

impl Path {
    /// Parses `path`, the part of the call's path before a `?`.
    ///
    /// # Errors
    /// For a `{name}` that no parameter or argument fills, and for `.` and `..`.
    pub(super) fn parse(
        field: &str,
        path: &str,
        call: &HttpCall,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(Self { segments: Vec::new() });
        }
        let parameters = &call.request.path_params;
        let segments = path.split('/').map(|segment| {
            let (places, unknown) = Template::parse(segment, |name| parameters.contains_key(name) || known(name));
            if let Some(name) = unknown.first() {
                let message = format!("`{{{name}}}` is neither in `request.pathParams` nor an argument of the tool");
                return Err(InvalidService::new(format!("{field}.path"), message));
            }
            if places.constant().is_some_and(is_dots) {
                return Err(InvalidService::new(format!("{field}.path"), "has a segment `.` or `..`"));
            }
            let mut parts = Vec::new();
            for part in places.parts() {
                match part {
                    Part::Text(text) => parts.push(Part::Text(utf8_percent_encode(text, LITERAL).to_string().into())),
                    Part::Argument(name) => match parameters.get(&**name) {
                        None => parts.push(part.clone()),
                        Some(text) => {
                            let at = format!("{field}.request.pathParams.{name}");
                            parts.extend(Template::strict(at, text, known)?.map_text(encoded).into_parts());
                        }
                    },
                }
            }
            Ok(Template::from(parts))
        });
        Ok(Self { segments: segments.collect::<Result<_, _>>()? })
    }

    /// Appends the path to a base URL that ends without a slash.
    ///
    /// # Errors
    /// For an argument that is absent, or that would become another segment or a step upwards.
    pub(super) fn write(&self, values: &Values<'_>, url: &mut String) -> Result<(), UpstreamError> {
        for segment in &self.segments {
            url.push('/');
            let start = url.len();
            for name in segment.arguments() {
                if values.get(name).is_none() {
                    return Err(invalid_argument(name, "is missing: the path needs it"));
                }
            }
            segment.write(values, url, |url, name, value| {
                check(name, value)?;
                push_encoded(url, value);
                Ok(())
            })?;
            if let Some(name) = segment.arguments().last() {
                let segment = &url[start..];
                if segment.is_empty() {
                    return Err(invalid_argument(name, "is empty: the path needs it"));
                }
                if is_dots(segment) {
                    return Err(invalid_argument(name, "makes a path segment `.` or `..`"));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a URL's parser reads a segment as `.` or `..`: it takes `%2e` for a dot (WHATWG URL, 4.4).
fn is_dots(segment: &str) -> bool {
    segment.len() <= "%2e%2e".len() && matches!(&*percent_decode_str(segment).decode_utf8_lossy(), "." | "..")
}

/// Rejects slashes, backslashes and control characters. An encoded `/` is data in one segment (RFC 3986, 2.2), but some
/// servers and proxies decode before they route, and would see another segment and another endpoint.
fn check(name: &str, value: &str) -> Result<(), UpstreamError> {
    if value.chars().any(char::is_control) {
        return Err(invalid_argument(name, "holds a control character, which a path cannot have"));
    }
    if value.contains(['/', '\\']) {
        return Err(invalid_argument(name, "holds a slash or backslash, which would add a path segment"));
    }
    Ok(())
}

//! Paths of requests. An argument fills its placeholder in one segment, and cannot leave the segment.

use indexmap::IndexMap;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tamis_config::{HttpCall, MemberStyle};

use super::render::MAX_URL;
use crate::upstream::syntax::{encoded, push_encoded};
use crate::upstream::template::{Part, Template, Text, Values, check_length, invalid_argument, members, text};
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
    /// The text between the elements of a list, by argument.
    separators: IndexMap<String, String>,
    /// How objects are written, by argument.
    objects: IndexMap<String, MemberStyle>,
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
            return Ok(Self { segments: Vec::new(), separators: IndexMap::new(), objects: IndexMap::new() });
        }
        let parameters = &call.request.path_params;
        let separators = &call.request.separators;
        if let Some((name, _)) = separators.iter().find(|(_, separator)| !separator.chars().all(is_separator)) {
            let message = "must consist of A-Z a-z 0-9 - . _ ~ , ; and =";
            return Err(InvalidService::new(format!("{field}.request.separators.{name}"), message));
        }
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
        let objects = call.request.objects.clone();
        Ok(Self { segments: segments.collect::<Result<_, _>>()?, separators: separators.clone(), objects })
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
            for part in segment.parts() {
                match part {
                    Part::Text(text) => url.push_str(text),
                    Part::Argument(name) => self.argument(name, values, url)?,
                }
            }
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

impl Path {
    /// Appends one argument. A list is joined by its separator, or else by encoded commas.
    fn argument(&self, name: &str, values: &Values<'_>, url: &mut String) -> Result<(), UpstreamError> {
        let Some(json) = values.get(name) else { return Ok(()) };
        let separator = || self.separators.get(name).map_or("%2C", String::as_str);
        if let Some(style) = self.objects.get(name) {
            return object(name, json, (*style, separator()), url);
        }
        let (elements, separator) = match text(name, json)? {
            Text::One(value) => (vec![value], ""),
            Text::Many(all) => (all, separator()),
        };
        for (index, element) in elements.iter().enumerate() {
            check(name, element)?;
            if index > 0 {
                url.push_str(separator);
            }
            push_encoded(url, element);
            check_length(url.len(), name, MAX_URL)?;
        }
        Ok(())
    }
}

/// Appends the members of an object.
fn object(
    name: &str,
    json: &str,
    (style, separator): (MemberStyle, &str),
    url: &mut String,
) -> Result<(), UpstreamError> {
    for (index, (key, value)) in members(name, json)?.iter().enumerate() {
        check(name, key)?;
        check(name, value)?;
        if index > 0 {
            url.push_str(separator);
        }
        push_encoded(url, key);
        url.push_str(match style {
            MemberStyle::Elements => separator,
            MemberStyle::Pairs => "=",
        });
        push_encoded(url, value);
        check_length(url.len(), name, MAX_URL)?;
    }
    Ok(())
}

/// Returns whether a separator may hold a character.
fn is_separator(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~,;=".contains(c)
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

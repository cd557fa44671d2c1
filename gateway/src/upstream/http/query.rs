//! Queries and forms of requests.

use std::borrow::Cow;

use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;
use tamis_config::{ArgumentStyle, HttpCall, ServiceTool};

use super::render::MAX_URL;
use crate::upstream::syntax::{encoded, push_encoded};
use crate::upstream::template::{
    MAX_TEXT, Template, Text, Values, check_length, invalid_argument, is_paging, members, text, texts,
};
use crate::upstream::{InvalidService, UpstreamError};

/// The query of a request, parsed.
#[derive(Debug, Default)]
pub(super) struct Query {
    parameters: Vec<Parameter>,
    /// Parameters whose templates say where a paginated call begins.
    paging: Vec<Parameter>,
}

#[derive(Debug)]
struct Parameter {
    /// Percent-encoded.
    name: Box<str>,
    /// Percent-encoded.
    template: Template,
    style: ArgumentStyle,
    /// Whether the argument is an object whose names and values are the elements of a list.
    is_object: bool,
}

impl Query {
    /// Parses `request.query`, and the query in the path. Authentication sets the parameter `secret`.
    ///
    /// # Errors
    /// For a `{name}` that is not an argument.
    pub(super) fn parse(
        field: &str,
        inline: &str,
        (tool, call): (&ServiceTool, &HttpCall),
        secret: Option<&str>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let inline = inline.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        let declared = call.request.query.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut query = Self::default();
        for (name, value) in inline.chain(declared) {
            let template = Template::strict(format!("{field}.request.query.{name}"), &value, known)?;
            let is_object = template.sole().is_some_and(|argument| call.request.objects.contains_key(argument));
            let parameter = Parameter {
                is_object,
                template: template.map_text(encoded),
                style: call.request.styles.get(&name).copied().unwrap_or_default(),
                name: encoded(&name).into(),
            };
            if is_paging(tool, &name) {
                query.paging.push(parameter);
            } else if secret != Some(&parameter.name) {
                query.parameters.push(parameter);
            }
        }
        Ok(query)
    }

    /// Appends the query to a URL that has none.
    pub(super) fn write(&self, values: &Values<'_>, url: &mut String) -> Result<(), UpstreamError> {
        let mut separator = '?';
        for parameter in &self.parameters {
            parameter.write(values, url, &mut separator, MAX_URL)?;
        }
        Ok(())
    }

    /// Returns the value of a paging parameter, and whether the caller gave it. The value comes from the manifest's template
    /// for the parameter, or else from an argument of that name.
    pub(super) fn paging(&self, values: &Values<'_>, name: &str) -> Result<(Option<String>, bool), UpstreamError> {
        let own = Template::argument(name);
        let template = match self.paging.iter().find(|p| *p.name == *name).map(|p| &p.template) {
            Some(template) if template.constant().is_none() || values.get(name).is_none() => template,
            _ => &own,
        };
        let mut out = String::new();
        template.write(values, &mut out, |out, _, text| {
            out.push_str(text);
            Ok(())
        })?;
        let given = template.arguments().any(|argument| values.is_given(argument));
        Ok((Some(out).filter(|value| !value.is_empty()), given))
    }
}

/// The body of a form (`application/x-www-form-urlencoded`), parsed.
#[derive(Debug)]
pub(super) struct Form {
    fields: Vec<Parameter>,
}

impl Form {
    /// Parses `request.form`, or returns `None` for a request without one.
    ///
    /// # Errors
    /// For a `{name}` that is not an argument.
    pub(super) fn parse(
        field: &str,
        form: &IndexMap<String, String>,
        styles: &IndexMap<String, ArgumentStyle>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, InvalidService> {
        let parse = |(name, value): (&String, &String)| {
            let template = Template::strict(format!("{field}.{name}"), value, known)?.map_text(encoded);
            let style = styles.get(name).copied().unwrap_or_default();
            Ok(Parameter { name: encoded(name).into(), template, style, is_object: false })
        };
        let fields = form.iter().map(parse).collect::<Result<Vec<_>, InvalidService>>()?;
        Ok((!fields.is_empty()).then_some(Self { fields }))
    }

    /// Writes the body.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that has no text.
    pub(super) fn write(&self, values: &Values<'_>) -> Result<String, UpstreamError> {
        let mut body = String::new();
        // The first field follows a character that is removed again.
        let mut separator = '&';
        for field in &self.fields {
            field.write(values, &mut body, &mut separator, MAX_TEXT)?;
        }
        if !body.is_empty() {
            body.remove(0);
        }
        Ok(body)
    }
}

impl Parameter {
    fn write(
        &self,
        values: &Values<'_>,
        url: &mut String,
        separator: &mut char,
        limit: usize,
    ) -> Result<(), UpstreamError> {
        let mut pair = |url: &mut String, key: Option<&str>| {
            url.push(std::mem::replace(separator, '&'));
            url.push_str(&self.name);
            if let Some(key) = key {
                // Encoded, so that no key ends the bracket or the name.
                url.push_str("%5B");
                push_encoded(url, key);
                url.push_str("%5D");
            }
            url.push('=');
        };
        let Some(name) = self.template.sole() else {
            pair(url, None);
            return self.template.write(values, url, |url, _, text| {
                push_encoded(url, text);
                Ok(())
            });
        };
        // An absent argument and an empty list make no parameter.
        let Some(json) = values.get(name) else { return Ok(()) };
        let joint = match self.style {
            ArgumentStyle::Json => {
                pair(url, None);
                push_encoded(url, json);
                return check_length(url.len(), name, limit);
            }
            ArgumentStyle::Deep => {
                let members: IndexMap<String, &RawValue> = serde_json::from_str(json)
                    .map_err(|_| invalid_argument(name, "is not an object, which the parameter needs"))?;
                for (key, value) in members.iter().filter(|(_, value)| value.get() != "null") {
                    for value in texts(name, value.get())? {
                        pair(url, Some(key));
                        push_encoded(url, &value);
                        check_length(url.len(), name, limit)?;
                    }
                }
                return Ok(());
            }
            ArgumentStyle::Nested => {
                let mut below = String::new();
                return nested(json, &mut below, 0, name, &mut |below, value| {
                    url.push(std::mem::replace(separator, '&'));
                    url.extend([&*self.name, below, "="]);
                    push_encoded(url, value);
                    check_length(url.len(), name, limit)
                });
            }
            ArgumentStyle::Repeat => None,
            ArgumentStyle::Comma => Some(","),
            ArgumentStyle::Space => Some("%20"),
            ArgumentStyle::Pipe => Some("%7C"),
        };
        let value = if self.is_object {
            let members = members(name, json)?.into_iter();
            Text::Many(members.flat_map(|(key, value)| [Cow::Owned(key), value]).collect())
        } else {
            text(name, json)?
        };
        match value {
            Text::One(value) => {
                pair(url, None);
                push_encoded(url, &value);
            }
            Text::Many(all) => {
                // OpenAPI's delimiters are percent-encoded like the characters of an element.
                let delimiter = match self.style {
                    ArgumentStyle::Space => Some((' ', "a space")),
                    ArgumentStyle::Pipe => Some(('|', "`|`")),
                    _ => None,
                };
                if let Some((_, shown)) =
                    delimiter.filter(|(delimiter, _)| all.iter().any(|value| value.contains(*delimiter)))
                {
                    return Err(invalid_argument(
                        name,
                        &format!("has an element with {shown}, which would be two elements"),
                    ));
                }
                for (i, value) in all.iter().enumerate() {
                    match joint {
                        Some(joint) if i > 0 => url.push_str(joint),
                        _ => pair(url, None),
                    }
                    push_encoded(url, value);
                    check_length(url.len(), name, limit)?;
                }
            }
        }
        Ok(())
    }
}

/// Levels of lists and objects in one argument.
const MAX_NESTING: usize = 16;

/// Calls `each` for every string, number and boolean of a value that is not `null`, with what follows the parameter's name: `[KEY]` for a
/// member, `[INDEX]` for an element. `below`: what is around the value, and `depth` how many levels these are.
///
/// # Errors
/// For a value that is too deep, and what `each` returns.
fn nested(
    json: &str,
    below: &mut String,
    depth: usize,
    argument: &str,
    each: &mut impl FnMut(&str, &str) -> Result<(), UpstreamError>,
) -> Result<(), UpstreamError> {
    let invalid = |_| invalid_argument(argument, "is not valid JSON");
    let length = below.len();
    let mut within = |below: &mut String, key: &str, value: &RawValue| {
        // Encoded, so that no key ends the bracket or the name.
        below.push_str("%5B");
        push_encoded(below, key);
        below.push_str("%5D");
        let written = nested(value.get(), below, depth + 1, argument, each);
        below.truncate(length);
        written
    };
    match json.as_bytes().first() {
        Some(b'{' | b'[') if depth == MAX_NESTING => {
            Err(invalid_argument(argument, &format!("has more than {MAX_NESTING} levels of lists and objects")))
        }
        Some(b'{') => {
            let members: IndexMap<String, &RawValue> = serde_json::from_str(json).map_err(invalid)?;
            members.iter().try_for_each(|(key, value)| within(below, key, value))
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).map_err(invalid)?;
            elements.iter().enumerate().try_for_each(|(index, value)| within(below, &index.to_string(), value))
        }
        Some(b'n') => Ok(()),
        _ => match text(argument, json)? {
            Text::One(value) => each(below, &value),
            Text::Many(_) => Ok(()),
        },
    }
}

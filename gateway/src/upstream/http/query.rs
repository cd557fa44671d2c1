//! Queries of requests.

use percent_encoding::percent_decode_str;
use tamis_config::{ArgumentStyle, HttpCall, ServiceTool};

use super::render::MAX_URL;
use crate::upstream::syntax::{encoded, push_encoded};
use crate::upstream::template::{Template, Text, Values, check_length, is_paging, text};
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
            let parameter = Parameter {
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
            parameter.write(values, url, &mut separator)?;
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

impl Parameter {
    fn write(&self, values: &Values<'_>, url: &mut String, separator: &mut char) -> Result<(), UpstreamError> {
        let mut pair = |url: &mut String| {
            url.push(std::mem::replace(separator, '&'));
            url.push_str(&self.name);
            url.push('=');
        };
        let Some(name) = self.template.sole() else {
            pair(url);
            return self.template.write(values, url, |url, _, text| {
                push_encoded(url, text);
                Ok(())
            });
        };
        // An absent argument and an empty list make no parameter.
        match values.get(name).map(|json| text(name, json)).transpose()? {
            None => {}
            Some(Text::One(value)) => {
                pair(url);
                push_encoded(url, &value);
            }
            Some(Text::Many(all)) => {
                for (i, value) in all.iter().enumerate() {
                    if i == 0 || self.style == ArgumentStyle::Repeat {
                        pair(url);
                    } else {
                        url.push(',');
                    }
                    push_encoded(url, value);
                    check_length(url.len(), name, MAX_URL)?;
                }
            }
        }
        Ok(())
    }
}

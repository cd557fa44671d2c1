//! JSON bodies of requests.

use crate::upstream::json_template::{JsonTemplate, quoted};
use crate::upstream::template::Values;
use crate::upstream::{InvalidService, UpstreamError};

/// A body template, parsed.
#[derive(Debug, Clone)]
pub(super) struct Body {
    template: JsonTemplate,
    /// The member that authentication adds, as a JSON string.
    secret: Option<Box<str>>,
}

impl Body {
    /// Parses `json`. With `secret`, a top-level member of that name is added when the body is written.
    ///
    /// # Errors
    /// If the template is not an object although authentication adds a member to it.
    pub(super) fn parse(
        field: &str,
        json: Option<&str>,
        secret: Option<&str>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, InvalidService> {
        let Some(name) = secret else {
            let template = json.map(|json| JsonTemplate::parse(field, json, known)).transpose()?;
            return Ok(template.map(|template| Self { template, secret: None }));
        };
        let json = json.unwrap_or("{}").trim();
        if !json.starts_with('{') {
            return Err(InvalidService::new(field, "must be an object, since authentication adds a member to it"));
        }
        let template = JsonTemplate::parse_without(field, json, name, known)?;
        Ok(Some(Self { template, secret: Some(quoted(name)) }))
    }

    /// Returns whether the body is an object with at least one member that is always there.
    pub(super) fn is_object(&self) -> bool {
        self.template.has_fixed_member()
    }

    /// Writes the body, or returns `None` if it consists of one absent argument.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that has no text where the template needs text.
    pub(super) fn write(&self, values: &Values<'_>, secret: Option<&str>) -> Result<Option<String>, UpstreamError> {
        let Some(mut out) = self.template.write(values)? else { return Ok(None) };
        if let (Some(key), Some(secret)) = (&self.secret, secret) {
            // `parse` made sure that this is an object.
            out.pop();
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(key);
            out.push(':');
            out.push_str(&quoted(secret));
            out.push('}');
        }
        Ok(Some(out))
    }
}

#[cfg(test)]
#[path = "tests/body.rs"]
mod tests;

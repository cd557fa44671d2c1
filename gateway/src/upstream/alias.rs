//! Aliases: tools whose arguments become the arguments of another tool.

use indexmap::IndexMap;
use tamis_config::{Alias, ServiceDocument, ServiceTool};
use tamis_engine::JsonText;

use super::json_template::JsonTemplate;
use super::template::{Values, invalid_argument, is_paging, properties};
use super::{Arguments, InvalidService, UpstreamError};

/// An alias, parsed once.
#[derive(Debug)]
pub(super) struct AliasPlan {
    tool: Box<str>,
    /// An object of templates. `None` passes the arguments on.
    arguments: Option<JsonTemplate>,
    /// The argument that is passed on besides those of the templates.
    paging: Option<&'static str>,
}

impl AliasPlan {
    /// Parses the templates of an alias.
    ///
    /// # Errors
    /// The tool that it calls is not there, is an alias itself or has another pagination, or a template is not valid.
    pub(super) fn new(
        field: &str,
        alias: &Alias,
        own: &ServiceTool,
        document: &ServiceDocument,
    ) -> Result<Self, InvalidService> {
        let called = document.called(own).ok_or_else(|| {
            InvalidService::new(
                format!("{field}.tool"),
                format!("`{}` is not a tool with a call of its own", alias.tool),
            )
        })?;
        if own.pagination != called.pagination {
            let message = format!("has another pagination than its alias; copy that of `{}`", alias.tool);
            return Err(InvalidService::new(format!("{field}.tool"), message));
        }
        let given = properties(own);
        let known = |name: &str| given.contains_key(name) || is_paging(own, name);
        let parse = |templates| JsonTemplate::parse(&format!("{field}.arguments"), &object(templates), &known);
        let arguments = alias.arguments.as_ref().map(parse).transpose()?;
        Ok(Self { tool: alias.tool.as_str().into(), arguments, paging: paging(own, alias) })
    }

    /// Returns the tool that the alias calls.
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the arguments of that tool.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that has no text where a template needs text.
    pub(super) fn arguments(&self, given: &Arguments) -> Result<Arguments, UpstreamError> {
        let Some(templates) = &self.arguments else { return Ok(given.clone()) };
        let defaults = IndexMap::new();
        let made = templates.write(&Values::new(given, &defaults))?.unwrap_or_default();
        let mut made: Arguments =
            serde_json::from_str(&made).map_err(|_| invalid_argument("arguments", "do not give an object"))?;
        if let Some((name, value)) = self.paging.and_then(|name| Some((name, given.get(name)?))) {
            made.insert(name, value);
        }
        Ok(made)
    }
}

/// Returns the argument that says where a page begins, if the gateway fetches pages and the alias does not set it.
fn paging(tool: &ServiceTool, alias: &Alias) -> Option<&'static str> {
    let name = tool.pagination.as_ref()?.kind.argument();
    let own = alias.arguments.as_ref().is_some_and(|templates| templates.contains_key(name));
    (!own).then_some(name)
}

fn object(members: &IndexMap<String, JsonText>) -> String {
    let mut text = String::from("{");
    for (name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(name.as_str()).to_string());
        text.push(':');
        text.push_str(value.as_str());
    }
    text.push('}');
    text
}

#[cfg(test)]
#[path = "tests/alias.rs"]
mod tests;

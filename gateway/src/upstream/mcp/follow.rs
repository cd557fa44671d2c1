//! Reads the tools that a server lists, for expositions that publish them as they are listed. Pure.

use std::fmt;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde_json::Value;
use serde_json::value::RawValue;
use tamis_config::{Call, McpCall, Risk, ServiceTool, is_tool_name};
use tamis_engine::JsonText;
use tamis_schema::Patterns;

use super::pins::ListedTool;

/// The most tools that are left out and named.
const NAMED: usize = 20;
/// The most bytes of a name that is not valid and is named nevertheless.
const MAX_NAME: usize = 64;

/// The tools that a server lists, as far as they can be published.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listed {
    /// The tools, in the order of the list.
    pub(crate) tools: IndexMap<String, ServiceTool>,
    /// The first tools that are left out because they are not valid.
    pub(crate) left_out: Vec<LeftOut>,
    /// How many tools are left out because they are not valid.
    pub(crate) invalid: usize,
    /// Why the list was not read to its end, and at least how many tools are missing for that.
    pub(crate) ended: Option<(&'static str, usize)>,
}

/// A tool that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The beginning of its name, without control characters.
    pub(crate) name: String,
    /// Why it is left out.
    pub(crate) flaw: Flaw,
}

/// Why a tool is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No object, or without a name.
    Shape,
    Name,
    Repeated,
    Text,
    Input,
    Output,
    Annotations,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "it is not an object with a name",
            Self::Name => "its name is not one of 1 to 64 characters out of A-Z a-z 0-9 _ . / -",
            Self::Repeated => "it is listed more than once",
            Self::Text => "its title or description is not text",
            Self::Input => "its inputSchema is no valid schema of an object, or refers to another document",
            Self::Output => "its outputSchema is not valid, or refers to another document",
            Self::Annotations => "its annotations have a wrong type",
        })
    }
}

/// A list that is being read.
#[derive(Default)]
pub(super) struct Collection {
    tools: IndexMap<String, Result<ServiceTool, Flaw>>,
    nameless: Vec<LeftOut>,
    more_nameless: usize,
    inputs: Patterns,
    outputs: Patterns,
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

impl Collection {
    /// Adds a tool of the list.
    pub(super) fn add(&mut self, listed: Option<&ListedTool<'_>>) {
        let name = listed.and_then(|listed| super::text::string(listed.name));
        let (Some(listed), Some(name)) = (listed, name) else { return self.leave_out("", Flaw::Shape) };
        let name = String::from_utf8_lossy(&name);
        if !is_tool_name(&name) {
            return self.leave_out(&name, Flaw::Name);
        }
        match self.tools.entry(name.into_owned()) {
            // Which of the two a call would reach is the server's secret.
            Entry::Occupied(mut known) => drop(known.insert(Err(Flaw::Repeated))),
            Entry::Vacant(new) => {
                let tool = tool(new.key(), listed, &mut self.inputs, &mut self.outputs);
                new.insert(tool);
            }
        }
    }

    fn leave_out(&mut self, name: &str, flaw: Flaw) {
        if self.nameless.len() < NAMED {
            let mut shown: String = name.chars().filter(|c| !c.is_control()).collect();
            let end = (0..=MAX_NAME.min(shown.len())).rev().find(|end| shown.is_char_boundary(*end));
            shown.truncate(end.unwrap_or_default());
            self.nameless.push(LeftOut { name: shown, flaw });
        } else {
            self.more_nameless += 1;
        }
    }

    /// Returns the tools. `ended`: why the list was not read to its end, and at least how many tools are missing.
    pub(super) fn finish(self, ended: Option<(&'static str, usize)>) -> Listed {
        let Self { tools, nameless: mut left_out, more_nameless, inputs: _, outputs: _ } = self;
        let mut listed = Listed { ended, ..Listed::default() };
        let mut invalid = left_out.len() + more_nameless;
        for (name, tool) in tools {
            match tool {
                Ok(tool) => drop(listed.tools.insert(name, tool)),
                Err(flaw) => {
                    invalid += 1;
                    if left_out.len() < NAMED {
                        left_out.push(LeftOut { name, flaw });
                    }
                }
            }
        }
        Listed { left_out, invalid, ..listed }
    }
}

fn tool(
    name: &str,
    listed: &ListedTool<'_>,
    inputs: &mut Patterns,
    outputs: &mut Patterns,
) -> Result<ServiceTool, Flaw> {
    let text = |raw: Option<&RawValue>| match raw {
        None => Ok(None),
        Some(raw) => {
            let text = super::text::string(raw).ok_or(Flaw::Text)?;
            Ok(Some(String::from_utf8_lossy(&text).into_owned()))
        }
    };
    let json = |raw: &RawValue, flaw| JsonText::parse(raw.get()).map_err(|_| flaw);
    let input = json(listed.input_schema.ok_or(Flaw::Input)?, Flaw::Input)?;
    let is_object = serde_json::from_str::<Value>(input.as_str()).is_ok_and(|schema| schema["type"] == "object");
    if !is_object || tamis_schema::compile(input.as_str(), inputs).is_err() {
        return Err(Flaw::Input);
    }
    let output = listed.output_schema.map(|raw| json(raw, Flaw::Output)).transpose()?;
    if output.as_ref().is_some_and(|output| tamis_schema::compile(output.as_str(), outputs).is_err()) {
        return Err(Flaw::Output);
    }
    let annotations = listed.annotations.map(|raw| json(raw, Flaw::Annotations)).transpose()?;
    Ok(ServiceTool {
        title: text(listed.title)?,
        description: text(listed.description)?,
        input_schema: input,
        output_schema: output,
        response_type: None,
        risk: risk(annotations.as_ref()).ok_or(Flaw::Annotations)?,
        pagination: None,
        call: Call::Mcp(McpCall { tool: name.to_owned(), annotations }),
    })
}

/// Derives the risk of a call from the annotations; none if they have a wrong type.
fn risk(annotations: Option<&JsonText>) -> Option<Risk> {
    let Some(annotations) = annotations else { return Some(Risk::of_hints(None, None, None)) };
    let annotations: Value = serde_json::from_str(annotations.as_str()).ok()?;
    let annotations = annotations.as_object()?;
    if annotations.get("title").is_some_and(|title| !title.is_string()) {
        return None;
    }
    let hint = |name: &str| match annotations.get(name) {
        None => Some(None),
        Some(value) => value.as_bool().map(Some),
    };
    hint("openWorldHint")?;
    Some(Risk::of_hints(hint("readOnlyHint")?, hint("destructiveHint")?, hint("idempotentHint")?))
}

#[cfg(test)]
#[path = "tests/follow.rs"]
mod tests;

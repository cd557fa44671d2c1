//! Fills prompts with arguments. Pure.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tamis_config::placeholder::{Piece, pieces};
use tamis_config::{PromptArgument, PromptMessage, ServicePrompt};

use crate::dispatch::shown;
use crate::mcp::encode::{self, Sink as _};
use crate::mcp::message::string;

/// The most arguments that a request may give.
const MAX_ARGUMENTS: usize = 64;
/// The most bytes of one argument.
const MAX_ARGUMENT: usize = 64 << 10;
/// The most bytes of the messages of a filled prompt.
const MAX_RENDERED: usize = 1 << 20;

/// Returns the bytes of the messages of a prompt, filled with `arguments` bytes of arguments, at most.
pub(crate) fn most_rendered(prompt: &ServicePrompt, arguments: usize) -> usize {
    // A placeholder has three bytes at least.
    let most = |message: &PromptMessage| {
        message.text.len().saturating_add((message.text.len() / 3).saturating_mul(arguments.min(MAX_ARGUMENT)))
    };
    prompt.messages.iter().map(most).fold(arguments, usize::saturating_add).min(MAX_RENDERED + arguments)
}

/// Returns the messages of a prompt as a JSON list. `arguments` is the JSON text of the caller's arguments, if it gave any.
///
/// # Errors
/// Says which argument is missing or not valid, without its value.
pub(crate) fn render(prompt: &ServicePrompt, arguments: Option<&RawValue>) -> Result<String, String> {
    let given = match arguments {
        Some(raw) => read(raw)?,
        None => Vec::new(),
    };
    let value = |name: &str| -> Option<&str> {
        let declared = prompt.arguments.get(name)?;
        let given = given.iter().find(|(own, _)| own == name).map(|(_, value)| &**value);
        Some(given.or(declared.default.as_deref()).unwrap_or_default())
    };
    for (name, text) in &given {
        let Some(PromptArgument { values, .. }) = prompt.arguments.get(&**name) else {
            return Err(format!("there is no argument `{}`", shown(name)));
        };
        if text.len() > MAX_ARGUMENT {
            return Err(format!("argument `{name}` is longer than {MAX_ARGUMENT} bytes"));
        }
        if !values.is_empty() && !values.iter().any(|allowed| allowed == text) {
            return Err(format!("argument `{name}` is none of its allowed values: {}", values.join(", ")));
        }
    }
    let is_given = |name: &str| given.iter().any(|(own, _)| own == name);
    if let Some((name, _)) = prompt.arguments.iter().find(|(name, argument)| argument.required && !is_given(name)) {
        return Err(format!("argument `{name}` is missing"));
    }
    let length_of = |piece: Piece<'_>| match piece {
        Piece::Literal(text) => text.len(),
        Piece::Placeholder(name) => value(name).map_or(name.len() + 2, str::len),
    };
    let length = |message: &PromptMessage| pieces(&message.text).map(length_of).sum::<usize>();
    if prompt.messages.iter().map(length).sum::<usize>() > MAX_RENDERED {
        return Err(format!("the messages would be longer than {MAX_RENDERED} bytes"));
    }
    let mut out = String::from("[");
    for (index, PromptMessage { role, text }) in prompt.messages.iter().enumerate() {
        let mut filled = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Literal(text) => filled.push_str(text),
                Piece::Placeholder(name) => match value(name) {
                    Some(value) => filled.push_str(value),
                    None => filled.extend(["{", name, "}"]),
                },
            }
        }
        out.put(if index == 0 { "{\"role\":\"" } else { ",{\"role\":\"" });
        out.put(role.as_str());
        out.put("\",\"content\":{\"type\":\"text\",\"text\":");
        encode::string(&mut out, &filled);
        out.put("}}");
    }
    out.push(']');
    Ok(out)
}

/// Reads arguments: an object whose values are strings.
fn read(raw: &RawValue) -> Result<Vec<(String, Cow<'_, str>)>, String> {
    struct Arguments;

    impl<'de> Visitor<'de> for Arguments {
        type Value = Result<Vec<(String, Cow<'de, str>)>, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut read = Vec::new();
            let mut problem = None;
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                if problem.is_some() {
                    continue;
                }
                match string(value) {
                    _ if read.len() == MAX_ARGUMENTS => problem = Some("there are more than 64 arguments".to_owned()),
                    Some(text) => read.push((name, text)),
                    None => problem = Some(format!("argument `{}` is not a string", shown(&name))),
                }
            }
            Ok(problem.map_or(Ok(read), Err))
        }
    }

    let mut json = serde_json::Deserializer::from_str(raw.get());
    json.deserialize_map(Arguments).unwrap_or_else(|_| Err("arguments must be an object of strings".to_owned()))
}

#[cfg(test)]
#[path = "prompts_tests.rs"]
mod tests;

//! The command line of a call. Pure.
//!
//! Whatever an argument says, the fixed words stay what and where they are, an argument gives as many words as its style and the
//! number of its elements say, and no value becomes an option: a word that is a value alone never begins with `-`, except behind
//! the word that ends options.

use indexmap::IndexMap;
use serde_json::value::RawValue;
use tamis_config::{CommandArgument, CommandCall, CommandStyle};
use tamis_engine::JsonText;

use crate::upstream::template::{Values, invalid_argument, texts};
use crate::upstream::{Arguments, InvalidService, UpstreamError};

/// Bytes of one word: what Linux accepts (`MAX_ARG_STRLEN`), without the zero at its end.
pub(super) const MAX_WORD: usize = (128 << 10) - 1;
/// Bytes of all words of a call.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Words of a call.
pub(super) const MAX_WORDS: usize = 4096;

/// How the command line of a tool is made.
#[derive(Debug, Clone)]
pub(super) struct Argv {
    words: Vec<String>,
    arguments: IndexMap<String, CommandArgument>,
    defaults: IndexMap<String, JsonText>,
    last_words: Vec<String>,
    end_of_options: Option<String>,
}

impl Argv {
    /// Reads a call.
    ///
    /// # Errors
    /// Names the first field that no command line can have.
    pub(super) fn new(field: &str, call: &CommandCall) -> Result<Self, InvalidService> {
        let CommandCall { words, arguments, defaults, last_words, end_of_options, .. } = call;
        let flags = arguments.values().filter_map(|argument| argument.flag.as_ref());
        if words.iter().chain(last_words).chain(end_of_options).chain(flags).any(|word| word.contains('\0')) {
            return Err(InvalidService::new(field, "has a word with a zero byte"));
        }
        let misfit =
            |argument: &CommandArgument| (argument.style == CommandStyle::Positional) == argument.flag.is_some();
        if let Some((name, _)) = arguments.iter().find(|(_, argument)| misfit(argument)) {
            let message = "must have a flag, unless it is positional";
            return Err(InvalidService::new(format!("{field}.arguments.{name}"), message));
        }
        Ok(Self {
            words: words.clone(),
            arguments: arguments.clone(),
            defaults: defaults.clone(),
            last_words: last_words.clone(),
            end_of_options: end_of_options.clone(),
        })
    }

    /// Returns the words after the program.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that cannot be written.
    pub(super) fn words(&self, arguments: &Arguments) -> Result<Vec<String>, UpstreamError> {
        let values = Values::new(arguments, &self.defaults);
        let (mut positionals, mut options) = (Vec::new(), Vec::new());
        let mut absent: Option<&str> = None;
        for (name, CommandArgument { style, flag }) in &self.arguments {
            let json = values.get(name);
            let Some(flag) = flag else {
                match (json, absent) {
                    (None, _) => absent = absent.or(Some(name)),
                    // Its value would take the place of the other one.
                    (Some(_), Some(other)) => {
                        let reason = format!("is only possible together with `{other}`, which comes before it");
                        return Err(invalid_argument(name, &reason));
                    }
                    (Some(json), None) => {
                        for value in texts(name, json)? {
                            self.check_positional(name, &value)?;
                            positionals.push(value.into_owned());
                        }
                    }
                }
                continue;
            };
            if let Some(json) = json {
                option(name, (*style, flag), json, &mut options)?;
            }
        }
        let mut all = self.words.clone();
        match &self.end_of_options {
            None => {
                all.extend(positionals);
                all.extend(options);
                all.extend(self.last_words.iter().cloned());
            }
            Some(end) => {
                all.extend(options);
                all.extend(self.last_words.iter().cloned());
                all.push(end.clone());
                all.extend(positionals);
            }
        }
        let bytes: usize = all.iter().map(|word| word.len() + 1).sum();
        if bytes > MAX_BYTES || all.len() > MAX_WORDS {
            return Err(UpstreamError::Argument {
                argument: self.longest(&values),
                reason: format!("makes a command line of more than {MAX_BYTES} bytes or {MAX_WORDS} words"),
            });
        }
        Ok(all)
    }

    /// Returns the argument with the longest value.
    fn longest(&self, values: &Values<'_>) -> String {
        let length = |name: &&String| values.get(name).map_or(0, str::len);
        self.arguments.keys().max_by_key(length).cloned().unwrap_or_default()
    }

    fn check_positional(&self, name: &str, value: &str) -> Result<(), UpstreamError> {
        check(name, value)?;
        if self.end_of_options.is_none() {
            check_dash(name, value)?;
        }
        Ok(())
    }
}

/// Adds the words of an argument that has an option.
fn option(
    name: &str,
    (style, flag): (CommandStyle, &str),
    json: &str,
    words: &mut Vec<String>,
) -> Result<(), UpstreamError> {
    match style {
        CommandStyle::Boolean => match json {
            "true" => words.push(flag.to_owned()),
            "false" => {}
            _ => return Err(invalid_argument(name, "is neither true nor false")),
        },
        CommandStyle::Joined => {
            for value in texts(name, json)? {
                check(name, &value)?;
                words.push(format!("{flag}={value}"));
                check(name, words.last().map_or("", String::as_str))?;
            }
        }
        CommandStyle::Json => {
            check(name, json)?;
            let compact: &RawValue =
                serde_json::from_str(json).map_err(|_| invalid_argument(name, "is not valid JSON"))?;
            // A number alone may be negative.
            check_dash(name, compact.get())?;
            words.extend([flag.to_owned(), compact.get().to_owned()]);
        }
        CommandStyle::Comma => {
            let values = texts(name, json)?;
            // An empty word would be an element.
            if values.is_empty() {
                return Ok(());
            }
            if values.iter().any(|value| value.contains(',')) {
                return Err(invalid_argument(name, "has an element with a comma, which would be two elements"));
            }
            let joined = values.join(",");
            check(name, &joined)?;
            check_dash(name, &joined)?;
            words.extend([flag.to_owned(), joined]);
        }
        CommandStyle::Flag | CommandStyle::Positional => {
            for value in texts(name, json)? {
                check(name, &value)?;
                check_dash(name, &value)?;
                words.extend([flag.to_owned(), value.into_owned()]);
            }
        }
    }
    Ok(())
}

/// Rejects a value that no word can have.
fn check(name: &str, value: &str) -> Result<(), UpstreamError> {
    if value.contains('\0') {
        return Err(invalid_argument(name, "contains a zero byte, which no program can be given"));
    }
    if value.len() > MAX_WORD {
        return Err(invalid_argument(name, &format!("is longer than {MAX_WORD} bytes")));
    }
    Ok(())
}

/// Rejects a value that the program would read as an option.
fn check_dash(name: &str, value: &str) -> Result<(), UpstreamError> {
    if value.starts_with('-') {
        return Err(invalid_argument(name, "begins with `-`, so that the program would read it as an option"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests/argv.rs"]
mod tests;

//! Arguments of a tool call: kept as they were written, held to the input schema, freed of the reserved inputs.

use std::borrow::Cow;

use jsonschema::Validator;
use serde_json::{Map, Value};
use tamis_engine::Call;

use crate::upstream::Arguments;

/// Errors named in one answer; the rest is counted.
const NAMED_ERRORS: usize = 5;

/// Why arguments were not taken: the text of a tool result that is an error. Names arguments, never values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidArguments(pub(crate) String);

/// The reserved inputs of one tool, by the names that they have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Whether a filter applies. Without one the inputs are taken away, and have no effect.
    pub(crate) apply: bool,
    /// Whether the posture allows the unfiltered output.
    pub(crate) raw: bool,
    /// `_output_mode`, or with one more `_` where the tool has an argument of that name.
    pub(crate) output_mode: Cow<'static, str>,
    /// `_budget`, likewise.
    pub(crate) budget: Cow<'static, str>,
}

impl Reserved {
    /// Names that do not collide with `taken`.
    pub(crate) fn new(apply: bool, raw: bool, taken: impl Fn(&str) -> bool) -> Self {
        let free = |name: &'static str| {
            let mut name = Cow::Borrowed(name);
            while taken(&name) {
                name = Cow::Owned(format!("_{name}"));
            }
            name
        };
        Self { apply, raw, output_mode: free("_output_mode"), budget: free("_budget") }
    }

    /// Takes the reserved inputs out of `arguments`.
    ///
    /// # Errors
    /// One of them has a value that it cannot have, or that the posture refuses.
    pub(crate) fn take(&self, arguments: &mut Arguments) -> Result<Call, InvalidArguments> {
        let mut call = Call::default();
        if arguments.keys().all(|name| !name.starts_with('_')) {
            return Ok(call);
        }
        if let Some(mode) = arguments.shift_remove(self.output_mode.as_ref())
            && self.apply
        {
            call.raw = match serde_json::from_str::<&str>(mode.get()) {
                Ok("default") => false,
                Ok("raw") if self.raw => true,
                Ok("raw") => {
                    return Err(InvalidArguments(format!("`{}`: raw output is not published here", self.output_mode)));
                }
                _ => {
                    return Err(InvalidArguments(format!("`{}`: must be \"default\" or \"raw\"", self.output_mode)));
                }
            };
        }
        if let Some(budget) = arguments.shift_remove(self.budget.as_ref())
            && self.apply
        {
            let bytes = serde_json::from_str::<usize>(budget.get()).ok().filter(|bytes| *bytes > 0);
            let wrong = || InvalidArguments(format!("`{}`: must be a whole number of bytes above 0", self.budget));
            call.budget = Some(bytes.ok_or_else(wrong)?);
        }
        Ok(call)
    }
}

/// Reads the `arguments` of a call; absent and `null` are none.
///
/// # Errors
/// They are not an object.
pub(crate) fn read(raw: Option<&str>) -> Result<Arguments, InvalidArguments> {
    match raw {
        None => Ok(Arguments::new()),
        Some(text) => {
            serde_json::from_str(text).map_err(|_| InvalidArguments("`arguments` must be an object".to_owned()))
        }
    }
}

/// The same arguments as a tree, for the schema.
///
/// # Errors
/// A value that a tree cannot hold: a number beyond every range, a lone surrogate, nesting beyond all reason.
pub(crate) fn tree(arguments: &Arguments) -> Result<Value, InvalidArguments> {
    let mut object = Map::with_capacity(arguments.len());
    for (name, raw) in arguments {
        let value = serde_json::from_str(raw.get())
            .map_err(|_| InvalidArguments(format!("`{name}`: the value cannot be read")))?;
        object.insert(name.clone(), value);
    }
    Ok(Value::Object(object))
}

/// Holds arguments to the tool's input schema.
///
/// # Errors
/// Names each argument that does not fit, and why.
pub(crate) fn validate(validator: &Validator, arguments: &Value) -> Result<(), InvalidArguments> {
    if validator.is_valid(arguments) {
        return Ok(());
    }
    let errors: Vec<_> = validator.iter_errors(arguments).collect();
    let mut message = String::new();
    for error in errors.iter().take(NAMED_ERRORS) {
        let place = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        if !message.is_empty() {
            message.push_str("; ");
        }
        if !place.is_empty() {
            message.push_str(&format!("`{place}`: "));
        }
        message.push_str(&error.masked().to_string());
    }
    if errors.len() > NAMED_ERRORS {
        message.push_str(&format!("; and {} more", errors.len() - NAMED_ERRORS));
    }
    Err(InvalidArguments(message))
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;

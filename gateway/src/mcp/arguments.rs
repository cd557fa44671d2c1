//! The arguments of a tool call: kept as they were written, validated against the input schema, without the reserved inputs.

use std::borrow::Cow;

use tamis_engine::{
    Bytes, Call, Format, Page, PageError, PageInput, PageInputs, PageRequest, ReservedInput, ReservedInputs, Tokens,
};
use tamis_schema::{Document, Invalid, Kind, Limits, Schema, steps_for};

use crate::arguments::Arguments;

/// Why arguments were refused, as the text of a tool result that is an error. It names arguments, never values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidArguments(pub(crate) String);

/// The reserved inputs of a tool, under the names that they have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Each input with its name: its own, or with one or more `_` before it where the tool has an argument of that name.
    inputs: Box<[(ReservedInput, Cow<'static, str>)]>,
    /// Whether enforcement allows the unfiltered output. If not, `_output_mode` is read to be refused, but not advertised.
    raw: bool,
}

impl Reserved {
    /// Chooses names that are not `taken`. `raw` says whether enforcement allows the unfiltered output. A tool that has an
    /// `offset` or `limit` of its own keeps it, and gets neither.
    pub(crate) fn new(inputs: ReservedInputs, raw: bool, taken: impl Fn(&str) -> bool) -> Self {
        let window = [ReservedInput::Offset, ReservedInput::Limit];
        let has_window = window.iter().all(|input| inputs.contains(*input) && !taken(input.as_str()));
        let inputs = if has_window { inputs } else { window.into_iter().fold(inputs, ReservedInputs::without) };
        let free = |input: ReservedInput| {
            let mut name = Cow::Borrowed(input.as_str());
            while taken(&name) {
                name = Cow::Owned(format!("_{name}"));
            }
            (input, name)
        };
        Self { inputs: inputs.iter().map(free).collect(), raw }
    }

    /// Returns the inputs that the tool advertises, with their names.
    pub(crate) fn advertised(&self) -> impl Iterator<Item = (ReservedInput, &str)> {
        let shown = |input: ReservedInput| self.raw || input != ReservedInput::OutputMode;
        self.inputs.iter().filter(move |(input, _)| shown(*input)).map(|(input, name)| (*input, &**name))
    }

    /// Returns the inputs for pages, as an index names them.
    pub(crate) fn pages(&self) -> PageInputs<'_> {
        let named = |input| self.inputs.iter().find(|(own, _)| *own == input).map(|(_, name)| &**name);
        PageInputs { chunk: named(ReservedInput::Chunk), window: named(ReservedInput::Offset).is_some() }
    }

    /// Returns the message for a call of a page that there is not.
    pub(crate) fn no_page(&self, error: PageError) -> InvalidArguments {
        InvalidArguments(error.message(self.pages().chunk.unwrap_or("chunk")))
    }

    fn page_number(&self, value: &str, input: PageInput) -> Result<i64, InvalidArguments> {
        number(value).ok_or_else(|| self.no_page(PageError::NotWhole(input)))
    }

    /// Returns whether a call can ask for tokens to be counted.
    pub(crate) fn counts_tokens(&self) -> bool {
        let counts = [ReservedInput::BudgetTokens, ReservedInput::Format];
        self.inputs.iter().any(|(input, _)| counts.contains(input))
    }

    /// Removes the reserved inputs from `arguments`.
    ///
    /// # Errors
    /// One of them has an invalid value, or one that enforcement refuses.
    pub(crate) fn take(&self, arguments: &mut Arguments) -> Result<Call<'static>, InvalidArguments> {
        let mut call = Call::default();
        if arguments.is_empty() {
            return Ok(call);
        }
        let mut page = PageRequest::default();
        for (input, name) in &self.inputs {
            let Some(value) = arguments.remove(name) else { continue };
            let invalid = |must: &str| InvalidArguments(format!("`{name}`: {must}"));
            let above_0 = |unit| {
                let number = number(value).filter(|number| *number > 0);
                number
                    .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
                    .ok_or_else(|| invalid(&format!("must be a whole number of {unit} above 0")))
            };
            match input {
                ReservedInput::OutputMode => {
                    call.raw = match serde_json::from_str::<&str>(value) {
                        Ok("default") => false,
                        Ok("raw") if self.raw => true,
                        Ok("raw") => return Err(invalid("raw output is not published here")),
                        _ => return Err(invalid("must be \"default\" or \"raw\"")),
                    };
                }
                ReservedInput::Budget => call.budget.bytes = Some(Bytes(above_0("bytes")?)),
                ReservedInput::BudgetTokens => call.budget.tokens = Some(Tokens(above_0("tokens")?)),
                ReservedInput::Format => {
                    let name = serde_json::from_str::<&str>(value).ok();
                    let formats = name.and_then(Format::choice);
                    call.formats = Some(
                        formats.ok_or_else(|| invalid("must be one of \"json\", \"table\", \"toon\" and \"auto\""))?,
                    );
                }
                ReservedInput::Chunk => page.chunk = Some(self.page_number(value, PageInput::Chunk)?),
                ReservedInput::Offset => page.offset = Some(self.page_number(value, PageInput::Offset)?),
                ReservedInput::Limit => page.limit = Some(self.page_number(value, PageInput::Limit)?),
            }
        }
        call.page = Page::new(page).map_err(|error| self.no_page(error))?;
        Ok(call)
    }
}

/// Parses a JSON text as a whole number that may be negative: `100`, and `100.0` too, as JSON Schema defines `integer`.
/// Numbers beyond an `i64` become the nearest one.
fn number(text: &str) -> Option<i64> {
    if let Ok(number) = serde_json::from_str(text) {
        return Some(number);
    }
    let number = serde_json::from_str::<f64>(text).ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
    (number.fract() == 0.0).then_some(number as i64)
}

/// Bounds on the arguments of one call.
pub(crate) const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 64 };

/// Parses the text of arguments. Refuses texts that two parsers could read differently, in particular duplicate keys.
///
/// # Errors
/// Names the problem, without a value.
pub(crate) fn document(text: &str) -> Result<Document<'_>, InvalidArguments> {
    Document::parse(text, LIMITS).map_err(|error| InvalidArguments(error.to_string()))
}

/// Reads the `arguments` of a call. Absent and `null` mean none.
///
/// # Errors
/// They are not an object, are too large or too deep, or have a duplicate key.
pub(crate) fn read(raw: Option<&str>) -> Result<Arguments, InvalidArguments> {
    let Some(text) = raw else { return Ok(Arguments::default()) };
    let document = document(text)?;
    let root = document.root();
    if root.kind() != Kind::Object {
        return Err(InvalidArguments("`arguments` must be an object".to_owned()));
    }
    Ok(Arguments::of(text, root))
}

/// Validates the values that go upstream. Takes at most `steps`, or as many as their size allows.
///
/// # Errors
/// Names the first invalid arguments and why, or says that validation takes too many steps.
pub(crate) fn validate(schema: &Schema, arguments: &Arguments, steps: Option<u64>) -> Result<(), ValidationError> {
    let text = arguments.object();
    // An alias produces arguments of its own, so the bounds are checked again.
    let document = document(&text)?;
    let allowed = steps_for(document.bytes());
    match schema.check_within(&document, steps.unwrap_or(allowed).min(allowed)) {
        Ok(_) => Ok(()),
        Err(Invalid::Work(taken)) if taken < allowed => Err(ValidationError::Heavy),
        Err(invalid) => Err(InvalidArguments(invalid.to_string()).into()),
    }
}

/// Why arguments were not passed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ValidationError {
    /// They are not valid.
    Invalid(InvalidArguments),
    /// Validating them takes more steps than were given.
    Heavy,
}

impl From<InvalidArguments> for ValidationError {
    fn from(invalid: InvalidArguments) -> Self {
        Self::Invalid(invalid)
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;

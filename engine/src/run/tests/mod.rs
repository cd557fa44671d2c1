//! A table for each stage: filter, input, output. Filters and inputs are JSON.

mod answers;
mod bounds;
mod branches;
mod chunks;
mod compact;
mod enforcement;
mod finish;
mod limits;
mod lines;
mod pages;
mod patches;
mod retain;
mod root;
mod select;
mod suite;
mod text;

use crate::{
    Bytes, Call, CompileOptions, Enforcement, Filtered, Input, Program, Refused, ResponseType, Structured, Tokens,
    compile,
};

/// A filter to run, and how.
struct Case {
    filter: String,
    options: CompileOptions,
    call: Call<'static>,
}

/// Structured content that is the text's value.
fn bare() -> Structured {
    Structured::Text { members: String::new() }
}

fn advisory(filter: &str) -> Case {
    Case { filter: filter.to_owned(), options: CompileOptions::default(), call: Call::default() }
}

fn enforced(filter: &str) -> Case {
    let options = CompileOptions { enforcement: Enforcement::Enforced, ..CompileOptions::default() };
    Case { options, ..advisory(filter) }
}

impl Case {
    fn response(mut self, response_type: ResponseType) -> Self {
        self.options.response_type = Some(response_type);
        self
    }

    fn budget(mut self, bytes: usize) -> Self {
        self.call.budget.bytes = Some(Bytes(bytes));
        self
    }

    fn tokens(mut self, tokens: usize) -> Self {
        self.call.budget.tokens = Some(Tokens(tokens));
        self
    }

    fn pages(mut self, pagination: &'static str) -> Self {
        self.call.pagination = Some(pagination);
        self
    }

    fn raw(mut self) -> Self {
        self.call.raw = true;
        self
    }

    fn program(&self) -> Program {
        let filter = serde_json::from_str(&self.filter).unwrap_or_else(|e| panic!("{}: {e}", self.filter));
        let compiled = compile(&filter, &self.options);
        compiled.program.unwrap_or_else(|| panic!("{}: {:?}", self.filter, compiled.findings))
    }

    fn apply(&self, input: Input<'_>) -> Result<Filtered, Refused> {
        self.program().apply_reference(input, &self.call)
    }

    fn run(&self, input: &str) -> Filtered {
        match self.apply(Input::Json(input.as_bytes())) {
            Ok(filtered) => filtered,
            Err(refused) => panic!("{} refused {input}: {:?}", self.filter, refused.report.error),
        }
    }

    /// The second text block and the structured content.
    fn around(&self, input: &str) -> (Option<String>, Option<String>) {
        let filtered = self.run(input);
        let structured = filtered.structured.to_json(&filtered.text);
        (filtered.notice, structured)
    }

    /// The text that the model gets.
    fn text(&self, input: &str) -> String {
        self.run(input).text
    }

    /// The stage that failed, and why.
    fn refused(&self, input: &str) -> (&'static str, String) {
        match self.apply(Input::Json(input.as_bytes())) {
            Ok(filtered) => panic!("{} let pass: {}", self.filter, filtered.text),
            Err(refused) => (refused.stage.as_str(), refused.report.error.map(|e| e.message).unwrap_or_default()),
        }
    }
}

/// Checks a table of input and output under one filter, under both kinds of enforcement unless `filter` says which.
fn table(case: &Case, rows: &[(&str, &str)]) {
    for (input, expected) in rows {
        assert_eq!(case.text(input), *expected, "{} on {input}", case.filter);
    }
}

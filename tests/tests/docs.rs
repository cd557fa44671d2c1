//! Runs every example of `docs/filters/`.
//!
//! A fence's info string says what it is: `yaml filter` (with `enforced`, or `type=array`), `json input` or `text input`, and
//! then what must come of the two nearest above: `json output` or `text output` (the first text block, byte for byte),
//! `text notice` (the second one), `json structured` (the structured content), `json report`, `text refused`
//! (`stage: reason`), `text findings` (one a line). Fences without a second word are only read.

use std::fs;
use std::path::{Path, PathBuf};

use tamis_crds::parse_document;
use tamis_engine::{Call, CompileOptions, Enforcement, Filtered, Input, Refused, ResponseType, ToolFilter, compile};
use tamis_tests::documents::fences;

#[derive(Default)]
struct Examples {
    filter: Option<(ToolFilter, CompileOptions)>,
    input: Option<String>,
    /// Whether commands come before: what they print is compared by `docs_site`.
    commands: bool,
    wrong: Vec<String>,
    checked: usize,
}

#[test]
fn every_example_does_what_the_page_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/filters");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(folder).expect("docs/filters").map(|e| e.expect("entry").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    pages.sort();
    assert!(pages.len() >= 5);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        let mut examples = Examples::default();
        for (line, info, body) in fences(&text) {
            examples.fence(&format!("{}:{line}", page.display()), info, &body);
        }
        wrong.append(&mut examples.wrong);
        checked += examples.checked;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 40, "only {checked} examples were found");
}

impl Examples {
    fn fence(&mut self, at: &str, info: &str, body: &str) {
        let line = body.strip_suffix('\n').unwrap_or(body);
        let words: Vec<&str> = info.split(' ').collect();
        let printed = std::mem::replace(&mut self.commands, words[0] == "sh");
        match words[..] {
            ["text", "output"] if printed => {}
            ["yaml", "filter", ref flags @ ..] => match filter(body) {
                Ok(filter) => self.filter = Some((filter, options(flags))),
                Err(reason) => self.wrong.push(format!("{at}: {reason}")),
            },
            ["json", "input"] => self.input = Some(line.to_owned()),
            ["text", "input"] => self.input = Some(body.to_owned()),
            ["json" | "text", "output"] => {
                let got = self.run(at).map(|outcome| outcome.map(|filtered| filtered.text));
                let shown = match got {
                    Some(Ok(text)) => text,
                    Some(Err(refused)) => format!("refused: {refused:?}"),
                    None => return,
                };
                // A line end at the end of text cannot be seen in a fence.
                self.same(at, shown.strip_suffix('\n').unwrap_or(&shown), line);
            }
            ["text", "notice"] => {
                let Some(outcome) = self.run(at) else { return };
                let notice = outcome.map(|filtered| filtered.notice.unwrap_or_default());
                self.same(at, &notice.unwrap_or_default(), line);
            }
            ["json", "structured"] => {
                let Some(outcome) = self.run(at) else { return };
                let object = outcome.ok().and_then(|filtered| filtered.structured.to_json(&filtered.text));
                self.same(at, &object.unwrap_or_default(), line);
            }
            ["json", "report"] => {
                let Some(outcome) = self.run(at) else { return };
                let report = match &outcome {
                    Ok(filtered) => &filtered.report,
                    Err(refused) => &refused.report,
                };
                self.same(at, &report.meta(Enforcement::Advisory), line);
            }
            ["text", "refused"] => {
                let shown = match self.run(at) {
                    Some(Ok(filtered)) => format!("not refused: {}", filtered.text),
                    Some(Err(Refused { stage, report, page: _ })) => {
                        let reason = report.error.map(|error| error.message).unwrap_or_default();
                        format!("{}: {reason}", stage.as_str())
                    }
                    None => return,
                };
                self.same(at, &shown, line);
            }
            ["text", "findings"] => {
                let Some((filter, options)) = &self.filter else { return };
                let findings = compile(filter, options).findings;
                let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
                self.same(at, &shown.join("\n"), line);
            }
            // `docs_site` runs these.
            ["sh", ..] => {}
            ["yaml", file] if file.starts_with("file=") => {}
            [_] => {}
            _ => self.wrong.push(format!("{at}: unknown info string `{info}`")),
        }
    }

    fn run(&mut self, at: &str) -> Option<Result<Filtered, Refused>> {
        let (Some((filter, options)), Some(input)) = (&self.filter, &self.input) else {
            self.wrong.push(format!("{at}: nothing to run"));
            return None;
        };
        let compiled = compile(filter, options);
        let Some(program) = compiled.program else {
            self.wrong.push(format!("{at}: {:?}", compiled.findings));
            return None;
        };
        let input = match options.response_type {
            Some(ResponseType::Text) => Input::Text(input.as_bytes()),
            _ => Input::Json(input.as_bytes()),
        };
        Some(program.apply(input, &Call::default()))
    }

    fn same(&mut self, at: &str, got: &str, want: &str) {
        self.checked += 1;
        if got != want {
            self.wrong.push(format!("{at}:\n  the page:   {want:?}\n  the engine: {got:?}"));
        }
    }
}

/// Parses a filter as part of a document.
fn filter(body: &str) -> Result<ToolFilter, String> {
    let indented: String = body.lines().map(|line| format!("      {line}\n")).collect();
    let document = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: docs}}\nspec:\n  \
         service: {{name: docs, version: \"1\"}}\n  filters:\n    tool:\n{indented}"
    );
    let parsed = parse_document("docs.yaml", document.as_bytes());
    let found = parsed.resources.filter_of("tool", None);
    found.map(|found| found.filter.clone()).map_err(|_| format!("{:?}", parsed.diagnostics))
}

fn options(flags: &[&str]) -> CompileOptions {
    let mut options = CompileOptions::default();
    for flag in flags {
        match *flag {
            "enforced" => options.enforcement = Enforcement::Enforced,
            "type=array" => options.response_type = Some(ResponseType::Array),
            "type=text" => options.response_type = Some(ResponseType::Text),
            other => panic!("unknown flag `{other}`"),
        }
    }
    options
}

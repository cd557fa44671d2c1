//! What one payload takes in each format, level and budget. Everything here is the same in every run.

use serde::Serialize;
use tamis_engine::{
    Budget, Call, CompileOptions, Enforcement, FilterSpec, Filtered, Format, Input, ItemForms, OutputSpec, PageInputs,
    Program, TokenCounter, Tokens, ToolFilter, compile, json,
};

use super::list::List;
use super::values::Valued;
use super::{JSON, Payload};

/// The name of the form of an item that the filter leaves as it is.
pub(super) const FULL: &str = "full";

/// The sizes of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) tokens: usize,
}

/// What was measured of one payload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    /// The name of the file, without its folder.
    pub(super) payload: String,
    /// The tool whose filter was applied, if there is a filter.
    pub(super) tool: Option<String>,
    /// `json`, or `text`: the payload is no JSON, or the filter writes a summary.
    pub(super) kind: &'static str,
    /// The items of the filtered list, or the lines of the text. `None` for another document.
    pub(super) items: Option<usize>,
    /// The payload as it was saved: what came over the wire.
    pub(super) saved: Size,
    /// The same document as compact JSON; of text, the same as `saved`.
    pub(super) compact: Size,
    /// What the filter leaves, as compact JSON.
    pub(super) filtered: Size,
    pub(super) formats: Vec<Formats>,
    pub(super) levels: Vec<Level>,
    pub(super) budgets: Vec<Fitted>,
}

/// The tokens of one document in each format. `None`: the document cannot be written so.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Formats {
    pub(super) filtered: bool,
    pub(super) json: usize,
    pub(super) table: Option<usize>,
    pub(super) toon: Option<usize>,
    /// The tokens of the format that `auto` chooses.
    pub(super) auto: usize,
    /// The format that `auto` chooses.
    pub(super) chosen: &'static str,
}

/// The tokens of the filtered list with all items at one level of detail.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Level {
    pub(super) level: String,
    #[serde(flatten)]
    pub(super) formats: Formats,
}

/// An answer within a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fitted {
    /// The limit in tokens.
    pub(super) budget: usize,
    /// `json`, `table` or `toon`; `text` for text.
    pub(super) format: &'static str,
    /// Whether `auto` chooses this format within the budget.
    pub(super) auto: bool,
    /// The items or lines that the answer shows.
    pub(super) shown: Option<usize>,
    /// How many items have which form, those in full first.
    pub(super) forms: Vec<(String, usize)>,
    /// The tokens of the answer with its index: the larger of its text blocks and its structured content.
    pub(super) tokens: usize,
    /// The value that the answer shows, in millionths of an ordinary item; `None` if it is not known.
    pub(super) value: Option<u64>,
    /// The greatest value that a list of so many tokens could show if items could be divided.
    pub(super) bound: Option<u64>,
    /// The value of the whole list.
    pub(super) whole: Option<u64>,
    /// Into how many chunks the list is divided; 1 if everything is shown.
    pub(super) chunks: usize,
    /// Whether the budget cut strings or left out members, because no form of an item fits.
    pub(super) cut: bool,
}

/// How everything is counted and fitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) counter: TokenCounter<'a>,
    /// The limits in tokens.
    pub(super) budgets: &'a [usize],
}

impl Settings<'_> {
    /// Counts the tokens of a text.
    pub(super) fn count(&self, text: &str) -> usize {
        // Nothing interrupts the count.
        self.counter.count(text, Tokens(usize::MAX), &mut |_| true).unwrap_or_default().0
    }

    fn size(&self, text: &str) -> Size {
        Size { bytes: text.len(), tokens: self.count(text) }
    }
}

/// A filter of one branch without its own budget and format, as [`measure`] applies it.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub(super) spec: FilterSpec,
    pub(super) options: CompileOptions,
    pub(super) program: Program,
}

impl Filter {
    /// Returns the filter without its budget and format. Returns `None` if it does not compile.
    pub(crate) fn new(spec: &FilterSpec, options: CompileOptions) -> Option<Self> {
        let mut spec = spec.clone();
        if let Some(output) = &mut spec.output {
            (output.budget, output.format) = (None, None);
        }
        let program = compile(&ToolFilter::Single(Box::new(spec.clone())), &options).program?;
        Some(Self { spec, options, program })
    }

    /// Returns the answer for `call`. Returns `None` if a stage fails under `Enforced`.
    pub(super) fn apply(&self, input: Input<'_>, call: &Call<'_>) -> Option<Filtered> {
        self.program.apply(input, call).ok()
    }

    /// Returns the answer in one of `formats`.
    pub(crate) fn write(
        &self,
        input: Input<'_>,
        formats: &'static [Format],
        counter: TokenCounter<'_>,
    ) -> Option<Filtered> {
        self.apply(input, &Call { formats: Some(formats), counter, ..Call::default() })
    }

    /// Returns the format of an answer; `None` if it is text. The report of an answer that is JSON as it is leaves it out.
    pub(crate) fn format(&self, answer: &Filtered) -> Option<Format> {
        let is_summary = self.spec.compact.is_some() && answer.report.compact_error.is_none();
        let is_json = || !is_summary && json::parse(answer.text.as_bytes(), self.options.limits.max_depth).is_ok();
        answer.report.format.or_else(|| is_json().then_some(Format::Json))
    }

    /// Returns a filter that leaves a document with this list as it is, and writes it as this filter does.
    fn writer(&self, list: &List<'_>) -> Option<Self> {
        let toon = self.spec.output.as_ref().and_then(|output| output.toon.clone());
        let spec = FilterSpec {
            root: Some(list.pointer()),
            max_items: Some(i64::MAX),
            // `null` in a row then stands for an absent member.
            drop_nulls: self.spec.drop_nulls || self.spec.drop_empty,
            output: Some(Box::new(OutputSpec { toon, ..OutputSpec::default() })),
            ..FilterSpec::default()
        };
        Self::new(&spec, CompileOptions { enforcement: Enforcement::Advisory, ..CompileOptions::default() })
    }
}

/// Measures one payload. `filter` is `None` if the payload is measured as it is; `plain` then takes its place, and says
/// which levels there are. Returns `None` if a stage fails under `Enforced`.
pub(super) fn measure(
    payload: &Payload,
    filter: &Filter,
    is_filtered: bool,
    settings: Settings<'_>,
) -> Option<Measured> {
    let input = payload.input(filter.options.response_type);
    let filtered = filter.write(input, JSON, settings.counter)?;
    let is_text = filter.format(&filtered).is_none();
    let compact = match json::parse(payload.text.as_bytes(), filter.options.limits.max_depth) {
        Ok(document) if matches!(input, Input::Json(_)) => json::to_string(&document),
        _ => payload.text.clone(),
    };
    let mut measured = Measured {
        payload: payload.name.clone(),
        tool: payload.tool.clone(),
        kind: if is_text { "text" } else { "json" },
        items: is_text.then(|| filtered.text.lines().count()),
        saved: settings.size(&payload.text),
        compact: settings.size(&compact),
        filtered: settings.size(&filtered.text),
        formats: Vec::new(),
        levels: Vec::new(),
        budgets: Vec::new(),
    };
    if is_text {
        measured.budgets =
            settings.budgets.iter().filter_map(|&budget| text(filter, input, budget, &measured, settings)).collect();
        return Some(measured);
    }
    if is_filtered && let Some(plain) = Filter::new(&FilterSpec::default(), CompileOptions::default()) {
        measured.formats.extend(formats(&plain, input, false, settings));
    }
    measured
        .formats
        .extend(formats(filter, input, true, settings).map(|formats| Formats { filtered: is_filtered, ..formats }));
    let Some(list) = List::find(&filtered.text, &filter.program, input) else {
        let fitted = settings.budgets.iter().flat_map(|&budget| fitted(filter, input, budget, None, settings));
        measured.budgets = fitted.collect();
        return Some(measured);
    };
    measured.items = Some(list.items.len());
    measured.levels = levels(filter, &list, settings);
    let valued = Valued::new(filter, &list, settings);
    let fitted = settings.budgets.iter().flat_map(|&budget| fitted(filter, input, budget, Some(&valued), settings));
    measured.budgets = fitted.collect();
    Some(measured)
}

/// Returns the tokens of an answer in each format.
fn formats(filter: &Filter, input: Input<'_>, filtered: bool, settings: Settings<'_>) -> Option<Formats> {
    let write = |formats| filter.write(input, formats, settings.counter);
    let of = |format: Format| {
        let written = write(one(format)).filter(|written| filter.format(written) == Some(format))?;
        Some(settings.count(&written.text))
    };
    let auto = write(&Format::ALL)?;
    Some(Formats {
        filtered,
        json: of(Format::Json)?,
        table: of(Format::Table),
        toon: of(Format::Toon),
        auto: settings.count(&auto.text),
        chosen: filter.format(&auto).unwrap_or_default().as_str(),
    })
}

/// Returns a format as the list of formats to choose from.
fn one(format: Format) -> &'static [Format] {
    Format::choice(format.as_str()).unwrap_or(JSON)
}

/// Returns what the list takes with all items at each level, if the filter has levels.
fn levels(filter: &Filter, list: &List<'_>, settings: Settings<'_>) -> Vec<Level> {
    let names: Vec<&str> = std::iter::once(FULL).chain(filter.program.levels()).collect();
    let Some(writer) = filter.writer(list).filter(|_| names.len() > 1) else { return Vec::new() };
    let items: Vec<&str> = list.items.iter().map(String::as_str).collect();
    let forms = filter.program.forms(&items, true);
    let level = |(number, name): (usize, &&str)| {
        // An item that is no object has no levels.
        let json = |forms: &ItemForms<'_, '_>| forms.json(if forms.measure().len() > number { number } else { 0 });
        let document = list.with(&forms.iter().map(json).collect::<Vec<_>>());
        let formats = formats(&writer, Input::Json(document.as_bytes()), true, settings)?;
        Some(Level { level: (*name).to_owned(), formats })
    };
    names.iter().enumerate().filter_map(level).collect()
}

/// Returns the answers within a budget: one for each format that the document can be written in.
fn fitted(
    filter: &Filter,
    input: Input<'_>,
    budget: usize,
    valued: Option<&Valued<'_, '_, '_>>,
    settings: Settings<'_>,
) -> Vec<Fitted> {
    let call = |formats| limited(budget, Some(formats), settings);
    let auto = filter.apply(input, &call(&Format::ALL)).and_then(|answer| filter.format(&answer));
    let of = |format: Format| {
        let answer = filter.apply(input, &call(one(format))).filter(|answer| filter.format(answer) == Some(format))?;
        let report = &answer.report;
        let dropped = report.budget.as_ref().map_or(0, |budget| budget.items_dropped);
        let total = valued.map(|valued| valued.list.items.len());
        let shown = valued.and_then(|valued| valued.shown(&answer));
        let total_shown = total.map(|total| total.saturating_sub(dropped));
        let reported = || valued.map(|valued| valued.reported(report, total_shown)).unwrap_or_default();
        let whole_tokens =
            || filter.write(input, one(format), settings.counter).map(|whole| settings.count(&whole.text));
        Some(Fitted {
            budget,
            format: format.as_str(),
            auto: auto == Some(format),
            shown: total_shown,
            forms: valued.zip(shown.as_ref()).map_or_else(reported, |(valued, shown)| valued.count(shown)),
            tokens: report.tokens.map_or(0, |tokens| tokens.counted.0),
            value: valued.and_then(|valued| shown.as_ref().map(|shown| valued.value(shown)).or(report.value)),
            bound: valued.zip(valued.and_then(|_| whole_tokens())).map(|(valued, tokens)| valued.bound(budget, tokens)),
            whole: valued.map(Valued::whole),
            chunks: report.chunks.unwrap_or(1),
            cut: cut(&answer),
        })
    };
    Format::ALL.into_iter().filter_map(of).collect()
}

/// Returns the answer with lines of a text within a budget.
fn text(
    filter: &Filter,
    input: Input<'_>,
    budget: usize,
    measured: &Measured,
    settings: Settings<'_>,
) -> Option<Fitted> {
    let answer = filter.apply(input, &limited(budget, None, settings))?;
    let report = &answer.report;
    let dropped = report.budget.as_ref().map_or(0, |budget| budget.items_dropped);
    Some(Fitted {
        budget,
        format: "text",
        auto: false,
        shown: measured.items.map(|lines| lines.saturating_sub(dropped)),
        forms: Vec::new(),
        tokens: report.tokens.map_or(0, |tokens| tokens.counted.0),
        value: None,
        bound: None,
        whole: None,
        chunks: report.chunks.unwrap_or(1),
        cut: cut(&answer),
    })
}

/// Returns the call of a tool that advertises all inputs, within a budget.
pub(super) fn limited<'a>(budget: usize, formats: Option<&'static [Format]>, settings: Settings<'a>) -> Call<'a> {
    let (budget, inputs) = (Budget::tokens(budget), PageInputs::ALL);
    Call { budget, formats, inputs, counter: settings.counter, ..Call::default() }
}

fn cut(answer: &Filtered) -> bool {
    answer.report.budget.as_ref().is_some_and(|budget| budget.strings_truncated + budget.members_dropped > 0)
}

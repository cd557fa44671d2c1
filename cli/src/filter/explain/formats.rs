//! What each format would cost, and why one was chosen.

use serde::Serialize;
use tamis_engine::{Call, CompileOptions, Filtered, Format, FormatSpec, Input, Tokens, ToolFilter};

use super::run;
use crate::output::grouped;

/// The output in one format, without a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::filter) struct Candidate {
    /// The format that was requested.
    pub(in crate::filter) format: &'static str,
    /// The format of the text: `json` where the output cannot be written as requested.
    pub(in crate::filter) written: &'static str,
    /// Bytes of the first text block.
    pub(in crate::filter) bytes: usize,
    /// Its tokens.
    pub(in crate::filter) tokens: usize,
}

/// Returns the formats to choose from; none if the text is JSON anyway.
pub(in crate::filter) fn requested(filter: &ToolFilter, call: Option<&[Format]>) -> Vec<Format> {
    if let Some(formats) = call {
        return formats.to_vec();
    }
    let specs = match filter {
        ToolFilter::Single(spec) => std::slice::from_ref(&**spec),
        ToolFilter::Branches(branches) => branches,
    };
    let formats = specs.iter().filter_map(|spec| spec.output.as_ref()?.format.as_ref());
    formats.flat_map(named).collect()
}

/// Returns the formats that a filter names. Other names are errors of the filter.
fn named(spec: &FormatSpec) -> Vec<Format> {
    let names = match spec {
        FormatSpec::One(name) => std::slice::from_ref(name),
        FormatSpec::Of(names) => names,
    };
    names.iter().filter_map(|name| Format::choice(name)).flatten().copied().collect()
}

/// Writes the output in each of `formats`, and in JSON first. `filter` has no budget.
pub(super) fn candidates(
    filter: &ToolFilter,
    formats: &[Format],
    options: &CompileOptions,
    input: Input<'_>,
    call: &Call<'_>,
) -> Vec<Candidate> {
    let others = formats.iter().filter(|format| **format != Format::Json);
    std::iter::once(&Format::Json)
        .chain(others)
        .filter_map(|format| {
            let call = Call { formats: Format::choice(format.as_str()), counter: call.counter, ..Call::default() };
            let Filtered { text, report, .. } = run(filter, options, input, &call)?.ok()?;
            let tokens = call.counter.count(&text, Tokens(usize::MAX), &mut |_| true)?;
            // JSON that was written as it was has no format in its report.
            let written = report.format.unwrap_or(Format::Json).as_str();
            Some(Candidate { format: format.as_str(), written, bytes: text.len(), tokens: tokens.0 })
        })
        .collect()
}

/// Explains the choice of `chosen` among the requested formats.
pub(super) fn notes(candidates: &[Candidate], requested: &[Format], chosen: Format) -> Vec<String> {
    let json = candidates.first();
    let mut notes: Vec<String> = candidates
        .iter()
        .map(|candidate| {
            let Candidate { format, written, bytes, tokens } = candidate;
            if format != written {
                return format!("{format} cannot hold it");
            }
            let against = json.filter(|json| json.format != *format).map(|json| compared(json.tokens, *tokens));
            let against = against.map(|text| format!(" ({text})")).unwrap_or_default();
            format!("{format} {} bytes, {} tokens{against}", grouped(*bytes), grouped(*tokens))
        })
        .collect();
    if requested.len() > 1 {
        let among = requested.contains(&Format::Json);
        notes.push(match chosen {
            Format::Json if among => "json stays: no other has a tenth fewer tokens".to_owned(),
            chosen if among => format!("{} chosen: at least a tenth fewer tokens than json", chosen.as_str()),
            chosen => format!("{} chosen: the fewest tokens", chosen.as_str()),
        });
    }
    notes
}

/// Returns how many tokens another format has more or fewer than JSON, in percent.
fn compared(json: usize, tokens: usize) -> String {
    let percent = |difference: usize| (difference * 100 + json / 2) / json.max(1);
    match tokens.cmp(&json) {
        std::cmp::Ordering::Less => format!("{} % fewer", percent(json - tokens)),
        std::cmp::Ordering::Equal => "as many".to_owned(),
        std::cmp::Ordering::Greater => format!("{} % more", percent(tokens - json)),
    }
}

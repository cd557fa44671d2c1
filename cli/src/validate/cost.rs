//! What the list of tools of each exposition costs, and the reserved inputs of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tamis_crds::yaml::Position;
use tamis_crds::{CompileEnv, Diagnostic, Resources, compile};
use tamis_engine::{Factor, TokenCounter, Tokens};
use tamis_gateway::ListedTools;

/// The cost for one exposition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    /// `namespace/name`.
    pub(super) exposition: String,
    /// Number of tools.
    pub(super) tools: usize,
    /// The tokenizer of the exposition.
    pub(super) tokenizer: &'static str,
    /// Set to `estimate` if the tokens are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokens_are: Option<&'static str>,
    /// The list of tools, as the exposition's callers get it.
    pub(super) list: Size,
    /// The same without reserved inputs.
    pub(super) without_reserved_inputs: Size,
    /// The difference.
    pub(super) reserved_inputs: Size,
}

/// The size of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) tokens: usize,
}

impl Size {
    fn of(text: &str, counter: TokenCounter<'_>) -> Self {
        let tokens = counter.count(text, Tokens(usize::MAX), &mut |_| true).unwrap_or_default();
        Self { bytes: text.len(), tokens: tokens.0 }
    }

    fn minus(self, other: Self) -> Self {
        let Self { bytes, tokens } = self;
        Self { bytes: bytes.saturating_sub(other.bytes), tokens: tokens.saturating_sub(other.tokens) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} tokens", self.bytes, self.tokens)
    }
}

/// Returns the cost for each exposition, by name. An exposition that no gateway could load has none: its errors are
/// among the findings.
pub(super) fn of(resources: &Resources) -> Vec<Cost> {
    let snapshot = compile(resources, &CompileEnv::default()).snapshot;
    // Many expositions list the same tools.
    let mut counted = BTreeMap::new();
    let expositions = snapshot.expositions.iter().filter_map(|(id, exposition)| {
        let service = snapshot.services.get(&exposition.service)?;
        let ListedTools { tools, listed, without_inputs } = ListedTools::new(exposition, service).ok()?;
        let factor = exposition.tokens.factor().unwrap_or(Factor::ONE);
        let tokenizer = tamis_tokens::tokenizer(exposition.tokens.tokenizer);
        let counter = TokenCounter { tokenizer: &*tokenizer, factor };
        let mut size = |text: String| {
            let key = (text, exposition.tokens.tokenizer, exposition.tokens.factor.to_bits());
            *counted.entry(key).or_insert_with_key(|(text, ..)| Size::of(text, counter))
        };
        let (list, without_reserved_inputs) = (size(listed), size(without_inputs));
        Some(Cost {
            exposition: id.to_string(),
            tools,
            tokenizer: exposition.tokens.tokenizer.as_str(),
            tokens_are: (!counter.is_exact()).then_some("estimate"),
            list,
            without_reserved_inputs,
            reserved_inputs: list.minus(without_reserved_inputs),
        })
    });
    expositions.collect()
}

/// The most tools, and the most bytes of their list, without a warning. Models choose worse from longer lists, and each conversation
/// pays for all of it.
const MANY_TOOLS: usize = 100;
const LONG_LIST: usize = 100_000;

/// Returns a warning for each exposition with a long list of tools.
pub(super) fn warnings(resources: &Resources, costs: &[Cost]) -> Vec<Diagnostic> {
    let long = costs.iter().filter(|cost| cost.tools > MANY_TOOLS || cost.list.bytes > LONG_LIST);
    let warning = |cost: &Cost| {
        let origin = &resources.expositions.iter().find(|e| e.name.to_string() == cost.exposition)?.origin;
        let place = origin.entry(&["tools"]).or_else(|| origin.entry(&[]))?;
        let position = Position { line: place.line, column: place.column };
        let Cost { tools, list, .. } = cost;
        let message = format!(
            "{tools} tools are listed in {} bytes, more than {MANY_TOOLS} tools or {LONG_LIST} bytes",
            list.bytes
        );
        let remedy = "name those that callers need in `tools.include`";
        Some(Diagnostic::warning(origin.file(), position, "spec.tools", message, remedy))
    };
    long.filter_map(warning).collect()
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exposition, tools, tokenizer, tokens_are, list, reserved_inputs, .. } = self;
        let tools = format_args!("{tools} tool{}", if *tools == 1 { "" } else { "s" });
        let estimate = if tokens_are.is_some() { ", an estimate" } else { "" };
        write!(f, "exposition {exposition}: {tools}, listed in {list} ({tokenizer}{estimate}); ")?;
        match reserved_inputs.bytes {
            0 => f.write_str("no reserved inputs"),
            _ => write!(f, "{reserved_inputs} of it for reserved inputs"),
        }
    }
}

/// Returns the remedy for those who find reserved inputs too expensive, if there are any.
pub(super) fn remedy(costs: &[Cost]) -> Option<&'static str> {
    let any = costs.iter().any(|cost| cost.reserved_inputs.bytes > 0);
    any.then_some(
        "each conversation pays for the reserved inputs of its tools; `output: {inputs: []}` of an exposition advertises none",
    )
}

//! What the demo's answers take in tokens, and in which format they take least.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tamis_crds::Loaded;
use tamis_engine::{Call, CompileOptions, Format, Input, TokenCounter, Tokenizer, Tokens, ToolKind, compile};
use tamis_tokens::Vocabulary;

use super::table::Auto;
use crate::bench::{Filter, applying};
use crate::documents;

/// Counts tokens, and applies the filters of the demo's folder as the gateway does.
#[derive(Debug)]
pub(super) struct Counts {
    tokenizer: Arc<dyn Tokenizer>,
    loaded: Loaded,
}

impl Counts {
    /// Reads the documents of the folder, and loads a vocabulary.
    ///
    /// # Errors
    /// See [`documents::load`].
    pub(super) fn read(dir: &Path) -> anyhow::Result<Self> {
        let loaded = documents::load(&[dir.to_owned()]).context("the demo's documents cannot be read")?;
        Ok(Self { tokenizer: Vocabulary::O200kBase.load(), loaded })
    }

    /// Counts the tokens of a text.
    pub(super) fn count(&self, text: &str) -> usize {
        self.counter().count(text, Tokens(usize::MAX), &mut |_| true).unwrap_or_default().0
    }

    /// Returns the format in which the filter of `tool` in `set` writes `body`, and what `auto` would choose. Returns `text`
    /// for a summary, and where the folder has no such filter.
    pub(super) fn formats(&self, tool: &str, set: &str, body: &str) -> (String, Option<Auto>) {
        let input = Input::Json(body.as_bytes());
        let text = || ("text".to_owned(), None);
        let Ok(found) = self.loaded.resources.filter_of(tool, Some(set)) else { return text() };
        let options = CompileOptions {
            enforcement: found.enforcement,
            response_type: found.response_type,
            tool: ToolKind::of(tool),
            ..CompileOptions::default()
        };
        let filter = applying(found.filter, &options, input).and_then(|spec| Filter::new(&spec, options));
        let Some(filter) = filter else { return text() };
        let call = Call { counter: self.counter(), ..Call::default() };
        let answer = compile(found.filter, &options).program.and_then(|program| program.apply(input, &call).ok());
        let Some(format) = answer.and_then(|answer| filter.format(&answer)) else { return text() };
        let auto = filter.write(input, &Format::ALL, self.counter());
        let auto = auto.and_then(|auto| {
            let format = filter.format(&auto)?.as_str();
            Some(Auto { format, tokens: self.count(&auto.text) })
        });
        (format.to_string(), auto)
    }

    fn counter(&self) -> TokenCounter<'_> {
        TokenCounter { tokenizer: &*self.tokenizer, ..TokenCounter::default() }
    }
}

//! Patterns of schemas: ECMA-262 syntax, linear time.
//!
//! A look-around or a back-reference needs a backtracking engine, whose time depends on the caller's input, so it is
//! rejected. A search visits at most all states of the automaton for each byte, and these steps are counted before
//! the search begins; the engine that runs it is usually faster, and never slower. The memory of a search belongs to
//! the check and is freed with it: tenants' patterns cannot fill a gateway's memory with the states of their
//! automata.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::Input;
use regex_automata::meta::{Cache, Config, Regex};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};

/// The size of one automaton in bytes.
const PATTERN_BYTES: usize = 256 << 10;
/// The size of all automata of a service in bytes.
const ALL_BYTES: usize = 2 << 20;
/// The bytes that the states of one search may take.
const SEARCH_BYTES: usize = 128 << 10;
/// The number of patterns of a service that may be rejected: finding that out has a cost for each of them.
const REFUSED: usize = 20;
/// The size of a pattern's text in bytes.
const TEXT_BYTES: usize = 4 << 10;

/// One compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// The number of states of its automaton.
    states: u64,
    /// The pattern as the schema writes it.
    pub(crate) text: Box<str>,
}

impl Pattern {
    /// Returns the steps of a search in `bytes` bytes: eight visits of a state are one step.
    pub(crate) fn cost(&self, bytes: usize) -> u64 {
        (1 + self.states / 8).saturating_mul(1 + bytes as u64)
    }
}

/// The memory of the searches of one check, for one pattern at a time.
#[derive(Debug, Default)]
pub(crate) struct Searches<'s>(Option<(&'s Pattern, Cache)>);

impl<'s> Searches<'s> {
    /// Returns whether the pattern matches in `text`.
    pub(crate) fn is_match(&mut self, pattern: &'s Pattern, text: &str) -> bool {
        let kept = self.0.take().filter(|(of, _)| std::ptr::eq(*of, pattern));
        let (_, cache) = self.0.insert(kept.unwrap_or_else(|| (pattern, pattern.regex.create_cache())));
        pattern.regex.search_half_with(cache, &Input::new(text).earliest(true)).is_some()
    }
}

/// The patterns of all schemas of a service, each once, in a limited number of bytes.
#[derive(Debug, Default)]
pub struct Patterns {
    known: HashMap<Box<str>, Arc<Pattern>>,
    bytes: usize,
    refused: usize,
}

impl Patterns {
    /// Returns the compiled pattern.
    ///
    /// # Errors What is wrong with the pattern, and the remedy.
    pub(crate) fn get(&mut self, text: &str) -> Result<Arc<Pattern>, (String, &'static str)> {
        if let Some(known) = self.known.get(text) {
            return Ok(Arc::clone(known));
        }
        if self.refused >= REFUSED {
            let what = format!("is not looked at, since {REFUSED} patterns of the service are refused");
            return Err((what, "correct the others first"));
        }
        let compiled = self.compile(text);
        self.refused += usize::from(compiled.is_err());
        compiled
    }

    fn compile(&mut self, text: &str) -> Result<Arc<Pattern>, (String, &'static str)> {
        if text.len() > TEXT_BYTES {
            return Err((format!("is longer than {TEXT_BYTES} bytes"), "write a shorter pattern"));
        }
        let rust = jsonschema_regex::to_rust_regex(text)
            .map_err(|()| ("is not a regular expression".to_owned(), "compare it with ECMA-262"))?;
        let config = thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES)).which_captures(WhichCaptures::None);
        let automaton = NFA::compiler().configure(config).build(&rust).map_err(|error| {
            if error.size_limit().is_some() {
                return too_large(&format!("is larger than {} kB compiled", PATTERN_BYTES >> 10));
            }
            let remedy = "write it without look-around and back-references, and compare it with ECMA-262";
            ("is not a regular expression that can be searched in linear time".to_owned(), remedy)
        })?;
        let config = Config::new()
            // The end of a match is a slot of the whole match; an engine without slots does not report it.
            .which_captures(WhichCaptures::Implicit)
            .nfa_size_limit(Some(2 * PATTERN_BYTES))
            .hybrid_cache_capacity(SEARCH_BYTES);
        let regex = Regex::builder()
            .configure(config)
            .build(&rust)
            .map_err(|_| too_large(&format!("is larger than {} kB compiled", PATTERN_BYTES >> 10)))?;
        let bytes = self.bytes + regex.memory_usage();
        if bytes > ALL_BYTES {
            return Err(too_large(&format!("makes the patterns of the service larger than {} kB", ALL_BYTES >> 10)));
        }
        self.bytes = bytes;
        let pattern = Arc::new(Pattern { regex, states: automaton.states().len() as u64, text: text.into() });
        self.known.insert(text.into(), Arc::clone(&pattern));
        Ok(pattern)
    }
}

fn too_large(what: &str) -> (String, &'static str) {
    (what.to_owned(), "use smaller repetitions and classes, or fewer patterns")
}

//! Patterns of schemas: ECMA-262 in spelling, linear in time.
//!
//! A look-around or a back-reference needs a backtracking engine, whose time depends on what a caller sends, so it is
//! refused. A search visits at most the automaton's states for each byte, and is charged so before it begins: the engine
//! that runs it is usually faster, and never slower.

use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};

/// Bytes of one automaton.
const PATTERN_BYTES: usize = 256 << 10;
/// Bytes of all automata of a service.
const ALL_BYTES: usize = 1 << 20;
/// Bytes that the states of a search may take, for each thread that searches.
const CACHE_BYTES: usize = 256 << 10;
/// Bytes of a pattern's text.
const TEXT_BYTES: usize = 4 << 10;

/// One pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// States of its automaton.
    states: u64,
    /// As the schema writes it.
    pub(crate) text: Box<str>,
}

impl Pattern {
    /// Whether it is found in `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Steps of a search in `bytes` bytes: a visit of a state is an eighth of one.
    pub(crate) fn cost(&self, bytes: usize) -> u64 {
        (1 + self.states / 8).saturating_mul(1 + bytes as u64)
    }
}

/// The patterns of all schemas of a service, each once, in a bounded number of bytes.
#[derive(Debug, Default)]
pub struct Patterns {
    known: HashMap<Box<str>, Arc<Pattern>>,
    bytes: usize,
}

impl Patterns {
    /// The pattern, compiled.
    ///
    /// # Errors
    /// What is wrong with it and the remedy.
    pub(crate) fn get(&mut self, text: &str) -> Result<Arc<Pattern>, (String, &'static str)> {
        if let Some(known) = self.known.get(text) {
            return Ok(Arc::clone(known));
        }
        if text.len() > TEXT_BYTES {
            return Err((format!("is longer than {TEXT_BYTES} bytes"), "write a shorter pattern"));
        }
        let rust = jsonschema_regex::to_rust_regex(text)
            .map_err(|()| ("is not a regular expression".to_owned(), "compare it with ECMA-262"))?;
        let room = ALL_BYTES.saturating_sub(self.bytes).min(PATTERN_BYTES);
        let config =
            thompson::Config::new().nfa_size_limit(Some(room)).which_captures(WhichCaptures::None).shrink(false);
        let automaton = NFA::compiler().configure(config).build(&rust).map_err(|error| explain(&error, self.bytes))?;
        let regex = RegexBuilder::new(&rust)
            .size_limit(4 * PATTERN_BYTES)
            .dfa_size_limit(CACHE_BYTES)
            .build()
            .map_err(|_| too_large(self.bytes))?;
        self.bytes += automaton.memory_usage();
        let pattern = Arc::new(Pattern { regex, states: automaton.states().len() as u64, text: text.into() });
        self.known.insert(text.into(), Arc::clone(&pattern));
        Ok(pattern)
    }
}

fn explain(error: &thompson::BuildError, used: usize) -> (String, &'static str) {
    if error.size_limit().is_some() {
        return too_large(used);
    }
    let remedy = "write it without look-around and back-references, and compare it with ECMA-262";
    ("is not a regular expression that can be searched in linear time".to_owned(), remedy)
}

fn too_large(used: usize) -> (String, &'static str) {
    let what = if used > ALL_BYTES - PATTERN_BYTES {
        format!("makes the patterns of the service larger than {} kB compiled", ALL_BYTES >> 10)
    } else {
        format!("is larger than {} kB compiled", PATTERN_BYTES >> 10)
    };
    (what, "use smaller repetitions and classes, or fewer patterns")
}

//! Sets of regular expressions, bounded in size when they are compiled and in steps when they run.
//!
//! All expressions of a list form one automaton, which a lazy DFA with a bounded cache runs. This module drives the
//! DFA itself, byte by byte. It counts each transition that must be computed by the number of states it may visit,
//! and a search can be interrupted anywhere. Where a Unicode word boundary meets non-ASCII text, the DFA gives way to
//! a search that cannot be interrupted; its steps, states times bytes of the line, are counted before it starts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use regex_automata::Input;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_syntax::hir::Hir;

use crate::Finding;
use crate::work::Work;

/// The expressions that one list may have.
pub(super) const MAX_PATTERNS: usize = 256;
/// The bytes that one expression may have.
pub(super) const MAX_PATTERN_BYTES: usize = 4 << 10;
/// The bytes that one expression may take once compiled.
const MAX_COMPILED_PATTERN_BYTES: usize = 1 << 20;
/// The bytes that the expressions of one list may take together.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// The bytes that the expressions of one filter set may take together.
const MAX_SET_BYTES: usize = 8 << 20;
/// The character classes that one expression may have: each may have hundreds of ranges, whatever its compiled size.
const MAX_CLASSES: usize = 256;
/// The character classes that the expressions of one filter set may have.
const MAX_SET_CLASSES: usize = 4096;
/// The characters of an expression that a message shows.
const SHOWN: usize = 40;
/// The bytes of the states that a lazy DFA caches; it drops all of them when they exceed this. A large automaton gets
/// at least the bytes of a few states.
const CACHE_BYTES: usize = 1 << 20;

/// The remaining budget for the compiled expressions of one filter set. Equal lists count once, since they share one
/// automaton.
#[derive(Debug)]
pub struct PatternBudget {
    left: usize,
    classes: usize,
    counted: HashSet<Vec<String>>,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self { left: MAX_SET_BYTES, classes: MAX_SET_CLASSES, counted: HashSet::new() }
    }
}

/// The compiled expressions of one list. Immutable, shared by all lists with equal expressions.
#[derive(Debug)]
pub(crate) struct Patterns {
    dfa: DFA,
    pike: PikeVM,
    states: usize,
}

/// The state that one search leaves for the next one.
pub(crate) struct Cache {
    dfa: dfa::Cache,
    pike: Option<pikevm::Cache>,
}

impl Patterns {
    /// Compiles the list in `field`, unless an equal list is in use. Returns `None` without expressions, or if there
    /// is an error, which is then in `findings`.
    pub(crate) fn compile(
        field: &str,
        patterns: &[String],
        budget: &mut PatternBudget,
        findings: &mut Vec<Finding>,
    ) -> Option<Arc<Self>> {
        if patterns.is_empty() {
            return None;
        }
        if patterns.len() > MAX_PATTERNS {
            findings.push(Finding::error(
                field,
                format!("has {} expressions, at most {MAX_PATTERNS} are allowed", patterns.len()),
                "join expressions with |",
            ));
            return None;
        }
        let known = Interned::lock().find(patterns);
        let counted = budget.counted.contains(patterns);
        if let Some(known) = known.filter(|known| counted || known.bytes() <= budget.left) {
            if !counted {
                budget.take(patterns, known.bytes());
            }
            return Some(known);
        }
        let parsed: Vec<_> = patterns.iter().map(|pattern| parse(pattern, budget)).collect();
        let expressions = parsed_or_findings(field, patterns, parsed, findings)?;
        let room = if counted { MAX_COMPILED_BYTES } else { MAX_COMPILED_BYTES.min(budget.left) };
        let largest = |expressions: &[Hir]| automaton(expressions, room).map(|nfa| nfa.memory_usage());
        let compiled = automaton(&expressions, room).and_then(|nfa| Self::new(nfa).ok());
        let Some(compiled) = compiled else {
            findings.push(too_large(field, patterns, &expressions, budget.left, largest));
            return None;
        };
        // A list of one is as large as its expression.
        let over = |expression: &Hir| automaton(std::slice::from_ref(expression), MAX_COMPILED_PATTERN_BYTES).is_none();
        if compiled.bytes() > MAX_COMPILED_PATTERN_BYTES && expressions.iter().any(over) {
            findings.push(too_large(field, patterns, &expressions, budget.left, largest));
            return None;
        }
        if !counted {
            budget.take(patterns, compiled.bytes());
        }
        Some(Interned::lock().add(patterns, compiled))
    }

    fn new(nfa: NFA) -> Result<Self, Box<dyn std::error::Error>> {
        let config = DFA::config()
            .match_kind(regex_automata::MatchKind::All)
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            .skip_cache_capacity_check(true)
            .prefilter(None);
        Ok(Self {
            states: nfa.states().len(),
            pike: PikeVM::new_from_nfa(nfa.clone())?,
            dfa: DFA::builder().configure(config).build_from_nfa(nfa)?,
        })
    }

    /// Returns the bytes that the automaton takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.dfa.get_nfa().memory_usage()
    }

    /// Returns the bytes that one search may hold at once.
    pub(crate) fn search_bytes(&self) -> usize {
        let least = self.dfa.get_config().get_minimum_cache_capacity(self.dfa.get_nfa()).unwrap_or(usize::MAX);
        // A cache exceeds its capacity a little before it is emptied.
        2 * CACHE_BYTES.max(least) + 64 * self.states
    }

    pub(crate) fn cache(&self) -> Cache {
        Cache { dfa: self.dfa.create_cache(), pike: None }
    }

    /// Returns whether an expression matches in `line`. The result is meaningless once `work` has ended.
    pub(crate) fn is_match(&self, cache: &mut Cache, line: &str, work: &Work<'_>) -> bool {
        match self.search(&mut cache.dfa, line.as_bytes(), work) {
            Some(found) => found,
            None => {
                let steps = self.states.saturating_mul(line.len() + 1);
                let pike = cache.pike.get_or_insert_with(|| self.pike.create_cache());
                work.spend(steps) && self.pike.is_match(pike, line)
            }
        }
    }

    /// Searches with the lazy DFA. Returns `None` if it meets a byte that it cannot decide on.
    fn search(&self, cache: &mut dfa::Cache, line: &[u8], work: &Work<'_>) -> Option<bool> {
        // The steps of a transition that must be computed.
        let computing = 1 + self.states / 4;
        let mut state = self.dfa.start_state_forward(cache, &Input::new(line)).ok()?;
        for chunk in line.chunks(CHUNK) {
            if !work.spend(1 + chunk.len() / CHUNK) {
                return Some(false);
            }
            for &byte in chunk {
                let mut next = state;
                if !state.is_tagged() {
                    next = self.dfa.next_state_untagged(cache, state, byte);
                }
                if state.is_tagged() || next.is_unknown() {
                    if !work.spend(computing) {
                        return Some(false);
                    }
                    next = self.dfa.next_state(cache, state, byte).ok()?;
                }
                if next.is_tagged() {
                    if next.is_match() {
                        return Some(true);
                    }
                    if next.is_dead() {
                        return Some(false);
                    }
                    if next.is_quit() {
                        return None;
                    }
                }
                state = next;
            }
        }
        let end = self.dfa.next_eoi_state(cache, state).ok()?;
        if end.is_quit() { None } else { Some(end.is_match()) }
    }
}

/// The bytes that count as one step where all transitions are known.
const CHUNK: usize = 16;

/// Returns the expressions, or reports what is wrong with each one.
fn parsed_or_findings(
    field: &str,
    patterns: &[String],
    parsed: Vec<Result<Hir, Problem>>,
    findings: &mut Vec<Finding>,
) -> Option<Vec<Hir>> {
    if parsed.iter().all(Result::is_ok) {
        return Some(parsed.into_iter().flatten().collect());
    }
    for (index, (pattern, parsed)) in patterns.iter().zip(parsed).enumerate() {
        let large = |hir: &Hir| automaton(std::slice::from_ref(hir), MAX_COMPILED_PATTERN_BYTES).is_none();
        let (message, remedy) = match parsed {
            Err(problem) => problem,
            Ok(hir) if large(&hir) => (alone_too_large(pattern), SMALLER),
            Ok(_) => continue,
        };
        findings.push(Finding::error(format!("{field}[{index}]"), message, remedy));
    }
    None
}

fn alone_too_large(pattern: &str) -> String {
    format!("`{}` takes more than {} KiB once compiled", shown(pattern), MAX_COMPILED_PATTERN_BYTES >> 10)
}

/// What is wrong with an expression, and the remedy.
type Problem = (String, &'static str);

impl PatternBudget {
    fn take(&mut self, patterns: &[String], bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.counted.insert(patterns.to_vec());
    }
}

/// The compiled lists of the process, so that equal lists share one automaton.
static INTERNED: LazyLock<Mutex<Interned>> = LazyLock::new(Mutex::default);

/// The bytes of lists that are kept although no program uses them: many of the filters that an operator checks one
/// after the other have equal lists.
const MAX_RECENT_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
struct Interned {
    all: HashMap<Vec<String>, Weak<Patterns>>,
    /// The lists that were compiled last, the oldest first.
    recent: VecDeque<Arc<Patterns>>,
    recent_bytes: usize,
}

impl Interned {
    fn lock() -> MutexGuard<'static, Self> {
        INTERNED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, patterns: &[String]) -> Option<Arc<Patterns>> {
        self.all.get(patterns).and_then(Weak::upgrade)
    }

    /// Returns the list to use: `compiled`, or an equal list that another thread added first.
    fn add(&mut self, patterns: &[String], compiled: Patterns) -> Arc<Patterns> {
        if let Some(known) = self.find(patterns) {
            return known;
        }
        let compiled = Arc::new(compiled);
        self.recent_bytes += compiled.bytes();
        self.recent.push_back(Arc::clone(&compiled));
        while self.recent_bytes > MAX_RECENT_BYTES
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_bytes -= oldest.bytes();
        }
        if self.all.len() == self.all.capacity() {
            self.all.retain(|_, patterns| patterns.strong_count() > 0);
        }
        self.all.insert(patterns.to_vec(), Arc::downgrade(&compiled));
        compiled
    }
}

/// Returns the automaton of a list. Building stops with `None` at more than `limit` bytes.
fn automaton(expressions: &[Hir], limit: usize) -> Option<NFA> {
    let config = NFA::config().which_captures(WhichCaptures::None).nfa_size_limit(Some(limit));
    NFA::compiler().configure(config).build_many_from_hir(expressions).ok()
}

/// Returns a finding that names the expression that exceeds a limit.
fn too_large(
    field: &str,
    patterns: &[String],
    expressions: &[Hir],
    left: usize,
    size: impl Fn(&[Hir]) -> Option<usize>,
) -> Finding {
    let mut sum = 0;
    for (index, (pattern, expression)) in patterns.iter().zip(expressions).enumerate() {
        let alone = size(std::slice::from_ref(expression)).unwrap_or(usize::MAX);
        sum = alone.saturating_add(sum);
        let (what, bound) = if alone > MAX_COMPILED_PATTERN_BYTES {
            ("takes", MAX_COMPILED_PATTERN_BYTES)
        } else if sum > MAX_COMPILED_BYTES && MAX_COMPILED_BYTES <= left {
            ("and those before it in the list take", MAX_COMPILED_BYTES)
        } else if sum > left.min(MAX_COMPILED_BYTES) {
            ("and those before it in the filter set take", MAX_SET_BYTES)
        } else {
            continue;
        };
        let message = format!("`{}` {what} more than {} KiB once compiled", shown(pattern), bound >> 10);
        return Finding::error(format!("{field}[{index}]"), message, SMALLER);
    }
    let message = format!("the expressions take more than {} KiB once compiled", MAX_COMPILED_BYTES >> 10);
    Finding::error(field, message, SMALLER)
}

const FEWER_CLASSES: &str = "use plain characters, or fewer expressions";

const SMALLER: &str =
    "use smaller counted repetitions, such as {1,20}, and ASCII classes, such as [0-9] instead of \\d";

fn shown(pattern: &str) -> String {
    match pattern.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &pattern[..end]),
        None => pattern.to_owned(),
    }
}

/// Returns the number of brackets and escapes that stand for character classes, or slightly more.
fn classes(pattern: &str) -> usize {
    let named = pattern.as_bytes().windows(2).filter(|pair| pair[0] == b'\\' && b"pPwWdDsS".contains(&pair[1]));
    memchr::memchr_iter(b'[', pattern.as_bytes()).count() + named.count()
}

fn parse(pattern: &str, budget: &mut PatternBudget) -> Result<Hir, Problem> {
    if pattern.is_empty() {
        return Err(("is empty, which matches every line".into(), "remove it, or write the expression"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err((
            format!("has {} bytes, at most {MAX_PATTERN_BYTES} are allowed", pattern.len()),
            "split the expression into several",
        ));
    }
    let classes = classes(pattern);
    if classes > MAX_CLASSES {
        return Err((format!("has {classes} character classes, at most {MAX_CLASSES} are allowed"), FEWER_CLASSES));
    }
    budget.classes = budget.classes.checked_sub(classes).ok_or_else(|| {
        let message = format!("the expressions of the filter set have more than {MAX_SET_CLASSES} character classes");
        (message, FEWER_CLASSES)
    })?;
    regex_syntax::Parser::new().parse(pattern).map_err(|error| {
        // The text of a syntax error shows the pattern over several lines; its last line is the reason.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
        let remedy = if reason.contains("look-around") {
            "say what to drop under strip and what to keep under keep instead"
        } else if reason.contains("backreferences") {
            "write the repeated part out"
        } else {
            "correct the expression; a literal special character is written with a backslash, such as \\["
        };
        (format!("is not a regular expression: {reason}"), remedy)
    })
}

#[cfg(test)]
#[path = "patterns_tests.rs"]
mod tests;

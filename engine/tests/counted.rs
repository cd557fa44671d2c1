//! How many bytes a tokenizer counts to fit a list into a budget of tokens: a small multiple of the answer, whatever the
//! length of the list.

#[path = "answers/words.rs"]
mod words;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tamis_engine::{
    Boundary, Budget, Call, CompileOptions, Factor, Input, PageInputs, TokenCounter, Tokenizer, compile,
};

use words::Words;

// What may be counted, in tenths of the answer: a little above what is. The aim is 40 for each of them. `auto` with levels
// writes and counts three answers whose items have little in common.
const MOST_JSON: usize = 29;
const MOST_TABLE: usize = 27;
const MOST_TOON: usize = 29;
const MOST_JSON_LEVELS: usize = 40;
const MOST_AUTO: usize = 40;
const MOST_AUTO_LEVELS: usize = 72;

/// Counts what it is given to count.
#[derive(Debug, Default)]
struct Metered(AtomicUsize);

impl Tokenizer for Metered {
    fn name(&self) -> &'static str {
        "metered"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let counted = Words.count(text, most, keep_going);
        // The bytes after which counting may end.
        let exceeds = |bytes: usize| Words::of(&text[..text.floor_char_boundary(bytes)]) > most;
        let (mut within, mut read) = (0, text.len());
        while counted.is_some_and(|counted| counted > most) && within + 1 < read {
            let middle = within.midpoint(read);
            (within, read) = if exceeds(middle) { (within, middle) } else { (middle, read) };
        }
        self.0.fetch_add(read, Ordering::Relaxed);
        counted
    }

    fn boundary(&self) -> Option<Boundary> {
        Words.boundary()
    }
}

/// Issues whose texts differ, so that no part of one is known from another.
fn issues(count: usize) -> String {
    let mut state = 11_u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letters = 2 + (state >> 60) as usize;
        (0..letters).map(|at| char::from(b'a' + (state >> (5 * at.min(11))) as u8 % 26)).collect::<String>()
    };
    let mut text = |words: usize| (0..words).map(|_| word()).collect::<Vec<_>>().join(" ");
    let issue = |number: usize| {
        json!({
            "number": number, "title": text(6), "state": "open", "author": text(1), "labels": [text(1)],
            "body": text(20 + number % 40),
        })
    };
    Value::Array((0..count).map(issue).collect()).to_string()
}

#[test]
fn counting_takes_a_small_multiple_of_the_answer() {
    let levels = json!({"standard": ["number", "title", "state"], "minimal": ["number", "title"]});
    let mut above = Vec::new();
    for (format, levels, most) in [
        ("json", Value::Null, MOST_JSON),
        ("table", Value::Null, MOST_TABLE),
        ("toon", Value::Null, MOST_TOON),
        ("auto", Value::Null, MOST_AUTO),
        ("json", levels.clone(), MOST_JSON_LEVELS),
        ("auto", levels.clone(), MOST_AUTO_LEVELS),
    ] {
        for count in [300, 3_000] {
            let mut output = json!({"format": format});
            if !levels.is_null() {
                output["levels"] = levels.clone();
            }
            let filter = serde_json::from_value(json!({"root": "", "output": output})).unwrap();
            let program = compile(&filter, &CompileOptions::default()).program.unwrap();
            let (metered, document) = (Metered::default(), issues(count));
            let counter = TokenCounter { tokenizer: &metered, factor: Factor::ONE };
            let call = Call { counter, budget: Budget::tokens(8_000), inputs: PageInputs::ALL, ..Call::default() };
            let answer = program.apply(Input::Json(document.as_bytes()), &call).unwrap();
            assert!(answer.report.budget.is_some(), "{format}: nothing was left out");
            let written = answer.text.len() + answer.notice.map_or(0, |notice| notice.len());
            let tenths = metered.0.load(Ordering::Relaxed) * 10 / written;
            println!("{format}, levels: {}, {count} items: {tenths} tenths of {written} bytes", !levels.is_null());
            if tenths > most {
                above.push((format, !levels.is_null(), count, tenths));
            }
        }
    }
    assert_eq!(above, [], "format, levels, items, tenths of the answer that were counted");
}

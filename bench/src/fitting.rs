//! What it takes to fit a list into a budget of 8,000 tokens: processor time with and without counting, the bytes that are
//! counted, and the memory.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use tamis_engine::{
    Boundary, Budget, Call, CompileOptions, Factor, Filtered, Input, PageInputs, Program, TokenCounter, Tokenizer,
    compile,
};
use tamis_tokens::Vocabulary;

use crate::{ROUNDS, middle, time};

/// The budget, in tokens.
const BUDGET: usize = 8_000;
/// The lengths of the lists.
const ITEMS: [usize; 3] = [100, 1_000, 10_000];
/// The filters: `json` with all items worth the same, then strategies, levels and formats.
const FILTERS: [(&str, &str); 4] = [
    ("json", r#"{"root":""}"#),
    ("values", r#"{"root":"","output":{"strategy":"element_count"}}"#),
    ("levels", r#"{"root":"","output":{"strategy":"element_count","levels":{"s":["id","title","state"],"m":["id"]}}}"#),
    ("auto", r#"{"root":"","output":{"strategy":"element_count","format":"auto"}}"#),
];

/// A tokenizer that counts what is counted.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Tokenizer>,
    nanos: AtomicU64,
    bytes: AtomicU64,
}

impl Tokenizer for Counted {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn is_exact(&self) -> bool {
        self.inner.is_exact()
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let mut tokens = None;
        let nanos = time(|| {
            tokens = self.inner.count(text, most, &mut |bytes| {
                self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                keep_going(bytes)
            });
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
        self.nanos.fetch_add(nanos as u64, Ordering::Relaxed);
        tokens
    }

    fn boundary(&self) -> Option<Boundary> {
        self.inner.boundary()
    }
}

/// Prints the table.
///
/// # Errors
/// A filter does not compile.
pub(crate) fn run() -> Result<()> {
    let tokenizer = Counted { inner: Vocabulary::O200kBase.load(), nanos: AtomicU64::new(0), bytes: AtomicU64::new(0) };
    println!(
        "{:<8}{:>7}{:>10}{:>8}{:>10}{:>9}{:>11}{:>11}{:>9}{:>12}",
        "", "items", "ms", "of it", "counting", "tokens", "output", "counted", "times", "peak bytes"
    );
    for (name, filter) in FILTERS {
        let compiled = compile(&serde_json::from_str(filter)?, &CompileOptions::default());
        let program = compiled.program.context("the filter compiles")?;
        for items in ITEMS {
            row(name, items, &program, &tokenizer);
        }
    }
    Ok(())
}

fn row(name: &str, items: usize, program: &Program, tokenizer: &Counted) {
    let document = document(items);
    let counter = TokenCounter { tokenizer, factor: Factor::ONE };
    let call = Call { budget: Budget::tokens(BUDGET), counter, inputs: PageInputs::ALL, ..Call::default() };
    let apply = || program.apply(Input::Json(document.as_bytes()), &call).expect("the filter applies");
    let size = |Filtered { text, notice, structured, .. }: &Filtered| {
        let object = structured.to_json(text).map_or(0, |object| object.len());
        text.len() + notice.as_ref().map_or(0, String::len) + object
    };
    let filtered = apply();
    let tokens = filtered.report.tokens.map_or(0, |tokens| tokens.counted.0);
    let output = size(&filtered);
    let (mut all, mut counting) = (Vec::new(), Vec::new());
    let mut counted = 0;
    for _ in 0..ROUNDS {
        tokenizer.nanos.store(0, Ordering::Relaxed);
        tokenizer.bytes.store(0, Ordering::Relaxed);
        all.push(time(|| drop(black_box(apply()))));
        counting.push(tokenizer.nanos.load(Ordering::Relaxed) as f64);
        counted = tokenizer.bytes.load(Ordering::Relaxed);
    }
    let (all, counting) = (middle(all), middle(counting));
    let peak = allocation_counter::measure(|| drop(black_box(apply()))).bytes_max;
    println!(
        "{name:<8}{items:>7}{:>10.2}{:>8.2}{:>10.2}{tokens:>9}{output:>11}{counted:>11}{:>9.1}{peak:>12}",
        all / 1e6,
        (all - counting) / 1e6,
        counting / 1e6,
        counted as f64 / output as f64,
    );
}

/// A list of so many items of some 280 bytes, no two alike.
fn document(items: usize) -> String {
    let item = |n: usize| {
        let (word, other) = (["cache", "build", "parser", "socket"][n % 4], ["slow", "wrong", "missing"][n % 3]);
        let body = format!("The {word} is {other} since version {}. ", n % 17).repeat(1 + n % 6);
        format!(
            r#"{{"id":{},"title":"The {word} is {other} ({n})","state":"{}","user":{{"login":"user{}"}},"labels":["{word}"],"body":"{body}"}}"#,
            1_000 + n,
            ["open", "closed"][n % 2],
            n % 40,
        )
    };
    format!("[{}]", (0..items).map(item).collect::<Vec<_>>().join(","))
}

//! `cargo bench -p tamis-tokens` compares this crate with the libraries that count tokens, in one run:
//! `docs/decisions/0048-counting-tokens.md`.
//!
//! Times are processor time of a thread. Each text is counted on a new thread, once and then again, and the median of the
//! rounds counts: `tiktoken` keeps pieces for each thread, so the second count is faster.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use allocation_counter::AllocationInfo;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tamis_engine::Tokenizer;
use tamis_tokens::Vocabulary;
use tiktoken::CoreBpe;
use tiktoken_rs::CoreBPE;

const ROUNDS: usize = 9;
/// The bytes of a nasty string.
const LONG: usize = 16 << 20;

fn main() {
    println!("o200k_base\n\n## Loading: ms, MB kept, MB at most\n");
    let (tamis, seconds, memory) = measured(|| Vocabulary::O200kBase.load());
    loaded("tamis-tokens", seconds, &memory);
    let (tiktoken, seconds, memory) = measured(|| Arc::new(tiktoken::encoding::o200k_base()));
    loaded("tiktoken", seconds, &memory);
    let (bpe, seconds, memory) = measured(bpe_openai::o200k_base);
    loaded("bpe-openai", seconds, &memory);
    let (reference, seconds, memory) = measured(tiktoken_rs::o200k_base_singleton);
    loaded("tiktoken-rs", seconds, &memory);
    let libraries =
        [Library::Tamis(tamis), Library::Tiktoken(tiktoken), Library::Bpe(bpe), Library::Reference(reference)];

    println!("\n## Texts: MB/s the first time on a thread / again, allocations the first time / again\n");
    for (name, text) in texts() {
        print!("{name:28} {:7} bytes", text.len());
        for library in &libraries {
            let mut rounds: Vec<_> = (0..ROUNDS).map(|_| library.twice(&text)).collect();
            let mut rate = |of: fn(&[(f64, u64); 2]) -> f64| {
                rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
                text.len() as f64 / 1e6 / of(&rounds[ROUNDS / 2])
            };
            let (first, again) = (rate(|round| round[0].0), rate(|round| round[1].0));
            let [(_, allocations), (_, later)] = rounds[0];
            print!(" | {} {first:.0} / {again:.0}, {allocations} / {later}", library.name());
        }
        println!();
    }

    println!("\n## 16 MiB without a break: seconds, memory in lengths of the text\n");
    for (name, characters) in [
        ("one letter", "a"),
        ("letters", "abcdefghijklmnopqrstuvwxyz"),
        ("capitals", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        ("digits", "0123456789"),
        ("spaces", " "),
        ("newlines", "\n"),
        ("whitespace", " \t\r\n\u{a0}\u{3000}"),
        ("hyphens", "-"),
        ("punctuation", "!#$%&()*+,-./:;<=>?@[]^_{|}~"),
        ("emoji", "😀😁😂🤣😃😄"),
        ("Chinese", "的一是在不了有和人这中大为上个国我以要他"),
        ("Chinese, punctuated", "的一是在不了有和人这，中大为上个国我以要他。"),
        ("base64", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
    ] {
        let text = random(characters, LONG);
        print!("{name:20}");
        let mut counts = Vec::new();
        for library in &libraries[..3] {
            let (count, seconds, memory) = measured(|| library.count(&text));
            print!(" | {} {seconds:.2} s, {:.2}", library.name(), memory.bytes_max as f64 / LONG as f64);
            counts.push(count);
        }
        println!(" | {}", if counts.iter().all(|count| *count == counts[0]) { "equal" } else { "DIFFERENT" });
    }
}

fn loaded(name: &str, seconds: f64, memory: &AllocationInfo) {
    let megabytes = |bytes: f64| bytes / 1e6;
    println!(
        "{name:14} {:.0} ms, {:.1} MB, {:.1} MB",
        seconds * 1e3,
        megabytes(memory.bytes_current as f64),
        megabytes(memory.bytes_max as f64)
    );
}

enum Library {
    Tamis(Arc<dyn Tokenizer>),
    Tiktoken(Arc<CoreBpe>),
    Bpe(&'static bpe_openai::Tokenizer),
    Reference(&'static CoreBPE),
}

impl Library {
    fn name(&self) -> &'static str {
        match self {
            Self::Tamis(_) => "tamis-tokens",
            Self::Tiktoken(_) => "tiktoken",
            Self::Bpe(_) => "bpe-openai",
            Self::Reference(_) => "tiktoken-rs",
        }
    }

    fn count(&self, text: &str) -> usize {
        match self {
            Self::Tamis(library) => library.count(text, usize::MAX, &mut |_| true).expect("is never told to stop"),
            Self::Tiktoken(library) => library.count(text),
            Self::Bpe(library) => library.count(text),
            Self::Reference(library) => library.encode_ordinary(text).len(),
        }
    }

    /// Counts on a new thread, twice. Returns seconds and allocations.
    fn twice(&self, text: &str) -> [(f64, u64); 2] {
        let once = || {
            let (_, seconds, memory) = measured(|| black_box(self.count(black_box(text))));
            (seconds, memory.count_total)
        };
        std::thread::scope(|scope| scope.spawn(|| [once(), once()]).join().expect("a count does not panic"))
    }
}

/// Returns what `f` returns, its processor time in seconds, and its memory.
fn measured<T>(f: impl FnOnce() -> T) -> (T, f64, AllocationInfo) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (mut result, mut seconds) = (None, 0.0);
    let memory = allocation_counter::measure(|| {
        let start = now();
        result = Some(f());
        seconds = now() - start;
    });
    (result.expect("was called"), seconds, memory)
}

/// The payloads of the repository as compact JSON, and their longest list in the form of TOON's tables.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = Vec::new();
    for path in [
        "examples/payloads/github-list-issues.json",
        "examples/payloads/github-list-repos.json",
        "examples/payloads/notion-query-database.json",
        "examples/payloads/slack-channel-history.json",
        "bench/data/issues.json",
    ] {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let text = fs::read_to_string(root.join(path)).expect("is in the repository");
        let value: Value = serde_json::from_str(&text).expect("is JSON");
        texts.extend([(name.clone(), value.to_string()), (format!("{name}, table"), table(&value))]);
    }
    texts
}

/// Writes the scalar members of each item of the first list on a line.
fn table(value: &Value) -> String {
    let list = match value {
        Value::Array(list) => list,
        Value::Object(members) => members.values().find_map(Value::as_array).expect("each payload has a list"),
        _ => panic!("a payload is a list, or has one"),
    };
    let cells = |item: &Value| -> Vec<String> {
        let members = item.as_object().expect("items are objects").values();
        members.filter(|value| !value.is_array() && !value.is_object()).map(Value::to_string).collect()
    };
    list.iter().map(|item| format!(" {}\n", cells(item).join(","))).collect()
}

/// A text of some of `characters`, the same in each run.
fn random(characters: &str, length: usize) -> String {
    let characters: Vec<char> = characters.chars().collect();
    let (mut state, mut text) = (1_u32, String::with_capacity(length + 4));
    while text.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(characters[(state >> 8) as usize % characters.len()]);
    }
    text
}

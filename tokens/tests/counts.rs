//! Exact counts are those of two other libraries, whatever the text.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tamis_engine::Tokenizer;
use tamis_tokens::{TokenizerName, Vocabulary, tokenizer};

/// A tokenizer, and the same vocabulary in two other libraries.
struct Compared {
    counted: Arc<dyn Tokenizer>,
    linear: &'static bpe_openai::Tokenizer,
    /// OpenAI's own code, slower than the others.
    reference: &'static tiktoken_rs::CoreBPE,
}

fn both() -> [Compared; 2] {
    [
        Compared {
            counted: Vocabulary::O200kBase.load(),
            linear: bpe_openai::o200k_base(),
            reference: tiktoken_rs::o200k_base_singleton(),
        },
        Compared {
            counted: Vocabulary::Cl100kBase.load(),
            linear: bpe_openai::cl100k_base(),
            reference: tiktoken_rs::cl100k_base_singleton(),
        },
    ]
}

/// Counts `text`, and asserts that each byte of it was announced once, at most 64 KiB at a time.
fn count(tokenizer: &dyn Tokenizer, text: &str) -> usize {
    let mut read = 0;
    let counted = tokenizer.count(text, usize::MAX, &mut |bytes| {
        assert!(bytes <= 64 << 10, "{bytes}");
        read += bytes;
        true
    });
    assert_eq!(read, text.len());
    counted.expect("is never told to stop")
}

/// Asserts that the counts of all libraries are equal.
fn compare(text: &str) {
    for Compared { counted, linear, reference } in both() {
        let tokens = count(&*counted, text);
        let shown = text.chars().take(100).collect::<String>();
        assert_eq!(tokens, linear.count(text), "{} {shown:?}", counted.name());
        assert_eq!(tokens, reference.encode_ordinary(text).len(), "{} {shown:?}", counted.name());
    }
}

/// Text of all classes of characters in which runs of equal ones are common.
fn unicode() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => prop::sample::select("aZsltmTSLE059 \t\n\r\u{b}'\",:{}[]/\\-_.#|\0".chars().collect::<Vec<_>>()),
        3 => prop::sample::select(
            "éÉǅʰßſK的かー한アﾊＡａ\u{301}\u{5b0}²Ⅷ٣½０〇\u{85}\u{a0}\u{2003}\u{2028}\u{3000}。、「«€—😀👩\u{200d}\u{fe0f}".chars().collect::<Vec<_>>()
        ),
        2 => any::<char>(),
    ];
    let word = prop::sample::select(vec![" I'", "don't", "it'ſ", "YOU'RE", "'ll", "\r\n\r\n", "//", "\":\"", "'ſ"]);
    let character = prop_oneof![12 => character.prop_map(String::from), 1 => word.prop_map(str::to_owned)];
    let run = (character, prop_oneof![6 => Just(1_usize), 2 => 1..5_usize, 1 => 1..60_usize])
        .prop_map(|(character, times)| character.repeat(times));
    prop::collection::vec(run, 0..60).prop_map(|runs| runs.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z' é的.\n]{0,40}".prop_map(Value::from),
        unicode().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map("[a-z_]{1,12}|.{0,4}", inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 4, ..ProptestConfig::default() })]

    #[test]
    fn random_unicode(text in unicode()) {
        compare(&text);
    }

    #[test]
    fn random_json(value in json()) {
        compare(&value.to_string());
        compare(&serde_json::to_string_pretty(&value).expect("is JSON"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(4), ..ProptestConfig::default() })]

    /// Texts of many parts, with stretches and pieces longer than a part in them.
    #[test]
    fn long_random_text(runs in prop::collection::vec((unicode(), 1..4000_usize), 1..8)) {
        let text: String = runs.into_iter().map(|(run, times)| run.repeat(times.min(80_000 / run.len().max(1)))).collect();
        for Compared { counted, linear, .. } in both() {
            prop_assert_eq!(count(&*counted, &text), linear.count(text.as_str()));
        }
    }
}

/// All files below a folder of the repository.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("is a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn the_payloads_and_texts_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for folder in ["examples", "bench/data", "docs"] {
        files(&root.join(folder), &mut found);
    }
    let texts: Vec<String> = found.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    assert!(texts.len() > 100, "{}", texts.len());
    for text in texts {
        compare(&text);
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            compare(&value.to_string());
        }
    }
}

/// One kind of character again and again: the pieces are as long as the text, or all pieces are alike.
fn nasty(length: usize) -> Vec<String> {
    let repeated = [
        "a",
        "A",
        "aA",
        "Aa",
        "的A",
        "的Aa",
        "0",
        "٣",
        " ",
        "\n",
        "\r\n",
        "\t",
        " \n",
        "\n ",
        "\u{a0}",
        "\u{3000}",
        "-",
        "=",
        "/",
        "/\n",
        "\n/",
        "!\n/",
        "'s",
        "'",
        "ſ'ſ",
        "\"",
        "\\n",
        "{}",
        "的",
        "的一是在不了有和人这",
        "😀",
        "👩\u{200d}💻",
        "\u{301}",
        "a\u{301}",
        "Ⅷ",
        "\0",
        "ab\u{200b}",
        "<|endoftext|>",
    ];
    let mut random = 1_u32;
    let mut next = move || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as usize
    };
    let of = |alphabet: &[u8], next: &mut dyn FnMut() -> usize| -> String {
        (0..length).map(|_| char::from(alphabet[next() % alphabet.len()])).collect()
    };
    let mut all: Vec<String> = repeated.iter().map(|text| text.repeat(length / text.len())).collect();
    for alphabet in
        ["etaoinshrdlu", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "!#$%&()*+,-./:;<=>?@[]^_`{|}~", " \t", " \t\r\n", "ab", "aB"]
    {
        all.push(of(alphabet.as_bytes(), &mut next));
    }
    // A long piece with its last characters and what follows.
    all.extend(["a's", "AAa", " b", "\n", "  c", "的", "1"].map(|end| format!("{}{end}", "a".repeat(length))));
    all.extend(["a", "1", "\n", "\n.", ".", "的"].map(|end| format!("{}{end}", " ".repeat(length))));
    all
}

#[test]
fn nasty_strings() {
    for text in nasty(700).iter().chain(&nasty(40_000)) {
        for Compared { counted, linear, reference } in both() {
            let tokens = count(&*counted, text);
            let shown = text.chars().take(20).collect::<String>();
            assert_eq!(tokens, linear.count(text.as_str()), "{} {shown:?}", counted.name());
            if text.len() < 1000 {
                assert_eq!(tokens, reference.encode_ordinary(text).len(), "{} {shown:?}", counted.name());
            }
        }
    }
}

/// The work is bounded between two questions whether to go on, so their number measures it; and the memory does not
/// grow with the text.
#[test]
fn work_is_linear_and_memory_constant_for_any_string() {
    for tokenizer in both().map(|compared| compared.counted) {
        for (small, large) in nasty(1 << 16).iter().zip(&nasty(1 << 18)) {
            let measure = |text: &str| {
                let mut asked = 0_u32;
                let memory = allocation_counter::measure(|| {
                    let counted = tokenizer.count(text, usize::MAX, &mut |_| {
                        asked += 1;
                        true
                    });
                    assert!(counted.is_some());
                });
                (asked, memory.bytes_max)
            };
            measure(small);
            let ((asked, memory), (asked_large, memory_large)) = (measure(small), measure(large));
            let shown = small.chars().take(10).collect::<String>();
            assert!(asked_large <= 4 * asked + 16, "{shown:?} {asked} {asked_large}");
            assert!(asked_large as usize <= 32 + large.len() / 2048, "{shown:?} {asked_large}");
            assert!(memory_large <= memory.max(4 << 20), "{shown:?} {memory} {memory_large}");
        }
    }
}

#[test]
fn counting_stops_when_told_to() {
    for tokenizer in both().map(|compared| compared.counted) {
        for text in nasty(1 << 17) {
            for allowed in [0, 1, 3] {
                let mut asked = 0;
                let counted = tokenizer.count(&text, usize::MAX, &mut |_| {
                    asked += 1;
                    asked <= allowed
                });
                assert_eq!((counted, asked), (None, allowed + 1), "{:?}", text.chars().take(10).collect::<String>());
            }
        }
    }
}

#[test]
fn counting_may_end_above_the_limit_only() {
    for tokenizer in both().map(|compared| compared.counted) {
        for text in nasty(40_000) {
            let tokens = count(&*tokenizer, &text);
            let within = |most| tokenizer.count(&text, most, &mut |_| true).expect("is never told to stop");
            assert_eq!(within(tokens), tokens);
            for most in [0, tokens - 1] {
                assert!(within(most) > most, "{most} {tokens}");
            }
            let mut read = 0;
            tokenizer.count(&text, 0, &mut |bytes| {
                read += bytes;
                true
            });
            assert!(read <= 64 << 10, "{read}");
        }
    }
}

/// `tiktoken` reads `'ſ` otherwise than the patterns do.
#[test]
fn a_long_s_is_an_s() {
    for text in [" I'ſ", "\"a\":\" I'ſ not\"", "I'ſ'S'ſ", "'ſa"] {
        compare(text);
        compare(&text.repeat(3000));
    }
}

#[test]
fn names_of_special_tokens_are_text() {
    for text in ["<|endoftext|>", "<|endofprompt|>", "a<|fim_prefix|>b", "<|im_start|>"] {
        compare(text);
        for tokenizer in both().map(|compared| compared.counted) {
            assert!(count(&*tokenizer, text) > 3, "{text}");
        }
    }
}

#[test]
fn an_empty_text_has_no_tokens() {
    for name in TokenizerName::ALL {
        assert_eq!(tokenizer(name).count("", 0, &mut |_| panic!("nothing is read")), Some(0));
    }
}

#[test]
fn a_name_gives_its_tokenizer_which_is_loaded_once() {
    for name in TokenizerName::ALL {
        let (one, other) = (tokenizer(name), tokenizer(name));
        assert_eq!(one.name(), name.as_str());
        assert_eq!(one.is_exact(), name != TokenizerName::Estimate);
        assert_eq!(one.is_exact(), Arc::ptr_eq(&one, &other));
    }
}

/// The first token count that OpenAI's own documentation gives for each vocabulary.
#[test]
fn known_counts() {
    for (text, o200k, cl100k) in
        [("antidisestablishmentarianism", 6, 6), ("2 + 2 = 4", 7, 7), ("お誕生日おめでとう", 8, 9)]
    {
        assert_eq!(both().map(|compared| count(&*compared.counted, text)), [o200k, cl100k], "{text}");
    }
}

/// The table of `docs/tokens.md`.
#[test]
fn the_documented_counts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/tokens.md")).expect("is in the repository");
    for payload in ["github-list-issues", "github-list-repos", "notion-query-database", "slack-channel-history"] {
        let text = fs::read_to_string(root.join(format!("examples/payloads/{payload}.json"))).expect("is text");
        let text = serde_json::from_str::<Value>(&text).expect("is JSON").to_string();
        let [exact, older, estimate] = TokenizerName::ALL
            .map(|name| tokenizer(name).count(&text, usize::MAX, &mut |_| true).expect("is never told to stop"));
        let error = (estimate as f64 / exact as f64 - 1.0) * 100.0;
        let row = format!("| {payload} | {} | {exact} | {older} | {estimate} ({error:+.0} %) |\n", text.len());
        assert!(page.contains(&row), "docs/tokens.md has no row {row}");
    }
}

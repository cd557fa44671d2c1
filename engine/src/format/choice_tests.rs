use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::choice::{Request, Written, write};
use super::random::Decisions;
use super::toon::{self, Unrepresentable};
use super::{Format, ToonOptions, table};
use crate::Budget;
use crate::tokens::{Estimate, Factor, TokenCounter, Tokenizer, Tokens};
use crate::work::Work;

/// A tokenizer that counts as those with a vocabulary do, roughly: words, runs of digits, runs of punctuation, indents.
#[derive(Debug)]
struct Words;

impl Tokenizer for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, _: usize, _: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        fn class(character: char) -> u8 {
            match character {
                ' ' => 0,
                '\n' => 1,
                _ if character.is_alphabetic() => 2,
                _ if character.is_numeric() => 3,
                _ => 4,
            }
        }
        let (mut tokens, mut last, mut run) = (0, None, 0);
        for character in text.chars() {
            let class = class(character);
            // A word has its space in front, and a token four characters of punctuation or three digits.
            let joins = last == Some(class) && run < [80, 8, 10, 3, 4][usize::from(class)]
                || last == Some(0) && class == 2 && run == 1;
            run = if joins { run + 1 } else { 1 };
            tokens += usize::from(!joins);
            last = Some(class);
        }
        Some(tokens)
    }
}

#[test]
fn each_choice_has_a_name() {
    for name in Format::CHOICES {
        let formats = Format::choice(name).expect(name);
        assert_eq!(formats, name.parse().map_or(Format::ALL.to_vec(), |format: Format| vec![format]), "{name}");
    }
    assert_eq!(Format::choice("xml"), None);
}

const TOKENIZERS: [&dyn Tokenizer; 2] = [&Estimate, &Words];

fn count(text: &str, tokenizer: &dyn Tokenizer) -> usize {
    tokenizer.count(text, usize::MAX, &mut |_| true).unwrap()
}

fn chosen<'a>(json: &'a str, formats: &[Format], fill: bool, tokenizer: &dyn Tokenizer) -> Written<'a> {
    let request = Request { formats, toon: ToonOptions::default(), fill, most: Tokens(usize::MAX), limit: None };
    let counter = TokenCounter { tokenizer, factor: Factor::ONE };
    write(json, 0..json.len(), &request, counter, &Work::unlimited()).unwrap()
}

fn all(json: &str, fill: bool) -> [Option<String>; 3] {
    let filled = if fill { 0..json.len() } else { 0..0 };
    [
        Some(json.to_owned()),
        table::encode(json, 0..json.len(), fill, &Work::unlimited()),
        toon::encode(json, filled, true, &ToonOptions::default(), &Work::unlimited()).ok(),
    ]
}

/// Writes and counts every format.
fn exhaustive(json: &str, formats: &[Format], fill: bool, tokenizer: &dyn Tokenizer) -> (Format, usize) {
    let texts = all(json, fill);
    let written = formats.iter().map(|format| match &texts[*format as usize] {
        Some(text) => (*format, count(text, tokenizer)),
        None => (Format::Json, count(json, tokenizer)),
    });
    let best = written.min_by_key(|(_, tokens)| *tokens).unwrap();
    let json = count(json, tokenizer);
    if formats.contains(&Format::Json) && best.1 * 10 > json * 9 { (Format::Json, json) } else { best }
}

proptest! {
    #[test]
    fn is_the_exhaustive_choice(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        formats in proptest::sample::subsequence(Format::ALL.to_vec(), 2..=3).prop_shuffle(),
        fill: bool,
    ) {
        let json = Decisions::new(&bytes).document(5).json();
        for tokenizer in TOKENIZERS {
            let Written { format, text, tokens, not_toon } = chosen(&json, &formats, fill, tokenizer);
            let best = exhaustive(&json, &formats, fill, tokenizer);
            if (format, tokens) != (best.0, Some(Tokens(best.1))) {
                let may_differ = tokenizer.is_exact() && json.len() > 2000 && format == Format::Json;
                prop_assert!(may_differ, "{} {:?} {:?} {}", tokenizer.name(), (format, tokens), best, json);
            }
            prop_assert_eq!(all(&json, fill)[format as usize].clone(), Some(text.into_owned()));
            prop_assert_eq!(not_toon, None);
        }
    }

    #[test]
    fn auto_is_never_above_json(bytes in proptest::collection::vec(any::<u8>(), 0..400), fill: bool) {
        let json = Decisions::new(&bytes).document(5).json();
        for tokenizer in TOKENIZERS {
            let Written { format, text, .. } = chosen(&json, &Format::ALL, fill, tokenizer);
            let (before, after) = (count(&json, tokenizer), count(&text, tokenizer));
            if format == Format::Json {
                prop_assert_eq!(&*text, &*json);
            } else {
                prop_assert!(after * 10 <= before * 9, "{} to {}", before, after);
            }
        }
    }
}

/// Counts characters, and how often it was asked.
#[derive(Debug, Default)]
struct Asked(AtomicUsize);

impl Tokenizer for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, _: usize, _: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(text.len() / 4)
    }
}

#[test]
fn what_cannot_win_is_not_counted() {
    let lines = |n: usize| format!("[{}]", vec![r#"{"a":"x","b":[]}"#; n].join(","));
    let gaps: Vec<_> = (0..200).map(|i| format!(r#"{{"id":{i},"k{}":[1]}}"#, i % 3)).collect();
    let wide = format!("[{}]", vec![format!(r#"{{"a":"{}"}}"#, "word ".repeat(100)); 20].join(","));
    for (json, formats, fill, counts) in [
        (lines(10), &Format::ALL[..], false, 3),
        // Rows as `table`, and a line for every value as TOON.
        (lines(1000), &Format::ALL, false, 2),
        (lines(1000), &[Format::Json, Format::Toon], false, 1),
        (lines(1000), &[Format::Table, Format::Toon], false, 2),
        (r#"{"a":1}"#.to_owned(), &[Format::Table, Format::Toon], false, 2),
        (r#"{"a":"\ud800"}"#.to_owned(), &[Format::Table, Format::Toon], false, 1),
        // As a table it would be larger.
        (format!("[{}]", gaps.join(",")), &[Format::Json, Format::Table], true, 1),
        // One key a row is saved, and too little.
        (wide, &Format::ALL, false, 1),
    ] {
        let asked = Asked::default();
        let counter = TokenCounter { tokenizer: &asked, factor: Factor::new(100.0).unwrap() };
        let request = Request { formats, toon: ToonOptions::default(), fill, most: Tokens(usize::MAX), limit: None };
        write(&json, 0..json.len(), &request, counter, &Work::unlimited()).unwrap();
        assert_eq!(asked.0.load(Ordering::Relaxed), counts, "{formats:?} {}", &json[..json.len().min(80)]);
    }
}

/// Of texts within a limit the choice is the same as ever; a text that exceeds it gives way to any that does not.
#[test]
fn a_text_that_exceeds_the_limit_is_of_no_use() {
    let json = format!("[{}]", vec![format!(r#"{{"a":"{}"}}"#, "word ".repeat(100)); 100].join(","));
    let table = table::encode(&json, 0..json.len(), false, &Work::unlimited()).unwrap();
    // `Asked` counts a token for four bytes.
    let (tokens, fewer) = (json.len() / 4, table.len() / 4);
    assert!(fewer < tokens && fewer * 10 > tokens * 9);
    let uncounted = tokens / 9;
    for (limit, format, counted) in [
        (Budget::tokens(tokens), Format::Json, Some(tokens)),
        (Budget::tokens(tokens - 1), Format::Table, Some(fewer)),
        (Budget::tokens(fewer), Format::Table, Some(fewer)),
        (Budget::tokens(fewer - 1), Format::Json, Some(tokens)),
        (Budget::tokens(uncounted), Format::Json, None),
        (Budget::bytes(json.len()), Format::Json, Some(tokens)),
        (Budget::bytes(table.len()), Format::Table, Some(fewer)),
        (Budget::bytes(table.len() - 1), Format::Json, None),
    ] {
        let asked = Asked::default();
        let most = limit.tokens.unwrap_or(Tokens(usize::MAX));
        let formats = &[Format::Json, Format::Table];
        let request = Request { formats, toon: ToonOptions::default(), fill: false, most, limit: Some(limit) };
        let counter = TokenCounter { tokenizer: &asked, factor: Factor::ONE };
        let written = write(&json, 0..json.len(), &request, counter, &Work::unlimited()).unwrap();
        let want = Tokens(counted.unwrap_or(usize::MAX));
        assert_eq!((written.format, written.tokens), (format, Some(want)), "{limit:?}");
        assert_eq!(written.text, if format == Format::Json { &json[..] } else { &table[..] }, "{limit:?}");
        if limit.bytes.is_some() && counted.is_none() {
            assert_eq!(asked.0.load(Ordering::Relaxed), 0, "what has too many bytes is not counted");
        }
    }
}

#[test]
fn one_format_is_not_counted() {
    let json = r#"[{"a":1},{"a":2}]"#;
    for format in Format::ALL {
        let written = chosen(json, &[format], false, &Words);
        let text = all(json, false)[format as usize].clone().unwrap();
        assert_eq!(written, Written { format, text: Cow::Owned(text), tokens: None, not_toon: None });
    }
}

#[test]
fn what_a_format_cannot_hold_is_json() {
    let lone = r#"{"a":"\ud800"}"#;
    let why = Some(Unrepresentable::LoneSurrogate);
    for (json, formats, not_toon) in [
        (lone, &[Format::Toon][..], why),
        (lone, &[Format::Table, Format::Toon], why),
        (lone, &[Format::Toon, Format::Json], None),
        (lone, &Format::ALL, None),
        (r#"{"a":1}"#, &[Format::Table], None),
    ] {
        let written = chosen(json, formats, false, &Words);
        assert_eq!((written.format, &*written.text, written.not_toon), (Format::Json, json, not_toon), "{formats:?}");
    }
}

#[test]
fn an_interrupt_ends_the_choice() {
    let json = format!("[{}]", vec![r#"{"a":[1,{"b":2}],"c":"text"}"#; 10_000].join(","));
    let most = Tokens(usize::MAX);
    let request = Request { formats: &Format::ALL, toon: ToonOptions::default(), fill: false, most, limit: None };
    for polls in [0_usize, 1, 30, 60] {
        let left = std::cell::Cell::new(polls);
        let interrupt = || left.replace(left.get().saturating_sub(1)) == 0;
        let work = Work::until(&interrupt);
        assert_eq!(write(&json, 0..json.len(), &request, TokenCounter::default(), &work), None, "{polls}");
    }
}

#[test]
fn names() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert!("auto".parse::<Format>().is_err());
}

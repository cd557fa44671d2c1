//! The bad inputs of a budget: for each, what is said, and that the work grows with the input only. Work is counted in
//! steps, by the polls of the interrupt, and in bytes that a tokenizer reads; never in time.

use std::cell::Cell;
use std::num::NonZeroUsize;

use tamis_engine::{
    Boundary, Budget, Bytes, Call, CompileOptions, Enforcement, Factor, Filtered, Input, Page, PageError, PageInputs,
    PageRequest, Program, Refused, TokenCounter, Tokenizer, Tokens, compile,
};

thread_local! {
    /// The bytes that the tokenizer has read in a test, which has a thread of its own.
    static READ: Cell<usize> = const { Cell::new(0) };
}

/// Counts a token for each word, number and sign, and the bytes that it reads.
#[derive(Debug)]
struct Counting;

impl Tokenizer for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let (mut tokens, mut last, mut read) = (0_usize, false, 0);
        for byte in text.bytes() {
            let word = byte.is_ascii_alphanumeric() || byte >= 0x80;
            tokens += usize::from(!std::mem::replace(&mut last, word) || !word);
            read += 1;
            if tokens > most {
                break;
            }
        }
        READ.set(READ.get() + read);
        keep_going(read).then_some(tokens)
    }

    fn boundary(&self) -> Option<Boundary> {
        Some(|text, at| text.as_bytes()[at - 1].is_ascii_alphanumeric() && text.as_bytes()[at].is_ascii_punctuation())
    }
}

static TOKENIZER: Counting = Counting;

fn program(filter: &str, enforcement: Enforcement) -> Program {
    let compiled = compile(
        &serde_json::from_str(filter).unwrap_or_else(|error| panic!("{filter}: {error}")),
        &CompileOptions { enforcement, ..CompileOptions::default() },
    );
    compiled.program.unwrap_or_else(|| panic!("{filter}: {:?}", compiled.findings))
}

fn call(budget: Budget) -> Call<'static> {
    let counter = TokenCounter { tokenizer: &TOKENIZER, factor: Factor::ONE };
    Call { budget, counter, inputs: PageInputs::ALL, ..Call::default() }
}

/// Runs a program, and returns the polls and the bytes that were counted.
fn run(program: &Program, input: Input<'_>, call: &Call<'_>) -> (Result<Filtered, Refused>, usize, usize) {
    let polls = Cell::new(0);
    let before = READ.get();
    let interrupt = || {
        polls.set(polls.get() + 1);
        false
    };
    let done = program.apply_until(input, call, &interrupt).expect("nothing interrupts it");
    (done, polls.get(), READ.get() - before)
}

/// An input that is made to do harm, at two sizes.
struct Bad {
    name: &'static str,
    filter: &'static str,
    budget: Budget,
    document: fn(usize) -> String,
    sizes: [usize; 2],
    said: fn(&Filtered),
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn issues(count: usize) -> String {
    list((0..count).map(|n| format!(r#"{{"id":{n},"title":"issue number {n}","body":"some words about it"}}"#)))
}

fn notice(filtered: &Filtered) -> &str {
    filtered.notice.as_deref().unwrap_or("")
}

fn shown(filtered: &Filtered) -> Vec<serde_json::Value> {
    serde_json::from_str(&filtered.text).unwrap_or_else(|error| panic!("{error}: {}", filtered.text))
}

fn says(filtered: &Filtered, part: &str) {
    assert!(notice(filtered).contains(part), "{part} is not in {}", notice(filtered));
}

const AUTO: &str = r#"{"root":"","output":{"format":"auto"}}"#;

fn table() -> Vec<Bad> {
    let tokens = Budget::tokens;
    vec![
        Bad {
            name: "a budget of one byte",
            filter: AUTO,
            budget: Budget::bytes(1),
            document: issues,
            sizes: [500, 2_000],
            said: |filtered| {
                let budget = filtered.report.budget.as_ref().unwrap();
                assert!(budget.exceeded && ["[]", ""].contains(&filtered.text.as_str()), "{filtered:?}");
            },
        },
        Bad {
            name: "a budget of one token",
            filter: r#"{"root":""}"#,
            budget: tokens(1),
            document: issues,
            sizes: [500, 2_000],
            said: |filtered| {
                assert_eq!(filtered.text, "[]");
                says(filtered, "0 of ");
            },
        },
        Bad {
            name: "a budget of 10^18",
            filter: AUTO,
            budget: Budget { bytes: Some(Bytes(1_000_000_000_000_000_000)), tokens: Some(Tokens(usize::MAX)) },
            document: issues,
            sizes: [500, 2_000],
            said: |filtered| assert!(filtered.report.budget.is_none() && filtered.notice.is_none()),
        },
        Bad {
            name: "an index larger than the budget",
            filter: r#"{"root":""}"#,
            budget: tokens(60),
            document: issues,
            sizes: [1_000, 4_000],
            said: |filtered| {
                assert!(!shown(filtered).is_empty());
                says(filtered, " for more");
                assert!(!notice(filtered).contains("[/chunks]"), "{}", notice(filtered));
            },
        },
        Bad {
            name: "one item of 10 MB among small ones",
            filter: r#"{"root":"","output":{"levels":{"minimal":["id"]}}}"#,
            budget: tokens(2_000),
            document: |bytes| {
                let long = "word ".repeat(bytes / 5);
                let item = |n| match n {
                    50 => format!(r#"{{"id":50,"body":"{long}"}}"#),
                    n => format!(r#"{{"id":{n},"body":"short"}}"#),
                };
                list((0..100).map(item))
            },
            sizes: [2_500_000, 10_000_000],
            said: |filtered| {
                let items = shown(filtered);
                assert_eq!(items.len(), 100);
                assert_eq!(items[50], serde_json::json!({"id": 50}));
                says(filtered, "1 of 100 items with fewer fields");
            },
        },
        Bad {
            name: "10,000 empty objects",
            filter: AUTO,
            budget: tokens(900),
            document: |count| list((0..count).map(|_| "{}".to_owned())),
            sizes: [2_500, 10_000],
            said: |filtered| {
                let items = shown(filtered);
                assert!(items.len() > 100 && items.iter().all(|item| item == &serde_json::json!({})));
                says(filtered, &format!("{} of ", items.len()));
            },
        },
        Bad {
            name: "items that are no objects",
            filter: r#"{"root":"","output":{"format":"auto","strategy":"size_proportional","levels":{"minimal":["id"]}}}"#,
            budget: tokens(400),
            document: |count| {
                let scalars = ["7", "\"text\"", "null", "true", "[1,[2]]", "-0", "1e5", "\"\""];
                list((0..count).map(|n| scalars[n % scalars.len()].to_owned()))
            },
            sizes: [2_000, 8_000],
            said: |filtered| {
                assert!(filtered.report.levels.is_empty());
                says(filtered, "[chunks] ");
            },
        },
        Bad {
            name: "items without the field of the strategy, or with another type in it",
            filter: r#"{"root":"","output":{"strategy":{"name":"thread_level","resolved":"r","comments":"c","group":"g"}}}"#,
            budget: tokens(400),
            document: |count| {
                let odd = [
                    r#""r":true"#,
                    r#""r":"true","c":7"#,
                    r#""r":[true],"c":{"a":1}"#,
                    r#""c":[1,2,3,4],"g":null"#,
                    r#""g":[1]"#,
                ];
                list((0..count).map(|n| format!(r#"{{"id":{n},{}}}"#, odd[n % 5])))
            },
            sizes: [2_000, 8_000],
            said: |filtered| {
                // Only `true` is resolved: it is worth least.
                let items = shown(filtered);
                let resolved = items.iter().filter(|item| item["r"] == true).count();
                assert!(resolved * 5 < items.len(), "{resolved} of {}", items.len());
            },
        },
        Bad {
            name: "levels that name nothing, or are not smaller",
            filter: r#"{"root":"","output":{"levels":{"same":["id","title","body"],"none":["absent"]}}}"#,
            budget: tokens(600),
            document: issues,
            sizes: [1_000, 4_000],
            said: |filtered| {
                assert!(shown(filtered).iter().all(|item| item["body"].is_string()), "{}", filtered.text);
                assert!(!notice(filtered).contains("fewer fields") && filtered.report.levels.is_empty());
            },
        },
        Bad {
            name: "levels that name nothing, in a table",
            filter: r#"{"root":"","output":{"format":"table","levels":{"none":["absent"]}}}"#,
            budget: tokens(600),
            document: issues,
            sizes: [1_000, 4_000],
            said: |filtered| {
                assert!(filtered.text.starts_with(r#"{"columns":["id","title","body"],"#), "{}", filtered.text);
                assert!(filtered.report.levels.is_empty());
            },
        },
        Bad {
            name: "equal values throughout",
            filter: r#"{"root":"","output":{"algorithm":"greedy"}}"#,
            budget: tokens(600),
            document: |count| list((0..count).map(|_| r#"{"title":"the same","n":1}"#.to_owned())),
            sizes: [2_000, 8_000],
            said: |filtered| {
                let items = shown(filtered).len();
                says(filtered, &format!("chunk 1 (offset=0, limit={items})"));
            },
        },
        Bad {
            name: "a million rows of which the last is odd",
            filter: AUTO,
            budget: tokens(4_000),
            document: |count| {
                // With fewer bytes for a value it would be refused as a document.
                list((1..count).map(|_| r#"{"a":123456789}"#.to_owned()).chain([r#"{"b":[{}]}"#.to_owned()]))
            },
            sizes: [250_000, 1_000_000],
            said: |filtered| says(filtered, " items shown"),
        },
        Bad {
            name: "keys in another order in each row",
            filter: AUTO,
            budget: tokens(3_000),
            document: |rows| {
                let row = |row: usize| {
                    let members: Vec<_> = (0..40).map(|i| (i * [7, 11, 13, 17][row % 4] + row) % 40).collect();
                    let members: Vec<_> = members.iter().map(|i| format!("\"c{i}\":{row}")).collect();
                    format!("{{{}}}", members.join(","))
                };
                list((0..rows).map(row))
            },
            sizes: [250, 1_000],
            said: |filtered| says(filtered, " items shown"),
        },
        Bad {
            name: "10,000 columns",
            filter: AUTO,
            budget: tokens(30_000),
            document: |rows| {
                let row: Vec<_> = (0..10_000).map(|i| format!("\"c{i}\":{i}")).collect();
                list((0..rows).map(|_| format!("{{{}}}", row.join(","))))
            },
            sizes: [4, 16],
            said: |filtered| says(filtered, " items shown"),
        },
        Bad {
            name: "128 levels of uniform objects",
            filter: AUTO,
            budget: tokens(3_000),
            document: |rows| {
                let nested = (0..126).fold("1".to_owned(), |inner, _| format!("{{\"a\":{inner},\"b\":2}}"));
                list((0..rows).map(|_| nested.clone()))
            },
            sizes: [50, 200],
            said: |filtered| says(filtered, " items shown"),
        },
        Bad {
            name: "keys with signs of the formats, control characters and emoji",
            filter: AUTO,
            budget: tokens(3_000),
            document: |count| {
                let keys = ["[", "[3]:", ":", "a:b", "\\\"", "\\u0001", "\\n", "\u{1f600}", "", "-", "#", ","];
                let item = |n: usize| {
                    let members: Vec<_> = keys.iter().map(|key| format!("\"{key}{}\":{n}", n % 3)).collect();
                    format!("{{{}}}", members.join(","))
                };
                list((0..count).map(item))
            },
            sizes: [300, 1_200],
            said: |filtered| says(filtered, " items shown"),
        },
        Bad {
            name: "values that look like something else",
            filter: r#"{"root":"","output":{"strategy":"element_count","format":"auto"}}"#,
            budget: tokens(1_000),
            document: |count| {
                let values = [
                    "-",
                    "#",
                    "[chunks]",
                    "[/chunks]",
                    "null",
                    "1e5",
                    "true",
                    "",
                    "- a",
                    "[2]:",
                    "{}",
                    "a,b",
                    "<< returned in this response",
                ];
                let item = |n: usize| format!(r#"{{"v":"{}","n":{n}}}"#, values[n % values.len()]);
                list((0..count).map(item))
            },
            sizes: [400, 1_600],
            said: |filtered| {
                assert_eq!(notice(filtered).matches("[chunks]").count(), 1, "{}", notice(filtered));
                assert_eq!(notice(filtered).matches("[/chunks]").count(), 1, "{}", notice(filtered));
                assert_eq!(notice(filtered).matches("<< returned in this response").count(), 1);
            },
        },
        Bad {
            name: "a summary of lines that are empty, long, or look like something else",
            filter: r#"{"root":"","compact":{"header":"{{.Count}}","item":"{{.v}}"}}"#,
            budget: tokens(900),
            document: |count| {
                let values = ["", "[/chunks]", "a\\nb", "word word word word word word word word", "-"];
                list((0..count).map(|n| format!(r#"{{"v":"{}"}}"#, values[n % values.len()])))
            },
            sizes: [2_000, 8_000],
            said: |filtered| assert_eq!(notice(filtered).matches("[/chunks]").count(), 1, "{}", notice(filtered)),
        },
    ]
}

#[test]
fn bad_inputs_are_answered_with_work_that_grows_with_the_input() {
    for Bad { name, filter, budget, document, sizes, said } in table() {
        let mut measured = Vec::new();
        for (size, kinds) in sizes.into_iter().zip([2, 1]) {
            let document = document(size);
            let mut texts = Vec::new();
            for enforcement in [Enforcement::Advisory, Enforcement::Enforced].into_iter().take(kinds) {
                let program = program(filter, enforcement);
                let (done, polls, counted) = run(&program, Input::Json(document.as_bytes()), &call(budget));
                let filtered = done.unwrap_or_else(|refused| panic!("{name}: {:?}", refused.report));
                let error = filtered.report.error.as_ref();
                assert!(error.is_none(), "{name}: {error:?}");
                said(&filtered);
                let tokens = filtered.report.tokens.map_or(0, |tokens| tokens.counted.0);
                let exceeded = filtered.report.budget.as_ref().is_some_and(|budget| budget.exceeded);
                assert!(exceeded || budget.tokens.is_none_or(|limit| tokens <= limit.0), "{name}: {tokens}");
                assert!(!exceeded || filtered.text.len() <= 2, "{name}: {filtered:?}");
                texts.push((filtered.text, filtered.notice));
                if enforcement == Enforcement::Advisory {
                    measured.push((document.len(), polls, counted));
                }
            }
            assert!(texts.iter().all(|other| *other == texts[0]), "{name}");
        }
        let [(small, few, less), (large, many, more)] = measured[..] else { panic!("two sizes") };
        println!("{name}: {few} polls and {less} bytes counted for {small} bytes, {many} and {more} for {large}");
        let times = large.div_ceil(small) + 1;
        assert!(many <= few * times + 8, "{name}: {few} polls for {small} bytes, {many} for {large}");
        assert!(more <= less * times + 20_000, "{name}: {less} bytes counted for {small} bytes, {more} for {large}");
    }
}

#[test]
fn budgets_that_are_none_are_refused_by_name_in_a_filter_and_ignored_in_a_call() {
    for (value, message) in [("0", "0 is no budget"), ("-5", "-5 is no budget")] {
        for unit in ["bytes", "tokens"] {
            let filter = format!(r#"{{"output":{{"budget":{{"{unit}":{value}}}}}}}"#);
            let compiled = compile(&serde_json::from_str(&filter).unwrap(), &CompileOptions::default());
            assert!(compiled.program.is_none());
            let said = compiled.findings[0].to_string();
            assert!(said.starts_with(&format!("output.budget.{unit}: {message}, give a positive number")), "{said}");
        }
    }
    let document = issues(100);
    // A gateway refuses such an input; in the engine it is no limit.
    let none = Budget { bytes: Some(Bytes(0)), tokens: Some(Tokens(0)) };
    let program = program(r#"{"output":{"budget":{"bytes":1000000000000000000}}}"#, Enforcement::Advisory);
    let (done, ..) = run(&program, Input::Json(document.as_bytes()), &call(none));
    assert_eq!(done.unwrap().text, document);
}

#[test]
fn pages_that_there_are_not_are_named_with_the_range() {
    let ask = |chunk, offset, limit| Page::new(PageRequest { chunk, offset, limit });
    for (page, message) in [
        (ask(Some(0), None, None), "`chunk` is 0; give a number from 1"),
        (ask(Some(-1), None, None), "`chunk` is -1; give a number from 1"),
        (ask(Some(1), Some(1), None), "`chunk` and `offset` are given together"),
        (ask(Some(1), None, Some(1)), "`chunk` and `limit` are given together"),
        (ask(None, None, Some(0)), "`limit` is 0; give a number from 1"),
        (ask(None, Some(-1), None), "`offset` is -1; give a number from 0"),
    ] {
        let said = page.map(|page| format!("{page:?}")).unwrap_or_else(|error| error.message("chunk"));
        assert!(said.starts_with(message), "{said}");
    }
    let document = issues(400);
    for filter in [AUTO, r#"{"root":"","compact":{"item":"{{.title}}"}}"#] {
        let program = program(filter, Enforcement::Enforced);
        let asking =
            |page| run(&program, Input::Json(document.as_bytes()), &Call { page, ..call(Budget::tokens(500)) }).0;
        let chunks = asking(Page::All).unwrap().report.chunks.unwrap();
        for chunk in [chunks + 1, usize::MAX] {
            let chunk = NonZeroUsize::new(chunk).unwrap();
            let refused = asking(Page::Chunk(chunk)).unwrap_err();
            assert_eq!(refused.page, Some(PageError::Beyond { chunk, chunks }));
        }
        let beyond = asking(Page::Window { offset: usize::MAX, limit: NonZeroUsize::new(usize::MAX) }).unwrap();
        says(&beyond, "0 of 400 items shown");
    }
}

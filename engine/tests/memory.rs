//! A run holds at most `Program::memory` bytes at once in addition to its input: a small multiple of the input.

use std::num::NonZeroUsize;

use tamis_engine::{
    Budget, Call, CompileOptions, Enforcement, Input, Limits, Page, PageInputs, Program, ToolFilter, compile,
};

fn program(filter: &str, enforcement: Enforcement) -> Option<Program> {
    let filter: ToolFilter = serde_json::from_str(filter).unwrap();
    compile(&filter, &CompileOptions { enforcement, ..CompileOptions::default() }).program
}

/// The most bytes held at once by one run.
fn held(program: &Program, input: Input<'_>, call: &Call<'_>) -> usize {
    let measured = allocation_counter::measure(|| drop(program.apply(input, call)));
    usize::try_from(measured.bytes_max).unwrap()
}

/// Documents of about `bytes` bytes that make large trees, each with one key twice so that none is streamed.
fn documents(bytes: usize) -> Vec<String> {
    let list = |item: &str| format!(r#"{{"k":1,"k":[{}]}}"#, vec![item; bytes / (item.len() + 1)].join(","));
    vec![
        list("1"),
        list("1234567"),
        list("[]"),
        list("[1]"),
        list("[[[[1]]]]"),
        list("{}"),
        list(r#"{"a":1}"#),
        list(r#"{"a":1,"a":2,"b":{"c":[1,2,3]}}"#),
        list(r#"{"a":"a text of some length","b":{"c":[1,2,3]}}"#),
        list(&format!("\"{}\"", "x".repeat(bytes))),
        format!("{{{}}}", vec![r#""a":1"#; bytes / 6].join(",")),
        format!("{{{}}}", (0..bytes / 12).map(|i| format!(r#""{i:07}":1"#)).collect::<Vec<_>>().join(",")),
    ]
}

const FILTERS: [&str; 11] = [
    "{}",
    r#"{"retain":["/k","/a"]}"#,
    r#"{"root":"/k","exclude":["a"],"dropEmpty":true}"#,
    r#"{"root":"/k","select":{"a":"a","b":"b.c"}}"#,
    r#"{"root":"","select":{"a":"k","b":"k","c":"k[*].a"}}"#,
    r#"{"patches":[{"op":"remove","path":"/k/1"},{"op":"copy","from":"/k","path":"/x"},{"op":"move","from":"/x","path":"/y"}]}"#,
    r#"{"retain":["/k"],"root":"/k","output":{"budget":{"bytes":100000}}}"#,
    r#"{"root":"/k","output":{"format":"auto","budget":{"tokens":9000},"strategy":"cascading","levels":{"a":["a"],"n":["z"]}}}"#,
    r#"{"output":{"format":["table","toon"],"budget":{"bytes":9000},"strategy":"element_count"}}"#,
    r#"{"root":"/k","compact":{"item":"{{.a}} {{.}}"}}"#,
    r#"{"passthrough":true}"#,
];

/// Calls with and without what callers ask for and what the gateway attaches.
fn calls(bytes: usize) -> [Call<'static>; 3] {
    let half = Call { budget: Budget::bytes(bytes), ..Call::default() };
    [Call::default(), half, Call { pagination: Some(r#"{"pages":2,"next":{"cursor":"c"}}"#), ..half }]
}

/// Holds `program` to its bound for a call. Returns the share of the bound that it held.
fn within(filter: &str, program: &Program, document: &str, call: &Call<'_>) -> f64 {
    let input = Input::Json(document.as_bytes());
    let (held, said) = (held(program, input, call), program.memory_for(input, call));
    assert!(held <= said, "{filter} holds {held} for {document:.60}, and says {said}");
    assert!(said <= program.memory(document.len()));
    held as f64 / said as f64
}

#[test]
fn a_run_stays_within_its_memory_bound() {
    let mut tightest = 0.0_f64;
    // A list of numbers of the third size has just outgrown the room that it had, with nearly as many values as a document
    // of this size may have. Its tree is the largest for its bytes, and so this size is the tightest.
    for (bytes, all) in [(100, true), (5_000, true), (132_500, false)] {
        for document in documents(bytes) {
            for filter in FILTERS {
                for enforcement in [Enforcement::Advisory, Enforcement::Enforced] {
                    let Some(program) = program(filter, enforcement) else { continue };
                    let [plain, half, pages] = calls(document.len() / 2);
                    let calls = match enforcement {
                        _ if all => &[plain, half, pages][..],
                        Enforcement::Advisory => &[half],
                        Enforcement::Enforced => &[pages],
                    };
                    for call in calls {
                        tightest = tightest.max(within(filter, &program, &document, call));
                    }
                }
            }
        }
    }
    println!("at most {:.0} % of the bound", tightest * 100.0);
    assert!(tightest > 0.9, "the bound is too high, or the sizes no longer are the tightest");
}

/// The bound grows with the input as what a run holds does: one call for each filter, and documents of the most values, of
/// nested lists, of records and of one long text.
#[test]
fn a_large_run_stays_within_its_memory_bound() {
    let mut tightest = 0.0_f64;
    let documents = documents(500_000);
    for document in [0, 4, 8, 9].map(|document| &documents[document]) {
        for filter in FILTERS {
            let program = program(filter, Enforcement::Advisory).unwrap();
            let [_, half, _] = calls(document.len() / 2);
            tightest = tightest.max(within(filter, &program, document, &half));
        }
    }
    println!("at most {:.0} % of the bound", tightest * 100.0);
    assert!(tightest > 0.2, "the bound is far too high");
}

#[test]
fn text_stays_within_its_memory_bound() {
    let program = program(
        r#"{"text":{"stripAnsi":true,"strip":["^\\d+ \\w+","[01]*1[01]{9}x"],"keep":["\\b\\pL+\\b"],"dedup":true}}"#,
        Enforcement::Enforced,
    )
    .unwrap();
    for line in ["\u{1b}[1mab 0101010101 \u{e9}\r\n", "0101110001001\n", "x", "\n"] {
        let text = line.repeat(500_000 / line.len());
        let input = Input::Text(text.as_bytes());
        let (held, said) = (held(&program, input, &Call::default()), program.memory_for(input, &Call::default()));
        assert!(held <= said, "{held} for lines {line:?}, and says {said}");
    }
}

#[test]
fn the_memory_bound_is_a_small_multiple_of_the_output() {
    for filter in FILTERS {
        let program = program(filter, Enforcement::Advisory).unwrap();
        let (small, large) = (program.memory(1 << 20), program.memory(16 << 20));
        // Copies and paths that lead to one place can give as much once more as an output may have.
        assert!(large <= 64 * (16 << 20), "{filter}: {} times", large >> 24);
        assert!(small <= 32 * (16 << 20), "{filter}");
    }
    let plain = program(r#"{"root":"/k","exclude":["a"],"dropEmpty":true}"#, Enforcement::Enforced).unwrap();
    assert!(plain.memory(16 << 20) <= 29 * (16 << 20), "{}", plain.memory(16 << 20) >> 20);
}

/// Bytes of the outputs below, each one JSON text.
const LARGE: usize = 16 << 20;

/// A document of about [`LARGE`] bytes that is one list of `item`, with a key twice or not.
fn large(item: &str, twice: bool) -> String {
    let first = if twice { r#""k":1,"# } else { "" };
    format!("{{{first}\"k\":[{}]}}", vec![item; LARGE / (item.len() + 1)].join(","))
}

/// What a run holds in tenths of its input: where the bytes are filtered as they pass, and where one key that comes twice
/// makes a tree of them. `docs/filters/bounds.md` states the figures.
#[test]
fn large_outputs_hold_the_documented_memory() {
    let filter: ToolFilter = serde_json::from_str(r#"{"retain":["/k"]}"#).unwrap();
    let limits = Limits { max_input_bytes: 2 * LARGE, ..Limits::default() };
    let options = CompileOptions { enforcement: Enforcement::Enforced, limits, ..CompileOptions::default() };
    let program = compile(&filter, &options).program.unwrap();
    let text = format!("\"{}\"", "x".repeat(1 << 20));
    // The item, and the bounds of both ways, in tenths of the input.
    let shapes: [(&str, &str, usize, usize); 6] = [
        // More values than a document of this size may have: the tree is given up.
        ("short numbers", "1", 90, 90),
        ("numbers", "12345678", 32, 72),
        ("short keys", r#"{"identifier":1234567,"b":2}"#, 32, 65),
        ("records", r#"{"id":12345678,"name":"a text of some length","tags":["a","b"]}"#, 32, 55),
        // Likewise.
        ("nested lists", "[[[[[[[[12345678901234567890123456789012345678901234567890]]]]]]]]", 45, 45),
        ("long strings", &text, 32, 15),
    ];
    let mut above = Vec::new();
    for (name, item, passing, tree) in shapes {
        for (twice, bound) in [(false, passing), (true, tree)] {
            let document = large(item, twice);
            let input = Input::Json(document.as_bytes());
            let tenths = held(&program, input, &Call::default()) * 10 / document.len();
            let said = program.memory_for(input, &Call::default()) * 10 / document.len();
            println!("{name}, a key twice: {twice}: {tenths} tenths, said {said}");
            if tenths > bound {
                above.push((name, twice, tenths));
            }
        }
    }
    assert_eq!(above, []);
}

#[test]
fn text_that_is_cut_stays_within_its_memory_bound() {
    let head_tail = r#"{"text":{},"output":{"strategy":"head_tail"}}"#;
    for filter in [r#"{"text":{}}"#, head_tail] {
        let program = program(filter, Enforcement::Enforced).unwrap();
        for line in ["\n", "ERROR\n", "a line of a log of some length\n"] {
            let text = line.repeat(500_000 / line.len());
            let input = Input::Text(text.as_bytes());
            for bytes in [1, 200, 450_000] {
                for page in [Page::All, Page::Chunk(NonZeroUsize::MIN.saturating_add(1))] {
                    let budget = Budget::bytes(bytes);
                    let call = Call { budget, page, inputs: PageInputs::ALL, ..Call::default() };
                    let (held, said) = (held(&program, input, &call), program.memory_for(input, &call));
                    assert!(held <= said, "{held} for lines {line:?} in {bytes} bytes, and says {said}");
                }
            }
        }
    }
}

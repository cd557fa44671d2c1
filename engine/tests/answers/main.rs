//! What whole answers promise, through `Program::apply`: random lists, budgets from 1 up, formats, strategies, algorithms
//! and levels, by both executors.

mod cases;
mod words;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tamis_engine::{
    Budget, Call, CompileOptions, Factor, Filtered, Page, PageError, PageInputs, Program, Refused, TokenCounter,
    compile,
};

use cases::{Case, cases, chunk, input};
use words::Words;

/// As many cases as `PROPTEST_CASES` says, or `cases`.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..ProptestConfig::default()
    }
}

/// Runs both executors, each twice: all four answers are the same bytes.
fn answer(case: &Case, program: &Program, document: &str, page: Page) -> Result<Filtered, Refused> {
    let call = case.call(page);
    let answer = program.apply(input(document), &call);
    assert_eq!(answer, program.apply(input(document), &call), "a second run");
    assert_eq!(answer, program.apply_reference(input(document), &call), "the other executor");
    answer
}

/// The bytes and tokens of an answer, counted from what is written.
fn size(filtered: &Filtered) -> (usize, usize) {
    let Filtered { text, notice, structured, .. } = filtered;
    let (notice, object) = (notice.as_deref().unwrap_or(""), structured.to_json(text).unwrap_or_default());
    let bytes = (text.len() + notice.len()).max(object.len());
    (bytes, (Words::of(text) + Words::of(notice)).max(Words::of(&object)))
}

/// Returns whether an answer is within its limits, or nothing is left of it that could go.
fn fits(case: &Case, filtered: &Filtered) -> bool {
    let (bytes, tokens) = size(filtered);
    let within = case.bytes.is_none_or(|limit| bytes <= limit) && case.tokens.is_none_or(|limit| tokens <= limit);
    let exceeded = filtered.report.budget.as_ref().is_some_and(|budget| budget.exceeded);
    let nothing = ["[]", "{}", "", "[0]:", "[]:", "items: []", "items[0]:"].contains(&filtered.text.as_str());
    assert_eq!(within, !exceeded, "{filtered:?}");
    within || nothing
}

/// The numbers of the items that an answer shows, and which of them in full.
fn numbers(case: &Case, filtered: &Filtered) -> BTreeMap<usize, bool> {
    let Some(shown) = case.shown(&filtered.text) else { return BTreeMap::new() };
    let number = |item: &Value| {
        let id = usize::try_from(item.get("id")?.as_u64()?).ok()?;
        Some((id, case.items[id] == *item))
    };
    shown.iter().filter_map(number).collect()
}

fn is_cut(filtered: &Filtered) -> bool {
    let budget = filtered.report.budget.as_ref();
    budget.is_some_and(|budget| budget.strings_truncated + budget.members_dropped > 0 || budget.exceeded)
}

/// Returns whether a budget has no room for the least that is left of an item alone: `{}`, with the words that say what
/// was cut. The item is then left out as the last of its list (`filters.md`, "Budget", 5). Limits in tokens are met by way
/// of limits in bytes, so that an answer that uses 97 % of its tokens, rounded down, is good enough, whatever would have had
/// room too.
fn has_no_room(case: &Case, number: usize, alone: &Filtered) -> bool {
    if case.tokens.is_some_and(|limit| size(alone).1 >= limit * 97 / 100) {
        return true;
    }
    let total = case.items.len();
    let (text, open) = match case.wrapped {
        true => (format!(r#"{{"total":{total},"items":[{{}}]}}"#), format!(r#"{{"total":{total},"items":[{{}}]"#)),
        false => ("[{}]".to_owned(), r#"{"result":[{}]"#.to_owned()),
    };
    let is_said = case.filter["output"]["notice"] == json!(true);
    let next =
        if case.window && number + 1 < total { format!(", offset={} for more", number + 1) } else { String::new() };
    let shown = if total > 1 { format!("1 of {total} items shown{next}, ") } else { String::new() };
    let notice = if is_said { format!("{shown}long text shortened, members left out") } else { String::new() };
    let shown = if total > 1 { format!(r#""shown":1,"total":{total},"#) } else { String::new() };
    let truncated =
        if is_said { format!(r#","_truncated":{{{shown}"strings":true,"members":true}}"#) } else { String::new() };
    let object = match case.filter["output"]["structured"] == json!("always") {
        true => format!("{open}{truncated}}}"),
        false => String::new(),
    };
    let bytes = (text.len() + notice.len()).max(object.len());
    let tokens = (Words::of(&text) + Words::of(&notice)).max(Words::of(&object));
    case.bytes.is_some_and(|limit| bytes > limit) || case.tokens.is_some_and(|limit| tokens > limit)
}

/// Runs `test` over random cases, others in every run, and prints how many there were.
fn check(name: &str, most: usize, count: u32, test: impl Fn(&Case) -> Result<bool, TestCaseError>) -> usize {
    let (all, said) = (Cell::new(0), Cell::new(0));
    TestRunner::new(config(count))
        .run(&cases(most), |case| {
            all.set(all.get() + 1);
            said.set(said.get() + usize::from(test(&case)?));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    println!("{name}: {} cases, {} that count", all.get(), said.get());
    said.get()
}

#[test]
fn answers_are_within_their_limits_and_the_same_every_time() {
    let cut = check("within", 40, 1_500, |case| {
        let (program, document) = (case.program(), case.document());
        let filtered = answer(case, &program, &document, Page::All).unwrap();
        prop_assert!(fits(case, &filtered), "{:?}", filtered);
        Ok(filtered.report.budget.is_some())
    });
    assert!(cut > 100, "{cut} answers were cut");
}

#[test]
fn the_chunks_of_a_list_are_the_list() {
    let (items, cut_items) = (Cell::new(0), Cell::new(0));
    let several = check("chunks", 40, 500, |case| {
        // TOON is read by other tests.
        let mut case = case.clone();
        if case.filter["output"]["format"] != json!("table") {
            case.filter["output"]["format"] = json!("json");
        }
        let case = &case;
        let (program, document) = (case.program(), case.document());
        let get = |page| answer(case, &program, &document, page);
        let mut all: Vec<Filtered> = Vec::new();
        let mut seen = BTreeMap::new();
        loop {
            match get(chunk(all.len() + 1)) {
                Ok(filtered) => {
                    prop_assert!(fits(case, &filtered), "{:?}", filtered);
                    for (number, _) in numbers(case, &filtered) {
                        let before = seen.insert(number, all.len() + 1);
                        prop_assert!(before.is_none(), "item {} in {:?} and {}", number, before, all.len() + 1);
                    }
                    all.push(filtered);
                }
                Err(Refused { page: Some(PageError::Beyond { chunks, .. }), .. }) => {
                    prop_assert_eq!(chunks, all.len());
                    break;
                }
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }
        let whole = get(Page::All).unwrap();
        prop_assert_eq!((&whole.text, &whole.notice), (&all[0].text, &all[0].notice), "chunk 1 is the answer");
        // What is not in the index or no chunk shows is too large for the budget, in which it is cut alone too.
        let objects = (0..case.items.len()).filter(|number| case.items[*number].is_object());
        for number in objects {
            items.set(items.get() + 1);
            if !seen.contains_key(&number) {
                cut_items.set(cut_items.get() + 1);
                let alone = get(Page::Window { offset: number, limit: std::num::NonZeroUsize::new(1) }).unwrap();
                let shown = numbers(case, &alone).contains_key(&number);
                let explained = is_cut(&alone) || shown || has_no_room(case, number, &alone);
                prop_assert!(explained, "item {} is lost: {:?}", number, alone);
                prop_assert!(!shown || all.iter().any(is_cut), "item {} fits alone: {:?}\n{:#?}", number, alone, all);
            }
        }
        index_numbers(case, &whole, get)?;
        Ok(all.len() > 1)
    });
    println!("{} items, {} of them in no chunk as they are", items.get(), cut_items.get());
    assert!(several > 50, "{several} lists had several chunks");
}

/// The numbers of an index are those that `offset` and `limit` take: a window with them shows the items of the chunk.
fn index_numbers(
    case: &Case,
    whole: &Filtered,
    get: impl Fn(Page) -> Result<Filtered, Refused>,
) -> Result<(), TestCaseError> {
    let lines = whole.notice.iter().flat_map(|notice| notice.lines());
    for line in lines.filter(|line| line.starts_with("chunk ")) {
        let Some((head, rest)) = line.split_once(" (offset=") else { continue };
        let Some((offset, rest)) = rest.split_once(", limit=") else { continue };
        let (offset, limit): (usize, usize) =
            (offset.parse().unwrap(), rest.split_once(')').unwrap().0.parse().unwrap());
        let window = get(Page::Window { offset, limit: std::num::NonZeroUsize::new(limit) }).unwrap();
        let number: usize = head["chunk ".len()..].parse().unwrap();
        let fetched = get(chunk(number)).unwrap();
        let (one, other) = (numbers(case, &window), numbers(case, &fetched));
        let all: BTreeSet<usize> = (offset..offset + limit).collect();
        prop_assert!(
            one.keys().chain(other.keys()).all(|number| all.contains(number)),
            "{}: {:?} {:?}",
            line,
            one,
            other
        );
        if number > 1 && fetched.report.budget.is_none() {
            let objects = all.iter().filter(|number| case.items[**number].is_object()).count();
            prop_assert_eq!(other.len(), objects, "{}", line);
        }
    }
    Ok(())
}

/// The forms of an item: in full, and at the levels of the filter, which name members. A level that keeps nothing is none.
fn forms(case: &Case, item: &Value) -> Vec<Value> {
    let mut forms = vec![item.clone()];
    let (Value::Object(members), Some(levels)) = (item, case.filter["output"]["levels"].as_object()) else {
        return forms;
    };
    for level in levels.values() {
        let kept = members.iter().filter(|(name, _)| level.as_array().unwrap().contains(&json!(name)));
        let kept: serde_json::Map<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        if !kept.is_empty() {
            forms.push(Value::Object(kept));
        }
    }
    forms
}

/// What adding one form to an answer that is JSON takes at least of each limit.
fn lightest_step(case: &Case, filtered: &Filtered) -> Option<(usize, usize)> {
    let cost = |text: &Value| {
        let text = text.to_string();
        (text.len() + 1, Words::of(&text) + 1)
    };
    let shown = case.shown(&filtered.text)?;
    let by_number: BTreeMap<usize, &Value> =
        shown.iter().filter_map(|item| Some((usize::try_from(item.get("id")?.as_u64()?).ok()?, item))).collect();
    let mut steps = Vec::new();
    for (number, item) in case.items.iter().enumerate().filter(|(_, item)| item.is_object()) {
        let least = by_number.get(&number).map_or((0, 0), |shown| cost(shown));
        for form in forms(case, item) {
            let (bytes, tokens) = cost(&form);
            if bytes > least.0 {
                steps.push((bytes - least.0, tokens.saturating_sub(least.1)));
            }
        }
    }
    steps
        .into_iter()
        .min_by_key(|(bytes, tokens)| case.bytes.map_or(0, |_| *bytes).max(case.tokens.map_or(0, |_| *tokens)))
}

/// Nothing left out, and no richer level, would still have fitted: as far as 16 further steps show, and as far as the
/// weights of steps are what the steps add.
#[test]
fn budgets_are_used_up() {
    for indexed in [false, true] {
        let cut = check("used", 40, 600, |case| {
            let mut case = case.clone();
            case.filter["output"]["format"] = json!("json");
            let (program, document) = (case.program(), case.document());
            let call = case.call(Page::All);
            let call = if indexed { call } else { Call { inputs: PageInputs::NONE, ..call } };
            let filtered = program.apply(input(&document), &call).unwrap();
            if filtered.report.budget.is_none() || is_cut(&filtered) {
                return Ok(false);
            }
            let Some((bytes, tokens)) = lightest_step(&case, &filtered) else { return Ok(false) };
            let used = size(&filtered);
            // The first item at a level adds `, 1 with fewer fields`.
            let first = !case.filter["output"]["levels"].is_null() && filtered.report.levels.is_empty();
            let (bytes, tokens) = if first { (bytes + 22, tokens + 6) } else { (bytes, tokens) };
            // What is said of the items that are left out, and what an index may take more.
            let slack = |limit: usize, few: usize| if indexed { limit / 24 + 5 * few } else { few };
            let fits = |limit: Option<usize>, sum: usize, few: usize| {
                limit.is_none_or(|limit| sum + few + slack(limit, few) <= limit)
            };
            let share = |limit: Option<usize>, used: usize| limit.map_or(0.0, |limit| used as f64 / limit as f64);
            if fits(case.bytes, used.0 + bytes, 6) && fits(case.tokens, used.1 + tokens, 6) {
                let used = share(case.bytes, used.0).max(share(case.tokens, used.1));
                prop_assert!(false, "{:.3} used, a step adds {} bytes, {} tokens: {:?}", used, bytes, tokens, filtered);
            }
            Ok(true)
        });
        assert!(cut > 100, "{cut} answers leave something out");
    }
}

/// `auto` is never above compact JSON, without a budget.
#[test]
fn auto_takes_no_more_tokens_than_json() {
    let other = check("auto", 30, 400, |case| {
        let tokens = |format: &str| {
            let mut case = Case { bytes: None, tokens: None, ..case.clone() };
            case.filter["output"]["format"] = json!(format);
            let (program, document) = (case.program(), case.document());
            let filtered = answer(&case, &program, &document, Page::All).unwrap();
            (Words::of(&filtered.text), size(&filtered).1)
        };
        let (auto, json) = (tokens("auto"), tokens("json"));
        prop_assert!(auto.0 <= json.0 && auto.1 <= json.1, "{:?} {:?}", auto, json);
        Ok(auto < json)
    });
    assert!(other > 20, "{other} are not JSON");
}

/// The payloads that the documentation and the benchmarks use.
#[test]
fn auto_takes_no_more_tokens_than_json_on_every_payload() {
    let mut payloads = 0;
    for folder in ["../examples/payloads", "../bench/data"] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for filter in [r#"{"output":{"format":"FORMAT"}}"#, r#"{"dropNulls":true,"output":{"format":"FORMAT"}}"#] {
                let answer = |format: &str| {
                    let filter = serde_json::from_str(&filter.replace("FORMAT", format)).unwrap();
                    let program = compile(&filter, &CompileOptions::default()).program.unwrap();
                    let counter = TokenCounter { tokenizer: &Words, factor: Factor::ONE };
                    let filtered = program.apply(input(&text), &Call { counter, ..Call::default() }).unwrap();
                    (Words::of(&filtered.text), size(&filtered).1)
                };
                let (auto, json) = (answer("auto"), answer("json"));
                assert!(auto.0 <= json.0 && auto.1 <= json.1, "{}: {auto:?} {json:?}", path.display());
            }
            payloads += 1;
        }
    }
    assert!(payloads >= 5, "{payloads} payloads");
}

/// Lists of numbers have no strings to cut: members and elements go, in as many as are too much.
#[test]
fn the_last_resort_uses_a_budget_up() {
    for count in [3_000, 60_000] {
        let numbers: Vec<_> = (0..count).map(|n: usize| (n * 7919 % 100_000).to_string()).collect();
        let document = format!(r#"{{"a":{{"b":[{}]}},"c":1}}"#, numbers.join(","));
        let filter = serde_json::from_str(r#"{"root":"","output":{"structured":"never"}}"#).unwrap();
        let program = compile(&filter, &CompileOptions::default()).program.unwrap();
        for limit in [50, 500, 8_000] {
            let budget = Budget::tokens(limit);
            let counter = TokenCounter { tokenizer: &Words, factor: Factor::ONE };
            let filtered = program.apply(input(&document), &Call { counter, budget, ..Call::default() }).unwrap();
            let used = size(&filtered).1;
            assert!(
                used <= limit && (used + 4 >= limit || used * 100 >= limit * 97),
                "{used} of {limit}: {:.200}",
                filtered.text
            );
        }
    }
}

/// The value in the report is that of the forms that are shown.
#[test]
fn the_report_has_the_value_of_what_is_shown() {
    let items: Vec<_> = (0..60)
        .map(|n| {
            json!({"id": n, "title": format!("Number {n} of the items"), "text": "some words ".repeat(5 + n % 7)})
                .to_string()
        })
        .collect();
    let document = format!("[{}]", items.join(","));
    let mut mixed = 0;
    for format in ["json", "table", "toon"] {
        let output = json!({"format": format, "levels": {"minimal": ["id", "title"]}});
        let filter = serde_json::from_value(json!({"root": "", "output": output})).unwrap();
        let program = compile(&filter, &CompileOptions::default()).program.unwrap();
        let texts: Vec<&str> = items.iter().map(String::as_str).collect();
        let [full, minimal] = program.forms(&texts, false)[0].measure()[..] else { panic!("two forms") };
        for limit in [200, 500, 700, 1_000] {
            let counter = TokenCounter { tokenizer: &Words, factor: Factor::ONE };
            let call = Call { counter, budget: Budget::tokens(limit), ..Call::default() };
            let report = program.apply(input(&document), &call).unwrap().report;
            let shown = items.len() - report.budget.unwrap().items_dropped;
            let poorer = report.levels.iter().map(|(_, count)| count).sum::<usize>();
            mixed += usize::from(0 < poorer && poorer < shown);
            let value = full.value * (shown - poorer) as u64 + minimal.value * poorer as u64;
            assert_eq!(report.value, Some(value), "{format} {limit}: {shown}, {poorer}");
        }
    }
    assert!(mixed > 0, "no answer had items in full and others at a level");
}

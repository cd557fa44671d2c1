//! Summaries by `compact` that are larger than their budget: the lines that are shown, and the chunks with the others.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::{Case, advisory, enforced};
use crate::{Budget, Bytes, Call, Filtered, Input, Page, PageError, PageInputs, Refused, Structured};

const SEED: &str = r##"{"root":"","compact":{"header":"Issues ({{.Total}} total):","item":"  #{{.number}} {{.title}} [{{.state}}]",
    "footer":"Showing {{.Count}} of {{.Total}}"},"output":{"notice":false}}"##;
const ISSUES: &str =
    r#"[{"number":1,"title":"Fix crash","state":"open"},{"number":2,"title":"Add test","state":"closed"}]"#;

fn asking(case: Case, page: Page) -> Case {
    Case { call: Call { page, inputs: PageInputs::ALL, ..case.call }, ..case }
}

fn chunk(number: usize) -> Page {
    Page::Chunk(NonZeroUsize::new(number).unwrap())
}

fn window(offset: usize, limit: usize) -> Page {
    Page::Window { offset, limit: NonZeroUsize::new(limit) }
}

/// Both executors give the same.
fn apply(case: &Case, input: &str) -> Result<Filtered, Refused> {
    let program = case.program();
    let input = Input::Json(input.as_bytes());
    let (fast, tree) = (program.apply(input, &case.call), program.apply_reference(input, &case.call));
    assert_eq!(fast, tree, "{}", case.filter);
    fast
}

fn get(case: &Case, input: &str) -> (String, String) {
    let filtered = apply(case, input).unwrap();
    (filtered.text, filtered.notice.unwrap_or_default())
}

/// All chunks, one after the other.
fn chunks(case: impl Fn() -> Case, input: &str) -> Vec<Filtered> {
    let mut all = Vec::new();
    loop {
        match apply(&asking(case(), chunk(all.len() + 1)), input) {
            Ok(filtered) => all.push(filtered),
            Err(refused) => {
                let (asked, last) = (NonZeroUsize::new(all.len() + 1).unwrap(), all.len());
                assert_eq!(refused.page, Some(PageError::Beyond { chunk: asked, chunks: last }));
                return all;
            }
        }
    }
}

/// A list whose items have a text of 12 to 15 bytes.
fn numbered(items: usize) -> String {
    let item = |n: usize| {
        format!(r#"{{"n":{n},"title":"title {n:03}","resolved":{},"kind":"{}"}}"#, n.is_multiple_of(2), n % 3)
    };
    format!("[{}]", (0..items).map(item).collect::<Vec<_>>().join(","))
}

#[test]
fn a_summary_is_cut_at_items_then_at_characters() {
    let fit = |limit| apply(&advisory(SEED).budget(limit), ISSUES).unwrap();
    let object = |filtered: &Filtered| filtered.structured.to_json(&filtered.text).unwrap();
    // The structured content is the larger part: it holds the text, escaped.
    let whole = object(&advisory(SEED).run(ISSUES)).len();
    assert_eq!(fit(whole).report.budget, None);
    let one = fit(whole - 1);
    assert_eq!(one.text, "Issues (2 total):\n  #1 Fix crash [open]\nShowing 1 of 2");
    let size = object(&one).len();
    let report = one.report.budget.expect("smaller");
    assert_eq!((report.limit, report.original, report.items_dropped), (Budget::bytes(whole - 1), Bytes(whole), 1));
    assert_eq!((report.result, report.exceeded), (Bytes(size), false));
    assert_eq!(fit(size).text, one.text);
    let cut = fit(size - 1);
    assert_eq!(cut.text, "Issues (2 total):\n  #1 Fix crash [o...\nShowing 1 of 2");
    assert_eq!(cut.report.budget.map(|budget| budget.strings_truncated), Some(1));
    let empty = r#"{"summary":"","_compact":true,"_original_items":2}"#.len();
    assert_eq!(fit(empty + 20).text, "Issues (2 total)...");
    let none = fit(empty - 1);
    assert_eq!((none.text.as_str(), none.report.budget.map(|budget| budget.exceeded)), ("", Some(true)));
}

#[test]
fn a_strategy_says_which_lines_are_shown() {
    let filter = |output: &str| {
        format!(
            r##"{{"root":"","compact":{{"item":"{{{{.title}}}}"}},"output":{{"notice":false,"budget":{{"bytes":150}},{output}}}}}"##
        )
    };
    let input = numbered(40);
    let last = |range: std::ops::Range<usize>| range.map(|n| format!("title {n:03}")).collect::<Vec<_>>().join("\n");
    // 150 bytes: the object around the summary takes 50, and each line 11, with the line end in JSON.
    assert_eq!(get(&advisory(&filter(r#""strategy":"element_count""#)), &input).0, last(0..9));
    assert_eq!(get(&enforced(&filter(r#""strategy":"cascading""#)), &input).0, last(31..40));
    let first = r#""strategy":{"name":"cascading","newest":"first"}"#;
    assert_eq!(get(&enforced(&filter(first)), &input).0, last(0..9));
    // Fields that no line shows may decide.
    let threads = get(&advisory(&filter(r#""strategy":"thread_level""#)), &input).0;
    assert!(threads.lines().count() == 9 && threads.lines().all(|line| line.ends_with(['1', '3', '5', '7', '9'])));
    let groups = get(&advisory(&filter(r#""strategy":{"name":"default","group":"kind"}"#)), &input).0;
    let of = |kind: usize| groups.lines().filter(|line| line[6..].parse::<usize>().unwrap() % 3 == kind).count();
    assert_eq!([of(0), of(1), of(2)], [3, 3, 3]);
    // Expressions see the line, not the item.
    let ends = |boost: &str| {
        get(&advisory(&filter(&format!(r#""strategy":{{"name":"head_tail","boost":["{boost}"]}}"#))), &input).0
    };
    assert!(ends("title 020").contains("title 020"));
    assert_eq!(ends("resolved"), format!("{}\n{}", last(0..3), last(34..40)));
    let levels = filter(r#""strategy":"element_count","levels":{"m":["n"]}"#);
    assert_eq!(get(&advisory(&levels), &input).0, last(0..9), "levels do nothing");
}

#[test]
fn the_index_of_a_summary_names_its_items() {
    let filter = r##"{"root":"","compact":{"header":"{{.Count}} of {{.Total}}","item":"#{{.n}} {{.title}}"}}"##;
    let input = numbered(300);
    for of in [advisory, enforced] {
        let case = || of(filter).budget(2_500);
        let first = apply(&asking(case(), Page::All), &input).unwrap();
        let shown = first.text.lines().count() - 1;
        assert_eq!(first.text.lines().next().unwrap(), format!("{shown} of 300"));
        let notice = first.notice.as_deref().unwrap();
        let chunks_of = first.report.chunks.unwrap();
        let begin = format!(
            "{shown} of 300 items shown\n[chunks] {shown}/300 items in {chunks_of} chunks:\nchunk 1 (offset=0, limit={shown}): \
             {shown} items, #0 title 000..#{} title {:03} << returned in this response\n",
            shown - 1,
            shown - 1
        );
        assert!(notice.starts_with(&begin), "{notice}");
        let Structured::Json(object) = &first.structured else { panic!("{:?}", first.structured) };
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(object["_chunks"], notice.split_once('\n').unwrap().1);
        assert_eq!(object["_truncated"], serde_json::json!({"shown": shown, "total": 300}));
        let all = chunks(case, &input);
        assert_eq!(all.len(), chunks_of);
        assert_eq!((&all[0].text, &all[0].notice), (&first.text, &first.notice), "chunk 1 is the answer");
        let mut next = shown;
        for (number, fetched) in (2..).zip(&all[1..]) {
            let count = fetched.text.lines().count() - 1;
            let lines: Vec<String> = (next..next + count).map(|n| format!("#{n} title {n:03}")).collect();
            assert_eq!(fetched.text, format!("{count} of 300\n{}", lines.join("\n")));
            let said = format!("chunk {number} (offset={next}, limit={count}): {count} items, #{next} ");
            assert!(notice.contains(&said), "{said} in {notice}");
            let (text, _) = get(&asking(case(), window(next, count)), &input);
            assert_eq!(text, fetched.text, "offset and limit take the numbers of the index");
            next += count;
        }
        assert_eq!(next, 300);
    }
}

#[test]
fn an_index_of_a_summary_shows_no_field_that_the_lines_do_not() {
    let item = |n: usize| {
        format!(
            r#"{{"number":{n},"state":"secret{n}","labels":[{{"name":"secret"}}],"title":"number {n} of the list"}}"#
        )
    };
    let input = format!("[{}]", (0..200).map(item).collect::<Vec<_>>().join(","));
    let filter = |chunks: &str| {
        format!(r#"{{"root":"","compact":{{"item":"{{{{.title}}}}"}},"output":{{"preset":"issues"{chunks}}}}}"#)
    };
    let (_, notice) = get(&asking(enforced(&filter("")).budget(1_500), Page::All), &input);
    assert!(notice.contains("chunk 1 (") && !notice.contains("secret"), "{notice}");
    // Unless the filter says so.
    let named = filter(r#","chunks":{"summary":"{{counts .labels.name}}"}"#);
    let (_, notice) = get(&asking(enforced(&named).budget(1_500), Page::All), &input);
    assert!(notice.contains("): secret "), "{notice}");
}

#[test]
fn what_no_line_shows_changes_nothing_but_the_choice() {
    let filter = r#"{"root":"","compact":{"item":"{{.title}}"}}"#;
    let list = |field: &str| numbered(80).replace("\"kind\"", &format!("\"x\":\"{field}\",\"kind\""));
    let answer = |filter: &str, field| {
        let filtered = apply(&asking(enforced(filter).budget(500), Page::All), &list(field)).unwrap();
        (filtered.text, filtered.notice, filtered.structured)
    };
    assert_eq!(answer(filter, "a"), answer(filter, "another"));
    // A field that the strategy reads is a part of the list.
    let grouped = r#"{"root":"","compact":{"item":"{{.title}}"},"output":{"strategy":{"name":"thread_level","resolved":"resolved"}}}"#;
    let id = |input: &str| apply(&asking(enforced(grouped).budget(500), Page::All), input).unwrap().report.list;
    let input = numbered(80);
    assert_ne!(
        id(&input),
        id(&input.replace(
            "\"n\":79,\"title\":\"title 079\",\"resolved\":false",
            "\"n\":79,\"title\":\"title 079\",\"resolved\":true"
        ))
    );
}

#[test]
fn windows_of_a_summary_have_the_numbers_of_the_whole_list() {
    let filter = r##"{"root":"","maxItems":90,"compact":{"item":"#{{.n}}","footer":"{{.Remaining}} more"}}"##;
    let input = numbered(100);
    assert_eq!(
        get(&asking(advisory(filter), window(3, 2)), &input),
        ("#3\n#4\n98 more".to_owned(), "2 of 100 items shown, offset=5 for more".to_owned())
    );
    assert_eq!(get(&asking(advisory(filter), window(88, 5)), &input).1, "2 of 100 items shown");
    assert_eq!(
        get(&asking(advisory(filter), window(90, 5)), &input),
        ("100 more".to_owned(), "0 of 100 items shown".to_owned())
    );
    let (text, notice) = get(&asking(advisory(filter).budget(400), window(10, 70)), &input);
    let shown = text.lines().count() - 1;
    assert!(text.starts_with("#10\n#11\n") && text.ends_with(&format!("\n{} more", 100 - shown)), "{text}");
    assert!(notice.contains(&format!("[chunks] {shown}/70 items (items 10-79 of 90)")), "{notice}");
    // What cannot be named by an index is named by an input.
    let (_, notice) = get(&asking(advisory(filter).budget(140), Page::All), &input);
    assert!(notice.ends_with(" for more"), "{notice}");
}

#[test]
fn a_limit_of_a_template_is_a_failure_and_no_page() {
    // Only an answer that leaves something out has the header, of twice 16 MiB.
    let header = (0..15).fold(r#"{{if .Remaining}}{{$x := printf "%1000s" "x"}}"#.to_owned(), |header, _| {
        header + "{{$x = print $x $x}}"
    }) + "{{$x}}{{end}}";
    let filter = serde_json::json!({"root": "", "compact": {"header": header, "item": "{{.n}}"}}).to_string();
    let filter = filter.as_str();
    let input = numbered(50);
    assert!(advisory(filter).run(&input).text.starts_with("0\n1\n"));
    for page in [Page::All, chunk(2)] {
        let filtered = apply(&asking(advisory(filter).budget(100), page), &input);
        let filtered = filtered.unwrap_or_else(|refused| panic!("{:?}", refused.page));
        assert!(filtered.report.compact_error.is_some() && filtered.text.starts_with('['), "{filtered:?}");
        let refused = apply(&asking(enforced(filter).budget(100), page), &input).unwrap_err();
        assert_eq!((refused.stage.as_str(), refused.page), ("compact", None));
    }
}

/// A budget with one limit or both.
fn budgets() -> impl Strategy<Value = (Option<usize>, Option<usize>)> {
    prop_oneof![
        (1_usize..900).prop_map(|bytes| (Some(bytes), None)),
        (1_usize..300).prop_map(|tokens| (None, Some(tokens))),
        (1_usize..900, 1_usize..300).prop_map(|(bytes, tokens)| (Some(bytes), Some(tokens))),
    ]
}

proptest! {
    // Every case makes all chunks four times.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn the_chunks_of_a_summary_hold_each_item_once(
        words in prop::collection::vec("([a-z ]{0,9}|ERROR [a-z]{0,40}|\u{e9}[0-9]{60,90}|[a-z]{3}\n[a-z\"]{3}|)", 1..90),
        (bytes, tokens) in budgets(),
        strategy in prop::sample::select(vec![
            r#""default""#, r#""element_count""#, r#""cascading""#, r#"{"name":"head_tail","boost":["ERROR"]}"#,
            r#"{"name":"thread_level","resolved":"r"}"#, r#"{"name":"default","group":"r"}"#,
        ]),
        (is_enforced, noticed, framed, structured) in any::<(bool, bool, bool, bool)>(),
        max in prop::option::weighted(0.2, 1_usize..40),
    ) {
        let item = |(n, words): (usize, &String)| serde_json::json!({"n": format!("{n:03}:"), "w": words, "r": n % 3 == 0});
        let list = serde_json::Value::Array(words.iter().enumerate().map(item).collect()).to_string();
        let edges = if framed { r#","header":"{{.Total}} in all, {{.Count}} here","footer":"= {{.Remaining}} left""# } else { "" };
        let (structured, max_items) = (if structured { "always" } else { "never" }, max.unwrap_or(0));
        let filter = format!(
            r#"{{"root":"","maxItems":{max_items},"compact":{{"item":"{{{{.n}}}}{{{{.w}}}}"{edges}}},
                "output":{{"notice":{noticed},"structured":"{structured}","strategy":{strategy}}}}}"#
        );
        let case = || {
            let case = if is_enforced { enforced(&filter) } else { advisory(&filter) };
            let case = bytes.into_iter().fold(case, Case::budget);
            tokens.into_iter().fold(case, Case::tokens)
        };
        let count = max.map_or(words.len(), |max| max.min(words.len()));
        let all = chunks(case, &list);
        let mut seen = vec![0; count];
        let mut cut = 0;
        for (number, filtered) in (1..).zip(&all) {
            let Filtered { text, notice, structured, report } = filtered;
            let exceeded = report.budget.as_ref().is_some_and(|budget| budget.exceeded);
            let said = format!("chunk {number} of {}: {text:?} {notice:?} {report:?}", all.len());
            let object = structured.to_json(text).map_or(0, |object| object.len());
            prop_assert!(exceeded || bytes.is_none_or(|limit| report.output_bytes.max(object) <= limit), "{}", said);
            let counted = report.tokens.map_or(0, |tokens| tokens.counted.0);
            prop_assert!(exceeded || tokens.is_none_or(|limit| counted <= limit), "{}", said);
            prop_assert!(!exceeded || text.is_empty(), "{}", said);
            if report.budget.as_ref().is_some_and(|budget| budget.strings_truncated > 0) {
                // One item is in this chunk, and not all of it.
                cut += 1;
                continue;
            }
            let mut lines: Vec<usize> = Vec::new();
            for line in text.lines().filter(|line| line.get(3..4) == Some(":")) {
                lines.push(line[..3].parse().unwrap());
            }
            for line in &lines {
                prop_assert!(text.contains(&format!("{line:03}:{}", words[*line])), "{}", said);
                seen[*line] += 1;
            }
            prop_assert!(lines.is_sorted_by(|a, b| a < b), "{}", said);
            if framed {
                prop_assert!(text.starts_with(&format!("{} in all, {} here", words.len(), lines.len())), "{}", said);
                prop_assert!(text.ends_with(&format!("= {} left", words.len() - lines.len())), "{}", said);
            }
            let shown = format!("{} of {} items shown", lines.len(), words.len());
            let is_cut = noticed && lines.len() < words.len();
            prop_assert_eq!(notice.as_deref().is_some_and(|notice| notice.starts_with(&shown)), is_cut, "{}", said);
        }
        prop_assert!(seen.iter().all(|times| *times <= 1), "{:?}", seen);
        // Every item that no chunk shows in full is one that was cut.
        prop_assert_eq!(seen.iter().filter(|times| **times == 0).count(), cut);
        let again = chunks(case, &list);
        prop_assert!(all == again, "a second run");
    }
}

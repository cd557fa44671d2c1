use std::num::NonZeroUsize;

use super::{Case, advisory, enforced};
use crate::json::{self, Node};
use crate::{Call, Format, Input, Page, PageInputs};

fn shown(case: &Case, input: &str) -> Option<(Vec<String>, String)> {
    let filtered = case.apply(Input::Json(input.as_bytes())).ok()?;
    let document = json::parse(filtered.text.as_bytes(), 64).unwrap();
    let Node::Array(items) = &document else { panic!("no list: {}", filtered.text) };
    Some((items.iter().map(json::to_string).collect(), filtered.notice.unwrap_or_default()))
}

fn asking(case: Case, page: Page) -> Case {
    Case { call: Call { page, inputs: PageInputs::ALL, ..case.call }, ..case }
}

/// Returns the items of all chunks, one after the other, with what the answers say.
fn all_chunks(case: impl Fn() -> Case, input: &str) -> (Vec<String>, Vec<String>) {
    let (mut items, mut said) = (Vec::new(), Vec::new());
    for number in 1.. {
        let page = Page::Chunk(NonZeroUsize::new(number).unwrap());
        let Some((more, notice)) = shown(&asking(case(), page), input) else { break };
        items.extend(more);
        said.push(notice);
    }
    (items, said)
}

#[test]
fn chunks_of_any_items_hold_each_item_once() {
    for item in
        ["0", "null", "true", "-1.5", "\"\"", "[]", "{}", r#"{"a":1}"#, "1234567", r#"{"a":"some words, \"quoted\""}"#]
    {
        let input = format!("[{}]", vec![item; 400].join(","));
        for (bytes, tokens) in [(Some(700), None), (None, Some(300)), (Some(2_000), Some(400))] {
            let case = || {
                let case = advisory(r#"{"root":""}"#);
                let case = bytes.into_iter().fold(case, Case::budget);
                tokens.into_iter().fold(case, Case::tokens)
            };
            let (items, said) = all_chunks(case, &input);
            assert_eq!(items.len(), 400, "{item} {bytes:?} {tokens:?}: {said:#?}");
            assert!(items.iter().all(|shown| *shown == item), "{item}");
        }
    }
}

#[test]
fn an_answer_says_that_items_have_fewer_fields_whatever_form_its_index_has() {
    let item = |n: usize| format!(r#"{{"id":{n},"title":"title {n}","body":"{}"}}"#, "text ".repeat(60));
    let input = format!("[{}]", (0..200).map(item).collect::<Vec<_>>().join(","));
    let filter = r#"{"root":"","output":{"levels":{"s":["id","title"]}}}"#;
    for tokens in [60, 150, 300, 1_000, 4_000] {
        for case in [advisory(filter), enforced(filter)] {
            let (items, notice) = shown(&asking(case.tokens(tokens), Page::All), &input).unwrap();
            let poorer = items.iter().any(|item| !item.contains("body"));
            assert_eq!(notice.contains("with fewer fields"), poorer, "{tokens}: {notice}");
        }
    }
}

#[test]
fn an_answer_without_items_has_none_with_fewer_fields() {
    let filter = r#"{"root":"","output":{"levels":{"x":["zzz"],"id":["id"]}}}"#;
    let input = format!(r#"[{{"id":1,"t":"{0}"}},{{"id":2,"t":"{0}"}}]"#, "x".repeat(30));
    for bytes in 1..140 {
        let filtered = advisory(filter).budget(bytes).run(&input);
        let (shown, notice) = (filtered.text.matches("\"id\"").count(), filtered.notice.unwrap_or_default());
        let levels: usize = filtered.report.levels.iter().map(|(_, items)| items).sum();
        assert!(levels <= filtered.text.matches('{').count(), "{bytes}: {} {levels}", filtered.text);
        if filtered.text == "[]" {
            assert!(!notice.contains("fewer fields"), "{bytes}: {shown} {notice}");
            assert!(!filtered.structured.to_json("[]").unwrap_or_default().contains("fewer"), "{bytes}");
        }
    }
}

#[test]
fn a_window_has_the_numbers_of_the_whole_list() {
    let input = format!("[{}]", (0..50).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let window = |offset, limit: Option<usize>| {
        let page = Page::Window { offset, limit: limit.and_then(NonZeroUsize::new) };
        shown(&asking(advisory(r#"{"root":""}"#), page), &input).unwrap()
    };
    assert_eq!(window(48, None), (vec!["48".to_owned(), "49".to_owned()], "2 of 50 items shown".to_owned()));
    assert_eq!(window(3, Some(2)).1, "2 of 50 items shown, offset=5 for more");
    assert_eq!(window(50, None), (Vec::new(), "0 of 50 items shown".to_owned()));
    assert_eq!(window(0, Some(50)).1, "");
}

#[test]
fn the_id_of_a_list_says_that_it_is_divided_in_another_way() {
    let items = (0..60).map(|n| format!(r#"{{"id":{n},"title":"item {n}"}}"#)).collect::<Vec<_>>().join(",");
    let id = |sibling: usize| {
        let input = format!(r#"{{"q":"{}","items":[{items}]}}"#, "x".repeat(sibling));
        asking(advisory(r#"{"root":"/items"}"#).budget(1_500), Page::All).run(&input).report.list.unwrap()
    };
    assert_eq!(id(0), id(0));
    assert_ne!(id(0), id(40), "members next to the list take a part of the budget");
}

#[test]
fn a_number_that_does_not_fit_is_cut_as_text() {
    let long = "1".repeat(400);
    let input = format!("[1,{long}]");
    for limit in [|case: Case| case.budget(300), |case: Case| case.tokens(90)] {
        let case = || limit(advisory(r#"{"root":""}"#));
        let (first, _) = shown(&asking(case(), Page::All), &input).unwrap();
        assert_eq!(first, ["1"]);
        let two = Page::Chunk(NonZeroUsize::MIN.saturating_add(1));
        let (items, notice) = shown(&asking(case(), two), &input).unwrap();
        assert_eq!(items, [format!("\"{}...\"", &long[..61])]);
        assert!(notice.starts_with("1 of 2 items shown, long text shortened"), "{notice}");
    }
    // Numbers that fit, and short ones, stay numbers.
    let (items, _) = shown(&asking(advisory(r#"{"root":""}"#).budget(3_000), Page::All), &input).unwrap();
    assert_eq!(items[1], long);
}

#[test]
fn nothing_shown_names_no_offset() {
    let items = (0..60).map(|n| format!(r#"{{"id":{n},"title":"item {n}"}}"#)).collect::<Vec<_>>().join(",");
    let (items, notice) =
        shown(&asking(advisory(r#"{"root":""}"#).tokens(18), Page::All), &format!("[{items}]")).unwrap();
    assert_eq!((items.len(), notice.as_str()), (0, "0 of 60 items shown"));
}

#[test]
fn a_summary_has_windows_and_one_chunk() {
    let input = format!("[{}]", (0..9).map(|n| format!(r#"{{"n":{n}}}"#)).collect::<Vec<_>>().join(","));
    let case = |page| asking(advisory(r##"{"root":"","compact":{"item":"#{{.n}}"}}"##), page);
    let window = Page::Window { offset: 3, limit: NonZeroUsize::new(2) };
    let filtered = case(window).run(&input);
    let said = "2 of 9 items shown, offset=5 for more";
    assert_eq!((filtered.text.as_str(), filtered.notice.as_deref()), ("#3\n#4", Some(said)));
    assert_eq!(case(Page::Chunk(NonZeroUsize::MIN)).text(&input).lines().count(), 9);
    let beyond = case(Page::Chunk(NonZeroUsize::MIN.saturating_add(1))).apply(Input::Json(input.as_bytes()));
    assert!(beyond.is_err_and(|refused| refused.page.is_some()));
}

#[test]
fn formats_are_written_and_reported() {
    let input = r#"[{"a":1,"b":"x"},{"a":2,"b":"y"}]"#;
    for (format, text, structured) in [
        (Format::Table, r#"{"columns":["a","b"],"rows":[[1,"x"],[2,"y"]]}"#, true),
        (Format::Toon, "[2]{a,b}:\n 1,x\n 2,y", false),
    ] {
        let filtered = advisory(&format!(r#"{{"root":"","output":{{"format":"{format}"}}}}"#)).run(input);
        assert_eq!((filtered.text.as_str(), filtered.report.format), (text, Some(format)));
        assert_eq!(filtered.structured.to_json(&filtered.text).is_some(), structured, "{format}");
    }
}

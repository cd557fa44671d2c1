//! The parts together: what a model reads in an index is what a call gives.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;

use proptest::prelude::*;

use super::plain::tests::hostile;
use super::*;
use crate::json::{self, Node};
use crate::work::Work;
use crate::{Budget, ChunksSpec, TokenCounter};

/// What an index says, as a program reads it.
#[derive(Debug)]
struct Read {
    shown: usize,
    divided: usize,
    chunks: usize,
    lines: Vec<Line>,
}

/// A line about chunks.
#[derive(Debug)]
struct Line {
    /// The numbers of the chunks.
    chunks: Range<usize>,
    place: Place,
    returned: bool,
}

#[derive(Debug)]
enum Place {
    Items(Vec<usize>),
    /// So many items, within a window if one is named.
    Count(usize, Option<Range<usize>>),
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn window(text: &str) -> Range<usize> {
    let (offset, limit) = text.strip_prefix("offset=").expect("offset").split_once(", limit=").expect("limit");
    number(offset)..number(offset) + number(limit)
}

fn read(text: &str) -> Read {
    let mut lines = text.lines();
    let head = lines.next().expect("a first line").strip_prefix("[chunks] ").expect("a mark");
    let (counts, rest) = head.split_once(' ').expect("counts");
    let (shown, divided) = counts.split_once('/').expect("shown and all");
    let (_, chunks) = rest.strip_suffix(" chunks:").expect("chunks").rsplit_once(" in ").expect("a number of chunks");
    let about = lines.by_ref().take_while(|line| *line != "[/chunks]").map(line).collect();
    assert!(lines.next().is_some_and(|hint| hint.starts_with("Use `")) && lines.next().is_none(), "{text}");
    Read { shown: number(shown), divided: number(divided), chunks: number(chunks), lines: about }
}

fn line(line: &str) -> Line {
    let (name, rest) = line.split_once(" (").expect("a place");
    let (place, about) = rest.split_once(')').expect("the end of the place");
    let chunks = match name.strip_prefix("chunks ").map(|range| range.split_once('-').expect("a range")) {
        Some((first, last)) => number(first)..number(last) + 1,
        None => {
            let chunk = number(name.strip_prefix("chunk ").expect("a chunk"));
            chunk..chunk + 1
        }
    };
    assert!(about.is_empty() || about.starts_with(": ") || about == " << returned in this response", "{line}");
    let place = if let Some(items) = place.strip_prefix("items=") {
        let run = |run: &str| match run.split_once('-') {
            Some((first, last)) => number(first)..number(last) + 1,
            None => number(run)..number(run) + 1,
        };
        Place::Items(items.split(',').flat_map(run).collect())
    } else if let Some((count, within)) = place.split_once(" items") {
        Place::Count(number(count), within.strip_prefix(" within ").map(window))
    } else {
        Place::Items(window(place).collect())
    };
    Line { chunks, place, returned: about.ends_with("<< returned in this response") }
}

/// A list, what of it is shown, and the weights.
#[derive(Debug, Clone)]
struct Given {
    weights: Vec<u64>,
    page: Page,
    shown: Vec<usize>,
    capacity: u64,
    inputs: PageInputs<'static>,
}

fn given() -> impl Strategy<Value = Given> {
    let weight = prop_oneof![4 => 0_u64..12, 1 => 0_u64..200, 1 => Just(u64::MAX)];
    let page = prop_oneof![
        2 => Just(Page::All),
        1 => (0_usize..60, prop::option::of(1_usize..60)).prop_map(|(offset, limit)| {
            Page::Window { offset, limit: limit.and_then(NonZeroUsize::new) }
        }),
    ];
    // A beginning, an end, or anything.
    let shown = prop_oneof![
        (0_usize..60).prop_map(|n| (0..n).collect()),
        (0_usize..60).prop_map(|n| (n..60).collect()),
        prop::collection::btree_set(0_usize..60, 0..60)
    ];
    let inputs = prop::sample::select(vec![
        PageInputs::ALL,
        PageInputs { chunk: Some("_chunk"), window: false },
        PageInputs { chunk: None, window: true },
    ]);
    (prop::collection::vec(weight, 0..60), page, shown, 0_u64..60, inputs).prop_map(
        |(weights, page, shown, capacity, inputs): (_, _, BTreeSet<usize>, _, _)| {
            let window = page.window(Vec::len(&weights));
            let shown = shown.into_iter().filter(|item| window.contains(item)).collect();
            Given { weights, page, shown, capacity, inputs }
        },
    )
}

fn division(given: &Given) -> Division {
    let Given { weights, page, shown, capacity, inputs: _ } = given;
    let weight = |item: usize| weights[item];
    divide(weights.len(), page.window(weights.len()), shown, weight, *capacity, &Work::unlimited())
}

fn index(division: &Division, given: &Given, summary: &dyn Fn(Chunk<'_>) -> String, limit: usize) -> Option<String> {
    let list = list_id::tests::any;
    let index = Index { division, inputs: given.inputs, noun: "diffs", fewer: 0, summary, list: &list };
    index.text(&mut |text| text.len() <= limit)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_item_is_in_exactly_one_chunk(given in given()) {
        let division = division(&given);
        let window = given.page.window(given.weights.len());
        let chunks: Vec<Vec<usize>> = (1..=division.chunks())
            .map(|chunk| division.chunk(NonZeroUsize::new(chunk).expect("not 0")).expect("a chunk").items().collect())
            .collect();
        prop_assert_eq!(&chunks[0], &given.shown);
        let mut all: Vec<usize> = chunks.concat();
        // The others are in the order of the list, and none is empty.
        prop_assert!(all[given.shown.len()..].is_sorted());
        prop_assert!(chunks[1..].iter().all(|chunk| !chunk.is_empty()));
        all.sort_unstable();
        prop_assert_eq!(all, window.collect::<Vec<_>>());
        let sum = |sum: u64, item: &usize| sum.saturating_add(given.weights[*item]);
        let weight = |chunk: &Vec<usize>| chunk.iter().fold(0, sum);
        for chunk in &chunks[1..] {
            prop_assert!(chunk.len() == 1 || weight(chunk) <= given.capacity, "{:?}", chunk);
        }
        // As many as fit: the first item of the next chunk does not.
        for pair in chunks[1..].windows(2) {
            prop_assert!(weight(&pair[0]).saturating_add(given.weights[pair[1][0]]) > given.capacity, "{:?}", pair);
        }
    }

    #[test]
    fn the_numbers_in_an_index_are_those_that_a_call_takes(given in given(), limit in 0_usize..3000) {
        let division = division(&given);
        let Some(text) = index(&division, &given, &|_| "about".to_owned(), limit) else { return Ok(()) };
        prop_assert!(text.len() <= limit);
        let total = given.weights.len();
        if !text.contains('\n') {
            // What the one line names gives items that the answer leaves out.
            let (counts, more) = text.rsplit_once(", offset=").or_else(|| text.rsplit_once(", ")).expect("a remedy");
            let more = more.strip_suffix(" for more").expect("a remedy");
            prop_assert!(counts.starts_with(&format!("[chunks] {}/", given.shown.len())), "{}", text);
            let chunk = more.strip_prefix("chunk=").or_else(|| more.strip_prefix("_chunk="));
            let items: Vec<usize> = match (chunk, more.split_once(", limit=")) {
                (Some(chunk), _) => {
                    prop_assert_eq!(division.window(), None);
                    division.chunk(chunk.parse().expect("a number")).expect("a chunk").items().collect()
                }
                (None, Some((offset, limit))) => {
                    let limit = limit.parse().ok();
                    let items: Vec<usize> = Page::Window { offset: number(offset), limit }.window(total).collect();
                    prop_assert!(items.iter().all(|item| !given.shown.contains(item)), "{}", text);
                    items
                }
                (None, None) => Page::Window { offset: number(more), limit: None }.window(total).collect(),
            };
            prop_assert!(items.first().is_some_and(|item| !given.shown.contains(item)), "{}", text);
            return Ok(());
        }
        let Read { shown, divided, chunks, lines } = read(&text);
        prop_assert_eq!((shown, divided, chunks), (given.shown.len(), division.divided(), division.chunks()));
        let mut next = 1;
        for Line { chunks, place, returned } in lines {
            prop_assert_eq!(chunks.start, next);
            next = chunks.end;
            prop_assert_eq!(returned, chunks == (1..2));
            prop_assert!(chunks.len() != 2 || !returned);
            let items: Vec<usize> = division.joined(chunks.start - 1..chunks.end - 1).items().collect();
            match place {
                Place::Items(named) => prop_assert_eq!(named, items),
                Place::Count(count, within) => {
                    prop_assert_eq!(count, items.len());
                    if let Some(within) = within {
                        prop_assert!(items.iter().all(|item| within.contains(item)));
                    } else {
                        prop_assert!(items.is_empty() || (given.inputs.chunk.is_some() && division.window().is_none()));
                    }
                }
            }
        }
        prop_assert_eq!(next, chunks + 1);
    }

    #[test]
    fn an_index_never_exceeds_its_limit_and_more_room_says_no_less(
        given in given(), limits in prop::array::uniform2(0_usize..2000),
    ) {
        let division = division(&given);
        let [less, more] = [limits[0].min(limits[1]), limits[0].max(limits[1])];
        let text = |limit| index(&division, &given, &|_| "about".to_owned(), limit).map_or(0, |text| {
            assert!(text.len() <= limit);
            text.lines().count()
        });
        prop_assert!(text(less) <= text(more));
    }

    #[test]
    fn data_cannot_pass_for_an_index(
        values in prop::collection::vec(hostile(), 1..20),
        templated: bool, keep in 0_usize..20, capacity in 1_u64..10,
    ) {
        let source = "{{counts .a}} {{paths .a}} {{(range .a)}} {{range .}}{{.a}}{{end}}";
        let spec = ChunksSpec { noun: None, summary: templated.then(|| source.to_owned()) };
        let program = ChunksProgram::compile(&spec).expect("valid");
        let list: Vec<String> = values.iter().map(|value| format!("{{\"a\":{}}}", json::encode(value))).collect();
        let shown: Vec<usize> = (0..keep.min(values.len())).collect();
        let given = Given {
            weights: vec![1; values.len()], page: Page::All, shown, capacity, inputs: PageInputs::ALL,
        };
        let division = division(&given);
        let item = |item: usize| json::parse(list[item].as_bytes(), 16).unwrap_or(Node::NULL);
        let work = Work::unlimited();
        let summary = |chunk: Chunk<'_>| program.summary(chunk, item, &work);
        if let Some(text) = index(&division, &given, &summary, usize::MAX) {
            // Without the summaries it is the same index.
            let Read { shown, divided, chunks, lines } = read(&text);
            let bare = index(&division, &given, &|_| String::new(), usize::MAX).expect("fits");
            let bare = read(&bare);
            prop_assert_eq!((shown, divided, chunks), (bare.shown, bare.divided, bare.chunks));
            prop_assert_eq!(lines.len(), bare.lines.len());
            prop_assert_eq!(text.matches(['[', ']']).count(), 4);
            prop_assert_eq!(text.matches("<<").count(), 1);
            prop_assert!(text.lines().all(|line| line.len() <= 300));
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}

#[test]
fn bad_inputs_take_work_in_proportion() {
    // 10,000 empty objects; one heavy item among light ones; a million items.
    type Case = (usize, fn(usize) -> u64, u64);
    let cases: [Case; 3] = [
        (10_000, |_| 3, 3000),
        (10_000, |item| if item == 5000 { 10 << 20 } else { 10 }, 1000),
        (1_000_000, |_| 20, 8000),
    ];
    for (total, weight, capacity) in cases {
        let shown: Vec<usize> = (0..total / 100).collect();
        let work = Work::at_most(2 * total + 10_000);
        let division = divide(total, 0..total, &shown, weight, capacity, &work);
        let program = ChunksProgram::default();
        let items: Vec<Node<'_>> = vec![Node::Object(Vec::new()); total];
        let summary = |chunk: Chunk<'_>| program.summary(chunk, |item| items[item].clone(), &work);
        let settings = ListSettings {
            budget: Budget::bytes(8000),
            counter: TokenCounter::default(),
            format: "json",
            strategy: "default",
        };
        let list = || ListId::new(&settings, std::iter::repeat_n("{}", total), &work);
        let index = Index {
            division: &division,
            inputs: PageInputs::ALL,
            noun: "items",
            fewer: 0,
            summary: &summary,
            list: &list,
        };
        let text = index.text(&mut |text| text.len() <= 2000).expect("fits");
        assert!(!work.is_interrupted(), "{total}");
        assert_eq!(read(&text).divided, total);
        let joined = division.joined(1..division.chunks());
        assert_eq!(joined.len(), total - shown.len());
    }
}

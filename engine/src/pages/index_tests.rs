use super::super::{Page, divide};
use super::*;
use crate::work::Work;

/// An answer, and how its index is written.
struct Case {
    division: Division,
    inputs: PageInputs<'static>,
    noun: &'static str,
    fewer: usize,
    summary: &'static str,
}

impl Case {
    /// Divides 52 diffs into the answer and chunks of `each`.
    fn of(shown: &[usize], each: u64) -> Self {
        Self::window(Page::All, shown, each)
    }

    fn window(page: Page, shown: &[usize], each: u64) -> Self {
        let division = divide(52, page.window(52), shown, |_| 1, each, &Work::unlimited());
        Self { division, inputs: PageInputs::ALL, noun: "diffs", fewer: 0, summary: "src/*" }
    }

    fn index(&self, fits: &mut dyn FnMut(&str) -> bool) -> Option<String> {
        let summary = |_: Chunk<'_>| self.summary.to_owned();
        self.with(&summary, |index| index.text(fits))
    }

    fn with<R>(&self, summary: &dyn Fn(Chunk<'_>) -> String, with: impl FnOnce(&Index<'_>) -> R) -> R {
        let list = || super::super::list_id::tests::any();
        let Self { division, inputs, noun, fewer, summary: _ } = self;
        with(&Index { division, inputs: *inputs, noun, fewer: *fewer, summary, list: &list })
    }

    /// Returns the largest form.
    fn full(&self) -> String {
        self.index(&mut |_| true).unwrap_or_default()
    }

    /// Returns the largest form of at most `bytes`.
    fn within(&self, bytes: usize) -> Option<String> {
        self.index(&mut |text| text.len() <= bytes)
    }
}

fn first(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn window(offset: usize, limit: usize) -> Page {
    Page::Window { offset, limit: NonZeroUsize::new(limit) }
}

const ONLY_CHUNK: PageInputs<'static> = PageInputs { chunk: Some("_chunk"), window: false };
const ONLY_WINDOW: PageInputs<'static> = PageInputs { chunk: None, window: true };

#[test]
fn an_index_has_a_line_for_each_chunk() {
    let case = Case::of(&first(15), 15);
    assert_eq!(
        case.full(),
        "[chunks] 15/52 diffs in 4 chunks:\n\
         chunk 1 (offset=0, limit=15): src/* << returned in this response\n\
         chunk 2 (offset=15, limit=15): src/*\n\
         chunk 3 (offset=30, limit=15): src/*\n\
         chunk 4 (offset=45, limit=7): src/*\n\
         [/chunks]\n\
         Use `chunk: N` parameter to fetch a specific chunk. You may not need all chunks. List 3f9a1c."
    );
}

#[test]
fn items_that_are_not_consecutive_are_numbered() {
    let shown: Vec<usize> = (30..41).chain([44]).collect();
    assert_eq!(
        Case { fewer: 3, ..Case::of(&shown, 35) }.full(),
        "[chunks] 12/52 diffs in 3 chunks:\n\
         chunk 1 (items=30-40,44): src/*, 3 with fewer fields << returned in this response\n\
         chunk 2 (items=0-29,41-43,45-46): src/*\n\
         chunk 3 (offset=47, limit=5): src/*\n\
         [/chunks]\n\
         Use `chunk: N` parameter to fetch a specific chunk. You may not need all chunks. List 3f9a1c."
    );
    // Where the numbers are longer than a line, and where there is no summary.
    let shown: Vec<usize> = (0..52).step_by(2).collect();
    assert_eq!(
        Case { fewer: 3, summary: "", noun: "items", ..Case::of(&shown, 20) }.full(),
        "[chunks] 26/52 items in 3 chunks:\n\
         chunk 1 (26 items): 3 with fewer fields << returned in this response\n\
         chunk 2 (items=1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39)\n\
         chunk 3 (items=41,43,45,47,49,51)\n\
         [/chunks]\n\
         Use `chunk: N` parameter to fetch a specific chunk. You may not need all chunks. List 3f9a1c."
    );
    let none = Case { summary: "", ..Case::of(&[], 26) };
    assert!(none.full().contains("\nchunk 1 (0 items) << returned in this response\nchunk 2 (offset=0, limit=26)\n"));
}

#[test]
fn an_index_names_only_inputs_that_a_call_can_use() {
    let only_chunk = Case { inputs: ONLY_CHUNK, ..Case::of(&first(15), 30) };
    assert_eq!(
        only_chunk.full(),
        "[chunks] 15/52 diffs in 3 chunks:\n\
         chunk 1 (items=0-14): src/* << returned in this response\n\
         chunk 2 (items=15-44): src/*\n\
         chunk 3 (items=45-51): src/*\n\
         [/chunks]\n\
         Use `_chunk: N` parameter to fetch a specific chunk. You may not need all chunks. List 3f9a1c."
    );
    let only_window = Case { inputs: ONLY_WINDOW, ..Case::of(&first(15), 30) };
    assert_eq!(
        only_window.full(),
        "[chunks] 15/52 diffs in 3 chunks:\n\
         chunk 1 (offset=0, limit=15): src/* << returned in this response\n\
         chunk 2 (offset=15, limit=30): src/*\n\
         chunk 3 (offset=45, limit=7): src/*\n\
         [/chunks]\n\
         Use `offset` and `limit` parameters to fetch other items. You may not need all chunks. List 3f9a1c."
    );
    // Chunks of a window cannot be asked for by their numbers.
    let shown: Vec<usize> = (1..48).step_by(2).collect();
    assert_eq!(
        Case::window(window(1, 50), &shown, 100).full(),
        "[chunks] 24/50 diffs (items 1-50 of 52) in 2 chunks:\n\
         chunk 1 (24 items within offset=1, limit=47): src/* << returned in this response\n\
         chunk 2 (26 items within offset=2, limit=49): src/*\n\
         [/chunks]\n\
         Use `offset` and `limit` parameters to fetch other items. You may not need all chunks. List 3f9a1c."
    );
    let none = Case { inputs: PageInputs::NONE, ..Case::of(&first(15), 30) };
    assert_eq!(none.index(&mut |_| true), None);
}

#[test]
fn chunks_from_the_middle_are_joined() {
    let case = Case::of(&first(2), 5);
    let full = case.full();
    assert_eq!(full.lines().count(), 1 + 11 + 2);
    assert_eq!(case.within(full.len()), Some(full.clone()));
    let some = case.within(full.len() - 1).expect("fits");
    assert_eq!(
        some,
        "[chunks] 2/52 diffs in 11 chunks:\n\
         chunk 1 (offset=0, limit=2): src/* << returned in this response\n\
         chunk 2 (offset=2, limit=5): src/*\n\
         chunk 3 (offset=7, limit=5): src/*\n\
         chunk 4 (offset=12, limit=5): src/*\n\
         chunk 5 (offset=17, limit=5): src/*\n\
         chunks 6-7 (offset=22, limit=10)\n\
         chunk 8 (offset=32, limit=5): src/*\n\
         chunk 9 (offset=37, limit=5): src/*\n\
         chunk 10 (offset=42, limit=5): src/*\n\
         chunk 11 (offset=47, limit=5): src/*\n\
         [/chunks]\n\
         Use `chunk: N` parameter to fetch a specific chunk. You may not need all chunks. List 3f9a1c."
    );
    let least = "[chunks] 2/52 diffs in 11 chunks:\n\
         chunk 1 (offset=0, limit=2): src/* << returned in this response\n\
         chunks 2-11 (offset=2, limit=50)\n\
         [/chunks]\n\
         Use `chunk: N` parameter to fetch a specific chunk. You may not need all chunks. List 3f9a1c.";
    assert_eq!(case.within(least.len()).as_deref(), Some(least));
    assert_eq!(case.within(least.len() - 1).as_deref(), Some("[chunks] 2/52 diffs, offset=2 for more"));
    // Joined chunks need not be consecutive.
    let case = Case::of(&(0..52).step_by(10).collect::<Vec<_>>(), 5);
    let text = case.within(300).expect("fits");
    assert!(text.contains("\nchunks 2-10 (items=1-9,11-19,21-29,31-39,41-49)\n"), "{text}");
}

#[test]
fn one_line_names_an_input_that_gives_more() {
    let line = |case: Case| case.within(70).unwrap_or_default();
    assert_eq!(line(Case::of(&first(15), 5)), "[chunks] 15/52 diffs, offset=15 for more");
    // The answer shows another part than the beginning.
    let newest: Vec<usize> = (24..52).collect();
    assert_eq!(line(Case::of(&newest, 5)), "[chunks] 28/52 diffs, chunk=2 for more");
    assert_eq!(line(Case::of(&[], 5)), "[chunks] 0/52 diffs, chunk=2 for more");
    assert_eq!(line(Case { inputs: ONLY_CHUNK, ..Case::of(&first(15), 5) }), "[chunks] 15/52 diffs, _chunk=2 for more");
    let only_window = |shown: &[usize], each| Case { inputs: ONLY_WINDOW, ..Case::of(shown, each) };
    assert_eq!(line(only_window(&newest, 52)), "[chunks] 28/52 diffs, offset=0, limit=24 for more");
    assert_eq!(line(only_window(&[0, 5], 52)), "[chunks] 2/52 diffs, offset=1, limit=4 for more");
    let windowed = |shown: &[usize]| Case::window(window(20, 10), shown, 5);
    assert_eq!(line(windowed(&[20, 21])), "[chunks] 2/10 diffs (items 20-29 of 52), offset=22 for more");
    let line_of_gap = "[chunks] 2/10 diffs (items 20-29 of 52), offset=21, limit=4 for more";
    assert_eq!(line(windowed(&[20, 25])), line_of_gap);
    // Nothing fits.
    assert_eq!(Case::of(&first(15), 5).within("[chunks] 15/52 diffs, offset=15 for more".len() - 1), None);
    assert_eq!(Case::of(&first(15), 5).within(0), None);
}

#[test]
fn a_list_with_fewer_fields_says_so() {
    let all = |fewer| Case { fewer, ..Case::of(&first(52), 5) };
    let line = "[levels] 12 of 52 diffs with fewer fields, use offset and limit for all of them";
    assert_eq!(all(12).within(line.len()).as_deref(), Some(line));
    assert_eq!(all(12).within(line.len() - 1), None);
    assert_eq!(all(0).index(&mut |_| true), None);
    let without = Case { inputs: PageInputs::NONE, ..all(12) };
    assert_eq!(without.full(), "[levels] 12 of 52 diffs with fewer fields");
    assert_eq!(Case { inputs: ONLY_CHUNK, ..all(12) }.full(), "[levels] 12 of 52 diffs with fewer fields");
    let windowed = Case { fewer: 1, ..Case::window(window(20, 2), &[20, 21], 5) };
    assert_eq!(windowed.full(), "[levels] 1 of 2 diffs with fewer fields, use offset and limit for all of them");
    assert_eq!(Case::window(window(60, 2), &[], 5).index(&mut |_| true), None);
}

#[test]
fn a_fetched_chunk_says_where_it_is() {
    let fetched = |case: &Case, number, bytes: usize| {
        let number = NonZeroUsize::new(number).expect("not 0");
        case.with(&|_| String::new(), |index| index.fetched(number, &mut |text| text.len() <= bytes))
    };
    let case = Case::of(&first(15), 15);
    let line = "[chunks] chunk 2 of 4, items 15-29 of 52. List 3f9a1c.";
    assert_eq!(fetched(&case, 2, line.len()).as_deref(), Some(line));
    assert_eq!(fetched(&case, 2, line.len() - 1).as_deref(), Some("[chunks] chunk 2 of 4, items 15-29 of 52."));
    assert_eq!(fetched(&case, 2, 40), None);
    assert_eq!(fetched(&case, 5, 1000), None);
    let case = Case::of(&[1, 51], 49);
    assert_eq!(fetched(&case, 2, 100).as_deref(), Some("[chunks] chunk 2 of 3, items 0,2-49 of 52. List 3f9a1c."));
    assert_eq!(fetched(&case, 3, 100).as_deref(), Some("[chunks] chunk 3 of 3, item 50 of 52. List 3f9a1c."));
    let case = Case::of(&(0..52).step_by(2).collect::<Vec<_>>(), 30);
    assert_eq!(fetched(&case, 2, 100).as_deref(), Some("[chunks] chunk 2 of 2, 26 items of 52. List 3f9a1c."));
}

#[test]
fn an_index_is_measured_and_summarized_as_far_as_it_may_fit() {
    // 10,000 chunks of one item.
    let division = divide(10_001, 0..10_001, &[0], |_| 1, 1, &Work::unlimited());
    let case = Case { division, ..Case::of(&[0], 1) };
    for limit in [60, 1000, 10_000, 1_000_000] {
        let (calls, bytes, summaries) = (std::cell::Cell::new(0), std::cell::Cell::new(0), std::cell::Cell::new(0));
        let summary = |_: Chunk<'_>| {
            summaries.set(summaries.get() + 1);
            "about".to_owned()
        };
        let text = case.with(&summary, |index| {
            index.text(&mut |text| {
                calls.set(calls.get() + 1);
                bytes.set(bytes.get() + text.len());
                text.len() <= limit
            })
        });
        let text = text.expect("a line fits");
        assert!(text.len() <= limit && (limit == 60 || limit < 10 * text.len()), "{limit} {}", text.len());
        assert!(calls.get() <= 32, "{limit}: {} texts", calls.get());
        assert!(bytes.get() <= 20 * limit + 2000, "{limit}: {} bytes", bytes.get());
        assert!(summaries.get() <= 2 * text.lines().count() + 16, "{limit}: {} summaries", summaries.get());
    }
}

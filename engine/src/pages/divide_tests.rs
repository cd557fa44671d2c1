use super::*;

/// Divides `total` items where the answer shows `shown`, and returns the numbers of each chunk.
fn chunks(total: usize, shown: &[usize], weights: &[u64], capacity: u64) -> Vec<String> {
    let weight = |item: usize| weights[item % weights.len()];
    let division = divide(total, 0..total, shown, weight, capacity, &Work::unlimited());
    numbers(&division)
}

fn numbers(division: &Division) -> Vec<String> {
    (0..division.chunks()).map(|chunk| division.joined(chunk..chunk + 1).numbers().unwrap_or_default()).collect()
}

#[test]
fn the_rest_follows_in_order_as_much_as_fits() {
    type Case = (usize, &'static [usize], &'static [u64], u64, &'static [&'static str]);
    let cases: [Case; 16] = [
        (6, &[0, 1], &[10], 20, &["0-1", "2-3", "4-5"]),
        (6, &[0, 1], &[10], 19, &["0-1", "2", "3", "4", "5"]),
        (6, &[0, 1, 2, 3, 4, 5], &[10], 20, &["0-5"]),
        // The answer shows another part than the beginning.
        (6, &[4, 5], &[10], 20, &["4-5", "0-1", "2-3"]),
        (9, &[0, 3, 4, 8], &[10], 30, &["0,3-4,8", "1-2,5", "6-7"]),
        // Heavy items are chunks of their own.
        (5, &[0], &[1, 1, 99, 1, 1], 10, &["0", "1", "2", "3-4"]),
        (4, &[0], &[99], 10, &["0", "1", "2", "3"]),
        (4, &[3], &[99, 1, 1, 1], 10, &["3", "0", "1-2"]),
        (3, &[0], &[u64::MAX], u64::MAX, &["0", "1", "2"]),
        // Weights that say nothing.
        (4, &[0], &[0], 0, &["0", "1-3"]),
        (4, &[0], &[1], 0, &["0", "1", "2", "3"]),
        // One item, none, and an answer that shows none.
        (1, &[0], &[5], 1, &["0"]),
        (0, &[], &[5], 1, &[""]),
        (2, &[], &[5], 10, &["", "0-1"]),
        (3, &[1], &[5], 10, &["1", "0,2"]),
        (3, &[0, 2], &[5], 10, &["0,2", "1"]),
    ];
    for (total, shown, weights, capacity, want) in cases {
        assert_eq!(chunks(total, shown, weights, capacity), want, "{total} {shown:?} {weights:?} {capacity}");
    }
}

#[test]
fn a_window_is_divided_by_the_numbers_of_the_whole_list() {
    let division = divide(52, 20..30, &[20, 21, 25], |item| item as u64, 50, &Work::unlimited());
    assert_eq!(numbers(&division), ["20-21,25", "22-23", "24,26", "27", "28", "29"]);
    assert_eq!((division.window(), division.divided(), division.total()), (Some(20..30), 10, 52));
    let whole = divide(3, 0..3, &[0], |_| 1, 50, &Work::unlimited());
    assert_eq!((whole.window(), whole.divided()), (None, 3));
    let beyond = divide(52, 52..52, &[], |_| 1, 50, &Work::unlimited());
    assert_eq!((beyond.window(), beyond.divided(), beyond.chunks()), (Some(52..52), 0, 1));
}

#[test]
fn the_list_continues_where_the_answer_shows_its_beginning() {
    let next = |total, window, shown: &[usize]| divide(total, window, shown, |_| 1, 1, &Work::unlimited()).next();
    assert_eq!(next(52, 0..52, &[0, 1, 2]), Some(3));
    assert_eq!(next(52, 20..30, &[20, 21]), Some(22));
    assert_eq!(next(22, 20..22, &[20, 21]), None);
    assert_eq!(next(52, 20..22, &[20, 21]), Some(22), "the list has more than the window");
    assert_eq!(next(3, 0..3, &[0, 1, 2]), None);
    assert_eq!(next(3, 0..3, &[1, 2]), None);
    assert_eq!(next(3, 0..3, &[0, 2]), None);
    assert_eq!(next(3, 0..3, &[]), None);
    assert_eq!(next(0, 0..0, &[]), None);
}

#[test]
fn chunks_are_found_by_their_numbers() {
    let division = divide(6, 0..6, &[0, 1], |_| 10, 20, &Work::unlimited());
    let number = |number| NonZeroUsize::new(number).expect("not 0");
    assert_eq!(division.chunk(number(3)).map(|chunk| chunk.items().collect()), Ok(vec![4, 5]));
    assert_eq!(division.chunk(number(4)), Err(PageError::Beyond { chunk: number(4), chunks: 3 }));
    assert_eq!(
        division.chunk(number(usize::MAX)).err().map(|error| error.to_string()).as_deref(),
        Some("`chunk` is 18446744073709551615, but the list has 3 chunks; give a number from 1 to 3")
    );
}

#[test]
fn numbers_take_no_more_than_a_line() {
    let chunk = |ranges: &'static [Range<usize>]| Chunk { ranges };
    assert_eq!(chunk(&[30..41, 44..45]).numbers().as_deref(), Some("30-40,44"));
    assert_eq!(chunk(&[30..41, 41..45]).numbers().as_deref(), Some("30-44"));
    assert_eq!(chunk(&[]).numbers(), None);
    assert_eq!((chunk(&[30..41, 41..45]).consecutive(), chunk(&[0..1, 2..3]).consecutive()), (Some(30..45), None));
    assert_eq!(chunk(&[0..1, 2..3]).span(), 0..3);
    let every_second = divide(100, 0..100, &(0..100).step_by(2).collect::<Vec<_>>(), |_| 1, 1000, &Work::unlimited());
    assert_eq!((every_second.shown().numbers(), every_second.shown().len()), (None, 50));
}

#[test]
fn a_million_items_take_steps_in_proportion() {
    let shown: Vec<usize> = (0..1_000_000).step_by(3).collect();
    let weigh = |item: usize| u64::from(item.is_multiple_of(7)) * 100;
    let work = Work::at_most(1_000_001);
    let division = divide(1_000_000, 0..1_000_000, &shown, weigh, 1000, &work);
    assert!(!work.is_interrupted());
    assert_eq!(division.joined(0..division.chunks()).len(), 1_000_000);
    // An interrupt ends it; such a run has no result.
    let work = Work::at_most(1000);
    let _ = divide(1_000_000, 0..1_000_000, &shown, weigh, 1000, &work);
    assert!(work.is_interrupted());
}

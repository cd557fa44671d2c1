use super::*;

fn pager(kind: PaginationKind, max_pages: u32, start: Start) -> Pager {
    Pager::new(&Pagination { kind, max_pages, next_path: None }, start)
}

fn asks(pager: &Pager) -> String {
    pager.query(Some("q=1"))
}

fn page(items: usize, next: Option<&str>, total: Option<u64>) -> Page {
    Page { items, next: next.map(str::to_owned), total }
}

#[test]
fn cursors_lead_on_until_there_is_none() {
    let mut pager = pager(PaginationKind::Cursor, 10, Start::default());
    assert_eq!(asks(&pager), "q=1&limit=20");
    assert!(pager.advance(page(20, Some("a&b="), Some(50))));
    assert_eq!(asks(&pager), "q=1&limit=20&cursor=a%26b%3D");
    assert!(pager.advance(page(20, Some("c"), None)));
    assert!(!pager.advance(page(10, None, None)));
    assert_eq!(pager.report(), PageReport { pages: 3, items: Some(50), total: Some(50), next: None });
}

#[test]
fn what_stops_cursors() {
    // A cursor that was there already, the caller's first one too.
    let start = Start { position: Some("a".to_owned()), ..Start::default() };
    let mut pager_ = pager(PaginationKind::Cursor, 10, start);
    assert!(pager_.advance(page(1, Some("b"), None)));
    assert!(!pager_.advance(page(1, Some("a"), None)));
    assert_eq!(pager_.report().next, None);
    // An empty page, whatever it names.
    let mut pager_ = pager(PaginationKind::Cursor, 10, Start::default());
    assert!(!pager_.advance(page(0, Some("b"), None)));
    assert_eq!(pager_.report().next, None);
    // The most pages; the next one can be asked for.
    let mut pager_ = pager(PaginationKind::Cursor, 2, Start::default());
    assert!(pager_.advance(page(5, Some("a"), None)));
    assert!(!pager_.advance(page(5, Some("b"), None)));
    assert_eq!(pager_.report(), PageReport { pages: 2, items: Some(10), total: None, next: Some("b".to_owned()) });
}

#[test]
fn no_more_than_a_hundred_pages() {
    let mut pager = pager(PaginationKind::Cursor, 1_000, Start::default());
    let fetched = (1..).take_while(|n| pager.advance(page(1, Some(&n.to_string()), None))).count() + 1;
    assert_eq!(fetched, 100);
}

#[test]
fn offsets_count_items() {
    let mut pager = pager(PaginationKind::Offset, 10, Start::default());
    assert_eq!(asks(&pager), "q=1&limit=20&offset=0");
    assert!(pager.advance(page(20, None, None)));
    assert_eq!(asks(&pager), "q=1&limit=20&offset=20");
    assert!(!pager.advance(page(7, None, None)));
    assert_eq!(pager.report(), PageReport { pages: 2, items: Some(27), total: None, next: None });
}

#[test]
fn what_stops_offsets() {
    let offset = |limit, position: Option<&str>| Start {
        limit: Some(limit),
        limit_is_total: false,
        position: position.map(str::to_owned),
    };
    let table = [
        // limit, from, items, total, goes on at
        (20, None, 20, None, Some("20")),
        // What the upstream states of all items changes nothing: it may be a member that a filter removes.
        (20, None, 20, Some(20), Some("20")),
        (20, None, 20, Some(21), Some("20")),
        (20, Some("40"), 20, Some(100), Some("60")),
        (20, None, 10, Some(21), None),
        (20, None, 10, None, None),
        (100, None, 50, None, Some("50")),
        (100, None, 19, None, None),
        (5, None, 4, None, None),
        (5, None, 5, None, Some("5")),
        (20, None, 0, Some(100), None),
        // Not a number: nothing can be added to it.
        (20, Some("x"), 20, None, None),
        (20, Some("18446744073709551615"), 20, None, None),
    ];
    for (limit, from, items, total, next) in table {
        let mut pager = pager(PaginationKind::Offset, 10, offset(limit, from));
        assert_eq!(pager.advance(page(items, None, total)), next.is_some(), "{limit} {from:?} {items} {total:?}");
        assert_eq!(pager.report().next.as_deref(), next, "{limit} {from:?} {items} {total:?}");
    }
}

#[test]
fn the_callers_limit_is_what_he_gets() {
    let start = |limit| Start { limit: Some(limit), limit_is_total: true, position: None };
    let mut one = pager(PaginationKind::Offset, 10, start(5));
    assert_eq!(asks(&one), "q=1&limit=5&offset=0");
    assert!(!one.advance(page(5, None, Some(40))));
    assert_eq!(one.report(), PageReport { pages: 1, items: Some(5), total: Some(40), next: Some("5".to_owned()) });
    let mut capped = pager(PaginationKind::Cursor, 10, start(150));
    assert!(capped.advance(page(100, Some("a"), None)));
    assert!(!capped.advance(page(100, Some("b"), None)));
    assert_eq!(capped.report().next.as_deref(), Some("b"));
}

use super::*;

fn page(chunk: Option<i64>, offset: Option<i64>, limit: Option<i64>) -> Result<Page, String> {
    Page::new(PageRequest { chunk, offset, limit }).map_err(|error| error.to_string())
}

fn number(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("not 0")
}

#[test]
fn a_request_is_a_page() {
    let window = |offset, limit: Option<usize>| Ok(Page::Window { offset, limit: limit.map(number) });
    let cases = [
        (None, None, None, Ok(Page::All)),
        (Some(1), None, None, Ok(Page::Chunk(number(1)))),
        (Some(52), None, None, Ok(Page::Chunk(number(52)))),
        (Some(i64::MAX), None, None, Ok(Page::Chunk(number(usize::try_from(i64::MAX).expect("64 bits"))))),
        (None, Some(0), None, window(0, None)),
        (None, None, Some(1), window(0, Some(1))),
        (None, Some(15), Some(15), window(15, Some(15))),
        (None, Some(1_000_000_000_000_000_000), None, window(1_000_000_000_000_000_000, None)),
    ];
    for (chunk, offset, limit, want) in cases {
        assert_eq!(page(chunk, offset, limit), want, "{chunk:?} {offset:?} {limit:?}");
    }
}

#[test]
fn an_error_names_the_input_and_what_it_takes() {
    let together = "`chunk` and `offset` are given together; give `chunk` alone, or `offset` and `limit`";
    let cases = [
        (Some(0), None, None, "`chunk` is 0; give a number from 1, or leave `chunk` out for the first chunk"),
        (Some(-1), None, None, "`chunk` is -1; give a number from 1, or leave `chunk` out for the first chunk"),
        (None, Some(-1), None, "`offset` is -1; give a number from 0, or leave `offset` out for the beginning"),
        (None, Some(2), Some(0), "`limit` is 0; give a number from 1, or leave `limit` out for all that follow"),
        (
            None,
            None,
            Some(i64::MIN),
            "`limit` is -9223372036854775808; give a number from 1, or leave `limit` out for all that follow",
        ),
        (Some(1), Some(0), None, together),
        (Some(0), Some(0), Some(5), together),
        (Some(2), None, Some(5), "`chunk` and `limit` are given together; give `chunk` alone, or `offset` and `limit`"),
    ];
    for (chunk, offset, limit, want) in cases {
        assert_eq!(page(chunk, offset, limit), Err(want.to_owned()), "{chunk:?} {offset:?} {limit:?}");
    }
    let messages = [
        (PageError::NotWhole(PageInput::Chunk), "`_chunk` is not a whole number; give a number from 1"),
        (PageError::NotWhole(PageInput::Offset), "`offset` is not a whole number; give a number from 0"),
        (PageError::NotWhole(PageInput::Limit), "`limit` is not a whole number; give a number from 1"),
        (
            PageError::Beyond { chunk: number(9), chunks: 4 },
            "`_chunk` is 9, but the list has 4 chunks; give a number from 1 to 4",
        ),
        (
            PageError::Beyond { chunk: number(2), chunks: 1 },
            "`_chunk` is 2, but the list has one chunk; give 1, or leave `_chunk` out",
        ),
        (
            PageError::TooMany { chunk: number(2), most: 65_536, window: true },
            "`_chunk` is 2, but chunks have no numbers where there are more than 65536; give `offset` and `limit`",
        ),
        (
            PageError::TooMany { chunk: number(2), most: 65_536, window: false },
            "`_chunk` is 2, but chunks have no numbers where there are more than 65536; raise the budget",
        ),
    ];
    for (error, want) in messages {
        assert_eq!(error.message("_chunk"), want);
    }
}

#[test]
fn a_window_stays_within_the_list() {
    let window = |offset, limit: Option<usize>| Page::Window { offset, limit: limit.map(number) };
    let cases = [
        (Page::All, 52, 0..52),
        (Page::All, 0, 0..0),
        (Page::Chunk(number(3)), 52, 0..52),
        (window(15, Some(15)), 52, 15..30),
        (window(45, Some(15)), 52, 45..52),
        (window(45, None), 52, 45..52),
        (window(52, Some(1)), 52, 52..52),
        (window(usize::MAX, Some(usize::MAX)), 52, 52..52),
        (window(1, Some(usize::MAX)), 52, 1..52),
        (window(0, None), 0, 0..0),
    ];
    for (page, total, want) in cases {
        assert_eq!(page.window(total), want, "{page:?}");
    }
}

use proptest::prelude::*;

use super::*;

/// The events of a stream that comes in pieces of this size.
fn events(stream: &[u8], piece: usize, limit: usize) -> Result<Vec<String>, TooLarge> {
    let (mut parser, mut events) = (EventParser::new(limit), Vec::new());
    for mut piece in stream.chunks(piece.max(1)) {
        if let Some(capacity) = parser.growth(piece.len()) {
            parser.grow(capacity);
        }
        let capacity = parser.capacity();
        while let Some(event) = parser.next(&mut piece)? {
            events.push(String::from_utf8(event).unwrap());
        }
        assert!(parser.capacity() <= capacity, "the room that was made suffices");
    }
    Ok(events)
}

#[test]
fn events_are_found_however_they_come() {
    for (stream, expected) in [
        ("", &[][..]),
        ("data: 1\n\n", &["1"]),
        ("data: 1\r\n\r\n", &["1"]),
        ("data: 1\r\r", &["1"]),
        ("data: 1\r\n\ndata: 2\n\r\n", &["1", "2"]),
        ("data:1\n\ndata:  2\n\n", &["1", " 2"]),
        ("data: 1\ndata: 2\n\n", &["1\n2"]),
        ("data\ndata: 2\ndata\n\n", &["\n2\n"]),
        ("id: 7\ndata:\n\ndata: 1\n\n", &["1"]),
        ("data\n\n", &[]),
        (": ping\n\n:\n\ndata: 1\n\n", &["1"]),
        ("event: message\ndata: 1\n\nevent\ndata: 2\n\n", &["1", "2"]),
        ("event: endpoint\ndata: 1\n\ndata: 2\n\n", &["2"]),
        ("event: messages\ndata: 1\n\nevent: mess\ndata: 2\n\nevent: endpoint\nevent: message\ndata: 3\n\n", &["3"]),
        ("retry: 10\nevents: x\ndata2: x\ndat: x\nlongername: y\ndata: 1\n\n", &["1"]),
        ("data: 1\n", &[]),
        ("data: 1", &[]),
        ("\u{feff}data: 1\n\n", &["1"]),
        ("\u{fe00}data: 1\n\ndata: 2\n\n", &["2"]),
        ("data: \u{feff}\u{e9}\n\n", &["\u{feff}\u{e9}"]),
        ("\n\n\ndata: 1\n\n\n", &["1"]),
    ] {
        for piece in [1, 2, 3, 5, 1000] {
            assert_eq!(events(stream.as_bytes(), piece, 100).unwrap(), expected, "{stream:?} by {piece}");
        }
    }
}

#[test]
fn an_event_has_at_most_its_limit() {
    for piece in [1, 7, 1000] {
        assert_eq!(events(b"data: 12345\n\ndata: 12345\n\n", piece, 5).unwrap(), ["12345", "12345"]);
        assert_eq!(events(b"data: 12\ndata: 34\n\n", piece, 5).unwrap(), ["12\n34"]);
        for large in [&b"data: 123456\n\n"[..], b"data: 12\ndata: 345\n\n", b"data: 12345\ndata\n\n"] {
            assert_eq!(events(large, piece, 5), Err(TooLarge));
        }
    }
    let skipped = [b": ".repeat(1 << 16), b"\nid: ".repeat(1 << 16), b"\nevent: ".repeat(1 << 16)].concat();
    let mut parser = EventParser::new(1 << 20);
    assert_eq!(parser.next(&mut &skipped[..]), Ok(None));
    assert_eq!(parser.capacity(), 0, "what is skipped takes no memory");
}

/// The rules as the standard has them, over the whole stream.
fn obvious(stream: &str) -> Vec<String> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut data, mut kind) = (Vec::new(), Vec::new(), String::new());
    let mut lines: Vec<_> = stream.split('\n').collect();
    lines.pop();
    for line in lines {
        if line.is_empty() {
            let text = std::mem::take(&mut data).join("\n");
            if !text.is_empty() && (kind.is_empty() || kind == "message") {
                events.push(text);
            }
            kind.clear();
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => data.push(value.to_owned()),
            "event" => value.clone_into(&mut kind),
            _ => {}
        }
    }
    events
}

proptest! {
    #[test]
    fn streams_are_read_as_the_standard_says(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "data", "event", "id", ":", " ", "\n", "\r", "\r\n", "\n\n", "message", "x", "{\"a\":1}", "\u{feff}",
            ]),
            0..40,
        ),
        piece in 1..20_usize,
    ) {
        let stream = parts.concat();
        prop_assert_eq!(events(stream.as_bytes(), piece, 10_000).unwrap(), obvious(&stream));
    }
}

#[test]
fn a_skimming_parser_skips_what_is_too_large_and_says_for_whom_it_was() {
    let long = format!("data: {{\"result\":\"{}\",\ndata: \"id\":8}}\n\n", "x".repeat(100));
    let stream = format!(
        ": comment\n\nevent: endpoint\ndata: {{\"id\":6}}\n\ndata: {{\"id\":7}}\r\n\r\n{long}event: message\ndata: {{\"id\":9}}\n\n"
    );
    for size in 1..stream.len() {
        let mut parser = EventParser::skimming();
        parser.set_limit(50);
        let mut found = Vec::new();
        for piece in stream.as_bytes().chunks(size) {
            if let Some(capacity) = parser.growth(piece.len()) {
                assert!(capacity <= 50, "in chunks of {size}");
                parser.grow(capacity);
            }
            let mut rest = piece;
            while let Some(event) = parser.next(&mut rest).unwrap() {
                let (kind, length, lost) = parser.skimmed();
                assert_eq!(length as usize > 50, lost.is_some());
                found.push((kind, String::from_utf8(event).unwrap(), lost));
            }
        }
        let expected = [
            (Recipient::Answer(7), r#"{"id":7}"#.to_owned(), None),
            (Recipient::Answer(8), String::new(), Some(Lost::TooLarge)),
            (Recipient::Answer(9), r#"{"id":9}"#.to_owned(), None),
        ];
        assert_eq!(found, expected, "in chunks of {size}");
    }
}

#[test]
fn a_parser_of_one_kind_keeps_no_other_events() {
    let stream = "data: a\n\nevent: end\ndata: b\n\nevent: endpoints\ndata: c\n\nevent: endpoint\ndata: /d\n\n";
    for size in 1..stream.len() {
        let mut parser = EventParser::of_kind(b"endpoint", 10);
        let mut found = Vec::new();
        for mut piece in stream.as_bytes().chunks(size) {
            while let Some(event) = parser.next(&mut piece).unwrap() {
                found.push(event);
            }
        }
        assert_eq!(found, [b"/d"], "in chunks of {size}");
    }
}

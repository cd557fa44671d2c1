//! Parses server-sent events: <https://html.spec.whatwg.org/multipage/server-sent-events.html>. Only `data` is kept:
//! event types, ids and retry times are ignored. The memory is bounded.

/// Splits a stream of bytes into events. The result does not depend on where the stream is cut into chunks.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The current line.
    line: Vec<u8>,
    /// The data lines of the current event, each with its line feed.
    data: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed that follows it belongs to the same line end.
    returned: bool,
    /// Whether a line has been read. The first one may begin with a byte order mark.
    begun: bool,
    limit: usize,
}

/// An event is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Parser {
    /// Creates a parser that holds at most `limit` bytes of an event.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Reads the next bytes. Returns the data of each event that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLarge> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.returned) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, after) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 1..]));
            if self.line.len() + self.data.len() + piece.len() > self.limit {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(piece);
            if let Some(end) = end {
                self.returned = rest[end] == b'\r';
                events.extend(self.end_line());
            }
            rest = after;
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = if std::mem::replace(&mut self.begun, true) {
            &line[..]
        } else {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line)
        };
        if line.is_empty() {
            // The last line feed is not part of the data. An event without data is not dispatched.
            let mut data = std::mem::take(&mut self.data);
            return data.pop().map(|_| data);
        }
        if let Some(value) = line.strip_prefix(b"data").and_then(|rest| match rest {
            [] => Some(rest),
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            _ => None,
        }) {
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(text: &str) -> Vec<String> {
        let events = Parser::new(1000).push(text.as_bytes()).unwrap();
        events.into_iter().map(|event| String::from_utf8(event).unwrap()).collect()
    }

    #[test]
    fn reads_what_the_standard_says() {
        for (text, data) in [
            ("", &[][..]),
            ("data: one\n\n", &["one"]),
            ("data: one\n", &[]),
            ("data:one\ndata: two\n\n", &["one\ntwo"]),
            ("data:  one\n\n", &[" one"]),
            ("data\n\n", &[""]),
            ("data\ndata\n\n", &["\n"]),
            ("data:\n\n\n\ndata: two\n\n", &["", "two"]),
            (": a comment\n\n:\n\n", &[]),
            ("event: acks\nid: 7\nretry: 10\ndata: one\n\n", &["one"]),
            ("event: acks\n\n", &[]),
            ("database: one\ndat: two\n data: three\n\n", &[]),
            ("data: one\r\n\r\ndata: two\r\rdata: three\n\n", &["one", "two", "three"]),
            ("\u{feff}data: one\n\n\u{feff}data: two\n\n", &["one"]),
            ("data: é\n\n", &["é"]),
        ] {
            assert_eq!(events(text), data, "{text:?}");
        }
    }

    #[test]
    fn holds_no_more_than_it_may() {
        let mut parser = Parser::new(10);
        assert_eq!(parser.push(b"data: 1234\n\n"), Ok(vec![b"1234".to_vec()]));
        assert_eq!(parser.push(b"data: 1234"), Ok(vec![]));
        assert_eq!(parser.push(b"5"), Err(TooLarge));
        let mut parser = Parser::new(10);
        assert_eq!(parser.push(b"data:12\ndata:"), Ok(vec![]));
        assert_eq!(parser.push(b"345678"), Err(TooLarge), "the lines of one event count together");
        let mut parser = Parser::new(10);
        for _ in 0..100 {
            assert_eq!(parser.push(b": alive\n\n"), Ok(vec![]), "comments do not add up");
        }
    }

    proptest! {
        #[test]
        fn does_not_depend_on_how_bytes_are_cut(
            text in "(data: ?[a-c]{0,3}|:[a-c]|\r\n|\n|\r|\u{feff}|id: 1){0,20}",
            cuts in proptest::collection::vec(0..60_usize, 0..10),
        ) {
            let whole = Parser::new(1000).push(text.as_bytes()).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.sort_unstable();
            let mut parser = Parser::new(1000);
            let mut pieces = Vec::new();
            let mut from = 0;
            for to in cuts.into_iter().chain([text.len()]) {
                pieces.extend(parser.push(&text.as_bytes()[from..to]).unwrap());
                from = to;
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}

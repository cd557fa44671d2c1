//! Server-sent events: the data of each event (HTML Standard, 9.2.6 "Interpreting an event stream").

/// The part of a stream that has no end yet.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    kind: Vec<u8>,
    data: Vec<u8>,
    /// Whether the last line ended with a carriage return, whose line feed may come next.
    after_return: bool,
}

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Its type; empty if it names none.
    pub(super) kind: Vec<u8>,
    /// Its data.
    pub(super) data: Vec<u8>,
}

impl Events {
    /// Returns the events that these bytes complete. Events without data are left out.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => complete.extend(self.end_of_line()),
                _ => self.line.push(byte),
            }
        }
        complete
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = Event { kind: std::mem::take(&mut self.kind), data: std::mem::take(&mut self.data) };
            return Some(event).filter(|event| !event.data.is_empty());
        }
        if let Some(kind) = line.strip_prefix(b"event:") {
            self.kind = kind.strip_prefix(b" ").unwrap_or(kind).to_vec();
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Events};

    #[test]
    fn events_are_read_whatever_the_chunks() {
        let stream = "id: 1\ndata: \n\nevent: message\ndata: {\"a\":\ndata:1}\n\n: comment\r\ndata: b\r\n\r\ndata: c\r\rdata: unfinished";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let found: Vec<Event> = stream.as_bytes().chunks(size).flat_map(|chunk| events.push(chunk)).collect();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("is text");
            let found: Vec<_> = found.iter().map(|event| (text(&event.kind), text(&event.data))).collect();
            let expected =
                [("message", "{\"a\":\n1}"), ("", "b"), ("", "c")].map(|(kind, data)| (kind.into(), data.into()));
            assert_eq!(found, expected, "in chunks of {size}");
        }
    }
}

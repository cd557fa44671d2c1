//! Finds out for whom a message is, while it arrives: reads `id` and `method` of a JSON object and skips everything else.
//! Takes the time of one pass, and memory that does not grow with the message.

use std::borrow::Cow;

use bytes::Bytes;

use crate::registry::ListKind;

/// Bytes of an id or a method that are kept. Longer ones are not used.
const MAX_VALUE: usize = 256;
/// Bytes of a member's name that are kept: more than the names that count have.
const MAX_NAME: usize = 8;

/// The notifications that a list has changed.
const CHANGED: [(&[u8], ListKind); 3] = [
    (br#""notifications/tools/list_changed""#, ListKind::Tools),
    (br#""notifications/prompts/list_changed""#, ListKind::Prompts),
    (br#""notifications/resources/list_changed""#, ListKind::Resources),
];

/// The notifications that may be for a caller.
const PROGRESS: &[u8] = br#""notifications/progress""#;
const LOG: &[u8] = br#""notifications/message""#;

/// For whom a message is.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::upstream::mcp) enum Kind {
    /// The answer to the request with this id.
    Answer(u64),
    /// A request of the server with this id, as JSON.
    Request(Bytes),
    /// The notification that a list has changed.
    Changed(ListKind),
    /// A notification of progress, or a log message.
    Notice,
    /// Another notification, an answer to another client, or no message.
    Other,
}

/// A message that is being read.
#[derive(Debug, Default)]
pub(in crate::upstream::mcp) struct Skim {
    depth: u32,
    /// In a string, and whether the next byte is escaped.
    string: Option<bool>,
    member: Member,
    name: Vec<u8>,
    id: Value,
    method: Value,
    is_invalid: bool,
    is_closed: bool,
}

/// The place within the outermost object.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Member {
    /// Before the object.
    #[default]
    Before,
    Name,
    Value(Wanted),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Id,
    Method,
    Nothing,
}

/// The JSON of a member, if it occurred.
#[derive(Debug, Default)]
struct Value {
    text: Vec<u8>,
    /// Whether it is longer than what is kept, or occurred twice.
    is_unusable: bool,
    is_complete: bool,
}

impl Value {
    fn push(&mut self, byte: u8) {
        if self.is_complete || self.text.len() >= MAX_VALUE {
            self.is_unusable = true;
        } else {
            self.text.push(byte);
        }
    }

    fn get(&self) -> Option<&[u8]> {
        let text = self.text.trim_ascii();
        (!text.is_empty() && !self.is_unusable && text != b"null").then_some(text)
    }
}

impl Skim {
    /// Reads the next bytes of the message.
    pub(in crate::upstream::mcp) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_invalid {
            // Within values that do not count, only the bytes that change the place are looked at.
            let skipped = match (self.string, self.keeps()) {
                (_, true) | (Some(true), _) => 0,
                (Some(false), false) => memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len()),
                (None, false) => rest
                    .iter()
                    .position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b',' | b':'))
                    .unwrap_or(rest.len()),
            };
            let Some((&byte, after)) = rest[skipped..].split_first() else { return };
            self.step(byte);
            rest = after;
        }
    }

    /// Whether the bytes of the current place are kept.
    fn keeps(&self) -> bool {
        match self.member {
            Member::Before => true,
            Member::Name => self.depth == 1,
            Member::Value(wanted) => wanted != Wanted::Nothing,
        }
    }

    fn keep(&mut self, byte: u8) {
        match self.member {
            Member::Value(Wanted::Id) => self.id.push(byte),
            Member::Value(Wanted::Method) => self.method.push(byte),
            // Without the quotes.
            Member::Name if self.name.len() < MAX_NAME && self.string.is_some() => self.name.push(byte),
            _ => {}
        }
    }

    fn step(&mut self, byte: u8) {
        if let Some(escaped) = self.string {
            self.string = match (escaped, byte) {
                (true, _) => Some(false),
                (false, b'\\') => Some(true),
                (false, b'"') => None,
                (false, _) => Some(false),
            };
            return self.keep(byte);
        }
        match (byte, self.depth) {
            (b'{', 0) if self.member == Member::Before && !self.is_closed => {
                self.depth = 1;
                self.member = Member::Name;
                return;
            }
            (b' ' | b'\t' | b'\r' | b'\n', 0) => return,
            (_, 0) => {
                self.is_invalid = true;
                return;
            }
            (b':', 1) if self.member == Member::Name => {
                let wanted = match &self.name[..] {
                    b"id" => Wanted::Id,
                    b"method" => Wanted::Method,
                    _ => Wanted::Nothing,
                };
                self.name.clear();
                self.member = Member::Value(wanted);
                return;
            }
            (b',' | b'}', 1) => {
                match self.member {
                    Member::Value(Wanted::Id) => self.id.is_complete = true,
                    Member::Value(Wanted::Method) => self.method.is_complete = true,
                    _ => {}
                }
                self.member = Member::Name;
                self.name.clear();
                if byte == b'}' {
                    (self.depth, self.is_closed) = (0, true);
                    self.member = Member::Before;
                }
                return;
            }
            (b'{' | b'[', _) => self.depth = self.depth.saturating_add(1),
            (b'}' | b']', _) => self.depth -= 1,
            (b'"', _) => {
                self.keep(byte);
                self.string = Some(false);
                return;
            }
            _ => {}
        }
        self.keep(byte);
    }

    /// Ends the message, and returns for whom it is.
    pub(in crate::upstream::mcp) fn end(self) -> Kind {
        if self.is_invalid || !self.is_closed {
            return Kind::Other;
        }
        match (self.method.get(), self.id.get()) {
            (Some(_), Some(id)) => {
                let is_id = matches!(id.first(), Some(b'"' | b'-' | b'0'..=b'9'));
                if is_id { Kind::Request(Bytes::copy_from_slice(id)) } else { Kind::Other }
            }
            (Some(method), None) => match &*unescaped(method) {
                PROGRESS | LOG => Kind::Notice,
                method => {
                    let list = CHANGED.iter().find(|(known, _)| *known == method);
                    list.map_or(Kind::Other, |(_, list)| Kind::Changed(*list))
                }
            },
            (None, Some(id)) => {
                let number = std::str::from_utf8(id).ok().and_then(|text| text.parse().ok());
                number.map_or(Kind::Other, Kind::Answer)
            }
            _ => Kind::Other,
        }
    }
}

/// Returns a method without the escapes that some servers write before a slash.
fn unescaped(method: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', method).is_none() {
        return Cow::Borrowed(method);
    }
    let escapes = |at: &usize| method[*at] == b'\\' && method.get(at + 1) == Some(&b'/');
    (0..method.len()).filter(|at| !escapes(at)).map(|at| method[at]).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn skim(pieces: &[&[u8]]) -> Kind {
        let mut skim = Skim::default();
        pieces.iter().for_each(|piece| skim.feed(piece));
        skim.end()
    }

    fn request(id: &'static str) -> Kind {
        Kind::Request(Bytes::from_static(id.as_bytes()))
    }

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let long = format!(r#"{{"id":{},"result":1}}"#, "1".repeat(MAX_VALUE + 1));
        let deep = format!(r#"{{"result":{}{},"id":9}}"#, "[".repeat(100_000), "]".repeat(100_000));
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Kind::Answer(7)),
            (r#" {"result":{"id":8,"a":["id",{"id":9}]}, "id" : 7 , "jsonrpc":"2.0"} "#, Kind::Answer(7)),
            (r#"{"result":"\"id\":8,","id":7}"#, Kind::Answer(7)),
            (r#"{"result":"\\","id":7}"#, Kind::Answer(7)),
            (r#"{"error":{"code":-1,"message":"},\"id\":8"},"id":7}"#, Kind::Answer(7)),
            (r#"{"id":7,"method":null,"result":1}"#, Kind::Answer(7)),
            (&deep, Kind::Answer(9)),
            (r#"{"id":"a,}1","method":"ping"}"#, request(r#""a,}1""#)),
            (r#"{"method":"roots/list","id":3}"#, request("3")),
            (r#"{"method":"notifications/tools/list_changed"}"#, Kind::Changed(ListKind::Tools)),
            (
                r#"{"method":"notifications/tools/list_changed","params":{"id":1,"method":"x"}}"#,
                Kind::Changed(ListKind::Tools),
            ),
            (r#"{"method":"notifications\/tools\/list_changed"}"#, Kind::Changed(ListKind::Tools)),
            (r#"{"method":"notifications/prompts/list_changed"}"#, Kind::Changed(ListKind::Prompts)),
            (r#"{"method":"notifications/resources/list_changed"}"#, Kind::Changed(ListKind::Resources)),
            (r#"{"method":"notifications/progress","params":{"id":1}}"#, Kind::Notice),
            (r#"{"params":{},"method":"notifications\/message"}"#, Kind::Notice),
            // Not for anybody.
            (r#"{"method":"notifications/resources/updated","params":{"id":1}}"#, Kind::Other),
            (r#"{"id":"7","result":1}"#, Kind::Other),
            (r#"{"id":7.0,"result":1}"#, Kind::Other),
            (r#"{"id":-7,"result":1}"#, Kind::Other),
            (r#"{"id":null,"result":1}"#, Kind::Other),
            (r#"{"id":[7],"method":"ping"}"#, Kind::Other),
            (r#"{"id":7,"id":8,"result":1}"#, Kind::Other),
            (r#"{"ids":7,"xid":8,"idx":9}"#, Kind::Other),
            (r#"{"id":7"#, Kind::Other),
            (r#"{"id":7}}"#, Kind::Other),
            (r#"{"id":7}{"id":8}"#, Kind::Other),
            (r#"[{"id":7}]"#, Kind::Other),
            (r#""id":7"#, Kind::Other),
            ("listening on stdio", Kind::Other),
            ("", Kind::Other),
            ("}}}}", Kind::Other),
            ("]", Kind::Other),
            (&long, Kind::Other),
        ] {
            let bytes = text.as_bytes();
            assert_eq!(skim(&[bytes]), expected, "{}", &text[..text.len().min(80)]);
            if bytes.len() < 200 {
                assert_eq!(skim(&bytes.chunks(1).collect::<Vec<_>>()), expected, "{text}, byte by byte");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike_in_pieces(bytes in "[\\[\\]{}:,\"\\\\a-d0-9 id]{0,60}", cut in 0..60_usize) {
            let bytes = bytes.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(skim(&[bytes]), skim(&[&bytes[..cut], &bytes[cut..]]));
        }

        #[test]
        fn the_id_of_an_answer_is_that_of_the_parser(id in any::<u64>(), text in ".*", first in any::<bool>()) {
            let result = serde_json::json!({"text": text, "id": [1], "nested": {"id": text}});
            let message = match first {
                true => format!(r#"{{"id":{id},"result":{result}}}"#),
                false => format!(r#"{{"result":{result},"id":{id}}}"#),
            };
            prop_assert_eq!(skim(&[message.as_bytes()]), Kind::Answer(id));
        }
    }
}

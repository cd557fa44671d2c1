//! What a server sends, read as a call reads it: for `fuzz/`.

use bytes::Bytes;
use tamis_engine::ResponseType;

use super::message::{self, Reply};
use super::result::{self, ToolAnswer};
use super::sse::{EventParser, TooLarge};
use crate::relay::Kinds;
use crate::upstream::Output;

/// An answer in a stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The data of the event that holds it.
    pub event: Bytes,
    /// The result, as JSON; none for an error.
    pub result: Option<Bytes>,
    /// The output of a tool that the result stands for, and whether it is JSON; none if it stands for none.
    pub output: Option<(Bytes, bool)>,
    /// The content that is not text.
    pub media: Vec<Bytes>,
}

/// Returns the answers to the request with the id 1 in a stream that comes in pieces of this size, until an event has more
/// than `limit` bytes. `is_text`: the tool is declared to return text.
#[must_use]
pub fn answers(stream: &[u8], piece: usize, limit: usize, is_text: bool) -> Vec<Answered> {
    let mut parser = EventParser::new(limit);
    let mut answers = Vec::new();
    for mut piece in stream.chunks(piece.max(1)) {
        if let Some(capacity) = parser.growth(piece.len()) {
            parser.grow(capacity);
        }
        let capacity = parser.capacity();
        loop {
            match parser.next(&mut piece) {
                Ok(Some(event)) => answers.extend(read(event.into(), is_text)),
                Ok(None) => break,
                Err(TooLarge) => return answers,
            }
        }
        assert!(parser.capacity() <= capacity.max(limit), "no more room is taken than was made");
    }
    answers
}

fn read(event: Bytes, is_text: bool) -> Option<Answered> {
    let result = match message::read(&event, 1, Kinds { progress: true, logs: true }).ok()?.answer? {
        Reply::Result(result) => result,
        Reply::Error(_) => return Some(Answered { event, result: None, output: None, media: Vec::new() }),
    };
    let declared = is_text.then_some(ResponseType::Text);
    let (output, media) = match result::read(&result, declared) {
        Ok(ToolAnswer::Done { output: Output::Json(json), media, .. }) => (Some((json, true)), media),
        Ok(ToolAnswer::Done { output: Output::Text(text), media, .. }) => (Some((text, false)), media),
        Ok(ToolAnswer::Failed(_) | ToolAnswer::InputRequired(_)) | Err(_) => (None, Vec::new()),
    };
    Some(Answered { event, result: Some(result), output, media })
}

//! Reads the lines of a program within bounds.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::FLOODED;
use super::process::{Next, Shared};
use super::skim::{Kind, Skim};
use crate::memory::{Exhausted, Reservation};

/// Bytes that are read at once.
const CHUNK: usize = 32 << 10;
/// Bytes of a line that may be held while no call waits.
pub(super) const IDLE_LIMIT: u64 = 64 << 10;
/// Bytes of one line that are skipped at most.
pub(super) const MAX_SKIPPED: u64 = 256 << 20;

/// A line from the program.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct Line {
    pub(in crate::upstream::mcp) kind: Kind,
    /// Bytes of the line.
    pub(in crate::upstream::mcp) length: u64,
    /// The line with its memory, if it was kept.
    pub(in crate::upstream::mcp) text: Result<(Bytes, Reservation), Lost>,
}

/// Why the text of a line was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream::mcp) enum Lost {
    /// It is larger than any call that waits allows.
    TooLarge,
    /// There was no memory for it.
    Exhausted,
}

/// A line that has not ended.
#[derive(Debug, Default)]
struct Partial {
    skim: Skim,
    length: u64,
    text: Vec<u8>,
    lost: Option<Lost>,
}

impl Partial {
    /// Adds bytes, and reserves memory for them before.
    async fn push(&mut self, bytes: &[u8], limit: u64, held: &mut Reservation) {
        self.skim.feed(bytes);
        self.length += bytes.len() as u64;
        if self.lost.is_some() {
            return;
        }
        if self.length > limit {
            return self.lose(Lost::TooLarge, held);
        }
        let (old, needed) = (self.text.capacity(), self.text.len() + bytes.len());
        if needed > old {
            let new = needed.max(2 * old).max(512);
            // The old buffer exists until it has been copied.
            if let Err(Exhausted) = held.take(new as u64).await {
                return self.lose(Lost::Exhausted, held);
            }
            let mut text = Vec::with_capacity(new);
            text.extend_from_slice(&self.text);
            self.text = text;
            held.release(old as u64);
        }
        self.text.extend_from_slice(bytes);
    }

    fn lose(&mut self, why: Lost, held: &mut Reservation) {
        held.release(self.text.capacity() as u64);
        self.text = Vec::new();
        self.lost = Some(why);
    }

    /// Ends the line.
    fn end(&mut self, held: &mut Reservation) -> Line {
        let Self { skim, length, text, lost } = std::mem::take(self);
        let text = match lost {
            Some(lost) => Err(lost),
            None => {
                let reserved = text.capacity() as u64;
                Ok((Bytes::from(text), held.split(reserved)))
            }
        };
        Line { kind: skim.end(), length, text }
    }
}

/// Reads lines until the end of the output, or until the program has written too much that is no answer. Returns the category of
/// the latter. `refuse` gets the ids of the server's requests.
pub(super) async fn read(
    mut stdout: impl AsyncRead + Unpin,
    shared: &Shared,
    held: &mut Reservation,
    refuse: impl Fn(Bytes),
) -> Option<&'static str> {
    let mut chunk = vec![0; CHUNK];
    let mut partial = Partial::default();
    loop {
        let skipped = if partial.lost.is_some() { partial.length } else { 0 };
        match shared.next(skipped) {
            Next::Read => {}
            Next::Pause => shared.until_work().await,
            Next::End => return Some(FLOODED),
        }
        let Ok(read @ 1..) = stdout.read(&mut chunk).await else { return None };
        let mut rest = &chunk[..read];
        let limit = shared.limit();
        while let Some(end) = memchr::memchr(b'\n', rest) {
            partial.push(&rest[..end], limit, held).await;
            rest = &rest[end + 1..];
            if let Some(id) = shared.take(partial.end(held)) {
                refuse(id);
            }
        }
        if !rest.is_empty() {
            partial.push(rest, limit, held).await;
        }
    }
}

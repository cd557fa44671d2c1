//! Messages of gRPC on the wire: a mark, a length, and the bytes.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Bytes before a message.
const HEAD: usize = 5;

/// Returns a message as it is sent, uncompressed.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + message.len());
    frame.put_u8(0);
    // The arguments of a call are far smaller.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.extend_from_slice(message);
    frame.freeze()
}

/// What is wrong with what a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadFrame {
    TooLarge,
    Malformed,
}

/// A message, as it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) is_compressed: bool,
    pub(super) message: Bytes,
}

/// Takes messages out of the pieces of a body.
#[derive(Debug, Default)]
pub(super) struct Frames(BytesMut);

impl Frames {
    /// Adds a piece of the body.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// Returns the next message that is there as a whole, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`BadFrame`], as soon as the beginning of a message says so.
    pub(super) fn next(&mut self, limit: u64) -> Result<Option<Frame>, BadFrame> {
        let Some(head) = self.0.first_chunk::<HEAD>() else { return Ok(None) };
        let [mark, length @ ..] = *head;
        let length = u32::from_be_bytes(length);
        if mark > 1 {
            return Err(BadFrame::Malformed);
        }
        if u64::from(length) > limit {
            return Err(BadFrame::TooLarge);
        }
        let length = usize::try_from(length).map_err(|_| BadFrame::TooLarge)?;
        if self.0.len() - HEAD < length {
            return Ok(None);
        }
        self.0.advance(HEAD);
        Ok(Some(Frame { is_compressed: mark == 1, message: self.0.split_to(length).freeze() }))
    }

    /// Returns whether the body ended between two messages.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_any_pieces() {
        let mut body = framed(b"one").to_vec();
        body.extend_from_slice(&framed(b""));
        body.extend_from_slice(&[1, 0, 0, 0, 2, 7, 8]);
        for size in 1..=body.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in body.chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.next(3).expect("is valid") {
                    found.push((frame.is_compressed, frame.message.to_vec()));
                }
            }
            assert_eq!(found, [(false, b"one".to_vec()), (false, vec![]), (true, vec![7, 8])], "{size}");
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn the_beginning_of_a_message_is_enough_to_refuse_it() {
        for (head, expected) in [
            (&[0, 0, 0, 0, 4][..], Err(BadFrame::TooLarge)),
            (&[1, 255, 255, 255, 255], Err(BadFrame::TooLarge)),
            (&[2, 0, 0, 0, 0], Err(BadFrame::Malformed)),
            (&[0, 0, 0, 0, 3, 1, 2], Ok(None)),
            (&[0, 0, 0], Ok(None)),
        ] {
            let mut frames = Frames::default();
            frames.push(head);
            assert_eq!(frames.next(3), expected, "{head:?}");
            assert!(!frames.is_empty());
        }
    }
}

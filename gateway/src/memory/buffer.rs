//! A body that is received piece by piece, with its memory reserved in advance.

use bytes::{Bytes, BytesMut};

use super::{Exhausted, Reservation};

/// The part of a body that has arrived. Pieces are copied into one buffer, so that many small pieces cost no more than
/// their bytes. A body of one piece is not copied.
pub(crate) struct Buffer<'a> {
    held: &'a mut Reservation,
    reserved: u64,
    expected: usize,
    state: State,
}

enum State {
    Empty,
    One(Bytes),
    Many(BytesMut),
}

impl<'a> Buffer<'a> {
    /// Begins a body. A stated length is reserved before anything is read.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub(crate) async fn new(held: &'a mut Reservation, stated: Option<u64>) -> Result<Self, Exhausted> {
        let reserved = stated.unwrap_or(0);
        held.take(reserved).await?;
        let expected = usize::try_from(reserved).unwrap_or(usize::MAX);
        Ok(Self { held, reserved, expected, state: State::Empty })
    }

    /// Returns the number of bytes that have arrived.
    pub(crate) fn len(&self) -> usize {
        match &self.state {
            State::Empty => 0,
            State::One(bytes) => bytes.len(),
            State::Many(bytes) => bytes.len(),
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub(crate) async fn push(&mut self, piece: Bytes) -> Result<(), Exhausted> {
        let len = self.len() + piece.len();
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Empty => {
                self.reserve(len).await?;
                self.state = State::One(piece);
            }
            State::One(first) => {
                let mut all = self.allocate(len, first.len()).await?;
                all.extend_from_slice(&first);
                all.extend_from_slice(&piece);
                self.state = State::Many(all);
            }
            State::Many(mut all) => {
                if len > all.capacity() {
                    let mut larger = self.allocate(len.max(2 * all.len()), all.len()).await?;
                    larger.extend_from_slice(&all);
                    all = larger;
                }
                all.extend_from_slice(&piece);
                self.state = State::Many(all);
            }
        }
        Ok(())
    }

    async fn reserve(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let missing = (bytes as u64).saturating_sub(self.reserved);
        self.held.take(missing).await?;
        self.reserved += missing;
        Ok(())
    }

    /// Allocates a buffer while the previous one, of `old` bytes, still exists.
    async fn allocate(&mut self, least: usize, old: usize) -> Result<BytesMut, Exhausted> {
        let capacity = least.max(self.expected);
        self.reserve(capacity).await?;
        self.held.take(old as u64).await?;
        let all = BytesMut::with_capacity(capacity);
        self.held.release(old as u64);
        Ok(all)
    }

    /// Returns the body. Its memory stays reserved.
    pub(crate) fn finish(mut self) -> Bytes {
        self.reserved = 0;
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Empty => Bytes::new(),
            State::One(bytes) => bytes,
            State::Many(bytes) => bytes.freeze(),
        }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.held.release(self.reserved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::STEP;

    #[tokio::test]
    async fn pieces_become_one_body() {
        let mut held = Reservation::alone(1 << 20).unwrap();
        let cases: [(&[&str], Option<u64>); 6] = [
            (&[], None),
            (&["all"], Some(3)),
            (&["all"], None),
            (&["a", "b", "c", "d", "e"], None),
            (&["ab", "cde"], Some(5)),
            (&["ab", "cde", "f"], Some(2)),
        ];
        for (pieces, stated) in cases {
            let mut buffer = Buffer::new(&mut held, stated).await.unwrap();
            for piece in pieces {
                buffer.push(Bytes::copy_from_slice(piece.as_bytes())).await.unwrap();
            }
            let expected = pieces.concat();
            assert_eq!(buffer.len(), expected.len());
            assert_eq!(buffer.finish(), expected, "{pieces:?}");
            assert!(held.used >= expected.len() as u64);
            held.shrink_to(0);
        }
    }

    #[tokio::test]
    async fn a_stated_length_is_reserved_before_and_an_unstated_one_as_it_comes() {
        let mut held = Reservation::alone(8 * STEP).unwrap();
        assert!(Buffer::new(&mut held, Some(9 * STEP)).await.is_err());
        assert_eq!(held.used, 0);
        {
            let mut buffer = Buffer::new(&mut held, Some(4 * STEP)).await.unwrap();
            buffer.push(Bytes::from(vec![0; 100])).await.unwrap();
        }
        assert_eq!(held.used, 0, "a body that is given up gives all back");
        let mut buffer = Buffer::new(&mut held, None).await.unwrap();
        let mut most = 0;
        for _ in 0..8 * 1024 {
            match buffer.push(Bytes::from(vec![0; 100])).await {
                Ok(()) => most = buffer.len() as u64,
                Err(Exhausted) => break,
            }
        }
        // It grows by doubling, with the old and the new one there at once.
        assert!((2 * STEP..8 * STEP).contains(&most), "{most}");
        drop(buffer);
        assert_eq!(held.used, 0);
    }
}

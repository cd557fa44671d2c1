//! Decodes gzip piece by piece: all of its members (RFC 1952, 2.2), up to a limit.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// Why a body was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GunzipError {
    /// The body is larger than allowed.
    TooLarge,
    /// The body is not gzip, or ends within a member.
    Malformed,
}

/// A decoder that is fed piece by piece.
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Bounded>,
    is_empty: bool,
}

/// A buffer with a limit.
struct Bounded {
    out: Vec<u8>,
    limit: usize,
    is_exceeded: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit - self.out.len();
        if bytes.len() > room {
            self.is_exceeded = true;
        }
        let taken = bytes.len().min(room);
        self.out.extend_from_slice(&bytes[..taken]);
        if self.is_exceeded { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Gunzip {
    /// Makes a decoder that returns at most `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let out = Bounded { out: Vec::new(), limit, is_exceeded: false };
        Self { decoder: MultiGzDecoder::new(out), is_empty: true }
    }

    /// Decodes the next piece.
    ///
    /// # Errors
    /// [`GunzipError`].
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), GunzipError> {
        self.is_empty &= piece.is_empty();
        self.decoder.write_all(piece).map_err(|_| self.error())
    }

    /// Returns what the decoder has written so far.
    pub(super) fn decoded(&self) -> &[u8] {
        &self.decoder.get_ref().out
    }

    /// Returns all that can be decoded of what was fed since the last time. The limit holds for all of it together.
    ///
    /// # Errors
    /// [`GunzipError`].
    pub(super) fn drain(&mut self) -> Result<Bytes, GunzipError> {
        self.decoder.flush().map_err(|_| self.error())?;
        let bounded = self.decoder.get_mut();
        bounded.limit -= bounded.out.len();
        Ok(std::mem::take(&mut bounded.out).into())
    }

    /// Returns the bytes that are allocated for the output.
    pub(super) fn capacity(&self) -> usize {
        self.decoder.get_ref().out.capacity()
    }

    /// Ends the input and returns the output. An empty body has no member.
    ///
    /// # Errors
    /// [`GunzipError`].
    pub(super) fn finish(mut self) -> Result<Bytes, GunzipError> {
        if !self.is_empty {
            self.decoder.try_finish().map_err(|_| self.error())?;
        }
        Ok(self.so_far())
    }

    /// Returns what has been decoded so far, even after an error.
    pub(super) fn so_far(mut self) -> Bytes {
        // Writes what the decoder still holds, up to the limit.
        let _ = self.decoder.flush();
        std::mem::take(&mut self.decoder.get_mut().out).into()
    }

    fn error(&self) -> GunzipError {
        if self.decoder.get_ref().is_exceeded { GunzipError::TooLarge } else { GunzipError::Malformed }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(body: &[u8], piece: usize, limit: u64) -> Result<Bytes, GunzipError> {
        let mut gunzip = Gunzip::new(limit);
        body.chunks(piece).try_for_each(|piece| gunzip.feed(piece))?;
        gunzip.finish()
    }

    #[test]
    fn all_members_are_decoded_however_they_come() {
        let body = [member(b"[1,"), member(b""), member(b"2]")].concat();
        for piece in [1, 2, 7, 18, body.len()] {
            assert_eq!(decoded(&body, piece, 100).unwrap(), "[1,2]", "{piece}");
        }
        assert_eq!(decoded(&[], 1, 100).unwrap(), "");
    }

    #[test]
    fn what_was_fed_is_drained_at_once() {
        let (first, second) = (member(b"data: 1\n\n"), member(b"data: 2\n\n"));
        let mut gunzip = Gunzip::new(18);
        for (piece, expected) in [(&first, "data: 1\n\n"), (&second, "data: 2\n\n"), (&member(b""), "")] {
            gunzip.feed(piece).unwrap();
            assert_eq!(gunzip.drain().unwrap(), expected);
        }
        gunzip.feed(&member(b"!")).and_then(|()| gunzip.drain()).expect_err("more than the limit");
        let mut flushed = GzEncoder::new(Vec::new(), Compression::default());
        flushed.write_all(b"data: 1\n\n").unwrap();
        flushed.flush().unwrap();
        let mut gunzip = Gunzip::new(100);
        gunzip.feed(flushed.get_ref()).unwrap();
        assert_eq!(gunzip.drain().unwrap(), "data: 1\n\n", "in the middle of a member");
    }

    #[test]
    fn members_together_stay_within_one_bound() {
        let body = [member(&[b' '; 60]), member(&[b' '; 60])].concat();
        assert_eq!(decoded(&body, 9, 120).unwrap().len(), 120);
        assert_eq!(decoded(&body, 9, 119), Err(GunzipError::TooLarge));
        let bomb = member(&vec![0; 32 << 20]);
        let mut refused = None;
        let measured = allocation_counter::measure(|| refused = Some(decoded(&bomb, usize::MAX, 64 << 10)));
        assert_eq!(refused, Some(Err(GunzipError::TooLarge)));
        assert!(measured.bytes_max < 512 << 10, "{} bytes", measured.bytes_max);
    }

    #[test]
    fn a_member_that_is_cut_or_followed_by_anything_else_is_refused() {
        let whole = member(b"[1,2]");
        for end in 1..whole.len() {
            assert_eq!(decoded(&whole[..end], 5, 100), Err(GunzipError::Malformed), "{end}");
        }
        assert_eq!(decoded(&[&whole[..], b"more"].concat(), 5, 100), Err(GunzipError::Malformed));
        assert_eq!(decoded(b"not compressed", 5, 100), Err(GunzipError::Malformed));
    }
}

//! Bytes in a chain of buffers, which are written to a connection together.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use super::Reservation;

/// Bytes in one or more buffers. Bytes that were appended are never copied again.
///
/// A chain of one buffer, such as a small answer, allocates that buffer and nothing else. As a [`Buf`], it hands all its
/// buffers to one vectored write, and drops each as soon as it is read.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The buffers before the last one. Each has unread bytes.
    sealed: VecDeque<Bytes>,
    /// The last buffer, to which text is appended.
    last: Vec<u8>,
    /// The bytes of `last` that were read.
    read: usize,
    /// The capacity of the buffers that were sealed and not shared.
    capacity: usize,
}

impl From<Vec<u8>> for Chain {
    fn from(last: Vec<u8>) -> Self {
        Self { last, ..Self::default() }
    }
}

impl Chain {
    /// Appends a buffer.
    pub(crate) fn push(&mut self, buffer: Vec<u8>) {
        self.seal();
        self.last = buffer;
    }

    /// Appends the buffers of another chain.
    pub(crate) fn append(&mut self, other: Self) {
        let Self { mut sealed, last, read, capacity } = other;
        self.seal();
        self.sealed.append(&mut sealed);
        (self.last, self.read) = (last, read);
        self.capacity += capacity;
    }

    /// Appends text, in place if the last buffer has room for it.
    pub(crate) fn put(&mut self, text: &[u8]) {
        if self.last.capacity() - self.last.len() < text.len() {
            self.push(Vec::with_capacity(text.len()));
        }
        self.last.extend_from_slice(text);
    }

    /// Closes the last buffer, if it has bytes.
    fn seal(&mut self) {
        let last = std::mem::take(&mut self.last);
        let read = std::mem::take(&mut self.read);
        if last.len() > read {
            self.capacity += last.capacity();
            let mut last = Bytes::from(last);
            last.advance(read);
            self.sealed.push_back(last);
        }
    }

    /// Returns the number of bytes that have not been read.
    pub(crate) fn len(&self) -> usize {
        self.buffers().map(<[u8]>::len).sum()
    }

    /// Returns whether all bytes have been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.read == self.last.len()
    }

    /// Returns the memory of all buffers in bytes, including buffers that have been read. Shared buffers have a
    /// reservation of their own.
    pub(crate) fn memory(&self) -> usize {
        self.capacity + self.last.capacity()
    }

    /// Returns the unread bytes for a second reader. Nothing is copied. The memory of the chain is moved from `held` to
    /// the last buffer, and released when both readers have dropped that one.
    pub(crate) fn share(&mut self, held: &mut Reservation) -> Shared {
        self.seal();
        if let Some(bytes) = self.sealed.pop_back() {
            let held = held.split(std::mem::take(&mut self.capacity) as u64);
            self.sealed.push_back(Bytes::from_owner(HeldBytes { bytes, _held: held }));
        }
        Shared(self.sealed.iter().cloned().collect())
    }

    /// Returns the unread bytes, in order. The last buffer may be empty.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        self.sealed.iter().map(|buffer| &buffer[..]).chain([&self.last[self.read..]])
    }
}

impl Buf for Chain {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        self.sealed.front().map_or(&self.last[self.read..], |first| first)
    }

    fn chunks_vectored<'a>(&'a self, to: &mut [IoSlice<'a>]) -> usize {
        let slices = to.iter_mut().zip(self.buffers().filter(|buffer| !buffer.is_empty()));
        slices.map(|(slice, buffer)| *slice = IoSlice::new(buffer)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.sealed.front_mut() {
            if count < first.len() {
                return first.advance(count);
            }
            count -= first.len();
            self.sealed.pop_front();
        }
        assert!(count <= self.last.len() - self.read, "the chain has fewer bytes");
        self.read += count;
    }
}

/// A buffer, with the memory that is reserved for its chain.
struct HeldBytes {
    bytes: Bytes,
    _held: Reservation,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The buffers of a chain, for a reader that needs them all at once.
pub(crate) struct Shared(Vec<Bytes>);

impl Shared {
    /// Returns the buffers, in order.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|buffer| &buffer[..])
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} bytes)", self.len())
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;

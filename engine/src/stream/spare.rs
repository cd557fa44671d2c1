//! Buffers that a thread keeps from one run for the next, so that filtering a small document allocates little besides its
//! output. They are kept empty, and only while they are small.

use std::cell::Cell;
use std::thread::LocalKey;

/// Takes what the thread keeps; nothing in the code of other thread-local values at the end of a thread.
pub(super) fn take<T: Default>(place: &'static LocalKey<Cell<T>>) -> T {
    place.try_with(Cell::take).unwrap_or_default()
}

/// Keeps `spare` for the next run of this thread.
pub(super) fn keep<T: Default>(place: &'static LocalKey<Cell<T>>, spare: T) {
    // At the end of the thread there is no next run.
    let _ = place.try_with(|place| place.set(spare));
}

/// Returns a buffer as it is kept: empty, and without its memory if that is more than `most` bytes.
pub(super) fn emptied<T>(buffer: &mut Vec<T>, most: usize) -> Vec<T> {
    let mut buffer = std::mem::take(buffer);
    if buffer.capacity().saturating_mul(size_of::<T>()) > most {
        return Vec::new();
    }
    buffer.clear();
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_buffer_is_kept_empty_and_a_large_one_is_not_kept() {
        thread_local!(static PLACE: Cell<Vec<u64>> = const { Cell::new(Vec::new()) });
        let capacity = |values: usize| {
            let mut buffer: Vec<u64> = Vec::with_capacity(values);
            buffer.push(7);
            keep(&PLACE, emptied(&mut buffer, 800));
            let kept = take(&PLACE);
            assert!(kept.is_empty());
            kept.capacity()
        };
        assert_eq!(capacity(100), 100);
        assert_eq!(capacity(101), 0);
        assert_eq!(take(&PLACE).capacity(), 0, "it was taken");
    }
}

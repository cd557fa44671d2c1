//! Classifies the bytes of a block. This is the only module with `unsafe`.
//!
//! Each function takes a whole block by reference and returns one bit for each byte; the lowest bit is the first
//! byte. On x86-64 the functions use SSE2, which every x86-64 processor has; elsewhere plain integers. Nothing
//! depends on the position of a block in a document, so each function is tested against the obvious loop.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    /// The bytes that end the plain part of a string: `"`, `\`, control characters, and all non-ASCII bytes.
    #[inline(always)]
    fn special16(chunk: &[u8; 16]) -> u32 {
        // SAFETY: SSE2 belongs to the x86-64 baseline, so the intrinsics exist on every machine that runs this. The
        // load reads the 16 bytes that `chunk` borrows, and has no alignment requirement.
        unsafe {
            let v = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            let quote = _mm_cmpeq_epi8(v, _mm_set1_epi8(b'"' as i8));
            let escape = _mm_cmpeq_epi8(v, _mm_set1_epi8(b'\\' as i8));
            // As signed bytes, 0x80..=0xff are negative: one comparison finds them and the control characters.
            let low = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, escape), low)).cast_unsigned()
        }
    }

    /// As `special16`, without the non-ASCII bytes.
    #[inline(always)]
    fn stop16(chunk: &[u8; 16]) -> u32 {
        use std::arch::x86_64::_mm_min_epu8;
        // SAFETY: as in `special16`.
        unsafe {
            let v = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            let quote = _mm_cmpeq_epi8(v, _mm_set1_epi8(b'"' as i8));
            let escape = _mm_cmpeq_epi8(v, _mm_set1_epi8(b'\\' as i8));
            // Unsigned `v <= 0x1f`, which SSE2 has only as a minimum.
            let control = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, escape), control)).cast_unsigned()
        }
    }

    /// Space, tab, line feed, carriage return.
    #[inline(always)]
    pub(in crate::stream) fn blank16(chunk: &[u8; 16]) -> u32 {
        // SAFETY: as in `special16`.
        unsafe {
            let v = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            let is = |b: u8| _mm_cmpeq_epi8(v, _mm_set1_epi8(b as i8));
            let ends = _mm_or_si128(is(b'\n'), is(b'\r'));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(is(b' '), is(b'\t')), ends)).cast_unsigned()
        }
    }

    /// The digits.
    #[inline(always)]
    pub(in crate::stream) fn digits16(chunk: &[u8; 16]) -> u32 {
        use std::arch::x86_64::_mm_add_epi8;
        // SAFETY: as in `special16`.
        unsafe {
            let v = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            // The digits become the ten lowest signed bytes.
            let shifted = _mm_add_epi8(v, _mm_set1_epi8(i8::MIN.wrapping_sub(b'0' as i8)));
            _mm_movemask_epi8(_mm_cmplt_epi8(shifted, _mm_set1_epi8(i8::MIN + 10))).cast_unsigned()
        }
    }

    /// Letters, digits, `_` and `.`.
    #[inline(always)]
    pub(crate) fn name16(chunk: &[u8; 16]) -> u32 {
        use std::arch::x86_64::_mm_add_epi8;
        // SAFETY: as in `special16`.
        unsafe {
            let v = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            let is = |b: u8| _mm_cmpeq_epi8(v, _mm_set1_epi8(b as i8));
            // The letters become the 26 lowest signed bytes, once capitals are small. No other byte becomes one.
            let small = _mm_or_si128(v, _mm_set1_epi8(0x20));
            let from_a = _mm_add_epi8(small, _mm_set1_epi8(i8::MIN.wrapping_sub(b'a' as i8)));
            let letters = _mm_cmplt_epi8(from_a, _mm_set1_epi8(i8::MIN + 26));
            let marks = _mm_or_si128(is(b'_'), is(b'.'));
            _mm_movemask_epi8(_mm_or_si128(letters, marks)).cast_unsigned() | digits16(chunk)
        }
    }

    /// `:`, brackets and braces, and `delimiter`.
    #[inline(always)]
    fn mark16(chunk: &[u8; 16], delimiter: u8) -> u32 {
        // SAFETY: as in `special16`.
        unsafe {
            let v = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            // `[` and `{` differ in this bit, as `]` and `}` do.
            let braces = _mm_or_si128(v, _mm_set1_epi8(0x20));
            let is = |v: __m128i, b: u8| _mm_cmpeq_epi8(v, _mm_set1_epi8(b as i8));
            let pairs = _mm_or_si128(is(braces, b'{'), is(braces, b'}'));
            let single = _mm_or_si128(is(v, b':'), is(v, delimiter));
            _mm_movemask_epi8(_mm_or_si128(pairs, single)).cast_unsigned()
        }
    }

    #[inline(always)]
    pub(crate) fn mark32(chunk: &[u8; 32], delimiter: u8) -> u32 {
        let (a, b) = halves(chunk);
        mark16(a, delimiter) | mark16(b, delimiter) << 16
    }

    #[inline(always)]
    fn equal16(a: &[u8; 16], b: &[u8; 16]) -> u32 {
        // SAFETY: as in `special16`, for both arguments.
        unsafe {
            let (a, b) = (_mm_loadu_si128(a.as_ptr().cast::<__m128i>()), _mm_loadu_si128(b.as_ptr().cast::<__m128i>()));
            _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)).cast_unsigned()
        }
    }

    /// The bytes that are the same in both blocks.
    #[inline(always)]
    pub(crate) fn equal32(a: &[u8; 32], b: &[u8; 32]) -> u32 {
        let ((a, b), (c, d)) = (halves(a), halves(b));
        equal16(a, c) | equal16(b, d) << 16
    }

    #[inline(always)]
    fn halves(chunk: &[u8; 32]) -> (&[u8; 16], &[u8; 16]) {
        let (a, b) = chunk.split_at(16);
        (a.first_chunk().expect("16 of 32"), b.first_chunk().expect("16 of 32"))
    }

    #[inline(always)]
    pub(in crate::stream) fn special32(chunk: &[u8; 32]) -> u32 {
        let (a, b) = halves(chunk);
        special16(a) | special16(b) << 16
    }

    #[inline(always)]
    pub(crate) fn stop32(chunk: &[u8; 32]) -> u32 {
        let (a, b) = halves(chunk);
        stop16(a) | stop16(b) << 16
    }
}

/// The same functions on 64-bit integers, eight bytes at a time.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    const REST: u64 = !TOPS;

    /// Returns the top bit of each byte of `word` that is zero. Exact: no carry crosses a byte.
    #[inline(always)]
    fn zero(word: u64) -> u64 {
        !(((word & REST) + REST) | word | REST)
    }

    #[inline(always)]
    fn equal(word: u64, byte: u8) -> u64 {
        zero(word ^ (ONES * u64::from(byte)))
    }

    /// Bytes below 0x20: the three top bits are zero.
    #[inline(always)]
    fn control(word: u64) -> u64 {
        zero(word & (ONES * 0xe0))
    }

    /// Gathers the top bits of eight bytes into the low eight bits.
    #[inline(always)]
    fn gather(tops: u64) -> u32 {
        ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    }

    #[inline(always)]
    fn each<const N: usize>(chunk: &[u8; N], test: impl Fn(u64) -> u64) -> u32 {
        let words = chunk.as_chunks::<8>().0;
        words.iter().enumerate().fold(0, |mask, (i, word)| mask | gather(test(u64::from_le_bytes(*word))) << (8 * i))
    }

    #[inline(always)]
    pub(in crate::stream) fn special32(chunk: &[u8; 32]) -> u32 {
        each(chunk, |w| equal(w, b'"') | equal(w, b'\\') | control(w) | (w & TOPS))
    }

    #[inline(always)]
    pub(crate) fn stop32(chunk: &[u8; 32]) -> u32 {
        each(chunk, |w| equal(w, b'"') | equal(w, b'\\') | control(w))
    }

    /// `0` to `7` differ from `0` in the lowest three bits, and `8` and `9` in the lowest and the fourth.
    #[inline(always)]
    pub(in crate::stream) fn digits16(chunk: &[u8; 16]) -> u32 {
        each(chunk, |w| {
            let from_zero = w ^ (ONES * u64::from(b'0'));
            zero(from_zero & (ONES * 0xf8)) | zero(from_zero & (ONES * 0xfe) ^ (ONES * 8))
        })
    }

    /// Bytes from `from` to `to`, both below 0x80.
    #[inline(always)]
    fn range(word: u64, from: u8, to: u8) -> u64 {
        // Seven bits cannot carry into the next byte. One sum has the top bit from `from` on, the other above `to`.
        let low = word & REST;
        (low + ONES * u64::from(0x80 - from)) & !(low + ONES * u64::from(0x7f - to)) & !word & TOPS
    }

    #[inline(always)]
    pub(crate) fn name16(chunk: &[u8; 16]) -> u32 {
        each(chunk, |w| {
            let letters = range(w | (ONES * 0x20), b'a', b'z');
            letters | range(w, b'0', b'9') | equal(w, b'_') | equal(w, b'.')
        })
    }

    #[inline(always)]
    pub(crate) fn mark32(chunk: &[u8; 32], delimiter: u8) -> u32 {
        each(chunk, |w| {
            let braces = w | (ONES * 0x20);
            equal(braces, b'{') | equal(braces, b'}') | equal(w, b':') | equal(w, delimiter)
        })
    }

    #[inline(always)]
    pub(crate) fn equal32(a: &[u8; 32], b: &[u8; 32]) -> u32 {
        let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
        words.enumerate().fold(0, |mask, (i, (a, b))| {
            mask | gather(zero(u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b))) << (8 * i)
        })
    }

    #[inline(always)]
    pub(in crate::stream) fn blank16(chunk: &[u8; 16]) -> u32 {
        each(chunk, |w| equal(w, b' ') | equal(w, b'\t') | equal(w, b'\n') | equal(w, b'\r'))
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::{blank16, digits16, special32};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::{equal32, mark32, name16, stop32};
#[cfg(target_arch = "x86_64")]
pub(super) use sse2::{blank16, digits16, special32};
#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::{equal32, mark32, name16, stop32};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn obvious(chunk: &[u8], test: impl Fn(u8) -> bool) -> u32 {
        chunk.iter().enumerate().fold(0, |mask, (i, &b)| mask | u32::from(test(b)) << i)
    }

    fn is_stop(b: u8) -> bool {
        b == b'"' || b == b'\\' || b < 0x20
    }

    fn check(chunk: &[u8; 32]) {
        let half = chunk.first_chunk::<16>().unwrap();
        let special = obvious(chunk, |b| is_stop(b) || b >= 0x80);
        let stop = obvious(chunk, is_stop);
        let blank = obvious(half, |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'));
        let digits = obvious(half, |b| b.is_ascii_digit());
        let name = obvious(half, |b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        let expected = [special, stop, blank, digits, name];
        assert_eq!([special32(chunk), stop32(chunk), blank16(half), digits16(half), name16(half)], expected);
        let [special, stop] = [portable::special32(chunk), portable::stop32(chunk)];
        let [blank, digits, name] = [portable::blank16(half), portable::digits16(half), portable::name16(half)];
        assert_eq!([special, stop, blank, digits, name], expected);
        for delimiter in *b",|\t" {
            let mark = obvious(chunk, |b| b":[]{}".contains(&b) || b == delimiter);
            assert_eq!([mark32(chunk, delimiter), portable::mark32(chunk, delimiter)], [mark; 2]);
        }
    }

    fn check_equal(a: &[u8; 32], b: &[u8; 32]) {
        let equal = (0..32).fold(0, |mask, i| mask | u32::from(a[i] == b[i]) << i);
        assert_eq!([equal32(a, b), portable::equal32(a, b)], [equal; 2]);
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255 {
            for place in 0..32 {
                for fill in [b'a', 0x1f, 0x20, 0x7f, 0x80, 0xff] {
                    let mut chunk = [fill; 32];
                    chunk[place] = byte;
                    check(&chunk);
                    check_equal(&chunk, &[fill; 32]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn random_blocks(chunk: [u8; 32], other: [u8; 32]) {
            check(&chunk);
            check_equal(&chunk, &other);
        }
    }
}

//! Decimal numbers by their digits: compared and rounded exactly, never through a float.

use std::cmp::Ordering;

/// The digits that [`Decimal::fixed`] may write; numbers such as `1e400000` are printed as they are instead.
const MAX_FIXED_DIGITS: i64 = 1000;

/// A JSON number in parts: its value is `0.DIGITS * 10^point`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'n> {
    negative: bool,
    whole: &'n [u8],
    fraction: &'n [u8],
    /// The number of leading zeros of `whole` and `fraction` together.
    skip: usize,
    /// The position of the decimal point relative to the first digit that is not zero.
    point: i64,
}

impl<'n> Decimal<'n> {
    /// Splits a valid JSON number into its parts.
    pub(super) fn parse(text: &'n str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
        let skip = whole.iter().chain(fraction).take_while(|&&b| b == b'0').count();
        let point = exponent.saturating_add(length(whole)).saturating_sub(i64::try_from(skip).unwrap_or(i64::MAX));
        Self { negative, whole, fraction, skip, point }
    }

    /// Returns the digits from the first that is not zero.
    fn digits(&self) -> impl Iterator<Item = u8> + 'n {
        self.whole.iter().chain(self.fraction).skip(self.skip).copied()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.skip == self.whole.len() + self.fraction.len()
    }

    /// Returns the exact order of two values; `-0` is 0.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let sign = |d: &Self| match (d.is_zero(), d.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let by_sign = sign(self).cmp(&sign(other));
        if by_sign.is_ne() || self.is_zero() {
            return by_sign;
        }
        let by_size = self.point.cmp(&other.point).then_with(|| {
            let (mut a, mut b) = (self.digits(), other.digits());
            loop {
                match (a.next(), b.next()) {
                    (None, None) => return Ordering::Equal,
                    (a, b) => match a.unwrap_or(b'0').cmp(&b.unwrap_or(b'0')) {
                        Ordering::Equal => {}
                        different => return different,
                    },
                }
            }
        });
        if self.negative { by_size.reverse() } else { by_size }
    }

    /// Returns the number with `places` decimals, rounding a tie to the even digit; `None` if it would have too many
    /// digits.
    pub(super) fn fixed(&self, places: usize) -> Option<String> {
        if self.point > MAX_FIXED_DIGITS {
            return None;
        }
        let places = i64::try_from(places).ok()?;
        // The digits of `0.DIGITS * 10^point` that stay: those before the point, and `places` after it.
        let kept = usize::try_from(self.point.saturating_add(places)).ok();
        let mut digits: Vec<u8> = self.digits().take(kept.unwrap_or(0)).collect();
        if let Some(kept) = kept {
            let mut rest = self.digits().skip(kept);
            let first = rest.next().unwrap_or(b'0');
            let more = rest.any(|b| b != b'0');
            let odd = digits.last().is_some_and(|b| (b - b'0') % 2 == 1);
            if digits.len() == kept && (first > b'5' || first == b'5' && (more || odd)) {
                increment(&mut digits);
            }
            // A carry adds a digit.
            let carried = digits.len().saturating_sub(kept);
            digits.resize(kept + carried, b'0');
        }
        let places = usize::try_from(places).ok()?;
        while digits.len() <= places {
            digits.insert(0, b'0');
        }
        let at = digits.len() - places;
        let mut out = String::with_capacity(digits.len() + 2);
        if self.negative {
            out.push('-');
        }
        out.extend(digits[..at].iter().map(|&b| char::from(b)));
        if places > 0 {
            out.push('.');
            out.extend(digits[at..].iter().map(|&b| char::from(b)));
        }
        Some(out)
    }
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            return;
        }
    }
    digits.insert(0, b'1');
}

fn exponent(text: &str) -> i64 {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    // Beyond any number of digits that fits into memory, only the sign matters.
    let value = digits.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    if negative { -value } else { value }
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

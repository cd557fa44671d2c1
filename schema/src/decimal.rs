//! Compares numbers as exact decimals. An `f64` cannot distinguish 2^53 from 2^53 + 1.

use std::cmp::Ordering;

/// A number as `0.DIGITS * 10^exponent`, without zeros at either end of the digits. Zero has no digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    /// The significant digits, before and after the decimal point.
    digits: (&'a [u8], &'a [u8]),
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Parses a JSON number. Returns `None` for anything else, and for an exponent of more than 17 digits.
    pub(crate) fn parse(raw: &'a str) -> Option<Self> {
        let bytes = raw.as_bytes();
        let (negative, bytes) = match bytes.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        if !bytes.first()?.is_ascii_digit() {
            return None;
        }
        let (mantissa, exponent) = match bytes.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&bytes[..at], exponent(&raw[raw.len() - bytes.len() + at + 1..])?),
            None => (bytes, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &b""[..]),
        };
        let (digits, point) = match trim_start(whole) {
            [] => {
                let significant = trim_start(fraction);
                // 0.00x: the point moves over the zeros.
                ((&b""[..], trim_end(significant)), -i64::try_from(fraction.len() - significant.len()).ok()?)
            }
            significant => {
                let point = i64::try_from(significant.len()).ok()?;
                let fraction = trim_end(fraction);
                let whole = if fraction.is_empty() { trim_end(significant) } else { significant };
                ((whole, fraction), point)
            }
        };
        let zero = digits.0.is_empty() && digits.1.is_empty();
        let exponent = if zero { 0 } else { exponent.checked_add(point)? };
        Some(Self { negative: negative && !zero, digits, exponent })
    }

    fn all(&self) -> impl Iterator<Item = u8> {
        self.digits.0.iter().chain(self.digits.1).copied()
    }

    /// Returns the number of significant digits.
    fn length(&self) -> usize {
        self.digits.0.len() + self.digits.1.len()
    }

    /// Returns the power of ten of the last significant digit.
    fn last(&self) -> i64 {
        self.exponent - i64::try_from(self.length()).unwrap_or(i64::MAX)
    }

    fn is_zero(&self) -> bool {
        self.length() == 0
    }

    /// Returns whether the number is positive.
    pub(crate) fn is_positive(&self) -> bool {
        !self.negative && !self.is_zero()
    }

    /// Returns whether the number has no fraction.
    pub(crate) fn is_integer(&self) -> bool {
        self.is_zero() || self.last() >= 0
    }

    /// Compares two numbers by value.
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| {
            if number.is_zero() {
                0
            } else if number.negative {
                -1
            } else {
                1
            }
        };
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal if self.is_zero() => Ordering::Equal,
            Ordering::Equal => {
                let size = self.exponent.cmp(&other.exponent).then_with(|| self.all().cmp(other.all()));
                if self.negative { size.reverse() } else { size }
            }
            different => different,
        }
    }

    /// Passes bytes to `feed` that are equal exactly for equal numbers.
    pub(crate) fn feed(&self, mut feed: impl FnMut(u8)) {
        feed(u8::from(self.negative));
        self.exponent.to_le_bytes().into_iter().for_each(&mut feed);
        self.all().for_each(feed);
    }

    /// Returns the divisor for [`Divisor::divides`]; `None` if the number is not positive or has more than 18 digits.
    pub(crate) fn divisor(&self) -> Option<Divisor> {
        let digits = (self.is_positive() && self.length() <= 18)
            .then(|| self.all().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))?;
        Some(Divisor { digits, last: self.last() })
    }
}

/// The divisor of `multipleOf`: `digits * 10^last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Divisor {
    digits: u64,
    last: i64,
}

impl Divisor {
    /// Returns whether `number` is an exact multiple.
    pub(crate) fn divides(&self, number: &Decimal<'_>) -> bool {
        if number.is_zero() {
            return true;
        }
        // The last significant digit is not zero, so a number is never a multiple of a larger power of ten.
        let Ok(mut tens) = u64::try_from(number.last() - self.last) else { return false };
        let divisor = u128::from(self.digits);
        let mut rest = number.all().fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % divisor);
        let mut power = 10 % divisor;
        while tens > 0 {
            if tens & 1 == 1 {
                rest = rest * power % divisor;
            }
            power = power * power % divisor;
            tens >>= 1;
        }
        rest == 0
    }
}

fn exponent(written: &str) -> Option<i64> {
    let digits = written.trim_start_matches(['+', '-']).trim_start_matches('0');
    let value: i64 = if digits.is_empty() { 0 } else { digits.parse().ok().filter(|_| digits.len() <= 17)? };
    Some(if written.starts_with('-') { -value } else { value })
}

fn trim_start(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|digit| **digit == b'0').count()..]
}

fn trim_end(digits: &[u8]) -> &[u8] {
    &digits[..digits.len() - digits.iter().rev().take_while(|digit| **digit == b'0').count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn numbers_compare_by_their_exact_value() {
        let ordered = [
            "-1e300",
            "-10",
            "-9.5",
            "-0.001",
            "0",
            "1e-300",
            "0.1",
            "0.10000000000000000001",
            "1",
            "1.5",
            "9007199254740992",
            "9007199254740993",
            "1e17",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(decimal(a).cmp(&decimal(b)), i.cmp(&j), "{a} {b}");
            }
        }
        for (a, b) in [("1", "1.000"), ("100", "1e2"), ("0", "-0.0"), ("0.5e1", "5"), ("12e-1", "1.2")] {
            assert_eq!(decimal(a).cmp(&decimal(b)), Ordering::Equal, "{a} {b}");
        }
        for (text, integer) in
            [("1.0", true), ("1.5", false), ("1e3", true), ("1500e-2", true), ("15e-2", false), ("0.0", true)]
        {
            assert_eq!(decimal(text).is_integer(), integer, "{text}");
        }
        assert_eq!(Decimal::parse("1e999999999999999999"), None);
    }

    #[test]
    fn multiples_are_exact() {
        for (number, divisor, expected) in [
            ("0.3", "0.1", true),
            ("0.30000000000000001", "0.1", false),
            ("12", "3", true),
            ("13", "3", false),
            ("1e300", "7", false),
            ("7e300", "7", true),
            ("5", "10", false),
            ("0", "10", true),
            ("20", "10", true),
            ("9007199254740993", "2", false),
            ("4.5", "1.5", true),
            ("-4.5", "1.5", true),
            ("1", "1e-300", true),
            ("123456789012345678901234567890", "10", true),
        ] {
            let divides = decimal(divisor).divisor().unwrap().divides(&decimal(number));
            assert_eq!(divides, expected, "{number} {divisor}");
        }
        assert_eq!(decimal("0").divisor(), None);
        assert_eq!(decimal("-1").divisor(), None);
    }
}

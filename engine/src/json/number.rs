//! Compares numbers as exact decimals. An `f64` cannot distinguish 2^53 from 2^53 + 1.

/// A number as `0.digits * 10^exponent`, without zeros at either end of the digits.
struct Decimal<'a> {
    negative: bool,
    /// The significant digits, before and after the decimal point.
    digits: (&'a [u8], &'a [u8]),
    exponent: Exponent,
}

/// A decimal exponent of any size.
#[derive(PartialEq, Eq)]
enum Exponent {
    /// The value of the number is zero, so its exponent does not matter.
    Zero,
    Small(i128),
    /// An exponent beyond `i128`: its digits as written, without sign and leading zeros.
    Huge(bool, Vec<u8>),
}

/// Returns whether two JSON numbers have the same value; `false` if one is not a number.
pub(crate) fn equal(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (Decimal::parse(a), Decimal::parse(b)) else { return false };
    if a.exponent == Exponent::Zero || b.exponent == Exponent::Zero {
        return a.exponent == b.exponent; // -0 is 0
    }
    a.negative == b.negative && a.exponent == b.exponent && a.digits().eq(b.digits())
}

impl<'a> Decimal<'a> {
    fn parse(raw: &'a str) -> Option<Self> {
        let bytes = raw.as_bytes();
        let (negative, bytes) = match bytes.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        if !bytes.first()?.is_ascii_digit() {
            return None;
        }
        let (mantissa, exponent) = match memchr::memchr2(b'e', b'E', bytes) {
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (bytes, &b"0"[..]),
        };
        let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &b""[..]),
        };
        let significant_whole = trim_start(whole);
        let (digits, point) = if significant_whole.is_empty() {
            let significant = trim_start(fraction);
            // 0.00x: the point moves over the zeros.
            ((&b""[..], trim_end(significant)), -i128::try_from(fraction.len() - significant.len()).ok()?)
        } else {
            let point = i128::try_from(significant_whole.len()).ok()?;
            let fraction = trim_end(fraction);
            let whole = if fraction.is_empty() { trim_end(significant_whole) } else { significant_whole };
            ((whole, fraction), point)
        };
        let exponent =
            if digits.0.is_empty() && digits.1.is_empty() { Exponent::Zero } else { Exponent::parse(exponent, point) };
        Some(Self { negative, digits, exponent })
    }

    fn digits(&self) -> impl Iterator<Item = &u8> {
        self.digits.0.iter().chain(self.digits.1)
    }
}

impl Exponent {
    fn parse(written: &[u8], point: i128) -> Self {
        let (negative, digits) = match written.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, written),
        };
        let digits = trim_start(digits);
        // 36 digits and the length of a text cannot overflow an `i128`.
        if digits.len() <= 36 {
            let value = digits.iter().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
            return Self::Small(if negative { point - value } else { point + value });
        }
        // The position of the point is added to exponents this large too, in decimal.
        let shift = if negative { -point } else { point };
        Self::Huge(negative, add(digits, shift))
    }
}

/// Returns `digits + shift` in decimal. `digits` has more than 36 digits, so the sum stays positive.
fn add(digits: &[u8], shift: i128) -> Vec<u8> {
    let mut out = digits.to_vec();
    let mut carry = shift;
    for digit in out.iter_mut().rev() {
        if carry == 0 {
            break;
        }
        let sum = i128::from(*digit - b'0') + carry;
        *digit = b'0' + u8::try_from(sum.rem_euclid(10)).unwrap_or(0);
        carry = sum.div_euclid(10);
    }
    let mut head = carry.max(0).to_string().into_bytes();
    head.extend_from_slice(&out);
    trim_start(&head).to_vec()
}

fn trim_start(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|d| **d == b'0').count();
    &digits[zeros..]
}

fn trim_end(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|d| **d == b'0').count();
    &digits[..digits.len() - zeros]
}

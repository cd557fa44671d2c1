//! Resolves scalars by the core schema of YAML 1.2, and finds those that YAML 1.1 readers (kubectl) read differently.

/// A scalar with its source text.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// The characters between the quotes, or all of a plain scalar.
    pub source: Box<str>,
    /// The value in the core schema.
    pub resolved: Resolved,
    /// Whether the scalar has no quotes in the file.
    pub plain: bool,
    /// Whether it is a literal block (`|`), whose lines are lines of the file.
    pub literal: bool,
}

/// The value of a scalar in the core schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// `null`, `~` or an empty scalar.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as JSON. The digits are the author's wherever JSON allows them.
    Number(Box<str>),
    /// `.inf` or `.nan`, which JSON cannot express.
    NotJson,
    /// Text.
    Text,
}

impl Scalar {
    /// Returns a plain scalar.
    pub(super) fn plain(source: &str) -> Self {
        Self { source: source.into(), resolved: resolve(source), plain: true, literal: false }
    }

    /// Returns a scalar that is text, whatever it looks like.
    pub(crate) fn quoted(source: impl Into<Box<str>>) -> Self {
        Self { source: source.into(), resolved: Resolved::Text, plain: false, literal: false }
    }

    /// Returns the JSON that kubectl (YAML 1.1) makes of the scalar, if it differs from that of YAML 1.2.
    pub(crate) fn kubectl_reads(&self) -> Option<String> {
        if !self.plain {
            return None;
        }
        let source = &*self.source;
        if let Some(value) = yaml11_bool(source) {
            return (self.resolved == Resolved::Text).then(|| value.to_string());
        }
        let digits = source.trim_start_matches(['+', '-']);
        let sign = if source.starts_with('-') { "-" } else { "" };
        if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
            let octal = u128::from_str_radix(digits, 8).ok();
            return octal
                .map(|n| format!("{sign}{n}"))
                .filter(|n| self.resolved != Resolved::Number(n.as_str().into()));
        }
        let joined = digits.replace('_', "");
        let number = digits.contains('_')
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && joined.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        number.then(|| format!("{sign}{joined}"))
    }

    pub(super) fn describe(&self) -> &'static str {
        match self.resolved {
            Resolved::Null => "an empty value",
            Resolved::Bool(_) => "a boolean",
            Resolved::Number(_) | Resolved::NotJson => "a number",
            Resolved::Text => "a string",
        }
    }
}

/// Returns the boolean that YAML 1.1 makes of a word.
pub(super) fn yaml11_bool(source: &str) -> Option<bool> {
    match source {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Resolves a plain scalar: YAML 1.2.2, 10.3.2 "Tag Resolution".
pub(super) fn resolve(source: &str) -> Resolved {
    match source {
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "true" | "True" | "TRUE" => Resolved::Bool(true),
        "false" | "False" | "FALSE" => Resolved::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan" | ".NaN"
        | ".NAN" => Resolved::NotJson,
        _ => number(source).map_or(Resolved::Text, |n| Resolved::Number(n.into())),
    }
}

/// Returns the number as JSON: unchanged if JSON allows it, otherwise rewritten.
fn number(source: &str) -> Option<String> {
    let radix = |digits: &str, radix| u128::from_str_radix(digits, radix).ok().map(|n| n.to_string());
    if let Some(octal) = source.strip_prefix("0o") {
        return octal.bytes().all(|b| matches!(b, b'0'..=b'7')).then(|| radix(octal, 8))?;
    }
    if let Some(hex) = source.strip_prefix("0x") {
        return hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| radix(hex, 16))?;
    }
    let (sign, rest) = match source.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", source.strip_prefix('+').unwrap_or(source)),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, ""),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !fraction.is_none_or(digits) || (whole.is_empty() && fraction.is_none_or(str::is_empty)) {
        return None;
    }
    let power = exponent.get(1..).unwrap_or("").trim_start_matches(['+', '-']);
    let one_sign = exponent.len() <= power.len() + 2;
    if !exponent.is_empty() && (power.is_empty() || !digits(power) || !one_sign) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    };
    let fraction = match fraction {
        None => String::new(),
        Some("") => ".0".to_owned(),
        Some(digits) => format!(".{digits}"),
    };
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}

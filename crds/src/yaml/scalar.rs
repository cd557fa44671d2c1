//! What a scalar means: the core schema of YAML 1.2, and where YAML 1.1 readers (kubectl) see something else.

/// A scalar with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// The characters between the quotes, or all of a plain scalar.
    pub source: Box<str>,
    /// What the core schema makes of it.
    pub resolved: Resolved,
    /// Without quotes in the file.
    pub plain: bool,
}

/// What the core schema makes of a scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as JSON; the digits are the author's wherever JSON can have them.
    Number(Box<str>),
    /// `.inf` or `.nan`, which JSON does not have.
    NotJson,
    /// Text.
    Text,
}

impl Scalar {
    /// A plain scalar.
    pub(super) fn plain(source: &str) -> Self {
        Self { source: source.into(), resolved: resolve(source), plain: true }
    }

    /// Text that is text, whatever it looks like.
    pub(crate) fn quoted(source: impl Into<Box<str>>) -> Self {
        Self { source: source.into(), resolved: Resolved::Text, plain: false }
    }

    /// What kubectl (YAML 1.1) reads where it is not what YAML 1.2 says: the JSON that it makes of the scalar.
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

/// The words that YAML 1.1 takes for booleans.
pub(super) fn yaml11_bool(source: &str) -> Option<bool> {
    match source {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// YAML 1.2.2, 10.3.2 "Tag Resolution".
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

/// The number as JSON: what JSON knows stays as it is, the rest is written anew.
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

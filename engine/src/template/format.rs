//! `printf`. The format is checked when the template is parsed.

use std::fmt::Write as _;

use super::decimal::Decimal;
use super::value::Value;

/// The widest field, and the longest precision.
const MAX_WIDTH: usize = 1000;

/// A parsed format.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Format {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(Box<str>),
    Verb(Verb),
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Verb {
    letter: char,
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

impl Format {
    /// Parses a format. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                plain.push(c);
                continue;
            }
            let mut verb = Verb::default();
            while let Some(flag) = chars.next_if(|c| "-+ 0#".contains(*c)) {
                match flag {
                    '-' => verb.left = true,
                    '+' => verb.plus = true,
                    ' ' => verb.space = true,
                    '0' => verb.zero = true,
                    _ => verb.alternate = true,
                }
            }
            verb.width = number(&mut chars)?;
            if chars.next_if_eq(&'.').is_some() {
                verb.precision = Some(number(&mut chars)?);
            }
            verb.letter = chars.next().ok_or("the format ends within a verb")?;
            match verb.letter {
                '%' => plain.push('%'),
                's' | 'd' | 'v' | 'q' | 'x' | 'X' | 'f' | 't' => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain).into()));
                    }
                    parts.push(Part::Verb(verb));
                }
                '*' => return Err("a width of * is not known here".into()),
                c => return Err(format!("`%{}` is not known here", c.escape_debug())),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Self { parts })
    }

    /// Returns the number of values that the format takes.
    pub(super) fn arity(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Verb(_))).count()
    }

    pub(super) fn render(&self, values: &[Value<'_>]) -> String {
        let mut out = String::new();
        let mut values = values.iter();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Verb(verb) => verb.write(values.next().unwrap_or(&Value::Nil), &mut out),
            }
        }
        out
    }
}

fn number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<usize, String> {
    let mut value = 0;
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        value = value * 10 + digit.to_digit(10).unwrap_or(0) as usize;
        if value > MAX_WIDTH {
            return Err(format!("a width or precision is over {MAX_WIDTH}"));
        }
    }
    Ok(value)
}

impl Verb {
    fn write(&self, value: &Value<'_>, out: &mut String) {
        let text = self.text(value);
        let missing = self.width.saturating_sub(text.chars().count());
        // Go pads with zeros only on the left, after the sign.
        if self.zero && !self.left {
            let sign = usize::from(matches!(value, Value::Number(_)) && text.starts_with(['-', '+', ' ']));
            out.push_str(&text[..sign]);
            out.extend(std::iter::repeat_n('0', missing));
            out.push_str(&text[sign..]);
        } else if self.left {
            out.push_str(&text);
            out.extend(std::iter::repeat_n(' ', missing));
        } else {
            out.extend(std::iter::repeat_n(' ', missing));
            out.push_str(&text);
        }
    }

    fn text(&self, value: &Value<'_>) -> String {
        match (self.letter, value) {
            ('q', _) => self.quote(&self.cut(value.to_text().into_owned())),
            ('x' | 'X', Value::Number(digits)) => match digits.parse::<i128>() {
                Ok(n) => self.signed(n < 0, &self.hex(n.unsigned_abs())),
                Err(_) => digits.to_string(),
            },
            ('x' | 'X', _) => self.cut_bytes(value),
            ('f', Value::Number(digits)) => {
                let exact = self.precision.and_then(|places| Decimal::parse(digits).fixed(places));
                self.sign(exact.as_deref().unwrap_or(digits))
            }
            ('d', Value::Number(digits)) => self.sign(digits),
            ('v', Value::Number(digits)) => self.sign(digits),
            _ => self.cut(value.to_text().into_owned()),
        }
    }

    fn sign(&self, digits: &str) -> String {
        match digits.strip_prefix('-') {
            Some(digits) => self.signed(true, digits),
            None => self.signed(false, digits),
        }
    }

    fn signed(&self, negative: bool, digits: &str) -> String {
        let sign = match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        format!("{sign}{digits}")
    }

    /// Cuts a text to its precision, a number of characters.
    fn cut(&self, mut text: String) -> String {
        if let Some(precision) = self.precision
            && let Some((at, _)) = text.char_indices().nth(precision)
        {
            text.truncate(at);
        }
        text
    }

    fn hex(&self, value: u128) -> String {
        let prefix = if self.alternate { "0x" } else { "" };
        let text = format!("{prefix}{value:x}");
        if self.letter == 'X' { text.to_uppercase() } else { text }
    }

    fn cut_bytes(&self, value: &Value<'_>) -> String {
        let text = value.to_text();
        let bytes = &text.as_bytes()[..text.len().min(self.precision.unwrap_or(usize::MAX))];
        let mut out = String::with_capacity(bytes.len() * 2 + 2);
        if self.alternate && !bytes.is_empty() {
            out.push_str("0x");
        }
        for byte in bytes {
            let _ = write!(out, "{byte:02x}");
        }
        if self.letter == 'X' { out.to_uppercase() } else { out }
    }

    /// Returns the text as a quoted Go string.
    fn quote(&self, text: &str) -> String {
        if self.alternate && !text.contains('`') && !text.chars().any(|c| c.is_control() && c != '\t') {
            return format!("`{text}`");
        }
        let mut out = String::with_capacity(text.len() + 2);
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x07' => out.push_str("\\a"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                '\x0b' => out.push_str("\\v"),
                c if (c as u32) < 0x80 && c.is_control() => {
                    let _ = write!(out, "\\x{:02x}", c as u32);
                }
                c if c.is_control() => {
                    let _ = write!(out, "\\u{:04x}", c as u32);
                }
                c => out.push(c),
            }
        }
        out.push('"');
        out
    }
}

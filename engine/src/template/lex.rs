//! Splits the source of a template into text and tokens, with Go's rules for `{{-`, `-}}` and comments.

use super::{MAX_SOURCE_BYTES, TemplateError};

/// Text between actions, with whitespace trimmed, or the tokens of one action.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'s> {
    Text(&'s str),
    Action(Vec<Token<'s>>, usize),
}

#[derive(Debug, PartialEq, Clone)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind<'s>,
    /// The offset in the source, in bytes.
    pub(super) offset: usize,
    /// Whether nothing stands between this token and the one before: `.a.b` is one path, `.a .b` are two arguments.
    pub(super) glued: bool,
}

#[derive(Debug, PartialEq, Clone)]
pub(super) enum Kind<'s> {
    Identifier(&'s str),
    /// `.name`.
    Field(&'s str),
    Dot,
    /// `$name`, or `$` with an empty name.
    Variable(&'s str),
    Text(String),
    Number(&'s str),
    Open,
    Close,
    Pipe,
    Declare,
    Assign,
    Comma,
}

const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

pub(super) fn lex(source: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(TemplateError::new(
            0,
            format!("the template has {} bytes, at most {MAX_SOURCE_BYTES} are allowed", source.len()),
            "shorten it",
        ));
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut trim = false;
    loop {
        let rest = &source[at..];
        let start = rest.find("{{").map_or(source.len(), |n| at + n);
        let mut text = &source[at..start];
        if trim {
            text = text.trim_start_matches(BLANK);
        }
        let marked = source[start..].strip_prefix("{{-").is_some_and(|after| after.starts_with(BLANK));
        if marked {
            text = text.trim_end_matches(BLANK);
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        if start == source.len() {
            return Ok(pieces);
        }
        let inside = start + if marked { 4 } else { 2 };
        let (end, trims) = match source[inside..].strip_prefix("/*") {
            Some(_) => comment(source, start, inside)?,
            None => {
                let mut action = Action { source, at: inside, start, tokens: Vec::new() };
                let (end, trims) = action.run()?;
                pieces.push(Piece::Action(action.tokens, start));
                (end, trims)
            }
        };
        at = end;
        trim = trims;
    }
}

fn comment(source: &str, start: usize, inside: usize) -> Result<(usize, bool), TemplateError> {
    let Some(length) = source[inside..].find("*/") else {
        return Err(TemplateError::new(start, "a comment is not closed", "end it with */}}"));
    };
    let after = inside + length + 2;
    close(source, after)
        .ok_or_else(|| TemplateError::new(start, "a comment is not alone in its action", "write {{/* the comment */}}"))
}

/// Finds the end of an action at `at`. Returns the position behind it, and whether it trims what follows.
fn close(source: &str, at: usize) -> Option<(usize, bool)> {
    let rest = &source[at..];
    if rest.starts_with("}}") {
        return Some((at + 2, false));
    }
    let mut chars = rest.chars();
    let blank = chars.next().is_some_and(|c| BLANK.contains(&c));
    (blank && chars.as_str().starts_with("-}}")).then_some((at + 4, true))
}

struct Action<'s> {
    source: &'s str,
    at: usize,
    start: usize,
    tokens: Vec<Token<'s>>,
}

impl<'s> Action<'s> {
    fn run(&mut self) -> Result<(usize, bool), TemplateError> {
        let mut glued = false;
        loop {
            if let Some(end) = close(self.source, self.at) {
                return Ok(end);
            }
            let offset = self.at;
            let Some(first) = self.source[offset..].chars().next() else {
                return Err(TemplateError::new(self.start, "an action is not closed", "end it with }}"));
            };
            if BLANK.contains(&first) {
                self.at += 1;
                glued = false;
                continue;
            }
            let kind = self.token(first)?;
            self.tokens.push(Token { kind, offset, glued });
            glued = true;
        }
    }

    fn token(&mut self, first: char) -> Result<Kind<'s>, TemplateError> {
        let offset = self.at;
        let rest = &self.source[offset..];
        let single = |kind| Ok((kind, first.len_utf8()));
        let (kind, length) = match first {
            '(' => single(Kind::Open),
            ')' => single(Kind::Close),
            '|' => single(Kind::Pipe),
            ',' => single(Kind::Comma),
            '=' => single(Kind::Assign),
            ':' if rest.starts_with(":=") => Ok((Kind::Declare, 2)),
            '"' => self.quoted(rest),
            '`' => match rest[1..].find('`') {
                Some(length) => Ok((Kind::Text(rest[1..=length].to_owned()), length + 2)),
                None => Err(self.fail("a raw string is not closed", "end it with `")),
            },
            '.' if rest[1..].starts_with(is_letter) => {
                let name = word(&rest[1..]);
                Ok((Kind::Field(name), name.len() + 1))
            }
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => single(Kind::Dot),
            '$' => {
                let name = word(&rest[1..]);
                Ok((Kind::Variable(name), name.len() + 1))
            }
            c if is_letter(c) => {
                let name = word(rest);
                Ok((Kind::Identifier(name), name.len()))
            }
            c if c.is_ascii_digit() || matches!(c, '+' | '-' | '.') => self.number(rest),
            '\'' => Err(self.fail("a character in single quotes", "write a string, in double quotes")),
            c => Err(self.fail(
                format!("unexpected `{}`", c.escape_debug()),
                "write fields as .name; a name that is no plain word is reached by index, as in {{index . \"a-b\"}}",
            )),
        }?;
        self.at += length;
        Ok(kind)
    }

    fn number(&self, rest: &'s str) -> Result<(Kind<'s>, usize), TemplateError> {
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')))
            .unwrap_or(rest.len());
        // `4-}}` is not a number, but `4` before a trim marker without a space; the check of the number reports it.
        let text = &rest[..end];
        let digits = text.strip_prefix('+').unwrap_or(text);
        if is_json_number(digits) {
            Ok((Kind::Number(digits), end))
        } else {
            Err(self.fail(format!("`{text}` is not a number"), "write it in decimal, such as 10, -2.5 or 1e6"))
        }
    }

    /// Reads a string in double quotes, with Go's escapes.
    fn quoted(&self, rest: &'s str) -> Result<(Kind<'s>, usize), TemplateError> {
        let mut out = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return Ok((Kind::Text(out), at + 1)),
                '\n' => break,
                '\\' => {
                    let escape = chars.next().map_or('"', |(_, c)| c);
                    let digits = match escape {
                        'x' => 2,
                        'u' => 4,
                        'U' => 8,
                        _ => 0,
                    };
                    if digits > 0 {
                        let hex: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                        // In Go `\x` names a byte; only bytes that are characters can be text here.
                        let code = u32::from_str_radix(&hex, 16).ok().filter(|&n| escape != 'x' || n < 0x80);
                        let code = code.filter(|_| hex.len() == digits).and_then(char::from_u32);
                        out.push(code.ok_or_else(|| self.bad_escape())?);
                        continue;
                    }
                    out.push(match escape {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'a' => '\x07',
                        'b' => '\x08',
                        'f' => '\x0c',
                        'v' => '\x0b',
                        '\\' | '"' => escape,
                        _ => return Err(self.bad_escape()),
                    });
                }
                c => out.push(c),
            }
        }
        Err(self.fail("a string is not closed", "end it with \""))
    }

    fn bad_escape(&self) -> TemplateError {
        self.fail(
            "a string has an unknown escape",
            "use \\n, \\t, \\\", \\\\ or \\u00e9, or a raw string in back quotes",
        )
    }

    fn fail(&self, message: impl Into<String>, remedy: &str) -> TemplateError {
        TemplateError::new(self.at, message, remedy)
    }
}

fn is_letter(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(is_letter(c) || c.is_numeric())).unwrap_or(text.len());
    &text[..end]
}

/// Returns whether the text is an RFC 8259 number.
fn is_json_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

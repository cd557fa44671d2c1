//! Cookies of requests.

use http::header::{HeaderName, HeaderValue};
use indexmap::IndexMap;
use tamis_config::{CookieStyle, CookieTemplate};

use super::headers::MAX_HEADER;
use crate::upstream::syntax::push_encoded;
use crate::upstream::template::{Values, check_length, invalid_argument, texts};
use crate::upstream::{InvalidService, UpstreamError};

/// The cookies of a request, parsed.
#[derive(Debug)]
pub(super) struct Cookies(Vec<Cookie>);

#[derive(Debug)]
struct Cookie {
    name: Box<str>,
    argument: Box<str>,
    style: CookieStyle,
}

impl Cookies {
    /// Parses `request.cookies`.
    ///
    /// # Errors
    /// For a name that no cookie may have, and an argument that the tool does not have.
    pub(super) fn parse(
        field: &str,
        cookies: &IndexMap<String, CookieTemplate>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let parse = |(name, CookieTemplate { argument, style }): (&String, &CookieTemplate)| {
            let invalid = |message: String| InvalidService::new(format!("{field}.{name}"), message);
            // A token, as the name of a header is (RFC 6265, 4.1.1).
            HeaderName::try_from(name).map_err(|_| invalid("is not the name of a cookie".to_owned()))?;
            if !known(argument) {
                return Err(invalid(format!("`{{{argument}}}` is not an argument of the tool")));
            }
            Ok(Cookie { name: name.as_str().into(), argument: argument.as_str().into(), style: *style })
        };
        cookies.iter().map(parse).collect::<Result<Vec<_>, InvalidService>>().map(Self)
    }

    /// Returns the header, or `None` if no argument makes a cookie.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that a cookie cannot hold.
    pub(super) fn render(&self, values: &Values<'_>) -> Result<Option<HeaderValue>, UpstreamError> {
        let mut out = String::new();
        for Cookie { name, argument, style } in &self.0 {
            let Some(json) = values.get(argument) else { continue };
            let all = texts(argument, json)?;
            for (index, value) in all.iter().enumerate() {
                match style {
                    CookieStyle::Form if index > 0 => out.push(','),
                    CookieStyle::Form | CookieStyle::Cookie => {
                        let separator = if out.is_empty() { "" } else { "; " };
                        out.extend([separator, name, "="]);
                    }
                }
                match style {
                    CookieStyle::Form => push_encoded(&mut out, value),
                    CookieStyle::Cookie if value.bytes().all(is_octet) => out.push_str(value),
                    CookieStyle::Cookie => {
                        let reason = "holds a character that no cookie may hold: a space, quote, comma, semicolon or \
                                      backslash, a control character, or one outside ASCII";
                        return Err(invalid_argument(argument, reason));
                    }
                }
                check_length(out.len(), argument, MAX_HEADER)?;
            }
        }
        // Every character is visible ASCII or a space.
        Ok((!out.is_empty()).then(|| HeaderValue::from_maybe_shared(bytes::Bytes::from(out)).ok()).flatten())
    }
}

/// A character of a cookie's value (RFC 6265, 4.1.1).
fn is_octet(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

#[cfg(test)]
#[path = "tests/cookies.rs"]
mod tests;

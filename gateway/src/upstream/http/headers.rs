//! Request headers.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use indexmap::IndexMap;
use tamis_config::{HttpCall, MemberStyle, ServiceTool};
use tamis_engine::ResponseType;

use super::cookies::Cookies;
use crate::hops;
use crate::upstream::origin::Origin;
use crate::upstream::syntax::header_name;
use crate::upstream::template::{Template, Values, check_length, invalid_argument, members};
use crate::upstream::transport::AGENT;
use crate::upstream::{InvalidService, UpstreamError};

/// Bytes of a header. No server accepts a longer one.
pub(super) const MAX_HEADER: usize = 64 << 10;
/// The encodings that an answer may have.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, br, zstd");

/// The headers of a request without authentication, parsed.
#[derive(Debug)]
pub(super) struct Headers {
    /// Headers without a placeholder.
    fixed: HeaderMap,
    varying: Vec<(HeaderName, Template)>,
    /// How objects are written, by argument.
    objects: IndexMap<String, MemberStyle>,
    cookies: Option<Cookies>,
}

impl Headers {
    /// Parses `request.headers`, which take precedence over the default headers. `media_type`: that of the body, if there is one.
    ///
    /// # Errors
    /// For a name or text that is not valid in a header, and a `{name}` that is not an argument.
    pub(super) fn parse(
        field: &str,
        (tool, call): (&ServiceTool, &HttpCall),
        media_type: Option<HeaderValue>,
        origin: &Origin,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let (mut fixed, mut varying) = (for_every_request(origin), Vec::new());
        let text = tool.response_type == Some(ResponseType::Text);
        fixed.insert(ACCEPT, HeaderValue::from_static(if text { "*/*" } else { "application/json, */*;q=0.5" }));
        if let Some(media_type) = media_type {
            fixed.insert(CONTENT_TYPE, media_type);
        }
        for (name, value) in &call.request.headers {
            let at = format!("{field}.request.headers.{name}");
            let invalid = |message: &str| InvalidService::new(&at, message);
            let header = header_name(name).map_err(|reason| invalid(&reason))?;
            if value.chars().any(is_forbidden) {
                return Err(invalid("holds a control character, which a header cannot have"));
            }
            let template = Template::strict(at.clone(), value, known)?;
            // The gateway decodes the answer, and counts the gateways that the call has passed.
            if header == ACCEPT_ENCODING || header == hops::HEADER {
                continue;
            }
            match template.constant() {
                Some(text) => {
                    fixed.insert(header, header_value(text.to_owned()).ok_or_else(|| invalid("is not valid"))?);
                }
                None => varying.push((header, template)),
            }
        }
        let cookies = &call.request.cookies;
        let has_header = fixed.contains_key(COOKIE) || varying.iter().any(|(name, _)| *name == COOKIE);
        if has_header && !cookies.is_empty() {
            let message = "are not possible next to a header `Cookie`";
            return Err(InvalidService::new(format!("{field}.request.cookies"), message));
        }
        let at = format!("{field}.request.cookies");
        let cookies = (!cookies.is_empty()).then(|| Cookies::parse(&at, cookies, known)).transpose()?;
        Ok(Self { fixed, varying, objects: call.request.objects.clone(), cookies })
    }

    /// Writes the headers with the arguments of a call. `media_type`: that of a body whose media type varies.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that a header cannot hold.
    pub(super) fn render(
        &self,
        values: &Values<'_>,
        media_type: Option<HeaderValue>,
    ) -> Result<Cow<'_, HeaderMap>, UpstreamError> {
        if self.varying.is_empty() && self.cookies.is_none() && media_type.is_none() {
            return Ok(Cow::Borrowed(&self.fixed));
        }
        let mut headers = self.fixed.clone();
        for (name, template) in &self.varying {
            if template.sole().is_some_and(|argument| values.get(argument).is_none()) {
                continue;
            }
            let mut text = String::new();
            let push = |text: &mut String, argument: &str, value: &str| {
                if value.chars().any(is_forbidden) {
                    return Err(invalid_argument(argument, "holds a control character, which a header cannot have"));
                }
                text.push_str(value);
                Ok(())
            };
            let object = template.sole().and_then(|argument| {
                let style = self.objects.get(argument)?;
                Some((argument, *style, values.get(argument)?))
            });
            match object {
                None => template.write(values, &mut text, push)?,
                Some((argument, style, json)) => {
                    for (key, value) in members(argument, json)? {
                        let comma = if text.is_empty() { "" } else { "," };
                        let between = match style {
                            MemberStyle::Elements => ",",
                            MemberStyle::Pairs => "=",
                        };
                        [comma, &key, between, &value].iter().try_for_each(|part| push(&mut text, argument, part))?;
                        check_length(text.len(), argument, MAX_HEADER)?;
                    }
                }
            }
            let argument = || template.arguments().next().unwrap_or_default();
            check_length(text.len(), argument(), MAX_HEADER)?;
            let value =
                header_value(text).ok_or_else(|| invalid_argument(argument(), "does not make a valid header"))?;
            headers.insert(name.clone(), value);
        }
        if let Some(cookies) = &self.cookies
            && let Some(value) = cookies.render(values)?
        {
            headers.insert(COOKIE, value);
        }
        if let Some(media_type) = media_type {
            headers.insert(CONTENT_TYPE, media_type);
        }
        Ok(Cow::Owned(headers))
    }
}

/// Returns the headers of every request to an origin, whatever the manifest says.
pub(in crate::upstream) fn for_every_request(origin: &Origin) -> HeaderMap {
    [
        (HOST, origin.header()),
        (USER_AGENT, AGENT),
        (ACCEPT, HeaderValue::from_static("*/*")),
        (ACCEPT_ENCODING, ENCODINGS),
        (hops::HEADER, hops::next(0)),
    ]
    .into_iter()
    .collect()
}

/// Returns whether a header must not hold a character. A tab is the only control character allowed (RFC 9110, 5.5).
fn is_forbidden(c: char) -> bool {
    c != '\t' && c.is_control()
}

fn header_value(text: String) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::from(text)).ok()
}

//! Bodies that are the value of one argument, and multipart bodies (RFC 7578).

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::HeaderValue;
use indexmap::IndexMap;
use tamis_config::{ContentKind, ContentTemplate, Digest};

use crate::upstream::template::{MAX_TEXT, Values, check_length, invalid_argument, texts};
use crate::upstream::{InvalidService, UpstreamError};

/// Models leave out the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The most parts of a body.
const MAX_PARTS: usize = 1_000;

/// Content that is the value of one argument, parsed.
#[derive(Debug)]
pub(super) struct Content {
    argument: Box<str>,
    kind: ContentKind,
    media_type: Option<HeaderValue>,
}

impl Content {
    /// Parses the template of a body or a part.
    ///
    /// # Errors
    /// For an argument that the tool does not have, and a media type that a header cannot hold.
    pub(super) fn parse(
        field: &str,
        template: &ContentTemplate,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let ContentTemplate { argument, kind, media_type } = template;
        if !known(argument) {
            return Err(InvalidService::new(field, format!("`{{{argument}}}` is not an argument of the tool")));
        }
        let header = |text: &String| {
            let value = HeaderValue::from_str(text).ok().filter(|value| value.to_str().is_ok());
            value.ok_or_else(|| InvalidService::new(format!("{field}.mediaType"), "is not a media type"))
        };
        let media_type = media_type.as_ref().map(header).transpose()?;
        Ok(Self { argument: argument.as_str().into(), kind: *kind, media_type })
    }

    /// Returns the media type.
    pub(super) fn media_type(&self) -> Option<&HeaderValue> {
        self.media_type.as_ref()
    }

    /// Returns the body, or `None` without the argument.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for a value of another kind.
    pub(super) fn body(&self, values: &Values<'_>) -> Result<Option<Vec<u8>>, UpstreamError> {
        let Some(mut all) = self.all(values)? else { return Ok(None) };
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(Some(one.into_owned())),
            _ => Err(invalid_argument(&self.argument, "is a list, and the body is one value")),
        }
    }

    /// Returns the values: one, or the elements of a list. `None` without the argument.
    fn all<'a>(&self, values: &Values<'a>) -> Result<Option<Vec<Cow<'a, [u8]>>>, UpstreamError> {
        let argument = &*self.argument;
        let Some(json) = values.get(argument) else { return Ok(None) };
        let all = match self.kind {
            ContentKind::Json => vec![Cow::Borrowed(json.as_bytes())],
            ContentKind::Text => texts(argument, json)?.into_iter().map(bytes).collect(),
            ContentKind::Bytes => {
                let decode = |text: Cow<'a, str>| match BASE64.decode(text.as_bytes()) {
                    Ok(bytes) => Ok(Cow::Owned(bytes)),
                    Err(_) => Err(invalid_argument(argument, "is not Base64, in which bytes are written")),
                };
                texts(argument, json)?.into_iter().map(decode).collect::<Result<_, _>>()?
            }
        };
        Ok(Some(all))
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The parts of a `multipart/form-data` body, parsed.
#[derive(Debug)]
pub(super) struct Parts(Vec<(Box<str>, Content)>);

impl Parts {
    /// Parses `request.parts`, or returns `None` for a request without any.
    ///
    /// # Errors
    /// As [`Content::parse`].
    pub(super) fn parse(
        field: &str,
        parts: &IndexMap<String, ContentTemplate>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, InvalidService> {
        let parse = |(name, template): (&String, &ContentTemplate)| {
            let content = Content::parse(&format!("{field}.{name}"), template, known)?;
            Ok((quoted(name).into(), content))
        };
        let parts = parts.iter().map(parse).collect::<Result<Vec<_>, InvalidService>>()?;
        Ok((!parts.is_empty()).then_some(Self(parts)))
    }

    /// Returns the media type, which names the boundary, and the body.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for a value of another kind, or too much of it.
    pub(super) fn write(&self, values: &Values<'_>) -> Result<(HeaderValue, Vec<u8>), UpstreamError> {
        let mut found = Vec::new();
        for (name, content) in &self.0 {
            for value in content.all(values)?.unwrap_or_default() {
                found.push((name, content, value));
                if found.len() > MAX_PARTS {
                    let reason = format!("makes more than {MAX_PARTS} parts");
                    return Err(invalid_argument(&content.argument, &reason));
                }
            }
        }
        let boundary = boundary(found.iter().map(|(.., value)| &**value));
        let mut out = Vec::new();
        for (name, Content { argument, kind, media_type }, value) in found {
            let mut line = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| out.extend_from_slice(piece));
            line(&[b"--", boundary.as_bytes(), b"\r\nContent-Disposition: form-data; name=\"", name.as_bytes(), b"\""]);
            if *kind == ContentKind::Bytes {
                // Servers take a part for a file if it has a file's name.
                line(&[b"; filename=\"", name.as_bytes(), b"\""]);
            }
            if let Some(media_type) = media_type {
                line(&[b"\r\nContent-Type: ", media_type.as_bytes()]);
            }
            line(&[b"\r\n\r\n", &value, b"\r\n"]);
            check_length(out.len(), argument, MAX_TEXT)?;
        }
        out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let media_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}"));
        Ok((media_type.map_err(|_| invalid_argument("parts", "make no valid boundary"))?, out))
    }
}

/// Returns a boundary that occurs in no part: a part that contains its own digest cannot be found.
fn boundary<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    let each: String = parts.map(|part| Digest::of(part).0).collect();
    format!("part-{}", &Digest::of(each.as_bytes()).0[..40])
}

/// Returns a name as a parameter of `Content-Disposition` holds it (WHATWG HTML, 4.10.21.8).
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
#[path = "tests/content.rs"]
mod tests;

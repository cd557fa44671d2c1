//! What a program printed, as the output of a tool. Pure.

use bytes::Bytes;
use serde::de::IgnoredAny;
use tamis_engine::ResponseType;

use crate::upstream::http::extract_output;
use crate::upstream::{Output, UpstreamError};

/// How the output of a tool is read.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// The shape that the manifest declares.
    pub(super) declared: Option<ResponseType>,
    /// Whether each line is a JSON value.
    pub(super) ndjson: bool,
    /// Dotted path of the output.
    pub(super) extract: Option<Box<str>>,
}

impl Reading {
    /// Returns the output: JSON, a list of the values of several lines, or text.
    ///
    /// # Errors
    /// [`UpstreamError::Malformed`].
    pub(super) fn read(&self, printed: Bytes) -> Result<Output, UpstreamError> {
        let json = match (self.ndjson, self.declared) {
            (true, _) => lines(&printed, |_| true)
                .map_err(|line| UpstreamError::Malformed(format!("has a line that is not valid JSON (line {line})")))?,
            (false, Some(ResponseType::Text)) => return Ok(Output::Text(printed)),
            (false, _) if printed.trim_ascii().is_empty() => Bytes::new(),
            (false, _) if is_json(&printed) => printed.clone(),
            // Lines of numbers and of quoted words are text.
            (false, _) => match lines(&printed, |first| matches!(first, b'{' | b'[')) {
                Ok(list) => list,
                Err(_) if self.extract.is_some() => {
                    return Err(UpstreamError::Malformed("is not JSON, and `extract` names a part of it".to_owned()));
                }
                Err(_) => return Ok(Output::Text(printed)),
            },
        };
        match &self.extract {
            Some(path) if !json.is_empty() => extract_output(&json, Some(path)).map(Output::Json),
            _ => Ok(Output::Json(json)),
        }
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok() && std::str::from_utf8(text).is_ok()
}

/// Returns the list of the values of the lines, which keep their bytes. `begins`: whether a line may begin so.
///
/// # Errors
/// The number of the first line that is not valid JSON.
fn lines(text: &[u8], begins: impl Fn(u8) -> bool) -> Result<Bytes, usize> {
    let mut list = Vec::with_capacity(text.len() + 2);
    list.push(b'[');
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        let Some(first) = line.first() else { continue };
        if !begins(*first) || !is_json(line) {
            return Err(index + 1);
        }
        if list.len() > 1 {
            list.push(b',');
        }
        list.extend_from_slice(line);
    }
    list.push(b']');
    Ok(list.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(declared: Option<ResponseType>, ndjson: bool, printed: &str) -> Result<(bool, String), String> {
        let reading = Reading { declared, ndjson, extract: None };
        let output = reading.read(Bytes::copy_from_slice(printed.as_bytes())).map_err(|error| error.to_string())?;
        let is_json = matches!(output, Output::Json(_));
        Ok((is_json, String::from_utf8_lossy(output.bytes()).into_owned()))
    }

    #[test]
    fn what_is_printed_is_json_lines_of_json_or_text() {
        use ResponseType::{Array, Object, Text};
        let json = |text: &str| Ok((true, text.to_owned()));
        let text = |text: &str| Ok((false, text.to_owned()));
        for (declared, ndjson, printed, expected) in [
            (None, false, "{\"n\": 1.10}\n", json("{\"n\": 1.10}\n")),
            (Some(Array), false, "[12345678901234567890]", json("[12345678901234567890]")),
            (None, false, "7", json("7")),
            // Several values are a list, with every digit.
            (None, false, "{\"n\":1.10}\n\n{\"n\":1e400}\r\n", json("[{\"n\":1.10},{\"n\":1e400}]")),
            (None, false, "[1]\n[2]", json("[[1],[2]]")),
            // Text stays as it is.
            (None, false, "1\n2\n", text("1\n2\n")),
            (None, false, "\"a\"\n\"b\"", text("\"a\"\n\"b\"")),
            (None, false, "{\"a\":1}\nnot json\n", text("{\"a\":1}\nnot json\n")),
            (Some(Object), false, " M file\n", text(" M file\n")),
            (Some(Text), false, "{\"a\":1}", text("{\"a\":1}")),
            (Some(Text), false, "", text("")),
            (None, false, "", json("")),
            (Some(Array), false, " \n", json("")),
            // Declared lines are a list, however many there are.
            (None, true, "", json("[]")),
            (None, true, "{\"a\":1}\n", json("[{\"a\":1}]")),
            (None, true, "1\n\n2", json("[1,2]")),
        ] {
            assert_eq!(read(declared, ndjson, printed), expected, "{declared:?} {ndjson} {printed:?}");
        }
        let error = read(None, true, "{\"a\":1}\n\n{\"secret\n").unwrap_err();
        assert_eq!(error, "the upstream's answer has a line that is not valid JSON (line 3)");
        let reading = Reading { declared: None, ndjson: false, extract: None };
        let broken = Bytes::from_static(b"[\"\xff\"]");
        assert_eq!(reading.read(broken.clone()).unwrap(), Output::Text(broken), "not UTF-8");
    }

    #[test]
    fn a_part_of_what_is_printed_is_extracted() {
        let reading = Reading { declared: None, ndjson: false, extract: Some("data.items".into()) };
        let read = |printed: &'static str| reading.read(Bytes::from_static(printed.as_bytes()));
        assert_eq!(read("{\"data\":{\"items\": [1.0]}}").unwrap(), Output::Json(Bytes::from_static(b"[1.0]")));
        assert_eq!(read("").unwrap(), Output::Json(Bytes::new()));
        for printed in ["plain text", "{\"data\":{}}"] {
            assert!(matches!(read(printed), Err(UpstreamError::Malformed(_))), "{printed}");
        }
    }
}

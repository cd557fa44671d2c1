//! GraphQL over HTTP: the query of a request, and what an answer holds.
//!
//! A query is constant. Arguments travel as its variables only, so that no argument can change what is asked for.

use bytes::Bytes;

use super::extract::Object;
use crate::upstream::UpstreamError;

/// What an answer holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The output: a slice of the answer.
    pub(super) output: Bytes,
    /// The list of errors next to the data, unless it is empty: a slice of the answer.
    pub(super) errors: Option<Bytes>,
}

/// Returns a body with the query in it. `query`: a JSON string. `body`: a JSON object with at least one member.
pub(super) fn with_query(query: &str, body: &str) -> String {
    let rest = body.strip_prefix('{').unwrap_or_default();
    format!("{{\"query\":{query},{rest}")
}

/// Reads an answer. `field`: the only root field; none if all of `data` is the output.
///
/// # Errors
/// [`UpstreamError::GraphQl`] if there are errors and no data, or none of that field; [`UpstreamError::Malformed`] for what is no
/// answer of a GraphQL server.
pub(super) fn read(body: &Bytes, field: Option<&str>) -> Result<Parts, UpstreamError> {
    let malformed = |what: &str| UpstreamError::Malformed(what.to_owned());
    let part = |text: &str| body.slice_ref(text.as_bytes());
    let Some(answer) = Object::read(body, &["data", "errors"]).map_err(UpstreamError::Malformed)? else {
        return Err(malformed("is not a JSON object, as answers of GraphQL servers are"));
    };
    let errors = answer.get("errors").filter(|text| *text != "null" && !is_empty_list(text)).map(part);
    let failed = |errors: &Option<Bytes>, otherwise: &str| match errors {
        Some(errors) => UpstreamError::GraphQl { errors: errors.clone() },
        None => malformed(otherwise),
    };
    let Some(data) = answer.get("data").filter(|text| *text != "null") else {
        return Err(failed(&errors, "has neither `data` nor `errors`"));
    };
    let Some(field) = field else { return Ok(Parts { output: part(data), errors }) };
    let Some(fields) = Object::read(data.as_bytes(), &[field]).map_err(UpstreamError::Malformed)? else {
        return Err(malformed("has `data` that is not an object"));
    };
    match fields.get(field) {
        None => Err(failed(&errors, "has no such field in its `data`")),
        Some("null") if errors.is_some() => Err(failed(&errors, "")),
        Some(output) => Ok(Parts { output: part(output), errors }),
    }
}

fn is_empty_list(text: &str) -> bool {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inner| inner.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: &str, field: Option<&str>) -> String {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        match read(&Bytes::copy_from_slice(body.as_bytes()), field) {
            Ok(Parts { output, errors: None }) => text(&output),
            Ok(Parts { output, errors: Some(errors) }) => format!("{} with {}", text(&output), text(&errors)),
            Err(UpstreamError::GraphQl { errors }) => format!("failed: {}", text(&errors)),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn answers() {
        let a = Some("a");
        let table = [
            // Digits, order, escapes and spaces stay.
            (
                r#"{"data": {"a": {"z" : 1.10, "b": "\u00e9", "n": 12345678901234567890}}}"#,
                a,
                r#"{"z" : 1.10, "b": "\u00e9", "n": 12345678901234567890}"#,
            ),
            (r#"{"data":{"a":[1,2]},"errors":[]}"#, a, "[1,2]"),
            (r#"{"data":{"a":null}}"#, a, "null"),
            (r#"{"data":{"a":1},"errors":null,"extensions":{"cost":1}}"#, a, "1"),
            (r#"{"errors":[{"message":"m"}],"data":{"a":{"b":null}}}"#, a, r#"{"b":null} with [{"message":"m"}]"#),
            (r#"{"errors":[{"message":"m"}],"data":{"a":null}}"#, a, r#"failed: [{"message":"m"}]"#),
            (r#"{"errors":[{"message":"m"}],"data":null}"#, a, r#"failed: [{"message":"m"}]"#),
            (r#"{"errors":[{"message":"m"}]}"#, a, r#"failed: [{"message":"m"}]"#),
            (r#"{"data":{"a":null,"b":1},"errors":[1]}"#, None, r#"{"a":null,"b":1} with [1]"#),
            (r#"{"data":null,"errors":[1]}"#, None, "failed: [1]"),
            // Of two members with one name the last counts, as everywhere.
            (r#"{"data":{"a":1},"data":{"a":2}}"#, a, "2"),
            (r#"{"data":{"b":1}}"#, a, "the upstream's answer has no such field in its `data`"),
            (r#"{"data":[1]}"#, a, "the upstream's answer has `data` that is not an object"),
            ("{}", a, "the upstream's answer has neither `data` nor `errors`"),
            (r#"{"errors": [ ]}"#, a, "the upstream's answer has neither `data` nor `errors`"),
            ("[]", a, "the upstream's answer is not a JSON object, as answers of GraphQL servers are"),
            ("", a, "the upstream's answer is not a JSON object, as answers of GraphQL servers are"),
        ];
        for (body, field, expected) in table {
            assert_eq!(shown(body, field), expected, "{body}");
        }
        assert!(
            shown(r#"{"data":"#, a).starts_with("the upstream's answer is not valid JSON"),
            "{}",
            shown(r#"{"data":"#, a)
        );
    }

    #[test]
    fn bodies() {
        let body = with_query(r#""{ a }""#, r#"{"variables":{"x":1}}"#);
        assert_eq!(body, r#"{"query":"{ a }","variables":{"x":1}}"#);
    }
}

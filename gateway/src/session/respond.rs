//! Answers of callers to what a server has asked them during a call.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Action;
use crate::mcp::RpcError;
use crate::mcp::message::string;
use crate::sealed::PREFIX;

/// An answer to a request that a server has sent through the gateway. Its `Debug` shows no payload.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CallerAnswer {
    /// The id that the caller got, without quotes.
    pub(crate) id: String,
    /// The name of the member: `result` or `error`.
    pub(crate) member: &'static str,
    /// Its value, as JSON.
    pub(crate) value: Bytes,
}

impl std::fmt::Debug for CallerAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CallerAnswer({}, {} bytes)", self.member, self.value.len())
    }
}

impl CallerAnswer {
    /// Reads an answer; none if it answers a request that is not one of a server. Parts are slices of `source`.
    ///
    /// # Errors
    /// It has no result and no error, or both, or one of a wrong type.
    pub(super) fn read(
        source: &Bytes,
        id: Option<&RawValue>,
        result: Option<&RawValue>,
        error: Option<&RawValue>,
    ) -> Result<Option<Self>, RpcError> {
        let Some(id) = id.and_then(string).filter(|id| id.starts_with(PREFIX)) else { return Ok(None) };
        let (member, value) = match (result, error) {
            (Some(value), None) => ("result", value),
            (None, Some(value)) => ("error", value),
            (Some(_), Some(_)) | (None, None) => {
                return Err(RpcError::invalid_request("an answer has either a result or an error"));
            }
        };
        if !value.get().starts_with('{') {
            return Err(RpcError::invalid_request("the result or the error of an answer must be an object"));
        }
        Ok(Some(Self { id: id.into_owned(), member, value: source.slice_ref(value.get().as_bytes()) }))
    }
}

impl From<Option<CallerAnswer>> for Action {
    fn from(answer: Option<CallerAnswer>) -> Self {
        answer.map_or(Self::Nothing, Self::Respond)
    }
}

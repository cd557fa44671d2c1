//! Input that an MCP server asks a caller for in the middle of a call: elicitation, sampling and roots, as 2026-07-28 has them.
//!
//! The server answers with what it asks for and with a state, and the caller repeats the call with its answers and that state. The
//! gateway keeps nothing in between. None of it passes a filter, so it passes under `Advisory` only. In earlier versions a server asks
//! during the call, with a request of its own. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tamis_engine::Enforcement;

use crate::mcp::message::string;
use crate::mcp::{Era, Params, RpcError};
use crate::upstream::InputRequired;

/// Bytes of the declaration of one capability.
const MAX_CAPABILITY: usize = 1 << 10;

/// What a server can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// Something that the user fills in.
    Elicitation,
    /// A completion of the client's model.
    Sampling,
    /// The client's folders.
    Roots,
}

impl InputKind {
    const ALL: [Self; 3] = [Self::Elicitation, Self::Sampling, Self::Roots];

    /// Returns the kind of input that a server's request of this method asks for.
    pub(crate) fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// Returns the name of the client's capability.
    fn capability(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }

    /// Returns the method of the request.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }
}

/// What a caller can be asked for, and what it has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallerInput {
    /// The declared capabilities of [`InputKind`], as members of a JSON object.
    pub(crate) capabilities: String,
    kinds: Vec<InputKind>,
    /// `inputResponses`, as JSON.
    pub(crate) responses: Option<Bytes>,
    /// `requestState`, as JSON.
    pub(crate) state: Option<Bytes>,
}

impl CallerInput {
    /// Reads what the parameters of a modern call say of input; none if they say nothing. Parts are slices of `source`.
    ///
    /// # Errors
    /// An answer or a state has the wrong type.
    pub(crate) fn read(params: &Params<'_>, source: &Bytes) -> Result<Option<Box<Self>>, RpcError> {
        let slice = |raw: &RawValue| source.slice_ref(raw.get().as_bytes());
        let (mut capabilities, mut kinds) = (String::new(), Vec::new());
        let declared = params.meta.as_ref().and_then(|meta| meta.capabilities);
        let declared: BTreeMap<&str, &RawValue> =
            declared.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for kind in InputKind::ALL {
            let name = kind.capability();
            let Some(raw) = declared.get(name) else { continue };
            if raw.get().starts_with('{') && raw.get().len() <= MAX_CAPABILITY {
                let separator = if kinds.is_empty() { "" } else { "," };
                capabilities.push_str(&format!("{separator}\"{name}\":{}", raw.get()));
                kinds.push(kind);
            }
        }
        let typed = |raw: Option<&RawValue>, first, error| match raw {
            Some(raw) if !raw.get().starts_with(first) => Err(RpcError::invalid_params(error)),
            raw => Ok(raw.map(slice)),
        };
        let responses = typed(params.input_responses, '{', "inputResponses must be an object")?;
        let state = typed(params.request_state, '"', "requestState must be a string")?;
        if kinds.is_empty() && responses.is_none() && state.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self { capabilities, kinds, responses, state })))
    }
}

/// Why a caller is not asked for the input that a server wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAsked {
    /// The exposition is enforced.
    Enforced,
    /// The caller speaks a version without this kind of request.
    Legacy,
    /// The caller has not declared that it can be asked for this, or for what the server wants.
    Undeclared(Option<InputKind>),
    /// The server wants something else.
    Unknown,
}

impl NotAsked {
    /// Returns the protocol error for a caller that lacks a capability; none if the result of the call says so. `wanted`: what the
    /// server wants.
    pub(crate) fn error(self, wanted: &InputRequired) -> Option<RpcError> {
        let required = match (self, wanted) {
            (Self::Undeclared(Some(kind)), _) => format!("{{\"{}\":{{}}}}", kind.capability()),
            (Self::Undeclared(None), InputRequired::Undeclared { required: Some(required) }) => {
                String::from_utf8_lossy(required).into_owned()
            }
            (Self::Undeclared(None), _) => "{}".to_owned(),
            (Self::Enforced | Self::Legacy | Self::Unknown, _) => return None,
        };
        Some(RpcError::missing_capability(&required))
    }

    /// Returns the text for the caller. It holds nothing that the server has sent.
    pub(crate) fn text(self) -> String {
        let why = match self {
            Self::Enforced => "which does not pass under Enforced",
            Self::Legacy => "which only clients of the version 2026-07-28 can be asked for",
            Self::Undeclared(_) => "and the client has not declared the capability for it",
            Self::Unknown => "of a kind that the gateway does not know",
        };
        format!("The tool asks for input, {why}.")
    }
}

/// Why a request that a server sends, before 2026-07-28, does not reach a caller. The server gets this as the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CannotAsk {
    /// No tool is being called.
    NotACall,
    /// The exposition is enforced.
    Enforced,
    /// The caller speaks 2026-07-28.
    Modern,
    /// The caller has no session in which it could have declared that it can be asked.
    NoSession,
    /// The caller has not declared that it can be asked, or that it can be asked for this.
    Undeclared(Option<InputKind>),
    /// The caller has not declared this mode of elicitation.
    Mode,
    /// It asks for nothing that a caller could give.
    Method,
    /// It is too large.
    TooLarge,
    /// The gateway has no memory for it.
    Memory,
    /// The gateway has no keys at the moment.
    NoKeys,
}

impl CannotAsk {
    /// Returns the JSON-RPC code. That for a mode is the one that the specification names (MCP 2025-11-25, "Elicitation").
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Mode | Self::TooLarge => -32602,
            Self::Memory | Self::NoKeys => -32603,
            Self::NotACall | Self::Enforced | Self::Modern | Self::NoSession | Self::Undeclared(_) | Self::Method => {
                -32601
            }
        }
    }

    /// Returns the text for the server, which needs no escapes in JSON.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NotACall => "a caller can be asked only during the call of a tool",
            Self::Enforced => {
                "the caller cannot be asked: the gateway enforces filters, and requests of servers pass none"
            }
            Self::Modern => "the caller cannot be asked: it speaks 2026-07-28, which has no requests during a call",
            Self::NoSession => "the caller cannot be asked: it has no session of its own",
            Self::Undeclared(Some(InputKind::Elicitation)) => "the caller has not declared the capability elicitation",
            Self::Undeclared(Some(InputKind::Sampling)) => "the caller has not declared the capability sampling",
            Self::Undeclared(Some(InputKind::Roots)) => "the caller has not declared the capability roots",
            Self::Undeclared(None) => "the caller has not declared a capability for this",
            Self::Mode => "the caller has not declared this mode of elicitation",
            Self::Method => "the gateway does not pass requests of this method on",
            Self::TooLarge => "the request is too large for the gateway",
            Self::Memory => "the gateway has no memory for the request",
            Self::NoKeys => "the gateway cannot pass requests on at the moment",
        }
    }
}

/// Checks that a caller may be asked for what a server wants.
///
/// # Errors
/// [`NotAsked`].
pub(crate) fn check(
    wanted: &InputRequired,
    input: Option<&CallerInput>,
    era: Era,
    enforcement: Enforcement,
) -> Result<(), NotAsked> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        method: &'a RawValue,
    }
    if enforcement == Enforcement::Enforced {
        return Err(NotAsked::Enforced);
    }
    if era == Era::Legacy {
        return Err(NotAsked::Legacy);
    }
    let InputRequired::Asked { requests, .. } = wanted else { return Err(NotAsked::Undeclared(None)) };
    let requests: BTreeMap<String, Request<'_>> = match requests {
        Some(requests) => serde_json::from_slice(requests).map_err(|_| NotAsked::Unknown)?,
        None => BTreeMap::new(),
    };
    let declared = input.map_or(&[][..], |input| &input.kinds);
    requests.values().try_for_each(|request| {
        let method = string(request.method).ok_or(NotAsked::Unknown)?;
        let kind = InputKind::of_method(&method).ok_or(NotAsked::Unknown)?;
        if declared.contains(&kind) { Ok(()) } else { Err(NotAsked::Undeclared(Some(kind))) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &Bytes) -> Params<'_> {
        serde_json::from_slice(text).unwrap()
    }

    fn read(text: &'static str) -> Result<Option<CallerInput>, RpcError> {
        let source = Bytes::from_static(text.as_bytes());
        CallerInput::read(&params(&source), &source).map(|input| input.map(|input| *input))
    }

    #[test]
    fn capabilities_for_input_answers_and_state_are_read() {
        let of = |capabilities: &str, kinds: &[InputKind], responses: Option<&str>, state: Option<&str>| CallerInput {
            capabilities: capabilities.to_owned(),
            kinds: kinds.to_vec(),
            responses: responses.map(|text| Bytes::copy_from_slice(text.as_bytes())),
            state: state.map(|text| Bytes::copy_from_slice(text.as_bytes())),
        };
        use InputKind::{Elicitation, Roots, Sampling};
        for (text, expected) in [
            ("{}", None),
            (r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"a":{}}}}}"#, None),
            (r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":true,"roots":null}}}"#, None),
            (
                r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":1,"roots":{},"elicitation":{"url":{}}}}}"#,
                Some(of(r#""elicitation":{"url":{}},"roots":{}"#, &[Elicitation, Roots], None, None)),
            ),
            (
                r#"{"inputResponses":{"a":{"n":1.10}},"requestState":"\u00e9","_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}"#,
                Some(of(r#""sampling":{}"#, &[Sampling], Some(r#"{"a":{"n":1.10}}"#), Some(r#""\u00e9""#))),
            ),
            (r#"{"requestState":"s"}"#, Some(of("", &[], None, Some("\"s\"")))),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        for text in [r#"{"inputResponses":[1]}"#, r#"{"requestState":{}}"#, r#"{"requestState":7}"#] {
            assert_eq!(read(text).unwrap_err().code, -32602, "{text}");
        }
    }

    #[test]
    fn a_caller_is_asked_for_what_it_has_declared() {
        use Enforcement::{Advisory, Enforced};
        let declared = r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}"#;
        let input = read(declared).unwrap();
        let asked = |requests: Option<&str>| InputRequired::Asked {
            requests: requests.map(|text| Bytes::copy_from_slice(text.as_bytes())),
            state: Some(Bytes::from_static(b"\"s\"")),
        };
        let elicits = asked(Some(r#"{"a":{"method":"elicitation/create","params":{}},"b":{"method":"roots\/list"}}"#));
        let samples = asked(Some(r#"{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage"}}"#));
        for (wanted, input, era, enforcement, expected) in [
            (&elicits, input.as_ref(), Era::Modern, Advisory, Ok(())),
            (&elicits, input.as_ref(), Era::Modern, Enforced, Err(NotAsked::Enforced)),
            (&elicits, None, Era::Legacy, Advisory, Err(NotAsked::Legacy)),
            (&elicits, None, Era::Legacy, Enforced, Err(NotAsked::Enforced)),
            (&elicits, None, Era::Modern, Advisory, Err(NotAsked::Undeclared(Some(InputKind::Elicitation)))),
            (&samples, input.as_ref(), Era::Modern, Advisory, Err(NotAsked::Undeclared(Some(InputKind::Sampling)))),
            (&asked(None), None, Era::Modern, Advisory, Ok(())),
            (&asked(Some(r#"{"a":{"method":"ping"}}"#)), input.as_ref(), Era::Modern, Advisory, Err(NotAsked::Unknown)),
            (&asked(Some(r#"{"a":7}"#)), input.as_ref(), Era::Modern, Advisory, Err(NotAsked::Unknown)),
            (
                &InputRequired::Undeclared { required: None },
                input.as_ref(),
                Era::Modern,
                Advisory,
                Err(NotAsked::Undeclared(None)),
            ),
            (&InputRequired::Undeclared { required: None }, None, Era::Legacy, Advisory, Err(NotAsked::Legacy)),
        ] {
            assert_eq!(check(wanted, input, era, enforcement), expected, "{era:?} {enforcement:?}");
        }
    }

    #[test]
    fn a_missing_capability_is_an_error_of_the_protocol() {
        let undeclared =
            |required: Option<&'static str>| InputRequired::Undeclared { required: required.map(Bytes::from) };
        let asked = InputRequired::Asked { requests: None, state: None };
        for (not_asked, wanted, required) in [
            (NotAsked::Undeclared(Some(InputKind::Roots)), &asked, Some(r#"{"roots":{}}"#)),
            (
                NotAsked::Undeclared(None),
                &undeclared(Some(r#"{"sampling":{"n":1.10}}"#)),
                Some(r#"{"sampling":{"n":1.10}}"#),
            ),
            (NotAsked::Undeclared(None), &undeclared(None), Some("{}")),
            (NotAsked::Enforced, &undeclared(Some(r#"{"sampling":{}}"#)), None),
            (NotAsked::Legacy, &undeclared(None), None),
            (NotAsked::Unknown, &asked, None),
        ] {
            let error = not_asked.error(wanted);
            let data = required.map(|required| format!(r#"{{"requiredCapabilities":{required}}}"#));
            assert_eq!(error.as_ref().map(|error| (error.code, error.status)), required.map(|_| (-32021, 400)));
            assert_eq!(error.and_then(|error| error.data), data, "{not_asked:?}");
        }
    }
}

//! Reads the trace context of a call (W3C Trace Context), from `params._meta` or from HTTP headers.

use std::borrow::Cow;

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::mcp::Params;
use crate::mcp::message::string;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
/// Maximum characters of a `tracestate` that is forwarded: the minimum that Trace Context (3.3.1.5) requires, since the
/// text is the caller's and goes upstream.
const TRACESTATE_LENGTH: usize = 512;

/// The caller's span that a call belongs to; none if the call has none, or a malformed one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parent(pub(super) Option<SpanContext>);

impl Parent {
    /// Reads the span from the message if it has one (MCP, SEP-414), since a connection may carry messages of many
    /// traces. Otherwise reads it from the headers.
    pub(crate) fn read(params: &Params<'_>, headers: Option<&HeaderMap>) -> Self {
        let meta = params.meta.as_ref().and_then(|meta| {
            let parent = meta.traceparent.and_then(string)?;
            Some(Carrier { parent, state: meta.tracestate.and_then(string) })
        });
        let carrier = meta.or_else(|| Carrier::of(headers?));
        Self(carrier.filter(Carrier::is_sound).and_then(|carrier| carrier.span()))
    }
}

/// The two fields of a trace context.
struct Carrier<'a> {
    parent: Cow<'a, str>,
    state: Option<Cow<'a, str>>,
}

impl<'a> Carrier<'a> {
    fn of(headers: &'a HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let (parent, None) = (parents.next()?, parents.next()) else { return None };
        // Several lines are one list (Trace Context, 3.3.1).
        let mut states = headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok());
        let state = states
            .next()
            .map(|first| states.fold(Cow::Borrowed(first), |all, next| Cow::Owned(format!("{all},{next}"))));
        Some(Self { parent: Cow::Borrowed(parent.to_str().ok()?), state })
    }

    /// Returns whether `traceparent` has its fixed format. The library is less strict, and accepts shorter ids.
    fn is_sound(&self) -> bool {
        let parent = self.parent.as_bytes();
        let shape = parent.iter().take(55).enumerate().all(|(at, byte)| match at {
            2 | 35 | 52 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
        shape && (parent.len() == 55 || (parent.get(55) == Some(&b'-') && !parent.starts_with(b"00")))
    }

    fn span(&self) -> Option<SpanContext> {
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), self);
        let span = context.span().span_context().clone();
        span.is_valid().then_some(span)
    }
}

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => Some(&self.parent),
            TRACESTATE => self.state.as_deref().filter(|state| state.len() <= TRACESTATE_LENGTH),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const A: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const B: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn read(meta: &str, headers: &[(&str, &str)]) -> Option<SpanContext> {
        let params = format!(r#"{{"_meta":{meta}}}"#);
        let params: Params<'_> = serde_json::from_str(&params).expect("is valid");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("is a name");
            map.append(name, HeaderValue::from_str(value).expect("is a value"));
        }
        Parent::read(&params, Some(&map)).0
    }

    #[test]
    fn the_message_comes_before_the_headers() {
        let both = read(&format!(r#"{{"traceparent":"{A}"}}"#), &[("traceparent", B)]).expect("a parent");
        assert_eq!(both.trace_id().to_string(), TRACE);
        assert!(both.is_sampled() && both.is_remote());
        let header = read("{}", &[("traceparent", B)]).expect("a parent");
        assert!(!header.is_sampled());
        assert_eq!(read("{}", &[]), None);
    }

    #[test]
    fn a_malformed_trace_context_is_ignored() {
        let later = format!("cc{}-what-is-to-come", &A[2..]);
        assert!(read("{}", &[("traceparent", &later)]).is_some(), "a later version");
        let trailing = format!("{A}-more");
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = A.to_ascii_uppercase();
        for bad in [
            "",
            "00",
            "00-1-2-01",
            &A[..54],
            &trailing,
            zeros,
            &upper,
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(read("{}", &[("traceparent", bad)]), None, "{bad}");
        }
        assert_eq!(read("{}", &[("traceparent", A), ("traceparent", B)]), None, "two of them");
        assert_eq!(read(r#"{"traceparent":7}"#, &[]), None, "no text");
    }

    #[test]
    fn a_trace_state_is_joined_and_bounded() {
        let state = |lines: &[&str]| {
            let mut headers = vec![("traceparent", A)];
            headers.extend(lines.iter().map(|line| ("tracestate", *line)));
            read("{}", &headers).expect("a parent").trace_state().header()
        };
        assert_eq!(state(&["a=1", "b=2"]), "a=1,b=2");
        assert_eq!(state(&[&format!("a={}", "x".repeat(600))]), "");
        assert_eq!(state(&["no list"]), "");
    }
}

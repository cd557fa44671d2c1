//! The spans of a call: the call itself, each request that it sends, and the filter.
//!
//! Names and attributes follow the OpenTelemetry semantic conventions for MCP (server spans) and HTTP (client spans).
//! Attributes that these do not define begin with `tamis.`. HTTP client spans have no `url.full` on purpose: a path and
//! a query hold arguments, and sometimes a credential. `url.template` is the path in the manifest.

use http::{HeaderMap, Method, StatusCode};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, Span};
use tamis_config::ExpositionId;

use super::{Parent, Traces};
use crate::upstream::Target;

/// Characters of a request id that a span shows.
const REQUEST_ID: usize = 64;

/// The span of a call in flight. It ends when this is dropped.
#[derive(Debug)]
pub struct CallTrace {
    tracer: SdkTracer,
    // In a box, since most calls are not traced, and a span is large.
    span: Box<Span>,
}

impl Traces {
    /// Begins the span of a tool call. `request` is the JSON-RPC id, as JSON.
    pub(crate) fn call(&self, parent: &Parent, exposition: &ExpositionId, tool: &str, request: &str) -> CallTrace {
        let tracer = self.tracer.clone();
        let context = match &parent.0 {
            Some(parent) => Context::new().with_remote_span_context(parent.clone()),
            None => Context::new(),
        };
        let span = tracer.span_builder(format!("tools/call {tool}")).with_kind(SpanKind::Server);
        let mut span = tracer.build_with_context(span, &context);
        record(&mut span, || {
            let mut attributes = vec![
                KeyValue::new("mcp.method.name", "tools/call"),
                KeyValue::new("gen_ai.operation.name", "execute_tool"),
                KeyValue::new("gen_ai.tool.name", tool.to_owned()),
                KeyValue::new("tamis.namespace", exposition.namespace.clone()),
                KeyValue::new("tamis.exposition", exposition.name.clone()),
            ];
            if request.len() <= REQUEST_ID {
                attributes.push(KeyValue::new("jsonrpc.request.id", request.trim_matches('"').to_owned()));
            }
            attributes
        });
        CallTrace { tracer, span: Box::new(span) }
    }
}

impl CallTrace {
    /// Sets the outcome: a value of the label `outcome` of `tamis_tool_calls_total`, or `rejected`.
    pub(crate) fn outcome(&mut self, outcome: &'static str, is_error: bool) {
        self.span.set_attribute(KeyValue::new("tamis.outcome", outcome));
        if is_error {
            fail(&mut self.span, outcome);
        }
    }

    /// Returns the id of the trace in hex, if the trace is sampled.
    pub(crate) fn sampled_id(&self) -> Option<String> {
        let context = self.span.span_context();
        context.is_sampled().then(|| context.trace_id().to_string())
    }

    fn child(&self, name: String, kind: SpanKind) -> Span {
        let span = self.tracer.span_builder(name).with_kind(kind);
        self.tracer.build_with_context(span, &holding(self.span.span_context()))
    }

    /// Begins the span of a request to the upstream. `template` is the path in the manifest, if the request goes there.
    /// `sent` is the number of requests that the call has sent before.
    pub(crate) fn request(&self, method: &Method, target: &Target, template: Option<&str>, sent: u32) -> RequestSpan {
        let name = template.map_or_else(|| method.to_string(), |template| format!("{method} {template}"));
        let mut span = self.child(name, SpanKind::Client);
        record(&mut span, || {
            let mut attributes = vec![
                KeyValue::new("http.request.method", method.to_string()),
                KeyValue::new("server.address", target.origin().host_str().to_owned()),
                KeyValue::new("server.port", i64::from(target.origin().port())),
                KeyValue::new("url.scheme", target.origin().scheme().to_owned()),
            ];
            if let Some(template) = template {
                attributes.push(KeyValue::new("url.template", template.to_owned()));
            }
            if sent > 0 {
                attributes.push(KeyValue::new("tamis.request.number", i64::from(sent) + 1));
            }
            attributes
        });
        RequestSpan { span: Box::new(span), is_over: false }
    }

    /// Begins the span of a program that is run. `runs` is the number of runs of the call before.
    pub(crate) fn program(&self, name: &str, runs: u32) -> RequestSpan {
        let mut span = self.child(name.to_owned(), SpanKind::Client);
        record(&mut span, || {
            let mut attributes = vec![KeyValue::new("process.executable.name", name.to_owned())];
            if runs > 0 {
                attributes.push(KeyValue::new("tamis.request.number", i64::from(runs) + 1));
            }
            attributes
        });
        RequestSpan { span: Box::new(span), is_over: false }
    }

    /// Begins the span of the filter.
    pub(crate) fn filter(&self) -> FilterSpan {
        FilterSpan(Box::new(self.child("filter".to_owned(), SpanKind::Internal)))
    }
}

/// The span of a request to the upstream, until the end of its answer. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    span: Box<Span>,
    /// Whether the result is known.
    is_over: bool,
}

impl RequestSpan {
    /// Writes the trace context of this span into the headers, in place of any other.
    pub(crate) fn inject(&self, headers: &mut HeaderMap) {
        headers.remove("tracestate");
        let context = holding(self.span.span_context());
        TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(headers));
        if headers.get("tracestate").is_some_and(http::HeaderValue::is_empty) {
            headers.remove("tracestate");
        }
    }

    /// Notes the method of the MCP message that the request carries.
    pub(crate) fn mcp_method(&mut self, method: &'static str) {
        record(&mut self.span, || vec![KeyValue::new("mcp.method.name", method)]);
    }

    /// Notes the status of the answer.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.is_over = true;
        self.span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if status.is_client_error() || status.is_server_error() {
            fail(&mut self.span, status.as_str().to_owned());
        }
    }

    /// Notes how a program ended: its exit code, unless a signal ended it, and the category of the error, if it is one.
    pub(crate) fn exited(&mut self, code: Option<i32>, error: Option<&'static str>) {
        self.is_over = true;
        if let Some(code) = code {
            self.span.set_attribute(KeyValue::new("process.exit.code", i64::from(code)));
        }
        if let Some(category) = error {
            fail(&mut self.span, category);
        }
    }

    /// Notes a failure: there was no answer, or it ended early. `category` is that of the error.
    pub(crate) fn failed(&mut self, category: &'static str) {
        self.is_over = true;
        fail(&mut self.span, category);
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if !self.is_over {
            // The request was dropped: the deadline has passed, or the caller has disconnected.
            fail(&mut self.span, "cancelled");
        }
    }
}

/// The span of the filter. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FilterSpan(Box<Span>);

impl FilterSpan {
    /// Sets the sizes before and after filtering.
    pub(crate) fn sizes(&mut self, input: usize, output: usize) {
        let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.0.set_attribute(KeyValue::new("tamis.filter.input_bytes", number(input)));
        self.0.set_attribute(KeyValue::new("tamis.filter.output_bytes", number(output)));
    }

    /// Notes the stage that failed.
    pub(crate) fn failed(&mut self, stage: &'static str) {
        fail(&mut self.0, stage);
    }
}

/// Adds attributes to a span if it is sampled. Otherwise they are not computed.
fn record(span: &mut Span, attributes: impl FnOnce() -> Vec<KeyValue>) {
    if span.is_recording() {
        span.set_attributes(attributes());
    }
}

fn fail(span: &mut Span, kind: impl Into<opentelemetry::StringValue>) {
    span.set_attribute(KeyValue::new("error.type", opentelemetry::Value::String(kind.into())));
    span.set_status(Status::error(""));
}

fn holding(span: &SpanContext) -> Context {
    Context::new().with_remote_span_context(span.clone())
}

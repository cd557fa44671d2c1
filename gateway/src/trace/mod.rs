//! Traces of tool calls, sent to an OpenTelemetry collector by OTLP over HTTP. Off unless an endpoint is configured.
//!
//! ```text
//! settings    options and environment      pure
//! context     the caller's trace context   pure
//! span        a call, its requests, its filter
//! collector   sends spans
//! ```
//!
//! Spans hold names, sizes, times and statuses. They never hold an argument, a URL with arguments, a payload, a header
//! or the caller: people who read the collector may not be allowed to read the answers of the tools.

mod collector;
mod context;
mod settings;
mod span;

use std::fmt;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

use collector::Collector;
use settings::{Plan, plan};

pub(crate) use context::Parent;
pub use settings::TraceOptions;
pub use span::CallTrace;
pub(crate) use span::RequestSpan;

/// Maximum time to send the remaining spans when the gateway stops.
const FLUSH: Duration = Duration::from_secs(5);
/// The default of `service.name`.
const SERVICE: &str = "tamis-gateway";

/// The options or the environment configure traces incorrectly.
#[derive(Debug, thiserror::Error)]
#[error("traces: {0}")]
pub struct TraceError(String);

/// The destination of spans. Clones are cheap and share it.
#[derive(Clone)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    endpoint: String,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Traces {
    /// Prepares to send spans, without connecting. Must be called from within a runtime.
    ///
    /// Returns none if traces are not configured, neither by `options` nor by the variables of the OpenTelemetry
    /// specification (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`), or if they are disabled
    /// (`OTEL_SDK_DISABLED`, `OTEL_TRACES_EXPORTER=none`). Other variables of the specification apply too:
    /// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
    /// `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`.
    ///
    /// # Errors
    /// [`TraceError`] names the option or the variable that cannot be used, and the remedy.
    pub fn new(options: &TraceOptions) -> Result<Option<Self>, TraceError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(Plan { endpoint, sampling }) = plan(options, &variable).map_err(TraceError)? else {
            return Ok(None);
        };
        let collector = Collector::new(&endpoint).map_err(TraceError)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_endpoint(&endpoint)
            .build()
            .map_err(|error| TraceError(error.to_string()))?;
        let mut builder =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource(options, &variable));
        if let Some(ratio) = sampling {
            // A caller's sampling decision is kept, otherwise traces would be incomplete.
            builder = builder.with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))));
        }
        let provider = builder.build();
        let tracer = provider.tracer("tamis");
        Ok(Some(Self { provider, tracer, endpoint }))
    }

    /// Returns the URL to which spans are sent. It has no credentials.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends the remaining spans, for five seconds at most. No span is sent afterwards.
    pub(crate) async fn shut_down(self) {
        // The library blocks the thread.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Returns the attributes of this process: the defaults, overridden by the environment.
fn resource(options: &TraceOptions, variable: &dyn Fn(&str) -> Option<String>) -> Resource {
    let defaults = [("service.name", SERVICE.to_owned()), ("service.version", env!("CARGO_PKG_VERSION").to_owned())];
    let instance = variable("HOSTNAME").map(|name| ("service.instance.id", name));
    let all = defaults.into_iter().chain(instance).chain(options.resource.iter().cloned());
    let resource = Resource::builder_empty()
        .with_attributes(all.map(|(key, value)| KeyValue::new(key, value)))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match variable("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;

    use super::*;

    #[test]
    fn the_environment_may_override_the_name_of_the_process() {
        let options =
            TraceOptions { resource: vec![("tamis.gateway_group", "public".to_owned())], ..Default::default() };
        let said = |environment: &[(&str, &str)], key: &'static str| {
            let variable =
                |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            resource(&options, &variable).get(&Key::new(key)).map(|value| value.to_string())
        };
        let pod = [("HOSTNAME", "tamis-public-7d9f")];
        for (key, value) in [
            ("service.name", SERVICE),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", "tamis-public-7d9f"),
            ("tamis.gateway_group", "public"),
            ("telemetry.sdk.language", "rust"),
        ] {
            assert_eq!(said(&pod, key).as_deref(), Some(value), "{key}");
        }
        assert_eq!(said(&[], "service.instance.id"), None);
        assert_eq!(said(&[("OTEL_SERVICE_NAME", "edge")], "service.name").as_deref(), Some("edge"));
    }
}

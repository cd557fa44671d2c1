//! Options for tracing calls, for commands that serve.

use anyhow::Context as _;
use tamis_crds::resources::TracingSpec;
use tamis_gateway::{TraceOptions, Traces};

/// Options for tracing calls.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct TraceArgs {
    /// Send OpenTelemetry traces of calls to this collector with OTLP over HTTP: http://HOST:4318. Off by default. Takes
    /// precedence over the OTEL_* variables of the OpenTelemetry specification, which work too.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// The ratio of calls to trace, from 0 to 1, if the caller has not decided [default: 1].
    #[arg(long, value_name = "RATIO")]
    trace_sampling: Option<f64>,
}

impl TraceArgs {
    /// Prepares to send traces, or returns `None` if none are requested. `group` applies if the command line names no
    /// collector. Must be called within the runtime.
    pub(crate) fn traces(
        &self,
        group: Option<&TracingSpec>,
        resource: Vec<(&'static str, String)>,
    ) -> anyhow::Result<Option<Traces>> {
        let group = group.filter(|_| self.otlp_endpoint.is_none());
        let options = TraceOptions {
            endpoint: self.otlp_endpoint.clone().or_else(|| group.map(|group| group.endpoint.clone())),
            sampling: self.trace_sampling.or_else(|| group.and_then(TracingSpec::sampling)),
            resource,
        };
        let traces = Traces::new(&options).context("see --otlp-endpoint and --trace-sampling")?;
        if let Some(traces) = &traces {
            tracing::info!(endpoint = traces.endpoint(), "tracing calls");
        }
        Ok(traces)
    }
}

//! A real OpenTelemetry Collector that receives spans by OTLP over HTTP and writes them to a file.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Port;
use crate::cluster::{Process, eventually};

const SOON: Duration = Duration::from_secs(30);
/// Lines of its log that a failed test shows.
const SHOWN: usize = 30;

/// A running collector. It is killed on drop.
#[derive(Debug)]
pub struct Collector {
    process: Option<Process>,
    port: Port,
    folder: TempDir,
}

/// A span as the collector received it.
#[derive(Debug, Clone)]
pub struct Span {
    /// The name.
    pub name: String,
    /// In hexadecimal.
    pub trace: String,
    /// In hexadecimal.
    pub id: String,
    /// The parent span; empty for the root of the trace.
    pub parent: String,
    /// 1 internal, 2 server, 3 client.
    pub kind: u64,
    /// 0 unset, 1 ok, 2 error.
    pub status: u64,
    /// Its attributes, each as text.
    pub attributes: BTreeMap<String, String>,
    /// The attributes of its resource, the sender.
    pub resource: BTreeMap<String, String>,
}

impl Collector {
    /// Starts a collector on a free port.
    ///
    /// # Errors
    /// It is not installed, exited, or is not ready in time.
    pub async fn start() -> Result<Self> {
        let mut collector = Self::reserve()?;
        collector.run().await?;
        Ok(collector)
    }

    /// Reserves a port and a folder without starting the collector.
    ///
    /// # Errors
    /// No port is free.
    pub fn reserve() -> Result<Self> {
        Ok(Self { process: None, port: Port::reserve()?, folder: TempDir::with_prefix("tamis-collector-")? })
    }

    /// Starts the collector.
    ///
    /// # Errors
    /// It is not installed, exited, or is not ready in time.
    pub async fn run(&mut self) -> Result<()> {
        let configuration = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": self.port.address()}}}},
            "exporters": {"file": {"path": self.folder.path().join("spans"), "flush_interval": "50ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            },
        });
        let file = self.folder.path().join("config.yaml");
        fs::write(&file, configuration.to_string())?;
        let mut command = Command::new(crate::tool("otelcol/otelcol")?);
        command.arg("--config").arg(format!("file:{}", file.display()));
        let process = Process::spawn("otelcol", &mut command, &self.folder.path().join("log"), SHOWN)?;
        let process = self.process.insert(process);
        let url = format!("http://{}/v1/traces", self.port.address());
        // The endpoint rejects GET; any answer shows that it is ready.
        process.answers(&url, SOON, |_| true).await
    }

    /// Returns the endpoint for senders.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Returns all received spans as JSON lines.
    #[must_use]
    pub fn text(&self) -> String {
        fs::read_to_string(self.folder.path().join("spans")).unwrap_or_default()
    }

    /// Returns all spans so far, except a line that is still being written.
    ///
    /// # Errors
    /// A line is not valid JSON.
    pub fn spans(&self) -> Result<Vec<Span>> {
        let text = self.text();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut spans = Vec::new();
        for line in whole.lines() {
            let batch: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            for sender in members(&batch, "resourceSpans") {
                let resource = attributes(&sender["resource"]);
                for scope in members(sender, "scopeSpans") {
                    spans.extend(members(scope, "spans").map(|span| Span::read(span, &resource)));
                }
            }
        }
        Ok(spans)
    }

    /// Waits until a trace has at least `count` spans.
    ///
    /// # Errors
    /// The spans do not arrive in time.
    pub async fn trace(&self, trace: &str, count: usize) -> Result<Vec<Span>> {
        eventually(&format!("{count} spans of {trace}"), SOON, async || {
            let spans: Vec<Span> = self.spans()?.into_iter().filter(|span| span.trace == trace).collect();
            Ok((spans.len() >= count).then_some(spans))
        })
        .await
    }
}

fn members<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn attributes(value: &Value) -> BTreeMap<String, String> {
    let each = members(value, "attributes").filter_map(|attribute| {
        let value = attribute["value"].as_object()?.values().next()?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((attribute["key"].as_str()?.to_owned(), text))
    });
    each.collect()
}

impl Span {
    fn read(span: &Value, resource: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            trace: text("traceId"),
            id: text("spanId"),
            parent: text("parentSpanId"),
            kind: span["kind"].as_u64().unwrap_or_default(),
            status: span["status"]["code"].as_u64().unwrap_or_default(),
            attributes: attributes(span),
            resource: resource.clone(),
        }
    }

    /// Returns an attribute, or an empty string.
    #[must_use]
    pub fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

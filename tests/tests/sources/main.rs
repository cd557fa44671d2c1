//! What works for each source of a service: the table of `docs/sources.md`, a test for each of its cells.

mod backend;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use backend::{Backend, PRIVATE, PROTO, input_schema, item};
use serde_json::{Value, json};
use tamis_tests::collector::Collector;
use tamis_tests::documents::Folder;
use tamis_tests::{Gateway, Options, Rpc, root};

/// The kinds of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Http,
    OpenApi,
    GraphQl,
    Grpc,
    Program,
    Mcp,
}

const SOURCES: [Source; 6] =
    [Source::Http, Source::OpenApi, Source::GraphQl, Source::Grpc, Source::Program, Source::Mcp];

/// What users expect of each source: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    Filters,
    Endpoint,
    Auth,
    Headers,
    Timeouts,
    CustomTools,
    Retry,
    Limits,
    Errors,
    Arguments,
    Audit,
    Traces,
    Metrics,
}

const FEATURES: [Feature; 13] = [
    Feature::Filters,
    Feature::Endpoint,
    Feature::Auth,
    Feature::Headers,
    Feature::Timeouts,
    Feature::CustomTools,
    Feature::Retry,
    Feature::Limits,
    Feature::Errors,
    Feature::Arguments,
    Feature::Audit,
    Feature::Traces,
    Feature::Metrics,
];

/// What the filter below makes of an item, whatever the source.
const FILTERED: &str = r#"{"id":"1","title":"Item 1","count":1234567890,"price":1.5,"note":"café","tags":["a","b"]}"#;

/// Filters, expositions, and what a ConfigurationPlan adds: the same for every source.
const SHARED: &str = "apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: closed}
spec:
  name: closed
  service: {name: items, version: '1'}
  enforcement: Enforced
  filters:
    item: &item
      root: ''
      select: {id: id, title: title, count: count, price: price, note: note, tags: 'tags[*].name'}
    first: *item
---
apiVersion: tamis.dev/v1alpha1
kind: ConfigurationPlan
metadata: {name: prod}
spec:
  REQUESTS
  timeouts: {call: 2s}
---
apiVersion: tamis.dev/v1alpha1
kind: CustomTools
metadata: {name: items}
spec:
  service: {name: items, version: '1'}
  customTools:
    first: {tool: item, description: The first item, input: {type: object}, arguments: {id: '1'}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: closed}
spec:
  service: {name: items, version: '1'}
  filters: [closed]
  configurationPlan: {name: prod}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: open}
spec:
  service: {name: items, version: '1'}
  filters: []
  configurationPlan: {name: prod}
  limits: {maxResponseBytes: 8Ki}
";

/// What a ConfigurationPlan changes of requests.
const REQUESTS: &str = "endpoint: ENDPOINT
  auth: {type: bearer, secretRef: {name: items, key: token}}
  headers: {set: {X-Team: blue}}";
/// Lets `tamis serve` start programs.
const GROUP: &str = "apiVersion: tamis.dev/v1alpha1
kind: GatewayGroup
metadata: {name: default}
spec: {commands: {enabled: true}}
";

/// Where nothing listens: only the endpoint of the plan is right.
const NOWHERE: &str = "http://127.0.0.1:9";

impl Source {
    fn word(self) -> &'static str {
        match self {
            Self::Http => "HTTP actions",
            Self::OpenApi => "OpenAPI",
            Self::GraphQl => "GraphQL",
            Self::Grpc => "gRPC",
            Self::Program => "Programs",
            Self::Mcp => "MCP servers",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Http | Self::OpenApi => "/api",
            Self::GraphQl => "/graphql",
            Self::Mcp => "/mcp",
            Self::Grpc | Self::Program => "",
        }
    }

    /// Where the backend has this source.
    fn endpoint(self, backend: &Backend) -> String {
        if self == Self::Grpc { backend.grpc.clone() } else { format!("{}{}", backend.url, self.path()) }
    }

    /// The source of the manifest. Its tool is `item`, with the argument `id`. `items`: a folder with a file for each item.
    fn manifest(self, items: &Path) -> String {
        let url = format!("{NOWHERE}{}", self.path());
        let retry = "retry: {maxAttempts: 2, backoffMs: 10, retryOn: [503]}";
        let spec = match self {
            Self::Http => format!(
                "  http:
    baseUrl: {url}
    actions:
      item:
        description: One item
        method: GET
        path: /items/{{id}}
        args: {{id: {{type: string, required: true}}}}
        {retry}
"
            ),
            Self::OpenApi => format!(
                "  openapi:
    baseUrl: {url}
    overrides: {{item: {{{retry}}}}}
    inline:
      openapi: 3.1.0
      paths:
        /items/{{id}}:
          get:
            operationId: item
            parameters: [{{name: id, in: path, required: true, schema: {{type: string}}}}]
"
            ),
            Self::GraphQl => format!(
                "  graphql:
    baseUrl: {url}
    overrides: {{item: {{{retry}}}}}
    inline: |
      scalar BigInt
      type Query {{ item(id: ID!): Item }}
      type Item {{ id: ID!, title: String, count: BigInt, price: Float, secret: String, note: String, tags: [Tag] }}
      type Tag {{ name: String, color: String }}
"
            ),
            Self::Grpc => {
                let proto: String = PROTO.lines().map(|line| format!("        {line}\n")).collect();
                format!(
                    "  grpc:
    endpoint: {url}
    overrides: {{Items_Item: {{name: item, {retry}}}}}
    inline:
      items.proto: |
{proto}"
                )
            }
            Self::Program => format!(
                "  command:
    executable: cat
    workingDir: {}
    jsonFlag: none
    actions:
      item:
        description: One item
        command: []
        args: {{id: {{type: string, required: true, style: positional}}}}
        risk: {{level: low}}
        retry: {{maxAttempts: 3, backoffMs: 300, retryOn: [1]}}
",
                items.display()
            ),
            Self::Mcp => {
                let schema = input_schema();
                format!("  mcp: {{url: '{url}', tools: {{item: {{description: One item, inputSchema: {schema}}}}}}}\n")
            }
        };
        format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: items}}\nspec:\n  version: '1'\n{spec}"
        )
    }

    /// Returns why a source cannot have a feature; `None` if it has.
    fn lacks(self, feature: Feature) -> Option<&'static str> {
        match (self, feature) {
            (Self::Mcp, Feature::Retry) => Some("a call is sent once: a server may have run it"),
            (Self::Program, Feature::Endpoint | Feature::Auth | Feature::Headers) => {
                Some("an error: a program gets no request")
            }
            _ => None,
        }
    }
}

impl Feature {
    fn word(self) -> &'static str {
        match self {
            Self::Filters => "One ToolsFilters gives the same bytes",
            Self::Endpoint => "`endpoint` of a ConfigurationPlan",
            Self::Auth => "`auth` of a ConfigurationPlan",
            Self::Headers => "`headers` of a ConfigurationPlan",
            Self::Timeouts => "`timeouts` of a ConfigurationPlan",
            Self::CustomTools => "CustomTools",
            Self::Retry => "`retry`",
            Self::Limits => "`limits` of an Exposition",
            Self::Errors => "Errors: text under `Advisory`, none of it under `Enforced`",
            Self::Arguments => "Arguments are checked before anything is sent",
            Self::Audit => "Audit records",
            Self::Traces => "Traces",
            Self::Metrics => "Metrics",
        }
    }
}

/// A folder with a file for each item, which a program reads.
struct Items(tempfile::TempDir);

impl Items {
    fn new() -> Result<Self> {
        let items = Self(tempfile::tempdir()?);
        for id in ["1", "large", "audited"] {
            items.add(id)?;
        }
        // Nothing ever writes into it.
        let made = Command::new("mkfifo").arg(items.0.path().join("slow")).status()?;
        ensure!(made.success(), "mkfifo: {made}");
        // Its name is in the message of the program.
        Ok(items)
    }

    fn add(&self, id: &str) -> Result<()> {
        Ok(fs::write(self.0.path().join(id), item(id))?)
    }
}

/// A source in front of the backend.
struct Env {
    backend: Backend,
    gateway: Gateway,
    closed: Rpc,
    open: Rpc,
    collector: Collector,
    items: Items,
    _folder: Folder,
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

impl Env {
    async fn new(source: Source) -> Result<Self> {
        let (backend, collector) = (Backend::start().await?, Collector::start().await?);
        let folder = Folder::new()?;
        let items = Items::new()?;
        folder.write("items.yaml", &source.manifest(items.0.path()))?;
        folder.write("group.yaml", GROUP)?;
        let requests = if source == Source::Program { String::new() } else { REQUESTS.to_owned() };
        let requests = requests.replace("ENDPOINT", &source.endpoint(&backend));
        folder.write("shared.yaml", &SHARED.replace("REQUESTS", &requests))?;
        let options = Options {
            arguments: ["--log-format", "json", "--otlp-endpoint", &collector.endpoint()].map(str::to_owned).to_vec(),
            environment: vec![("TAMIS_SECRET_ITEMS_TOKEN".to_owned(), "token-of-the-plan".to_owned())],
            ..Options::default()
        };
        let gateway = Gateway::with(folder.path(), &options).await?;
        let (closed, open) = (gateway.rpc("closed")?, gateway.rpc("open")?);
        closed.until_listed().await?;
        open.until_listed().await?;
        Ok(Self { backend, closed, open, gateway, collector, items, _folder: folder })
    }

    /// Calls `item` with an identifier; the error, or the text.
    async fn item(rpc: &Rpc, id: &str) -> Result<Result<String, String>> {
        let message = rpc.call("item", &json!({"id": id})).await?.message()?;
        let result = &message["result"];
        let text = || result["content"][0]["text"].as_str().map(str::to_owned).context("no text");
        Ok(match (&message["error"], &result["isError"]) {
            (Value::Null, Value::Bool(true)) => Err(text()?),
            (Value::Null, _) => Ok(text()?),
            (error, _) => Err(error.to_string()),
        })
    }

    /// Tries a feature.
    async fn check(&self, source: Source, feature: Feature) -> Result<()> {
        let Self { backend, gateway, closed, open, collector, items, .. } = self;
        match feature {
            Feature::Filters | Feature::Endpoint => {
                ensure!(
                    Self::item(closed, "1").await? == Ok(FILTERED.to_owned()),
                    "{:?}",
                    Self::item(closed, "1").await?
                );
                ensure!(Self::item(open, "1").await?.is_ok_and(|text| text.contains("PRIVATE")), "open");
            }
            Feature::Auth => {
                let seen = backend.header("authorization");
                ensure!(!seen.is_empty() && seen.iter().all(|value| value == "Bearer token-of-the-plan"), "{seen:?}");
            }
            Feature::Headers => {
                let seen = backend.header("x-team");
                ensure!(!seen.is_empty() && seen.iter().all(|value| value == "blue"), "{seen:?}");
            }
            Feature::Timeouts => {
                let error = Self::item(closed, "slow").await?;
                ensure!(error.as_ref().is_err_and(|error| error.contains("did not answer in time")), "{error:?}");
            }
            Feature::CustomTools => {
                ensure!(closed.call("first", &json!({})).await?.text_block()? == FILTERED, "the alias");
            }
            Feature::Retry => {
                let call = Self::item(closed, "flaky");
                let later = async {
                    // The first run of a program finds no file.
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    items.add("flaky")
                };
                let (answer, added) = tokio::join!(call, later);
                added?;
                let answer = answer?;
                ensure!(answer.as_ref().is_ok_and(|text| text.contains("Item flaky")), "{answer:?}");
            }
            Feature::Limits => {
                let error = Self::item(open, "large").await?;
                ensure!(error.as_ref().is_err_and(|error| error.contains("8192 bytes")), "{error:?}");
            }
            Feature::Errors => {
                let (inside, outside) = (Self::item(closed, "broken").await?, Self::item(open, "broken").await?);
                ensure!(inside.as_ref().is_err_and(|error| !error.contains(PRIVATE)), "{inside:?}");
                let (Ok(text) | Err(text)) = &outside;
                let (private, shown) =
                    if source == Source::Program { ("No such file", false) } else { (PRIVATE, text == "null") };
                ensure!(inside.is_err_and(|error| !error.contains(private)), "Enforced");
                ensure!(text.contains(private) || shown, "{outside:?}");
            }
            Feature::Arguments => {
                let before = backend.requests();
                let message = closed.call("item", &json!({"id": true})).await?.message()?.to_string();
                ensure!(message.contains("`id`: is not of type"), "{message}");
                ensure!(backend.requests() == before, "something was sent");
            }
            Feature::Audit => {
                Self::item(closed, "audited").await?.map_err(anyhow::Error::msg)?;
                tamis_tests::cluster::eventually("a record", Duration::from_secs(10), async || {
                    let log = gateway.log();
                    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                    let found = lines.filter(|line| line["target"] == "audit" && line["tool"] == "item").count();
                    Ok((found > 0).then_some(()))
                })
                .await?;
                ensure!(!gateway.log().contains("PRIVATE"), "an answer in the log");
            }
            Feature::Traces => {
                let request = closed.request("tools/call", json!({"name": "item", "arguments": {"id": "1"}}));
                let caller = format!("00-{TRACE}-00f067aa0ba902b7-01");
                closed.send(request.header("traceparent", caller)).await?.text_block()?;
                let spans = collector.trace(TRACE, 3).await?;
                ensure!(spans.iter().any(|span| span.kind == 3), "no span of the upstream: {spans:?}");
                let seen = backend.header("traceparent");
                ensure!(source == Source::Program || seen.iter().any(|value| value.contains(TRACE)), "{seen:?}");
            }
            Feature::Metrics => {
                let labels = ["exposition=\"closed\"", "tool=\"item\"", "outcome=\"ok\""];
                ensure!(gateway.metric("tamis_tool_calls_total", &labels).await? > 0.0, "no call is counted");
                ensure!(
                    gateway.metric("tamis_filter_saved_bytes_total", &labels[..2]).await? > 0.0,
                    "no byte is saved"
                );
            }
        }
        Ok(())
    }
}

async fn every_cell_of(source: Source) -> Result<()> {
    let env = Env::new(source).await?;
    for feature in FEATURES.into_iter().filter(|feature| source.lacks(*feature).is_none()) {
        env.check(source, feature).await.with_context(|| format!("{source:?}: {feature:?}\n{}", env.gateway.log()))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn http_actions() -> Result<()> {
    every_cell_of(Source::Http).await
}

#[tokio::test(flavor = "multi_thread")]
async fn openapi() -> Result<()> {
    every_cell_of(Source::OpenApi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn graphql() -> Result<()> {
    every_cell_of(Source::GraphQl).await
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc() -> Result<()> {
    every_cell_of(Source::Grpc).await
}

#[tokio::test(flavor = "multi_thread")]
async fn programs() -> Result<()> {
    every_cell_of(Source::Program).await
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_servers() -> Result<()> {
    every_cell_of(Source::Mcp).await
}

/// The table in the documentation is that of this file.
#[test]
fn the_table_is_documented() -> Result<()> {
    let words: Vec<&str> = SOURCES.iter().map(|source| source.word()).collect();
    let mut table = format!("| | {} |\n|---|{}\n", words.join(" | "), "---|".repeat(SOURCES.len()));
    for feature in FEATURES {
        let cells: Vec<&str> = SOURCES.iter().map(|source| source.lacks(feature).unwrap_or("yes")).collect();
        table.push_str(&format!("| {} | {} |\n", feature.word(), cells.join(" | ")));
    }
    let page = std::fs::read_to_string(root().join("docs/sources.md"))?;
    ensure!(page.contains(&table), "docs/sources.md has another table; this is right:\n\n{table}");
    Ok(())
}

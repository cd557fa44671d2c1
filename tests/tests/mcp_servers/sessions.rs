//! A published server that asks its callers during calls, and published clients that answer, through two gateways of a group.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tamis_config::group_keys::{GroupKeys, RootKey};
use tamis_crds::{CompileEnv, compile, load};
use tamis_gateway::upstream::LocalCredentials;
use tamis_gateway::{Gateway, Keyring, Options};
use tamis_tests::documents::Folder;
use tamis_tests::servers::Everything;
use tamis_tests::{Client, Era, Sdk, Target};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::import::import;

/// Gateways of a group behind one address, which gives each request to the next of them.
struct Group {
    url: String,
    gateways: Arc<Gateways>,
    shutdown: CancellationToken,
}

struct Gateways {
    addresses: Vec<String>,
    client: reqwest::Client,
    requests: AtomicUsize,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Group {
    /// Starts two gateways that share keys, with the documents of a folder.
    async fn start(folder: &Folder) -> Result<Self> {
        let loaded = load(&[folder.path().to_path_buf()]);
        let compiled = compile(&loaded.resources, &CompileEnv::default());
        ensure!(loaded.diagnostics.is_empty() && compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
        let keys = [1, 2].map(|byte| RootKey::new([byte; 32]));
        let keyring = Arc::new(Keyring::new(&GroupKeys::new(keys[0].clone(), keys[1].clone(), 0)));
        let (shutdown, mut addresses) = (CancellationToken::new(), Vec::new());
        for _ in 0..2 {
            let credentials = Arc::new(LocalCredentials::new(None));
            let gateway = Gateway::new(Options { keyring: Some(Arc::clone(&keyring)), ..Options::new(credentials) })?;
            let report = gateway.apply(&compiled.snapshot);
            ensure!(report.failed.is_empty(), "{:?}", report.failed);
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?.to_string());
            tokio::spawn(gateway.serve(listener, shutdown.clone()));
        }
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).build()?;
        let gateways = Arc::new(Gateways { addresses, client, requests: AtomicUsize::new(0) });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let app = Router::new().fallback(forward).with_state(Arc::clone(&gateways));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { url, gateways, shutdown })
    }

    fn target(&self, exposition: &str) -> Target {
        Target::Url(format!("{}/mcp/default/{exposition}", self.url))
    }
}

async fn forward(State(gateways): State<Arc<Gateways>>, request: Request) -> Response {
    let number = gateways.requests.fetch_add(1, Ordering::SeqCst);
    let address = &gateways.addresses[number % gateways.addresses.len()];
    let (parts, body) = request.into_parts();
    let url = format!("http://{address}{}", parts.uri);
    let mut headers = parts.headers;
    headers.remove("host");
    let Ok(body) = axum::body::to_bytes(body, 8 << 20).await else { return Response::default() };
    match gateways.client.request(parts.method, url).headers(headers).body(body).send().await {
        Ok(answer) => {
            let mut response = Response::new(());
            *response.status_mut() = answer.status();
            *response.headers_mut() = answer.headers().clone();
            response.headers_mut().remove("transfer-encoding");
            response.map(|()| Body::from_stream(answer.bytes_stream()))
        }
        Err(error) => (axum::http::StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// The public server, published twice: tools that ask, under both kinds of enforcement.
async fn published(everything: &Everything) -> Result<(Folder, Group)> {
    let folder = Folder::new()?;
    let capabilities = ["--client-capability", "elicitation", "--client-capability", "sampling"];
    let url = everything.url();
    let arguments = [&[&*url, "-o", "."][..], &capabilities].concat();
    let ran = import(&folder, &arguments).await?;
    ensure!(ran.code == 0, "{}", ran.err);
    // Without the capabilities, the server does not list these tools.
    let compared = import(&folder, &["-o", "everything.yaml"]).await?;
    ensure!(compared.code == 4 && compared.out.contains("removed  trigger-elicitation-request"), "{}", compared.out);
    let compared = import(&folder, &[&["-o", "everything.yaml"][..], &capabilities].concat()).await?;
    ensure!(compared.code == 0, "{}", compared.out);
    let service = "service: {name: everything, version: \"2.0.0\"}";
    let tools = "[trigger-elicitation-request, trigger-sampling-request, echo]";
    folder.write(
        "expositions.yaml",
        &format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: open}}\nspec: {{{service}, filters: [], tools: {{include: {tools}}}}}\n\
             ---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: closed}}\nspec: {{name: closed, {service}, enforcement: Enforced, \
             filters: {{trigger-elicitation-request: {{passthrough: true}}, trigger-sampling-request: {{passthrough: true}}, echo: {{passthrough: true}}}}}}\n\
             ---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: closed}}\nspec: {{{service}, filters: [closed], tools: {{include: {tools}}}}}\n"
        ),
    )?;
    let group = Group::start(&folder).await?;
    Ok((folder, group))
}

fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_server_asks_published_clients_through_any_gateway() -> Result<()> {
    let everything = Everything::start().await?;
    let (_folder, group) = published(&everything).await?;
    let content = json!({"name": "ada lovelace", "email": "ada@example.org"});
    for (sdk, samples) in
        [(Sdk::TypeScript1, true), (Sdk::Python1, true), (Sdk::TypeScript2, false), (Sdk::Python2, false)]
    {
        let said = format!("{sdk:?}");
        let mut answers = json!({"elicits": content});
        if samples {
            answers["samples"] = json!("a sampled text");
        }
        let mut client = Client::connect_answering(sdk, Era::Legacy, &group.target("open"), &answers).await;
        let client = client.as_mut().map_err(|error| anyhow::anyhow!("{said}: {error}"))?;
        // Each request reaches the other gateway than the one before. One more between them, so that both orders occur.
        for round in 0..4 {
            let result = client.result("trigger-elicitation-request", json!({})).await.context(said.clone())?;
            assert!(text(&result).contains("ada lovelace"), "{said}: {result}");
            if samples {
                let result = client.result("trigger-sampling-request", json!({"prompt": "hello"})).await?;
                assert!(text(&result).contains("a sampled text"), "{said}: {result}");
            }
            if round % 2 == 0 {
                let result = client.result("echo", json!({"message": "a"})).await?;
                assert_eq!(text(&result), "Echo: a", "{said}");
            }
        }
        // Under `Enforced` no request of the server passes, and no call waits.
        let mut client = Client::connect_answering(sdk, Era::Legacy, &group.target("closed"), &answers).await?;
        let refused = client.result("trigger-elicitation-request", json!({})).await?;
        assert_eq!(refused["isError"], json!(true), "{said}: {refused}");
        assert_eq!(text(&client.result("echo", json!({"message": "b"})).await?), "Echo: b", "{said}");
    }
    // Of the other era, and without the capability: the server has no such tool for them.
    for (sdk, era) in [(Sdk::TypeScript2, Era::Modern), (Sdk::TypeScript1, Era::Legacy)] {
        let mut client = Client::connect(sdk, era, &group.target("open")).await?;
        let refused = client.result("trigger-elicitation-request", json!({})).await?;
        assert_eq!(refused["isError"], json!(true), "{sdk:?}: {refused}");
    }
    assert!(group.gateways.requests.load(Ordering::SeqCst) > 50);
    Ok(())
}

//! Signatures of whole gateways: they cover the bytes that the client received, and the memory of an answer is held until
//! its record is written.

use std::io::Write;
use std::sync::Mutex;

use serde_json::{Value, json};
use tamis_config::group_keys::{GroupKeys, RootKey};
use tamis_config::{Access, ExpositionDocument, ExpositionId, FORMAT_VERSION, ServiceDocument};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::exposition::hex;
use crate::gateway::Gateway;
use crate::shares::Resource;
use crate::upstream::LocalCredentials;
use crate::{Change, Options};

#[derive(Debug, Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    /// The audit records.
    fn records(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == TARGET).collect()
    }
}

/// An upstream whose answers have as many bytes as the path says, or an error's status for `error`.
async fn upstream() -> String {
    use axum::Router;
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::routing::get;

    let answer = async |Path(bytes): Path<usize>| json!({"text": "x\"y".repeat(bytes / 3)}).to_string();
    let app = Router::new().route("/{bytes}", get(answer)).route("/error", get(async || StatusCode::IM_A_TEAPOT));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    base
}

/// The names of the tools, which are the paths of the upstream.
const TOOLS: [&str; 5] = ["error", "3", "1000", "60000", "3000000"];

fn gateway(base: &str, keyring: &Arc<Keyring>) -> Arc<Gateway> {
    let tool = |path: &&str| {
        let call = json!({"http": {"method": "GET", "path": format!("/{path}")}});
        ((*path).to_owned(), json!({"inputSchema": {"type": "object"}, "call": call}))
    };
    let service: ServiceDocument = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "name": "s", "version": "1", "source": {"http": {"baseUrl": base}},
        "tools": TOOLS.iter().map(tool).collect::<serde_json::Map<_, _>>(),
    }))
    .unwrap();
    let tools: serde_json::Map<_, _> = TOOLS.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    let document: ExpositionDocument = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "id": {"namespace": "team", "name": "a"}, "service": service.digest(),
        "enforcement": "Advisory", "tools": tools, "access": Access::Anonymous,
    }))
    .unwrap();
    let options = Options::new(Arc::new(LocalCredentials::new(None)));
    let gateway = Gateway::new(Options { keyring: Some(Arc::clone(keyring)), ..options }).unwrap();
    assert_eq!(gateway.update(&[Change::Serve(Arc::new(document), Arc::new(service))]).failed, []);
    gateway
}

fn message(id: usize, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}).to_string()
}

async fn until(reached: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if reached() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never reached");
}

#[tokio::test]
async fn a_signature_verifies_over_the_bytes_that_the_client_received() {
    let output = Output::default();
    let sink = output.clone();
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || sink.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let keyring = Arc::new(Keyring::default());
    keyring.set(Some(&GroupKeys::new(RootKey::new([1; 32]), RootKey::new([2; 32]), 0)));
    let gateway = gateway(&upstream().await, &keyring);
    let mut received: Vec<Vec<u8>> = Vec::new();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp/team/a", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let served = tokio::spawn(Arc::clone(&gateway).serve(listener, shutdown.clone()));
    let http = reqwest::Client::new();
    for (id, tool) in TOOLS.iter().enumerate() {
        let request = http.post(&url).header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").header("mcp-protocol-version", "2025-11-25");
        received.push(request.body(message(id, tool)).send().await.unwrap().bytes().await.unwrap().to_vec());
    }
    // The memory of answers is given back once they and their records are written.
    until(|| gateway.auditor.log.is_idle() && gateway.shares.used(Resource::Bytes) == 0).await;
    shutdown.cancel();
    served.await.unwrap();

    let (client, server) = tokio::io::duplex(1 << 10);
    let (read, write) = tokio::io::split(server);
    let id = ExpositionId { namespace: "team".to_owned(), name: "a".to_owned() };
    let session = Arc::clone(&gateway);
    let session = tokio::spawn(async move { session.serve_stdio(&id, read, write, CancellationToken::new()).await });
    let (read, mut write) = tokio::io::split(client);
    let mut lines = BufReader::new(read).lines();
    for (id, tool) in TOOLS.iter().enumerate() {
        write.write_all(format!("{}\n", message(id, tool)).as_bytes()).await.unwrap();
        received.push(lines.next_line().await.unwrap().unwrap().into_bytes());
    }
    drop((write, lines));
    session.await.unwrap().unwrap();

    let records = output.records();
    assert_eq!(records.len(), received.len());
    for (record, answer) in records.iter().zip(&received) {
        let signature = keyring.sign([answer.as_slice()]).unwrap();
        assert_eq!(record["result_bytes"], answer.len(), "{record}");
        assert_eq!(record["result_hmac"], hex(&signature.hmac), "{record}");
        assert_eq!(record["hmac_key"], hex(&signature.key), "{record}");
    }
    assert!(received.iter().any(|answer| answer.len() > 3_000_000));
}

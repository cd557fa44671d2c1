//! Keys of callers, through the real binary and a real client.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Served, connect_stdio, documents, start_upstream, text_of};
use rmcp::ServiceExt as _;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

const ALICE: &str = "key-of-alice";
const BOB: &str = "key-of-bob";
/// `printf %s key-of-alice | sha256sum`.
const ALICES: &str = "d16a80956c32f3f5fb979bea408abac8c3eef6c54ecb234279e337146cf87b47";
const BOBS: &str = "808a1d81b5de08d72083995df738947d519d230a20c236003268f0f4b65ee475";
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// The documents, with keys wanted.
fn prepare(dir: &Path) {
    documents(dir, start_upstream(), "/x");
    let path = dir.join("a.yaml");
    let access = "access: {apiKeys: {secretRef: {name: partners}}}, filters: [a]}}\n";
    let text = fs::read_to_string(&path).expect("is there").replace("filters: [a]}}\n", access);
    assert!(text.contains("apiKeys"));
    fs::write(path, text).expect("writes");
}

async fn status(url: &str, key: &str) -> u16 {
    let request = reqwest::Client::new().post(url).header("content-type", "application/json").body(LIST);
    request.header("x-api-key", key).send().await.expect("answers").status().as_u16()
}

async fn becomes(url: &str, key: &str, expected: u16) {
    let begun = Instant::now();
    while status(url, key).await != expected {
        assert!(begun.elapsed() < Duration::from_secs(5), "never {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_files_that_change_while_it_serves() {
    let (dir, secrets) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    prepare(dir.path());
    let partners = secrets.path().join("partners");
    fs::create_dir(&partners).expect("makes");
    fs::write(partners.join("alice"), format!("sha256:{ALICES}\n")).expect("writes");
    // Whoever has keys may listen where other machines are.
    let folder = secrets.path().to_str().expect("is text");
    let served = Served::start(dir.path(), &["--listen", "0.0.0.0:0", "--secrets", folder]);
    let url = served.url("a").replace("0.0.0.0", "127.0.0.1");

    let config = StreamableHttpClientTransportConfig::with_uri(url.clone()).auth_header(ALICE);
    let client = ().serve(StreamableHttpClientTransport::from_config(config)).await.expect("connects");
    assert_eq!(text_of(&client, "get").await, r#"{"x":1}"#);
    let stranger = StreamableHttpClientTransport::from_uri(url.clone());
    assert!(().serve(stranger).await.is_err(), "a client without a key is told");
    assert_eq!((status(&url, ALICE).await, status(&url, BOB).await), (200, 401));

    fs::write(partners.join("bob"), format!("sha256:{BOBS}")).expect("writes");
    becomes(&url, BOB, 200).await;
    assert_eq!(status(&url, ALICE).await, 200, "both, for as long as the change takes");
    fs::remove_file(partners.join("alice")).expect("removes");
    becomes(&url, ALICE, 401).await;
    assert_eq!(status(&url, BOB).await, 200);

    fs::remove_dir_all(&partners).expect("removes");
    becomes(&url, BOB, 503).await;
    let log = served.log();
    assert!(log.contains("key:alice@127.0.0.1"), "the record names who called: {log}");
    for secret in [ALICE, BOB, ALICES, BOBS] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_starts_the_process_needs_no_key() {
    let dir = tempfile::tempdir().expect("a folder");
    prepare(dir.path());
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tamis"));
    command.arg("serve").arg(dir.path()).arg("--stdio");
    let client = connect_stdio(command).await;
    assert_eq!(text_of(&client, "get").await, r#"{"x":1}"#);
    client.cancel().await.expect("ends");
}

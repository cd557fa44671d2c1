//! `tamis serve` with a certificate, from a GatewayGroup document and from the command line.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::{Gateway, Options, Upstream, binary, documents::Folder};

const GROUP: &str = "
apiVersion: tamis.dev/v1alpha1
kind: GatewayGroup
metadata: {name: default}
spec: {listener: {tls: {secretRef: {name: front}}}}
";

/// A certificate for `localhost` in `FOLDER/front`, as a mounted Secret; what a client has to trust.
fn renew(folder: &Path) -> Result<reqwest::Certificate> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let folder = folder.join("front");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("tls.crt"), made.cert.pem())?;
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem())?;
    Ok(reqwest::Certificate::from_pem(made.cert.pem().as_bytes())?)
}

async fn lists(gateway: &Gateway, trusted: reqwest::Certificate) -> Result<String> {
    let client = reqwest::Client::builder().tls_certs_only([trusted]).build()?;
    let port = gateway.url.rsplit(':').next().unwrap_or_default();
    let request = client
        .post(format!("https://localhost:{port}/mcp/default/open"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string());
    Ok(request.send().await?.error_for_status()?.text().await?)
}

fn folder(upstream: &Upstream) -> Result<Folder> {
    let folder = Folder::sample(upstream)?;
    let open = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "Exposition", "metadata": {"name": "open"},
                      "spec": {"service": {"name": "tracker", "version": "1.0.0"}, "filters": []}});
    folder.write("open.yaml", &open.to_string())?;
    Ok(folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_names_the_certificate_and_a_renewal_is_served() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = folder(&upstream)?;
    folder.write("group.yaml", GROUP)?;
    let secrets = tempfile::tempdir()?;
    let first = renew(secrets.path())?;
    let secrets_folder = secrets.path().display().to_string();
    let options = Options { arguments: vec!["--secrets".to_owned(), secrets_folder], ..Options::default() };
    let gateway = Gateway::with(folder.path(), &options).await?;
    ensure!(lists(&gateway, first.clone()).await?.contains("get-issue"));
    ensure!(reqwest::get(&gateway.url).await.is_err(), "plain HTTP is not served");
    let second = renew(secrets.path())?;
    let began = Instant::now();
    while lists(&gateway, second.clone()).await.is_err() {
        ensure!(began.elapsed() < Duration::from_secs(20), "{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(lists(&gateway, first).await.is_err(), "the old one is not shown any more");
    ensure!(gateway.log().contains("https://127.0.0.1:"), "{}", gateway.log());
    Ok(())
}

/// What cannot be served by TLS is not served at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_certificate_is_reported() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = folder(&upstream)?;
    let run = |arguments: &[&str]| -> Result<(Option<i32>, String)> {
        let serve = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let output =
            Command::new(binary("tamis")?).arg("serve").arg(folder.path()).args(serve).args(arguments).output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    };
    let (code, said) = run(&["--tls-cert", "/none", "--tls-key", "/none"])?;
    ensure!(code == Some(1) && said.contains("/none cannot be read"), "{code:?} {said}");
    let (code, said) = run(&["--tls-cert", "/none"])?;
    ensure!(code == Some(2) && said.contains("--tls-key"), "{code:?} {said}");
    folder.write("group.yaml", GROUP)?;
    let (code, said) = run(&[])?;
    ensure!(code == Some(1) && said.contains("set --secrets"), "{code:?} {said}");
    Ok(())
}

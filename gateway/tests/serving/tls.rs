//! TLS on the serving port, with real clients: which certificate they see, and that none of them fails while
//! certificates change.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tamis_engine::Enforcement;
use tamis_gateway::{Options, Tls, TlsFiles};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};

use crate::support::{
    Running, Upstream, at_workers, exposition, options, service, snapshot, start, tool, with_workers,
};

at_workers!(certificates_change_and_no_call_fails);

const SOON: Duration = Duration::from_secs(20);

/// A certificate for `localhost`, by an authority of its own: itself.
pub(crate) struct Made {
    pub(crate) certificate: String,
    pub(crate) key: String,
    der: CertificateDer<'static>,
}

/// One that ends with January of a year.
pub(crate) fn made(year: i32) -> Made {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 2, 1);
    let cert = params.self_signed(&key).unwrap();
    Made { certificate: cert.pem(), key: key.serialize_pem(), der: cert.der().clone() }
}

/// As the kubelet mounts a Secret: files behind a link that is swapped as a whole.
pub(crate) fn mount(folder: &Path, certificate: &str, key: &str) -> TlsFiles {
    let count = std::fs::read_dir(folder).unwrap().count();
    let data = folder.join(format!("..data-{count}"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("tls.crt"), certificate).unwrap();
    std::fs::write(data.join("tls.key"), key).unwrap();
    let link = folder.join("..next");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    std::fs::rename(link, folder.join("..data")).unwrap();
    let files = TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
    for file in [&files.certificate, &files.key] {
        if !file.is_symlink() {
            std::os::unix::fs::symlink(Path::new("..data").join(file.file_name().unwrap()), file).unwrap();
        }
    }
    files
}

async fn serving(files: TlsFiles, options: Options) -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"name": "x"}"#);
    let running = start(Options { tls: Some(Tls::load(files).unwrap()), ..options }).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let document = exposition("api", &service, Enforcement::Advisory, &[("read", None)]);
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    (upstream, running)
}

/// A handshake of a client that trusts these.
async fn handshake(
    running: &Running,
    trusted: &[&Made],
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for made in trusted {
        roots.add(made.der.clone()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(running.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

fn client(trusted: &[&Made]) -> reqwest::Client {
    let roots = trusted.iter().map(|made| reqwest::Certificate::from_pem(made.certificate.as_bytes()).unwrap());
    reqwest::Client::builder().tls_certs_only(roots).build().unwrap()
}

fn call(client: &reqwest::Client, running: &Running) -> reqwest::RequestBuilder {
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}});
    client
        .post(format!("https://localhost:{}/mcp/default/api", running.address.port()))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .body(message.to_string())
}

#[tokio::test]
async fn old_and_new_clients_find_what_they_speak() {
    let folder = tempfile::tempdir().unwrap();
    let one = made(2031);
    let (_upstream, running) = serving(mount(folder.path(), &one.certificate, &one.key), options()).await;
    for (alpn, versions, version, protocol) in [
        (&["h2", "http/1.1"][..], &[&TLS13][..], ProtocolVersion::TLSv1_3, Some(&b"h2"[..])),
        (&["http/1.1"], &[&TLS12], ProtocolVersion::TLSv1_2, Some(b"http/1.1")),
        (&[], &[&TLS12, &TLS13], ProtocolVersion::TLSv1_3, None),
    ] {
        let stream = handshake(&running, &[&one], alpn, versions).await.unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!((session.protocol_version(), session.alpn_protocol()), (Some(version), protocol));
    }
    let client = client(&[&one]);
    let answer = call(&client, &running).send().await.unwrap();
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    let text = answer.text().await.unwrap();
    assert!(text.contains(r#"\"name\""#), "{text}");
    // Plain HTTP is no way in, and holds up nobody.
    let plain = reqwest::Client::new().get(format!("http://{}/mcp/default/api", running.address)).send().await;
    assert!(plain.is_err(), "{plain:?}");
    assert_eq!(call(&client, &running).send().await.unwrap().status(), 200);
    // The admin port is plain, for probes.
    assert_eq!(running.admin("/readyz").await, (200, "ok\n".to_owned()));
}

/// A handshake that never ends must not keep a gateway from stopping.
#[tokio::test]
async fn a_silent_client_holds_up_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let one = made(2031);
    let (_upstream, running) = serving(mount(folder.path(), &one.certificate, &one.key), options()).await;
    let _silent = TcpStream::connect(running.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(5), running.served).await.unwrap().unwrap();
}

async fn certificates_change_and_no_call_fails(workers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let pairs = [made(2031), made(2032), made(2033)];
    let all: Vec<&Made> = pairs.iter().collect();
    let files = mount(folder.path(), &pairs[0].certificate, &pairs[0].key);
    let (_upstream, running) = serving(files, with_workers(workers)).await;
    let running = Arc::new(running);
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Two callers that keep their connection, and two that make one for each call.
    let callers: Vec<_> = [true, true, false, false]
        .into_iter()
        .map(|keeps| {
            let (running, over, calls) = (Arc::clone(&running), Arc::clone(&over), Arc::clone(&calls));
            let kept = client(&all);
            let fresh = all.iter().map(|made| made.certificate.clone()).collect::<Vec<_>>();
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let client = if keeps {
                        kept.clone()
                    } else {
                        let roots = fresh.iter().map(|pem| reqwest::Certificate::from_pem(pem.as_bytes()).unwrap());
                        reqwest::Client::builder().tls_certs_only(roots).build().unwrap()
                    };
                    let answer = call(&client, &running).send().await.unwrap();
                    assert_eq!(answer.status(), 200);
                    let text = answer.text().await.unwrap();
                    assert!(text.contains(r#""isError":false"#), "{text}");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let shows = async |which: &Made| {
        let began = Instant::now();
        loop {
            let stream = handshake(&running, &all, &["h2"], &[&TLS13]).await.unwrap();
            if shown(&stream) == which.der {
                break;
            }
            assert!(began.elapsed() < SOON, "the certificate is not shown");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // On every worker from now on.
        let mut open = Vec::new();
        for _ in 0..2 * workers {
            let stream = handshake(&running, &all, &["h2"], &[&TLS13]).await.unwrap();
            assert_eq!(shown(&stream), which.der);
            open.push(stream);
        }
        began.elapsed()
    };
    let ends = async || {
        let (_, metrics) = running.admin("/metrics").await;
        let mut lines =
            metrics.lines().filter_map(|line| line.strip_prefix("tamis_tls_certificate_expiry_timestamp_seconds "));
        lines.next().map(|end| end.parse::<f64>().unwrap())
    };
    shows(&pairs[0]).await;
    assert_eq!(ends().await, Some(1_927_670_400.0));
    mount(folder.path(), &pairs[1].certificate, &pairs[1].key);
    println!("a new certificate is shown after {:?}", shows(&pairs[1]).await);
    assert_eq!(ends().await, Some(1_959_206_400.0));

    // A key of another certificate: the one before stays, and that is said.
    mount(folder.path(), &pairs[2].certificate, &pairs[0].key);
    let began = Instant::now();
    loop {
        let (status, said) = running.admin("/readyz").await;
        assert_eq!(status, 200, "it serves well");
        if said.starts_with("ok: the TLS certificate before is shown, since ") {
            assert!(said.contains("tls.crt") && !said.contains("PRIVATE"), "{said}");
            break;
        }
        assert!(began.elapsed() < SOON, "{said}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shows(&pairs[1]).await;
    assert_eq!(ends().await, Some(1_959_206_400.0), "that of the one that is shown");
    let (_, metrics) = running.admin("/metrics").await;
    assert!(metrics.contains(r#"tamis_tls_reloads_total{result="applied"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"tamis_tls_reloads_total{result="failed"} 1"#), "{metrics}");

    mount(folder.path(), &pairs[2].certificate, &pairs[2].key);
    shows(&pairs[2]).await;
    assert_eq!(running.admin("/readyz").await, (200, "ok\n".to_owned()));
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls > 50, "{calls} calls");
    println!("{calls} calls, none failed");
}

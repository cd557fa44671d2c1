//! Large answers arrive whole over every protocol.

use serde_json::{Value, json};
use tamis_engine::Enforcement::Advisory;
use tamis_gateway::{Options, Tls};

use crate::support::{MODERN, Running, Upstream, exposition, options, service, snapshot, start, tool};
use crate::tls::{made, mount};

/// The HTTP clients, with the scheme of their URL: one for each protocol.
fn clients(certificate: &str) -> [(&'static str, reqwest::Version, reqwest::Client); 4] {
    let root = || [reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap()];
    let client = || reqwest::Client::builder().tls_certs_only(root());
    let (one, two) = (reqwest::Version::HTTP_11, reqwest::Version::HTTP_2);
    [
        ("http", one, client().build().unwrap()),
        ("http", two, client().http2_prior_knowledge().build().unwrap()),
        ("https", one, client().http1_only().build().unwrap()),
        ("https", two, client().build().unwrap()),
    ]
}

/// Makes a call and returns the answer's bytes.
async fn call(client: &reqwest::Client, url: String, version: reqwest::Version, era: &str) -> String {
    let mut params = json!({"name": "read", "arguments": {}});
    if era == MODERN {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = client.post(url).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", era);
    let request = request.header("mcp-method", "tools/call").header("mcp-name", "read").body(message.to_string());
    let response = request.send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, version));
    response.text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_arrive_whole_over_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = made(2031);
    let tls = Tls::load(mount(folder.path(), &certificate.certificate, &certificate.key)).unwrap();
    let upstream = Upstream::start().await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut gateways: Vec<Running> = Vec::new();
    for tls in [None, Some(tls)] {
        let running = start(Options { tls, ..options() }).await;
        let document = exposition("api", &service, Advisory, &[("read", None)]);
        assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
        gateways.push(running);
    }
    for (items, list) in [(10, true), (1_000, true), (1_000, false), (20_000, true), (20_000, false)] {
        let items: Vec<_> = (0..items).map(|n| json!({"n": n, "name": "a \"quoted\" name\n"})).collect();
        let document = if list { json!(items) } else { json!({"items": items}) }.to_string();
        upstream.json("/doc", document.clone());
        let text = serde_json::to_string(&document).unwrap();
        let structured = if list { format!(r#"{{"result":{document}}}"#) } else { document.clone() };
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{structured},"isError":false}}}}"#
        );
        for (scheme, version, client) in clients(&certificate.certificate) {
            let running = &gateways[usize::from(scheme == "https")];
            let url = format!("{scheme}://localhost:{}/mcp/default/api", running.address.port());
            let case = format!("{} bytes over {scheme} {version:?}", document.len());
            let legacy = call(&client, url.clone(), version, "2025-11-25").await;
            assert!(legacy == expected, "{case}");
            let modern: Value = serde_json::from_str(&call(&client, url, version, MODERN).await).unwrap();
            let legacy: Value = serde_json::from_str(&legacy).unwrap();
            for member in ["content", "structuredContent", "isError"] {
                assert!(modern["result"][member] == legacy["result"][member], "{case}: {member}");
            }
        }
    }
}

//! What a cluster's gateway must not mix: one generation's credential and another's URL, one namespace's Services and
//! another's expositions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tamis_config::{
    CredentialGrant, CredentialHandle, CredentialRef, ExpositionDocument, ExpositionId, ServiceDocument,
};
use tamis_engine::Enforcement::Advisory;
use tamis_gateway::Options;
use tamis_gateway::upstream::{ClientOptions, Credentials, EgressPolicy, Secret};

use crate::support::{Page, Running, Upstream, exposition, options, read, service, snapshot, start, tool, until};

/// The values of a group's shards.
#[derive(Debug, Clone, Default)]
struct Shards(Arc<Mutex<HashMap<String, &'static str>>>);

impl Credentials for Shards {
    fn get(&self, _: &str, _: &CredentialRef) -> Option<Secret> {
        panic!("a cluster knows no names");
    }

    fn by_handle(&self, handle: &CredentialHandle) -> Option<Secret> {
        self.0.lock().unwrap().get(&handle.0).map(|value| Secret::new(value))
    }
}

/// A service whose token goes into the query, and the exposition that reads it under `handle`.
fn generation(base: &str, handle: &str) -> (Arc<ServiceDocument>, ExpositionDocument) {
    let mut service = Arc::unwrap_or_clone(service(base, &json!({"read": tool("/doc")})));
    let mut document: Value = serde_json::from_slice(&serde_json::to_vec(&service).unwrap()).unwrap();
    let credential = json!({"name": "github", "key": "token"});
    document["source"]["http"]["auth"] = json!({"type": "query", "name": "key", "credential": credential});
    service = serde_json::from_str(&document.to_string()).unwrap();
    let mut exposition = exposition("api", &service, Advisory, &[("read", None)]);
    let uses = vec!["127.0.0.1 query key".parse().unwrap()];
    let grant = CredentialGrant { handle: CredentialHandle(handle.to_owned()), uses };
    exposition.credentials = [("github/token".to_owned(), grant)].into();
    (Arc::new(service), exposition)
}

#[tokio::test]
async fn a_new_url_never_meets_an_old_token() {
    let (first, second) = (Upstream::start().await, Upstream::start().await);
    let slow = Page { status: 200, kind: "application/json", body: "{}".to_owned(), delay: Duration::from_millis(300) };
    first.page("/doc", slow);
    second.json("/doc", "{}");
    let shards = Shards::default();
    shards.0.lock().unwrap().extend([("u.1.a".to_owned(), "old"), ("u.2.b".to_owned(), "new")]);
    let running = start(Options::new(Arc::new(shards.clone()))).await;
    let apply = |running: &Running, base: &str, handle: &str| {
        let (service, document) = generation(base, handle);
        assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    };
    let call = || running.modern_request("api", "tools/call", json!({"name": "read"})).send();
    apply(&running, &first.base, "u.1.a");
    let under_way = tokio::spawn(call());
    until("the call reached the upstream", || first.hits() == 1).await;
    apply(&running, &second.base, "u.2.b");
    // As the operator does when nothing names it any more.
    shards.0.lock().unwrap().remove("u.1.a");
    let (_, answer) = read(call().await.unwrap()).await;
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    let (_, answer) = read(under_way.await.unwrap().unwrap()).await;
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    assert_eq!(*first.queries.lock().unwrap(), ["key=old"]);
    assert_eq!(*second.queries.lock().unwrap(), ["key=new"]);
    // A value that is not there is not made up.
    apply(&running, &second.base, "u.3.c");
    let (_, answer) = read(call().await.unwrap()).await;
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    assert_eq!(second.hits(), 1);
}

#[tokio::test]
async fn expositions_have_the_services_of_their_namespace() {
    let egress = EgressPolicy::cluster(Vec::new(), Vec::new(), vec!["10.96.0.1".parse().unwrap()]);
    let client = ClientOptions { egress, ..ClientOptions::default() };
    let running = start(Options { client, ..options() }).await;
    let service = service("http://api.team.svc:8080", &json!({"read": tool("/doc")}));
    let of = |namespace: &str| ExpositionDocument {
        id: ExpositionId { namespace: namespace.to_owned(), name: "api".to_owned() },
        ..exposition("api", &service, Advisory, &[("read", None)])
    };
    let report = running.gateway.apply(&snapshot(&service, [of("team"), of("other")]));
    assert_eq!((report.added.len(), report.failed.len()), (2, 1));
    assert_eq!(report.failed[0].id.namespace, "other");
    let post = async |namespace: &str| {
        let request = running
            .http
            .post(format!("http://{}/mcp/{namespace}/api", running.address))
            .header("content-type", "application/json")
            .body(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        read(request.send().await.unwrap()).await
    };
    assert_eq!(post("team").await.0, 200);
    let (status, answer) = post("other").await;
    assert_eq!(status, 503);
    assert_eq!(answer["error"]["message"], json!("the exposition is not available"), "{answer}");
    let config = running.admin("/config").await.1;
    assert!(config.contains("EgressDenied") && config.contains("namespace team"), "{config}");
}

#[tokio::test]
async fn a_cluster_s_gateway_reaches_loopback_only_if_it_is_told_to() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let by_name = upstream.base.replace("127.0.0.1", "localhost");
    for (allow, base, works) in [
        (Vec::new(), &upstream.base, false),
        (Vec::new(), &by_name, false),
        (vec!["127.0.0.1".parse().unwrap()], &upstream.base, true),
        (vec!["localhost".parse().unwrap()], &by_name, true),
    ] {
        let egress = EgressPolicy::cluster(allow, Vec::new(), Vec::new());
        let client = ClientOptions { egress, ..ClientOptions::default() };
        let running = start(Options { client, ..options() }).await;
        let service = service(base, &json!({"read": tool("/doc")}));
        running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("read", None)])]));
        let (_, answer) = running.modern("api", "tools/call", json!({"name": "read"})).await;
        assert_eq!(answer["result"]["isError"] == json!(false), works, "{base}: {answer}");
    }
    assert_eq!(upstream.hits(), 2);
}

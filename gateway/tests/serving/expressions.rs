//! What the regular expressions of filters may take: of one namespace, and of all.

use std::sync::Arc;

use serde_json::{Value, json};
use tamis_config::{ExpositionDocument, ExpositionId, Reason, ServiceDocument};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_engine::{CompileOptions, Enforcement, compile};
use tamis_gateway::{Change, GatewayLimits, Options};

use crate::support::{Running, Upstream, exposition, filter, options, service, snapshot, start, tool};

/// A filter whose expressions differ from those of any other word.
fn strip(word: &str) -> String {
    json!({"text": {"strip": [format!(r"{word}\d{{40}}")]}}).to_string()
}

/// Bytes that a filter's expressions take.
fn bytes(text: &str) -> usize {
    let program = compile(&filter(text), &CompileOptions::default()).program.unwrap();
    program.expressions().map(|(_, bytes)| bytes).sum()
}

/// An exposition of one tool whose filter strips each of these words.
fn document(service: &ServiceDocument, namespace: &str, name: &str, words: &[&str]) -> ExpositionDocument {
    posed(service, namespace, name, words, Advisory)
}

fn posed(
    service: &ServiceDocument,
    namespace: &str,
    name: &str,
    words: &[&str],
    enforcement: Enforcement,
) -> ExpositionDocument {
    let names = ["one", "two", "three"];
    let filters: Vec<_> = words.iter().map(|word| strip(word)).collect();
    let tools: Vec<_> = names.into_iter().zip(filters.iter().map(|text| Some(text.as_str()))).collect();
    let mut document = exposition(name, service, enforcement, &tools);
    document.id = ExpositionId { namespace: namespace.to_owned(), name: name.to_owned() };
    document
}

struct Served {
    running: Running,
    service: Arc<ServiceDocument>,
}

impl Served {
    /// Offers an exposition. The reason and the message of its failure; none where it is loaded.
    fn offer(&self, document: ExpositionDocument) -> Option<(Reason, String)> {
        let change = Change::Serve(Arc::new(document), Arc::clone(&self.service));
        let mut failed = self.running.gateway.update(&[change]).failed;
        assert!(failed.len() < 2);
        failed.pop().map(|failure| (failure.reason, failure.message))
    }

    fn load(&self, namespace: &str, name: &str, words: &[&str]) -> Option<(Reason, String)> {
        self.offer(document(&self.service, namespace, name, words))
    }

    async fn tools(&self, path: &str) -> (u16, usize) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        let url = format!("http://{}/mcp/{path}", self.running.address);
        let request = self.running.http.post(url).header("content-type", "application/json").body(message);
        let (status, answer) = crate::support::read(request.send().await.unwrap()).await;
        (status, answer["result"]["tools"].as_array().map_or(0, Vec::len))
    }
}

/// A gateway that has room for two filters of a namespace, and for three in all.
async fn served() -> Served {
    let upstream = Upstream::start().await;
    let one = bytes(&strip("aaa"));
    assert!(one > 1_000 && one == bytes(&strip("zzz")));
    let limits = GatewayLimits { expressions: 3 * one, namespace_expressions: 2 * one, ..Default::default() };
    let running = start(Options { limits, ..options() }).await;
    let service = service(&upstream.base, &json!({"one": tool("/1"), "two": tool("/2"), "three": tool("/3")}));
    Served { running, service }
}

fn exceeded(failure: Option<(Reason, String)>, whose: &str) {
    let (reason, message) = failure.expect("it does not fit");
    assert_eq!(reason, Reason::QuotaExceeded);
    assert!(
        message.contains(&format!("of the {whose}'s filters")) && message.contains("[0-9] instead of"),
        "{message}"
    );
}

#[tokio::test]
async fn the_expressions_of_a_namespace_and_of_all_are_bounded() {
    let served = served().await;
    assert_eq!(served.load("a", "x", &["aaa"]), None);
    // An equal list is the same one, in any exposition and namespace.
    assert_eq!(served.load("a", "equal", &["aaa", "aaa"]), None);
    assert_eq!(served.load("a", "y", &["bbb"]), None);
    exceeded(served.load("a", "z", &["ccc"]), "namespace");
    assert_eq!(served.tools("a/z").await, (503, 0), "the one that exceeds is stopped");
    assert_eq!((served.tools("a/x").await, served.tools("a/y").await), ((200, 1), (200, 1)), "others serve");
    // Another namespace has its room, whatever came first; then there is none left.
    assert_eq!(served.load("b", "x", &["ddd"]), None);
    exceeded(served.load("c", "x", &["eee"]), "gateway group");
    assert_eq!(served.load("c", "plain", &["aaa"]), None, "what is there already needs no room");
    let config: Value = serde_json::from_str(&served.running.admin("/config").await.1).unwrap();
    let failed: Vec<_> = config["failed"].as_array().unwrap().iter().map(|f| (&f["namespace"], &f["name"])).collect();
    assert_eq!(failed, [(&json!("a"), &json!("z")), (&json!("c"), &json!("x"))], "{config}");
    // One exposition alone does not compile more than its namespace may have.
    let (reason, message) = served.load("d", "x", &["fff", "ggg", "hhh"]).unwrap();
    assert_eq!(reason, Reason::InvalidFilter);
    assert!(message.starts_with("tool three: the regular expressions of the exposition's filters"), "{message}");
}

#[tokio::test]
async fn what_goes_needs_no_room_and_what_does_not_fit_keeps_what_may_stay() {
    let served = served().await;
    for (namespace, name, word) in [("a", "x", "aaa"), ("a", "y", "bbb"), ("b", "x", "ccc")] {
        assert_eq!(served.load(namespace, name, &[word]), None);
    }
    assert_eq!(served.load("a", "x", &["ddd"]), None, "in the place of the old one");
    exceeded(served.load("a", "y", &["eee", "fff"]), "namespace");
    assert_eq!(served.tools("a/y").await, (200, 1), "the previous one stays");
    let tightened = posed(&served.service, "a", "y", &["eee", "fff"], Enforced);
    exceeded(served.offer(tightened), "namespace");
    assert_eq!(served.tools("a/y").await, (503, 0), "but not where the new one is stricter");
    assert_eq!(served.load("a", "x", &["ddd", "eee"]), None, "it made room");
    exceeded(served.load("b", "x", &["ccc", "fff"]), "gateway group");
    assert_eq!(served.load("a", "x", &["ddd"]), None);
    assert_eq!(served.load("b", "x", &["ccc", "fff"]), None);
}

#[tokio::test]
async fn of_a_whole_folder_the_one_that_exceeds_is_left_out() {
    let served = served().await;
    let documents = [("a", "x", "aaa"), ("a", "y", "bbb"), ("a", "z", "ccc"), ("b", "x", "ddd")]
        .map(|(namespace, name, word)| document(&served.service, namespace, name, &[word]));
    let all = snapshot(&served.service, documents);
    let refused = |failed: Vec<tamis_gateway::Failure>| -> Vec<String> {
        failed.into_iter().map(|failure| format!("{} {}", failure.id, failure.reason)).collect()
    };
    assert_eq!(refused(served.running.gateway.apply(&all).failed), ["a/z QuotaExceeded"]);
    for (path, expected) in [("a/x", (200, 1)), ("a/y", (200, 1)), ("a/z", (503, 0)), ("b/x", (200, 1))] {
        assert_eq!(served.tools(path).await, expected, "{path}");
    }
    let mut less = all;
    less.expositions.retain(|id, _| id.to_string() != "a/y");
    // The room of what goes in the same reload is not counted on: a reload never holds more.
    served.running.gateway.apply(&less);
    assert_eq!(refused(served.running.gateway.apply(&less).failed), Vec::<String>::new(), "the next one has room");
    assert_eq!(served.tools("a/z").await, (200, 1));
}

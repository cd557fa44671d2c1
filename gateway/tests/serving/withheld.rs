//! What `Enforced` gives where there is no answer to filter: a status and a short reason, nothing else.

use std::time::Duration;

use serde_json::{Value, json};
use tamis_config::OutputLimits;
use tamis_engine::Enforcement::{Advisory, Enforced};

use crate::support::{Page, Running, Upstream, exposition, options, service, start, text, tool};

const SECRET: &str = "hunter2-77c0";

/// Tools that fail in one way each, by what the upstream answers at the path of the same name.
const TOOLS: [&str; 9] =
    ["status", "missing", "slow", "broken", "not-json", "large", "extracted", "refused", "empty-status"];

/// Makes the upstream fail in all ways, with `secret` wherever it has a say.
fn fail(upstream: &Upstream, secret: &str) {
    let page = |status, kind, body: String| Page { status, kind, body, delay: Duration::ZERO };
    upstream.page("/status", page(500, "application/json", json!({"error": secret}).to_string()));
    upstream.page("/missing", page(404, "text/plain", secret.to_owned()));
    upstream.page("/empty-status", page(503, "text/plain", String::new()));
    let slow = page(200, "application/json", json!({"id": secret}).to_string());
    upstream.page("/slow", Page { delay: Duration::from_millis(900), ..slow });
    upstream.page("/broken", page(200, "application/json", format!("{{\"id\":\"{secret}\",")));
    upstream.page("/not-json", page(200, "text/html", format!("<p>{secret}</p>")));
    upstream.json("/large", json!({"id": secret, "more": "x".repeat(10_000)}).to_string());
    upstream.json("/extracted", json!({"other": secret}).to_string());
    upstream.json("/refused", json!({"id": [secret], secret: 1}).to_string());
}

async fn served(upstream: &Upstream) -> Running {
    let mut tools: serde_json::Map<String, Value> =
        TOOLS.iter().map(|name| ((*name).to_owned(), tool(&format!("/{name}")))).collect();
    tools["extracted"]["call"]["http"]["extract"] = json!("items");
    tools["missing"]["call"]["http"]["errorMapping"] = json!({"404": "There is no such thing."});
    let service = service(&upstream.base, &Value::Object(tools));
    let filters = TOOLS.map(|name| (name, Some(r#"{"root":"/id/x","select":{"y":"y"}}"#)));
    let running = start(options()).await;
    let documents = [("open", Advisory), ("closed", Enforced)].map(|(name, enforcement)| {
        let mut document = exposition(name, &service, enforcement, &filters);
        document.limits.timeout_ms = 300;
        document.limits.max_response_bytes = 4_000;
        document
    });
    assert_eq!(running.gateway.apply(&crate::support::snapshot(&service, documents)).failed, []);
    running
}

#[tokio::test]
async fn failures_of_the_upstream_give_a_status_and_a_reason() {
    let upstream = Upstream::start().await;
    fail(&upstream, SECRET);
    let running = served(&upstream).await;
    let expected = [
        "The upstream answered 500.",
        "The upstream answered 404: There is no such thing.",
        "The upstream did not answer in time.",
        "The upstream's answer could not be read.",
        "The output was withheld: its filter could not be applied.",
        "The upstream's answer is larger than 4000 bytes.",
        "The upstream's answer could not be read.",
        "The output was withheld: its filter could not be applied.",
        "The upstream answered 503.",
    ];
    for (name, expected) in TOOLS.into_iter().zip(expected) {
        let result = running.call("closed", name, json!({})).await;
        // A JSON body that is cut short is found by the one or the other.
        let either = name == "broken" && text(&result).starts_with("The output was withheld");
        assert!(text(&result) == expected || either, "{name}: {result}");
        assert_eq!(result["isError"], json!(true), "{name}: {result}");
        assert!(result.get("structuredContent").is_none() && !result.to_string().contains(SECRET), "{result}");
    }
    // The test can tell: saving context only, the body helps the model.
    let open = running.call("open", "status", json!({})).await;
    assert!(text(&open).contains(SECRET), "{open}");
}

#[tokio::test]
async fn what_the_upstream_says_in_an_error_is_within_the_limit_on_answers() {
    let upstream = Upstream::start().await;
    let said = "There is no item with this number. ".repeat(100);
    upstream.page("/long", Page { status: 404, kind: "text/plain", body: said.clone(), delay: Duration::ZERO });
    let service = service(&upstream.base, &json!({"long": tool("/long")}));
    let running = start(options()).await;
    let limits = [
        ("free", OutputLimits { bytes: None, tokens: None }),
        ("bytes", OutputLimits { bytes: Some(200), tokens: None }),
        ("tokens", OutputLimits { bytes: None, tokens: Some(30) }),
    ];
    let documents = limits.map(|(name, output)| {
        let mut document = exposition(name, &service, Advisory, &[("long", None)]);
        document.limits.output = output;
        document.at_lowest_version()
    });
    assert_eq!(running.gateway.apply(&crate::support::snapshot(&service, documents)).failed, []);
    let said = format!("The upstream answered 404.\n{said}");
    let [free, bytes, tokens] = ["free", "bytes", "tokens"].map(|name| running.call(name, "long", json!({})));
    let (free, bytes, tokens) = tokio::join!(free, bytes, tokens);
    let (free, bytes, tokens) = (text(&free), text(&bytes), text(&tokens));
    assert_eq!(free, said);
    assert_eq!(bytes, format!("{}...", &said[..197]));
    let count = |text: &str| {
        let tokenizer = tamis_tokens::tokenizer(tamis_tokens::TokenizerName::default());
        tokenizer.count(text, usize::MAX, &mut |_| true).expect("nothing interrupts it")
    };
    let shown = tokens.strip_suffix("...").expect("it is cut");
    assert!(said.starts_with(shown) && (28..=30).contains(&count(tokens)), "{} tokens: {tokens}", count(tokens));
}

#[tokio::test]
async fn failures_are_the_same_whatever_the_upstream_said() {
    let upstream = Upstream::start().await;
    let running = served(&upstream).await;
    let mut seen: Vec<Vec<String>> = Vec::new();
    for secret in ["a", SECRET, "\u{e9}\"\\ \u{0}", &"long ".repeat(300)] {
        fail(&upstream, secret);
        let mut answers = Vec::new();
        for name in TOOLS {
            answers.push(running.call("closed", name, json!({})).await.to_string());
        }
        seen.push(answers);
    }
    assert!(seen.iter().all(|answers| *answers == seen[0]), "{seen:#?}");
}

#[tokio::test]
async fn answers_with_a_sealed_cursor_are_byte_identical() {
    let upstream = Upstream::start().await;
    let mut paged = tool("/pages");
    paged["pagination"] = json!({"type": "cursor", "maxPages": 1, "nextPath": "next"});
    paged["call"]["http"]["extract"] = json!("items");
    let service = service(&upstream.base, &json!({"pages": paged, "others": paged}));
    let filter = Some(r#"{"root":"","select":{"number":"number"}}"#);
    let document = exposition("api", &service, Enforced, &[("pages", filter), ("others", filter)]);
    let running = start(options()).await;
    assert_eq!(running.gateway.apply(&crate::support::snapshot(&service, [document])).failed, []);
    let mut answers = Vec::new();
    for secret in [json!(1), json!({"deep": [SECRET]}), Value::Null] {
        let page = json!({"items": [{"number": 7, "secret": secret}], "total": secret, "next": "token-1"});
        upstream.json("/pages", page.to_string());
        let params = json!({"name": "pages"});
        answers.push(running.modern_request("api", "tools/call", params).send().await.unwrap().text().await.unwrap());
    }
    let read = |answer: &str| serde_json::from_str::<Value>(answer).unwrap()["result"].clone();
    let token = |answer: &Value| answer["structuredContent"]["_pagination"]["next"]["cursor"].clone();
    assert!(token(&read(&answers[0])).is_string(), "{}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    assert_ne!(
        token(&running.call("api", "others", json!({})).await),
        token(&read(&answers[0])),
        "each tool has its own"
    );
    upstream.json("/pages", json!({"items": [], "next": "token-2"}).to_string());
    assert_ne!(token(&running.call("api", "pages", json!({})).await), token(&read(&answers[0])));
}

#[tokio::test]
async fn removed_data_does_not_decide_which_list_the_pages_are() {
    let upstream = Upstream::start().await;
    upstream.json("/pages", json!({"items": [{"number": 7}], "result": [SECRET], "next": null}).to_string());
    let mut paged = tool("/pages");
    paged["pagination"] = json!({"type": "cursor", "maxPages": 1, "nextPath": "next"});
    let service = service(&upstream.base, &json!({"pages": paged}));
    let tools = [("pages", Some(r#"{"root":"","select":{"number":"number"}}"#))];
    let running = start(options()).await;
    running.gateway.apply(&crate::support::snapshot(
        &service,
        [exposition("open", &service, Advisory, &tools), exposition("closed", &service, Enforced, &tools)],
    ));
    let open = running.call("open", "pages", json!({})).await;
    assert_eq!(open["structuredContent"]["result"], json!([{"number": 7}]), "{open}");
    let closed = running.call("closed", "pages", json!({})).await;
    assert_eq!(closed["isError"], json!(true), "nothing says where the list is: {closed}");
    assert!(!closed.to_string().contains('7') && !closed.to_string().contains(SECRET), "{closed}");
}

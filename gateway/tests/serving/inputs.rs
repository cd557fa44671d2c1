//! Calls in which an MCP server asks the caller for input.

use futures_util::stream;
use serde_json::{Value, json};

use crate::relayed::{MARK, Talking, answer, both, messages, progress, request};
use crate::support::{MODERN, Running, options, read, start, text};

/// A server that asks once, and then answers with what it got.
async fn asking(requests: &'static str) -> (Talking, String) {
    Talking::start(move |call: &Value| {
        let params = &call["params"];
        let result = match params.get("requestState") {
            None => format!(
                r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":"{MARK}\\u00e9","_meta":{{"x":"{MARK}"}}}}"#
            ),
            Some(state) => {
                let got = json!({"a": {"state": state, "responses": params["inputResponses"]}});
                format!(r#"{{"resultType":"complete","structuredContent":{got}}}"#)
            }
        };
        stream::iter([progress(call, r#""progress":1"#), answer(call, &result)])
    })
    .await
}

const ELICITS: &str = r#"{"who":{"method":"elicitation/create","params":{"message":"hush-4d1e","requestedSchema":{"type":"object","properties":{"n":{"maximum":1.10}}}}}}"#;

/// A modern call with these capabilities and further parameters.
async fn call(running: &Running, name: &str, capabilities: Value, more: Value) -> String {
    messages(respond(running, name, capabilities, more).await).await.1.pop().unwrap()
}

async fn respond(running: &Running, name: &str, capabilities: Value, more: Value) -> reqwest::Response {
    let mut params = json!({"name": "read", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let message = json!({"jsonrpc": "2.0", "id": "c-1", "method": "tools/call", "params": params}).to_string();
    let request = running.post(name, message).header("mcp-protocol-version", MODERN);
    request.header("mcp-method", "tools/call").header("mcp-name", "read").send().await.unwrap()
}

fn result(answer: &str) -> Value {
    serde_json::from_str::<Value>(answer).unwrap()["result"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_caller_is_asked_and_its_answer_goes_to_the_server() {
    let (server, url) = asking(ELICITS).await;
    let running = start(options()).await;
    both(&running, &url).await;
    let capabilities = json!({"elicitation": {"form": {}}, "extensions": {"x": {}}});
    let asked = call(&running, "advisory", capabilities.clone(), json!({})).await;
    let expected = format!(
        r#""result":{{"resultType":"input_required","inputRequests":{ELICITS},"requestState":"{MARK}\\u00e9","_meta":{{"io.modelcontextprotocol/serverInfo""#
    );
    assert!(asked.contains(&expected), "{asked}");
    assert_eq!(result(&asked)["_meta"].as_object().unwrap().len(), 1, "{asked}");
    let state = result(&asked)["requestState"].clone();
    let responses = json!({"who": {"action": "accept", "content": {"n": 1}}});
    let more = json!({"inputResponses": responses, "requestState": state});
    let done = call(&running, "advisory", capabilities, more).await;
    let got: Value = serde_json::from_str(text(&result(&done))).unwrap();
    assert_eq!(got["a"], json!({"state": state, "responses": responses}), "{done}");
    for call in server.calls.lock().unwrap().iter() {
        let sent = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*sent, json!({"elicitation": {"form": {}}}), "what the gateway passes on, and nothing else");
    }
    let ok = r#"tamis_tool_calls_total{exposition="advisory",namespace="default",outcome="ok",tool="read"}"#;
    assert_eq!(running.metric(ok).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_cannot_be_asked_gets_a_reason_and_nothing_of_the_server() {
    let (server, url) = asking(ELICITS).await;
    let running = start(options()).await;
    both(&running, &url).await;
    let declared = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let more = json!({"inputResponses": {"who": {"action": "accept"}}});
    for more in [json!({}), more] {
        let refused = call(&running, "enforced", declared.clone(), more).await;
        assert!(!refused.contains(MARK), "{refused}");
        let expected = "The tool asks for input, which does not pass under Enforced.";
        assert_eq!((text(&result(&refused)), &result(&refused)["isError"]), (expected, &json!(true)), "{refused}");
    }
    for capabilities in [json!({"sampling": {}}), json!({})] {
        let (status, refused) = read(respond(&running, "advisory", capabilities, json!({})).await).await;
        let required = json!({"requiredCapabilities": {"elicitation": {}}});
        assert_eq!((status, &refused["error"]["code"], &refused["error"]["data"]), (400, &json!(-32021), &required));
        assert!(!refused.to_string().contains(MARK), "{refused}");
    }
    for (name, expected) in [
        ("enforced", "The tool asks for input, which does not pass under Enforced."),
        ("advisory", "The tool asks for input, which only clients of the version 2026-07-28 can be asked for."),
    ] {
        // As a stream of events, too.
        for meta in [json!({}), json!({"progressToken": 1})] {
            let (_, refused) = messages(request(&running, name, false, &meta).send().await.unwrap()).await;
            assert!(!refused.concat().contains(MARK), "{refused:?}");
            assert_eq!(text(&result(refused.last().unwrap())), expected, "{refused:?}");
        }
    }
    for call in server.calls.lock().unwrap().iter() {
        let sent = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert!(sent.get("elicitation").is_none() && call["params"].get("inputResponses").is_none(), "{call}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_valid_is_refused_on_both_sides() {
    let (server, url) = asking(r#"{"x":{"method":"hush-4d1e/run"}}"#).await;
    let running = start(options()).await;
    both(&running, &url).await;
    let unknown = call(&running, "advisory", json!({"elicitation": {}}), json!({})).await;
    assert_eq!(text(&result(&unknown)), "The tool asks for input, of a kind that the gateway does not know.");
    let before = server.calls.lock().unwrap().len();
    for more in [json!({"inputResponses": []}), json!({"requestState": {}})] {
        let refused = call(&running, "advisory", json!({}), more).await;
        assert!(refused.contains("-32602"), "{refused}");
    }
    assert_eq!(server.calls.lock().unwrap().len(), before);
}

//! Those of an MCP server: a published one, and one whose every byte is known.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::servers::Everything;
use tamis_tests::{CLIENTS, Client, Era, Gateway, Rpc};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

fn service(url: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec: {{version: '1', mcp: {{url: '{url}', \
         tools: {{echo: {{inputSchema: {{type: object}}}}}}}}}}\n"
    )
}

fn exposition(name: &str, more: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{service: {{name: s, version: '1'}}, \
         filters: [], {more}}}\n"
    )
}

#[tokio::test]
async fn every_client_sees_those_of_a_published_server() -> Result<()> {
    let everything = Everything::start().await?;
    let folder = Folder::new()?;
    folder.write("s.yaml", &service(&everything.url()))?;
    folder.write("all.yaml", &exposition("all", ""))?;
    folder.write(
        "some.yaml",
        &exposition("some", "prompts: {exclude: ['args-*']}, resources: {include: ['demo://resource/static/*']}"),
    )?;
    folder.write("strict.yaml", &exposition("strict", "enforcement: Enforced"))?;
    let gateway = Gateway::start(folder.path()).await?;
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("all")).await.context(said.clone())?;
        let names = |entries: Vec<Value>, member: &str| -> Vec<String> {
            entries.iter().filter_map(|entry| entry[member].as_str().map(str::to_owned)).collect()
        };
        let prompts = names(client.entries("prompts").await?, "name");
        assert!(
            prompts.contains(&"simple-prompt".to_owned()) && prompts.contains(&"args-prompt".to_owned()),
            "{said}: {prompts:?}"
        );
        let got = client.prompt("args-prompt", json!({"city": "Bern", "state": "BE"})).await?;
        let got = got.map_err(|refusal| anyhow::anyhow!("{said}: {refusal:?}"))?;
        assert!(
            got["messages"][0]["content"]["text"].as_str().is_some_and(|text| text.contains("Bern")),
            "{said}: {got}"
        );
        let resources = names(client.entries("resources").await?, "uri");
        let first = resources.first().with_context(|| format!("{said}: no resources"))?.clone();
        let read = client.read(&first).await?.map_err(|refusal| anyhow::anyhow!("{said}: {refusal:?}"))?;
        assert!(read["contents"][0]["text"].is_string(), "{said}: {read}");
        let templates = names(client.entries("templates").await?, "uriTemplate");
        assert!(templates.iter().any(|template| template.contains('{')), "{said}: {templates:?}");
        let read = client.read("demo://resource/dynamic/text/1").await?;
        assert!(read.is_ok(), "{said}: a template's resource: {read:?}");
        let refused = client.prompt("nothing", json!({})).await?;
        assert_eq!(refused.err().and_then(|refusal| refusal.code), Some(-32602), "{said}");

        let mut client = Client::connect(sdk, era, &gateway.target("some")).await.context(said.clone())?;
        let prompts = names(client.entries("prompts").await?, "name");
        assert!(
            prompts.contains(&"simple-prompt".to_owned()) && !prompts.contains(&"args-prompt".to_owned()),
            "{said}: {prompts:?}"
        );
        assert!(client.prompt("args-prompt", json!({"city": "Bern"})).await?.is_err(), "{said}");
        assert!(client.read("demo://resource/dynamic/text/1").await?.is_err(), "{said}");

        // Under Enforced nothing of the server passes, and nothing is asked of it.
        let rpc = Rpc::new(&gateway.endpoint("strict"), era)?;
        for (method, params) in [
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "simple-prompt"})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": first})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "args-prompt"}, "argument": {"name": "city", "value": ""}}),
            ),
        ] {
            let answer = rpc.send(rpc.request(method, params)).await?.message()?;
            assert_eq!(answer["error"]["code"], json!(-32601), "{said} {method}: {answer}");
        }
    }
    Ok(())
}

/// What the server answers to each method, as JSON: the result, or an error as an object with `code`.
type Answers = Arc<Mutex<Vec<(&'static str, String)>>>;

pub(crate) struct Server {
    pub(crate) url: String,
    answers: Answers,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Result<Self> {
        let answers = Answers::default();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let app = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&answers));
        let task = tokio::spawn(async move {
            // Ends with the test.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { url, answers, task })
    }

    pub(crate) fn answer(&self, method: &'static str, answer: &str) {
        let mut answers = self.answers.lock().expect("is not poisoned");
        answers.retain(|(known, _)| *known != method);
        answers.push((method, answer.to_owned()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(answers): State<Answers>, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = &message["id"];
    let method = message["method"].as_str().unwrap_or_default();
    let known = answers.lock().expect("is not poisoned").iter().find(|(known, _)| *known == method).cloned();
    let text = match known {
        _ if method == "server/discover" => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{{}},"serverInfo":{{"name":"f","version":"1"}}}}}}"#
        ),
        Some((_, error)) if error.contains("\"code\"") => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
        Some((_, result)) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"secret"}}}}"#),
    };
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Digits, escapes and member order are those of the server; own entries come first, and the server cannot replace them.
#[tokio::test]
async fn results_pass_as_they_are_and_faults_do_not() -> Result<()> {
    let (server, folder) = (Server::start().await?, Folder::new()?);
    folder.write("s.yaml", &service(&server.url))?;
    folder.write(
        "e.yaml",
        &exposition("e", "prompts: {exclude: [hidden]}, limits: {maxResponseBytes: 65536, timeout: 5s}"),
    )?;
    folder.write(
        "own.yaml",
        "apiVersion: reshapr.io/v1alpha1\nkind: Prompts\nservice: {name: s, version: '1'}\nprompts: {mine: {result: Mine}}\n",
    )?;
    let gateway = Gateway::start(folder.path()).await?;
    let entry = r#"{"x":1.10,"name":"theirs","description":"a\u00e4\/b"}"#;
    server.answer(
        "prompts/list",
        &format!(r#"{{"prompts":[{entry},{{"name":"mine"}},{{"name":"hidden"}},7],"nextCursor":"c/1","_meta":{{"a":"secret"}}}}"#),
    );
    let messages = r#"[{"role":"user","content":{"type":"text","text":"\u0041 1.10","z":1e2}}]"#;
    server.answer("prompts/get", &format!(r#"{{"messages":{messages},"description":"d","_meta":{{"a":"secret"}}}}"#));
    let contents = r#"[{"uri":"a:/b","text":"\u0041","_meta":{"n":12345678901234567890123}}]"#;
    server.answer("resources/read", &format!(r#"{{"contents":{contents}}}"#));
    server.answer("completion/complete", r#"{"completion":{"values":["a"],"total":1.0}}"#);
    for era in [Era::Legacy, Era::Modern] {
        let rpc = Rpc::new(&gateway.endpoint("e"), era)?;
        let send = async |method: &str, params: Value| rpc.send(rpc.request(method, params)).await;
        let own = send("prompts/list", json!({})).await?;
        assert!(own.text.contains(r#"{"prompts":[{"name":"mine"}],"nextCursor":"s.""#), "{}", own.text);
        let page = send("prompts/list", json!({"cursor": "s."})).await?;
        assert!(page.text.contains(&format!(r#"{{"prompts":[{entry}],"nextCursor":"s.c/1""#)), "{}", page.text);
        assert!(!page.text.contains("secret"), "{}", page.text);
        let got = send("prompts/get", json!({"name": "theirs"})).await?;
        assert!(got.text.contains(&format!(r#"{{"description":"d","messages":{messages}"#)), "{}", got.text);
        assert!(!got.text.contains("secret"), "{}", got.text);
        let mine = send("prompts/get", json!({"name": "mine"})).await?;
        assert!(mine.text.contains("Mine"), "{}", mine.text);
        let hidden = send("prompts/get", json!({"name": "hidden"})).await?.message()?;
        assert_eq!(hidden["error"]["code"], json!(-32602), "{hidden}");
        let read = send("resources/read", json!({"uri": "a:/b"})).await?;
        assert!(read.text.contains(&format!(r#""contents":{contents}"#)), "{}", read.text);
        let of = json!({"type": "ref/prompt", "name": "theirs"});
        let completed = send("completion/complete", json!({"ref": of, "argument": {"name": "x", "value": ""}})).await?;
        assert!(completed.text.contains(r#""completion":{"values":["a"],"total":1.0}"#), "{}", completed.text);
    }
    let rpc = Rpc::new(&gateway.endpoint("e"), Era::Modern)?;
    let many = format!(r#"{{"prompts":[{}]}}"#, vec![r#"{"name":"p"}"#; 1001].join(","));
    let long = format!(r#"{{"prompts":[],"nextCursor":"{}"}}"#, "x".repeat(5000));
    let large = format!(r#"{{"prompts":[{{"name":"{}"}}]}}"#, "x".repeat(70_000));
    for (answer, code) in [
        (r#"{"prompts":{}}"#, -32603),
        ("7", -32603),
        (r#"{"resultType":"input_required","prompts":[]}"#, -32603),
        (r#"{"prompts":[],"nextCursor":7}"#, -32603),
        (&many, -32603),
        (&long, -32603),
        (&large, -32603),
        (r#"{"code":-32602,"message":"secret"}"#, -32602),
        (r#"{"code":-32000,"message":"secret"}"#, -32603),
    ] {
        server.answer("prompts/list", answer);
        let said = rpc.send(rpc.request("prompts/list", json!({"cursor": "s.x"}))).await?;
        assert_eq!(said.message()?["error"]["code"], json!(code), "{answer:.60}: {}", said.text);
        assert!(!said.text.contains("secret"), "{}", said.text);
    }
    server.answer("resources/read", r#"{"code":-32002,"message":"secret"}"#);
    let said = rpc.send(rpc.request("resources/read", json!({"uri": "a:/c"}))).await?.message()?;
    assert_eq!((&said["error"]["code"], &said["error"]["data"]["uri"]), (&json!(-32602), &json!("a:/c")), "{said}");
    let passed = gateway.metric("tamis_tool_calls_total", &["tool=\"server:prompts/list\"", "outcome=\"ok\""]).await?;
    assert!(passed >= 2.0, "{passed}");
    Ok(())
}

//! Those of the documents, and resource templates.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{CLIENTS, Client, Era, Gateway, Sdk};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An API with pages.
pub(crate) struct Pages {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Pages {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let page = async |Path(page): Path<String>| match page.as_str() {
            "missing" => (StatusCode::NOT_FOUND, b"a secret reason".to_vec()),
            "broken" => (StatusCode::INTERNAL_SERVER_ERROR, b"a secret reason".to_vec()),
            "bytes" => (StatusCode::OK, vec![0, 159, 146, 150]),
            "long" => (StatusCode::OK, vec![b'x'; 20_000]),
            page => (StatusCode::OK, format!("page {page}, \"1.10\"").into_bytes()),
        };
        let app = Router::new().route("/pages/{page}", get(page)).route("/items", get(async || "[]"));
        let task = tokio::spawn(async move {
            // Ends with the test.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { url, task })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const SERVICE: &str = "{name: handbook, version: '1'}";

/// Returns the prompts, as reShapr writes them.
pub(crate) fn prompts(more: &str) -> String {
    format!(
        "apiVersion: reshapr.io/v1alpha1\nkind: Prompts\nservice: {SERVICE}\nprompts:\n  ask:\n    title: Ask\n    description: \
         Asks a question\n    arguments:\n    - {{name: question, description: What, required: true}}\n    - {{name: tone, enum: \
         [short, shy, kind], default: short}}\n    result: 'Answer ${{tone}}: ${{question}}'\n  talk:\n    result:\n    - {{role: \
         user, text: Hi}}\n    - {{role: assistant, text: Hello}}\n{more}"
    )
}

pub(crate) fn resources(more: &str) -> String {
    format!(
        "apiVersion: reshapr.io/v1alpha1\nkind: Resources\nservice: {SERVICE}\nresources:\n  docs://about: {{name: about, mimeType: \
         text/plain, text: All about it, annotations: {{priority: 0.5, audience: [user]}}}}\n  docs://logo: {{name: logo, blob: \
         AAEC}}\n{more}resourceTemplates:\n  docs://handbook/pages/{{page}}: {{name: page, mimeType: text/plain}}\n  \
         docs://menu/items?of={{day}}: {{name: items, variables: {{day: {{enum: [monday, tuesday]}}}}}}\n"
    )
}

pub(crate) fn exposition(name: &str, more: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{service: {SERVICE}, filters: [], \
         {more}}}\n"
    )
}

/// Writes the documents of a service at `pages`.
pub(crate) fn write(folder: &Folder, pages: &Pages) -> Result<()> {
    folder.write(
        "service.yaml",
        &format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: handbook}}\nspec: {{version: '1', http: \
             {{baseUrl: '{}', actions: {{items: {{path: /items}}}}}}}}\n",
            pages.url
        ),
    )?;
    folder.write("prompts.yaml", &prompts(""))?;
    folder.write("resources.yaml", &resources(""))?;
    folder.write("e.yaml", &exposition("e", "limits: {maxResponseBytes: 16384}"))?;
    folder.write("strict.yaml", &exposition("strict", "enforcement: Enforced"))
}

fn names<'e>(entries: &'e [Value], member: &str) -> Vec<&'e str> {
    entries.iter().filter_map(|entry| entry[member].as_str()).collect()
}

#[tokio::test]
async fn every_client_lists_gets_and_reads() -> Result<()> {
    let (pages, folder) = (Pages::start().await?, Folder::new()?);
    write(&folder, &pages)?;
    let gateway = Gateway::start(folder.path()).await?;
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("e")).await.context(said.clone())?;
        let listed = client.entries("prompts").await?;
        assert_eq!(names(&listed, "name"), ["ask", "talk"], "{said}");
        assert_eq!(
            (&listed[0]["title"], &listed[0]["description"]),
            (&json!("Ask"), &json!("Asks a question")),
            "{said}"
        );
        assert_eq!(listed[0]["arguments"][0]["required"], json!(true), "{said}: {listed:?}");
        let got = client.prompt("ask", json!({"question": "why \"so\"?"})).await?;
        let got = got.map_err(|refusal| anyhow::anyhow!("{said}: {refusal:?}"))?;
        assert_eq!(got["messages"][0]["content"]["text"], "Answer short: why \"so\"?", "{said}: {got}");
        let got = client.prompt("talk", json!({})).await?.map_err(|refusal| anyhow::anyhow!("{said}: {refusal:?}"))?;
        assert_eq!(
            (&got["messages"][1]["role"], got["messages"].as_array().map(Vec::len)),
            (&json!("assistant"), Some(2))
        );

        let listed = client.entries("resources").await?;
        assert_eq!(names(&listed, "uri"), ["docs://about", "docs://logo"], "{said}");
        assert_eq!(listed[0]["annotations"]["priority"], json!(0.5), "{said}: {listed:?}");
        let listed = client.entries("templates").await?;
        let templates = ["docs://handbook/pages/{page}", "docs://menu/items?of={day}"];
        assert_eq!(names(&listed, "uriTemplate"), templates, "{said}");
        for (uri, member, expected) in [
            ("docs://about", "text", "All about it"),
            ("docs://logo", "blob", "AAEC"),
            ("docs://handbook/pages/one%20two", "text", "page one two, \"1.10\""),
            ("docs://handbook/pages/bytes", "blob", "AJ+Slg=="),
            ("docs://menu/items?of=monday", "text", "[]"),
        ] {
            let read = client.read(uri).await?.map_err(|refusal| anyhow::anyhow!("{said} {uri}: {refusal:?}"))?;
            assert_eq!(read["contents"][0][member], expected, "{said} {uri}: {read}");
            assert_eq!(read["contents"][0]["uri"], uri, "{said}: {read}");
        }

        let completed = |of: Value, name: &str, value: &str| (of, json!({"name": name, "value": value}));
        let prompt = json!({"type": "ref/prompt", "name": "ask"});
        let template = json!({"type": "ref/resource", "uri": "docs://menu/items?of={day}"});
        for ((of, argument), expected) in [
            (completed(prompt.clone(), "tone", "sh"), json!(["short", "shy"])),
            (completed(prompt, "question", ""), json!([])),
            (completed(template, "day", "t"), json!(["tuesday"])),
        ] {
            let found = client.complete(of, argument).await.context(said.clone())?;
            assert_eq!(found["completion"]["values"], expected, "{said}: {found}");
        }

        // The TypeScript client 2.x tells its callers the code of the modern era.
        let is_modern = era == Era::Modern || sdk == Sdk::TypeScript2;
        let not_found = if is_modern { -32602 } else { -32002 };
        for (refused, code, part) in [
            (client.prompt("nothing", json!({})).await?, -32602, "unknown prompt: nothing"),
            (client.prompt("ask", json!({})).await?, -32602, "argument `question` is missing"),
            (client.prompt("ask", json!({"question": "q", "tone": "loud"})).await?, -32602, "`tone`"),
            (client.read("docs://nothing").await?, not_found, "not found"),
            (client.read("docs://menu/items?of=friday").await?, not_found, "not found"),
            (client.read("docs://handbook/pages/missing").await?, not_found, "not found"),
            (client.read("docs://handbook/pages/broken").await?, -32603, "The upstream answered 500"),
            (client.read("docs://handbook/pages/long").await?, -32603, "larger than 16384 bytes"),
            (client.read("docs://handbook/pages/a%2Fb").await?, -32602, "`page` holds a slash"),
        ] {
            let Err(refusal) = refused else { anyhow::bail!("{said}: {part} is answered: {refused:?}") };
            assert_eq!(refusal.code, Some(code), "{said} {part}: {refusal:?}");
            let text = refusal.error.to_string();
            assert!(text.contains(part) && !text.contains("secret"), "{said} {part}: {text}");
        }

        let mut client = Client::connect(sdk, era, &gateway.target("strict")).await.context(said.clone())?;
        assert_eq!(names(&client.entries("prompts").await?, "name"), ["ask", "talk"], "{said}");
        assert_eq!(client.entries("templates").await?.len(), 0, "{said}: no template under Enforced");
        let refused = client.read("docs://handbook/pages/one").await?;
        assert_eq!(refused.err().and_then(|refusal| refusal.code), Some(not_found), "{said}");
        assert!(client.read("docs://about").await?.is_ok(), "{said}: a text of the documents");
    }
    let template = "tool=\"docs://handbook/pages/{page}\"";
    for (outcome, least) in [("ok", 16.0), ("upstream_error", 16.0), ("invalid_arguments", 8.0)] {
        let counted = gateway.metric("tamis_tool_calls_total", &[template, &format!("outcome=\"{outcome}\"")]).await?;
        assert!(counted >= least, "{outcome}: {counted}");
    }
    assert!(gateway.metric("tamis_filter_input_bytes_total", &[template]).await? > 0.0);
    let log = gateway.log();
    assert!(log.contains("docs://handbook/pages/{page}"), "an audit record names the template: {log}");
    Ok(())
}

/// Waits until a list has an entry.
async fn until_listed(client: &mut Client, list: &str, member: &str, name: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while !names(&client.entries(list).await?, member).contains(&name) {
        ensure!(Instant::now() < until, "{name} is not listed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Each list has a notification of its own, in both eras.
#[tokio::test]
async fn an_edit_is_published_and_announced_without_a_restart() -> Result<()> {
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let (pages, folder) = (Pages::start().await?, Folder::new()?);
        write(&folder, &pages)?;
        let gateway = Gateway::start(folder.path()).await?;
        let mut client = Client::connect(sdk, era, &gateway.target("e")).await.context(said.clone())?;
        client.watch().await?;
        // The stream of a legacy client opens in the background.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let within = Duration::from_secs(20);
        folder.replace("prompts.yaml", &prompts("  more: {result: More}\n"))?;
        assert!(client.list_changed("prompts", within).await?, "{said}: prompts");
        until_listed(&mut client, "prompts", "name", "more").await.context(said.clone())?;
        folder.replace("resources.yaml", &resources("  docs://more: {name: more, text: More}\n"))?;
        assert!(client.list_changed("resources", within).await?, "{said}: resources");
        until_listed(&mut client, "resources", "uri", "docs://more").await.context(said.clone())?;
        let quiet = Duration::from_millis(200);
        assert!(!client.list_changed("tools", quiet).await?, "{said}: tools did not change");
        assert!(!client.list_changed("prompts", quiet).await?, "{said}: prompts changed once");
        // What lists do not show changes without a word.
        folder.replace("prompts.yaml", &prompts("  more: {result: Less}\n"))?;
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let got = client.prompt("more", json!({})).await?;
            if got.is_ok_and(|got| got["messages"][0]["content"]["text"] == "Less") {
                break;
            }
            ensure!(Instant::now() < until, "{said}: the edit is not served");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!client.list_changed("prompts", quiet).await?, "{said}: the list did not change");
    }
    Ok(())
}

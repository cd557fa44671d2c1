//! Those of a bundle: a published server, a server whose every byte is known, one that does not answer, and documents.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::servers::Everything;
use tamis_tests::{CLIENTS, Client, Era, Gateway, Rpc};

use crate::passed::Server;

/// A server, and the expositions of it with this name.
fn part(folder: &Folder, name: &str, url: &str, more: &str) -> Result<()> {
    let text = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {name}}}\nspec: {{version: '1', mcp: {{url: '{url}', \
         tools: {{echo: {{inputSchema: {{type: object}}}}}}}}}}\n---\n\
         apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{service: {{name: {name}, version: '1'}}, \
         filters: [], {more}}}\n"
    );
    folder.write(&format!("{name}.yaml"), &text)
}

fn bundle(folder: &Folder, parts: &str) -> Result<()> {
    let text = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: all}}\nspec: {{expositions: [{parts}]}}\n"
    );
    folder.write("all.yaml", &text)
}

const OWN: &str = "apiVersion: reshapr.io/v1alpha1
kind: Prompts
service: {name: theirs, version: '1'}
prompts: {mine: {result: Mine}}
---
apiVersion: reshapr.io/v1alpha1
kind: Resources
service: {name: theirs, version: '1'}
resources: {'own://text': {name: mine, text: Mine}}
";

#[tokio::test]
async fn every_client_sees_those_of_all_parts() -> Result<()> {
    let (everything, theirs, folder) = (Everything::start().await?, Server::start().await?, Folder::new()?);
    part(&folder, "public", &everything.url(), "access: {bundleOnly: true}")?;
    part(&folder, "theirs", &theirs.url, "access: {bundleOnly: true}")?;
    folder.write("own.yaml", OWN)?;
    bundle(&folder, "{name: theirs, prefix: t_}, {name: public, prefix: p_}")?;
    theirs.answer("prompts/list", r#"{"prompts":[{"name":"plain"},{"name":"mine"}]}"#);
    theirs.answer("prompts/get", r#"{"messages":[{"role":"user","content":{"type":"text","text":"Theirs"}}]}"#);
    theirs.answer("resources/list", r#"{"resources":[{"uri":"theirs://1","name":"1"}]}"#);
    theirs.answer("resources/read", r#"{"code":-32002,"message":"not mine"}"#);
    let gateway = Gateway::start(folder.path()).await?;
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("all")).await.context(said.clone())?;
        let names = |entries: Vec<Value>, member: &str| -> Vec<String> {
            entries.iter().filter_map(|entry| entry[member].as_str().map(str::to_owned)).collect()
        };
        let prompts = names(client.entries("prompts").await?, "name");
        assert_eq!(&prompts[..2], ["t_mine", "t_plain"], "{said}: {prompts:?}");
        assert!(prompts.contains(&"p_args-prompt".to_owned()), "{said}: {prompts:?}");
        assert!(prompts.iter().all(|name| name.starts_with("t_") || name.starts_with("p_")), "{said}: {prompts:?}");
        for (name, arguments, expected) in [
            ("t_mine", json!({}), "Mine"),
            ("t_plain", json!({}), "Theirs"),
            ("p_args-prompt", json!({"city": "Bern", "state": "BE"}), "Bern"),
        ] {
            let got = client.prompt(name, arguments).await?;
            let got = got.map_err(|refusal| anyhow::anyhow!("{said} {name}: {refusal:?}"))?;
            let text = got["messages"][0]["content"]["text"].as_str().unwrap_or_default();
            assert!(text.contains(expected), "{said} {name}: {got}");
        }
        assert!(client.prompt("args-prompt", json!({"city": "Bern"})).await?.is_err(), "{said}: without its prefix");
        let resources = names(client.entries("resources").await?, "uri");
        assert_eq!(&resources[..2], ["own://text", "theirs://1"], "{said}: {resources:?}");
        let templates = names(client.entries("templates").await?, "uriTemplate");
        assert!(templates.iter().any(|template| template.starts_with("demo://")), "{said}: {templates:?}");
        // The first server does not have these.
        for uri in [resources[2].as_str(), "demo://resource/dynamic/text/1"] {
            let read = client.read(uri).await?.map_err(|refusal| anyhow::anyhow!("{said}: {refusal:?}"))?;
            assert_eq!(read["contents"][0]["uri"], json!(uri), "{said}: {read}");
        }
        let read = client.read("own://text").await?.map_err(|refusal| anyhow::anyhow!("{said}: {refusal:?}"))?;
        assert_eq!(read["contents"][0]["text"], json!("Mine"), "{said}: {read}");
        assert!(client.read("nothing://here").await?.is_err(), "{said}");
        let rpc = Rpc::new(&gateway.endpoint("all"), era)?;
        let of = json!({"type": "ref/prompt", "name": "p_completable-prompt"});
        let asked = json!({"ref": of, "argument": {"name": "department", "value": "E"}});
        let completed = rpc.send(rpc.request("completion/complete", asked)).await?.message()?;
        assert_eq!(completed["result"]["completion"]["values"], json!(["Engineering"]), "{said}: {completed}");
    }
    assert!(
        gateway.log().contains(r#"exposition="public" bundle="all" tool="server:prompts/get""#),
        "{}",
        gateway.log()
    );
    Ok(())
}

/// Spans, cursors and names, where one server of three does not answer, and one part is `Enforced`.
#[tokio::test]
async fn a_server_that_does_not_answer_takes_nothing_from_the_others() -> Result<()> {
    let (first, second, folder) = (Server::start().await?, Server::start().await?, Folder::new()?);
    part(&folder, "first", &first.url, "")?;
    part(&folder, "dead", "http://127.0.0.1:1/mcp", "limits: {timeout: 2s}")?;
    part(&folder, "strict", &first.url, "enforcement: Enforced")?;
    part(&folder, "second", &second.url, "")?;
    bundle(&folder, "{name: dead}, {name: strict, prefix: e_}, {name: first}, {name: second, prefix: s_}")?;
    let gateway = Gateway::start(folder.path()).await?;
    assert!(gateway.log().contains("same prefix"), "a warning about `dead` and `first`: {}", gateway.log());
    let entry = r#"{"x":1.10,"name":"\u0070\"q","z":7}"#;
    first.answer("prompts/list", r#"{"prompts":[{"name":"s_plain"}],"nextCursor":"f.1"}"#);
    second.answer("prompts/list", &format!(r#"{{"prompts":[{entry},{{"name":"plain"}}],"nextCursor":"c/1"}}"#));
    second.answer("resources/list", r#"{"resources":[{"uri":"b:/1","name":"n"}]}"#);
    second.answer("resources/read", r#"{"contents":[{"uri":"b:/1","text":"B"}]}"#);
    let everywhere = json!({"code": -32002, "message": "secret"}).to_string();
    first.answer("resources/read", &everywhere);
    let begun = Instant::now();
    for era in [Era::Legacy, Era::Modern] {
        let rpc = Rpc::new(&gateway.endpoint("all"), era)?;
        let send = async |method: &str, params: Value| rpc.send(rpc.request(method, params)).await;
        // The dead one has an empty page, the Enforced one none; `s_plain` is a name of the second server.
        let page = async |cursor: &str| send("prompts/list", json!({"cursor": cursor})).await;
        let start = send("prompts/list", json!({})).await?;
        assert!(start.text.contains(r#"{"prompts":[],"nextCursor":"s.2.""#), "{}", start.text);
        let of_first = page("s.2.").await?;
        assert!(of_first.text.contains(r#"{"prompts":[],"nextCursor":"s.2.f.1""#), "{}", of_first.text);
        let of_second = page("s.3.").await?;
        let renamed = r#"{"x":1.10,"name":"s_p\"q","z":7},{"name":"s_plain"}"#;
        assert!(
            of_second.text.contains(&format!(r#"{{"prompts":[{renamed}],"nextCursor":"s.3.c/1""#)),
            "{}",
            of_second.text
        );
        let strict = page("s.1.").await?.message()?;
        assert_eq!(strict["error"]["code"], json!(-32602), "{strict}");
        let read = send("resources/read", json!({"uri": "b:/1"})).await?;
        assert!(read.text.contains(r#""contents":[{"uri":"b:/1","text":"B"}]"#), "{}", read.text);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // A server that is down may have what the others do not have: that is not `not found`.
    second.answer("resources/read", &everywhere);
    let rpc = Rpc::new(&gateway.endpoint("all"), Era::Modern)?;
    let said = rpc.send(rpc.request("resources/read", json!({"uri": "b:/2"}))).await?;
    assert_eq!(said.message()?["error"]["code"], json!(-32603), "{}", said.text);
    assert!(!said.text.contains("secret"), "{}", said.text);
    bundle(&folder, "{name: first}, {name: second}, {name: strict, prefix: e_}")?;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let said = rpc.send(rpc.request("resources/read", json!({"uri": "b:/2"}))).await?.message()?;
        if said["error"]["data"]["uri"] == json!("b:/2") {
            break;
        }
        assert!(Instant::now() < until, "{said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

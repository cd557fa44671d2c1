//! Budgets in tokens, formats and chunks, as published clients of both eras see them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{CLIENTS, Client, Gateway, Upstream};
use tiktoken_rs::o200k_base_singleton;

const DOCUMENTS: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: review}
spec:
  name: review
  version: "1.0.0"
  http:
    baseUrl: URL
    actions:
      list-comments:
        method: GET
        path: /document
        response: {type: array}
"#;

/// Returns a filter set and its exposition. `output` is the filter's.
fn exposition(name: &str, enforcement: &str, output: &str) -> String {
    format!(
        "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {name}}}\nspec:\n  name: {name}\n  \
         service: {{name: review, version: \"1.0.0\"}}\n  enforcement: {enforcement}\n  filters:\n    list-comments:\n      \
         root: \"\"\n      select: {{id: id, by: user.login, body: body}}\n      output: {output}\n---\n\
         apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec:\n  \
         service: {{name: review, version: \"1.0.0\"}}\n  filters: [{name}]\n"
    )
}

/// The expositions of the service, served.
struct Served {
    gateway: Gateway,
    _upstream: Upstream,
    _folder: Folder,
}

async fn serve(expositions: &[(&str, &str, &str)]) -> Result<Served> {
    let upstream = Upstream::start().await?;
    let comments: Vec<Value> = (1..=100)
        .map(|id| json!({"id": id, "user": {"login": "ada"}, "body": format!("Comment {id}: \"a few\" words.\n")}))
        .collect();
    upstream.set_document(200, &Value::from(comments).to_string());
    let folder = Folder::new()?;
    let documents = expositions.iter().map(|(name, enforcement, output)| exposition(name, enforcement, output));
    let documents = DOCUMENTS.replace("URL", &upstream.url) + &documents.collect::<String>();
    folder.write("review.yaml", &documents)?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok(Served { gateway, _upstream: upstream, _folder: folder })
}

/// Counts tokens by another library than Tamis does.
fn tokens(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

fn blocks(result: &Value) -> Result<Vec<&str>> {
    let content = result["content"].as_array().with_context(|| format!("no content: {result}"))?;
    content.iter().map(|block| block["text"].as_str().context("not text")).collect()
}

fn ids(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(|item| item["id"].as_u64()).collect()
}

#[tokio::test]
async fn a_budget_in_tokens_holds_and_no_comment_is_lost_between_chunks() -> Result<()> {
    let output = "{preset: comments, budget: {tokens: 4000}, inputs: [_budget_tokens]}";
    let served = serve(&[("advisory", "Advisory", output), ("enforced", "Enforced", output)]).await?;
    for exposition in ["advisory", "enforced"] {
        for &(sdk, era) in CLIENTS {
            let mut client = Client::connect(sdk, era, &served.gateway.target(exposition)).await?;
            let mut seen = BTreeSet::new();
            let mut chunk = 1;
            loop {
                let arguments = json!({"_budget_tokens": 600, "chunk": chunk});
                let result = client.result("list-comments", arguments).await?;
                let said = format!("{sdk:?} {era:?} {exposition} {chunk}: {result}");
                let blocks = blocks(&result)?;
                let counted: usize = blocks.iter().map(|text| tokens(text)).sum();
                assert!(counted <= 600 && (counted > 300 || chunk > 1), "{counted} of {said}");
                let structured = &result["structuredContent"];
                assert!(tokens(&structured.to_string()) <= 600, "{said}");
                let list: Value = serde_json::from_str(blocks[0])?;
                assert_eq!(structured["result"], list, "{said}");
                assert_eq!(structured["_truncated"]["total"], json!(100), "{said}");
                for id in ids(&list) {
                    assert!(seen.insert(id), "{id} is there twice: {said}");
                }
                if seen.len() == 100 {
                    break;
                }
                assert!(blocks[1].contains("[chunks]"), "{said}");
                assert!(structured["_chunks"].as_str().is_some_and(|index| blocks[1].contains(index)), "{said}");
                chunk += 1;
                assert!(chunk < 100, "{said}");
            }
            assert!(chunk > 2, "{chunk} chunks");
            let beyond = client.result("list-comments", json!({"_budget_tokens": 600, "chunk": chunk + 1})).await?;
            assert_eq!(beyond["isError"], json!(true), "{beyond}");
            assert!(blocks(&beyond)?[0].contains(&format!("give a number from 1 to {chunk}")), "{beyond}");
            let window = client.result("list-comments", json!({"offset": 40, "limit": 2})).await?;
            assert_eq!(ids(&window["structuredContent"]["result"]), [41, 42], "{window}");
        }
    }
    Ok(())
}

/// What an answer puts where, by `output`: whether the tool has an output schema and the answer structured content.
#[tokio::test]
async fn text_and_structured_content_follow_the_format() -> Result<()> {
    let rows = [
        ("json", "Enforced", "{format: json}", true, true, "[{\"id\":1,"),
        ("schema", "Enforced", "{structured: schema}", true, true, "[{\"id\":1,"),
        ("never", "Enforced", "{structured: never}", false, false, "[{\"id\":1,"),
        ("table", "Enforced", "{format: table}", false, true, "{\"columns\":[\"id\",\"by\",\"body\"],\"rows\":[[1,"),
        ("toon", "Enforced", "{format: toon}", false, false, "[100]{id,by,body}:\n 1,ada,"),
        ("auto", "Enforced", "{format: auto}", false, false, "[100]{id,by,body}:\n 1,ada,"),
        ("asked", "Enforced", "{inputs: [_format]}", false, true, "[{\"id\":1,"),
        ("open", "Advisory", "{format: json}", false, true, "[{\"id\":1,"),
        ("openschema", "Advisory", "{structured: schema}", false, false, "[{\"id\":1,"),
    ];
    let expositions: Vec<_> = rows.iter().map(|&(name, enforcement, output, ..)| (name, enforcement, output)).collect();
    let served = serve(&expositions).await?;
    for &(sdk, era) in CLIENTS {
        for (name, _, output, has_schema, is_structured, begin) in rows {
            let mut client = Client::connect(sdk, era, &served.gateway.target(name)).await?;
            let said = format!("{sdk:?} {era:?} {output}");
            let tools = client.list().await?;
            assert_eq!(tools[0].get("outputSchema").is_some_and(|schema| !schema.is_null()), has_schema, "{said}");
            let result = client.result("list-comments", json!({})).await?;
            assert!(blocks(&result)?[0].starts_with(begin), "{said}: {result}");
            let structured = result.get("structuredContent").filter(|content| !content.is_null());
            assert_eq!(structured.is_some(), is_structured, "{said}: {result}");
        }
        let mut client = Client::connect(sdk, era, &served.gateway.target("asked")).await?;
        let result = client.result("list-comments", json!({"_format": "toon"})).await?;
        assert!(blocks(&result)?[0].starts_with("[100]{id,by,body}:\n"), "{result}");
        let refused = client.result("list-comments", json!({"_format": "xml"})).await?;
        assert_eq!(refused["isError"], json!(true), "{refused}");
    }
    Ok(())
}

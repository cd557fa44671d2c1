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
    let expositions = expositions.iter().map(|(name, enforcement, output)| exposition(name, enforcement, output));
    serve_documents(&(DOCUMENTS.to_owned() + &expositions.collect::<String>())).await
}

/// Serves documents. Their upstream has a hundred comments at `/document`.
async fn serve_documents(documents: &str) -> Result<Served> {
    let upstream = Upstream::start().await?;
    let comments: Vec<Value> = (1..=100)
        .map(|id| json!({"id": id, "user": {"login": "ada"}, "body": format!("Comment {id}: \"a few\" words.\n")}))
        .collect();
    upstream.set_document(200, &Value::from(comments).to_string());
    let folder = Folder::new()?;
    folder.write("review.yaml", &documents.replace("URL", &upstream.url))?;
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

/// A tool, and what a call of it gets.
struct Row {
    tool: &'static str,
    enforcement: &'static str,
    /// What its filter has in addition to `root` and `select`.
    filter: &'static str,
    /// The arguments of the call.
    call: &'static str,
    /// How the first text block begins.
    begins: &'static str,
}

const fn row(
    tool: &'static str,
    enforcement: &'static str,
    filter: &'static str,
    call: &'static str,
    begins: &'static str,
) -> Row {
    Row { tool, enforcement, filter, call, begins }
}

const JSON: &str = "[{\"id\":1,";
const TABLE: &str = "{\"columns\":[\"id\",\"by\",\"body\"],\"rows\":[[1,";
const TOON: &str = "[100]{id,by,body}:\n 1,ada,";
const COMPACT: &str = "compact: {item: \"{{.id}} {{.by}}\"}";

const ROWS: &[Row] = &[
    row("json", "Enforced", "output: {format: json}", "{}", JSON),
    row("schema", "Enforced", "output: {structured: schema}", "{}", JSON),
    row("never", "Enforced", "output: {structured: never}", "{}", JSON),
    row("table", "Enforced", "output: {format: table}", "{}", TABLE),
    row("toon", "Enforced", "output: {format: toon}", "{}", TOON),
    row("auto", "Enforced", "output: {format: auto}", "{}", TOON),
    row("asked", "Enforced", "output: {inputs: [_format]}", "{}", JSON),
    row("asked", "Enforced", "output: {inputs: [_format]}", "{\"_format\": \"toon\"}", TOON),
    row("compact", "Enforced", COMPACT, "{}", "1 ada\n2 ada\n"),
    row("open", "Advisory", "output: {format: json}", "{}", JSON),
    row("openschema", "Advisory", "output: {structured: schema}", "{}", JSON),
    row("opentoon", "Advisory", "output: {format: toon}", "{}", TOON),
    row("opencompact", "Advisory", COMPACT, "{}", "1 ada\n2 ada\n"),
    row("first", "Enforced", "maxItems: 10", "{}", JSON),
    row("budget", "Enforced", "output: {budget: {tokens: 1000}}", "{}", JSON),
    row("budget", "Enforced", "output: {budget: {tokens: 1000}}", "{\"chunk\": 2}", "[{\"id\":"),
    row("budget", "Enforced", "output: {budget: {tokens: 1000}}", "{\"offset\": 40, \"limit\": 2}", "[{\"id\":41,"),
    row("tablebudget", "Enforced", "output: {format: table, budget: {tokens: 1000}}", "{}", TABLE),
    row("toonbudget", "Enforced", "output: {format: toon, budget: {tokens: 1000}}", "{}", "["),
    row(
        "compactbudget",
        "Enforced",
        "output: {budget: {bytes: 600}}, compact: {item: \"{{.id}} {{.by}}\"}",
        "{}",
        "1 ada\n",
    ),
    row("silent", "Enforced", "output: {budget: {tokens: 1000}, notice: false}", "{}", JSON),
    row("neverbudget", "Enforced", "output: {structured: never, budget: {tokens: 1000}}", "{}", JSON),
];

/// Serves every row as a tool of its own, in an exposition for each enforcement.
async fn serve_rows() -> Result<Served> {
    let tools: BTreeSet<&str> = ROWS.iter().map(|row| row.tool).collect();
    let actions: String = tools
        .iter()
        .map(|tool| format!("      {tool}: {{method: GET, path: /document, response: {{type: array}}}}\n"))
        .collect();
    let mut documents = DOCUMENTS.split("      list-comments").next().unwrap_or_default().to_owned() + &actions;
    for enforcement in ["Enforced", "Advisory"] {
        let name = enforcement.to_lowercase();
        let rows: BTreeSet<_> =
            ROWS.iter().filter(|row| row.enforcement == enforcement).map(|row| (row.tool, row.filter)).collect();
        let filters: String = rows
            .iter()
            .map(|(tool, filter)| {
                format!("    {tool}: {{root: \"\", select: {{id: id, by: user.login, body: body}}, {filter}}}\n")
            })
            .collect();
        let included: Vec<&str> = rows.iter().map(|(tool, _)| *tool).collect();
        documents += &format!(
            "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {name}}}\nspec:\n  name: {name}\n  \
             service: {{name: review, version: \"1.0.0\"}}\n  enforcement: {enforcement}\n  filters:\n{filters}---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec:\n  \
             service: {{name: review, version: \"1.0.0\"}}\n  tools: {{include: [{}]}}\n  filters: [{name}]\n",
            included.join(", ")
        );
    }
    serve_documents(&documents).await
}

/// Returns what stands where in an answer, as the cells of a table.
fn cells(tool: &Value, result: &Value) -> Result<String> {
    let blocks = blocks(result)?;
    let value: Option<Value> = serde_json::from_str(blocks[0]).ok();
    let first = match &value {
        Some(Value::Array(_)) => "JSON list",
        Some(Value::Object(object)) if object.contains_key("columns") => "table",
        None if blocks[0].starts_with('[') => "TOON",
        None => "summary",
        Some(_) => "another value",
    };
    let second = match blocks.get(1) {
        None => "",
        Some(text) if text.starts_with("[chunks]") || text.contains("\n[chunks]") => "index",
        Some(text) if text.contains("more") => "number of items, and where the rest is",
        Some(_) => "number of items",
    };
    let structured = result.get("structuredContent").filter(|content| !content.is_null());
    let (mut value, mut beside) = (Vec::new(), Vec::new());
    for (key, member) in structured.and_then(Value::as_object).into_iter().flatten() {
        match key.as_str() {
            "_truncated" | "_chunks" => beside.push(format!("`{key}`")),
            "result" if member.is_array() => value.push("`result`, the list".to_owned()),
            key => value.push(format!("`{key}`")),
        }
    }
    let schema = tool.get("outputSchema").is_some_and(|schema| !schema.is_null());
    let schema = if schema { "yes" } else { "" };
    let cells = [first, second, &value.join(", "), &beside.join(", "), schema];
    Ok(cells.map(|cell| if cell.is_empty() { "none" } else { cell }).join(" | "))
}

/// What an answer puts where, by format, structured content, summary, budget and page: the same for every client of both
/// eras, and as `docs/model-reads.md` says. `TAMIS_UPDATE=1` writes the page.
#[tokio::test]
async fn text_and_structured_content_follow_the_format() -> Result<()> {
    let served = serve_rows().await?;
    let mut table: Vec<Option<String>> = vec![None; ROWS.len()];
    for &(sdk, era) in CLIENTS {
        for enforcement in ["Enforced", "Advisory"] {
            let mut client = Client::connect(sdk, era, &served.gateway.target(&enforcement.to_lowercase())).await?;
            let tools = client.list().await?;
            let rows = ROWS.iter().zip(&mut table).filter(|(row, _)| row.enforcement == enforcement);
            for (Row { tool, filter, call, begins, .. }, cell) in rows {
                let said = format!("{sdk:?} {era:?} {enforcement} {filter} {call}");
                let listed = tools.iter().find(|listed| listed["name"] == *tool);
                let listed = listed.with_context(|| format!("{said}: not listed"))?;
                let result = client.result(tool, serde_json::from_str(call)?).await?;
                assert!(blocks(&result)?[0].starts_with(begins), "{said}: {result}");
                let found = cells(listed, &result).with_context(|| said.clone())?;
                assert_eq!(*cell.get_or_insert_with(|| found.clone()), found, "{said}: clients differ");
            }
        }
        let mut client = Client::connect(sdk, era, &served.gateway.target("enforced")).await?;
        let refused = client.result("asked", json!({"_format": "xml"})).await?;
        assert_eq!(refused["isError"], json!(true), "{refused}");
        assert!(refused.get("structuredContent").is_none_or(Value::is_null), "{refused}");
    }
    documented(&table.into_iter().flatten().collect::<Vec<_>>())
}

/// Compares the table of `docs/model-reads.md` with the cells of each row.
fn documented(cells: &[String]) -> Result<()> {
    assert_eq!(cells.len(), ROWS.len());
    let mut table =
        "\n| filter | enforcement | call | first text block | second text block | `structuredContent` | beside it | \
                     `outputSchema` |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for (Row { enforcement, filter, call, .. }, cells) in ROWS.iter().zip(cells) {
        let call = if *call == "{}" { String::new() } else { format!("`{call}`") };
        table += &format!("| `{filter}` | `{enforcement}` | {call} | {cells} |\n");
    }
    table.push('\n');
    let path = tamis_tests::root().join("docs/model-reads.md");
    let page = std::fs::read_to_string(&path)?;
    let (begin, end) = (
        "<!-- Generated: TAMIS_UPDATE=1 cargo test -p tamis-tests --test format structured -->\n",
        "<!-- End of the generated part -->\n",
    );
    let (before, rest) = page.split_once(begin).context("the page has no generated part")?;
    let (generated, after) = rest.split_once(end).context("the generated part has no end")?;
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}"))?;
        return Ok(());
    }
    assert_eq!(generated, table, "docs/model-reads.md is not what clients get: run with TAMIS_UPDATE=1");
    Ok(())
}

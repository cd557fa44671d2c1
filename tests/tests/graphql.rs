//! `tamis serve` with a GraphQL API: graphql-yoga over GitHub's schema.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::documents::{Folder, copy_folder, open_and_closed};
use tamis_tests::servers::{Strawberry, Yoga};
use tamis_tests::{Gateway, Options, Rpc, binary, root};

/// A small part of GitHub's schema, as a team would write it into its manifest.
const MANIFEST: &str = r#"apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: github}
spec:
  version: '1'
  graphql:
    baseUrl: URL
    fields: {include: [user, viewer, Mutation.addStar]}
    operations:
      inline: |
        # Finds a user, with a small picture.
        query findUser($login: String!, $size: Int = 32) {
          user(login: $login) { login avatarUrl(size: $size) followers(last: 10) { nodes { login } } }
        }
        query two($login: String!) { user(login: $login) { name } viewer { login } }
    inline: |
      type Query {
        "Lookup a user by login."
        user("The user's login." login: String!): User
        viewer: User!
      }
      type Mutation { addStar(input: AddStarInput!): AddStarPayload }
      type Subscription { never: Int }
      input AddStarInput { clientMutationId: String, starrableId: ID! }
      type AddStarPayload { clientMutationId: String, starrable: Starrable }
      interface Starrable { id: ID!, stargazerCount: Int! }
      type Repository implements Starrable { id: ID!, stargazerCount: Int!, name: String! }
      scalar URI
      type User {
        login: String!
        name: String
        bio: String
        databaseId: Int
        avatarUrl(size: Int): URI!
        followers(last: Int): FollowerConnection!
        status: UserStatus
      }
      type UserStatus { message: String }
      type FollowerConnection { totalCount: Int!, nodes: [User] }
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: short}
spec:
  name: short
  service: {name: github, version: '1'}
  filters: {user: {select: {login: login, message: status.message, names: 'followers.nodes[*].name'}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: short}
spec: {service: {name: github, version: '1'}, filters: [short], tools: {include: [user]}}
"#;

async fn start() -> Result<(Yoga, Folder, Gateway)> {
    let server = Yoga::start().await?;
    let folder = Folder::new()?;
    folder.write("github.yaml", &MANIFEST.replace("URL", &server.url()))?;
    folder.write("expositions.yaml", &open_and_closed("github", "1", "user", "login: login, bio: bio"))?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok((server, folder, gateway))
}

/// The query and the variables of the last request.
async fn last(server: &Yoga) -> Result<Value> {
    let seen = server.seen().await?;
    let last = seen.last().context("a request")?;
    ensure!(last["method"] == "POST" && last["url"] == "/graphql", "{last}");
    Ok(serde_json::from_str(last["body"].as_str().unwrap_or_default())?)
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_and_operations_are_tools() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let open = gateway.rpc("open")?;
    let tools = open.tools().await?;
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["findUser", "two", "user", "viewer", "addStar"]);
    assert_eq!(tools[0]["description"], "Finds a user, with a small picture.");
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["login"]));
    assert_eq!(tools[0]["inputSchema"]["properties"]["size"]["default"], 32);
    assert_eq!(tools[2]["inputSchema"]["properties"]["login"]["description"], "The user's login.");
    assert_eq!(tools[2]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[4]["annotations"]["readOnlyHint"], false);
    assert_eq!(tools[2]["outputSchema"]["properties"]["followers"]["properties"]["totalCount"]["type"], "integer");

    let text = open.call("user", &json!({"login": "octocat"})).await?.text_block()?;
    let expected = r#"{"login":"octocat","name":"User.name","bio":"User.bio","databaseId":10,"avatarUrl":"User.avatarUrl","followers":{"totalCount":10},"status":{"message":"UserStatus.message"}}"#;
    assert_eq!(text, expected);
    let sent = last(&server).await?;
    assert_eq!(
        sent["query"],
        "query user($login:String!){user(login:$login){login name bio databaseId avatarUrl followers{totalCount}status{message}}}"
    );
    assert_eq!(sent["variables"], json!({"login": "octocat"}));

    let text = open.call("findUser", &json!({"login": "octocat"})).await?.text_block()?;
    assert_eq!(
        text,
        r#"{"login":"octocat","avatarUrl":"User.avatarUrl","followers":{"nodes":[{"login":"User.login"},{"login":"User.login"}]}}"#
    );
    assert_eq!(last(&server).await?["variables"], json!({"login": "octocat"}));
    let text = open.call("two", &json!({"login": "a"})).await?.text_block()?;
    assert_eq!(text, r#"{"user":{"name":"User.name"},"viewer":{"login":"User.login"}}"#);
    let text = open.call("addStar", &json!({"input": {"starrableId": "R_1"}})).await?.text_block()?;
    let typename = serde_json::from_str::<Value>(&text)?["starrable"]["__typename"].clone();
    assert!(typename.is_string(), "{text}");
    assert_eq!(last(&server).await?["variables"], json!({"input": {"starrableId": "R_1"}}));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_asks_for_what_the_filter_reads() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let short = gateway.rpc("short")?;
    let text = short.call("user", &json!({"login": "octocat"})).await?.text_block()?;
    let expected = r#"{"login":"octocat","message":"UserStatus.message","names":["User.name","User.name"]}"#;
    assert_eq!(text, expected);
    let query = "query user($login:String!){user(login:$login){login followers{nodes{name}}status{message}}}";
    assert_eq!(last(&server).await?["query"], query);
    let raw = short.call("user", &json!({"login": "octocat", "_output_mode": "raw"})).await?.text_block()?;
    assert!(raw.contains("\"databaseId\":10") && !raw.contains("nodes"), "{raw}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_next_to_data_are_a_warning_or_nothing() -> Result<()> {
    let (_server, _folder, gateway) = start().await?;
    let (open, closed) = (gateway.rpc("open")?, gateway.rpc("closed")?);
    let partly = json!({"login": "partly"});
    let answer = open.call("user", &partly).await?.message()?;
    let blocks = answer["result"]["content"].as_array().context("content")?;
    assert!(blocks[0]["text"].as_str().is_some_and(|text| text.contains(r#""bio":null"#)), "{answer}");
    let warning = blocks.last().and_then(|block| block["text"].as_str()).unwrap_or_default();
    assert!(warning.starts_with("Warning: the upstream reported errors"), "{warning}");
    assert!(warning.contains("The bio is a secret of its own."), "{warning}");
    assert_ne!(answer["result"]["isError"], true);
    let answer = closed.call("user", &partly).await?.message()?;
    assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": r#"{"login":"partly","bio":null}"#}]));
    assert!(!answer.to_string().contains("secret"), "{answer}");

    let nobody = json!({"login": "nobody"});
    let answer = open.call("user", &nobody).await?.message()?;
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer.to_string().contains("Could not resolve to a User"), "{answer}");
    let answer = closed.call("user", &nobody).await?.message()?;
    assert_eq!(answer["result"]["isError"], true);
    assert!(!answer.to_string().contains("Could not resolve"), "{answer}");
    Ok(())
}

/// `examples/graphql`, with the server in place of GitHub's.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_publishes_a_schema_twice() -> Result<()> {
    let server = Yoga::start().await?;
    let folder = Folder::new()?;
    let here = |text: &str| text.replace("https://api.github.com/graphql", &server.url());
    copy_folder(&root().join("examples/graphql"), folder.path(), &here)?;
    let environment = vec![("TAMIS_SECRET_GITHUB_TOKEN".to_owned(), "t0ken-9c1d".to_owned())];
    let gateway = Gateway::with(folder.path(), &Options { environment, ..Options::default() }).await?;
    let (internal, partner) = (gateway.rpc("github-graphql-internal")?, gateway.rpc("github-graphql-partner")?);
    let octocat = json!({"login": "octocat"});
    let text = internal.call("user", &octocat).await?.text_block()?;
    let expected = r#"{"login":"octocat","name":"User.name","company":"User.company","followers":10,"status":"UserStatus.message"}"#;
    assert_eq!(text, expected);
    let query =
        "query user($login:String!){user(login:$login){company followers{totalCount}login name status{message}}}";
    assert_eq!(last(&server).await?["query"], query);
    assert_eq!(server.seen().await?[0]["authorization"], "Bearer t0ken-9c1d");
    let text = internal.call("latestFollowers", &octocat).await?.text_block()?;
    assert_eq!(text, r#"{"login":"octocat","picture":"User.avatarUrl","followers":["User.login","User.login"]}"#);
    let star = json!({"input": {"starrableId": "R_1", "clientMutationId": "c"}});
    let text = internal.call("addStar", &star).await?.text_block()?;
    assert!(text.starts_with(r#"{"call":"#), "{text}");
    let text = partner.call("user", &octocat).await?.text_block()?;
    assert_eq!(text, r#"{"login":"octocat","name":"User.name"}"#);
    assert_eq!(last(&server).await?["query"], "query user($login:String!){user(login:$login){login name}}");
    // A saved schema changes the tools; one with a mistake does not.
    let file = "github.operations.graphql";
    let operations = std::fs::read_to_string(folder.path().join(file))?;
    folder.replace(file, &operations.replace("latestFollowers", "newestFollowers"))?;
    shows(&internal, "newestFollowers").await?;
    folder.replace(file, "query newestFollowers { nothing }")?;
    folder.replace(file, &operations.replace("latestFollowers", "followers"))?;
    shows(&internal, "followers").await
}

/// Waits until an exposition lists a tool.
async fn shows(rpc: &Rpc, name: &str) -> Result<()> {
    let began = std::time::Instant::now();
    loop {
        let tools = rpc.tools().await?;
        if tools.iter().any(|tool| tool["name"] == name) {
            return Ok(());
        }
        ensure!(began.elapsed() < std::time::Duration::from_secs(20), "{tools:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Whatever an argument holds, the query and the place of the request stay, and the value arrives as it was sent.
#[tokio::test(flavor = "multi_thread")]
async fn no_argument_changes_a_query() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let open = gateway.rpc("open")?;
    open.call("findUser", &json!({"login": "a"})).await?;
    let query = last(&server).await?["query"].clone();
    let values = [
        "\"}) { login } viewer { login } #",
        "{login}",
        "${login}",
        "$size",
        "a\", \"query\": \"{ viewer { login } }",
        "../../admin?x=1#y",
        "a\r\nHost: evil.example",
        "\u{0}\u{7f}\u{2028}\u{1f600}",
        "query { viewer { login } }",
        "\\u0022\\\"",
        "",
    ];
    for value in values {
        open.call("findUser", &json!({"login": value, "size": 64})).await?;
        let sent = last(&server).await?;
        assert_eq!(sent["query"], query, "{value:?}");
        assert_eq!(sent["variables"], json!({"login": value, "size": 64}), "{value:?}");
        assert_eq!(sent.as_object().map(serde_json::Map::len), Some(2), "{value:?}");
    }
    let before = server.seen().await?.len();
    for (arguments, named) in [
        (json!({"login": 1}), "login"),
        (json!({"login": "a", "size": "64"}), "size"),
        (json!({"login": "a", "size": 2_147_483_648_u64}), "size"),
        (json!({"login": null}), "login"),
        (json!({}), "login"),
        (json!({"login": "a", "query": "{ viewer { login } }"}), "query"),
        (json!({"login": {"login": "a"}}), "login"),
    ] {
        let answer = open.call("findUser", &arguments).await?.message()?;
        assert!(answer["result"]["isError"] == true && answer.to_string().contains(named), "{arguments}: {answer}");
    }
    let answer = open.call("addStar", &json!({"input": {"starrableId": "R", "more": 1}})).await?.message()?;
    assert!(answer["result"]["isError"] == true && answer.to_string().contains("more"), "{answer}");
    assert_eq!(server.seen().await?.len(), before, "nothing was sent");
    Ok(())
}

/// What `tamis import graphql` asks of a live API becomes its tools. The API is strawberry's.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_is_asked_for_its_schema_and_called() -> Result<()> {
    let server = Strawberry::start().await?;
    let folder = Folder::new()?;
    let import = |token: Option<&str>| {
        let mut command = std::process::Command::new(binary("tamis")?);
        command.args(["import", "graphql", "--base-url", &server.url(), "--name", "orders"]);
        command
            .args(["--include", "order", "--include", "stock", "--include", "Mutation.send", "-o"])
            .arg(folder.path());
        if let Some(token) = token {
            command.args(["--bearer-env", "ORDERS_TOKEN"]).env("ORDERS_TOKEN", token);
        }
        anyhow::Ok(command.output()?)
    };
    for token in [None, Some("other")] {
        let refused = import(token)?;
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(!refused.status.success() && message.contains("401") && message.contains("--bearer-env"), "{message}");
    }
    let imported = import(Some(Strawberry::TOKEN))?;
    let said = String::from_utf8_lossy(&imported.stdout).into_owned();
    ensure!(said.contains("3 of 3 fields and operations became tools"), "{imported:?}");
    let manifest = std::fs::read_to_string(folder.path().join("orders.yaml"))?;
    ensure!(!manifest.contains(Strawberry::TOKEN) && manifest.contains("secretRef:"), "{manifest}");
    let expositions = open_and_closed("orders", "1.0.0", "stock", "name: name, stock: stock");
    folder.write("exposition.yaml", &expositions)?;
    let environment = vec![("TAMIS_SECRET_ORDERS_TOKEN".to_owned(), Strawberry::TOKEN.to_owned())];
    let gateway = Gateway::with(folder.path(), &Options { environment, ..Options::default() }).await?;
    let open = gateway.rpc("open")?;
    let tools = open.tools().await?;
    let by = &tools[0]["inputSchema"]["$defs"]["By"];
    assert_eq!((&by["minProperties"], &by["maxProperties"]), (&json!(1), &json!(1)), "{by}");

    let text = open.call("order", &json!({"by": {"state": "SENT"}})).await?.text_block()?;
    let order = r#"{"id":"1","state":"SENT","placed":"2026-11-25","items":[{"name":"item 0","price":0.5,"stock":null},{"name":"item 1","price":1.5,"stock":null}],"parts":[{"__typename":"Note","text":"gift"},{"__typename":"Item","name":"ribbon","price":1.0,"stock":null}]}"#;
    assert_eq!(text, order);
    let both = open.call("order", &json!({"by": {"state": "SENT", "id": "7"}})).await?.message()?;
    assert!(both.to_string().contains("by"), "{both}");
    assert!(both["error"].is_object() || both["result"]["isError"] == true, "{both}");
    let text = open.call("send", &json!({"id": "7"})).await?.text_block()?;
    assert!(text.starts_with(r#"{"id":"7","state":"SENT""#), "{text}");

    // The resolver of `stock` fails: the text of its error is for callers without enforcement.
    let answer = open.call("stock", &json!({})).await?.message()?;
    assert!(answer.to_string().contains("secret-7f3a"), "{answer}");
    let answer = gateway.rpc("closed")?.call("stock", &json!({})).await?.message()?;
    assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": r#"{"name":"box","stock":null}"#}]));
    assert!(!answer.to_string().contains("secret-7f3a"), "{answer}");
    Ok(())
}

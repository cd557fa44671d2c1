//! `tamis import grpc --reflection`, and calls of what it writes. The server is grpcio's.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tamis_tests::documents::{Folder, open_and_closed};
use tamis_tests::grpc::{GrpcServer, Reply};
use tamis_tests::servers::Grpcio;
use tamis_tests::{Gateway, Options, binary};
use tonic::Status;

/// Runs `tamis import grpc --reflection URL`, with a token in the environment.
async fn import(url: &str, folder: &Folder, token: Option<&str>, more: &[&str]) -> Result<(bool, String)> {
    let mut command = tokio::process::Command::new(binary("tamis")?);
    command.args(["import", "grpc", "--reflection", url, "--name", "orders", "-o"]).arg(folder.path()).args(more);
    if let Some(token) = token {
        command.args(["--bearer-env", "ORDERS_TOKEN"]).env("ORDERS_TOKEN", token);
    }
    let output = command.output().await?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_describes_itself_and_is_called() -> Result<()> {
    for version in ["v1", "v1alpha"] {
        let server = Grpcio::start(version).await?;
        let folder = Folder::new()?;
        for token in [None, Some("other")] {
            let (done, said) = import(&server.endpoint(), &folder, token, &[]).await?;
            ensure!(!done && said.contains("who are you?") && said.contains("--bearer-env"), "{version}: {said}");
        }
        let (done, said) = import(&server.endpoint(), &folder, Some(Grpcio::TOKEN), &[]).await?;
        ensure!(done && said.contains("2 of 2 methods became tools"), "{version}: {said}");
        let manifest = std::fs::read_to_string(folder.path().join("orders.yaml"))?;
        ensure!(!manifest.contains(Grpcio::TOKEN) && manifest.contains("secretRef:"), "{manifest}");
        let expositions = open_and_closed("orders", "1.0.0", "Orders_Get", "id: id, units: total.units");
        folder.write("exposition.yaml", &expositions)?;
        let environment = vec![("TAMIS_SECRET_ORDERS_TOKEN".to_owned(), Grpcio::TOKEN.to_owned())];
        let gateway = Gateway::with(folder.path(), &Options { environment, ..Options::default() }).await?;
        let (open, closed) = (gateway.rpc("open")?, gateway.rpc("closed")?);
        let tools = open.tools().await?;
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["Orders_Get", "Orders_Watch"]);
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);

        let text = open.call("Orders_Get", &json!({"id": "7"})).await?.text_block()?;
        let order =
            r#"{"id":"7","total":{"units":"9007199254740993","currency":"EUR"},"placedAt":"2023-11-14T22:13:20Z"}"#;
        assert_eq!(text, order);
        let text = closed.call("Orders_Get", &json!({"id": "7"})).await?.text_block()?;
        assert_eq!(text, r#"{"id":"7","units":"9007199254740993"}"#);
        let text = open.call("Orders_Watch", &json!({"id": "7"})).await?.text_block()?;
        let orders: Vec<Value> = serde_json::from_str(&text)?;
        assert_eq!(orders.iter().filter_map(|order| order["id"].as_str()).collect::<Vec<_>>(), ["70", "71", "72"]);
        for (rpc, is_told) in [(&open, true), (&closed, false)] {
            let answer = rpc.call("Orders_Get", &json!({"id": "none"})).await?.message()?;
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            assert_eq!(answer.to_string().contains("secret-7f3a"), is_told, "{answer}");
        }

        // Once more, with a choice: what changes is printed.
        let (done, said) =
            import(&server.endpoint(), &folder, Some(Grpcio::TOKEN), &["--include", "Get", "--force"]).await?;
        ensure!(done && said.contains("removed: Orders_Watch"), "{version}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_reflection_are_refused() -> Result<()> {
    let folder = Folder::new()?;
    let proto = "syntax = \"proto3\";\nservice A { rpc A(B) returns (B); }\nmessage B {}\n";
    let server = GrpcServer::start(proto, |_, _| Reply::failed(Status::internal("x"))).await?;
    let (done, said) = import(&server.endpoint(), &folder, None, &[]).await?;
    ensure!(!done && said.contains("the server has no reflection"), "{said}");
    // Nothing is sent to a host that a manifest must not name.
    let (done, said) = import("http://grpc.example.com:50051", &folder, None, &[]).await?;
    ensure!(!done && said.contains("--reflection") && said.contains("https"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0, "nothing is written");
    Ok(())
}

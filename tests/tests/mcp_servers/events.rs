//! A published server with the transport of 2024-11-05: imported, and called by published clients of both eras.

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::servers::{Everything, SECRET};
use tamis_tests::{CLIENTS, Client, Gateway};

use crate::import::import;
use crate::{names, text};

const EXPOSITIONS: &str = "\
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: short}
spec:
  name: short
  service: {name: everything, version: '2.0.0'}
  filters: {get-structured-content: {root: '', select: {temperature: temperature}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: all}
spec: {service: {name: everything, version: '2.0.0'}, filters: []}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: strict}
spec:
  service: {name: everything, version: '2.0.0'}
  filters: [short]
  tools: {include: [get-structured-content]}
  enforcement: Enforced
";

#[tokio::test]
async fn a_server_that_speaks_only_the_older_transport_is_imported_and_called() -> Result<()> {
    let (everything, folder) = (Everything::start_with_events().await?, Folder::new()?);
    let ran = import(&folder, &[&everything.url(), "-o", "."]).await?;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./everything.yaml: 13 tools\n", ""));
    // Again: there is no difference.
    let ran = import(&folder, &["-o", "everything.yaml"]).await?;
    assert!(ran.code == 0 && ran.out.ends_with("13 tools, no difference\n"), "{}{}", ran.out, ran.err);
    folder.write("e.yaml", EXPOSITIONS)?;
    let gateway = Gateway::start(folder.path()).await?;
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("all")).await.context(said.clone())?;
        let tools = client.list().await?;
        assert_eq!(names(&tools).len(), 13, "{said}");
        let result = client.result("echo", json!({"message": "a b"})).await?;
        assert_eq!(text(&result), "Echo: a b", "{said}: {result}");
        let result = client.result("get-sum", json!({"a": 2, "b": 40})).await?;
        assert!(text(&result).contains("42"), "{said}: {result}");
        let prompt = client.prompt("args-prompt", json!({"city": "Bern"})).await?;
        let prompt = prompt.map_err(|refusal| anyhow!("{said}: {refusal:?}"))?;
        assert!(prompt.to_string().contains("Bern"), "{said}: {prompt}");
        let read = client.read("demo://resource/dynamic/text/1").await?;
        assert!(read.is_ok(), "{said}: {read:?}");

        let mut client = Client::connect(sdk, era, &gateway.target("strict")).await.context(said.clone())?;
        let tools = client.list().await?;
        assert_eq!(names(&tools).into_iter().collect::<Vec<_>>(), ["get-structured-content"], "{said}");
        let result = client.result("get-structured-content", json!({"location": "Chicago"})).await?;
        let passed: Value = serde_json::from_str(text(&result))?;
        assert_eq!(passed, json!({"temperature": 36}), "{said}: {result}");
        assert!(!result.to_string().contains(SECRET), "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn an_address_without_a_server_is_no_stream() -> Result<()> {
    let (everything, folder) = (Everything::start_with_events().await?, Folder::new()?);
    let url = everything.url().replace("/sse", "/nothing");
    let ran = import(&folder, &[&url, "-o", "."]).await?;
    assert!(ran.code == 1 && ran.err.contains("404"), "{} {}", ran.code, ran.err);
    Ok(())
}

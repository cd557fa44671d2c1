//! Requests of tools that OpenAPI documents describe, judged by another program: prism reads the document, and refuses a request that
//! does not fit it. `cargo xtask documents` does the same with 51 larger documents.

use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;
use tamis_tests::{binary, node, root};

/// Documents of npm `@readme/oas-examples`, and how many operations each has. Together they have every place of parameters, and
/// bodies of JSON, forms, parts, text and bytes.
const DOCUMENTS: [(&str, u64); 6] = [
    ("3.0/json/petstore.json", 20),
    ("3.0/json/parameters-cookies.json", 1),
    ("3.0/json/form-data.json", 1),
    ("3.0/json/request-examples.json", 11),
    ("3.0/json/star-trek.json", 120),
    ("3.1/json/train-travel.json", 7),
];

#[test]
fn every_request_is_one_that_the_document_describes() -> Result<()> {
    let folder = root().join("tests/openapi");
    ensure!(
        folder.join("node_modules/@stoplight/prism-cli").exists(),
        "prism is not installed: run `cargo xtask tools`"
    );
    for (document, operations) in DOCUMENTS {
        let path = folder.join("node_modules/@readme/oas-examples").join(document);
        let output = Command::new(node()?).arg(folder.join("judge.mjs")).arg(binary("tamis")?).arg(path).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{document}: {said}");
        let outcome: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(outcome["operations"] == operations && outcome["became"] == operations, "{document}: {outcome}");
        ensure!(outcome["accepted"] == operations, "{document}: {outcome}");
    }
    Ok(())
}

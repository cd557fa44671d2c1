//! The examples are in order: nothing to say about any of them, together and one by one.

use std::path::Path;
use std::process::Command;

use tamis_crds::{Bundled, CompileEnv, compile, load};

#[test]
fn nothing_is_to_be_said_about_the_examples() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for folder in ["quickstart", "notion", "slack", "mcp", "mcp-program", "prompts"] {
        let loaded = load(&[examples.join(folder)]);
        let compiled = compile(&loaded.resources, &CompileEnv::default());
        let findings: Vec<_> =
            loaded.diagnostics.iter().chain(&compiled.diagnostics).map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{folder}: {findings:#?}");
        assert_eq!(compiled.snapshot.expositions.len(), 2, "{folder} is published twice");
        assert!(compiled.snapshot.stopped.is_empty() && compiled.degraded.is_empty(), "{folder}");
    }
}

#[test]
fn the_bundle_publishes_all_its_parts() {
    let loaded = load(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/bundle")]);
    let compiled = compile(&loaded.resources, &CompileEnv::default());
    assert!(loaded.diagnostics.is_empty() && compiled.diagnostics.is_empty(), "{:#?}", compiled.diagnostics);
    let bundle = compiled.snapshot.bundles.values().next().expect("is served");
    assert_eq!(Bundled::of(bundle, &compiled.snapshot), Bundled { tools: 3, ..Bundled::default() });
}

#[test]
fn validate_finds_nothing_in_them() {
    for folder in ["quickstart", "notion", "slack", "mcp", "bundle", "mcp-program", "prompts"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(folder);
        let output = Command::new(env!("CARGO_BIN_EXE_tamis")).arg("validate").arg(path).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !said.contains("error") && !said.contains("warning"), "{folder}: {said}");
    }
}

//! Services whose source is a program: where they are allowed, and what a document may say.

use tamis_config::{CredentialRef, ProgramSource, Source};

use super::world::{World, id, outcome};
use super::{CompileEnv, compile, parse_document, said};
use crate::diagnostic::Diagnostic;

const TOOLS: &str = "tools: {t: {inputSchema: {type: object}}}";
const ENABLED: &str =
    "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {name: g}\nspec: {commands: {enabled: true}}\n";

/// A manifest with this `spec.mcp` and an exposition of it, and further documents.
fn documents(mcp: &str, more: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  \
         mcp: {{{mcp}}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: e}}\nspec: \
         {{service: {{name: s, version: '1'}}, filters: []}}\n---\n{more}"
    )
}

/// What is said of a manifest where programs are enabled, without files.
fn findings(mcp: &str) -> Vec<String> {
    let parsed = parse_document("a.yaml", documents(mcp, ENABLED).as_bytes());
    let mut findings = parsed.diagnostics.clone();
    findings.extend(compile(&parsed.resources, &CompileEnv::default()).diagnostics);
    let own = findings.iter().filter(|finding| finding.field.starts_with("spec.mcp"));
    own.map(|finding| format!("{}: {}", finding.field, finding.message)).collect()
}

#[test]
fn a_program_is_kept_word_for_word_where_it_is_enabled() {
    let mcp = format!("command: [npx, -y, 'a b', ''], env: [HOST], secretEnv: {{TOKEN: {{name: s, key: k}}}}, {TOOLS}");
    let parsed = parse_document("a.yaml", documents(&mcp, ENABLED).as_bytes());
    let compilation = compile(&parsed.resources, &CompileEnv::default());
    assert_eq!(said(&compilation), Vec::<String>::new());
    let service = compilation.snapshot.services.values().next().expect("is served");
    let expected = ProgramSource {
        command: ["npx", "-y", "a b", ""].map(str::to_owned).to_vec(),
        env: vec!["HOST".to_owned()],
        secret_env: [("TOKEN".to_owned(), CredentialRef { name: "s".to_owned(), key: "k".to_owned() })].into(),
    };
    assert_eq!((service.format_version, &service.source), (4, &Source::Program(expected)));
}

#[test]
fn a_program_runs_only_where_the_group_enables_programs() {
    let mcp = format!("command: [a], {TOOLS}");
    let disabled = ENABLED.replace("true", "false");
    let none = ENABLED.replace("commands: {enabled: true}", "");
    for (group, expected) in [
        ("", "add a GatewayGroup with `commands: {enabled: true}`"),
        (disabled.as_str(), "set `commands: {enabled: true}` in the GatewayGroup"),
        (&none, "set `commands: {enabled: true}` in the GatewayGroup"),
    ] {
        let parsed = parse_document("a.yaml", documents(&mcp, group).as_bytes());
        let compilation = compile(&parsed.resources, &CompileEnv::default());
        let stopped = compilation.snapshot.stopped.values().next().expect("is stopped");
        assert_eq!(stopped.reason.as_str(), "UnsupportedSource", "{group}");
        assert!(
            stopped.message.contains("programs are not enabled") && stopped.message.contains(expected),
            "{stopped:?}"
        );
        assert!(compilation.snapshot.services.is_empty(), "{group}");
    }
}

/// What runs keeps running while the group cannot be read, and nothing begins to run then.
#[test]
fn a_group_that_cannot_be_read_changes_nothing() {
    let mcp = format!("command: [a], {TOOLS}");
    let compiled = |text: String, previous: Option<&tamis_config::Snapshot>| {
        let parsed = parse_document("a.yaml", text.as_bytes());
        let mut resources = parsed.resources;
        let broken = parse_document("g.yaml", ENABLED.replace("{commands", "{command").as_bytes());
        resources.unusable.extend(broken.resources.unusable);
        if !broken.resources.groups.is_empty() {
            resources.groups.extend(broken.resources.groups);
        }
        compile(&resources, &CompileEnv { previous, ..CompileEnv::default() }).snapshot
    };
    let good = parse_document("a.yaml", documents(&mcp, ENABLED).as_bytes());
    let served = compile(&good.resources, &CompileEnv::default()).snapshot;
    assert_eq!(served.expositions.len(), 1);
    assert_eq!(compiled(documents(&mcp, ""), Some(&served)).expositions.len(), 1);
    assert_eq!(compiled(documents(&mcp, ""), None).expositions.len(), 0);
    let http =
        parse_document("a.yaml", documents(&format!("url: 'https://example.com/mcp', {TOOLS}"), ENABLED).as_bytes());
    let before = compile(&http.resources, &CompileEnv::default()).snapshot;
    assert_eq!(before.expositions.len(), 1);
    assert_eq!(compiled(documents(&mcp, ""), Some(&before)).expositions.len(), 0);
}

#[test]
fn what_a_program_must_not_be_is_said_at_its_field() {
    for (mcp, expected) in [
        ("command: []".to_owned(), "spec.mcp.command: names no program"),
        ("command: ['', a]".to_owned(), "spec.mcp.command: names no program"),
        ("command: [a, \"b\\0\"]".to_owned(), "spec.mcp.command[1]: must have at most 4096 bytes, none of them zero"),
        (
            format!("command: [a, {}]", "x".repeat(4097)),
            "spec.mcp.command[1]: must have at most 4096 bytes, none of them zero",
        ),
        (format!("command: [{}]", ["a"; 65].join(", ")), "spec.mcp.command: has 65 entries, more than the limit of 64"),
        ("command: [a], url: 'https://example.com'".to_owned(), "spec.mcp.command: and `url` are mutually exclusive"),
        ("command: [a], auth: {type: bearer, secretRef: {name: s, key: k}}".to_owned(), "spec.mcp.auth: is for `url`"),
        ("command: [a], env: [TAMIS_SECRET_A_B]".to_owned(), "spec.mcp.env[0]: is a credential of the gateway"),
        ("command: [a], env: [A, A]".to_owned(), "spec.mcp.env[1]: occurs twice"),
        ("command: [a], env: [A-B]".to_owned(), "spec.mcp.env[0]: is not the name of a variable"),
        ("command: [a], env: ['1A']".to_owned(), "spec.mcp.env[0]: is not the name of a variable"),
        (
            "command: [a], secretEnv: {'A=': {name: s, key: k}}".to_owned(),
            r#"spec.mcp.secretEnv["A="]: is not the name of a variable"#,
        ),
        (
            "command: [a], secretEnv: {A: {name: ../s, key: k}}".to_owned(),
            "spec.mcp.secretEnv.A.name: is not a valid Kubernetes name",
        ),
        ("url: 'https://example.com', env: [A]".to_owned(), "spec.mcp.env: is for a program"),
        ("".to_owned(), "spec.mcp: has neither `url` nor `command`"),
    ] {
        let comma = if mcp.is_empty() { "" } else { ", " };
        let found = findings(&format!("{mcp}{comma}{TOOLS}"));
        assert!(found.iter().any(|line| line == expected), "{mcp}: {found:?}");
    }
}

#[test]
fn no_program_runs_in_a_cluster() {
    let mut world = World::good();
    world.put("ServiceManifest", "s", &format!("version: '1', mcp: {{command: [a], {TOOLS}}}"));
    world.remove("ToolsFilters");
    let compilation = world.compile(None);
    assert_eq!(outcome(&compilation), "stop `InvalidManifest`");
    assert!(compilation.snapshot.services.is_empty());
    let found = compilation.diagnostics.iter().find(|finding| finding.field == "spec.mcp.command").expect("is said");
    assert_eq!(found.reason.as_str(), "UnsupportedSource");
    assert!(found.message.contains("only `tamis serve` runs programs"), "{found}");

    let mut world = World::good();
    world.add("GatewayGroup", "commands: {enabled: true}");
    let compilation = world.compile(None);
    let found = compilation.diagnostics.iter().find(|finding| finding.field == "spec.commands.enabled");
    assert!(found.is_some_and(Diagnostic::is_error), "{:?}", compilation.diagnostics);
    assert!(compilation.snapshot.expositions.contains_key(&id()), "everything else is served");
}

#[test]
fn a_plan_cannot_change_a_program() {
    for plan in ["endpoint: 'https://example.com'", "headers: {set: {A: b}}"] {
        let more = format!(
            "{ENABLED}---\napiVersion: tamis.dev/v1alpha1\nkind: ConfigurationPlan\nmetadata: {{name: p}}\nspec: {{{plan}}}\n"
        );
        let text = documents(&format!("command: [a], {TOOLS}"), &more)
            .replace("filters: []", "filters: [], configurationPlan: {name: p}");
        let parsed = parse_document("a.yaml", text.as_bytes());
        let compilation = compile(&parsed.resources, &CompileEnv::default());
        let stopped = compilation.snapshot.stopped.values().next().expect("is stopped");
        assert!(stopped.message.contains("a program gets none"), "{plan}: {stopped:?}");
    }
}

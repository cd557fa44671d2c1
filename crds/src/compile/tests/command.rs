//! Services of programs that are started for each call, and of scripts: where they are allowed, and what a document may say.

use serde_json::{Value, json};
use tamis_config::{Call, CommandCall, CommandLimits, ServiceDocument, Source};

use super::super::command::compile_scripts;
use super::world::{World, id, outcome};
use super::{CompileEnv, compile, parse_document, said};
use crate::diagnostic::Diagnostic;
use crate::sink::DiagnosticSink;

const ENABLED: &str =
    "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {name: g}\nspec: {commands: {enabled: true}}\n";
const ACTIONS: &str = "actions: {t: {}}";

/// A manifest with this source and an exposition of it, and further documents.
fn documents(source: &str, more: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  \
         {source}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: e}}\nspec: \
         {{service: {{name: s, version: '1'}}, filters: []}}\n---\n{more}"
    )
}

fn command(fields: &str) -> String {
    format!("command: {{{fields}}}")
}

/// Compiles a manifest where programs are enabled. Nothing is said of it.
fn service(source: &str) -> ServiceDocument {
    let parsed = parse_document("a.yaml", documents(source, ENABLED).as_bytes());
    assert_eq!(parsed.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    let compilation = compile(&parsed.resources, &CompileEnv::default());
    assert_eq!(said(&compilation), Vec::<String>::new());
    ServiceDocument::clone(compilation.snapshot.services.values().next().expect("is served"))
}

fn call<'d>(service: &'d ServiceDocument, tool: &str) -> &'d CommandCall {
    let Call::Command(call) = &service.tools[tool].call else { panic!("a program") };
    call
}

/// What is said of a manifest where programs are enabled.
fn findings(source: &str) -> Vec<String> {
    let parsed = parse_document("a.yaml", documents(source, ENABLED).as_bytes());
    let mut findings = parsed.diagnostics.clone();
    findings.extend(compile(&parsed.resources, &CompileEnv::default()).diagnostics);
    findings.iter().map(|finding| format!("{}: {}", finding.field, finding.message)).collect()
}

#[test]
fn an_action_becomes_words_in_their_order() {
    let service = service(&command(
        "executable: gh, env: [GH_TOKEN, 'GH_*'], envInject: {NO_COLOR: '1'}, secretEnv: {T: {name: s, key: k}}, workingDir: /srv, \
         limits: {timeout: 5s, output: 1Mi, processes: 8, memory: 64Mi}, actions: {list: {command: [issue, list], warnings: [slow], \
         args: {with_body: {type: boolean}, repo: {type: string, style: positional, required: true}, labels: {type: array}, \
         'n': {type: integer, flag: -n, default: 5}, where: {type: object}, by: {type: string, style: joined, flag: --author}}, \
         jsonFlag: '--format json', successCodes: [0, 1], retry: {maxAttempts: 2, retryOn: [7]}, errorMapping: {'4': log in}, \
         response: {type: array, extract: data}, risk: {level: low}}, close: {endOfOptions: --, ndjson: true, risk: {level: high}}}",
    ));
    assert_eq!(service.format_version, 4);
    let Source::Command(source) = &service.source else { panic!("a program") };
    let limits = CommandLimits { timeout_ms: 5_000, output_bytes: 1 << 20, processes: 8, memory_bytes: 64 << 20 };
    assert_eq!((&*source.executable, source.working_dir.as_deref(), source.limits), ("gh", Some("/srv"), limits));
    let list = call(&service, "list");
    let styles: Vec<Value> = list.arguments.iter().map(|(name, arg)| json!([name, arg.style, arg.flag])).collect();
    let expected = json!([
        ["with_body", "boolean", "--with-body"],
        ["repo", "positional", null],
        ["labels", "flag", "--labels"],
        ["n", "flag", "-n"],
        ["where", "json", "--where"],
        ["by", "joined", "--author"],
    ]);
    assert_eq!(Value::from(styles), expected);
    assert_eq!(
        (&list.words, &list.last_words),
        (&vec!["issue".into(), "list".into()], &vec!["--format".into(), "json".into()])
    );
    assert_eq!((&*list.success_codes, list.extract.as_deref()), (&[0, 1][..], Some("data")));
    assert_eq!(
        (list.retry.as_ref().map(|retry| &*retry.retry_on), &*list.error_mapping[&4]),
        (Some(&[7][..]), "log in")
    );
    let tool = &service.tools["list"];
    assert_eq!(tool.description.as_deref(), Some("Warning: slow"));
    assert_eq!((tool.risk.mutating, tool.risk.destructive, tool.risk.idempotent), (false, false, true));
    let schema: Value = serde_json::from_str(tool.input_schema.as_str()).expect("a schema");
    assert_eq!((&schema["required"], &schema["properties"]["n"]["default"]), (&json!(["repo"]), &json!(5)));
    let close = call(&service, "close");
    assert_eq!(
        (close.end_of_options.as_deref(), close.ndjson, &*close.last_words),
        (Some("--"), true, &["--json".to_owned()][..])
    );
    let risk = service.tools["close"].risk;
    assert_eq!((risk.mutating, risk.destructive, risk.idempotent), (true, true, false));
    assert_eq!(service.credentials(tool).len(), 1);
    for flag in ["none", "'off'", "'false'", "'-'"] {
        let service = self::service(&command(&format!("executable: gh, jsonFlag: {flag}, {ACTIONS}")));
        assert!(call(&service, "t").last_words.is_empty(), "{flag}");
    }
}

#[test]
fn a_program_runs_only_where_the_group_enables_programs() {
    let source = command(&format!("executable: gh, {ACTIONS}"));
    let parsed = parse_document("a.yaml", documents(&source, "").as_bytes());
    let compilation = compile(&parsed.resources, &CompileEnv::default());
    let stopped = compilation.snapshot.stopped.values().next().expect("is stopped");
    assert_eq!(stopped.reason.as_str(), "UnsupportedSource");
    assert!(stopped.message.contains("add a GatewayGroup with `commands: {enabled: true}`"), "{stopped:?}");
}

#[test]
fn what_a_program_must_not_be_is_said_at_its_field() {
    let with = |fields: &str| command(&format!("executable: gh, {fields}"));
    let arg = |fields: &str| with(&format!("actions: {{t: {{args: {{{fields}}}}}}}"));
    for (source, expected) in [
        (command(&format!("executable: '', {ACTIONS}")), "spec.command.executable: names no program"),
        (command(&format!("executable: ./gh, {ACTIONS}")), "spec.command.executable: depends on the current folder"),
        (command(&format!("executable: bin/gh, {ACTIONS}")), "spec.command.executable: depends on the current folder"),
        (command(&format!("executable: .., {ACTIONS}")), "spec.command.executable: depends on the current folder"),
        (
            command(&format!("executable: gh issue, {ACTIONS}")),
            "spec.command.executable: contains a space, and no shell divides it into words",
        ),
        (command(ACTIONS), "spec.command.executable: is missing"),
        (with(&format!("workingDir: repo, {ACTIONS}")), "spec.command.workingDir: is not an absolute path"),
        (with(&format!("env: ['*'], {ACTIONS}")), "spec.command.env[0]: passes every variable"),
        (with(&format!("env: [TAMIS_SECRET_A], {ACTIONS}")), "spec.command.env[0]: is a credential of the gateway"),
        (with(&format!("env: ['TAMIS_SECRET_*'], {ACTIONS}")), "spec.command.env[0]: is a credential of the gateway"),
        (with(&format!("env: ['A*B'], {ACTIONS}")), "spec.command.env[0]: is not the name of a variable"),
        (with(&format!("env: [A], envInject: {{A: b}}, {ACTIONS}")), "spec.command.env[0]: occurs twice"),
        (
            with(&format!("envInject: {{'A=': b}}, {ACTIONS}")),
            r#"spec.command.envInject["A="]: is not the name of a variable"#,
        ),
        (
            with(&format!("envInject: {{A: \"b\\0\"}}, {ACTIONS}")),
            "spec.command.envInject.A: must have at most 4096 bytes, none of them zero",
        ),
        (
            with(&format!("envInject: {{A: b}}, secretEnv: {{A: {{name: s, key: k}}}}, {ACTIONS}")),
            "spec.command.envInject.A: occurs twice",
        ),
        (with(&format!("jsonFlag: json, {ACTIONS}")), "spec.command.jsonFlag: `json` is not an option"),
        (with(&format!("jsonFlag: ' ', {ACTIONS}")), "spec.command.jsonFlag: is empty"),
        (
            with(&format!("successCodes: [], {ACTIONS}")),
            "spec.command.successCodes: is empty, so no call would succeed",
        ),
        (
            with(&format!("successCodes: [0, 127], {ACTIONS}")),
            "spec.command.successCodes[1]: 127 says that the program could not be executed",
        ),
        (
            with(&format!("limits: {{timeout: 2h}}, {ACTIONS}")),
            "spec.command.limits.timeout: `2h` is not a duration from 1ms to 1h",
        ),
        (
            with(&format!("limits: {{output: 2Gi}}, {ACTIONS}")),
            "spec.command.limits.output: `2Gi` is not a number of bytes from 1 to 1Gi",
        ),
        (
            with(&format!("limits: {{memory: 1Mi}}, {ACTIONS}")),
            "spec.command.limits.memory: `1Mi` is not a number of bytes from 16Mi to 1024Gi",
        ),
        (with(&format!("limits: {{processes: 0}}, {ACTIONS}")), "spec.command.limits.processes: is out of range"),
        (with("actions: {'a b': {}}"), r#"spec.command.actions["a b"]: is not a valid tool name"#),
        (
            with("actions: {t: {command: [\"a\\0\"]}}"),
            "spec.command.actions.t.command[0]: must have at most 4096 bytes, none of them zero",
        ),
        (with("actions: {t: {endOfOptions: x}}"), "spec.command.actions.t.endOfOptions: is not an option"),
        (
            with("actions: {t: {response: {extract: /a}}}"),
            "spec.command.actions.t.response.extract: expected a dotted path, found a pointer",
        ),
        (
            with("actions: {t: {errorMapping: {'0': a}}}"),
            "spec.command.actions.t.errorMapping.0: is not an exit code of a failure",
        ),
        (
            with("actions: {t: {errorMapping: {'256': a}}}"),
            "spec.command.actions.t.errorMapping.256: is not an exit code of a failure",
        ),
        (
            with("actions: {t: {retry: {maxAttempts: 11, retryOn: [1]}}}"),
            "spec.command.actions.t.retry.maxAttempts: 11 is out of range",
        ),
        (
            with("actions: {t: {retry: {maxAttempts: 2, retryOn: []}}}"),
            "spec.command.actions.t.retry.retryOn: is empty, so nothing is repeated",
        ),
        (
            with("actions: {t: {retry: {maxAttempts: 2, retryOn: [1]}}}"),
            "spec.command.actions.t.retry: a call that changes something may be executed twice",
        ),
        (arg("_a: {type: string}"), "spec.command.actions.t.args._a: names that begin with `_` are reserved"),
        (arg("a: {type: string, flag: x}"), "spec.command.actions.t.args.a.flag: `x` is not an option"),
        (arg("a: {type: string, flag: '--a=b'}"), "spec.command.actions.t.args.a.flag: `--a=b` is not an option"),
        (
            arg("a: {type: string, flag: -a, style: joined}"),
            "spec.command.actions.t.args.a.flag: `joined` writes --name=VALUE, which an option with one dash has not",
        ),
        (
            arg("a: {type: string, flag: -a, style: positional}"),
            "spec.command.actions.t.args.a.flag: `-a` has no place: the argument is positional",
        ),
        (
            arg("a: {type: string, style: boolean}"),
            "spec.command.actions.t.args.a.style: `boolean` is for arguments of type boolean",
        ),
        (
            arg("a: {type: string, style: comma}"),
            "spec.command.actions.t.args.a.style: `comma` is for arguments of type array",
        ),
        (arg("a: {type: object, style: flag}"), "spec.command.actions.t.args.a.style: an object has no text"),
        (
            arg("a: {type: array, items: {type: object}}"),
            "spec.command.actions.t.args.a.items: elements that are lists or objects have no text",
        ),
        (
            arg("a: {type: array, style: positional}, b: {type: string, style: positional}"),
            "spec.command.actions.t.args.b: comes after the list `a`, whose elements would move it",
        ),
        (
            arg("a_b: {type: string}, a-b: {type: string}"),
            "spec.command.actions.t.args.a-b: `--a-b` is the option of `a_b` too",
        ),
        // What only a request has.
        (with("baseUrl: 'https://a.example', actions: {}"), "spec.command.baseUrl: unknown field"),
        (with("actions: {t: {pagination: {type: offset}}}"), "spec.command.actions.t.pagination: unknown field"),
        (with("actions: {}"), "spec.command.actions: has no action, so there is no tool"),
        (
            format!("{}\n  http: {{baseUrl: 'https://a.example', actions: {{}}}}", with(ACTIONS)),
            "spec.command: `http` and `command` are mutually exclusive",
        ),
    ] {
        let found = findings(&source);
        assert!(found.iter().any(|line| line == expected), "{source}\n{expected}\n{found:#?}");
    }
}

#[test]
fn no_program_and_no_script_runs_in_a_cluster() {
    let script = "appleScript: {actions: {t: {inlineScript: {source: '1'}}}}";
    for (source, field) in
        [(command(&format!("executable: gh, {ACTIONS}")), "spec.command"), (script.to_owned(), "spec.appleScript")]
    {
        let mut world = World::good();
        world.put("ServiceManifest", "s", &format!("version: '1', {source}"));
        world.remove("ToolsFilters");
        let compilation = world.compile(None);
        assert_eq!(outcome(&compilation), "stop `InvalidManifest`");
        assert!(compilation.snapshot.services.is_empty() && !compilation.snapshot.expositions.contains_key(&id()));
        let found = compilation.diagnostics.iter().find(|finding| finding.field == field).expect("is said");
        assert_eq!(found.reason.as_str(), "UnsupportedSource");
        assert!(found.message.contains("only `tamis serve` runs programs"), "{found}");
    }
}

#[test]
fn a_plan_has_timeouts_and_filters_for_a_program_and_nothing_that_changes_requests() {
    let plan = |fields: &str| {
        let more = format!(
            "{ENABLED}---\napiVersion: tamis.dev/v1alpha1\nkind: ConfigurationPlan\nmetadata: {{name: p}}\nspec: {{{fields}}}\n"
        );
        let text = documents(&command(&format!("executable: gh, {ACTIONS}")), &more)
            .replace("filters: []", "filters: [], configurationPlan: {name: p}");
        compile(&parse_document("a.yaml", text.as_bytes()).resources, &CompileEnv::default()).snapshot
    };
    for fields in ["endpoint: 'https://example.com'", "headers: {set: {A: b}}", "auth: {type: none}"] {
        let snapshot = plan(fields);
        let stopped = snapshot.stopped.values().next().expect("is stopped");
        assert!(stopped.message.contains("a program gets none"), "{fields}: {stopped:?}");
    }
    let served = plan("timeouts: {call: 7s}");
    let exposition = served.expositions.values().next().expect("is served");
    assert_eq!(exposition.limits.timeout_ms, 7_000);
}

/// Compiles a program with another document for its service.
fn with(kind: &str, fields: &str) -> crate::Compilation {
    let more = format!(
        "{ENABLED}---\napiVersion: tamis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: c}}\nspec:\n  service: {{name: s, version: \
         '1'}}\n  {fields}\n"
    );
    let text = documents(&command("executable: gh, actions: {t: {args: {a: {type: string}}}}"), &more);
    compile(&parse_document("a.yaml", text.as_bytes()).resources, &CompileEnv::default())
}

#[test]
fn custom_tools_wrap_a_program_and_resource_templates_need_http() {
    let compilation = with("CustomTools", "customTools: {mine: {tool: t, arguments: {a: fixed}}}");
    assert_eq!(said(&compilation), Vec::<String>::new());
    let service = compilation.snapshot.services.values().next().expect("is served");
    assert!(service.called(&service.tools["mine"]).is_some_and(|tool| matches!(tool.call, Call::Command(_))));
    let compilation = with("Resources", "resourceTemplates: {'a://b/{c}': {name: page}}");
    let said = said(&compilation);
    let expected = "a template is read by HTTP, and the service is a program";
    assert!(said.iter().any(|line| line.contains(expected)), "{said:?}");
}

/// Compiles scripts as on macOS, or elsewhere, and returns what is said.
fn scripts(text: &str, on_macos: bool) -> (ServiceDocument, Vec<Diagnostic>) {
    let parsed = parse_document("a.yaml", text.as_bytes());
    assert!(!parsed.diagnostics.iter().any(Diagnostic::is_error), "{:?}", parsed.diagnostics);
    let manifest = &parsed.resources.manifests[0];
    let spec = manifest.spec.apple_script.as_ref().expect("scripts");
    let mut found = Vec::new();
    let mut sink = DiagnosticSink::new(&manifest.origin, &mut found);
    let (source, tools) = compile_scripts(spec, on_macos, &CompileEnv::default(), &mut sink);
    let document = ServiceDocument {
        format_version: 4,
        name: manifest.spec.name.clone().unwrap_or_default(),
        version: manifest.spec.version.clone(),
        description: None,
        source,
        tools,
        content: tamis_config::ServiceContent::default(),
    };
    (document, found)
}

/// The gateway's tests run the stored document with a stand-in for `osascript`.
#[test]
fn a_script_is_run_by_osascript_with_its_arguments_as_json() {
    let (document, found) = scripts(include_str!("../../read/kimbap_applescript.yaml"), true);
    assert_eq!(found, Vec::<Diagnostic>::new());
    let json = serde_json::to_string_pretty(&document).expect("documents serialise") + "\n";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/osascript.json");
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(&path, &json).expect("can be written");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("is there"), json, "run with TAMIS_UPDATE=1");
    let call = call(&document, "list-notes");
    assert_eq!(call.words, ["-l", "JavaScript", "-e", "JSON.stringify({ok: true})"]);
    assert!(call.json_input && call.arguments.is_empty() && call.timeout_ms == Some(12_000));
    let Source::Command(source) = &document.source else { panic!("a program") };
    assert_eq!(source.executable, "/usr/bin/osascript");
}

#[test]
fn a_script_elsewhere_than_on_macos_is_an_unsupported_source() {
    let (_, found) = scripts(include_str!("../../read/kimbap_applescript.yaml"), false);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].reason.as_str(), found[0].is_error()), ("UnsupportedSource", true));
    assert!(found[0].message.contains("runs on macOS only"), "{}", found[0]);
    // `tamis serve` compiles for the system that it runs on.
    if !cfg!(target_os = "macos") {
        let script = "appleScript: {actions: {t: {inlineScript: {source: '1'}}}}";
        let parsed = parse_document("a.yaml", documents(script, ENABLED).as_bytes());
        let compilation = compile(&parsed.resources, &CompileEnv::default());
        assert!(compilation.snapshot.expositions.is_empty());
        let found =
            compilation.diagnostics.iter().find(|finding| finding.field == "spec.appleScript").expect("is said");
        assert_eq!(found.reason.as_str(), "UnsupportedSource");
    }
}

#[test]
fn what_a_script_must_not_be_is_said_at_its_field() {
    for (actions, expected) in [
        ("t: {}", "spec.appleScript.actions.t.inlineScript: is missing"),
        ("t: {inlineScript: {}}", "spec.appleScript.actions.t.inlineScript.source: is missing"),
        (
            "t: {inlineScript: {source: ' '}}",
            "spec.appleScript.actions.t.inlineScript.source: must have 1 to 65536 bytes, none of them zero",
        ),
        (
            "t: {inlineScript: {source: '1', language: python}}",
            "spec.appleScript.actions.t.inlineScript.language: unsupported value `python`",
        ),
        (
            "t: {inlineScript: {source: '1', timeout: 9h}}",
            "spec.appleScript.actions.t.inlineScript.timeout: `9h` is not a duration from 1ms to 1h",
        ),
        (
            "t: {inlineScript: {source: '1'}, args: {a: {type: array, style: comma}}}",
            "spec.appleScript.actions.t.args.a.style: has no meaning: a script gets its arguments as JSON",
        ),
        ("", "spec.appleScript.actions: has no action, so there is no tool"),
    ] {
        let found = findings(&format!("appleScript: {{actions: {{{actions}}}}}"));
        assert!(found.iter().any(|line| line == expected), "{actions}\n{found:#?}");
    }
}

//! What a manifest says of its tools.

use super::*;

#[test]
fn risk_becomes_annotations() {
    let table = [
        ("", (false, false, true)),
        ("method: POST", (true, false, false)),
        ("method: DELETE", (true, true, true)),
        ("method: DELETE, risk: {level: low}", (true, false, true)),
        ("method: POST, risk: {level: high}, idempotent: true", (true, true, true)),
        ("method: POST, risk: {mutating: false}", (false, false, false)),
        ("risk: {level: critical}", (false, false, true)),
    ];
    for (action, expected) in table {
        let text = with(&[("Exposition", "e", "")]).replace("{path: /a}", &format!("{{path: /a, {action}}}"));
        let compilation = compile(&resources(&text), &CompileEnv::default());
        let service = compilation.snapshot.services.values().next().unwrap();
        let risk = service.tools["plain"].risk;
        assert_eq!((risk.mutating, risk.destructive, risk.idempotent), expected, "{action}");
    }
}

#[test]
fn base_urls() {
    let table = [
        ("https://api.example.com/v1", true),
        ("http://localhost:8080", true),
        ("http://127.0.0.1:1", true),
        ("http://[::1]:1", true),
        ("http://api.team.svc", true),
        ("http://api.team.svc.cluster.local:80/x", true),
        ("http://api.example.com", false),
        ("http://localhost.example.com", false),
        ("http://10.0.0.1", false),
        ("http://evilsvc", false),
        ("https://u@example.com", false),
        ("https://example.com?", false),
        ("https://example.com#a", false),
        ("https://{host}.example.com", false),
        ("ftp://example.com", false),
        ("/relative", false),
        ("https://", false),
    ];
    for (url, good) in table {
        let text = with(&[])
            .replace("https://example.com", url)
            .replace(&format!("baseUrl: {url}"), &format!("baseUrl: '{url}'"));
        let compilation = compile(&resources(&text), &CompileEnv::default());
        assert_eq!(!compilation.has_errors(), good, "{url}: {:?}", said(&compilation));
    }
}

#[test]
fn every_field_of_a_kimbap_manifest_arrives() {
    let text = include_str!("../../read/kimbap_full.yaml");
    let parsed = parse_document("tracker.yaml", text.as_bytes());
    let loaded = Loaded {
        resources: parsed.resources.clone(),
        diagnostics: parsed.diagnostics.clone(),
        files: vec![parsed.clone()],
    };
    let said: Vec<String> = diagnose(&loaded).iter().map(ToString::to_string).collect();
    let fields: Vec<&str> = said.iter().filter_map(|line| line.split(": ").nth(2)).collect();
    assert_eq!(fields, ["aliases", "triggers", "gotchas", "recipes", "actions.list-tickets.aliases"], "{said:#?}");
    assert!(said.iter().all(|line| line.contains("warning: ") && line.contains("has no effect")), "{said:#?}");

    let mut all = parsed.resources;
    all.extend(&resources(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: e}\nspec: {service: {name: tracker, version: 1.2.0}}\n",
    ));
    let compilation = compile(&all, &CompileEnv::default());
    let service = compilation.snapshot.services.values().next().unwrap();
    let list = &service.tools["list-tickets"];
    assert_eq!(list.description.as_deref(), Some("Tickets of a project\n\nWarning: Slow for large projects"));
    assert_eq!(
        list.input_schema.as_str(),
        r#"{"type":"object","properties":{"project":{"type":"string"},"state":{"type":"string","enum":["open","closed"],"default":"open"},"labels":{"type":"array"}},"required":["project"],"additionalProperties":false}"#
    );
    assert_eq!((list.risk.mutating, list.risk.destructive, list.risk.idempotent), (false, false, true));
    let Call::Http(http) = &list.call else { panic!("an HTTP call") };
    assert_eq!(http.extract.as_deref(), Some("data.tickets"));
    assert_eq!(http.request.styles["labels"], tamis_config::ArgumentStyle::Comma);
    assert_eq!(http.request.path_params["project"], "{project}");
    assert_eq!(http.request.headers["X-Client"], "tamis");
    let retry = http.retry.as_ref().unwrap();
    assert_eq!((retry.max_attempts, retry.backoff_ms, &retry.retry_on[..]), (3, 500, &[429, 503][..]));
    let pages = list.pagination.as_ref().unwrap();
    assert_eq!((pages.max_pages, pages.next_path.as_deref()), (5, Some("data.next")));
    assert_eq!(http.error_mapping[&404], "no such project");
    assert_eq!(http.error_mapping[&403], "not yours");
    let create = &service.tools["create-ticket"];
    assert_eq!((create.risk.mutating, create.risk.destructive), (true, true));
    let Call::Http(http) = &create.call else { panic!("an HTTP call") };
    assert!(http.auth.is_some() && http.request.body.is_some());
    let tools = &compilation.snapshot.expositions[&id()].tools;
    let single = |tool: &str| match tools[tool].filter.as_deref() {
        Some(ToolFilter::Single(spec)) => spec.clone(),
        other => panic!("{other:?}"),
    };
    let filter = single("list-tickets");
    assert_eq!((filter.max_items, filter.drop_nulls, filter.compact.is_some()), (Some(25), true, true));
    let text = single("get-log").text.unwrap();
    assert_eq!(
        (text.strip_ansi, text.dedup, text.max_lines, text.on_empty.as_deref()),
        (true, true, Some(100), Some("nothing"))
    );
}

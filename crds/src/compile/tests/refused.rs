//! Fields and values that are refused, each by its name and place.

use super::*;

#[test]
fn what_comes_later_is_refused_by_name_and_place() {
    let spec = |kind: &str, spec: &str| {
        format!("apiVersion: tamis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  {spec}\n")
    };
    let exposition = |field: &str| spec("Exposition", &format!("service: {{name: s, version: '1'}}\n  {field}"));
    let table = [
        (spec("ServiceManifest", "version: 1.0.0\n  llm: {baseUrl: a}"), "6:", "spec.llm"),
        (exposition("access: {jwt: {}}"), "6:", "spec.access.jwt"),
        (spec("ConfigurationPlan", "tls: {}"), "5:", "spec.tls"),
        (spec("ConfigurationPlan", "headers: {forward: [a]}"), "5:", "spec.headers.forward"),
        (spec("GatewayGroup", "commands: {allow: [ls]}"), "5:", "spec.commands.allow"),
        (spec("GatewayGroup", "store: {redis: {}}"), "5:", "spec.store"),
    ];
    for (text, place, field) in table {
        let said: Vec<_> =
            parse_document("a.yaml", text.as_bytes()).diagnostics.iter().map(ToString::to_string).collect();
        let found = said.iter().any(|line| {
            let rest = line.strip_prefix(&format!("a.yaml:{place}"));
            rest.is_some_and(|rest| rest.contains(&format!("error: {field}: ")) && rest.contains("not implemented yet"))
        });
        assert!(found, "{text}\n{said:#?}");
    }
}

#[test]
fn a_collector_is_named_by_its_base_url() {
    let wrong = [
        ("endpoint: 'otel:4318'", "spec.tracing.endpoint: is not the base URL"),
        ("endpoint: 'http://a:b@otel'", "spec.tracing.endpoint: is not the base URL"),
        ("endpoint: 'http://otel?key=b'", "spec.tracing.endpoint: is not the base URL"),
        ("endpoint: 'http://otel', samplingRatePerMillion: 1000001", "spec.tracing.samplingRatePerMillion: is greater"),
    ];
    let said = |tracing: &str| {
        let text = format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {{name: a}}\nspec:\n  tracing: {{{tracing}}}\n"
        );
        let parsed = parse_document("a.yaml", text.as_bytes());
        parsed.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (tracing, expected) in wrong {
        let said = said(tracing);
        assert!(said.iter().any(|line| line.starts_with("a.yaml:5:") && line.contains(expected)), "{said:#?}");
    }
    assert_eq!(said("endpoint: 'https://otel:4318/in', samplingRatePerMillion: 0"), Vec::<String>::new());
}

#[test]
fn a_group_has_from_1_to_1024_workers() {
    for (number, is_valid) in [(0, false), (1, true), (1024, true), (1025, false)] {
        let text = format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {{name: a}}\nspec:\n  workers: {number}\n"
        );
        let said = parse_document("a.yaml", text.as_bytes()).diagnostics;
        let said: Vec<_> = said.iter().map(ToString::to_string).collect();
        let wrong = format!(
            "a.yaml:5:3: error: spec.workers: {number} is not a number from 1 to 1024; write one, or remove the field"
        );
        assert_eq!(said, if is_valid { Vec::new() } else { vec![wrong] });
    }
}

#[test]
fn one_mistake_does_not_hide_the_next() {
    let said = |text: &str| {
        let parsed = parse_document("a.yaml", text.as_bytes());
        let loaded = Loaded {
            resources: parsed.resources.clone(),
            diagnostics: parsed.diagnostics.clone(),
            files: vec![parsed],
        };
        diagnose(&loaded).iter().map(|d| format!("{}: {}, {}", d.field, d.message, d.remedy)).collect::<Vec<_>>()
    };
    let limits = "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: a}\nspec:\n  service: {name: s, version: '1'}\n  \
         limits: {timeout: 30, concurrent: 0, burst: 1, requestsPerSecond: -1, maxResponseBytes: 1 MB}\n";
    let found = said(limits);
    assert!(found.contains(&"spec.limits.timeout: 30 has no unit, write 30s".to_owned()), "{found:#?}");
    for field in ["timeout", "concurrent", "requestsPerSecond", "maxResponseBytes"] {
        let of_field = found.iter().filter(|line| line.starts_with(&format!("spec.limits.{field}: "))).count();
        assert_eq!(of_field, 1, "{field}: {found:#?}");
    }
    let filters = "apiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {name: a}\nspec:\n  service: {name: s, version: '1'}\n  \
         filters:\n    one: {retian: [/a]}\n    two: {retain: [a]}\n";
    let found = said(filters);
    assert!(found.iter().any(|line| line.starts_with("spec.filters.one.retian: ")), "{found:#?}");
    assert!(found.iter().any(|line| line.starts_with("spec.filters.two.retain[0]: ")), "{found:#?}");
}

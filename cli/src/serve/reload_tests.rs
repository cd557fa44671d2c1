//! Decisions over the history of a folder.

use std::time::Duration;

use tamis_crds::parse_document;

use super::*;

const MANIFEST: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: s}
spec:
  version: "1"
  http:
    baseUrl: http://127.0.0.1:1
    actions:
      get: {method: GET, path: /x, description: x, response: {type: object}}
"#;

fn audience(name: &str, retain: &str) -> String {
    format!(
        r#"
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {{name: {name}}}
spec:
  name: {name}
  service: {{name: s, version: "1"}}
  filters: {{get: {{retain: [{retain}]}}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {{name: {name}}}
spec: {{service: {{name: s, version: "1"}}, filters: [{name}]}}
"#
    )
}

fn files(documents: &[(&str, &str)]) -> Vec<ParsedFile> {
    documents.iter().map(|(name, text)| parse_document(name, text.as_bytes())).collect()
}

/// Expositions and the `retain` of each.
fn served(reload: &Reload) -> Vec<(String, String)> {
    let filter = |document: &tamis_config::ExpositionDocument| {
        let filter = document.tools.get("get").and_then(|tool| tool.filter.as_deref());
        match filter {
            Some(tamis_engine::ToolFilter::Single(spec)) => spec.retain.clone().unwrap_or_default().join(" "),
            other => format!("{other:?}"),
        }
    };
    reload.snapshot.expositions.iter().map(|(id, document)| (id.name.clone(), filter(document))).collect()
}

fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_broken_edit_keeps_what_was_served_and_recovers() {
    let mut reloader = Reloader::new(false);
    let (good, better) = (audience("a", "/x"), audience("a", "/y"));
    let first = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &good)]), Instant::now());
    assert_eq!((served(&first), first.problem()), (expected(&[("a", "/x")]), None));

    for (what, broken) in [
        ("syntax", better.replace("kind: Exposition", "kind: [Exposition")),
        ("half a file", better[..better.len() - 40].to_owned()),
        ("emptied", String::new()),
        ("a wrong pointer", audience("a", "y")),
    ] {
        let reload = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &broken)]), Instant::now());
        assert_eq!(served(&reload), expected(&[("a", "/x")]), "{what}");
        let problem = reload.problem().unwrap_or_default();
        assert!(problem.starts_with("a.yaml"), "{what}: {problem}");
        let again = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &broken)]), Instant::now());
        assert!(again.news.is_empty() && !again.worthwhile, "{what}: said twice");
    }

    let repaired = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &better)]), Instant::now());
    assert_eq!((served(&repaired), repaired.problem()), (expected(&[("a", "/y")]), None));
}

#[test]
fn a_broken_file_holds_up_no_other() {
    let mut reloader = Reloader::new(false);
    let (a, b) = (audience("a", "/x"), audience("b", "/x"));
    let first = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", "kind: ["), ("b.yaml", &b)]), Instant::now());
    assert_eq!(served(&first), expected(&[("b", "/x")]), "valid documents are served from the start");
    let next = audience("b", "/y");
    let second = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &a), ("b.yaml", &next)]), Instant::now());
    assert_eq!(served(&second), expected(&[("a", "/x"), ("b", "/y")]));
}

#[test]
fn a_deleted_file_is_gone() {
    let mut reloader = Reloader::new(false);
    let (a, b) = (audience("a", "/x"), audience("b", "/x"));
    reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &a), ("b.yaml", &b)]), Instant::now());
    let reload = reloader.decide(&files(&[("s.yaml", MANIFEST), ("b.yaml", &b)]), Instant::now());
    assert_eq!(served(&reload), expected(&[("b", "/x")]));
}

/// A set that is the service's default, and an exposition that names none.
const DEFAULT_SET: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: default-set}
spec: {service: {name: s, version: "1"}, filters: {get: {retain: [/x]}}}
"#;
const EXPOSITION: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: a}
spec: {service: {name: s, version: "1"}}
"#;
const STRICT_GROUP: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: GatewayGroup
metadata: {name: default}
spec: {require: {enforced: true}}
"#;

/// What exposition `a` is: its enforcement and the filter of its tool, the reason for which it is stopped, or nothing.
fn state(reload: &Reload) -> String {
    if let Some(stopped) = reload.snapshot.stopped.values().next() {
        return stopped.reason.as_str().to_owned();
    }
    let Some(document) = reload.snapshot.expositions.values().next() else { return "absent".to_owned() };
    let filter = match document.tools.get("get").map(|tool| tool.filter.as_deref()) {
        None => "unpublished".to_owned(),
        Some(None) => "bare".to_owned(),
        Some(Some(tamis_engine::ToolFilter::Single(spec))) => spec.retain.clone().unwrap_or_default().join(" "),
        Some(Some(other)) => format!("{other:?}"),
    };
    format!("{:?} {filter}", document.enforcement)
}

#[test]
fn what_loosens_waits_and_what_tightens_does_not() {
    let named = |enforcement: &str, retain: &str| {
        audience("a", retain).replace("  name: a\n", &format!("  name: a\n  enforcement: {enforcement}\n"))
    };
    let enforced = named("Enforced", "/x");
    let advisory = named("Advisory", "/y");
    let unnamed = DEFAULT_SET.replace("get: {retain: [/x]}", "get: {retain: [/y]}").replace("default-set", "other");
    let s = ("s.yaml", MANIFEST);
    let (set, expo, group) = (("f.yaml", DEFAULT_SET), ("e.yaml", EXPOSITION), ("g.yaml", STRICT_GROUP));
    let off = EXPOSITION.replace("spec: {", "spec: {filters: [], ");
    let other_enforcement = EXPOSITION.replace("spec: {", "spec: {enforcement: Enforced, ");
    let edited = DEFAULT_SET.replace("/x", "/y");
    let renamed = MANIFEST.replace("get:", "look:");
    type Files<'a> = Vec<(&'a str, &'a str)>;
    // What is in the folder first and then; at once, after a quarter of a second, after five.
    let table: Vec<(&str, Files<'_>, Files<'_>, [&str; 3])> = vec![
        ("an edit", vec![s, set, expo], vec![s, ("f.yaml", &edited), expo], ["Advisory /y"; 3]),
        ("the last default set is deleted", vec![s, set, expo], vec![s, expo], ["FilterSetNotFound"; 3]),
        (
            "the default set gives way to another",
            vec![s, set, expo],
            vec![s, ("o.yaml", &unnamed), expo],
            ["Advisory /x", "Advisory /x", "Advisory /y"],
        ),
        (
            "filters are switched off",
            vec![s, set, expo],
            vec![s, set, ("e.yaml", &off)],
            ["Advisory /x", "Advisory bare", "Advisory bare"],
        ),
        (
            "enforcement is lowered",
            vec![s, ("a.yaml", &enforced)],
            vec![s, ("a.yaml", &advisory)],
            ["Enforced /x", "Advisory /y", "Advisory /y"],
        ),
        ("enforcement is raised", vec![s, ("a.yaml", &advisory)], vec![s, ("a.yaml", &enforced)], ["Enforced /x"; 3]),
        (
            "enforcement is raised and the set goes",
            vec![s, set, expo],
            vec![s, ("e.yaml", &other_enforcement)],
            ["FilterSetNotFound"; 3],
        ),
        ("an exposition that is filtered", vec![s, set], vec![s, set, expo], ["Advisory /x"; 3]),
        (
            "an exposition whose set is perhaps to come",
            vec![s],
            vec![s, expo],
            ["Pending", "FilterSetNotFound", "FilterSetNotFound"],
        ),
        ("an exposition that names no set on purpose", vec![s], vec![s, ("e.yaml", &off)], ["Advisory bare"; 3]),
        (
            "an exposition that comes back before its default set",
            vec![s, set],
            vec![s, expo],
            ["Pending", "Pending", "FilterSetNotFound"],
        ),
        (
            "the group with the floor goes",
            vec![s, set, expo, group],
            vec![s, set, expo],
            ["BelowGroupFloor", "BelowGroupFloor", "Advisory /x"],
        ),
        ("a floor rises", vec![s, set, expo], vec![s, set, expo, group], ["BelowGroupFloor"; 3]),
        ("a named set is deleted", vec![s, set, expo], vec![s, set, ("e.yaml", &advisory)], ["Advisory /y"; 3]),
        (
            "a tool that is new",
            vec![s, ("e.yaml", &off)],
            vec![("s.yaml", &renamed), ("e.yaml", &off)],
            ["Advisory unpublished"; 3],
        ),
        ("all is deleted", vec![s, set, expo], vec![], ["absent"; 3]),
    ];
    for (what, before, after, expected) in table {
        let mut reloader = Reloader::new(false);
        let start = Instant::now();
        reloader.decide(&files(&before), start);
        let mut now = start + Duration::from_secs(60);
        for (expected, wait) in expected.into_iter().zip([0, 260, 5_000]) {
            now += Duration::from_millis(wait);
            let reload = reloader.decide(&files(&after), now);
            assert_eq!(state(&reload), expected, "{what}, {wait} ms later");
            assert_eq!(reload.again.is_some(), !reload.held.is_empty(), "{what}");
            assert!(reload.again.is_none_or(|again| again > now), "{what}: it would be asked for ever");
        }
    }
}

#[test]
fn a_checkout_shows_no_unfiltered_moment() {
    let mut reloader = Reloader::new(false);
    let (s, set, expo) = (("s.yaml", MANIFEST), ("f.yaml", DEFAULT_SET), ("e.yaml", EXPOSITION));
    let edited = DEFAULT_SET.replace("/x", "/y");
    let all = [s, set, expo];
    // Every subset of the files, in every order in which files can go and come: each is a look between two writes.
    let mut now = Instant::now();
    reloader.decide(&files(&all), now);
    for step in 0..512_usize {
        let shown = step ^ (step >> 1);
        let present: Vec<_> = (0..3).filter(|bit| shown >> bit & 1 == 1).map(|bit| all[bit]).collect();
        now += Duration::from_millis(20);
        let seen = state(&reloader.decide(&files(&present), now));
        assert!(
            ["Advisory /x", "absent", "ServiceNotFound", "FilterSetNotFound", "Pending"].contains(&seen.as_str()),
            "{shown:b}: {seen}"
        );
    }
    now += Duration::from_millis(20);
    let last = reloader.decide(&files(&[s, ("f.yaml", &edited), expo]), now);
    assert_eq!((state(&last).as_str(), last.again), ("Advisory /y", None), "the content on disk is served");
}

#[test]
fn what_cannot_be_read_is_not_absent() {
    let (s, expo) = (("s.yaml", MANIFEST), ("e.yaml", EXPOSITION));
    let unknown_field = DEFAULT_SET.replace("filters:", "fitlers:");
    let syntax = DEFAULT_SET.replace("filters: {", "filters: {{");
    let misspelled = DEFAULT_SET.replace("ToolsFilters", "ToolFilters");
    let other_service = unknown_field.replace("name: s,", "name: t,");
    let other_namespace = unknown_field.replace("name: default-set", "name: default-set, namespace: other");
    let named = unknown_field.replace("spec: {", "spec: {name: strict, ");
    let broken_too = format!("{DEFAULT_SET}---\n{}", STRICT_GROUP.replace("GatewayGroup", "Nonsense"));
    let together = format!("{EXPOSITION}---\n{unknown_field}");
    let group = STRICT_GROUP.replace("require", "requires");
    let group_syntax = STRICT_GROUP.replace("spec: {", "spec: {{");
    let foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let manifest = MANIFEST.replace("description: x", "descripton: x");
    // The files at the start; what exposition `a` is then.
    type Files<'a> = Vec<(&'a str, &'a str)>;
    let table: Vec<(&str, Files<'_>, &str)> = vec![
        ("a set with an unknown field", vec![s, expo, ("f.yaml", &unknown_field)], "InvalidFilter"),
        ("a set that does not parse", vec![s, expo, ("f.yaml", &syntax)], "InvalidFilter"),
        ("half a set", vec![s, expo, ("f.yaml", &DEFAULT_SET[..60])], "InvalidFilter"),
        ("a kind that is misspelled", vec![s, expo, ("f.yaml", &misspelled)], "InvalidFilter"),
        ("a good set next to a broken document", vec![s, expo, ("f.yaml", &broken_too)], "InvalidFilter"),
        ("a good exposition next to a broken set", vec![s, ("f.yaml", &together)], "InvalidManifest"),
        ("a set of another service", vec![s, expo, ("f.yaml", &other_service)], "FilterSetNotFound"),
        ("a set of another namespace", vec![s, expo, ("f.yaml", &other_namespace)], "FilterSetNotFound"),
        ("a set that has a name", vec![s, expo, ("f.yaml", &named)], "FilterSetNotFound"),
        ("the group", vec![s, expo, ("g.yaml", &group)], "InvalidManifest"),
        ("the group, which does not parse", vec![s, expo, ("g.yaml", &group_syntax)], "InvalidManifest"),
        ("the manifest", vec![expo, ("s.yaml", &manifest)], "InvalidManifest"),
        ("another program's", vec![s, expo, ("c.yaml", foreign)], "FilterSetNotFound"),
    ];
    for (what, documents, expected) in table {
        let mut reloader = Reloader::new(false);
        let now = Instant::now();
        assert_eq!(state(&reloader.decide(&files(&documents), now)), expected, "{what}");
        let later = reloader.decide(&files(&documents), now + Duration::from_secs(60));
        assert_eq!(state(&later), expected, "{what}, a minute later");
        let repaired = reloader.decide(&files(&[s, expo, ("f.yaml", DEFAULT_SET)]), now + Duration::from_secs(120));
        assert_eq!(state(&repaired), "Advisory /x", "{what}, repaired");
        // Under another name the last good form is unknown, but the served version is known.
        let moved = reloader.decide(&files(&[s, expo, ("new.yaml", &syntax)]), now + Duration::from_secs(180));
        assert_eq!(state(&moved), "Advisory /x", "{what}, broken again");
        let much_later = reloader.decide(&files(&[s, expo, ("new.yaml", &syntax)]), now + Duration::from_secs(240));
        assert_eq!(state(&much_later), "Advisory /x", "{what}, still broken");
    }
}

#[test]
fn a_group_that_cannot_be_read_loosens_nothing_and_delays_nothing() {
    let mut reloader = Reloader::new(false);
    let strict = DEFAULT_SET.replace("spec: {", "spec: {enforcement: Enforced, ");
    let (s, set, expo) = (("s.yaml", MANIFEST), ("f.yaml", strict.as_str()), ("e.yaml", EXPOSITION));
    let mut now = Instant::now();
    reloader.decide(&files(&[s, set, expo]), now);
    let group = STRICT_GROUP.replace("require", "requires");
    let broken = ("g.yaml", group.as_str());
    let looser = DEFAULT_SET.replace("/x", "/y");
    let limited = EXPOSITION.replace("spec: {", "spec: {limits: {concurrent: 3}, ");
    for wait in [0, 60, 60] {
        now += Duration::from_secs(wait);
        let reload = reloader.decide(&files(&[s, ("f.yaml", &looser), ("e.yaml", &limited), broken]), now);
        assert_eq!(state(&reload), "Enforced /x", "its floors are not known");
        let document = reload.snapshot.expositions.values().next().expect("is served");
        assert_eq!(document.limits.concurrent, Some(3));
    }
    now += Duration::from_secs(60);
    let edited = strict.replace("/x", "/z");
    let tightened = reloader.decide(&files(&[s, ("f.yaml", &edited), expo, broken]), now);
    assert_eq!(state(&tightened), "Enforced /z", "changes that do not loosen apply");
    reloader.decide(&files(&[s, ("f.yaml", &looser), expo]), now);
    let repaired = reloader.decide(&files(&[s, ("f.yaml", &looser), expo]), now + Duration::from_secs(60));
    assert_eq!(state(&repaired), "Advisory /y");
}

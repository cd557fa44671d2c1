//! What a folder's history makes of what is served.

use tamis_crds::parse_document;

use super::*;

const MANIFEST: &str = r#"
apiVersion: reshapr.io/v1alpha1
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
apiVersion: reshapr.io/v1alpha1
kind: ToolsFilters
metadata: {{name: {name}}}
spec:
  name: {name}
  service: {{name: s, version: "1"}}
  filters: {{get: {{retain: [{retain}]}}}}
---
apiVersion: reshapr.io/v1alpha1
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
        let filter = document.tools.get("get").and_then(|tool| tool.filter.clone());
        match filter {
            Some(tamis_engine::ToolFilter::Single(spec)) => spec.retain.unwrap_or_default().join(" "),
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
    let first = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &good)]));
    assert_eq!((served(&first), first.problem()), (expected(&[("a", "/x")]), None));

    for (what, broken) in [
        ("syntax", better.replace("kind: Exposition", "kind: [Exposition")),
        ("half a file", better[..better.len() - 40].to_owned()),
        ("emptied", String::new()),
        ("a wrong pointer", audience("a", "y")),
    ] {
        let reload = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &broken)]));
        assert_eq!(served(&reload), expected(&[("a", "/x")]), "{what}");
        let problem = reload.problem().unwrap_or_default();
        assert!(problem.starts_with("a.yaml"), "{what}: {problem}");
        let again = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &broken)]));
        assert!(again.news.is_empty() && !again.worthwhile, "{what}: said twice");
    }

    let mended = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &better)]));
    assert_eq!((served(&mended), mended.problem()), (expected(&[("a", "/y")]), None));
}

#[test]
fn a_broken_file_holds_up_no_other() {
    let mut reloader = Reloader::new(false);
    let (a, b) = (audience("a", "/x"), audience("b", "/x"));
    let first = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", "kind: ["), ("b.yaml", &b)]));
    assert_eq!(served(&first), expected(&[("b", "/x")]), "what is in order is served from the start");
    let next = audience("b", "/y");
    let second = reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &a), ("b.yaml", &next)]));
    assert_eq!(served(&second), expected(&[("a", "/x"), ("b", "/y")]));
}

#[test]
fn a_deleted_file_is_gone() {
    let mut reloader = Reloader::new(false);
    let (a, b) = (audience("a", "/x"), audience("b", "/x"));
    reloader.decide(&files(&[("s.yaml", MANIFEST), ("a.yaml", &a), ("b.yaml", &b)]));
    let reload = reloader.decide(&files(&[("s.yaml", MANIFEST), ("b.yaml", &b)]));
    assert_eq!(served(&reload), expected(&[("b", "/x")]));
}

#[test]
fn documents_are_found_as_the_loader_finds_them() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join("sub/.hidden")).expect("creates");
    for name in ["a.yaml", "b.JSON", ".c.yaml", "d.yaml~", "e.txt", "sub/f.yml", "sub/.hidden/g.yaml"] {
        std::fs::write(dir.path().join(name), "").expect("writes");
    }
    let loaded: Vec<_> = tamis_crds::load(&[dir.path().to_owned()]).files.into_iter().map(|f| f.file).collect();
    let mut found: Vec<Arc<str>> = documents(dir.path()).iter().map(|p| p.to_string_lossy().into()).collect();
    found.sort();
    assert_eq!(found.len(), 3);
    assert_eq!(found, loaded);
}

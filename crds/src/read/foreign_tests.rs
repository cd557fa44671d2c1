//! Files of other programs, and misspelt files of ours.

use crate::{FolderState, Loaded, ParsedFile, document_schema, parse_document};

/// Files that lie beside documents in real folders.
const FOREIGN: &[(&str, &str)] = &[
    ("package.json", r#"{"name": "Exposition", "version": "1.0.0", "private": true, "scripts": {"test": "node ."}}"#),
    ("tsconfig.json", r#"{"compilerOptions": {"baseUrl": "."}, "include": ["src"]}"#),
    ("values.yaml", "replicaCount: 1\nimage: {repository: a, tag: b}\nservice: {type: ClusterIP, port: 80}\n"),
    ("docker-compose.yml", "version: '3'\nservices:\n  web:\n    image: nginx\n    ports: ['8080:80']\n"),
    ("Chart.yaml", "apiVersion: v2\nname: a\ndescription: A chart\ntype: application\nversion: 0.1.0\n"),
    ("ci.yaml", "kind: pipeline\ntype: docker\nsteps: [{name: build}]\n"),
    ("mkdocs.yml", "site_name: a\nnav: [index.md]\n"),
    ("asyncapi.json", r#"{"asyncapi": "3.0.0", "info": {"title": "a", "version": "1"}, "channels": {}}"#),
    ("answer.json", r#"[{"number": 1, "title": "kind of"}]"#),
    ("numbers.json", "[1, [2], []]"),
    ("empty.json", "{}"),
    ("server.yaml", "bind: 127.0.0.1\nfind: true\nmind: no\n"),
    ("two.yaml", "a: 1\n---\nb: 2\n"),
    ("logging.yaml", "filters: {allow: {class: a}}\n"),
];

/// Documents that their authors take for Tamis documents.
const MISSPELT: &[&str] = &[
    "apiversion: tamis.dev/v1alpha1\nkinds: ToolsFilters\nmetadata: {name: a}\n",
    "api_version: v1\nname: a\n",
    "apiVersoin: v1alpha1\nname: a\n",
    "Kind: Exposition\n",
    "kin: Exposition\n",
    "type: ToolsFilters\n",
    "version: tamis.dev/v1alpha1\n",
    "schema: tamis.dev/v1alpha1\n",
    "apiVersion: tamis.dev/v1alpha1\n",
    "apiVersion: reshaper.io/v1alpha1\nname: a\n",
    "kind: ToolFilters\n",
    "kind: Exposition\nname: a\n",
    "metadata: {name: a}\nspec: {service: {name: s, version: '1'}}\n",
    "spec: {}\n",
    "service: {name: s, version: '1'}\nfilters: {}\n",
    "service: {name: s, version: '1'}\nfiltres: {list: {select: {a: a}}}\n",
    "service: {name: s, version: '1'}\n",
    "enforcment: Enforced\nfilters: {a: b}\n",
    "filters: {}\n",
    "filters: {list-issues: {select: {number: number}}}\n",
    "filters: {list-issues: [{otherwise: true, retain: [/a]}]}\n",
    "base_url: https://api.example.com\n",
    "actions: {list: {path: /a}}\n",
    "- kind: Exposition\n",
    "just text\n",
    // Beside a document of Tamis nothing is another program's.
    "replicaCount: 1\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: a}\nspec: {service: {name: s, version: '1'}}\n",
];

#[test]
fn files_of_other_programs_are_skipped() {
    let schema = serde_json::to_string_pretty(&document_schema()).expect("is JSON");
    for (name, text) in FOREIGN.iter().copied().chain([("tamis.schema.json", schema.as_str())]) {
        let read = parse_document(name, text.as_bytes());
        assert!(read.foreign, "{name}: {:?}", read.diagnostics);
        assert_eq!((read.diagnostics.len(), read.documents, read.resources.len()), (0, 0, 0), "{name}");
        assert!(read.resources.unusable.is_empty(), "{name}");
    }
}

#[test]
fn misspelt_documents_are_errors() {
    for text in MISSPELT {
        let read = parse_document("a.yaml", text.as_bytes());
        assert!(!read.foreign && read.is_broken(), "{text}: {:?}", read.diagnostics);
    }
    assert!(!parse_document("a.yaml", b"").foreign, "an empty file is not another program's");
}

#[test]
fn one_notice_names_the_files() {
    let files: Vec<ParsedFile> = FOREIGN.iter().map(|(name, text)| parse_document(name, text.as_bytes())).collect();
    let said = |files: &[ParsedFile]| {
        let loaded = Loaded::of(files.to_vec());
        assert_eq!(loaded.diagnostics, FolderState::default().update(files).diagnostics);
        loaded.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let remedy = "a Tamis document begins with apiVersion, kind, metadata and spec";
    let one = format!("package.json:1:1: warning: the file holds no Tamis document and is skipped; {remedy}");
    assert_eq!(said(&files[..1]), [one]);
    assert!(
        said(&files[..2])[0].contains("this file and 1 other hold no Tamis document and are skipped: tsconfig.json; ")
    );
    let many = format!(
        "package.json:1:1: warning: this file and 13 others hold no Tamis document and are skipped: tsconfig.json, \
         values.yaml, docker-compose.yml, Chart.yaml and 9 more; {remedy}"
    );
    assert_eq!(said(&files), [many]);
}

#[test]
fn openapi_documents_are_told_from_others() {
    let table = [
        ("openapi: 3.1.0\npaths: {}\n", true),
        ("swagger: '2.0'\npaths: {}\n", true),
        ("{\"openapi\": \"3.0.0\", \"info\": {}, \"tags\": [], \"service\": {\"name\": 1}}", true),
        // What is meant for Tamis, or consists of several documents, is not one.
        ("openapi: 3.1.0\nkind: ServiceManifest\n", false),
        ("openapi: {}\n", false),
        ("openapi: 3.1.0\n---\na: 1\n", false),
        ("info: {}\npaths: {}\n", false),
    ];
    for (text, is_api) in table {
        let read = parse_document("a.yaml", text.as_bytes());
        assert_eq!(!read.resources.apis.is_empty(), is_api, "{text}");
        assert!(
            !is_api || (!read.is_broken() && !read.foreign && read.documents == 0),
            "{text}: {:?}",
            read.diagnostics
        );
    }
}

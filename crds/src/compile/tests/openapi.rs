//! Manifests whose tools come from an OpenAPI document.

use tamis_config::{AuthKind, ServiceDocument};

use super::*;
use crate::{Loaded, load, parse_document};

const API: &str = "openapi: 3.1.0
servers: [{url: https://api.example.com/v1}]
paths:
  /pets:
    get:
      operationId: listPets
      responses: {'200': {content: {application/json: {schema: {type: array}}}}}
    post:
      operationId: addPet
      security: []
";

fn manifest(openapi: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: pets}}\nspec:\n  version: '1'\n  openapi:\n{openapi}"
    )
}

const EXPOSITION: &str = "---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: pets}
spec: {service: {name: pets, version: '1'}, filters: []}
";

fn inline(more: &str) -> String {
    let api = API.lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "      {line}");
        text
    });
    format!("{}{more}{EXPOSITION}", manifest(&format!("    inline:\n{api}")))
}

fn served(text: &str) -> (Vec<String>, Option<ServiceDocument>) {
    let compilation = compile(&resources(text), &CompileEnv::default());
    let service = compilation.snapshot.services.values().next().map(|service| (**service).clone());
    (said(&compilation), service)
}

#[test]
fn an_inline_document_is_served_with_its_overrides() {
    let (told, service) = served(&inline(
        "    auth: {type: bearer, secretRef: {name: s, key: k}}\n    overrides:\n      listPets:\n        name: list-pets\n        \
         title: All\n        risk: {mutating: true}\n        retry: {maxAttempts: 2}\n        errorMapping: {'404': none}\n        \
         pagination: {type: offset}\n        response: {filter: {maxItems: 2}}\n",
    ));
    // A call that the override says changes something is repeated for each page.
    assert_eq!(told, [""; 0]);
    let service = service.expect("is served");
    assert_eq!(service.tools.keys().collect::<Vec<_>>(), ["list-pets", "addPet"]);
    let tool = &service.tools["list-pets"];
    assert_eq!((tool.title.as_deref(), tool.response_type), (Some("All"), Some(tamis_engine::ResponseType::Array)));
    assert!(tool.risk.mutating && tool.pagination.is_some());
    let Call::Http(call) = &tool.call else { panic!("an HTTP call") };
    assert_eq!((call.retry.as_ref().map(|retry| retry.max_attempts), call.error_mapping.len()), (Some(2), 1));
    let Call::Http(call) = &service.tools["addPet"].call else { panic!("an HTTP call") };
    assert_eq!(call.auth.as_ref().map(|auth| auth.kind), Some(AuthKind::None));
    assert_eq!(service.destinations(), ["https://api.example.com/v1"]);
    assert_eq!(service.format_version, 1, "nothing of it needs a later format");
}

#[test]
fn the_filter_of_an_override_is_checked_in_its_place() {
    let (told, _) =
        served(&inline("    overrides:\n      listPets: {name: list, response: {filter: {select: {a: '[['}}}}\n"));
    assert!(
        told.iter().any(|line| line.contains("error: spec.openapi.overrides.listPets.response.filter.select.a")),
        "{told:#?}"
    );
}

#[test]
fn what_a_manifest_says_wrongly() {
    let table = [
        (
            "    operations: {include: [listPet]}\n",
            "operations.include[0]: the document has no operation `listPet`; did you mean `listPets`?",
        ),
        (
            "    operations: {exclude: [none]}\n",
            "operations.exclude[0]: the document has no operation `none`; write an operationId",
        ),
        ("    operations: {include: ['a*']}\n    baseUrl: https://b.example\n", ""),
        ("    operations: {include: ['x*']}\n", "warning: spec.openapi.operations.include[0]: matches no operation"),
        (
            "    overrides: {listPet: {title: x}}\n",
            "overrides.listPet: no operation becomes this tool; did you mean `listPets`?",
        ),
        ("    overrides: {listPets: {name: addPet}}\n", "overrides: two tools would have the name `addPet`"),
        ("    overrides: {listPets: {name: 'a b'}}\n", "is not a valid tool name"),
        ("    overrides: {listPets: {response: {extract: /a}}}\n", "listPets.response.extract: expected a dotted path"),
        ("    baseUrl: http://example.com\n", "baseUrl: http is allowed for loopback"),
        ("    file: a.yaml\n", "file: and `inline` are mutually exclusive"),
        ("    auth: {type: bearer}\n", "auth.secretRef: type bearer requires a credential"),
        ("  http: {baseUrl: https://a.example, actions: {}}\n", "openapi: `http` and `openapi` are mutually exclusive"),
    ];
    for (more, expected) in table {
        let (told, _) = served(&inline(more));
        assert!(told.iter().any(|line| line.contains(expected)) || expected.is_empty(), "{more}: {told:#?}");
        assert!(!told.is_empty() || expected.is_empty(), "{more}");
    }
    let (told, _) = served(&manifest("    baseUrl: https://a.example\n"));
    assert!(told.iter().any(|line| line.contains("openapi: has no document")), "{told:#?}");
    let relative = inline("").replace("https://api.example.com/v1", "/v1");
    let (told, _) = served(&relative);
    assert!(
        told.iter().any(|line| line.contains("baseUrl: is missing, and the document names no server")),
        "{told:#?}"
    );
    // The place of a mistake in an inline document is its own.
    let (told, _) = served(&inline("").replace("type: array", "type: array, items: {type: strin}"));
    assert!(told.is_empty(), "an answer that is no object has no schema: {told:#?}");
    let (told, _) = served(&inline("").replace("security: []", "parameters: [{name: a, in: qery}]"));
    assert!(
        told.iter().any(|line| line
            .starts_with("test.yaml:17:36: error: spec.openapi.inline.paths./pets.post.parameters[0].in: `qery`")),
        "{told:#?}"
    );
}

#[test]
fn a_cluster_takes_inline_documents_only() {
    use super::world::World;

    let spec = |document: &str| format!("version: '1', openapi: {{{document}, baseUrl: 'https://a.example'}}");
    for (document, expected) in [
        ("file: pets.yaml", Some("names a file, and a cluster has no files")),
        ("inline: {openapi: 3.1.0, paths: {}}", None),
    ] {
        let mut world = World::good();
        world.put("ServiceManifest", "pets", &spec(document));
        let compilation = world.compile(None);
        let told: Vec<_> = said(&compilation).into_iter().filter(|line| line.contains("openapi.file")).collect();
        match expected {
            None => assert_eq!(told, [""; 0]),
            Some(expected) => {
                assert!(told[0].contains(expected), "{told:#?}");
                let finding =
                    compilation.diagnostics.iter().find(|d| d.field.ends_with("openapi.file")).expect("a finding");
                assert_eq!(finding.reason, Reason::UnsupportedSource);
            }
        }
    }
}

#[test]
fn files_are_read_and_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writes");
    let loaded = |what: &str| -> Loaded { load(&[dir.path().join(what)]) };
    let told = |loaded: &Loaded| -> Vec<String> {
        let prefix = format!("{}/", dir.path().display());
        diagnose(loaded).iter().map(|d| d.to_string().replace(&prefix, "")).collect()
    };
    write("api.yaml", API);
    // Nothing names it yet.
    let alone = told(&loaded(""));
    assert_eq!(
        alone,
        [
            "api.yaml:1:1: warning: the file is an OpenAPI document, and no ServiceManifest names it; write a ServiceManifest \
          with `openapi: {file: api.yaml}`, or move the file to another folder"
        ]
    );
    write("manifest.yaml", &format!("{}{EXPOSITION}", manifest("    file: api.yaml\n")));
    assert_eq!(told(&loaded("")), [""; 0]);
    let alone = loaded("manifest.yaml");
    assert_eq!(told(&alone), [""; 0], "the document is read although its folder is not");
    assert_eq!(alone.resources.apis.len(), 1);
    let names = |loaded: &Loaded| {
        let compilation = compile(&loaded.resources, &CompileEnv::default());
        compilation.snapshot.services.values().flat_map(|service| service.tools.keys().cloned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&alone), ["listPets", "addPet"]);
    // An edit of the document changes the tools, and a mistake is where it is.
    write("api.yaml", &API.replace("operationId: addPet", "operationId: createPet"));
    assert_eq!(names(&loaded("")), ["listPets", "createPet"]);
    write("api.yaml", &API.replace("security: []", "parameters: [{in: query}]"));
    let mistake = told(&loaded(""));
    assert_eq!(
        mistake[0],
        "api.yaml:10:20: error: paths./pets.post.parameters[0]: the parameter has no name; add `name`"
    );
    for (text, expected) in [
        ("openapi: [", "api.yaml:"),
        ("", "api.yaml:1:1: error: is empty; save the document"),
        ("a: 1", "api.yaml:1:1: error: has no `openapi` version"),
        ("openapi: 3.1.0\n---\na: 1", "api.yaml:3:1: error: holds several documents"),
        ("swagger: '2.0'", "api.yaml:1:1: error: swagger: Swagger 2.0 is not supported"),
    ] {
        write("api.yaml", text);
        for what in ["", "manifest.yaml"] {
            let told = told(&loaded(what));
            assert!(told.iter().any(|line| line.starts_with(expected) && line.contains("error")), "{text}: {told:#?}");
        }
    }
    std::fs::remove_file(dir.path().join("api.yaml")).expect("removes");
    let gone = told(&loaded(""));
    assert!(gone.iter().any(|line| line.starts_with("api.yaml:1:1: error: no such file or folder")), "{gone:#?}");
    // Its size is bounded, and larger than that of other documents.
    let file = std::fs::File::create(dir.path().join("api.yaml")).expect("creates");
    file.set_len(100 << 20).expect("grows");
    let large = told(&loaded(""));
    assert!(
        large.iter().any(|line| line.contains("the file has 104857600 bytes, more than the 67108864 that are read")),
        "{large:#?}"
    );
    let mut padded = API.to_owned();
    padded.extend(std::iter::repeat_n("# 0123456789012345678901234567890123456789012345678901234567890\n", 17 << 14));
    write("api.yaml", &padded);
    assert!(padded.len() > 16 << 20);
    assert_eq!(told(&loaded("")), [""; 0]);
    for (name, expected) in [
        ("../api.yaml", "has an empty part, or one that begins with a dot"),
        ("/etc/api.yaml", "is not a relative path"),
        ("a//b.yaml", "has an empty part"),
        ("api.txt", "does not end in .yaml, .yml, .json, .graphql, .proto or .binpb"),
        ("''", "is empty"),
    ] {
        write("manifest.yaml", &manifest(&format!("    file: {name}\n")));
        let told = told(&loaded("manifest.yaml"));
        assert!(
            told.iter().any(|line| line.contains("spec.openapi.file") && line.contains(expected)),
            "{name}: {told:#?}"
        );
    }
}

#[test]
fn a_document_that_breaks_keeps_what_is_served() {
    let good = resources(&inline(""));
    let first = compile(&good, &CompileEnv::default()).snapshot;
    let broken = parse_document("test.yaml", inline("").replace("security: []", "parameters: {}x").as_bytes());
    let text = inline("").replace("security: []", "parameters: [{in: query}]");
    assert!(broken.is_broken());
    let env = CompileEnv { previous: Some(&first), ..CompileEnv::default() };
    let second = compile(&resources(&text), &env);
    assert!(second.has_errors());
    assert_eq!(second.snapshot.services, first.services, "the last good service is served");
    // Sets that name its tools are not told that there are none.
    let set = "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {name: f}\nspec: {service: {name: pets, version: '1'}, filters: {listPets: {maxItems: 1}}}\n";
    let third = compile(&resources(&format!("{text}{set}")), &env);
    assert!(!said(&third).iter().any(|line| line.contains("has no such tool")), "{:#?}", said(&third));
}

/// The texts that a .proto text imports belong to the document: an edit of one counts, and an edit of anything else converts nothing.
#[test]
fn proto_texts_are_converted_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writes");
    let conversions = Conversions::default();
    let compiled = || {
        let env = CompileEnv { conversions: Some(&conversions), ..CompileEnv::default() };
        let compilation = compile(&load(&[dir.path().to_path_buf()]).resources, &env);
        let said: Vec<String> = compilation.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(said, [""; 0]);
        let tools = compilation.snapshot.services.values().flat_map(|service| service.tools.keys().cloned());
        (tools.collect::<Vec<_>>(), conversions.made())
    };
    let head = "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: shop}\nspec:\n";
    let manifest = format!("{head}  version: '1'\n  grpc: {{endpoint: 'https://a.example', file: shop.proto}}\n");
    let exposition = "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: shop}\nspec: {service: {name: shop, version: '1'}, filters: []}\n";
    let shop = "syntax = \"proto3\";\nimport \"item.proto\";\nservice Shop { rpc Get(Item) returns (Item); }\n";
    let item = "syntax = \"proto3\";\nmessage Item { string id = 1; }\n";
    write("shop.yaml", &format!("{manifest}{exposition}"));
    write("shop.proto", shop);
    write("item.proto", item);
    let get = vec!["Shop_Get".to_owned()];
    assert_eq!(compiled(), (get.clone(), 1));
    write("shop.yaml", &format!("# a comment\n{manifest}{exposition}"));
    assert_eq!(compiled(), (get.clone(), 1));
    write("item.proto", &item.replace("string", "int32"));
    assert_eq!(compiled(), (get.clone(), 2));
    write("shop.yaml", &format!("{}{exposition}", manifest.replace("file: ", "methods: {include: [Get]}, file: ")));
    assert_eq!(compiled(), (get, 3));
}

//! Documents in ConfigMaps.

use std::io::Write as _;

use super::world::{World, outcome};
use super::*;
use crate::Loaded;
use crate::cluster::ConfigMapState;
use crate::resources::ConfigMap;

pub(super) const API: &str = "openapi: 3.1.0
servers: [{url: https://api.example.com/v1}]
paths:
  /pets: {get: {operationId: get}}
";

/// A ConfigMap with one key.
pub(super) fn map(name: &str, key: &str, value: impl Into<Vec<u8>>) -> ConfigMapState {
    let name = ObjectName { namespace: super::world::NAMESPACE.to_owned(), name: name.to_owned() };
    ConfigMapState::Found(Arc::new(ConfigMap::new(name, [(key.to_owned(), value.into())])))
}

/// A cluster whose service is described by the key of a ConfigMap.
pub(super) fn world(key: &str, value: impl Into<Vec<u8>>) -> World {
    let mut world = World::good();
    name_it(&mut world, key);
    world.config_maps.insert("team-a/api".to_owned(), map("api", key, value));
    world
}

/// Lets the service be described by the key of a ConfigMap.
pub(super) fn name_it(world: &mut World, key: &str) {
    world.put("ServiceManifest", "s", &format!("version: '1', openapi: {{configMapRef: {{name: api, key: {key}}}}}"));
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("writes");
    encoder.finish().expect("ends")
}

#[test]
fn a_key_is_read_as_its_name_says() {
    let json = r#"{"openapi":"3.1.0","servers":[{"url":"https://api.example.com/v1"}],"paths":{"/pets":{"get":{"operationId":"get"}}}}"#;
    for (key, value) in [
        ("api.yaml", API.as_bytes().to_vec()),
        ("api", API.as_bytes().to_vec()),
        ("api.json", json.as_bytes().to_vec()),
        ("api.yaml.gz", gzip(API)),
        ("api.json.zst", zstd::bulk::compress(json.as_bytes(), 3).expect("compresses")),
    ] {
        let compilation = world(key, value).compile(None);
        assert_eq!((outcome(&compilation).as_str(), said(&compilation)), ("new", vec![]), "{key}");
    }
}

#[test]
fn a_mistake_names_config_map_key_and_line_where_the_manifest_names_it() {
    let broken =
        API.replace("get: {operationId: get}", "get: {operationId: get, parameters: [{in: nowhere, name: a}]}");
    for (key, value) in [("api.yaml", broken.clone().into_bytes()), ("api.yaml.gz", gzip(&broken))] {
        let said = said(&world(key, value).compile(None));
        assert_eq!(said.len(), 2, "{said:#?}");
        let place = "error: spec.openapi.configMapRef: ConfigMap team-a/api";
        let expected = format!("{place}[{key}]:4:49: paths./pets.get.parameters[0].in: ");
        assert!(
            said.iter().any(|line| line.starts_with("ServiceManifest team-a/s:") && line.contains(&expected)),
            "{expected}: {said:#?}"
        );
    }
    for (key, value, expected) in [
        ("a.yaml", "a: [".to_owned(), "ConfigMap team-a/api[a.yaml]:2:1: not YAML"),
        ("a.json", "{".to_owned(), "ConfigMap team-a/api[a.json]:1:2: "),
        ("a.yaml.gz", "a".to_owned(), "ConfigMap team-a/api[a.yaml.gz]:1:1: ends in the name of a compression"),
        ("a.yaml", format!("{}1{}", "[".repeat(200), "]".repeat(200)), "nested more than 100 deep"),
    ] {
        let said = said(&world(key, value).compile(None));
        assert!(said.iter().any(|line| line.contains(expected)), "{expected}: {said:#?}");
    }
}

#[test]
fn what_is_not_there_is_named_with_its_remedy() {
    let mut missing = world("api.yaml", API);
    missing.config_maps.clear();
    let mut forbidden = world("api.yaml", API);
    forbidden.config_maps.insert("team-a/api".to_owned(), ConfigMapState::Forbidden);
    let mut other = world("api.yaml", API);
    name_it(&mut other, "api.yml");
    for (world, expected) in [
        (
            missing,
            "spec.openapi.configMapRef.name: no ConfigMap `api` with the label tamis.dev/document exists in namespace team-a; \
             create it, or label it: kubectl -n team-a label configmap api tamis.dev/document=true",
        ),
        (
            forbidden,
            "spec.openapi.configMapRef.name: the operator may not read ConfigMaps of namespace team-a; bind the role \
             `tamis-documents` there, see docs/rbac.md",
        ),
        (other, "spec.openapi.configMapRef.key: ConfigMap team-a/api has no key `api.yml`; did you mean `api.yaml`?"),
    ] {
        let compilation = world.compile(None);
        let found = compilation.diagnostics.iter().find(|finding| finding.file.starts_with("ServiceManifest"));
        let found = found.map(|finding| (finding.reason, finding.statement()));
        assert_eq!(found, Some((Reason::ConfigMapNotFound, expected.to_owned())));
        assert_eq!(outcome(&compilation), "stop `ConfigMapNotFound`");
    }
}

const GRAPHQL: &str = "version: '1', graphql: {baseUrl: 'https://api.example.com', configMapRef: {name: api, key: KEY}, operations: \
                       {configMapRef: {name: more, key: o.graphql}}}";

#[test]
fn graphql_takes_schema_and_operations_of_config_maps() {
    let schema = "type Query { get(a: Int): Int }\n";
    let introspection = r#"{"data":{"__schema":{"queryType":{"name":"Query"},"types":[{"kind":"OBJECT","name":"Query","fields":[{"name":"get","args":[{"name":"a","type":{"kind":"SCALAR","name":"Int"}}],"type":{"kind":"SCALAR","name":"Int"}}]}]}}}"#;
    for (key, value) in
        [("s.graphql", schema.as_bytes().to_vec()), ("s.json.gz", gzip(introspection)), ("s", schema.into())]
    {
        let mut world = world(key, value);
        world.put("ServiceManifest", "s", &GRAPHQL.replace("KEY", key));
        let map_of = |text: &str| map("more", "o.graphql", text);
        world.config_maps.insert("team-a/more".to_owned(), map_of("query get { get(a: 1) }\n"));
        let compilation = world.compile(None);
        assert_eq!((outcome(&compilation).as_str(), said(&compilation)), ("new", vec![]), "{key}");
        world.config_maps.insert("team-a/more".to_owned(), map_of("query get {\n  got\n}\n"));
        let said = said(&world.compile(None));
        let place = "spec.graphql.operations.configMapRef: ConfigMap team-a/more[o.graphql]:2:3: ";
        assert!(said.iter().any(|line| line.contains(place)), "{said:#?}");
    }
}

#[test]
fn grpc_takes_texts_with_their_imports_and_descriptor_sets_of_config_maps() {
    let root = "syntax = \"proto3\";\nimport \"shop/v1/items.proto\";\nservice Shop { rpc Get(shop.v1.Item) returns (shop.v1.Item); }\n";
    let items = "syntax = \"proto3\";\npackage shop.v1;\nmessage Item { string name = 1; }\n";
    let name = ObjectName { namespace: super::world::NAMESPACE.to_owned(), name: "api".to_owned() };
    let with = |key: &str, values: Vec<(&str, Vec<u8>)>| {
        let mut world = World::good();
        let spec = format!(
            "version: '1', grpc: {{endpoint: 'https://grpc.example.com', configMapRef: {{name: api, key: {key}}}, \
             overrides: {{Shop_Get: {{name: get}}}}}}"
        );
        world.put("ServiceManifest", "s", &spec);
        let values = values.into_iter().map(|(key, value)| (key.to_owned(), value));
        let map = ConfigMapState::Found(Arc::new(ConfigMap::new(name.clone(), values)));
        world.config_maps.insert("team-a/api".to_owned(), map);
        world.compile(None)
    };
    let imported = ("shop.v1.items.proto", items.as_bytes().to_vec());
    let mut set = prost_types::FileDescriptorSet::default();
    let mut parsed = protox_parse::parse("shop/v1/items.proto", items).expect("is valid");
    parsed.service.push(prost_types::ServiceDescriptorProto {
        name: Some("Shop".to_owned()),
        method: vec![prost_types::MethodDescriptorProto {
            name: Some("Get".to_owned()),
            input_type: Some(".shop.v1.Item".to_owned()),
            output_type: Some(".shop.v1.Item".to_owned()),
            ..Default::default()
        }],
        ..Default::default()
    });
    set.file.push(parsed);
    let set = prost::Message::encode_to_vec(&set);
    for (key, values) in [
        ("shop.proto", vec![("shop.proto", root.into()), imported.clone()]),
        ("shop.proto.gz", vec![("shop.proto.gz", gzip(root)), ("shop.v1.items.proto.gz", gzip(items))]),
        ("shop.binpb", vec![("shop.binpb", set.clone())]),
        ("shop.pb.zst", vec![("shop.pb.zst", zstd::bulk::compress(&set, 3).expect("compresses"))]),
    ] {
        let compilation = with(key, values);
        assert_eq!((outcome(&compilation).as_str(), said(&compilation)), ("new", vec![]), "{key}");
    }
    for (values, expected) in [
        (
            vec![("shop.proto", root.into())],
            "ConfigMap team-a/api[shop.proto]:2:1: imports `shop/v1/items.proto`, which is not there; add it to the ConfigMap under \
             the key `shop.v1.items.proto`",
        ),
        (
            vec![("shop.proto", root.into()), ("shop.v1.items.proto", b"syntax = \"proto3\";\nmesage A {}\n".to_vec())],
            "ConfigMap team-a/api[shop.v1.items.proto]:2:1: ",
        ),
        (vec![imported], "ConfigMap team-a/api has no key `shop.proto`"),
    ] {
        let said = said(&with("shop.proto", values));
        assert!(said.iter().any(|line| line.contains(expected)), "{expected}\n{said:#?}");
    }
    // Each key is within its limit, and all of them together are not.
    let bomb = gzip(&format!("syntax = \"proto3\";{}", " ".repeat(15 << 20)));
    let keys: Vec<String> = (0..5).map(|number| format!("bomb{number}.proto.gz")).collect();
    let bombs = keys.iter().map(|key| (key.as_str(), bomb.clone()));
    let said = said(&with("shop.proto", bombs.chain([("shop.proto", root.into())]).collect()));
    assert!(said.iter().any(|line| line.contains("more than 67108864 bytes once they are unpacked")), "{said:#?}");
}

fn of_files(documents: &str) -> Vec<String> {
    let loaded = Loaded::of(vec![parse_document("a.yaml", documents.as_bytes())]);
    diagnose(&loaded).iter().map(ToString::to_string).collect()
}

const MANIFEST: &str = "apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: pets}
spec: {version: '1', openapi: {configMapRef: {name: api, key: api.yaml}}}
---
";

fn config_map(more: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: api, labels: {{tamis.dev/document: 'true'}}}}\n{more}")
}

#[test]
fn config_maps_are_read_of_files() {
    let indented = API.lines().fold("data:\n  api.yaml: |\n".to_owned(), |text, line| format!("{text}    {line}\n"));
    let good = config_map(&indented);
    assert_eq!(of_files(&format!("{MANIFEST}{good}")), [""; 0]);
    let mistake = good.replace("operationId: get", "operationId: get, parameters: [{in: nowhere, name: a}]");
    for (documents, expected) in [
        (format!("{MANIFEST}{mistake}"), "ConfigMap default/api[api.yaml]:4:"),
        (MANIFEST.trim_end_matches("---\n").to_owned(), "no ConfigMap `api` of namespace default with the label"),
        (good.clone(), "warning: no ServiceManifest names the ConfigMap"),
        (format!("{MANIFEST}{good}---\n{good}"), "ConfigMap default/api is already defined"),
        (
            format!("{MANIFEST}{}", config_map("data: 1\n")),
            "a.yaml:9:7: error: data: expected a mapping, found a number",
        ),
        (format!("{MANIFEST}{}", config_map("data: {a: 1}\n")), "data[\"a\"]: expected a text, found a number"),
        (format!("{MANIFEST}{}", config_map("binaryData: {a: '?'}\n")), "binaryData[\"a\"]: is not base64"),
        (format!("{MANIFEST}{}", config_map("data: {a: b}\nbinaryData: {a: YQ==}\n")), "is in `data` too"),
        (format!("{MANIFEST}{}", config_map("data: {'a/b': b}\n")), "`a/b` is not a key"),
        (
            format!("{MANIFEST}{}", config_map(&format!("data: {{a: '{}'}}\n", "a".repeat((1 << 20) + 1)))),
            "has 1048577 bytes, more than the 1048576 that a cluster accepts",
        ),
        (good.replace("labels: {tamis.dev/document: 'true'}", "labels: {}"), "ConfigMap of v1 is not a Tamis document"),
    ] {
        let said = of_files(&documents);
        assert!(said.iter().any(|line| line.contains(expected)), "{expected}: {said:#?}");
    }
}

#[test]
fn equal_documents_are_converted_once_and_an_edit_of_anything_else_converts_none() {
    let conversions = Conversions::default();
    let mut text = String::new();
    for namespace in ["a", "b"] {
        let of = |document: &str| document.replace("{name: ", &format!("{{namespace: {namespace}, name: "));
        let manifest = of(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: pets}\nspec:\n  version: '1'\n",
        );
        let reference =
            "  openapi: {configMapRef: {key: api.yaml, name: api}, operations: {include: [get, '*x']}}\n---\n";
        let indented =
            API.lines().fold("data:\n  api.yaml: |\n".to_owned(), |text, line| format!("{text}    {line}\n"));
        let _ = writeln!(text, "{manifest}{reference}{}---", of(&config_map(&indented)));
    }
    let compiled = |text: &str| {
        let env = CompileEnv { conversions: Some(&conversions), ..CompileEnv::default() };
        let compilation = compile(&resources(text), &env);
        (said(&compilation), conversions.made())
    };
    let (first, made) = compiled(&text);
    assert_eq!(made, 1, "{first:#?}");
    assert_eq!(first.len(), 2, "each manifest has a finding about its pattern: {first:#?}");
    let edited = text.replace("version: '1'", "version: '2'");
    assert_eq!(compiled(&edited).1, 1);
    assert_eq!(compiled(&text.replace("include: [get", "include: ['g*'")).1, 2, "the selection counts");
    assert_eq!(compiled(&text.replace("/pets", "/cats")).1, 3, "the document counts");
    assert_eq!(compiled(&text), (first, 3));
}

#[test]
fn findings_of_a_remembered_conversion_name_the_document_at_hand() {
    let conversions = Conversions::default();
    let broken = API.replace("operationId: get", "operationId: get, parameters: [{in: nowhere, name: a}]");
    for name in ["first", "second"] {
        let indented =
            broken.lines().fold("data:\n  api.yaml: |\n".to_owned(), |text, line| format!("{text}    {line}\n"));
        let text = format!("{MANIFEST}{}", config_map(&indented)).replace("name: api", &format!("name: {name}"));
        let env = CompileEnv { conversions: Some(&conversions), ..CompileEnv::default() };
        let said = said(&compile(&resources(&text), &env));
        assert!(
            said.iter().all(|line| line.starts_with(&format!("ConfigMap default/{name}[api.yaml]:4:"))),
            "{said:#?}"
        );
        assert!(!said.is_empty());
    }
    assert_eq!(conversions.made(), 1);
}

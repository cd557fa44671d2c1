//! Methods become tools.

use serde_json::{Value, json};

use super::super::DocumentAt;
use super::{Conversion, ProtoFile, Selection, Source, Text, convert, examine_grpc};
use crate::yaml::{Node, Position};

const PROTO: &str = r#"syntax = "proto3";
package a.v1;

import "google/protobuf/timestamp.proto";
import "google/api/annotations.proto";

// Keeps things.
service Things {
  // Gets a thing.
  //
  // By its id.
  rpc Get(GetRequest) returns (Thing) { option (google.api.http) = { get: "/v1/things/{id}" }; }
  rpc Delete(GetRequest) returns (Thing) { option (google.api.http) = { delete: "/v1/things/{id}" }; }
  rpc Put(Thing) returns (Thing) { option idempotency_level = IDEMPOTENT; }
  rpc List(ListRequest) returns (stream Thing) { option deprecated = true; }
  rpc Upload(stream Thing) returns (Thing);
  rpc At(google.protobuf.Timestamp) returns (Thing);
}

message GetRequest {
  string id = 1; // The id.
  int64 revision = 2;
}

message ListRequest {
  oneof by {
    string name = 1;
    Color color = 2;
  }
  string hidden = 3 [json_name = "_hidden"];
}

message Thing {
  message Part { uint32 number = 1; }
  repeated Part parts = 1;
  map<string, Thing> more = 2;
  google.protobuf.Timestamp made = 3;
  Color color = 4;
  bytes picture = 5;
}

enum Color { NONE = 0; RED = 1; }
message Unused { string x = 1; }
"#;

const ANNOTATIONS: &str = r#"syntax = "proto3";
package google.api;
import "google/protobuf/descriptor.proto";
extend google.protobuf.MethodOptions { HttpRule http = 72295728; }
message HttpRule {
  oneof pattern { string get = 2; string put = 3; string post = 4; string delete = 5; }
  string body = 7;
}
"#;

fn nodes(texts: &[(&'static str, &str)]) -> Vec<(&'static str, std::sync::Arc<str>, Node)> {
    texts.iter().map(|(name, text)| (*name, (*name).into(), Node::text(Position::START, *text))).collect()
}

fn converted(texts: &[(&'static str, &str)], selection: Selection<'_>) -> Conversion {
    let nodes = nodes(texts);
    let all: Vec<Text<'_>> = nodes
        .iter()
        .map(|(name, file, node)| Text {
            name: (*name).to_owned(),
            path: name,
            document: DocumentAt { file, field: "", node },
            is_key: false,
        })
        .collect();
    convert(Source::Texts { roots: vec![all[0].clone()], all }, selection)
}

fn both() -> [(&'static str, &'static str); 2] {
    [("a.proto", PROTO), ("google/api/annotations.proto", ANNOTATIONS)]
}

fn schema(conversion: &Conversion, tool: &str) -> Value {
    serde_json::from_str(conversion.tools[tool].tool.input_schema.as_str()).expect("JSON")
}

#[test]
fn methods_become_tools() {
    let conversion = converted(&both(), Selection::default());
    let names: Vec<&str> = conversion.tools.keys().map(String::as_str).collect();
    assert_eq!(names, ["Things_Get", "Things_Delete", "Things_Put", "Things_List"]);
    let left: Vec<(&str, &str)> = conversion.left_out.iter().map(|left| (&*left.operation, &*left.reason)).collect();
    assert_eq!(
        left,
        [
            ("a.v1.Things/Upload", "takes a stream of messages, which a call cannot send"),
            (
                "a.v1.Things/At",
                "takes a `google.protobuf.Timestamp`, whose JSON has no members that could be arguments"
            ),
        ]
    );
    let tool = |name: &str| &conversion.tools[name].tool;
    assert_eq!(tool("Things_Get").description.as_deref(), Some("Gets a thing.\n\nBy its id."));
    assert_eq!(tool("Things_List").description.as_deref(), Some("Deprecated. a.v1.Things/List"));
    let risks = ["Things_Get", "Things_Delete", "Things_Put", "Things_List"].map(|name| {
        let risk = tool(name).risk;
        (risk.mutating, risk.destructive, risk.idempotent)
    });
    assert_eq!(risks, [(false, false, true), (true, true, true), (true, false, true), (true, false, false)]);
    assert_eq!(
        conversion.tools["Things_List"].omitted,
        ["field `hidden`, since names that begin with `_` are reserved"]
    );
    assert_eq!(
        schema(&conversion, "Things_Get"),
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "id": {"type": "string", "description": "The id."},
                "revision": {
                    "type": ["integer", "string"], "pattern": "^-?[0-9]{1,19}$",
                    "minimum": i64::MIN, "maximum": i64::MAX,
                },
            },
        })
    );
    let list = schema(&conversion, "Things_List");
    assert_eq!(list["properties"]["color"]["enum"], json!(["NONE", "RED"]));
    assert_eq!(list["properties"]["name"]["description"], "At most one of `name`, `color` may be set.");
    let put = schema(&conversion, "Things_Put");
    assert_eq!(put["properties"]["more"]["additionalProperties"], json!({"$ref": "#/$defs/Thing"}));
    assert_eq!(put["$defs"]["Thing"]["properties"]["parts"]["items"], json!({"$ref": "#/$defs/Part"}));
    assert_eq!(put["properties"]["made"]["format"], "date-time");
}

#[test]
fn patterns_choose_methods() {
    for (include, exclude, expected) in [
        (Some(vec!["Get"]), vec![], vec!["Things_Get"]),
        (Some(vec!["Things/*"]), vec!["Upload", "At", "Put", "List"], vec!["Things_Get", "Things_Delete"]),
        (Some(vec!["a.v1.Things/Put"]), vec![], vec!["Things_Put"]),
        (Some(vec!["nothing"]), vec![], vec![]),
    ] {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (included, excluded) = (include.as_deref().map(owned), owned(&exclude));
        let conversion = converted(&both(), Selection { include: included.as_deref(), exclude: &excluded });
        let names: Vec<&str> = conversion.tools.keys().map(String::as_str).collect();
        assert_eq!(names, expected, "{include:?}");
        assert_eq!(conversion.unselected + names.len(), 6, "{include:?}");
    }
}

#[test]
fn mistakes_are_reported_where_they_are() {
    let said = |texts: &[(&'static str, &str)]| {
        let conversion = converted(texts, Selection::default());
        conversion.findings.first().map(ToString::to_string).unwrap_or_default()
    };
    let with = |line: &str| format!("syntax = \"proto3\";\n{line}\n");
    for (line, expected) in [
        ("message A { strng x = 1; }", "a.proto:2:13: error: "),
        ("message A { string x = 0; }", "a.proto:2:"),
        ("message A {", "a.proto:"),
        ("  import \"b.proto\";", "a.proto:2:3: error: imports `b.proto`, which is not there; save it below"),
        ("import \"a.proto\";", "a.proto:2:1: error: `a.proto` leads back to itself: a.proto; remove"),
    ] {
        let text = with(line);
        let found = said(&[("a.proto", &text)]);
        assert!(found.starts_with(expected), "{line}: {found}");
    }
    let inner = said(&[("a.proto", &with("import \"b.proto\";")), ("b.proto", &with("message B { C c = 1; }"))]);
    assert!(inner.starts_with("b.proto:2:13: error: "), "{inner}");
}

#[test]
fn what_is_too_much_is_refused() {
    let deep = format!("syntax = \"proto3\";\n{}{}", "message A { ".repeat(5_000), "}".repeat(5_000));
    let long = format!("syntax = \"proto3\";\n{}", "message A {}\n".repeat(400_000));
    for text in [deep, long] {
        let conversion = converted(&[("a.proto", &text)], Selection::default());
        assert!(conversion.findings.iter().any(crate::Diagnostic::is_error));
    }
    // A schema that would double at each level stays a reference.
    let wide: String = (0..200).map(|n| format!("message M{n} {{ M{m} a = 1; M{m} b = 2; }}\n", m = n + 1)).collect();
    let wide = format!(
        "syntax = \"proto3\";\nservice S {{ rpc Go(M0) returns (M0); }}\n{wide}message M200 {{ string x = 1; }}\n"
    );
    let conversion = converted(&[("a.proto", &wide)], Selection::default());
    assert_eq!(conversion.tools.len(), 1);
    let many: String =
        (0..9_000).map(|n| format!("  string a_rather_long_name_of_a_field_{n} = {};\n", n + 1)).collect();
    let many = format!("syntax = \"proto3\";\nservice S {{ rpc Go(M) returns (M); }}\nmessage M {{\n{many}}}\n");
    let conversion = converted(&[("a.proto", &many)], Selection::default());
    assert_eq!(conversion.left_out[0].reason, "has a schema of more than 256 KiB");
}

#[test]
fn a_pruned_document_becomes_the_same_tools() {
    let file = |path: &str, text: &str| ProtoFile {
        path: path.to_owned(),
        file: path.to_owned(),
        bytes: text.as_bytes().to_vec(),
    };
    let files: Vec<ProtoFile> = both().iter().map(|(path, text)| file(path, text)).collect();
    let report = examine_grpc(&files, Some(&["Get".to_owned(), "List".to_owned(), "Put".to_owned()]));
    assert_eq!(report.api.findings, []);
    assert_eq!(report.roots, ["a.proto"]);
    let [text] = &report.texts[..] else { panic!("{:?}", report.texts) };
    for gone in ["Unused", "Upload", "google/api", "Delete"] {
        assert!(!text.text.contains(gone), "{gone}: {}", text.text);
    }
    let again = examine_grpc(&[file("a.proto", &text.text)], None);
    assert_eq!(again.api.findings, []);
    assert_eq!((&again.api.tools, &again.texts), (&report.api.tools, &report.texts), "{}", text.text);
}

/// Files are written under the names that a descriptor set gives them, and the set may be of a server.
#[test]
fn no_name_of_a_file_leads_out_of_the_folder() {
    let report = |name: &str| {
        let text = "syntax = \"proto3\"; package p; service S { rpc Get(M) returns (M); } message M { string a = 1; }";
        let mut file = protox_parse::parse("a.proto", text).expect("is valid");
        file.name = Some(name.to_owned());
        let set = prost_types::FileDescriptorSet { file: vec![file] };
        let bytes = prost::Message::encode_to_vec(&set);
        examine_grpc(&[ProtoFile { path: "a.binpb".to_owned(), file: "a.binpb".to_owned(), bytes }], None)
    };
    for name in ["a.proto", "a/b-c_d/e.proto"] {
        let report = report(name);
        assert_eq!((report.api.findings, report.texts.len()), (Vec::new(), 1), "{name}");
    }
    for name in [
        "../a.proto",
        "/etc/a.proto",
        "a/../../b.proto",
        "a//b.proto",
        ".hidden/a.proto",
        "a",
        "a.yaml",
        "a\\b.proto",
        "c:a.proto",
        "a\"b.proto",
        "a\nb.proto",
        "a b.proto",
    ] {
        let report = report(name);
        assert!(report.texts.is_empty(), "{name}");
        let said: Vec<String> = report.api.findings.iter().map(ToString::to_string).collect();
        assert!(said[0].contains("which is no path of a .proto file"), "{name}: {said:?}");
    }
}

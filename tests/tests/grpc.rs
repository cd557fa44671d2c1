//! `tamis serve` with a gRPC server: one made with tonic, and etcd.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::grpc::{GrpcServer, Reply};
use tamis_tests::{Era, Gateway, Rpc};
use tonic::{Code, Status};

const PROTO: &str = r#"syntax = "proto3";
package shop.v1;

import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

// Sells things.
service Shop {
  // Gets an item
  // by its id.
  rpc Get(GetRequest) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
  }
  rpc Put(Item) returns (Item);
  rpc List(GetRequest) returns (stream Item);
  rpc Upload(stream Item) returns (Item);
}

message GetRequest {
  // The item's id.
  string id = 1;
  int64 revision = 2;
}

enum Color {
  COLOR_UNSPECIFIED = 0;
  RED = 1;
}

message Item {
  string id = 1;
  int32 stock = 2;
  uint64 serial_number = 3;
  Color color = 4;
  bytes picture = 5;
  google.protobuf.Timestamp made = 6;
  google.protobuf.Duration lasts = 7;
  map<string, int32> sizes = 8;
  repeated string tags = 9;
  google.protobuf.Struct more = 10;
  google.protobuf.Int32Value rating = 11;
  google.protobuf.Any extra = 12;
  oneof price {
    double amount = 13;
    string on_request = 14;
  }
  Item part_of = 15;
  optional int32 discount = 16;
  bool gone = 17;
}
"#;

const MANIFEST: &str = r#"apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: shop}
spec:
  version: '1'
  grpc:
    endpoint: ENDPOINT
    inline:
      shop.proto: |
PROTO
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: open}
spec: {service: {name: shop, version: '1'}, filters: []}
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: closed}
spec:
  name: closed
  service: {name: shop, version: '1'}
  enforcement: Enforced
  filters: {Shop_Get: {root: '', select: {id: id, stock: stock, serial: serialNumber}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: closed}
spec: {service: {name: shop, version: '1'}, filters: [closed], tools: {include: [Shop_Get]}}
"#;

fn answer(method: &str, request: &Value) -> Reply {
    match (method, request["id"].as_str()) {
        (_, Some("none")) => Reply::failed(Status::new(Code::NotFound, "no such item")),
        ("Put", _) => Reply::of(request.clone()),
        ("List", _) => Reply { messages: vec![json!({"id": "1"}), json!({"id": "2"})], status: Ok(()), ends: true },
        (_, id) => Reply::of(json!({"id": id, "serialNumber": "18446744073709551615", "sizes": {"b": 1, "a": 2}})),
    }
}

async fn start() -> Result<(GrpcServer, Folder, Gateway)> {
    let server = GrpcServer::start(PROTO, answer).await?;
    let folder = Folder::new()?;
    let indented: String = PROTO.lines().map(|line| format!("        {line}\n")).collect();
    let manifest = MANIFEST.replace("ENDPOINT", &server.endpoint()).replace("PROTO\n", &indented);
    folder.write("shop.yaml", &manifest)?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok((server, folder, gateway))
}

fn rpc(gateway: &Gateway, exposition: &str) -> Result<Rpc> {
    Rpc::new(&format!("{}/mcp/default/{exposition}", gateway.url), Era::Modern)
}

async fn list(rpc: &Rpc) -> Result<Vec<Value>> {
    let answer = rpc.send(rpc.request("tools/list", json!({}))).await?.message()?;
    answer["result"]["tools"].as_array().cloned().context("a list")
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_are_tools() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let (open, closed) = (rpc(&gateway, "open")?, rpc(&gateway, "closed")?);
    let tools = list(&open).await?;
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["Shop_Get", "Shop_Put", "Shop_List"]);
    assert_eq!(tools[0]["description"], "Gets an item by its id.");
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], false);
    assert_eq!(tools[0]["inputSchema"]["properties"]["id"]["description"], "The item's id.");
    assert_eq!(tools[0]["outputSchema"]["properties"]["stock"]["type"], "integer");

    let text = open.call("Shop_Get", &json!({"id": "7", "revision": 3})).await?.text_block()?;
    let expected = r#"{"id":"7","stock":0,"serialNumber":"18446744073709551615","color":"COLOR_UNSPECIFIED","picture":"","sizes":{"a":2,"b":1},"tags":[],"gone":false}"#;
    assert_eq!(text, expected);
    let seen = server.seen();
    let last = seen.last().context("a request")?;
    assert_eq!((last.path.as_str(), &last.message), ("/shop.v1.Shop/Get", &json!({"id": "7", "revision": "3"})));
    assert_eq!(last.metadata.get("te").and_then(|value| value.to_str().ok()), Some("trailers"));

    let text = closed.call("Shop_Get", &json!({"id": "7"})).await?.text_block()?;
    assert_eq!(text, r#"{"id":"7","stock":0,"serial":"18446744073709551615"}"#);
    let text = open.call("Shop_List", &json!({})).await?.text_block()?;
    assert!(text.starts_with(r#"[{"id":"1","stock":0"#), "{text}");

    let answer = open.call("Shop_Get", &json!({"id": "none"})).await?.message()?;
    assert_eq!(answer["result"]["isError"], true);
    assert!(answer.to_string().contains("no such item"), "{answer}");
    let answer = closed.call("Shop_Get", &json!({"id": "none"})).await?.message()?;
    assert_eq!(answer["result"]["isError"], true);
    assert!(!answer.to_string().contains("no such item"), "{answer}");
    Ok(())
}

//! `tamis serve` with a gRPC server: one made with tonic, and etcd.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::Etcd;
use tamis_tests::documents::{Folder, copy_folder, open_and_closed};
use tamis_tests::grpc::{GrpcServer, Reply};
use tamis_tests::{Gateway, Options, root};
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
    auth: {type: bearer, secretRef: {name: shop, key: token}}
    overrides:
      Shop_Get:
        retry: {maxAttempts: 3, backoffMs: 1}
        errorMapping: {"403": Ask the shop for permission}
    inline:
      shop.proto: |
PROTO
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: few}
spec:
  name: few
  service: {name: shop, version: '1'}
  filters: {Shop_List: {select: {id: id}, maxItems: 2}}
---
apiVersion: tamis.dev/v1alpha1
kind: ConfigurationPlan
metadata: {name: tenant}
spec: {headers: {set: {X-Tenant: blue}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: few}
spec:
  service: {name: shop, version: '1'}
  filters: [few]
  tools: {include: [Shop_List]}
  configurationPlan: {name: tenant}
  limits: {timeout: 3s}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: small}
spec: {service: {name: shop, version: '1'}, filters: [], limits: {timeout: 3s, maxResponseBytes: 2000}}
"#;

/// How often a call of `busy` has failed.
static BUSY: AtomicUsize = AtomicUsize::new(0);

fn answer(method: &str, request: &Value) -> Reply {
    let items = |ids: &[&str]| ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>();
    match (method, request["id"].as_str()) {
        (_, Some("none")) => Reply::failed(Status::new(Code::NotFound, "no such item \u{e4}\n")),
        (_, Some("mine")) => Reply::failed(Status::new(Code::PermissionDenied, "not yours")),
        (_, Some("busy")) if BUSY.fetch_add(1, Ordering::Relaxed) < 2 => Reply::failed(Status::unavailable("later")),
        ("Put", _) => Reply::of(request.clone()),
        ("List", Some("endless")) => Reply { messages: items(&["1", "2", "3"]), status: Ok(()), ends: false },
        ("List", Some("broken")) => Reply { messages: items(&["1"]), status: Err(Status::internal("x")), ends: true },
        ("List", Some("long")) => Reply { messages: items(&["1"; 100]), status: Ok(()), ends: true },
        ("List", _) => Reply { messages: items(&["1", "2"]), status: Ok(()), ends: true },
        (_, Some("large")) => Reply::of(json!({"id": "a".repeat(3_000)})),
        (_, Some("secret")) => Reply::of(json!({"picture": "dDBrZW4tOWMxZA=="})),
        (_, id) => Reply::of(json!({"id": id, "serialNumber": "18446744073709551615", "sizes": {"b": 1, "a": 2}})),
    }
}

async fn start() -> Result<(GrpcServer, Folder, Gateway)> {
    let server = GrpcServer::start(PROTO, answer).await?;
    let folder = Folder::new()?;
    let indented: String = PROTO.lines().map(|line| format!("        {line}\n")).collect();
    let manifest = MANIFEST.replace("ENDPOINT", &server.endpoint()).replace("PROTO\n", &indented);
    folder.write("shop.yaml", &manifest)?;
    let select = "id: id, stock: stock, serial: serialNumber";
    folder.write("expositions.yaml", &open_and_closed("shop", "1", "Shop_Get", select))?;
    let environment = vec![("TAMIS_SECRET_SHOP_TOKEN".to_owned(), "t0ken-9c1d".to_owned())];
    let gateway = Gateway::with(folder.path(), &Options { environment, ..Options::default() }).await?;
    Ok((server, folder, gateway))
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_are_tools() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let (open, closed) = (gateway.rpc("open")?, gateway.rpc("closed")?);
    let tools = open.tools().await?;
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
    let metadata = |name: &str| last.metadata.get(name).and_then(|value| value.to_str().ok());
    assert_eq!((metadata("te"), metadata("authorization")), (Some("trailers"), Some("Bearer t0ken-9c1d")));
    let timeout = metadata("grpc-timeout").and_then(|text| text.strip_suffix('m')).context("milliseconds")?;
    assert!((1..=30_000).contains(&timeout.parse::<u32>()?), "{timeout}");

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

#[tokio::test(flavor = "multi_thread")]
async fn statuses_are_errors() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let (open, closed) = (gateway.rpc("open")?, gateway.rpc("closed")?);
    let error = |answer: Value| answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let said = error(open.call("Shop_Get", &json!({"id": "none"})).await?.message()?);
    assert_eq!(said, "The upstream answered 404.\n{\"code\":\"NOT_FOUND\",\"message\":\"no such item \u{e4}\\n\"}");
    let said = error(closed.call("Shop_Get", &json!({"id": "mine"})).await?.message()?);
    assert_eq!(said, "The upstream answered 403: Ask the shop for permission");
    // A status that is worth another attempt.
    let text = open.call("Shop_Get", &json!({"id": "busy"})).await?.text_block()?;
    assert!(text.starts_with("{\"id\":\"busy\""), "{text}");
    assert_eq!(server.seen().iter().filter(|seen| seen.message["id"] == "busy").count(), 3);
    // The credential that the call was sent with, in a field of bytes.
    let said = error(open.call("Shop_Get", &json!({"id": "secret"})).await?.message()?);
    assert_eq!(said, "The upstream's answer was withheld: it contains a credential.");
    let small = gateway.rpc("small")?;
    for (tool, id) in [("Shop_Get", "large"), ("Shop_List", "long")] {
        let said = error(small.call(tool, &json!({"id": id})).await?.message()?);
        assert!(said.starts_with("The upstream's answer is larger than 2000 bytes."), "{id}: {said}");
    }
    let said = error(open.call("Shop_List", &json!({"id": "broken"})).await?.message()?);
    assert!(said.starts_with("The upstream answered 500."), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_stream_stops() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let few = gateway.rpc("few")?;
    let begun = Instant::now();
    let answer = few.call("Shop_List", &json!({"id": "endless"})).await?;
    assert_eq!(answer.text_block()?, r#"[{"id":"1"},{"id":"2"}]"#);
    let said = &answer.message()?["result"]["content"][1]["text"];
    assert_eq!(said, "The stream was read up to `maxItems` of the filter, and may hold more.");
    assert!(begun.elapsed() < Duration::from_secs(2), "at `maxItems`, not at the deadline: {:?}", begun.elapsed());
    let seen = server.seen();
    let tenant = seen.last().and_then(|seen| seen.metadata.get("x-tenant")).context("a header of the plan")?;
    assert_eq!(tenant, "blue");
    // Without a filter, the deadline ends it, and what has come is the answer.
    let small = gateway.rpc("small")?;
    let text = small.call("Shop_List", &json!({"id": "endless"})).await?.text_block()?;
    let items: Vec<Value> = serde_json::from_str(&text)?;
    assert_eq!(items.iter().filter_map(|item| item["id"].as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    Ok(())
}

/// Whatever an argument holds, host, path and metadata stay, and the value arrives as it was sent.
#[tokio::test(flavor = "multi_thread")]
async fn no_argument_leaves_its_field() -> Result<()> {
    let (server, _folder, gateway) = start().await?;
    let open = gateway.rpc("open")?;
    let names = |seen: &tamis_tests::grpc::Seen| {
        let mut names: Vec<String> = seen.metadata.clone().into_headers().keys().map(ToString::to_string).collect();
        names.sort();
        names
    };
    open.call("Shop_Get", &json!({"id": "a"})).await?;
    let first = names(server.seen().last().context("a request")?);
    let values = [
        "../../admin.Admin/Drop",
        "/shop.v1.Shop/Put",
        "a\r\nauthorization: Bearer stolen",
        "grpc-timeout: 1n",
        "\u{0}\u{7f}\u{2028}\u{1f600}",
        "{id}",
        "${SHOP_TOKEN}",
        "\",\"revision\":\"1\",\"x\":\"",
        "\\u0022\\\"",
        "%0d%0ahost: evil.example",
        "http://evil.example/",
        "",
    ];
    for value in values {
        open.call("Shop_Get", &json!({"id": value, "revision": "-9223372036854775808"})).await?;
        let seen = server.seen();
        let last = seen.last().context("a request")?;
        assert_eq!(last.path, "/shop.v1.Shop/Get", "{value:?}");
        assert_eq!(names(last), first, "{value:?}");
        assert_eq!(last.metadata.get("authorization").context("a credential")?, "Bearer t0ken-9c1d", "{value:?}");
        let mut expected = json!({"id": value, "revision": "-9223372036854775808"});
        if value.is_empty() {
            expected = json!({"revision": "-9223372036854775808"});
        }
        assert_eq!(last.message, expected, "{value:?}");
    }
    let before = server.seen().len();
    for (arguments, named) in [
        (json!({"id": 1}), "id"),
        (json!({"id": null}), "id"),
        (json!({"revision": 1.5}), "revision"),
        (json!({"revision": "one"}), "revision"),
        (json!({"revision": 9_223_372_036_854_775_808_u64}), "revision"),
        (json!({"revision": "9223372036854775808"}), "revision"),
        (json!({"id": "a", "serial_number": 1}), "serial_number"),
    ] {
        let answer = open.call("Shop_Get", &arguments).await?.message()?;
        assert!(answer["result"]["isError"] == true && answer.to_string().contains(named), "{arguments}: {answer}");
    }
    for (arguments, named) in [
        (json!({"color": "GREEN"}), "color"),
        (json!({"made": "yesterday"}), "made"),
        (json!({"picture": "not base64"}), "picture"),
        (json!({"sizes": {"a": "x"}}), "sizes"),
        (json!({"tags": [1]}), "tags"),
        (json!({"amount": 1, "onRequest": "yes"}), "onRequest"),
        (json!({"partOf": {"partOf": {"stock": 2_147_483_648_u64}}}), "stock"),
        (json!({"partOf": {"nothing": 1}}), "nothing"),
    ] {
        let answer = open.call("Shop_Put", &arguments).await?.message()?;
        assert!(answer["result"]["isError"] == true && answer.to_string().contains(named), "{arguments}: {answer}");
    }
    assert_eq!(server.seen().len(), before, "nothing was sent");
    let whole = json!({
        "id": "1", "color": "RED", "picture": "AAEC", "made": "2025-01-02T03:04:05.500Z", "lasts": "1.500s",
        "sizes": {"a": 1}, "tags": ["x"], "more": {"k": [1, null]}, "rating": 0, "amount": 1.5, "discount": 0,
        "extra": {"@type": "type.googleapis.com/shop.v1.GetRequest", "id": "9"},
        "partOf": {"id": "2"}, "serialNumber": 7,
    });
    let text = open.call("Shop_Put", &whole).await?.text_block()?;
    let got: Value = serde_json::from_str(&text)?;
    for name in ["id", "color", "picture", "made", "lasts", "sizes", "tags", "rating", "amount", "discount"] {
        assert_eq!(got[name], whole[name], "{name}: {text}");
    }
    assert_eq!((&got["serialNumber"], &got["partOf"]["stock"]), (&json!("7"), &json!(0)));
    assert_eq!(got["extra"], json!({"@type": "type.googleapis.com/shop.v1.GetRequest", "id": "9", "revision": "0"}));
    Ok(())
}

/// `examples/grpc`, with an etcd of the test.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_publishes_etcd_twice() -> Result<()> {
    let data = tempfile::tempdir()?;
    let etcd = Etcd::run(data.path()).await?;
    let folder = Folder::new()?;
    let here = |text: &str| text.replace("http://127.0.0.1:2379", &etcd.address());
    copy_folder(&root().join("examples/grpc"), folder.path(), &here)?;
    let gateway = Gateway::start(folder.path()).await?;
    let (internal, partner) = (gateway.rpc("etcd-internal")?, gateway.rpc("etcd-partner")?);
    // `/services/a` and `up`.
    let put = json!({"key": "L3NlcnZpY2VzL2E=", "value": "dXA="});
    let text = internal.call("KV_Put", &put).await?.text_block()?;
    assert!(text.starts_with("{\"revision\":\""), "{text}");
    let range = json!({"key": "L3NlcnZpY2VzLw==", "rangeEnd": "L3NlcnZpY2VzMA=="});
    let text = internal.call("KV_Range", &range).await?.text_block()?;
    assert_eq!(text, r#"{"keys":["L3NlcnZpY2VzL2E="],"values":["dXA="],"count":"1"}"#);
    let text = partner.call("KV_Range", &range).await?.text_block()?;
    assert_eq!(text, r#"{"kvs":[{"key":"L3NlcnZpY2VzL2E=","version":"1"}]}"#);
    // A zero that the server does not send.
    let text = internal.call("Maintenance_Status", &json!({})).await?.text_block()?;
    let status: Value = serde_json::from_str(&text)?;
    assert_eq!((&status["learner"], &status["errors"]), (&json!(false), &json!([])), "{text}");
    // A file that is saved changes the tools; one with a mistake does not.
    let file = "etcd/api/etcdserverpb/rpc.proto";
    let file = folder.path().join(file);
    let proto = std::fs::read_to_string(&file)?;
    std::fs::write(&file, proto.replace("message RangeRequest", "message RangeRequst"))?;
    std::fs::write(&file, proto.replace("rpc Put(", "rpc Store("))?;
    let begun = Instant::now();
    while !internal.tools().await?.iter().any(|tool| tool["name"] == "KV_Store") {
        ensure!(begun.elapsed() < Duration::from_secs(20), "the tool is not renamed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

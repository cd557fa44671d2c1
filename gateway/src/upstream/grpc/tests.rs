//! Messages to JSON and back, compared with prost-reflect, and what a server may send to exhaust the gateway.

use std::sync::LazyLock;

use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use super::json::{NotWritten, write};
use super::request;
use super::types::Types;
use crate::upstream::{Arguments, UpstreamError};

/// The well-known types, and those of [`PROTO`].
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::global();
    let file = protox_parse::parse("t.proto", PROTO).expect("is a .proto text");
    pool.add_file_descriptor_proto(file).expect("is valid");
    pool
});
static TYPES: LazyLock<Types> = LazyLock::new(|| Types::new(&POOL));

const PROTO: &str = r#"syntax = "proto3";
package t;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum E { ZERO = 0; ONE = 1; MINUS = -1; }
message M {
  double double = 1; float float = 2; int32 int32 = 3; int64 int64 = 4; uint32 uint32 = 5; uint64 uint64 = 6;
  sint32 sint32 = 7; sint64 sint64 = 8; fixed32 fixed32 = 9; fixed64 fixed64 = 10; sfixed32 sfixed32 = 11;
  sfixed64 sfixed64 = 12; bool bool = 13; string string = 14; bytes bytes = 15; E e = 16;
  repeated int32 ints = 17; repeated int32 spread = 18 [packed = false]; repeated double doubles = 19; repeated string strings = 20;
  repeated M messages = 21; repeated E es = 22; repeated bool bools = 23; repeated sfixed64 fixeds = 24;
  map<string, int32> by_name = 25; map<int64, M> by_number = 26; map<bool, string> by_bool = 27; map<uint32, E> by_id = 28;
  M message = 29; optional int32 maybe = 30;
  oneof one { string a = 31; int32 b = 32; M c = 33; google.protobuf.NullValue nothing = 34; }
  google.protobuf.Timestamp timestamp = 35; google.protobuf.Duration duration = 36; google.protobuf.FieldMask mask = 37;
  google.protobuf.Struct struct = 38; google.protobuf.Value value = 39; google.protobuf.ListValue list = 40;
  google.protobuf.Int64Value int64_value = 41; google.protobuf.StringValue string_value = 42; google.protobuf.BytesValue bytes_value = 43;
  google.protobuf.DoubleValue double_value = 44; google.protobuf.Any any = 45;
  google.protobuf.BoolValue bool_value = 46 [json_name = "-odd \" name"];
}
"#;

fn json(name: &str, bytes: &[u8]) -> Result<String, NotWritten> {
    let types = &*TYPES;
    let mut out = Vec::new();
    write(types, types.number(name).expect("a type"), bytes, &mut out, 1 << 20)?;
    Ok(String::from_utf8(out).expect("UTF-8"))
}

/// The bytes of a message that is written in JSON.
fn message(json: &str) -> Vec<u8> {
    let m = POOL.get_message_by_name("t.M").expect("is there");
    let mut reader = serde_json::Deserializer::from_str(json);
    DynamicMessage::deserialize(m, &mut reader).expect("is a message").encode_to_vec()
}

/// The members of the JSON of a message that are not defaults of an empty one.
fn set(json: &str) -> String {
    let written: Value = serde_json::from_str(&self::json("t.M", &message(json)).expect("is written")).expect("JSON");
    let empty: Value = serde_json::from_str(&self::json("t.M", &[]).expect("is written")).expect("JSON");
    let Value::Object(mut members) = written else { return String::new() };
    members.retain(|name, value| empty.get(name) != Some(&*value));
    Value::Object(members).to_string()
}

#[test]
fn defaults_are_written() {
    let expected = concat!(
        r#"{"double":0.0,"float":0.0,"int32":0,"int64":"0","uint32":0,"uint64":"0","sint32":0,"sint64":"0","#,
        r#""fixed32":0,"fixed64":"0","sfixed32":0,"sfixed64":"0","bool":false,"string":"","bytes":"","e":"ZERO","#,
        r#""ints":[],"spread":[],"doubles":[],"strings":[],"messages":[],"es":[],"bools":[],"fixeds":[],"#,
        r#""byName":{},"byNumber":{},"byBool":{},"byId":{}}"#
    );
    assert_eq!(json("t.M", &[]).expect("is written"), expected);
}

#[test]
fn values_are_those_of_canonical_json() {
    for text in [
        r#"{"double":1.5,"float":0.10000000149011612,"int32":-2147483648,"int64":"-9223372036854775808"}"#,
        r#"{"uint64":"18446744073709551615","sint32":-1,"sint64":"-9223372036854775808","sfixed64":"-1"}"#,
        r#"{"double":"NaN","float":"-Infinity","doubles":[1e300,"Infinity",-0.0]}"#,
        r#"{"string":"a\"\\\n\u0000é😀","bytes":"AAEC/w==","strings":["","a"]}"#,
        r#"{"e":"MINUS","es":["ONE","ZERO",7],"bools":[true,false]}"#,
        r#"{"ints":[1,-1],"spread":[0,2],"fixeds":["-1"]}"#,
        r#"{"byName":{"":0,"a":1,"b":2},"byBool":{"false":"x","true":""},"byId":{"7":"ONE"}}"#,
        r#"{"maybe":0}"#,
        r#"{"a":""}"#,
        r#"{"nothing":null}"#,
        r#"{"timestamp":"1970-01-01T00:00:00Z","duration":"0s"}"#,
        r#"{"timestamp":"0001-01-01T00:00:00Z","duration":"-1.500s"}"#,
        r#"{"timestamp":"9999-12-31T23:59:59.999999999Z","duration":"315576000000s"}"#,
        r#"{"timestamp":"2025-01-02T03:04:05.010Z","duration":"0.000001s"}"#,
        r#"{"mask":"a,bC.dE"}"#,
        r#"{"struct":{"a":[1.0,null,{"b":"c"}],"d":true}}"#,
        r#"{"value":null,"list":[[],{}]}"#,
        r#"{"value":"x"}"#,
        r#"{"int64Value":"0","stringValue":"","bytesValue":"","doubleValue":0.0,"-odd \" name":false}"#,
        r#"{"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}"#,
        r#"{"any":{"@type":"x/google.protobuf.Any","value":{"@type":"y/google.protobuf.StringValue","value":"s"}}}"#,
    ] {
        let (written, meant): (Value, Value) =
            (serde_json::from_str(&set(text)).expect("JSON"), serde_json::from_str(text).expect("JSON"));
        let (written, meant) = (written.to_string(), meant.to_string());
        // The only default of `0.0` in single precision has more digits.
        assert_eq!(written.replace("0.1,", "0.10000000149011612,"), meant, "{text}");
    }
}

#[test]
fn messages_of_other_descriptors() {
    let text = |bytes: &[u8]| {
        let written = json("t.M", bytes).expect("is written");
        let Value::Object(all) = serde_json::from_str(&written).expect("JSON") else { return String::new() };
        let empty: Value = serde_json::from_str(&json("t.M", &[]).expect("is written")).expect("JSON");
        Value::Object(all.into_iter().filter(|(name, value)| empty.get(name) != Some(value)).collect()).to_string()
    };
    let tag = |number: u32, wire: u32| {
        let mut tag = Vec::new();
        prost_reflect::prost::encoding::encode_varint(u64::from(number << 3 | wire), &mut tag);
        tag
    };
    // A field that is not known, in a group too, is left out. Of two values of one field, the last one counts.
    assert_eq!(
        text(
            &[
                tag(900, 0),
                vec![1],
                tag(901, 3),
                tag(1, 0),
                vec![1],
                tag(901, 4),
                tag(3, 0),
                vec![1],
                tag(3, 0),
                vec![2]
            ]
            .concat()
        ),
        r#"{"int32":2}"#
    );
    // Packed and not packed, whatever the descriptors say.
    assert_eq!(
        text(&[tag(17, 0), vec![1], tag(17, 2), vec![2, 2, 3], tag(18, 2), vec![1, 4]].concat()),
        r#"{"ints":[1,2,3],"spread":[4]}"#
    );
    // A message in two pieces is one.
    let pieces = [tag(29, 2), vec![2], tag(3, 0), vec![7], tag(29, 2), vec![2], tag(5, 0), vec![8]].concat();
    let merged: Value = serde_json::from_str(&text(&pieces)).expect("JSON");
    assert_eq!((&merged["message"]["int32"], &merged["message"]["uint32"]), (&Value::from(7), &Value::from(8)));
    // Of a oneof, the last field counts, and nothing from before it.
    let c = |value: u8| [tag(33, 2), vec![2], tag(3, 0), vec![value]].concat();
    let oneof = [c(1), tag(32, 0), vec![5]].concat();
    assert_eq!(text(&oneof), r#"{"b":5}"#);
    let oneof = [tag(33, 2), vec![2], tag(5, 0), vec![9], tag(32, 0), vec![5], c(1)].concat();
    let again: Value = serde_json::from_str(&text(&oneof)).expect("JSON");
    assert_eq!(
        (&again["c"]["int32"], &again["c"]["uint32"], &again["b"]),
        (&Value::from(1), &Value::from(0), &Value::Null)
    );
    // An `Any` of a type that is not known.
    let any = [vec![10, 3], b"x/y".to_vec(), vec![18, 2, 1, 2]].concat();
    let any = [tag(45, 2), vec![u8::try_from(any.len()).expect("short")], any].concat();
    assert_eq!(text(&any), r#"{"any":{"@type":"x/y","value":"AQI="}}"#);
    for bad in [
        &[0][..],
        &[7],
        &[8],
        &[8, 0x80],
        &[24, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[114, 5, 1],
        &[114, 1, 0xff],
        &[114, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[112, 1],
        &[11],
        &[11, 19, 20],
        &[12],
        &[0x9a, 2, 2, 16, 0x80],
    ] {
        assert!(matches!(json("t.M", bad), Err(NotWritten::Malformed(_))), "{bad:?}");
    }
}

/// A message in a message, and so on.
fn nested(levels: usize, number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..levels {
        let mut outer = Vec::new();
        prost_reflect::prost::encoding::encode_varint(u64::from(number << 3 | 2), &mut outer);
        prost_reflect::prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    bytes
}

#[test]
fn depth_is_bounded() {
    let too_deep = Err(NotWritten::Malformed("is nested too deeply"));
    assert!(json("t.M", &nested(50, 29)).is_ok());
    assert_eq!(json("t.M", &nested(20_000, 29)), too_deep);
    // In `Any` too, where the format sees only bytes.
    let mut any = Vec::new();
    for _ in 0..2_000 {
        let mut outer = b"\x0a\x14/google.protobuf.Any\x12".to_vec();
        prost_reflect::prost::encoding::encode_varint(any.len() as u64, &mut outer);
        outer.extend_from_slice(&any);
        any = outer;
    }
    assert_eq!(json("google.protobuf.Any", &any), too_deep);
}

#[test]
fn memory_is_bounded() {
    let types = &*TYPES;
    let m = types.number("t.M").expect("is there");
    let full = |bytes: &[u8], room: usize| write(types, m, bytes, &mut Vec::new(), room) == Err(NotWritten::Full);
    // Each of these records is two bytes, and each becomes a long object.
    let many: Vec<u8> = [0xaa, 1, 0].repeat(10_000);
    assert!(full(&many, 1 << 20));
    // These become short numbers, but their list is long.
    let numbers: Vec<u8> = [0x90, 1, 1].repeat(100_000);
    assert!(full(&numbers, 1 << 20));
    let long = message(&format!("{{\"string\":\"{}\"}}", "a".repeat(5_000)));
    assert!(full(&long, 4_000) && !full(&long, 64 << 10));
}

proptest! {
    /// Whatever the bytes are, there is an end without a panic; what prost-reflect reads gets the same JSON, if both can.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let own = json("t.M", &bytes);
        let m = POOL.get_message_by_name("t.M").expect("is there");
        let options = SerializeOptions::new().skip_default_fields(false);
        let Ok(decoded) = DynamicMessage::decode(m, bytes.as_slice()) else { return Ok(()) };
        let mut out = serde_json::Serializer::new(Vec::new());
        let (Ok(own), Ok(())) = (own, decoded.serialize_with_options(&mut out, &options)) else { return Ok(()) };
        let own: Value = serde_json::from_str(&own).expect("JSON");
        let other: Value = serde_json::from_slice(&out.into_inner()).expect("JSON");
        prop_assert_eq!(own, other);
    }

    /// Messages of all types, made of JSON.
    #[test]
    fn the_same_as_prost_reflect(
        (int, long, text, numbers, names) in (
            any::<i32>(), any::<i64>(), ".{0,8}",
            proptest::collection::vec(any::<i32>(), 0..4),
            proptest::collection::btree_map("[a-c]{0,2}", any::<i32>(), 0..4),
        )
    ) {
        let json_text = serde_json::json!({
            "int32": int, "int64": long.to_string(), "string": text, "ints": numbers, "byName": names,
            "message": {"sint32": int, "sint64": long.to_string(), "messages": [{}, {"a": text}]},
            "struct": {"k": [long as f64, text, null]},
        }).to_string();
        let bytes = message(&json_text);
        let m = POOL.get_message_by_name("t.M").expect("is there");
        let options = SerializeOptions::new().skip_default_fields(false);
        let mut out = serde_json::Serializer::new(Vec::new());
        let decoded = DynamicMessage::decode(m, bytes.as_slice()).expect("is valid");
        decoded.serialize_with_options(&mut out, &options).expect("is JSON");
        let other: Value = serde_json::from_slice(&out.into_inner()).expect("JSON");
        let own: Value = serde_json::from_str(&json("t.M", &bytes).expect("is written")).expect("JSON");
        prop_assert_eq!(own, other);
    }
}

#[test]
fn an_argument_that_is_no_value_is_named() {
    let m = POOL.get_message_by_name("t.M").expect("is there");
    let said = |json: &str| {
        let arguments: Arguments = serde_json::from_str(json).expect("arguments");
        match request::encode(&m, &arguments) {
            Err(UpstreamError::Argument { argument, reason }) => format!("{argument} {reason}"),
            other => format!("{other:?}"),
        }
    };
    for (arguments, expected) in [
        (
            r#"{"int32":1,"timestamp":"2025-13-01T00:00:00Z"}"#,
            "timestamp is not a time as in 2025-01-02T03:04:05Z, of the years 1 to 9999",
        ),
        (r#"{"duration":"400000000000s"}"#, "duration is not a duration as in 1.5s, of at most 315576000000 seconds"),
        (r#"{"bytes":"a"}"#, "bytes is not base64"),
        (r#"{"byNumber":{"x":{}}}"#, "byNumber is not a map of t.M"),
        (r#"{"any":{"@type":"x/nothing"}}"#, "any is not a message with the `@type` of one that the descriptors know"),
        (r#"{"a":"x","b":1}"#, "b cannot be combined with another argument, of which at most one may be set"),
        (r#"{"nonsense":1}"#, "nonsense is not a field of the method"),
    ] {
        assert_eq!(said(arguments), expected, "{arguments}");
    }
}

#[test]
fn statuses_become_json() {
    let types = &*TYPES;
    let read = |lines: &[(&'static str, &'static str)]| {
        let trailers: http::HeaderMap =
            lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        super::status::read(&trailers, types)
    };
    let body = |lines: &[(&'static str, &'static str)]| {
        let status = read(lines).expect("a status").expect_err("not OK");
        (status.http, String::from_utf8(status.body.to_vec()).expect("text"))
    };
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[("grpc-status", "0")]), Some(Ok(())));
    let table = [
        (
            &[("grpc-status", "5"), ("grpc-message", "no %22such%22 %C3%A4%0A")][..],
            404,
            "{\"code\":\"NOT_FOUND\",\"message\":\"no \\\"such\\\" ä\\n\"}",
        ),
        (&[("grpc-status", "14")], 503, r#"{"code":"UNAVAILABLE"}"#),
        (&[("grpc-status", "99"), ("grpc-message", "%zz")], 500, r#"{"code":"UNKNOWN","message":"%zz"}"#),
        (&[("grpc-status", "x")], 500, r#"{"code":"UNKNOWN"}"#),
        // A Duration of one second in an Any, and bytes that are no status.
        (
            &[("grpc-status", "3"), ("grpc-status-details-bin", "CAMaMQopeC9nb29nbGUucHJvdG9idWYuRHVyYXRpb24SAggB")],
            400,
            r#"{"code":"INVALID_ARGUMENT"}"#,
        ),
        (
            &[("grpc-status", "3"), ("grpc-status-details-bin", "GiIKGngvZ29vZ2xlLnByb3RvYnVmLkR1cmF0aW9uEgQIARAA")],
            400,
            r#"{"code":"INVALID_ARGUMENT","details":[{"@type":"x/google.protobuf.Duration","value":"1s"}]}"#,
        ),
    ];
    for (lines, http, expected) in table {
        assert_eq!(body(lines), (http, expected.to_owned()), "{lines:?}");
    }
    let pushed = |value| read(&[("grpc-status", "14"), ("grpc-retry-pushback-ms", value)]).unwrap().unwrap_err();
    assert_eq!(
        (pushed("250").retry_after, pushed("250").is_final),
        (Some(std::time::Duration::from_millis(250)), false)
    );
    assert!(pushed("-1").is_final);
}

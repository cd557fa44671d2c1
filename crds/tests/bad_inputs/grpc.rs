//! What is wrong with .proto texts and descriptor sets.

use super::{Case, yaml};

macro_rules! manifest {
    ($grpc:literal) => {
        concat!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: etcd}\nspec:\n  version: 1.0.0\n  grpc:\n",
            "    endpoint: https://etcd.example.com:2379\n",
            $grpc
        )
    };
}

/// A service of one method, in which `$method` and `$message` may be wrong.
macro_rules! service {
    ($method:literal, $message:literal) => {
        concat!(
            "    inline:\n      kv.proto: |\n        syntax = \"proto3\";\n        service KV {\n          ",
            $method,
            "\n        }\n        message Key { ",
            $message,
            " }\n"
        )
    };
}

const FILE: &[u8] = manifest!("    file: kv.proto\n").as_bytes();
const SET: &[u8] = manifest!("    file: kv.binpb\n").as_bytes();

pub(super) const GRPC: &[Case] = &[
    yaml("No .proto text", manifest!("    methods: {include: [Range]}\n")),
    yaml("A .proto text in a ConfigMap", manifest!("    configMapRef: {name: etcd, key: rpc.proto}\n")),
    yaml("A .proto file that is not there", manifest!("    file: rpc.proto\n")),
    yaml("Descriptors that the server would be asked for", manifest!("    reflection: true\n")),
    Case {
        title: "A .proto file without its import",
        file: "a.yaml",
        input: FILE,
        beside: Some((
            "kv.proto",
            b"syntax = \"proto3\";\nimport \"etcd/api/mvccpb/kv.proto\";\nmessage Key { mvccpb.KeyValue kv = 1; }\n",
        )),
    },
    Case {
        title: "A type that is not there",
        file: "a.yaml",
        input: FILE,
        beside: Some(("kv.proto", b"syntax = \"proto3\";\nmessage Key {\n  Kind kind = 1;\n}\n")),
    },
    Case {
        title: "A descriptor set that ends too early",
        file: "a.yaml",
        input: SET,
        beside: Some(("kv.binpb", b"\x0a\x30\x0a\x08kv.proto")),
    },
    yaml(
        "A mistake in an inline text",
        concat!(manifest!(""), service!("rpc Range(Key) returns (Key);", "strng key = 1;")),
    ),
    yaml(
        "An inline text without its import",
        manifest!("    inline:\n      kv.proto: |\n        import \"other.proto\";\n"),
    ),
    yaml(
        "An inline text that is not a block",
        manifest!("    inline: {kv.proto: 'syntax = \"proto3\"; message Key { Kind kind = 1; }'}\n"),
    ),
    yaml(
        "Imports that lead back",
        manifest!(
            "    inline:\n      a.proto: 'syntax = \"proto3\"; import \"b.proto\";'\n      b.proto: 'syntax = \"proto3\"; import \"a.proto\";'\n"
        ),
    ),
    yaml(
        "Messages that are nested too deeply",
        manifest!(
            "    inline:\n      a.proto: 'message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {message A {'\n"
        ),
    ),
    yaml(
        "A method that takes a stream",
        concat!(manifest!(""), service!("rpc Put(stream Key) returns (Key);", "string key = 1;")),
    ),
    yaml(
        "A method that does not exist",
        concat!(
            manifest!("    methods: {include: [KV/Rnge]}\n"),
            service!("rpc Range(Key) returns (Key);", "string key = 1;")
        ),
    ),
    yaml(
        "An endpoint with a path, and a credential in the query",
        concat!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: etcd}\nspec:\n  version: 1.0.0\n  grpc:\n",
            "    endpoint: https://etcd.example.com/v3\n    auth: {type: query, name: token, secretRef: {name: etcd, key: token}}\n",
            service!("rpc Range(Key) returns (Key);", "string key = 1;")
        ),
    ),
    yaml(
        "Pages and a part of a stream",
        concat!(
            manifest!("    overrides:\n      KV_Range: {pagination: {type: offset}, response: {extract: kvs}}\n"),
            service!("rpc Range(Key) returns (stream Key);", "string key = 1;")
        ),
    ),
];

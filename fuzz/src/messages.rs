//! A message of an MCP client, or a batch of messages. What the gateway accepts is JSON-RPC 2.0 for `serde_json` too,
//! with the method and the id that the gateway parses.

use serde_json::Value;
use tamis_gateway::fuzzing::{self, Message};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for message in fuzzing::messages(text) {
        let Message { text, method, id } = message;
        // The gateway keeps numbers beyond f64 and lone surrogates as they are written.
        let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
        assert_eq!(value["jsonrpc"], "2.0", "{text}");
        if let Some(method) = method {
            assert_eq!(value["method"], *method, "{text}");
        }
        if let Some(id) = id {
            assert_eq!(Some(&value["id"]), serde_json::from_str(id).ok().as_ref(), "{text}");
        }
    }
}

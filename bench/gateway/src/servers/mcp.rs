//! An MCP server with the upstream's answers: over standard input and output, for gateways that publish a program, and over
//! HTTP, as part of the upstream.

use std::collections::HashMap;
use std::io::{BufRead as _, Write as _};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::payload::payload;

/// Answers messages until standard input ends. The tool `items-KB` returns a JSON list of that many kB.
pub(crate) fn serve(kb: usize) -> Result<()> {
    let (tool, items) = (format!("items-{kb}"), payload(kb));
    let text = std::str::from_utf8(&items)?;
    let structured: Value = serde_json::from_str(&format!(r#"{{"result":{text}}}"#))?;
    let answer = json!({"content": [{"type": "text", "text": text}], "structuredContent": structured});
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?).context("expected a JSON-RPC message on each line")?;
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": tool, "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => answer.clone(),
            _ => json!({}),
        };
        writeln!(output, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
        output.flush()?;
    }
    Ok(())
}

/// A request, as far as the server reads it.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    name: Option<&'a str>,
    #[serde(rename = "protocolVersion")]
    version: Option<&'a str>,
    #[serde(borrow, rename = "_meta", default)]
    meta: Meta<'a>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

/// A tool whose call takes [`HELD_SECONDS`], with progress each second.
pub(crate) const HELD: &str = "held";
/// The seconds of a call of [`HELD`].
pub(crate) const HELD_SECONDS: u32 = 30;

/// What a message is answered with.
pub(crate) enum Reply {
    /// Nothing: it is a notification.
    Accepted,
    /// This message.
    Message(Bytes),
    /// This event each second, and then this message as an event.
    Held { progress: Bytes, last: Bytes },
}

/// The results of an MCP server over HTTP, as text. Its tools are `items-KB` and [`HELD`].
pub(crate) struct Tools {
    /// By the name of a tool.
    results: HashMap<String, String>,
    list: String,
}

impl Tools {
    /// Prepares the results of one tool for each size.
    pub(crate) fn new(sizes: &[usize]) -> Result<Self> {
        let result = |kb: &usize| {
            let items = payload(*kb);
            let text = std::str::from_utf8(&items)?;
            let block = serde_json::to_string(text)?;
            let content = format!(r#"{{"content":[{{"type":"text","text":{block}}}]}}"#);
            Ok((format!("items-{kb}"), content))
        };
        let results: HashMap<_, _> = sizes.iter().map(result).collect::<Result<_>>()?;
        let names = results.keys().map(String::as_str).chain([HELD]);
        let tools: Vec<_> = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
        Ok(Self { results, list: json!({"tools": tools}).to_string() })
    }

    /// Returns the reply to a message.
    pub(crate) fn reply(&self, message: &[u8]) -> Reply {
        if let Ok(Request { id: Some(id), method: "tools/call", params: Params { name: Some(HELD), meta, .. } }) =
            serde_json::from_slice(message)
        {
            let progress = meta.progress_token.map_or_else(String::new, |token| {
                format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\
                     \"progress\":1}}}}\n\n"
                )
            });
            let last = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"done\"}}]}}}}\n\n"
            );
            return Reply::Held { progress: progress.into(), last: last.into() };
        }
        self.answer(message).map_or(Reply::Accepted, Reply::Message)
    }

    /// Answers a message; nothing to a notification.
    fn answer(&self, message: &[u8]) -> Option<Bytes> {
        let Request { id, method, params } = serde_json::from_slice(message).ok()?;
        let id = id?.get();
        let named = params.name.and_then(|name| self.results.get(name));
        let result = match (method, named) {
            ("tools/call", Some(result)) => result.as_str(),
            ("tools/list", _) => &self.list,
            ("ping", _) => "{}",
            ("initialize", _) => {
                let version = params.version.unwrap_or("2025-06-18");
                return Some(Bytes::from(format!(
                    concat!(
                        r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"#,
                        r#""serverInfo":{{"name":"bench","version":"1"}}}}}}"#
                    ),
                    id, version
                )));
            }
            _ => {
                let error = r#"{"code":-32601,"message":"unknown method"}"#;
                return Some(Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)));
            }
        };
        Some(Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
    }
}

#[cfg(test)]
mod tests {
    use super::Tools;

    #[test]
    fn the_server_answers_with_the_id_of_the_request() {
        let tools = Tools::new(&[1]).expect("prepares");
        let answer =
            |message: &str| Some(String::from_utf8(tools.answer(message.as_bytes())?.to_vec()).expect("is text"));
        let called = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"items-1","arguments":{}}}"#;
        assert!(answer(called).expect("an answer").starts_with(r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"#));
        let unknown = answer(r#"{"jsonrpc":"2.0","id":7,"method":"server/discover"}"#).expect("an answer");
        assert_eq!(unknown, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"unknown method"}}"#);
        assert_eq!(answer(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), None);
    }
}

//! An MCP server over standard input and output, for gateways that publish one: the upstream's answers, without the
//! upstream.

use std::io::{BufRead as _, Write as _};

use anyhow::{Context as _, Result};
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

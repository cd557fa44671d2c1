//! A stream of events from an MCP server. However it is cut into pieces, the same answers come of it, and what becomes the
//! output of a call is what `serde_json` reads in the message.

use serde_json::Value;
use tamis_gateway::fuzzing::{Answered, answers};

/// The most bytes of an event.
const LIMIT: usize = 4 << 10;

pub(crate) fn run(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let is_text = piece % 2 == 1;
    let whole = answers(stream, stream.len(), LIMIT, is_text);
    assert_eq!(answers(stream, usize::from(piece) / 2, LIMIT, is_text), whole);
    for Answered { event, result, output, media } in whole {
        assert!(event.len() <= LIMIT);
        let Some(result) = result else { continue };
        // The gateway keeps numbers beyond f64 and lone surrogates as they are written.
        let Ok(value) = serde_json::from_slice::<Value>(&result) else { continue };
        for block in media {
            let block: Value = serde_json::from_slice(&block).expect("a block is JSON");
            assert!(value["content"].as_array().expect("a list").contains(&block), "{block}");
        }
        match output {
            None => {}
            Some((json, true)) => {
                let output: Value = serde_json::from_slice(&json).expect("an output that is JSON");
                let structured = value.get("structuredContent").filter(|structured| !structured.is_null());
                assert!(structured.is_none_or(|structured| *structured == output), "{output} {value}");
            }
            Some((text, false)) => {
                let text = std::str::from_utf8(&text).expect("text is UTF-8");
                let blocks = value["content"].as_array().into_iter().flatten();
                let texts = blocks.filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
                assert_eq!(text, texts.collect::<Vec<_>>().join("\n"), "{value}");
            }
        }
    }
}

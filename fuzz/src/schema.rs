//! The first line is a JSON Schema, the rest is a document. A check takes no more steps than the size of the document
//! allows, and gives the same verdict if the patterns are compiled again.

use tamis_schema::{Document, Limits, Patterns, compile, steps_for};

const LIMITS: Limits = Limits { bytes: 64 << 10, depth: 64 };

pub(crate) fn run(data: &[u8]) {
    let Some((schema, document)) = crate::halves(data) else { return };
    let Ok(document) = Document::parse(document, LIMITS) else { return };
    // `serde_json` accepts everything that this parser accepts, except numbers that it cannot hold.
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(document.root().raw()) {
        assert!(error.to_string().contains("number out of range"), "{error}");
    }
    let check = || {
        let schema = compile(schema, &mut Patterns::default()).ok()?;
        let most = steps_for(document.bytes());
        let checked = schema.check_within(&document, most);
        if let Ok(steps) = &checked {
            assert!(*steps <= most, "{steps} steps, at most {most}");
        }
        Some(format!("{checked:?}"))
    };
    assert_eq!(check(), check());
}

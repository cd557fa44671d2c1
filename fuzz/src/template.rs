//! The first line is a template, the rest JSON. A rendering stays within its bytes, and is the same twice. The pieces of the
//! whole input, which may have `{name}` placeholders too, are the input.

use tamis_config::placeholder::{Piece, pieces};
use tamis_engine::json;
use tamis_engine::template::{Meter, Template};

const STEPS: usize = 100_000;
const BYTES: usize = 64 << 10;

pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        splits(text);
    }
    let Some((source, document)) = crate::halves(data) else { return };
    let Ok(template) = Template::parse(source) else { return };
    let Ok(node) = json::parse(document.as_bytes(), 128) else { return };
    let render = || {
        let mut out = String::new();
        let rendered = template.render(&node, &mut out, &mut Meter::new(STEPS, BYTES));
        (rendered.is_ok(), out)
    };
    let (complete, out) = render();
    assert!(!complete || out.len() <= BYTES, "{} bytes", out.len());
    assert_eq!((complete, out), render());
}

/// Splits a text into pieces. No literal of it can be split further.
fn splits(text: &str) {
    let mut whole = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Literal(literal) => {
                assert_eq!(pieces(literal).collect::<Vec<_>>(), [piece]);
                whole.push_str(literal);
            }
            Piece::Placeholder(name) => whole.extend(["{", name, "}"]),
        }
    }
    assert_eq!(whole, text);
}

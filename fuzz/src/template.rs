//! The first line is a template, the rest JSON. A rendering stays within its bytes, and is the same twice.

use tamis_engine::json;
use tamis_engine::template::{Meter, Template};

const STEPS: usize = 100_000;
const BYTES: usize = 64 << 10;

pub(crate) fn run(data: &[u8]) {
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

//! The fast path's scanner accepts what the parser accepts, and both accept what `serde_json` accepts.

use std::sync::LazyLock;

use serde::de::IgnoredAny;
use tamis_engine::{Call, CompileOptions, Input, Program, ToolFilter, compile, json};

/// A filter without a stage: everything passes, compact.
static NOTHING: LazyLock<Program> = LazyLock::new(|| {
    let filter: ToolFilter = serde_json::from_str(r#"{"output": {"budget": {"bytes": 1000000000}}}"#).unwrap();
    compile(&filter, &CompileOptions::default()).program.unwrap()
});

pub(crate) fn run(data: &[u8]) {
    let input = Input::Json(data);
    assert_eq!(NOTHING.apply(input, &Call::default()), NOTHING.apply_reference(input, &Call::default()));
    // serde_json accepts less: no lone surrogates, no numbers beyond f64, and it counts the depth differently.
    if serde_json::from_slice::<IgnoredAny>(data).is_ok() && std::str::from_utf8(data).is_ok() {
        assert!(json::parse(data, 1024).is_ok());
    }
}

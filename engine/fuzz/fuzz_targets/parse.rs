//! What is JSON: the fast path's scanner, the engine's parser, and `serde_json` where it speaks of the same.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use tamis_engine::{Call, CompileOptions, Input, Program, ToolFilter, compile, json};

/// A filter without a stage: everything passes, compact.
static NOTHING: LazyLock<Program> = LazyLock::new(|| {
    let filter: ToolFilter = serde_json::from_str(r#"{"output": {"budget": {"bytes": 1000000000}}}"#).unwrap();
    compile(&filter, &CompileOptions::default()).program.unwrap()
});

fuzz_target!(|data: &[u8]| {
    let input = Input::Json(data);
    assert_eq!(NOTHING.apply(input, &Call::default()), NOTHING.apply_reference(input, &Call::default()));
    // serde_json takes less: no lone surrogates, no numbers beyond f64, and its depth is counted otherwise.
    if serde_json::from_slice::<IgnoredAny>(data).is_ok() && std::str::from_utf8(data).is_ok() {
        assert!(json::parse(data, 1024).is_ok());
    }
});

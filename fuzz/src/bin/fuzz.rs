//! Runs libFuzzer over one target, which `TAMIS_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("TAMIS_FUZZ_TARGET").expect("TAMIS_FUZZ_TARGET names a target");
    tamis_fuzz::find(&name).unwrap_or_else(|| panic!("{name}: this build has no such target"))
});

fuzz_target!(|data: &[u8]| RUN(data));

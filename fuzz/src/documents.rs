//! A file of resources: JSON if the first byte is `{` or `[`, otherwise YAML. Documents that parse compile without a
//! panic, and a file without any readable document has a finding.

use tamis_crds::{CompileEnv, compile, parse_document};

pub(crate) fn run(data: &[u8]) {
    let name = if matches!(data.first(), Some(b'{' | b'[')) { "file.json" } else { "file.yaml" };
    let file = parse_document(name, data);
    if file.documents == 0 && !file.foreign && !file.resources.unusable.is_empty() {
        assert!(!file.diagnostics.is_empty(), "an unusable file without a diagnostic");
    }
    let compiled = compile(&file.resources, &CompileEnv::default());
    for diagnostic in file.diagnostics.iter().chain(&compiled.diagnostics) {
        assert!(!diagnostic.to_string().is_empty());
    }
}

//! Compares the digests of what the examples compile to with `crds/tests/digests.txt`.
//!
//! A digest that changes is a document that every gateway loads again after an upgrade of the operator, and perhaps one that
//! older gateways cannot read: decision 0035 says when the format version has to rise.
//! `TAMIS_UPDATE=1 cargo test -p tamis-crds --test digests` rewrites the list.

use std::fmt::Write as _;
use std::path::Path;

use tamis_config::{Digest, FORMAT_VERSION};
use tamis_crds::{CompileEnv, compile, load};

/// Folders of examples, each compiled by itself.
const FOLDERS: [&str; 6] =
    ["notion", "quickstart", "seeds/kimbap", "seeds/reshapr", "seeds/reshapr-conditional", "slack"];

fn list() -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut list = String::new();
    for folder in FOLDERS {
        let loaded = load(&[examples.join(folder)]);
        let snapshot = compile(&loaded.resources, &CompileEnv::default()).snapshot;
        for (digest, service) in &snapshot.services {
            assert_eq!(service.format_version, FORMAT_VERSION);
            let _ = writeln!(list, "{folder} service {} {} {}", service.name, service.version, digest.0);
        }
        for (id, exposition) in &snapshot.expositions {
            assert_eq!(exposition.format_version, FORMAT_VERSION);
            let json = serde_json::to_vec(exposition).expect("documents serialise");
            let _ = writeln!(list, "{folder} exposition {id} {}", Digest::of(&json).0);
        }
    }
    list
}

#[test]
fn the_examples_compile_to_the_same_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.txt");
    let list = list();
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(&path, &list).expect("the list can be written");
    }
    let stored = std::fs::read_to_string(&path).expect("crds/tests/digests.txt is there");
    assert_eq!(
        stored, list,
        "the form of documents has changed: see docs/decisions/0035, then run with TAMIS_UPDATE=1"
    );
    assert!(list.lines().count() >= FOLDERS.len(), "examples are missing:\n{list}");
}

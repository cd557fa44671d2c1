//! Compares the digests of what every folder of `examples/` compiles to with `crds/tests/digests.txt`.
//!
//! A digest that changes is a document that every gateway loads again after an upgrade of the operator, and perhaps one that
//! older gateways cannot read: decision 0035 says when the format version has to rise.
//! `TAMIS_UPDATE=1 cargo test -p tamis-crds --test digests` rewrites the list.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tamis_config::{Digest, Snapshot, lowest_service_version, lowest_version};
use tamis_crds::{CompileEnv, compile, is_document, load};

/// Returns the sets of documents below a folder, each of which is compiled by itself: a folder that contains documents is
/// one set with all that is below it, and other folders are searched.
fn sets(folder: &Path) -> BTreeSet<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder can be read").map(|entry| entry.expect("an entry").path()).collect();
    let is_file = |path: &PathBuf| path.is_file() && path.file_name().and_then(OsStr::to_str).is_some_and(is_document);
    if entries.iter().any(is_file) {
        return [folder.to_owned()].into();
    }
    entries.iter().filter(|path| path.is_dir()).flat_map(|path| sets(path)).collect()
}

fn list() -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut list = String::new();
    for set in sets(&examples) {
        let folder = set.strip_prefix(&examples).expect("is below the examples").display();
        let loaded = load(std::slice::from_ref(&set));
        let Snapshot { services, expositions, bundles, stopped } =
            compile(&loaded.resources, &CompileEnv::default()).snapshot;
        assert!(stopped.is_empty(), "{folder} has expositions that are not served: {stopped:?}");
        assert_eq!(expositions.len() + bundles.len(), loaded.resources.expositions.len(), "{folder}");
        for (digest, service) in &services {
            assert_eq!(service.format_version, lowest_service_version(service));
            let _ = writeln!(list, "{folder} service {} {} {}", service.name, service.version, digest.0);
        }
        for (id, exposition) in &expositions {
            assert_eq!(exposition.format_version, lowest_version(exposition));
            let json = serde_json::to_vec(exposition).expect("documents serialise");
            let _ = writeln!(list, "{folder} exposition {id} {}", Digest::of(&json).0);
        }
        for (id, bundle) in &bundles {
            let json = serde_json::to_vec(bundle).expect("documents serialise");
            let _ = writeln!(list, "{folder} bundle {id} {}", Digest::of(&json).0);
        }
    }
    list
}

#[test]
fn the_examples_compile_to_the_same_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.txt");
    let list = list();
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        fs::write(&path, &list).expect("the list can be written");
    }
    let stored = fs::read_to_string(&path).expect("crds/tests/digests.txt is there");
    assert_eq!(
        stored, list,
        "the documents of the examples have changed; if their form has changed, read docs/decisions/0035; then run with \
         TAMIS_UPDATE=1"
    );
}

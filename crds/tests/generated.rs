//! `crds/yaml/` and `crds/policies/` are what `tamis crds --policies` prints, one file a definition or policy.
//!
//! `TAMIS_UPDATE=1 cargo test -p tamis-crds --test generated` writes them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tamis_crds::definitions::{ServiceAccount, custom_resource_definitions, policies, yaml};

const HEAD: &str =
    "# Generated from crds/src: change that, then run TAMIS_UPDATE=1 cargo test -p tamis-crds --test generated\n";

/// Path below this crate to content. A policy and its binding share a name, and so a file.
fn generated() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    let objects = [("yaml", custom_resource_definitions()), ("policies", policies(&ServiceAccount::default()))];
    for (folder, objects) in objects {
        for object in objects {
            let name = object["metadata"]["name"].as_str().expect("an object has a name");
            files.entry(format!("{folder}/{name}.yaml")).or_default().push(object.clone());
        }
    }
    files.into_iter().map(|(path, objects)| (path, format!("{HEAD}{}", yaml(&objects)))).collect()
}

fn crate_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The files that are there.
fn stored() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for folder in ["yaml", "policies"] {
        for entry in fs::read_dir(crate_folder().join(folder)).into_iter().flatten() {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            files.insert(format!("{folder}/{name}"), fs::read_to_string(&path).expect("the file can be read"));
        }
    }
    files
}

#[test]
fn files_are_what_is_generated() {
    let generated = generated();
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        for path in stored().keys().filter(|path| !generated.contains_key(*path)) {
            fs::remove_file(crate_folder().join(path)).expect("a file can be removed");
        }
        for (path, text) in &generated {
            let path = crate_folder().join(path);
            fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
            fs::write(path, text).expect("a file can be written");
        }
    }
    let stored = stored();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&stored), names(&generated), "run with TAMIS_UPDATE=1");
    for (path, text) in &generated {
        assert!(stored[path] == *text, "crds/{path} is stale: run with TAMIS_UPDATE=1 and look at the change");
    }
}

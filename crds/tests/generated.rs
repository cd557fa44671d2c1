//! `crds/yaml/` and `crds/policies/` are what `tamis crds --policies` prints, one file a definition or policy; the files of
//! the chart `tamis-crds` are copies of them, since a chart can take nothing from outside its folder.
//!
//! `TAMIS_UPDATE=1 cargo test -p tamis-crds --test generated` writes them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tamis_crds::definitions::{ServiceAccount, custom_resource_definitions, policies, yaml};

const HEAD: &str =
    "# Generated from crds/src: change that, then run TAMIS_UPDATE=1 cargo test -p tamis-crds --test generated\n";

/// The folders, below the root of the repository, and what of ours each holds.
const FOLDERS: [(&str, &str); 4] = [
    ("crds/yaml", "yaml"),
    ("crds/policies", "policies"),
    ("charts/tamis-crds/files/crds", "yaml"),
    ("charts/tamis-crds/files/policies", "policies"),
];

/// Path below the root to content. A policy and its binding share a name, and so a file.
fn generated() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    let objects = [("yaml", custom_resource_definitions()), ("policies", policies(&[ServiceAccount::default()], &[]))];
    for (folder, objects) in objects {
        for object in objects {
            let name = object["metadata"]["name"].as_str().expect("an object has a name");
            for (path, _) in FOLDERS.iter().filter(|(_, what)| *what == folder) {
                files.entry(format!("{path}/{name}.yaml")).or_default().push(object.clone());
            }
        }
    }
    files.into_iter().map(|(path, objects)| (path, format!("{HEAD}{}", yaml(&objects)))).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files that are there.
fn stored() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for (folder, _) in FOLDERS {
        for entry in fs::read_dir(root().join(folder)).into_iter().flatten() {
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
            fs::remove_file(root().join(path)).expect("a file can be removed");
        }
        for (path, text) in &generated {
            let path = root().join(path);
            fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
            fs::write(path, text).expect("a file can be written");
        }
    }
    let stored = stored();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&stored), names(&generated), "run with TAMIS_UPDATE=1");
    for (path, text) in &generated {
        assert!(stored[path] == *text, "{path} is stale: run with TAMIS_UPDATE=1 and look at the change");
    }
}

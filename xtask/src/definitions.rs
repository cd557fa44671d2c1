//! CustomResourceDefinitions of the Prometheus operator and of Gateway API. The tests install them to apply the chart's
//! objects of those kinds. They are several megabytes, and come from the Go modules that publish them, verified with
//! the checksums in `tests/cluster/definitions/go.sum`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Deserializer, Value};

use crate::run::{quietly, root};
use crate::tools::{is_stamped, once, read};

/// The folder in `.tools/`.
const FOLDER: &str = "definitions";
/// Modules, and the paths of their definitions.
const MODULES: &[(&str, &str)] = &[
    ("github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd"),
    ("sigs.k8s.io/gateway-api", "config/crd/standard"),
];

fn sources() -> PathBuf {
    root().join("tests/cluster").join(FOLDER)
}

fn stamp() -> Result<String> {
    Ok(read(&sources().join("go.mod"))? + &read(&sources().join("go.sum"))?)
}

/// Returns whether the definitions have to be downloaded.
pub(crate) fn is_needed(tools: &Path) -> Result<bool> {
    Ok(!is_stamped(&tools.join(FOLDER), &stamp()?))
}

/// Copies the definitions to `.tools/definitions/`, one file each, unless they are already there.
pub(crate) fn install(tools: &Path) -> Result<()> {
    once(&tools.join(FOLDER), &stamp()?, |folder| {
        let mut go = Command::new("go");
        go.env("GOWORK", "off").current_dir(sources()).args(["mod", "download", "-json"]);
        let printed = quietly(go.args(MODULES.iter().map(|(module, _)| module)))?;
        for (module, within) in MODULES {
            let from = folder_of(&printed, module).with_context(|| format!("{module} was not downloaded"))?;
            let entries = fs::read_dir(from.join(within)).with_context(|| format!("{module}: {within}"))?;
            for entry in entries {
                let path = entry?.path();
                if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|e| e == "yaml")) {
                    // Read and written, not copied: files of Go's module cache are read-only.
                    fs::write(folder.join(name), read(&path)?)?;
                }
            }
        }
        Ok(())
    })
}

/// Returns the folder of a module in Go's cache, from the output of `go mod download -json`.
fn folder_of(printed: &str, module: &str) -> Option<PathBuf> {
    // Ignores any text after the JSON, which is from the error stream.
    let mut objects = Deserializer::from_str(printed).into_iter::<Value>().map_while(Result::ok);
    let found = objects.find(|object| object["Path"] == module)?;
    found["Dir"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::{MODULES, folder_of, stamp};

    #[test]
    fn the_folder_of_a_module_is_found() {
        let printed =
            "{\n\"Path\": \"a.b/c\", \"Dir\": \"/x\"}\n{\"Path\": \"a.b/d\", \"Dir\": \"/y\"}\ngo: downloading e";
        assert_eq!(folder_of(printed, "a.b/d").as_deref(), Some("/y".as_ref()));
        assert_eq!(folder_of(printed, "a.b/e"), None);
    }

    #[test]
    fn every_module_is_pinned() {
        let stamp = stamp().expect("the files are there");
        for (module, _) in MODULES {
            assert!(
                stamp.lines().any(|line| line.starts_with(&format!("{module} v")) && line.contains(" h1:")),
                "{module}"
            );
        }
    }
}

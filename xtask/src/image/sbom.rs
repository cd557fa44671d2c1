//! The contents of an image as a [CycloneDX](https://cyclonedx.org/docs/1.5/json/) document. Pure.

use serde_json::{Map, Value, json};

use super::crates::{Crate, Key};
use super::oci::hex;
use super::packages::Package;
use super::root::{CERTIFICATES, CERTIFICATES_CRATE, ENTRYPOINT};

/// The contents of an image.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    pub(crate) version: &'a str,
    pub(crate) license: &'a str,
    /// RFC 3339.
    pub(crate) created: &'a str,
    /// The program.
    pub(crate) program: &'a [u8],
    /// The release of the compiler, whose standard library is in the program.
    pub(crate) rust: &'a str,
    /// The crates in the program, and the crate with the certificates.
    pub(crate) crates: &'a [Crate],
    pub(crate) packages: &'a [Package],
}

const PROGRAM: &str = "tamis";
const STANDARD_LIBRARY: &str = "rust";

/// Returns the document.
pub(crate) fn document(contents: &Contents<'_>) -> String {
    let (own, linked): (Vec<&Crate>, Vec<&Crate>) =
        contents.crates.iter().partition(|one| one.key.name == PROGRAM && one.checksum.is_none());
    let mut components: Vec<Value> = linked.iter().map(|one| of_crate(one)).collect();
    components.push(json!({
        "type": "library",
        "bom-ref": STANDARD_LIBRARY,
        "name": "rust",
        "version": contents.rust,
        "description": "Rust's standard library",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": format!("pkg:github/rust-lang/rust@{}", contents.rust),
    }));
    components.extend(contents.packages.iter().map(of_package));

    let mut direct: Vec<String> = own.iter().flat_map(|one| &one.dependencies).map(reference).collect();
    direct.extend(linked.iter().filter(|one| one.key.name == CERTIFICATES_CRATE).map(|one| reference(&one.key)));
    direct.push(STANDARD_LIBRARY.to_owned());
    direct.extend(contents.packages.iter().map(Package::purl));
    let mut dependencies = vec![json!({"ref": PROGRAM, "dependsOn": direct})];
    dependencies.extend(linked.iter().map(|one| {
        let on: Vec<String> = one.dependencies.iter().map(reference).collect();
        json!({"ref": reference(&one.key), "dependsOn": on})
    }));

    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "",
        "version": 1,
        "metadata": {
            "timestamp": contents.created,
            "tools": {"components": [{"type": "application", "name": "cargo xtask image", "version": contents.version}]},
            "component": {
                "type": "application",
                "bom-ref": PROGRAM,
                "name": PROGRAM,
                "version": contents.version,
                "licenses": [{"expression": contents.license}],
                "hashes": [{"alg": "SHA-256", "content": hex(contents.program)}],
                "evidence": occurrence(ENTRYPOINT),
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    document["serialNumber"] = json!(serial_number(&document.to_string()));
    format!("{document:#}\n")
}

/// Returns a serial number. The same document has the same number.
fn serial_number(document: &str) -> String {
    let digest = hex(document.as_bytes());
    // RFC 9562, section 5.8: version 8 leaves the other bits to the writer, and the variant is 8 to b.
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &digest[..8],
        &digest[8..12],
        &digest[13..16],
        &digest[17..20],
        &digest[20..32]
    )
}

fn reference(key: &Key) -> String {
    format!("crate:{}@{}", key.name, key.version)
}

fn of_crate(one: &Crate) -> Value {
    let Key { name, version } = &one.key;
    let mut component = Map::new();
    let mut set = |field: &str, value: Value| component.insert(field.to_owned(), value);
    set("type", json!("library"));
    set("bom-ref", json!(reference(&one.key)));
    set("name", json!(name));
    set("version", json!(version));
    set("licenses", json!([{"expression": one.license}]));
    // Crates of the workspace are not published.
    if let Some(checksum) = &one.checksum {
        set("hashes", json!([{"alg": "SHA-256", "content": checksum}]));
        set("purl", json!(format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))));
    }
    if name == CERTIFICATES_CRATE {
        set("evidence", occurrence(CERTIFICATES));
    }
    if let Some(repository) = &one.repository {
        set("externalReferences", json!([{"type": "vcs", "url": repository}]));
    }
    Value::Object(component)
}

fn of_package(package: &Package) -> Value {
    let license = match package.license() {
        Some(expression) => json!({"expression": expression}),
        None => json!({"license": {"name": format!("see /usr/share/doc/{}/copyright", package.name)}}),
    };
    let file = |(path, sum): &(String, String)| json!({"type": "file", "name": path, "hashes": [{"alg": "SHA-256", "content": sum}]});
    let files: Vec<Value> = package.files.iter().map(file).collect();
    json!({
        "type": "library",
        "bom-ref": package.purl(),
        "name": package.name,
        "version": package.version,
        "licenses": [license],
        "purl": package.purl(),
        "components": files,
    })
}

fn occurrence(path: &str) -> Value {
    json!({"occurrences": [{"location": path}]})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use cyclonedx_bom::models::bom::{Bom, SpecVersion};
    use cyclonedx_bom::validation::Validate as _;
    use serde_json::Value;

    use super::{Contents, document};
    use crate::image::crates::{Crate, Key};
    use crate::image::packages::Package;

    fn one(name: &str, checksum: Option<&str>, on: &[&str]) -> Crate {
        let key = |name: &str| Key { name: name.to_owned(), version: "1.0.0+x".to_owned() };
        Crate {
            key: key(name),
            license: "MIT OR Apache-2.0".to_owned(),
            checksum: checksum.map(str::to_owned),
            repository: Some("https://example.com/it".to_owned()),
            folder: PathBuf::new(),
            dependencies: on.iter().map(|name| key(name)).collect::<BTreeSet<_>>(),
        }
    }

    fn example() -> String {
        let sum = "0123456789abcdef".repeat(4);
        let crates = [
            one("a", Some(&sum), &[]),
            one("tamis", None, &["a", "tamis-engine"]),
            one("tamis-engine", None, &["a"]),
            one("webpki-root-certs", Some(&sum), &[]),
        ];
        let package = Package {
            name: "libc6".to_owned(),
            version: "2.36-9+deb12u14".to_owned(),
            architecture: "amd64".to_owned(),
            source: ("glibc".to_owned(), "2.36-9+deb12u14".to_owned()),
            distribution: "debian-12".to_owned(),
            files: vec![("/lib/x86_64-linux-gnu/libc.so.6".to_owned(), sum.clone())],
        };
        document(&Contents {
            version: "0.1.0",
            license: "Apache-2.0",
            created: "2023-11-14T22:13:20Z",
            program: b"program",
            rust: "1.95.0",
            crates: &crates,
            packages: &[package],
        })
    }

    #[test]
    fn the_document_is_valid_cyclonedx() {
        let bom = Bom::parse_from_json_v1_5(example().as_bytes()).expect("is one");
        let result = bom.validate_version(SpecVersion::V1_5);
        assert!(result.passed(), "{result:?}");
    }

    #[test]
    fn every_reference_names_a_component() {
        let document: Value = serde_json::from_str(&example()).expect("is JSON");
        let components = document["components"].as_array().expect("a list");
        let mut known: BTreeSet<&str> = components.iter().filter_map(|one| one["bom-ref"].as_str()).collect();
        assert_eq!(known.len(), components.len());
        known.insert(document["metadata"]["component"]["bom-ref"].as_str().expect("text"));
        let dependencies = document["dependencies"].as_array().expect("a list");
        for dependency in dependencies {
            assert!(known.contains(dependency["ref"].as_str().expect("text")), "{dependency}");
            for on in dependency["dependsOn"].as_array().expect("a list") {
                assert!(known.contains(on.as_str().expect("text")), "{dependency}");
            }
        }
        assert_eq!(dependencies[0]["ref"], "tamis");
        assert_eq!(dependencies[0]["dependsOn"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn the_serial_number_comes_from_the_content() {
        let number = |text: &str| serde_json::from_str::<Value>(text).expect("is JSON")["serialNumber"].clone();
        assert_eq!(number(&example()), number(&example()));
        assert_ne!(super::serial_number("a"), super::serial_number("b"));
    }
}

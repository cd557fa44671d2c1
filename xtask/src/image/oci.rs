//! One archive that is two: an OCI image layout, and what `docker save` writes. Both name the same files. Pure.

use std::io::Write as _;

use anyhow::Result;
use base64::Engine as _;
use clap::ValueEnum;
use flate2::{Compression as Level, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::Builder;

use super::layer::append;
use super::name::Name;
use super::platform::Platform;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// How the layer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// What every engine and registry reads.
    Gzip,
    /// For an engine on the same machine: nothing is transferred.
    None,
}

/// What an image says about itself beside its files.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    pub(crate) platform: Platform,
    pub(crate) name: &'a Name,
    /// RFC 3339.
    pub(crate) created: &'a str,
    /// Seconds since 1970: the time of the archive's own entries.
    pub(crate) time: u64,
    pub(crate) entrypoint: &'a str,
    pub(crate) user: &'a str,
    pub(crate) ports: &'a [&'a str],
    /// `org.opencontainers.image.*` and the like.
    pub(crate) labels: &'a [(&'a str, &'a str)],
}

/// A finished image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) archive: Vec<u8>,
    /// Of the manifest: what a registry and `kubectl` call the image's digest.
    pub(crate) digest: String,
    /// The layer as it is transferred.
    pub(crate) compressed: usize,
}

/// Bytes under the name of their digest.
#[derive(Debug)]
struct Blob {
    hex: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { hex: hex(&bytes), bytes }
    }

    fn json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.hex)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": format!("sha256:{}", self.hex), "size": self.bytes.len()})
    }
}

/// The image of one layer.
pub(crate) fn assemble(layer: Vec<u8>, compression: Compression, about: &Description<'_>) -> Result<Image> {
    let uncompressed = format!("sha256:{}", hex(&layer));
    let (layer, layer_type) = match compression {
        Compression::Gzip => (Blob::new(gzip(&layer)?), format!("{LAYER}+gzip")),
        Compression::None => (Blob::new(layer), LAYER.to_owned()),
    };
    let config = Blob::json(&configuration(&uncompressed, about));
    let labels: Value = about.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": [layer.descriptor(&layer_type)],
        "annotations": labels,
    }));
    let mut entry = manifest.descriptor(MANIFEST);
    entry["platform"] = json!({"architecture": about.platform.architecture(), "os": "linux"});
    // The first is containerd's, the second what an OCI layout calls its images by.
    entry["annotations"] = json!({
        "io.containerd.image.name": about.name.full(),
        "org.opencontainers.image.ref.name": about.name.tag(),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
    let docker = json!([{"Config": config.path(), "RepoTags": [about.name.familiar()], "Layers": [layer.path()]}]);

    let mut blobs = [&config, &layer, &manifest];
    blobs.sort_by(|one, other| one.hex.cmp(&other.hex));
    let mut archive = Builder::new(Vec::with_capacity(layer.bytes.len() + 32 * 1024));
    let mut add = |path: &str, bytes: &[u8]| {
        append(&mut archive, path, if path.ends_with('/') { 0o755 } else { 0o644 }, about.time, bytes)
    };
    add("blobs/", b"")?;
    add("blobs/sha256/", b"")?;
    for blob in blobs {
        add(&blob.path(), &blob.bytes)?;
    }
    add("index.json", index.to_string().as_bytes())?;
    add("manifest.json", docker.to_string().as_bytes())?;
    add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(Image {
        archive: archive.into_inner()?,
        digest: format!("sha256:{}", manifest.hex),
        compressed: layer.bytes.len(),
    })
}

fn configuration(layer: &str, about: &Description<'_>) -> Value {
    let labels: Value = about.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let ports: Value = about.ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
    json!({
        "created": about.created,
        "architecture": about.platform.architecture(),
        "os": "linux",
        "config": {
            "User": about.user,
            "ExposedPorts": ports,
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": [about.entrypoint],
            // Whoever runs it without arguments is told which there are.
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created": about.created, "created_by": "cargo xtask image"}],
    })
}

/// With no time and no name of a file in the header.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Level::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Certificates as text, one after the other.
pub(crate) fn pem<'a>(certificates: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut text = String::new();
    for certificate in certificates {
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

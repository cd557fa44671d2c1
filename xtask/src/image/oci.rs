//! One archive in two formats: an OCI image layout, and the format that `docker save` writes. Both name the same files.
//! Pure.

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

/// The compression of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// Every engine and registry reads it.
    Gzip,
    /// For an engine on the same machine.
    None,
}

/// The metadata of an image.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    pub(crate) platform: Platform,
    pub(crate) name: &'a Name,
    /// RFC 3339.
    pub(crate) created: &'a str,
    /// The time of the archive's entries, in seconds since 1970.
    pub(crate) time: u64,
    pub(crate) entrypoint: &'a str,
    pub(crate) user: &'a str,
    pub(crate) ports: &'a [&'a str],
    /// Labels such as `org.opencontainers.image.title`.
    pub(crate) labels: &'a [(&'a str, &'a str)],
}

/// A finished image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) archive: Vec<u8>,
    /// The digest of the manifest, which registries and `kubectl` call the image's digest.
    pub(crate) digest: String,
    /// The size of the compressed layer, in bytes.
    pub(crate) compressed: usize,
}

/// Bytes that are stored under their digest.
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

/// Builds an image with one layer.
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
    // containerd reads the first name, and readers of OCI layouts read the second.
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
            // Without arguments, the program lists its commands.
            "Cmd": ["--help"],
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created": about.created, "created_by": "cargo xtask image"}],
    })
}

/// Compresses without a time or a file name in the header.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Level::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns certificates in PEM, one after the other.
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

//! `GatewayConfig`: how documents travel from the operator to the gateways.
//!
//! The payload is opaque to the API: JSON, compressed with zstd, in base64, split where it is large, under its digest.
//! A gateway refuses a format version that it does not know, and whatever does not match its digest.

#![expect(clippy::duplicated_attributes, reason = "columns of `kube` that share a type are no duplicates")]

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    BundleDocument, CredentialHandle, Digest, ExpositionDocument, ExpositionId, FIRST_VERSION, FORMAT_VERSION, Reason,
    ServiceDocument, reads,
};

/// Bytes of base64 in one object: an object of this size is written and watched without harm to its neighbours.
const PART_BYTES: usize = 384 << 10;
/// Parts of one document.
const MAX_PARTS: u32 = 64;
/// Bytes of a document after decompression: a gateway reads no more.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Fast, and within a few percent of the best for documents of this size.
const ZSTD_LEVEL: i32 = 3;

/// Compiled configuration of a GatewayGroup, written by the operator alone, and for gateways alone: `data` is a piece of a
/// JSON document, compressed, under the document's `digest`. Which digests a gateway has loaded it says at `/config`.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "GatewayConfig",
    namespaced,
    shortname = "gwc",
    category = "tamis",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.gatewayGroup",
    selectable = ".spec.digest",
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.gatewayGroup"),
    printcolumn(name = "Holds", type_ = "string", json_path = ".spec.kind"),
    printcolumn(name = "Digest", type_ = "string", json_path = ".spec.digest"),
    printcolumn(name = "Format", type_ = "integer", json_path = ".spec.formatVersion"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayConfigSpec {
    /// `metadata.name` of the GatewayGroup whose gateways load this.
    pub gateway_group: String,
    /// What the payload is.
    pub kind: PayloadKind,
    /// The exposition that the payload is of; absent for a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposition: Option<ExpositionId>,
    /// SHA-256 of the whole document's JSON, in lower-case hex.
    pub digest: Digest,
    /// The service document that the payload names, so that the operator knows what is in use. Gateways go by the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Digest>,
    /// The credential values that the payload names, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CredentialHandle>,
    /// The version of the document's format; a gateway refuses one that is newer than its own.
    pub format_version: u32,
    /// Which part of the document this is, from 0.
    pub part: u32,
    /// How many parts the document has.
    pub parts: u32,
    /// The part: base64 of a piece of the document's JSON, compressed with zstd as a whole.
    pub data: String,
}

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PayloadKind {
    /// A [`ServiceDocument`], shared by the expositions that publish it.
    Service,
    /// An [`ExpositionPayload`].
    Exposition,
}

/// What is said of one exposition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::large_enum_variant, reason = "decoded one at a time, and moved once")]
pub enum ExpositionPayload {
    /// It is served.
    Serve(ExpositionDocument),
    /// It is served as a bundle of others.
    Bundle(BundleDocument),
    /// It answers 503.
    Stop(StopDocument),
}

impl ExpositionPayload {
    /// Whose payload it is.
    #[must_use]
    pub fn id(&self) -> &ExpositionId {
        match self {
            Self::Serve(document) => &document.id,
            Self::Bundle(document) => &document.id,
            Self::Stop(document) => &document.id,
        }
    }

    /// The format version of the document.
    #[must_use]
    pub fn format_version(&self) -> u32 {
        match self {
            Self::Serve(document) => document.format_version,
            Self::Bundle(document) => document.format_version,
            Self::Stop(document) => document.format_version,
        }
    }
}

/// An exposition that is not served, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StopDocument {
    /// [`FIRST_VERSION`]: a stop has to reach every gateway.
    pub format_version: u32,
    /// Its name.
    pub id: ExpositionId,
    /// The reason. A gateway that does not know the word reads [`Reason::Stopped`], and stops the exposition.
    #[serde(deserialize_with = "crate::reason::of_stop")]
    pub reason: Reason,
    /// Names the field and the remedy.
    pub message: String,
}

impl StopDocument {
    /// Returns the document that stops an exposition.
    #[must_use]
    pub fn new(id: ExpositionId, reason: Reason, message: String) -> Self {
        Self { format_version: FIRST_VERSION, id, reason, message }
    }
}

/// A document that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Written by a newer operator.
    #[error(
        "format version {0} is newer than {FORMAT_VERSION}, the newest that this gateway reads: upgrade the gateway"
    )]
    TooNew(u32),
    /// Parts are missing; they may be on their way.
    #[error("part {0} of {1} is not there yet")]
    Incomplete(u32, u32),
    /// Whole and as it was written, but holds something that is not known here.
    #[error("a field that is not known here: {0}: upgrade this gateway")]
    Unknown(String),
    /// Anything else: never to be guessed at.
    #[error("{0}")]
    Broken(String),
}

/// The objects' specs for a service document, in the order of their parts.
///
/// # Errors
/// The document is larger than a gateway would read; the text says how large.
pub fn encode_service(group: &str, document: &ServiceDocument) -> Result<Vec<GatewayConfigSpec>, String> {
    let json = serde_json::to_vec(document).map_err(|error| error.to_string())?;
    encode(group, PayloadKind::Service, None, document.format_version, &json)
}

/// The object's spec for an exposition.
///
/// # Errors
/// The document does not fit into one object; the text says how large it is.
pub fn encode_exposition(group: &str, payload: &ExpositionPayload) -> Result<GatewayConfigSpec, String> {
    let json = serde_json::to_vec(payload).map_err(|error| error.to_string())?;
    let mut parts = encode(group, PayloadKind::Exposition, Some(payload.id()), payload.format_version(), &json)?;
    match (parts.pop(), parts.len()) {
        (Some(mut part), 0) => {
            match payload {
                ExpositionPayload::Serve(document) => {
                    part.service = Some(document.service.clone());
                    part.credentials = document.handles();
                }
                ExpositionPayload::Bundle(document) => {
                    part.credentials = document.handle().cloned().into_iter().collect();
                }
                ExpositionPayload::Stop(_) => {}
            }
            Ok(part)
        }
        (_, more) => Err(format!("the filters of one exposition need {} objects, one is the limit", more + 1)),
    }
}

/// The service document that all parts together are. They may come in any order.
///
/// # Errors
/// [`Unreadable`].
pub fn decode_service<'a>(
    parts: impl IntoIterator<Item = &'a GatewayConfigSpec>,
) -> Result<(Digest, ServiceDocument), Unreadable> {
    let (digest, json) = decode(parts, PayloadKind::Service)?;
    let document: ServiceDocument = parse(&json)?;
    Ok((digest, document))
}

/// The payload of an exposition's object.
///
/// # Errors
/// [`Unreadable`].
pub fn decode_exposition(spec: &GatewayConfigSpec) -> Result<ExpositionPayload, Unreadable> {
    let (_, json) = decode([spec], PayloadKind::Exposition)?;
    let payload: ExpositionPayload = parse(&json)?;
    if spec.exposition.as_ref() != Some(payload.id()) {
        return Err(Unreadable::Broken("the payload is of another exposition".to_owned()));
    }
    Ok(payload)
}

fn parse<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(json).map_err(|error| Unreadable::Unknown(error.to_string()))
}

fn encode(
    group: &str,
    kind: PayloadKind,
    exposition: Option<&ExpositionId>,
    format_version: u32,
    json: &[u8],
) -> Result<Vec<GatewayConfigSpec>, String> {
    let too_large = || format!("the document is too large: {} bytes", json.len());
    if json.len() > MAX_DOCUMENT_BYTES {
        return Err(too_large());
    }
    let packed = zstd::bulk::compress(json, ZSTD_LEVEL).map_err(|error| error.to_string())?;
    // Base64 of whole groups of three bytes: each part can be read by itself.
    let pieces: Vec<&[u8]> = packed.chunks(PART_BYTES / 4 * 3).collect();
    let parts = u32::try_from(pieces.len()).ok().filter(|parts| *parts <= MAX_PARTS).ok_or_else(too_large)?;
    let digest = Digest::of(json);
    Ok((0..parts)
        .zip(pieces)
        .map(|(part, piece)| GatewayConfigSpec {
            gateway_group: group.to_owned(),
            kind,
            exposition: exposition.cloned(),
            digest: digest.clone(),
            service: None,
            credentials: Vec::new(),
            format_version,
            part,
            parts,
            data: BASE64_STANDARD.encode(piece),
        })
        .collect())
}

fn decode<'a>(
    parts: impl IntoIterator<Item = &'a GatewayConfigSpec>,
    kind: PayloadKind,
) -> Result<(Digest, Vec<u8>), Unreadable> {
    let broken = |text: &str| Unreadable::Broken(text.to_owned());
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by_key(|part| part.part);
    parts.dedup_by_key(|part| part.part);
    let first = parts.first().ok_or(Unreadable::Incomplete(0, 1))?;
    if !reads(first.format_version) {
        return Err(Unreadable::TooNew(first.format_version));
    }
    if first.parts == 0 || first.parts > MAX_PARTS {
        return Err(broken("the number of parts is out of bounds"));
    }
    let mut packed = Vec::new();
    for (index, part) in (0..first.parts).zip(parts.iter().map(Some).chain(std::iter::repeat(None))) {
        let part = part.filter(|part| part.part == index).ok_or(Unreadable::Incomplete(index, first.parts))?;
        let head = |spec: &GatewayConfigSpec| (spec.kind, spec.digest.clone(), spec.parts, spec.format_version);
        if head(part) != head(first) || part.kind != kind {
            return Err(broken("the parts are not of one document"));
        }
        let piece = BASE64_STANDARD.decode(&part.data).map_err(|_| broken("the data is not base64"))?;
        packed.extend_from_slice(&piece);
    }
    let json = zstd::bulk::decompress(&packed, MAX_DOCUMENT_BYTES.min(declared(&packed)))
        .map_err(|_| broken("the data cannot be decompressed"))?;
    if Digest::of(&json) != first.digest {
        return Err(broken("the data does not match its digest"));
    }
    Ok((first.digest.clone(), json))
}

/// What the frame says of its content's size, so that a small document takes little memory.
fn declared(packed: &[u8]) -> usize {
    match zstd::zstd_safe::get_frame_content_size(packed) {
        Ok(Some(size)) => usize::try_from(size).unwrap_or(MAX_DOCUMENT_BYTES),
        _ => MAX_DOCUMENT_BYTES,
    }
}

#[cfg(test)]
#[path = "carrier_tests.rs"]
mod tests;

//! Names of the objects through which configuration travels. The operator writes under them, a gateway's Role lists
//! them, a gateway reads them.

use sha2::{Digest as _, Sha256};

use crate::{Digest, ExpositionId};

/// The label that says whose configuration an object is: `metadata.name` of the GatewayGroup.
pub const GROUP_LABEL: &str = "tamis.dev/gateway-group";
/// The label with the `metadata.name` of an object's Exposition.
pub const EXPOSITION_LABEL: &str = "tamis.dev/exposition";
/// The label with the namespace of an object's Exposition.
pub const EXPOSITION_NAMESPACE_LABEL: &str = "tamis.dev/exposition-namespace";
/// The label by which the owner of a Secret lets it take part: `upstream` or `callers`.
pub const CREDENTIALS_LABEL: &str = "tamis.dev/credentials";
/// The label by which the owner of a ConfigMap lets manifests name it as a document. Any value counts.
pub const DOCUMENT_LABEL: &str = "tamis.dev/document";
/// The annotation of an `upstream` Secret: how it may be used, one line for each use ([`crate::AllowedUse`]).
pub const ALLOWED_USE_ANNOTATION: &str = "tamis.dev/allowed-use";
/// The annotation of a GatewayGroup or an Exposition that is paused: `true`.
pub const PAUSED_ANNOTATION: &str = "tamis.dev/paused";
/// `app.kubernetes.io/managed-by` of everything that the operator writes.
pub const MANAGED_BY: &str = "tamis-operator";
/// The label of the Secrets that hold a group's credentials: the shard's number.
pub const SHARD_LABEL: &str = "tamis.dev/credential-shard";
/// Secrets that hold the credentials of one group.
pub const CREDENTIAL_SHARDS: usize = 8;
/// What the names of the environment variables begin with by which `tamis serve` gets credentials. No program gets one.
pub const CREDENTIAL_VARIABLES: &str = "TAMIS_SECRET_";
/// The key in a group's token Secret.
pub const TOKEN_KEY: &str = "token";

/// The Deployment, Service, NetworkPolicy and the like of a group, and the prefix of its other objects.
#[must_use]
pub fn group_object(group: &str) -> String {
    format!("tamis-{group}")
}

/// The Secret with a shard of a group's credentials.
#[must_use]
pub fn credentials_secret(group: &str, shard: usize) -> String {
    format!("tamis-{group}-credentials-{shard}")
}

/// The Secret with the token that `/config` and `/acks` want.
#[must_use]
pub fn token_secret(group: &str) -> String {
    format!("tamis-{group}-token")
}

/// The Secret with the keys that the group's gateways seal cursors and sign audit records with.
#[must_use]
pub fn keys_secret(group: &str) -> String {
    format!("tamis-{group}-keys")
}

/// Returns the group whose token or keys a Secret of this name holds; none for the name of any other Secret.
#[must_use]
pub fn group_of_own_secret(secret: &str) -> Option<&str> {
    let name = secret.strip_prefix("tamis-")?;
    name.strip_suffix("-token").or_else(|| name.strip_suffix("-keys")).filter(|group| !group.is_empty())
}

/// The GatewayConfig with one part of a service document.
#[must_use]
pub fn service_object(digest: &Digest, part: u32) -> String {
    format!("tamis-service-{}-{part}", digest.0.get(..40).unwrap_or(&digest.0))
}

/// The GatewayConfig of an exposition. Both names together may be longer than a name may be, and a dot or dash could
/// stand in either: a digest of them says which is meant.
#[must_use]
pub fn exposition_object(id: &ExpositionId) -> String {
    format!("tamis-exposition-{}", &Digest::of(id.to_string().as_bytes()).0[..40])
}

/// The shard that a credential lies in, unless that one is full: then it lies in any other.
#[must_use]
pub fn shard_of(handle: &str) -> usize {
    usize::from(Sha256::digest(handle.as_bytes())[0]) % CREDENTIAL_SHARDS
}

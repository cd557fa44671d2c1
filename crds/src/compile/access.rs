//! Compiles `access`: who may call.

use tamis_config::{Access, CredentialHandle, Reason, names};

use super::CompileEnv;
use super::expose::Stop;
use crate::Resource;
use crate::cluster::{Cluster, SecretRole, SecretState};
use crate::origin::FieldPath;
use crate::resources::{ApiKeysSpec, ExpositionSpec};

/// Compiles the `access` of an exposition, which is required in a cluster.
pub(super) fn access(exposition: &Resource<ExpositionSpec>, env: &CompileEnv<'_>) -> Result<Option<Access>, Stop> {
    let at = FieldPath::spec(["access"]);
    let stop = |message: &str| {
        let remedy = "set `apiKeys: {secretRef: {name: ..}}`, or `anonymous: true` to allow every caller";
        Err(Stop::new(Reason::AccessRequired, at.clone(), message, remedy))
    };
    let Some(access) = &exposition.spec.access else {
        return if env.cluster.is_some() { stop("is missing, so no caller is allowed") } else { Ok(None) };
    };
    if access.bundle_only.unwrap_or(false) {
        if access.anonymous.unwrap_or(false) || access.api_keys.is_some() {
            let remedy = "remove the others: the bundle that names the exposition says who may call";
            let message = "combines `bundleOnly: true` with `anonymous` or `apiKeys`";
            return Err(Stop::new(Reason::AccessRequired, at, message, remedy));
        }
        return Ok(Some(Access::BundleOnly));
    }
    match (access.anonymous.unwrap_or(false), &access.api_keys) {
        (true, Some(_)) => stop("combines `anonymous: true` with `apiKeys`"),
        (true, None) => Ok(Some(Access::Anonymous)),
        (false, None) => stop("allows no caller"),
        (false, Some(keys)) => {
            let namespace = &exposition.name.namespace;
            let cluster = env.cluster.as_ref();
            api_keys(keys, &at, |secret, path| {
                cluster.map(|cluster| callers(cluster, namespace, secret, path)).transpose()
            })
            .map(Some)
        }
    }
}

fn api_keys(
    keys: &ApiKeysSpec,
    at: &FieldPath,
    handle: impl FnOnce(&str, FieldPath) -> Result<Option<CredentialHandle>, Stop>,
) -> Result<Access, Stop> {
    let secret = keys.secret_ref.name.clone();
    let handle = handle(&secret, at.key("apiKeys").key("secretRef"))?;
    Ok(Access::ApiKeys { secret, handle })
}

/// Returns the handle of the callers' keys, or the reason why they may not be used.
pub(super) fn callers(
    cluster: &Cluster<'_>,
    namespace: &str,
    secret: &str,
    path: FieldPath,
) -> Result<CredentialHandle, Stop> {
    let label = format!("label it `{}: callers`", names::CREDENTIALS_LABEL);
    match cluster.secrets.find(namespace, secret) {
        SecretState::Found(facts) if facts.role == SecretRole::Callers => Ok(facts.whole()),
        SecretState::Found(_) => {
            let message = format!("Secret {namespace}/{secret} is labelled for upstreams, not for callers");
            Err(Stop::new(Reason::SecretNotLabelled, path, message, label))
        }
        SecretState::Unlabelled => {
            let message = format!("Secret {namespace}/{secret} is not labelled for use by Tamis");
            Err(Stop::new(Reason::SecretNotLabelled, path, message, label))
        }
        SecretState::Missing => Err(missing(namespace, secret, path)),
        SecretState::Forbidden => Err(forbidden(namespace, path)),
    }
}

pub(super) fn missing(namespace: &str, secret: &str, path: FieldPath) -> Stop {
    let message = format!("Secret {namespace}/{secret} does not exist");
    Stop::new(Reason::SecretNotFound, path, message, "create it")
}

pub(super) fn forbidden(namespace: &str, path: FieldPath) -> Stop {
    let message = format!("the operator is not allowed to read Secrets in namespace {namespace}");
    Stop::new(Reason::RefNotPermitted, path, message, "bind its role in that namespace")
}

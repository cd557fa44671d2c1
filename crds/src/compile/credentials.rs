//! The credentials of an exposition's published tools, and whether their owners allow these uses.

use std::collections::BTreeMap;

use tamis_config::{
    CredentialGrant, CredentialRef, CredentialUse, McpSource, Reason, SentCredential, ServiceDocument, names,
};
use url::Url;

use super::access::{forbidden, missing};
use super::expose::Stop;
use crate::cluster::{Cluster, SecretFacts, SecretRole, SecretState};
use crate::origin::FieldPath;

/// Headers that identify an account on their own. In addition to `auth` they would decide whose account a credential in another
/// place of the request reaches.
pub(super) const ACCOUNT_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Returns the grants by `name/key` for the given tools and resource templates of a service.
pub(super) fn resolve<'t>(
    cluster: &Cluster<'_>,
    namespace: &str,
    service: &ServiceDocument,
    tools: impl Iterator<Item = &'t String>,
    path: &FieldPath,
) -> Result<BTreeMap<String, CredentialGrant>, Stop> {
    let mut grants = BTreeMap::<String, CredentialGrant>::new();
    let followed = service.followed().and_then(McpSource::sent_credential);
    for sent in tools.filter_map(|tool| service.sent_credential(service.callable(tool)?)).chain(followed) {
        let SentCredential { auth, credential, base_url, path: template, headers: _, has_cookies: _ } = sent;
        // Documents with an invalid URL are rejected earlier.
        let Ok(base) = Url::parse(base_url) else { continue };
        let facts = secret(cluster, namespace, credential, path)?;
        let prefix = base.path().trim_end_matches('/');
        let tool_path = format!("{prefix}{}", template.split_once('?').map_or(template, |(path, _)| path));
        let usage = CredentialUse {
            host: base.host_str().unwrap_or_default(),
            port: base.port_or_known_default(),
            path: &tool_path,
            kind: auth.kind,
            name: auth.name.as_deref(),
        };
        let allowed: Vec<_> = facts.uses.iter().filter(|allowed| allowed.allows(&usage)).collect();
        if allowed.is_empty() {
            return Err(not_allowed(namespace, &credential.name, facts, &usage, path));
        }
        let grant = grants
            .entry(format!("{}/{}", credential.name, credential.key))
            .or_insert_with(|| CredentialGrant { handle: facts.handle(&credential.key), uses: Vec::new() });
        for allowed in allowed {
            if !grant.uses.contains(allowed) {
                grant.uses.push(allowed.clone());
            }
        }
    }
    Ok(grants)
}

/// Stops an exposition if a tool sends an account header in addition to a credential. A ConfigurationPlan may have combined the
/// two, so the manifest alone does not show it.
pub(super) fn check_headers<'t>(
    service: &ServiceDocument,
    tools: impl Iterator<Item = &'t String>,
    path: &FieldPath,
) -> Result<(), Stop> {
    for (name, tool) in tools.filter_map(|name| Some((name, service.callable(name)?))) {
        if let Some(header) = service.sent_credential(tool).and_then(account_header) {
            let message = format!("tool `{name}` sends its own `{header}` header in addition to `auth`");
            let remedy = "remove the header, or `auth`";
            return Err(Stop::new(Reason::InvalidManifest, path.clone(), message, remedy));
        }
    }
    Ok(())
}

fn account_header(sent: SentCredential<'_>) -> Option<&str> {
    let is_account = |name: &&String| ACCOUNT_HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header));
    sent.headers.keys().find(is_account).map(String::as_str).or(sent.has_cookies.then_some("Cookie"))
}

/// Returns a Secret that is labelled for upstreams and has the key.
fn secret<'c>(
    cluster: &Cluster<'c>,
    namespace: &str,
    CredentialRef { name, key }: &CredentialRef,
    path: &FieldPath,
) -> Result<&'c SecretFacts, Stop> {
    let label = names::CREDENTIALS_LABEL;
    let stop = |reason, message: String, remedy: String| Err(Stop::new(reason, path.clone(), message, remedy));
    let facts = match cluster.secrets.find(namespace, name) {
        SecretState::Found(facts) => facts,
        SecretState::Missing => return Err(missing(namespace, name, path.clone())),
        SecretState::Forbidden => return Err(forbidden(namespace, path.clone())),
        SecretState::Unlabelled => {
            let message = format!("Secret {namespace}/{name} is not labelled for use by Tamis");
            let remedy = format!(
                "label it `{label}: upstream`, and list its allowed uses in the annotation `{}`",
                names::ALLOWED_USE_ANNOTATION
            );
            return stop(Reason::SecretNotLabelled, message, remedy);
        }
    };
    if facts.role != SecretRole::Upstream {
        let message = format!("Secret {namespace}/{name} is labelled for callers and is never sent upstream");
        return stop(Reason::SecretNotLabelled, message, format!("use a Secret that is labelled `{label}: upstream`"));
    }
    if !facts.keys.contains(key) {
        let message = format!("Secret {namespace}/{name} has no key `{key}`");
        return stop(Reason::SecretNotFound, message, "add it".to_owned());
    }
    Ok(facts)
}

fn not_allowed(namespace: &str, name: &str, facts: &SecretFacts, usage: &CredentialUse<'_>, path: &FieldPath) -> Stop {
    let annotation = names::ALLOWED_USE_ANNOTATION;
    let mut message = match usage.line() {
        Some(line) => format!("Secret {namespace}/{name} may not be used as `{line}`"),
        None => format!("Secret {namespace}/{name} may not be used in this way"),
    };
    if let Some(line) = facts.invalid_uses.first() {
        message.push_str(&format!("; line {line} of its annotation `{annotation}` cannot be parsed"));
    }
    let remedy = match usage.line() {
        Some(line) => format!("ask its owner to add the line `{line}` to its annotation `{annotation}`"),
        None => "use a name without spaces and a path that begins with /".to_owned(),
    };
    Stop::new(Reason::SecretUseNotAllowed, path.clone(), message, remedy)
}

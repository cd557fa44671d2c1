//! The credentials that an exposition's published tools need, and whether their owners let them be sent there.

use std::collections::BTreeMap;

use tamis_config::{CredentialHandle, CredentialRef, ServiceDocument, Source, names};
use url::Url;

use super::access::{forbidden, missing};
use super::expose::Stop;
use crate::Reason;
use crate::cluster::{Cluster, SecretFacts, SecretRole, SecretState};
use crate::origin::FieldPath;

/// Handles by `name/key`, for the given tools of a service.
pub(super) fn resolve<'t>(
    cluster: &Cluster<'_>,
    namespace: &str,
    service: &ServiceDocument,
    tools: impl Iterator<Item = &'t String>,
    path: &FieldPath,
) -> Result<BTreeMap<String, CredentialHandle>, Stop> {
    let Source::Http(source) = &service.source else { return Ok(BTreeMap::new()) };
    let mut handles = BTreeMap::new();
    for tool in tools.filter_map(|tool| service.tools.get(tool)) {
        let auth = tool.http.auth.as_ref().or(source.auth.as_ref());
        let Some(credential) = auth.and_then(|auth| auth.credential.as_ref()) else { continue };
        let name = format!("{}/{}", credential.name, credential.key);
        if let std::collections::btree_map::Entry::Vacant(place) = handles.entry(name) {
            place.insert(handle(cluster, namespace, credential, &source.base_url, path)?);
        }
    }
    Ok(handles)
}

fn handle(
    cluster: &Cluster<'_>,
    namespace: &str,
    CredentialRef { name, key }: &CredentialRef,
    base_url: &str,
    path: &FieldPath,
) -> Result<CredentialHandle, Stop> {
    let label = names::CREDENTIALS_LABEL;
    let stop = |reason, message: String, remedy: String| Err(Stop::new(reason, path.clone(), message, remedy));
    let facts = match cluster.secrets.find(namespace, name) {
        SecretState::Found(facts) => facts,
        SecretState::Missing => return Err(missing(namespace, name, path.clone())),
        SecretState::Forbidden => return Err(forbidden(namespace, path.clone())),
        SecretState::Unlabelled => {
            let message = format!("Secret {namespace}/{name} does not take part");
            let remedy = format!(
                "label it `{label}: upstream`, and list the hosts it may be sent to in the annotation `{}`",
                names::ALLOWED_HOSTS_ANNOTATION
            );
            return stop(Reason::SecretNotLabelled, message, remedy);
        }
    };
    if facts.role != SecretRole::Upstream {
        let message = format!("Secret {namespace}/{name} is for callers, and never sent anywhere");
        return stop(Reason::SecretNotLabelled, message, format!("name one that is labelled `{label}: upstream`"));
    }
    if !facts.keys.contains(key) {
        let message = format!("Secret {namespace}/{name} has no key `{key}`");
        return stop(Reason::SecretNotFound, message, "add it".to_owned());
    }
    match Url::parse(base_url) {
        Ok(url) if may_go_to(facts, &url) => Ok(facts.handle(key)),
        url => {
            let host = url.ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
            let message = format!("Secret {namespace}/{name} may not be sent to {host}");
            let remedy = format!("add `{host}` to its annotation `{}`", names::ALLOWED_HOSTS_ANNOTATION);
            stop(Reason::SecretNotLabelled, message, remedy)
        }
    }
}

/// Whether the Secret's owner lists the host: by its name, by `*.` and a domain above it, with a port or without.
fn may_go_to(facts: &SecretFacts, url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let port = url.port_or_known_default();
    facts.allowed_hosts.iter().any(|entry| {
        // The colons of an IPv6 address are inside brackets.
        let (name, wanted) = match entry.rsplit_once(':') {
            Some((name, wanted)) if !wanted.ends_with(']') => (name, Some(wanted)),
            _ => (entry.as_str(), None),
        };
        let named = match name.strip_prefix("*.") {
            Some(domain) => {
                !domain.is_empty()
                    && host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            None => !name.is_empty() && name == host,
        };
        named && wanted.is_none_or(|wanted| wanted.parse().ok() == port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_where_its_owner_says() {
        let table = [
            ("", "https://api.example.com", false),
            ("api.example.com", "https://api.example.com", true),
            ("api.example.com", "https://API.example.com./v1", true),
            ("api.example.com", "https://api.example.com.evil.net", false),
            ("api.example.com", "https://example.com", false),
            ("example.com", "https://api.example.com", false),
            ("*.example.com", "https://api.example.com", true),
            ("*.example.com", "https://a.b.example.com", true),
            ("*.example.com", "https://example.com", false),
            ("*.example.com", "https://evilexample.com", false),
            ("*.", "https://example.com", false),
            ("*", "https://example.com", false),
            ("api.example.com:443", "https://api.example.com", true),
            ("api.example.com:8443", "https://api.example.com", false),
            ("api.example.com:8443", "https://api.example.com:8443", true),
            ("api.example.com:x", "https://api.example.com", false),
            ("api.example.com", "https://api.example.com:8443", true),
            ("[2001:db8::1]:443", "https://[2001:db8::1]", true),
            ("[2001:db8::1]", "https://[2001:db8::1]:1", true),
            ("a.example, b.example", "https://b.example", false),
        ];
        for (entry, url, expected) in table {
            let facts = SecretFacts {
                role: SecretRole::Upstream,
                keys: ["token".to_owned()].into(),
                allowed_hosts: vec![entry.to_owned()],
                version: "uid.1".to_owned(),
            };
            assert_eq!(may_go_to(&facts, &Url::parse(url).unwrap()), expected, "{entry} {url}");
        }
    }
}

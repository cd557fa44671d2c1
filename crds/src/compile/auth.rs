//! Authentication of requests, and header names.

use tamis_config::{Auth, AuthKind, CredentialRef};

use crate::origin::FieldPath;
use crate::read::is_secret_name;
use crate::resources::{AuthSpec, AuthType};
use crate::scribe::Scribe;

/// Checks an `auth` and makes the gateway's form of it. What is wrong is left as it is, since nothing is served then.
pub(super) fn compile(spec: &AuthSpec, at: &FieldPath, scribe: &mut Scribe<'_>) -> Auth {
    let kind = match spec.kind {
        AuthType::Header => AuthKind::Header,
        AuthType::Bearer => AuthKind::Bearer,
        AuthType::Basic => AuthKind::Basic,
        AuthType::Query => AuthKind::Query,
        AuthType::Body => AuthKind::Body,
        AuthType::None => AuthKind::None,
    };
    let word = match kind {
        AuthKind::Header => "header",
        AuthKind::Bearer => "bearer",
        AuthKind::Basic => "basic",
        AuthKind::Query => "query",
        AuthKind::Body => "body",
        AuthKind::None => "none",
    };
    let named = matches!(kind, AuthKind::Header | AuthKind::Query | AuthKind::Body);
    match &spec.name {
        None if named => {
            scribe.error(&at.key("name"), format!("type {word} needs a name"), "say where the credential goes");
        }
        Some(_) if !named => scribe.error(&at.key("name"), format!("type {word} takes no name"), "remove it"),
        Some(name) if kind == AuthKind::Header => header_name(name, &at.key("name"), scribe),
        Some(name) if name.is_empty() => scribe.error(&at.key("name"), "is empty", "say where the credential goes"),
        _ => {}
    }
    if spec.prefix.is_some() && kind != AuthKind::Header {
        scribe.error(&at.key("prefix"), format!("type {word} takes no prefix"), "remove it");
    }
    if let Some(prefix) = &spec.prefix {
        header_text(prefix, &at.key("prefix"), scribe);
    }
    if spec.username.is_some() && kind != AuthKind::Basic {
        scribe.error(&at.key("username"), format!("type {word} takes no username"), "remove it");
    }
    if spec.username.as_deref().is_some_and(|name| name.contains(':')) {
        scribe.error(&at.key("username"), "has a colon, which ends a user name", "remove it");
    }
    match (&spec.secret_ref, kind) {
        (None, AuthKind::None) => {}
        (None, _) => {
            scribe.error(&at.key("secretRef"), format!("type {word} needs a credential"), "add {name: .., key: ..}");
        }
        (Some(_), AuthKind::None) => scribe.error(&at.key("secretRef"), "type none takes no credential", "remove it"),
        (Some(reference), _) => {
            for (field, text) in [("name", &reference.name), ("key", &reference.key)] {
                if !is_secret_name(text) {
                    let remedy = "use a-z A-Z 0-9 - _ and . only";
                    scribe.error(&at.key("secretRef").key(field), "is not a name in Kubernetes", remedy);
                }
            }
        }
    }
    let credential = spec.secret_ref.as_ref().map(|r| CredentialRef { name: r.name.clone(), key: r.key.clone() });
    Auth { kind, name: spec.name.clone(), prefix: spec.prefix.clone(), username: spec.username.clone(), credential }
}

/// RFC 9110: a token; and none of those that the connection itself owns.
pub(super) fn header_name(name: &str, at: &FieldPath, scribe: &mut Scribe<'_>) {
    const OWNED: &[&str] = &[
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.chars().all(token) {
        scribe.error(at, "is not a header name", "use letters, digits and -");
    } else if OWNED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        scribe.error(at, "this header belongs to the connection", "remove it");
    }
}

/// No line ends and no other control characters.
pub(super) fn header_text(text: &str, at: &FieldPath, scribe: &mut Scribe<'_>) {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        scribe.error(at, "has a line end or another control character", "remove it");
    }
}

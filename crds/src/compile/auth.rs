//! Authentication of requests, and header names.

use tamis_config::{Auth, AuthKind, CredentialRef};

use crate::origin::FieldPath;
use crate::read::is_secret_name;
use crate::resources::{AuthSpec, AuthType, SecretKeyRef};
use crate::sink::DiagnosticSink;

/// Returns the kind of authentication as the gateway knows it.
pub(super) fn kind(of: AuthType) -> AuthKind {
    match of {
        AuthType::Header => AuthKind::Header,
        AuthType::Bearer => AuthKind::Bearer,
        AuthType::Basic => AuthKind::Basic,
        AuthType::Query => AuthKind::Query,
        AuthType::Body => AuthKind::Body,
        AuthType::None => AuthKind::None,
    }
}

/// Checks an `auth` and converts it for the gateway. Errors leave the result unspecified, because nothing is served then.
pub(super) fn compile(spec: &AuthSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Auth {
    let kind = kind(spec.kind);
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
            sink.error(
                &at.key("name"),
                format!("type {word} requires a name"),
                "name the header, query parameter or body member",
            );
        }
        Some(_) if !named => sink.error(&at.key("name"), format!("is not allowed for type {word}"), "remove it"),
        Some(name) if kind == AuthKind::Header => header_name(name, &at.key("name"), sink),
        Some(name) if name.is_empty() => {
            sink.error(&at.key("name"), "is empty", "name the header, query parameter or body member");
        }
        _ => {}
    }
    if spec.prefix.is_some() && kind != AuthKind::Header {
        sink.error(&at.key("prefix"), format!("is not allowed for type {word}"), "remove it");
    }
    if let Some(prefix) = &spec.prefix {
        header_text(prefix, &at.key("prefix"), sink);
    }
    if spec.username.is_some() && kind != AuthKind::Basic {
        sink.error(&at.key("username"), format!("is not allowed for type {word}"), "remove it");
    }
    if spec.username.as_deref().is_some_and(|name| name.contains(':')) {
        sink.error(&at.key("username"), "contains a colon, which would end the user name", "remove it");
    }
    match (&spec.secret_ref, kind) {
        (None, AuthKind::None) => {}
        (None, _) => {
            sink.error(&at.key("secretRef"), format!("type {word} requires a credential"), "set {name: .., key: ..}");
        }
        (Some(_), AuthKind::None) => sink.error(&at.key("secretRef"), "is not allowed for type none", "remove it"),
        (Some(_), _) => {}
    }
    let credential = spec.secret_ref.as_ref().map(|reference| match kind {
        AuthKind::None => CredentialRef { name: reference.name.clone(), key: reference.key.clone() },
        _ => secret(reference, &at.key("secretRef"), sink),
    });
    Auth { kind, name: spec.name.clone(), prefix: spec.prefix.clone(), username: spec.username.clone(), credential }
}

/// Checks a reference to a credential and converts it.
pub(super) fn secret(reference: &SecretKeyRef, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> CredentialRef {
    let SecretKeyRef { name, key } = reference;
    for (field, text) in [("name", name), ("key", key)] {
        if !is_secret_name(text) {
            sink.error(&at.key(field), "is not a valid Kubernetes name", "use only a-z A-Z 0-9 - _ and .");
        }
    }
    CredentialRef { name: name.clone(), key: key.clone() }
}

/// Returns whether a request may set a header of this name.
pub(super) fn is_request_header(name: &str) -> bool {
    header_name_problem(name).is_none()
}

/// Returns whether a text is a token (RFC 9110, 5.6.2), as the names of headers and of cookies (RFC 6265, 4.1.1) are.
pub(super) fn is_token(text: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(token)
}

/// Checks a header name: a token (RFC 9110) that is not managed by the connection.
pub(super) fn header_name(name: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if let Some((message, remedy)) = header_name_problem(name) {
        sink.error(at, message, remedy);
    }
}

fn header_name_problem(name: &str) -> Option<(&'static str, &'static str)> {
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
    let lower = name.to_ascii_lowercase();
    if !is_token(name) {
        Some(("is not a valid header name", "use letters, digits and -"))
    } else if OWNED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        Some(("this header is managed by the connection", "remove it"))
    } else {
        None
    }
}

/// Checks a header value: no line breaks and no other control characters.
pub(super) fn header_text(text: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        sink.error(at, "contains a line break or another control character", "remove it");
    }
}

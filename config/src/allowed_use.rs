//! How a Secret's owner says it may be used: the lines of the annotation `tamis.dev/allowed-use`.
//!
//! ```text
//! HOST[:PORT] TYPE [NAME [PATH]]
//!
//! api.example.com         bearer
//! *.example.com:8443      basic
//! api.example.com         header X-Api-Key
//! api.example.com         query  key
//! login.example.com       body   client_secret  /oauth/token
//! ```
//!
//! A host alone does not protect a credential: the same host usually has an address that returns, or publishes, what it
//! was sent in another field.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::AuthKind;

/// One line: a place of a request to one host that the credential may be put into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedUse {
    /// A host name or address, or `*.` and a domain, in lower case.
    host: String,
    /// None: any port.
    port: Option<u16>,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Bearer,
    Basic,
    /// In lower case.
    Header(String),
    Query(String),
    /// A member of the body of a request to one path. A segment `*` of the path stands for any one segment.
    Body {
        name: String,
        path: String,
    },
}

/// A request that a credential is about to be part of, or that a manifest describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialUse<'a> {
    /// The URL's host; an IPv6 address in brackets.
    pub host: &'a str,
    /// The URL's port, or its scheme's.
    pub port: Option<u16>,
    /// The URL's path, percent-encoded. A segment with `{` is a template's, which only `*` allows.
    pub path: &'a str,
    /// Where the credential goes.
    pub kind: AuthKind,
    /// The header, parameter or member.
    pub name: Option<&'a str>,
}

/// A line that is not an allowed use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `HOST[:PORT] bearer|basic`, `HOST[:PORT] header|query NAME` or `HOST[:PORT] body NAME PATH`")]
pub struct InvalidUse;

/// The uses that an annotation lists, and the numbers (from 1) of the lines that could not be read. Such a line allows
/// nothing. Empty lines and lines that begin with `#` are skipped.
#[must_use]
pub fn parse_uses(annotation: &str) -> (Vec<AllowedUse>, Vec<usize>) {
    let (mut uses, mut invalid) = (Vec::new(), Vec::new());
    for (index, line) in annotation.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.parse() {
            Ok(allowed) => uses.push(allowed),
            Err(InvalidUse) => invalid.push(index + 1),
        }
    }
    (uses, invalid)
}

impl AllowedUse {
    /// Whether the line allows this use.
    #[must_use]
    pub fn allows(&self, usage: &CredentialUse<'_>) -> bool {
        let CredentialUse { host, port, path, kind, name } = *usage;
        let Self { host: allowed_host, port: allowed_port, place } = self;
        let fits = match (place, kind, name) {
            (Place::Bearer, AuthKind::Bearer, _) | (Place::Basic, AuthKind::Basic, _) => true,
            (Place::Header(allowed), AuthKind::Header, Some(name)) => allowed.eq_ignore_ascii_case(name),
            (Place::Query(allowed), AuthKind::Query, Some(name)) => allowed == name,
            (Place::Body { name: allowed, path: allowed_path }, AuthKind::Body, Some(name)) => {
                allowed == name && path_matches(allowed_path, path)
            }
            _ => false,
        };
        fits && host_matches(allowed_host, host) && allowed_port.is_none_or(|allowed| Some(allowed) == port)
    }
}

impl CredentialUse<'_> {
    /// Returns the line that allows exactly this use. `None` if no line can: the path is not absolute, or the name
    /// contains a space.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let Self { host, port: _, path, kind, name } = *self;
        let host = host.trim_end_matches('.');
        let path = path.split('/').map(|segment| if segment.contains('{') { "*" } else { segment });
        let line = match (kind, name) {
            (AuthKind::Bearer, _) => format!("{host} bearer"),
            (AuthKind::Basic, _) => format!("{host} basic"),
            (AuthKind::Header, Some(name)) => format!("{host} header {name}"),
            (AuthKind::Query, Some(name)) => format!("{host} query {name}"),
            (AuthKind::Body, Some(name)) => {
                format!("{host} body {name} {}", path.collect::<Vec<_>>().join("/"))
            }
            _ => return None,
        };
        let allowed: AllowedUse = line.parse().ok()?;
        allowed.allows(self).then_some(line)
    }
}

fn host_matches(allowed: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match allowed.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => allowed == host,
    }
}

fn path_matches(allowed: &str, path: &str) -> bool {
    let (mut allowed, mut path) = (allowed.split('/'), path.split('/'));
    loop {
        match (allowed.next(), path.next()) {
            (None, None) => return true,
            // A segment may be anything but absent: `/a/*` does not allow `/a/`.
            (Some("*"), Some(segment)) if !segment.is_empty() => {}
            (Some(wanted), Some(segment)) if wanted == segment && !segment.contains('{') => {}
            _ => return false,
        }
    }
}

impl FromStr for AllowedUse {
    type Err = InvalidUse;

    fn from_str(line: &str) -> Result<Self, InvalidUse> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (target, rest) = words.split_first().ok_or(InvalidUse)?;
        let place = match rest {
            ["bearer"] => Place::Bearer,
            ["basic"] => Place::Basic,
            ["header", name] => Place::Header(name.to_ascii_lowercase()),
            ["query", name] => Place::Query((*name).to_owned()),
            ["body", name, path] if path.starts_with('/') && !path.contains(['?', '#', '{', '}']) => {
                Place::Body { name: (*name).to_owned(), path: (*path).to_owned() }
            }
            _ => return Err(InvalidUse),
        };
        // The colons of an IPv6 address are inside brackets.
        let (host, port) = match target.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().map_err(|_| InvalidUse)?)),
            _ => (*target, None),
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let name = host.strip_prefix("*.").unwrap_or(&host);
        let is_address = name.starts_with('[') && name.ends_with(']') && name == host;
        let forbidden: &[char] = if is_address { &['*', '/', '@'] } else { &['*', '/', '@', ':', '[', ']'] };
        if name.is_empty() || name.starts_with('.') || name.contains(forbidden) {
            return Err(InvalidUse);
        }
        Ok(Self { host, port, place })
    }
}

impl fmt::Display for AllowedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, place } = self;
        f.write_str(host)?;
        if let Some(port) = port {
            write!(f, ":{port}")?;
        }
        match place {
            Place::Bearer => f.write_str(" bearer"),
            Place::Basic => f.write_str(" basic"),
            Place::Header(name) => write!(f, " header {name}"),
            Place::Query(name) => write!(f, " query {name}"),
            Place::Body { name, path } => write!(f, " body {name} {path}"),
        }
    }
}

impl TryFrom<String> for AllowedUse {
    type Error = InvalidUse;

    fn try_from(line: String) -> Result<Self, InvalidUse> {
        line.parse()
    }
}

impl From<AllowedUse> for String {
    fn from(allowed: AllowedUse) -> Self {
        allowed.to_string()
    }
}

#[cfg(test)]
#[path = "allowed_use_tests.rs"]
mod tests;

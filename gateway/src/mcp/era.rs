//! The two eras of MCP, and the versions of each.

use std::fmt::Write as _;

use super::RpcError;

/// The versions that begin with `initialize`, oldest first.
pub(crate) const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The stateless versions.
pub(crate) const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];
/// The version of a request without a version header.
pub(crate) const ASSUMED: &str = "2025-03-26";
/// The only version that has JSON-RPC batches.
pub(crate) const BATCHES: &str = "2025-03-26";

/// The two forms of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Before 2026-07-28.
    Legacy,
    /// 2026-07-28 and later.
    Modern,
}

/// Returns the era of a message with this `MCP-Protocol-Version` header, this version in `_meta`, and this method. Serving
/// calls it in one place, `session::Transport::era`, which knows what each transport has of these.
///
/// Only the modern era has a version in `_meta`, so an unknown one there is a modern request of a version that is not
/// supported.
pub(crate) fn decide(header: Option<&str>, meta: Option<&str>, method: Option<&str>) -> Era {
    let modern = header.is_some_and(is_modern)
        || meta.is_some_and(|version| !LEGACY_VERSIONS.contains(&version))
        || method == Some("server/discover");
    if modern { Era::Modern } else { Era::Legacy }
}

/// Whether `version` is a date of the modern era, released or not.
fn is_modern(version: &str) -> bool {
    let dated = version.len() == 10
        && version.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    dated && version >= MODERN_VERSIONS[0]
}

/// Returns the version that a legacy request's header names.
///
/// # Errors
/// A header that names no released version: 400.
pub(crate) fn legacy_version(header: Option<&str>) -> Result<&'static str, RpcError> {
    let named = header.unwrap_or(ASSUMED);
    LEGACY_VERSIONS.into_iter().find(|v| *v == named).ok_or_else(|| unsupported(named))
}

/// Checks the version of a modern request.
///
/// # Errors
/// The version is not served: 400.
pub(crate) fn check_modern_version(version: &str) -> Result<(), RpcError> {
    if MODERN_VERSIONS.contains(&version) { Ok(()) } else { Err(unsupported(version)) }
}

/// Returns the version for the answer to `initialize`: the requested one if it is served, else the latest.
pub(crate) fn negotiate(requested: Option<&str>) -> &'static str {
    LEGACY_VERSIONS.into_iter().find(|v| Some(*v) == requested).unwrap_or(LEGACY_VERSIONS[LEGACY_VERSIONS.len() - 1])
}

/// The error for a version that is not served. It lists those that are.
fn unsupported(requested: &str) -> RpcError {
    let mut data = String::from(r#"{"supported":["#);
    for (i, version) in MODERN_VERSIONS.iter().enumerate() {
        let _ = write!(data, "{}\"{version}\"", if i == 0 { "" } else { "," });
    }
    data.push_str(r#"],"requested":"#);
    super::encode::string(&mut data, requested);
    data.push('}');
    RpcError::unsupported_version(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_era_follows_header_meta_and_method() {
        use Era::{Legacy, Modern};
        let cases = [
            (None, None, Some("tools/list"), Legacy),
            (None, None, None, Legacy),
            (None, None, Some("initialize"), Legacy),
            (None, None, Some("server/discover"), Modern),
            (Some("2025-06-18"), None, Some("tools/list"), Legacy),
            (Some("2025-06-18"), None, Some("server/discover"), Modern),
            (Some("2026-07-28"), None, Some("tools/list"), Modern),
            (Some("2026-07-28"), None, Some("initialize"), Modern),
            (Some("2026-07-27"), None, Some("tools/list"), Legacy),
            (Some("2031-01-01"), None, None, Modern),
            (None, Some("2026-07-28"), Some("tools/list"), Modern),
            (Some("2025-11-25"), Some("2026-07-28"), Some("tools/call"), Modern),
            (None, Some("2025-11-25"), Some("tools/call"), Legacy),
            (None, Some("1.0"), Some("tools/call"), Modern),
            (Some("zzz"), None, Some("tools/call"), Legacy),
        ];
        for (header, meta, method, era) in cases {
            assert_eq!(decide(header, meta, method), era, "{header:?} {meta:?} {method:?}");
        }
    }

    #[test]
    fn initialize_negotiates_what_is_known_and_else_the_latest() {
        for version in LEGACY_VERSIONS {
            assert_eq!(negotiate(Some(version)), version);
        }
        for version in [None, Some("2026-07-28"), Some("1999-01-01"), Some("")] {
            assert_eq!(negotiate(version), "2025-11-25");
        }
    }

    #[test]
    fn an_unknown_header_is_answered_with_the_versions_served() {
        assert_eq!(legacy_version(None).unwrap(), "2025-03-26");
        assert_eq!(legacy_version(Some("2025-06-18")).unwrap(), "2025-06-18");
        let error = legacy_version(Some("a\"b")).unwrap_err();
        assert_eq!((error.code, error.status), (-32022, 400));
        let data: serde_json::Value = serde_json::from_str(error.data.as_deref().unwrap()).unwrap();
        assert_eq!(data, serde_json::json!({"supported": ["2026-07-28"], "requested": "a\"b"}));
    }
}

//! `Origin` and `Host`: which web pages may call the gateway.
//!
//! A page of another site must not reach a server on loopback or in a private network through its visitor's browser. A
//! page whose host equals the request's `Host` may still be one: anyone can point a name here (DNS rebinding), but not an
//! address.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

/// Returns whether a request's `Origin` may call: none (no browser), loopback, a name that the gateway is configured with,
/// or the address that the request was sent to.
pub(crate) fn is_allowed(headers: &HeaderMap, hostnames: &[String]) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    let (Ok(origin), None) = (origin.to_str(), origins.next()) else { return false };
    let Ok(origin) = Uri::try_from(origin) else { return false };
    let (Some(scheme), Some(authority)) = (origin.scheme_str(), origin.authority()) else { return false };
    if !matches!(scheme, "http" | "https") || authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    if host.eq_ignore_ascii_case("localhost") || address.is_some_and(|a| a.is_loopback()) {
        return true;
    }
    if hostnames.iter().any(|name| name.eq_ignore_ascii_case(host)) {
        return true;
    }
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    address.is_some() && own.is_some_and(|own| own.eq_ignore_ascii_case(authority.as_str()))
}

/// Suffixes that public DNS does not have. Only a private network resolves the names below them, and names without a dot, so
/// that they cannot be pointed here from outside.
const PRIVATE: [&str; 5] = ["svc", "svc.cluster.local", "localhost", "internal", "local"];

/// Returns whether a request's `Host` is an address, loopback, a name that the gateway is configured with, or one that only a
/// private network resolves. A page that reaches the server under a name of its own (DNS rebinding) has that name in `Host`,
/// and sends no `Origin` with a `GET`.
pub(crate) fn host_is_allowed(headers: &HeaderMap, uri: &Uri, hostnames: &[String]) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let sent = match (hosts.next(), hosts.next()) {
        (Some(host), None) => match host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) {
            Some(authority) => Some(authority),
            None => return false,
        },
        (None, _) => None,
        (Some(_), Some(_)) => return false,
    };
    // HTTP/2 has the name in the URI. Browsers do not send requests without a name (HTTP/1.0).
    let named = uri.authority().into_iter().chain(&sent);
    named.into_iter().all(|authority| {
        let host = authority.host();
        let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_private = || {
            !host.contains('.')
                || PRIVATE.iter().any(|suffix| host.strip_suffix(suffix).is_some_and(|name| name.ends_with('.')))
        };
        let is_own = || hostnames.iter().any(|name| name.eq_ignore_ascii_case(&host));
        !authority.as_str().contains('@') && !host.is_empty() && (is_address || is_private() || is_own())
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn pages_of_other_sites_are_refused() {
        let cases = [
            (None, "evil.example", true),
            (Some("http://localhost:3000"), "x", true),
            (Some("https://LOCALHOST"), "x", true),
            (Some("http://127.0.0.1:8080"), "x", true),
            (Some("http://[::1]:8080"), "x", true),
            (Some("http://10.0.0.5:8080"), "10.0.0.5:8080", true),
            (Some("http://10.0.0.5:8080"), "10.0.0.5:9090", false),
            (Some("https://tools.example"), "x", true),
            (Some("http://evil.example"), "evil.example", false),
            (Some("http://evil.example"), "localhost", false),
            (Some("http://localhost.evil.example"), "x", false),
            (Some("http://127.0.0.1.evil.example"), "x", false),
            (Some("http://localhost@evil.example"), "x", false),
            (Some("http://user@localhost"), "x", false),
            (Some("null"), "x", false),
            (Some("file://localhost"), "x", false),
            (Some(""), "x", false),
        ];
        for (origin, host, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_allowed(&headers, &["tools.example".to_owned()]), expected, "{origin:?} {host}");
        }
        let mut twice = HeaderMap::new();
        twice.append(header::ORIGIN, HeaderValue::from_static("http://localhost"));
        twice.append(header::ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(!is_allowed(&twice, &[]));
    }

    #[test]
    fn hosts_that_others_can_name_are_refused() {
        let cases = [
            ("localhost:9090", true),
            ("LOCALHOST.", true),
            ("127.0.0.1:9090", true),
            ("10.1.2.3:9090", true),
            ("[::1]:9090", true),
            ("tamis:9090", true),
            ("tamis-public.team-a.svc:9090", true),
            ("tamis-public.team-a.svc.cluster.local", true),
            ("gateway.internal", true),
            ("x.localhost", true),
            ("tools.example", true),
            ("TOOLS.example:8080", true),
            ("evil.example:9090", false),
            ("tools.example.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1.nip.io", false),
            ("localhost.evil.example", false),
            ("evilsvc.example", false),
            ("evil.notinternal", false),
            ("user@localhost", false),
            ("evil.example#localhost", false),
            ("", false),
            (".", false),
            ("a b", false),
        ];
        let names = ["tools.example".to_owned()];
        let plain = Uri::from_static("/metrics");
        for (host, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            assert_eq!(host_is_allowed(&headers, &plain, &names), expected, "{host}");
        }
        let mut headers = HeaderMap::new();
        assert!(host_is_allowed(&headers, &plain, &names));
        assert!(!host_is_allowed(&headers, &Uri::from_static("http://evil.example/metrics"), &names));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!host_is_allowed(&headers, &Uri::from_static("http://evil.example/metrics"), &names));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!host_is_allowed(&headers, &plain, &names));
    }
}

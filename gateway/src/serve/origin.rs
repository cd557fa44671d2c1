//! `Origin`: which web pages may talk to the gateway.
//!
//! A page of another site must not reach a server on loopback or in a private network through its visitor's browser.
//! That the page's host equals the request's `Host` proves nothing: a name can be made to point here (DNS rebinding),
//! an address cannot.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

/// Whether a request may be answered, by its `Origin`: none (no browser), loopback, a name that the gateway is
/// configured with, or the very address that the request was sent to.
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
}

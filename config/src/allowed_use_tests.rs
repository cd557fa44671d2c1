use super::*;

/// `https://HOST[:PORT]PATH` as a use of some kind.
fn usage<'a>(host: &'a str, port: u16, path: &'a str, kind: AuthKind, name: Option<&'a str>) -> CredentialUse<'a> {
    CredentialUse { host, port: Some(port), path, kind, name }
}

fn allows(line: &str, usage: &CredentialUse<'_>) -> bool {
    parse_uses(line).0.iter().any(|allowed| allowed.allows(usage))
}

#[test]
fn a_host_is_allowed_as_it_is_written() {
    for (line, host, port, expected) in [
        ("", "api.example.com", 443, false),
        ("api.example.com bearer", "api.example.com", 443, true),
        ("API.Example.com bearer", "api.example.com.", 443, true),
        ("api.example.com bearer", "api.example.com.evil.net", 443, false),
        ("api.example.com bearer", "example.com", 443, false),
        ("example.com bearer", "api.example.com", 443, false),
        ("*.example.com bearer", "api.example.com", 443, true),
        ("*.example.com bearer", "a.b.example.com", 443, true),
        ("*.example.com bearer", "example.com", 443, false),
        ("*.example.com bearer", "evilexample.com", 443, false),
        ("*. bearer", "example.com", 443, false),
        ("* bearer", "example.com", 443, false),
        ("api.example.com:443 bearer", "api.example.com", 443, true),
        ("api.example.com:8443 bearer", "api.example.com", 443, false),
        ("api.example.com:x bearer", "api.example.com", 443, false),
        ("api.example.com bearer", "api.example.com", 8443, true),
        ("[2001:db8::1]:443 bearer", "[2001:db8::1]", 443, true),
        ("[2001:db8::1] bearer", "[2001:db8::1]", 1, true),
        ("https://api.example.com bearer", "api.example.com", 443, false),
        ("a.example bearer\n# other\n\n  b.example   bearer  ", "b.example", 443, true),
        ("a.example, b.example bearer", "b.example", 443, false),
    ] {
        let usage = usage(host, port, "/v1", AuthKind::Bearer, None);
        assert_eq!(allows(line, &usage), expected, "{line:?} {host}:{port}");
    }
}

#[test]
fn a_place_is_allowed_as_it_is_written() {
    let host = "api.example.com";
    for (line, kind, name, path, expected) in [
        // A host without a type is what the annotation of old allowed: it allows nothing.
        ("api.example.com", AuthKind::Bearer, None, "/", false),
        ("api.example.com bearer", AuthKind::Basic, None, "/", false),
        ("api.example.com bearer", AuthKind::Header, Some("Authorization"), "/", false),
        ("api.example.com header x-api-key", AuthKind::Header, Some("X-Api-Key"), "/", true),
        ("api.example.com header X-Api-Key", AuthKind::Header, Some("X-Other"), "/", false),
        ("api.example.com header", AuthKind::Header, Some("X-Api-Key"), "/", false),
        ("api.example.com query key", AuthKind::Query, Some("key"), "/", true),
        ("api.example.com query key", AuthKind::Query, Some("q"), "/", false),
        ("api.example.com query key", AuthKind::Query, Some("KEY"), "/", false),
        ("api.example.com body token", AuthKind::Body, Some("token"), "/login", false),
        ("api.example.com body token /login", AuthKind::Body, Some("token"), "/login", true),
        ("api.example.com body token /login", AuthKind::Body, Some("text"), "/login", false),
        ("api.example.com body token /login", AuthKind::Body, Some("token"), "/markdown", false),
        ("api.example.com body token /login", AuthKind::Body, Some("token"), "/login/", false),
        ("api.example.com body token /login", AuthKind::Body, Some("token"), "/v1/login", false),
        ("api.example.com body token /a/*/c", AuthKind::Body, Some("token"), "/a/b/c", true),
        ("api.example.com body token /a/*/c", AuthKind::Body, Some("token"), "/a/{id}/c", true),
        ("api.example.com body token /a/b/c", AuthKind::Body, Some("token"), "/a/{id}/c", false),
        ("api.example.com body token /a/*", AuthKind::Body, Some("token"), "/a/b/c", false),
        ("api.example.com body token /a/*", AuthKind::Body, Some("token"), "/a/", false),
        ("api.example.com body token login", AuthKind::Body, Some("token"), "login", false),
        ("api.example.com none", AuthKind::None, None, "/", false),
    ] {
        assert_eq!(allows(line, &usage(host, 443, path, kind, name)), expected, "{line:?} {kind:?} {name:?} {path}");
    }
}

#[test]
fn lines_that_cannot_be_read_are_counted() {
    let (uses, invalid) = parse_uses("api.example.com bearer\n\napi.example.com\n# comment\nx body y\n");
    assert_eq!((uses.len(), invalid), (1, vec![3, 5]));
}

#[test]
fn the_line_for_a_use_allows_it_and_survives_its_own_text() {
    for (kind, name, path, line) in [
        (AuthKind::Bearer, None, "/a", Some("api.example.com bearer")),
        (AuthKind::Basic, None, "/a", Some("api.example.com basic")),
        (AuthKind::Header, Some("X-Key"), "/a", Some("api.example.com header X-Key")),
        (AuthKind::Query, Some("key"), "/a", Some("api.example.com query key")),
        (AuthKind::Body, Some("token"), "/a/{id}", Some("api.example.com body token /a/*")),
        (AuthKind::Query, Some("a b"), "/a", None),
        (AuthKind::None, None, "/a", None),
    ] {
        let usage = usage("api.example.com", 443, path, kind, name);
        assert_eq!(usage.line().as_deref(), line);
        if let Some(line) = usage.line() {
            let allowed: AllowedUse = line.parse().unwrap();
            assert_eq!(allowed.to_string().parse(), Ok(allowed));
        }
    }
}

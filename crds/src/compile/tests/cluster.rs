//! What a cluster asks beyond files.

use tamis_config::{Access, FIRST_VERSION, Reason};

use super::world::{NAMESPACE, World, id, outcome, secret, served};
use crate::ObjectName;
use crate::cluster::SecretRole::{Callers, Upstream};

fn name(namespace: &str, name: &str) -> ObjectName {
    ObjectName { namespace: namespace.into(), name: name.into() }
}

#[test]
fn a_good_exposition_names_its_credentials() {
    let compilation = World::good().compile(None);
    let (document, service) = served(&compilation);
    assert_eq!((document.format_version, &document.service), (FIRST_VERSION, &service.digest()));
    let handle = "u1.1.".to_owned() + &tamis_config::Digest::of(b"token").0[..12];
    let credentials: Vec<_> = document.credentials.iter().map(|(name, grant)| (&**name, &*grant.handle.0)).collect();
    assert_eq!(credentials, [("api/token", handle.as_str())]);
    let Some(Access::ApiKeys { secret, handle: Some(handle) }) = &document.access else { panic!("{document:?}") };
    assert_eq!((secret.as_str(), handle.0.as_str()), ("partners", "c1.1.all"));
    assert_eq!(compilation.placements[&id()], name(NAMESPACE, "default"));
}

#[test]
fn only_what_published_tools_need_is_looked_for() {
    let mut world = World::good();
    world.secrets.remove("team-a/api");
    world.edit("ServiceManifest", "list: {path: /things,", "list: {path: /things, auth: {type: none},");
    assert_eq!(outcome(&world.compile(None)), "stop `SecretNotFound`");
    world.add("Exposition", "tools: {include: [list]}");
    let (document, _) = served(&world.compile(None));
    assert!(document.credentials.is_empty());
}

#[test]
fn who_may_call() {
    let table = [
        ("{anonymous: true}", "new"),
        ("{anonymous: false}", "stop `AccessRequired`"),
        ("{}", "stop `AccessRequired`"),
        ("{anonymous: true, apiKeys: {secretRef: {name: partners}}}", "stop `AccessRequired`"),
        ("{anonymous: false, apiKeys: {secretRef: {name: partners}}}", "new"),
        ("{jwt: {issuer: a}}", "unchanged"),
        ("{apiKeys: {secretRef: {name: ../partners}}}", "unchanged"),
    ];
    for (access, expected) in table {
        let mut world = World::good();
        world.edit("Exposition", "{apiKeys: {secretRef: {name: partners}}}", access);
        assert_eq!(outcome(&world.compile(None)), expected, "{access}");
    }
    for (access, expected) in
        [("{anonymous: true}", "stop `BelowGroupFloor`"), ("{apiKeys: {secretRef: {name: partners}}}", "new")]
    {
        let mut world = World::good();
        world.edit("Exposition", "{apiKeys: {secretRef: {name: partners}}}", access);
        world.add("GatewayGroup", "require: {access: true}");
        assert_eq!(outcome(&world.compile(None)), expected, "{access}, with a floor");
    }
}

#[test]
fn which_group_serves_and_from_where_it_takes() {
    let public = "gatewayGroup: {name: public, namespace: gateways}";
    let selector = "allowedNamespaces: {from: Selector, selector: {matchLabels: {team: a}}}";
    // What the exposition says, the default group of the operator, the group `gateways/public`; what comes of it.
    let table = [
        ("", None, None, "new in team-a/default"),
        ("", Some("public"), Some("allowedNamespaces: {from: All}"), "new in team-a/default"),
        (public, None, Some("allowedNamespaces: {from: All}"), "new in gateways/public"),
        (public, None, Some(""), "stop `RefNotPermitted`"),
        (public, None, Some("allowedNamespaces: {from: Same}"), "stop `RefNotPermitted`"),
        (public, None, Some(selector), "new in gateways/public"),
        (
            public,
            None,
            Some("allowedNamespaces: {from: Selector, selector: {matchLabels: {team: b}}}"),
            "stop `RefNotPermitted`",
        ),
        (public, None, Some("allowedNamespaces: {from: Selector}"), "unchanged"),
        (public, None, None, "stop `GatewayGroupNotFound`"),
        ("gatewayGroup: {name: other}", None, None, "stop `GatewayGroupNotFound`"),
        ("-", None, Some("allowedNamespaces: {from: All}"), "stop `GatewayGroupNotFound`"),
        ("-", Some("public"), Some("allowedNamespaces: {from: All}"), "new in gateways/public"),
        ("-", Some("public"), Some(""), "stop `RefNotPermitted`"),
        ("-", Some("public"), None, "stop `GatewayGroupNotFound`"),
        ("-", Some("public"), Some("allowedNamespaces: {from: All}, controllerName: example.com/b"), "unchanged"),
        (
            "-",
            Some("public"),
            Some("allowedNamespaces: {from: All}, controllerName: tamis.dev/operator"),
            "new in gateways/public",
        ),
    ];
    for (exposition, default, group, expected) in table {
        let mut world = World::good();
        world.namespaces.insert(NAMESPACE.to_owned(), [("team".to_owned(), "a".to_owned())].into());
        match exposition {
            "-" => world.remove("GatewayGroup"),
            "" => {}
            more => world.add("Exposition", more),
        }
        if let Some(group) = group {
            world.put("GatewayGroup", "gateways/public", group);
        }
        world.default_group = default.map(|group| name("gateways", group));
        let compilation = world.compile(None);
        let placed = compilation.placements.get(&id());
        let came = outcome(&compilation) + &placed.map(|group| format!(" in {group}")).unwrap_or_default();
        assert_eq!(came, expected, "{exposition} {default:?} {group:?}");
        assert_eq!(compilation.foreign.contains(&id()), group.is_some_and(|group| group.contains("example.com")));
        let held = compilation.held.get(&id()).is_some_and(|group| compilation.frozen.contains(group));
        assert_eq!(held, group == Some("allowedNamespaces: {from: Selector}"));
    }
}

#[test]
fn nothing_is_known_of_a_namespace_without_labels() {
    let mut world = World::good();
    world.add("GatewayGroup", "allowedNamespaces: {from: Selector, selector: {matchLabels: {}}}");
    assert_eq!(outcome(&world.compile(None)), "stop `RefNotPermitted`");
    world.namespaces.insert(NAMESPACE.to_owned(), [].into());
    assert_eq!(outcome(&world.compile(None)), "new");
}

#[test]
fn a_stopped_exposition_has_its_place_too() {
    let mut world = World::good();
    world.remove("ServiceManifest");
    let compilation = world.compile(None);
    assert_eq!(compilation.placements[&id()], name(NAMESPACE, "default"));
}

#[test]
fn the_oldest_group_of_a_namespace_holds() {
    let mut world = World::good();
    world.put("GatewayGroup", "second", "");
    world.put("GatewayGroup", "third", "controllerName: example.com/other");
    let compilation = world.compile(None);
    assert_eq!(outcome(&compilation), "new");
    let said: Vec<_> = compilation.diagnostics.iter().map(|d| (&*d.file, d.reason)).collect();
    assert_eq!(said, [("GatewayGroup team-a/second", Reason::Conflict)]);
}

#[test]
fn how_a_credential_is_used_decides() {
    const REFUSED: &str = "stop `SecretUseNotAllowed`";
    // The plan; the lines of the Secret; what comes of it, and the line that would allow it.
    let table = [
        ("", vec![], REFUSED, "api.example.com bearer"),
        ("", vec!["*.example.com bearer"], "new", ""),
        ("", vec!["api.example.com basic"], REFUSED, "api.example.com bearer"),
        ("", vec!["api.example.com query key", "api.example.com header X-Key"], REFUSED, "api.example.com bearer"),
        (
            "endpoint: 'https://staging.example.com'",
            vec!["api.example.com bearer"],
            REFUSED,
            "staging.example.com bearer",
        ),
        (
            "endpoint: 'https://api.example.com:8443'",
            vec!["api.example.com:443 bearer"],
            REFUSED,
            "api.example.com bearer",
        ),
        (
            "endpoint: 'https://staging.example.com'",
            vec!["api.example.com bearer", "staging.example.com bearer"],
            "new",
            "",
        ),
        ("endpoint: 'https://evil.net'", vec!["*.example.com bearer"], REFUSED, "evil.net bearer"),
        (
            "auth: {type: query, name: key, secretRef: {name: api, key: token}}",
            vec!["api.example.com bearer"],
            REFUSED,
            "api.example.com query key",
        ),
        (
            "auth: {type: query, name: q, secretRef: {name: api, key: token}}",
            vec!["api.example.com query key"],
            REFUSED,
            "api.example.com query q",
        ),
        (
            "auth: {type: query, name: key, secretRef: {name: api, key: token}}",
            vec!["api.example.com query key"],
            "new",
            "",
        ),
        (
            "auth: {type: header, name: X-Key, secretRef: {name: api, key: token}}",
            vec!["api.example.com header x-key"],
            "new",
            "",
        ),
        (
            "auth: {type: body, name: text, secretRef: {name: api, key: token}}",
            vec!["api.example.com bearer"],
            REFUSED,
            "api.example.com body text /things/*",
        ),
        (
            "auth: {type: body, name: text, secretRef: {name: api, key: token}}",
            vec!["api.example.com body text /login"],
            REFUSED,
            "api.example.com body text /things/*",
        ),
        (
            "endpoint: 'https://api.example.com/v2/', auth: {type: body, name: text, secretRef: {name: api, key: token}}",
            vec!["api.example.com body text /v2/things/*", "api.example.com body text /v2/things"],
            "new",
            "",
        ),
    ];
    for (plan, uses, expected, line) in table {
        let mut world = World::good();
        world.put_secret("api", secret(Upstream, &["token"], &uses, "u1.1"));
        if !plan.is_empty() {
            world.put("ConfigurationPlan", "prod", plan);
            world.add("Exposition", "configurationPlan: {name: prod}");
        }
        let compilation = world.compile(None);
        assert_eq!(outcome(&compilation), expected, "{plan} {uses:?}");
        if let Some(stopped) = compilation.snapshot.stopped.get(&id()) {
            assert!(stopped.message.contains(&format!("add the line `{line}` to its annotation")), "{stopped:?}");
        }
    }
}

#[test]
fn only_the_lines_that_are_used_reach_a_gateway() {
    let mut world = World::good();
    let uses = ["other.example.com bearer", "api.example.com bearer", "api.example.com basic"];
    world.put_secret("api", secret(Upstream, &["token"], &uses, "u1.1"));
    let (document, _) = served(&world.compile(None));
    let granted: Vec<_> = document.credentials["api/token"].uses.iter().map(ToString::to_string).collect();
    assert_eq!(granted, ["api.example.com bearer"]);
}

#[test]
fn an_account_of_the_manifest_does_not_meet_a_credential() {
    for header in ["Authorization", "AUTHORIZATION", "Cookie"] {
        let mut world = World::good();
        world.edit("ServiceManifest", "X-Team: a", &format!("{header}: mine"));
        assert_eq!(outcome(&world.compile(None)), "stop `InvalidManifest`", "{header}");
        // A manifest without `auth` may have such a header, until a plan brings a credential.
        let mut world = World::good();
        world.edit("ServiceManifest", "X-Team: a", &format!("{header}: mine"));
        world.edit("ServiceManifest", "auth: {type: bearer, secretRef: {name: api, key: token}}, ", "");
        assert_eq!(outcome(&world.compile(None)), "new", "{header}");
        world.put("ConfigurationPlan", "prod", "auth: {type: bearer, secretRef: {name: api, key: token}}");
        world.add("Exposition", "configurationPlan: {name: prod}");
        assert_eq!(outcome(&world.compile(None)), "stop `InvalidManifest`", "{header}");
    }
}

#[test]
fn an_exposition_must_fit_into_one_object() {
    // Text that does not shrink: digits of a simple generator.
    let mut state = 1_u64;
    let mut noise = |length: usize| -> String {
        let mut text = String::new();
        while text.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{:016x}", state.rotate_left(17)));
        }
        text
    };
    for (length, expected) in [(200 << 10, "new"), (900 << 10, "stop `TooLarge`")] {
        let mut world = World::good();
        let text = noise(length);
        world.edit("ToolsFilters", "{retain: [/a]}", &format!("{{text: {{onEmpty: '{text}'}}}}"));
        assert_eq!(outcome(&world.compile(None)), expected, "{length}");
    }
}

#[test]
fn two_of_a_name_the_oldest_holds() {
    let mut world = World::good();
    world.put("ServiceManifest", "t", "name: s, version: '1', http: {baseUrl: 'https://b.example', actions: {}}");
    world.put("ToolsFilters", "x", "name: n, service: {name: s, version: '1'}, filters: {get: {retain: [/x]}}");
    world.put("ToolsFilters", "y", "name: n, service: {name: s, version: '1'}, filters: {get: {retain: [/y]}}");
    world.add("Exposition", "filters: [n]");
    let compilation = world.compile(None);
    let errors = compilation.diagnostics.iter().filter(|d| d.is_error());
    let said: Vec<_> = errors.map(|d| (&*d.file, d.reason, &*d.message)).collect();
    assert_eq!(
        said,
        [
            (
                "ServiceManifest team-a/t",
                Reason::Conflict,
                "service s 1 is already defined in ServiceManifest team-a/s"
            ),
            (
                "ToolsFilters team-a/y",
                Reason::Conflict,
                "set `n` of this service is already defined in ToolsFilters team-a/x"
            ),
        ]
    );
    let (document, service) = served(&compilation);
    assert_eq!(document.tools["get"].filter_set.as_deref(), Some("team-a/x"));
    assert!(service.tools.contains_key("get"));
}

#[test]
fn callers_secrets_are_not_sent_and_upstream_ones_not_compared() {
    let mut world = World::good();
    world.put_secret("api", secret(Callers, &["token"], &["api.example.com bearer"], "u1.1"));
    assert_eq!(outcome(&world.compile(None)), "stop `SecretNotLabelled`");
}

//! Services as plans have them reached, and with the tools of CustomTools.

use tamis_config::{Call, HttpCall, Reason, ServiceDocument, Source};

use super::world::{World, id, outcome, secret, served};
use crate::Compilation;
use crate::cluster::SecretRole::Upstream;

/// What is said of objects of a kind.
fn said(compilation: &Compilation, kind: &str) -> Vec<(Reason, String)> {
    let of_kind = compilation.diagnostics.iter().filter(|d| d.file.starts_with(kind));
    of_kind.map(|d| (d.reason, format!("{}: {}", d.field, d.message))).collect()
}

fn planned(plan: &str) -> World {
    let mut world = World::good();
    world.put("ConfigurationPlan", "prod", plan);
    world.add("Exposition", "configurationPlan: {name: prod}");
    let uses = ["prod.example.com bearer", "api.example.com bearer", "api.example.com header X-Key"];
    world.put_secret("prod", secret(Upstream, &["token"], &uses, "p1.1"));
    world.put_secret(
        "api",
        secret(Upstream, &["token"], &["prod.example.com bearer", "api.example.com bearer"], "u1.1"),
    );
    world
}

/// The HTTP call of a tool.
fn http<'d>(service: &'d ServiceDocument, tool: &str) -> &'d HttpCall {
    let Call::Http(call) = &service.tools[tool].call else { panic!("{tool} has no HTTP call") };
    call
}

#[test]
fn a_plan_changes_how_the_upstream_is_reached() {
    // The plan; base URL, credentials, headers of the tool `get`, time for a call.
    let accept = "X-Team=a Accept=text/plain";
    let table = [
        ("{}", "https://api.example.com", "api/token", accept, 30_000),
        ("endpoint: 'https://prod.example.com/v2'", "https://prod.example.com/v2", "api/token", accept, 30_000),
        (
            "auth: {type: header, name: X-Key, secretRef: {name: prod, key: token}}",
            "https://api.example.com",
            "prod/token",
            accept,
            30_000,
        ),
        ("auth: {type: none}", "https://api.example.com", "", accept, 30_000),
        (
            "headers: {set: {x-team: b, X-New: 'a {b c}'}, remove: [accept]}",
            "https://api.example.com",
            "api/token",
            "x-team=b X-New=a {b c}",
            30_000,
        ),
        ("timeouts: {call: 1m}", "https://api.example.com", "api/token", accept, 60_000),
    ];
    for (plan, base_url, credentials, headers, timeout) in table {
        let world = planned(if plan == "{}" { "" } else { plan });
        let (document, service) = served(&world.compile(None));
        let Source::Http(source) = &service.source else { panic!("an HTTP API") };
        let found: Vec<_> = document.credentials.keys().map(String::as_str).collect();
        let sent = &http(&service, "get").request.headers;
        let sent: Vec<_> = sent.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            (&*source.base_url, found.join(" ").as_str(), sent.join(" ").as_str(), document.limits.timeout_ms),
            (base_url, credentials, headers, timeout),
            "{plan}"
        );
        assert_eq!(document.service, service.digest(), "{plan}");
    }
    let mut own = planned("timeouts: {call: 1m}");
    own.add("Exposition", "limits: {timeout: 5s}");
    assert_eq!(served(&own.compile(None)).0.limits.timeout_ms, 5_000, "the exposition comes first");
}

#[test]
fn a_plan_replaces_the_auth_of_every_action() {
    let mut world = planned("auth: {type: bearer, secretRef: {name: prod, key: token}}");
    world.edit("ServiceManifest", "list: {path: /things,", "list: {path: /things, auth: {type: none},");
    let (document, service) = served(&world.compile(None));
    assert!(["get", "list"].iter().all(|tool| http(&service, tool).auth.is_none()));
    assert_eq!(document.credentials.keys().collect::<Vec<_>>(), ["prod/token"]);
}

#[test]
fn a_plan_names_sets_where_the_exposition_does_not() {
    let strict =
        "name: strict, enforcement: Enforced, service: {name: s, version: '1'}, filters: {get: {retain: [/s]}}";
    for (more, plan, expected) in [
        ("", "filters: [strict]", Some("team-a/strict")),
        ("filters: []", "filters: [strict]", None),
        ("", "filters: []", None),
        ("", "", Some("team-a/base")),
    ] {
        let mut world = planned(plan);
        world.put("ToolsFilters", "strict", strict);
        if !more.is_empty() {
            world.add("Exposition", more);
        }
        let (document, _) = served(&world.compile(None));
        assert_eq!(document.tools["get"].filter_set.as_deref(), expected, "{more} {plan}");
    }
    let missing = planned("filters: [nobody]").compile(None);
    assert_eq!(outcome(&missing), "stop `FilterSetNotFound`");
    assert!(missing.snapshot.stopped[&id()].message.starts_with("spec.configurationPlan: "));
}

#[test]
fn what_is_wrong_with_a_plan_is_said_of_the_plan() {
    let table = [
        ("endpoint: 'http://prod.example.com'", "spec.endpoint: http is allowed for"),
        ("endpoint: 'https://u:p@prod.example.com'", "spec.endpoint: must have no user"),
        ("auth: {type: bearer}", "spec.auth.secretRef: type bearer requires"),
        ("headers: {set: {Authorization: x}}", "spec.headers.set.Authorization: documents must not"),
        ("headers: {set: {Host: x}}", "spec.headers.set.Host: this header is managed"),
        ("headers: {set: {X-A: '{id}'}}", "spec.headers.set.X-A: has a placeholder"),
        ("headers: {set: {X-A: \"a\\nb\"}}", "spec.headers.set.X-A: contains a line break"),
        ("headers: {set: {X-A: a, x-a: b}}", "spec.headers.set.x-a: occurs twice"),
        ("headers: {set: {X-A: a}, remove: [x-a]}", "spec.headers.remove[0]: is both set and removed"),
        ("headers: {remove: ['a b']}", "spec.headers.remove[0]: is not a valid header name"),
    ];
    for (plan, expected) in table {
        let compilation = planned(plan).compile(None);
        let said = said(&compilation, "ConfigurationPlan team-a/prod");
        assert!(said.len() == 1 && said[0].1.starts_with(expected), "{plan}: {said:?}");
        assert_eq!(outcome(&compilation), "stop `InvalidManifest`", "{plan}");
    }
}

#[test]
fn a_new_endpoint_never_meets_an_old_token() {
    let before = planned("endpoint: 'https://prod.example.com'").compile(None).snapshot;
    let mut world = planned("endpoint: 'https://new.example.com'");
    assert_eq!(outcome(&world.compile(Some(&before))), "stop `SecretUseNotAllowed`");
    world.put_secret("api", secret(Upstream, &["token"], &["new.example.com bearer"], "u1.2"));
    let (document, service) = served(&world.compile(Some(&before)));
    let Source::Http(source) = &service.source else { panic!("an HTTP API") };
    assert_eq!(source.base_url, "https://new.example.com");
    assert!(document.credentials["api/token"].handle.0.starts_with("u1.2."));
}

/// The world with these custom tools, as flow YAML.
fn custom(tools: &str) -> World {
    let mut world = World::good();
    world.put("CustomTools", "more", &format!("service: {{name: s, version: '1'}}, customTools: {{{tools}}}"));
    world
}

#[test]
fn an_alias_is_a_tool_of_its_own() {
    let mine = "mine: {tool: get, title: Mine, description: My thing, input: {type: object, properties: {n: {type: integer}}}, \
                arguments: {id: 'team-{n}', size: 5}}, same: {tool: list}";
    let compilation = custom(mine).compile(None);
    assert_eq!(outcome(&compilation), "new");
    let (document, service) = served(&compilation);
    assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get", "list", "mine", "same"]);
    let tool = &service.tools["mine"];
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (Some("Mine"), Some("My thing")));
    assert_eq!(tool.input_schema.as_str(), r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#);
    let alias = tool.alias().unwrap();
    assert_eq!(alias.tool, "get");
    let arguments = alias.arguments.as_ref().unwrap();
    assert_eq!((arguments["id"].as_str(), arguments["size"].as_str()), ("\"team-{n}\"", "5"));
    assert_eq!(service.tools["same"].input_schema, service.tools["list"].input_schema);
    assert_eq!(service.tools["same"].response_type, service.tools["list"].response_type);
}

#[test]
fn an_alias_sends_the_credential_of_the_tool_that_it_calls() {
    let mut world = custom("mine: {tool: get}");
    world.add("Exposition", "tools: {include: [mine]}");
    let (document, _) = served(&world.compile(None));
    assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["mine"]);
    assert_eq!(document.credentials.keys().collect::<Vec<_>>(), ["api/token"]);
    world.put_secret("api", secret(Upstream, &["token"], &["other.example.com bearer"], "u1.2"));
    assert_eq!(outcome(&world.compile(None)), "stop `SecretUseNotAllowed`");
}

#[test]
fn the_filter_of_an_alias() {
    type Sets = &'static [(&'static str, &'static str)];
    // The sets; where the filters of `get` and of `mine` come from.
    let table: [(Sets, &str, &str); 4] = [
        (&[("base", "get: {retain: [/a]}")], "base /a", "base /a"),
        (&[("base", "get: {retain: [/a]}, mine: {retain: [/m]}")], "base /a", "base /m"),
        (&[("base", "mine: {retain: [/m]}")], "-", "base /m"),
        (&[("base", "get: {retain: [/a]}"), ("other", "mine: {retain: [/o]}")], "base /a", "base /a"),
    ];
    for (sets, of_get, of_mine) in table {
        let mut world = custom("mine: {tool: get}");
        for (name, filters) in sets {
            world.put("ToolsFilters", name, &format!("service: {{name: s, version: '1'}}, filters: {{{filters}}}"));
        }
        let compilation = world.compile(None);
        let (document, _) = served(&compilation);
        let filter = |tool: &str| match document.tools[tool].filter.as_deref() {
            Some(tamis_engine::ToolFilter::Single(spec)) => {
                let set = document.tools[tool].filter_set.as_deref().unwrap_or_default();
                format!("{} {}", set.trim_start_matches("team-a/"), spec.retain.clone().unwrap_or_default().join(" "))
            }
            _ => "-".to_owned(),
        };
        assert_eq!((filter("get").as_str(), filter("mine").as_str()), (of_get, of_mine), "{sets:?}");
    }
}

#[test]
fn what_is_wrong_with_an_alias_is_said_of_it_and_the_rest_is_published() {
    let table = [
        ("'bad name': {tool: get}", Reason::InvalidManifest, "is not a valid tool name"),
        ("mine: {tool: nobody}", Reason::ToolNotFound, "service s has no tool `nobody`"),
        ("mine: {tool: get, input: {type: array}}", Reason::InvalidManifest, "is not an object schema"),
        ("mine: {tool: get, input: 5}", Reason::InvalidManifest, "is not an object schema"),
        (
            "mine: {tool: get, input: {type: object, properties: {id: {type: nonsense}}}}",
            Reason::InvalidManifest,
            "is not a type",
        ),
        (
            "mine: {tool: get, input: {type: object, properties: {id: {not: {pattern: '(a+)+\\1'}}}}}",
            Reason::InvalidManifest,
            "is not a regular expression that can be searched in linear time",
        ),
        (
            "mine: {tool: get, input: {type: object, properties: {id: {$ref: '#/properties/id'}}}}",
            Reason::InvalidManifest,
            "refers to itself without going deeper",
        ),
        (
            "mine: {tool: get, input: {type: object, properties: {id: {}, _budget: {}}}, arguments: {id: a}}",
            Reason::InvalidManifest,
            "names that begin with `_` are reserved",
        ),
        (
            "mine: {tool: get, input: {type: object, properties: {id: {}, team: {}}}}",
            Reason::InvalidManifest,
            "tool `get` has no such argument",
        ),
        (
            "mine: {tool: get, arguments: {id: a, nobody: b}}",
            Reason::InvalidManifest,
            "tool `get` has no such argument",
        ),
        ("mine: {tool: get, arguments: {id: '{nobody}'}}", Reason::InvalidManifest, "there is no argument `nobody`"),
        ("mine: {tool: get, arguments: {size: 1}}", Reason::InvalidManifest, "tool `get` requires the argument `id`"),
        ("get: {tool: list}", Reason::Conflict, "a tool of this name is already defined in ServiceManifest team-a/s"),
    ];
    for (tools, reason, expected) in table {
        let compilation = custom(&format!("{tools}, good: {{tool: list}}")).compile(None);
        let said = said(&compilation, "CustomTools team-a/more");
        assert!(said.len() == 1 && said[0].0 == reason && said[0].1.contains(expected), "{tools}: {said:?}");
        let (document, _) = served(&compilation);
        assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get", "list", "good"], "{tools}");
    }
}

#[test]
fn of_two_aliases_the_oldest_holds() {
    let mut world = custom("mine: {tool: get}");
    world.put(
        "CustomTools",
        "later",
        "service: {name: s, version: '1'}, customTools: {mine: {tool: list}, mine2: {tool: mine}}",
    );
    let compilation = world.compile(None);
    let (_, service) = served(&compilation);
    assert_eq!(service.tools["mine"].alias().unwrap().tool, "get");
    let reasons: Vec<_> =
        said(&compilation, "CustomTools team-a/later").into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, [Reason::Conflict, Reason::ToolNotFound], "an alias is made of a manifest's tool");
}

#[test]
fn aliases_that_are_lost_stop_nothing() {
    let good = custom("mine: {tool: get}, other: {tool: list}");
    let before = good.compile(None).snapshot;
    for tools in ["mine: {tool: nobody}", "mine: {tool: get}, nonsense: 1"] {
        let mut world = custom(tools);
        world.add("Exposition", "tools: {include: [get, mine]}");
        if tools.contains("nonsense") {
            world = custom("mine: {tool: get}");
            world.add("CustomTools", "nonsense: 1");
            world.add("Exposition", "tools: {include: [get, mine]}");
        }
        let compilation = world.compile(Some(&before));
        assert_eq!(outcome(&compilation), "tool mine is not published", "{tools}");
        assert_eq!(served(&compilation).0.tools.keys().collect::<Vec<_>>(), ["get"], "{tools}");
    }
}

#[test]
fn custom_tools_of_no_service_say_so() {
    let mut world = custom("mine: {tool: get}");
    world.edit("CustomTools", "version: '1'", "version: '2'");
    let compilation = world.compile(None);
    assert_eq!(said(&compilation, "CustomTools")[0].0, Reason::ServiceNotFound);
    assert_eq!(outcome(&compilation), "new");
}

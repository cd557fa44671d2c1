//! Services whose source is an MCP server.

use tamis_config::{AuthKind, Call, McpSource, Reason, Risk, Source};

use super::world::{World, id, outcome, secret, served};
use super::{CompileEnv, compile, parse_document, said};
use crate::cluster::SecretRole::Upstream;

/// A manifest with this `spec.mcp`, in flow YAML without braces, and an exposition of all its tools.
fn documents(mcp: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  \
         mcp: {{{mcp}}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: e}}\nspec: \
         {{service: {{name: s, version: '1'}}, filters: []}}\n"
    )
}

/// What is said of a manifest, without files and remedies.
fn findings(mcp: &str) -> Vec<String> {
    let parsed = parse_document("a.yaml", documents(mcp).as_bytes());
    let mut findings = parsed.diagnostics.clone();
    findings.extend(compile(&parsed.resources, &CompileEnv::default()).diagnostics);
    let own = findings.iter().filter(|finding| finding.field.starts_with("spec.mcp"));
    own.map(|finding| format!("{}:{} {}: {}", finding.line, finding.column, finding.field, finding.message)).collect()
}

fn tool(more: &str) -> String {
    format!("url: https://example.com/mcp, tools: {{t: {{inputSchema: {{type: object}}{more}}}}}")
}

#[test]
fn a_pinned_tool_is_kept_as_it_is_written() {
    let pinned = "title: T, description: D, outputSchema: {type: object, properties: {x: {maximum: 1.10}}}, \
                  annotations: {readOnlyHint: true, mine: [1.0]}, inputSchema: {type: object, properties: {_budget: \
                  {type: number, minimum: 1.0, $comment: 12345678901234567890123}}}";
    let text = documents(&format!("url: 'https://example.com/mcp', tools: {{a/b.c_d-e: {{{pinned}}}}}"));
    let parsed = parse_document("a.yaml", text.as_bytes());
    let compilation = compile(&parsed.resources, &CompileEnv::default());
    assert_eq!(said(&compilation), Vec::<String>::new());
    let service = compilation.snapshot.services.values().next().expect("is served");
    assert_eq!(service.format_version, 3);
    assert_eq!(
        service.source,
        Source::Mcp(McpSource {
            url: "https://example.com/mcp".to_owned(),
            auth: None,
            follow: false,
            headers: indexmap::IndexMap::new()
        })
    );
    assert_eq!(service.destinations(), ["https://example.com/mcp"]);
    let tool = &service.tools["a/b.c_d-e"];
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (Some("T"), Some("D")));
    assert_eq!(
        tool.input_schema.as_str(),
        r#"{"type":"object","properties":{"_budget":{"type":"number","minimum":1.0,"$comment":12345678901234567890123}}}"#
    );
    let output = tool.output_schema.as_ref().expect("is pinned");
    assert_eq!(output.as_str(), r#"{"type":"object","properties":{"x":{"maximum":1.10}}}"#);
    let Call::Mcp(call) = &tool.call else { panic!("a call of the server") };
    assert_eq!(call.tool, "a/b.c_d-e");
    assert_eq!(call.annotations.as_ref().expect("are pinned").as_str(), r#"{"readOnlyHint":true,"mine":[1.0]}"#);
}

#[test]
fn the_risk_follows_from_the_annotations() {
    let table = [
        ("", (true, true, false)),
        (", annotations: {}", (true, true, false)),
        (", annotations: {readOnlyHint: true}", (false, false, true)),
        (", annotations: {readOnlyHint: true, destructiveHint: true}", (false, false, true)),
        (", annotations: {readOnlyHint: true, idempotentHint: false}", (false, false, false)),
        (", annotations: {readOnlyHint: false}", (true, true, false)),
        (", annotations: {destructiveHint: false}", (true, false, false)),
        (", annotations: {destructiveHint: false, idempotentHint: true, openWorldHint: false}", (true, false, true)),
    ];
    for (annotations, (mutating, destructive, idempotent)) in table {
        let parsed = parse_document("a.yaml", documents(&tool(annotations)).as_bytes());
        let compilation = compile(&parsed.resources, &CompileEnv::default());
        let service = compilation.snapshot.services.values().next().expect("is served");
        assert_eq!(service.tools["t"].risk, Risk { mutating, destructive, idempotent }, "{annotations}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let table = [
        ("url: x, tools: {t: {inputSchema: {type: object}}}", "spec.mcp.url: is not a URL"),
        (
            "url: 'http://example.com/mcp', tools: {t: {inputSchema: {type: object}}}",
            "spec.mcp.url: http is allowed for loopback",
        ),
        (
            "url: 'https://example.com/mcp?key=a', tools: {t: {inputSchema: {type: object}}}",
            "spec.mcp.url: must have no query",
        ),
        (
            "url: 'https://a:b@example.com/mcp', tools: {t: {inputSchema: {type: object}}}",
            "spec.mcp.url: must have no user",
        ),
        ("url: 'https://example.com/mcp'", "spec.mcp.tools: is missing"),
        ("url: 'https://example.com/mcp', tools: {}", "spec.mcp.tools: pins no tool"),
        ("tools: {t: {inputSchema: {type: object}}}", "spec.mcp: has neither `url` nor `command`"),
        ("", "spec.mcp: has neither `url` nor `command`"),
        ("url: 'https://example.com/mcp', tools: {'a b': {inputSchema: {type: object}}}", "is not a valid tool name"),
        ("url: 'https://example.com/mcp', tools: {a: {}}", "spec.mcp.tools.a.inputSchema: is missing"),
        (&tool(", response: {}"), "spec.mcp.tools.t.response: unknown field"),
        (&tool(", annotations: []"), "spec.mcp.tools.t.annotations: is not an object"),
        (&tool(", annotations: {readOnlyHint: 'no'}"), "spec.mcp.tools.t.annotations.readOnlyHint: is neither"),
        (&tool(", annotations: {title: 1}"), "spec.mcp.tools.t.annotations.title: is not a string"),
        (
            &tool(", outputSchema: {properties: {x: {$ref: 'https://example.com/x'}}}"),
            "spec.mcp.tools.t.outputSchema.properties.x",
        ),
        (&tool(", outputSchema: {type: strin}"), "spec.mcp.tools.t.outputSchema"),
        (
            &tool("").replace("{type: object}", "{type: array}"),
            "6:51 spec.mcp.tools.t.inputSchema: is not an object schema",
        ),
        (
            &tool("").replace("type: object", "type: object, properties: {x: {$ref: 'https://example.com/x'}}"),
            "spec.mcp.tools.t.inputSchema.properties.x",
        ),
        (
            &tool("").replace("url: ", "auth: {type: body, name: x, secretRef: {name: a, key: b}}, url: "),
            "spec.mcp.auth.type: a message to an MCP server has no place",
        ),
        (
            &tool("")
                .replace("url: ", "auth: {type: header, name: MCP-Session-Id, secretRef: {name: a, key: b}}, url: "),
            "spec.mcp.auth.name: this header is part of the protocol",
        ),
        (
            &tool("").replace("url: ", "auth: {type: header, name: mcp-param-x, secretRef: {name: a, key: b}}, url: "),
            "spec.mcp.auth.name: this header is part of the protocol",
        ),
    ];
    for (mcp, expected) in table {
        let found = findings(mcp);
        assert!(found.len() == 1 && found[0].contains(expected), "{mcp}: {found:#?}");
    }
    for (kind, name) in [("header", "name: X-Key, "), ("bearer", ""), ("basic", ""), ("query", "name: key, ")] {
        let auth = format!("auth: {{type: {kind}, {name}secretRef: {{name: a, key: b}}}}, url: ");
        assert_eq!(findings(&tool("").replace("url: ", &auth)), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_manifest_has_one_source_and_a_bounded_number_of_tools() {
    let two = documents(&tool(""))
        .replace("  mcp:", "  http: {baseUrl: 'https://example.com', actions: {a: {path: /a}}}\n  mcp:");
    let parsed = parse_document("a.yaml", two.as_bytes());
    let compilation = compile(&parsed.resources, &CompileEnv::default());
    assert!(
        said(&compilation).iter().any(|line| line.contains("`http` and `mcp` are mutually exclusive")),
        "{compilation:#?}"
    );
    let many = |count: usize| {
        let tools: String = (0..count).map(|n| format!("t{n}: {{inputSchema: {{type: object}}}}, ")).collect();
        parse_document("a.yaml", documents(&format!("url: https://example.com, tools: {{{tools}}}")).as_bytes())
    };
    assert_eq!(many(5000).diagnostics, []);
    let said: Vec<_> = many(5001).diagnostics.iter().map(ToString::to_string).collect();
    assert!(said.len() == 1 && said[0].contains("spec.mcp.tools: has 5001 entries"), "{said:?}");
}

/// A cluster in which the service `s` is an MCP server.
fn world() -> World {
    let mut world = World::good();
    world.put(
        "ServiceManifest",
        "s",
        "version: '1', mcp: {url: 'https://mcp.example.com/mcp', auth: {type: bearer, secretRef: {name: api, key: token}}, \
         tools: {get: {inputSchema: {type: object, properties: {id: {type: string}}}}, list: {inputSchema: {type: object}}}}",
    );
    world.put_secret("api", secret(Upstream, &["token"], &["mcp.example.com bearer"], "u1.1"));
    world
}

#[test]
fn the_owner_of_a_secret_allows_its_use_at_the_servers_host() {
    let mut world = world();
    let (document, _) = served(&world.compile(None));
    assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get", "list"]);
    assert_eq!(document.credentials.keys().collect::<Vec<_>>(), ["api/token"]);
    for uses in [&["api.example.com bearer"][..], &["mcp.example.com basic"], &[]] {
        world.put_secret("api", secret(Upstream, &["token"], uses, "u1.1"));
        assert_eq!(outcome(&world.compile(None)), "stop `SecretUseNotAllowed`", "{uses:?}");
    }
}

#[test]
fn an_address_that_the_group_may_not_call_stops_the_exposition() {
    for url in ["https://10.0.0.1/mcp", "http://mcp.team-b.svc/mcp", "http://127.0.0.1/mcp"] {
        let mut world = world();
        world.edit("ServiceManifest", "https://mcp.example.com/mcp", url);
        assert_eq!(outcome(&world.compile(None)), "stop `EgressDenied`", "{url}");
    }
}

#[test]
fn a_plan_changes_endpoint_authentication_and_headers() {
    let mut world = world();
    world.add("Exposition", "configurationPlan: {name: prod}");
    world.put_secret("prod", secret(Upstream, &["token"], &["prod.example.com header X-Key"], "p1.1"));
    let plan = "endpoint: 'https://prod.example.com/mcp', auth: {type: header, name: X-Key, secretRef: {name: prod, key: token}}";
    world.put("ConfigurationPlan", "prod", plan);
    let (document, service) = served(&world.compile(None));
    let Source::Mcp(McpSource { url, auth, .. }) = &service.source else { panic!("an MCP server") };
    assert_eq!(
        (url.as_str(), auth.as_ref().map(|auth| auth.kind)),
        ("https://prod.example.com/mcp", Some(AuthKind::Header))
    );
    assert_eq!(document.credentials.keys().collect::<Vec<_>>(), ["prod/token"]);
    for (plan, expected) in
        [("headers: {set: {X-A: a, x-b: b}}", vec![("X-A", "a"), ("x-b", "b")]), ("headers: {remove: [X-A]}", vec![])]
    {
        world.put("ConfigurationPlan", "prod", plan);
        let compilation = world.compile(None);
        let (document, service) = served(&compilation);
        let Source::Mcp(McpSource { headers, .. }) = &service.source else { panic!("an MCP server") };
        let found: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{plan}");
        assert_eq!(document.service, service.digest());
    }
    for (plan, expected) in [
        ("headers: {set: {Mcp-Session-Id: a}}", "the plan's `headers.set` cannot have Mcp-Session-Id for `mcp`"),
        ("headers: {set: {accept: a}}", "the plan's `headers.set` cannot have accept for `mcp`"),
        ("headers: {set: {Mcp-Param-X: a}}", "the plan's `headers.set` cannot have Mcp-Param-X for `mcp`"),
        ("auth: {type: body, name: x, secretRef: {name: prod, key: token}}", "the plan's `auth.type` cannot be used"),
        (
            "auth: {type: header, name: Accept, secretRef: {name: prod, key: token}}",
            "the plan's `auth.name` cannot be used",
        ),
    ] {
        world.put("ConfigurationPlan", "prod", plan);
        let compilation = world.compile(None);
        assert_eq!(outcome(&compilation), "stop `InvalidManifest`", "{plan}");
        let message = &compilation.snapshot.stopped[&id()].message;
        assert!(message.starts_with("spec.configurationPlan: ") && message.contains(expected), "{message}");
    }
}

#[test]
fn custom_tools_wrap_pinned_tools() {
    let mut world = world();
    let mine =
        "mine: {tool: get, input: {type: object, properties: {n: {type: integer}}}, arguments: {id: 'team-{n}'}}";
    world.put("CustomTools", "more", &format!("service: {{name: s, version: '1'}}, customTools: {{{mine}}}"));
    let (document, service) = served(&world.compile(None));
    assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get", "list", "mine"]);
    let mine = &service.tools["mine"];
    assert_eq!(mine.alias().map(|alias| alias.tool.as_str()), Some("get"));
    assert_eq!(mine.risk, service.tools["get"].risk);
    assert!(service.called(mine).is_some_and(|tool| matches!(tool.call, Call::Mcp(_))));
    world.put("CustomTools", "more", "service: {name: s, version: '1'}, customTools: {mine: {tool: got}}");
    let said: Vec<_> =
        world.compile(None).diagnostics.into_iter().map(|finding| (finding.reason, finding.remedy)).collect();
    assert!(said.contains(&(Reason::ToolNotFound, "did you mean `get`?".to_owned())), "{said:?}");
}

/// The cluster of [`world`] with a server that is followed.
fn followed() -> World {
    let mut world = world();
    let source =
        "url: 'https://mcp.example.com/mcp', auth: {type: bearer, secretRef: {name: api, key: token}}, follow: true";
    world.put("ServiceManifest", "s", &format!("version: '1', mcp: {{{source}}}"));
    world
}

#[test]
fn a_followed_server_has_filters_for_tools_that_it_may_list() {
    let mut world = followed();
    let filters = "filters: {get: {retain: [/a]}, later: {maxItems: 3}, 'not a tool': {maxItems: 3}}";
    world.put("ToolsFilters", "base", &format!("service: {{name: s, version: '1'}}, {filters}"));
    world.add("Exposition", "tools: {include: ['get*', later], exclude: [get-secret]}");
    let compilation = world.compile(None);
    assert_eq!(said(&compilation), Vec::<String>::new());
    let (document, service) = served(&compilation);
    assert_eq!((document.format_version, service.format_version), (4, 4));
    assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get", "later", "not a tool"]);
    assert!(service.tools.is_empty() && service.followed().is_some());
    let follow = document.follow.as_ref().expect("is followed");
    for (tool, selected) in
        [("get", true), ("get-issue", true), ("get-secret", false), ("later", true), ("write", false)]
    {
        assert_eq!(follow.selects(tool), selected, "{tool}");
    }
    assert_eq!(document.credentials.keys().collect::<Vec<_>>(), ["api/token"], "although no tool is known");
    // A broken filter publishes nothing: the tool is left out, whatever the server lists.
    world.edit("ToolsFilters", "later: {maxItems: 3}", "later: {maxItems: -3}");
    let compilation = world.compile(None);
    let (document, _) = served(&compilation);
    assert!(!document.follow.as_ref().expect("is followed").selects("later"));
    // After a good version, that one stays.
    let mut before = followed();
    before.put("ToolsFilters", "base", &format!("service: {{name: s, version: '1'}}, {filters}"));
    let good = before.compile(None).snapshot;
    let compilation = world.compile(Some(&good));
    let (document, _) = served(&compilation);
    assert!(document.tools.contains_key("later") && document.tools["later"].filter.is_some());
}

#[test]
fn what_needs_pinned_tools_refuses_a_followed_server() {
    let message = |world: &World| {
        let compilation = world.compile(None);
        assert_eq!(outcome(&compilation), "stop `InvalidManifest`");
        compilation.snapshot.stopped[&id()].message.clone()
    };
    let mut enforced = followed();
    enforced.add("Exposition", "enforcement: Enforced");
    let mut set = followed();
    set.edit("ToolsFilters", "filters:", "enforcement: Enforced, filters:");
    for world in [&enforced, &set] {
        let message = message(world);
        assert!(message.contains("`Enforced` needs tools that are pinned"), "{message}");
        assert!(message.contains("tamis import mcp"), "{message}");
    }
    let mut floor = followed();
    floor.add("GatewayGroup", "require: {enforced: true}");
    assert_eq!(outcome(&floor.compile(None)), "stop `BelowGroupFloor`");

    let mut custom = followed();
    custom.put("CustomTools", "more", "service: {name: s, version: '1'}, customTools: {mine: {tool: get}}");
    let said = said(&custom.compile(None));
    assert!(said.len() == 1 && said[0].contains("so its tools are not known"), "{said:?}");

    let mut nothing = followed();
    nothing.remove("ToolsFilters");
    assert_eq!(outcome(&nothing.compile(None)), "stop `FilterSetNotFound`");
    nothing.add("Exposition", "filters: []");
    let (document, _) = served(&nothing.compile(None));
    assert!(document.tools.is_empty() && document.follow.is_some());

    let both = findings("url: https://example.com/mcp, follow: true, tools: {t: {inputSchema: {type: object}}}");
    assert!(both.len() == 1 && both[0].contains("pins tools, but `follow: true`"), "{both:?}");
}

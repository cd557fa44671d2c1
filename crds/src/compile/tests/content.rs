//! Prompts and Resources.

use tamis_config::{
    Call, NamePatterns, PromptRole, PublishedContent, Reason, ResourceContent, ServiceContent, ServiceDocument,
};
use tamis_engine::{JsonText, ResponseType};

use super::world::{World, id, secret, served};
use super::{Compilation, CompileEnv, compile, parse_document, said};
use crate::cluster::SecretRole::Upstream;
use crate::compile::content::{MAX_CONTENT, MAX_PROMPT_BYTES, MAX_PROMPT_PARTS, MAX_VALUES};
use crate::compile::resources::MAX_RESOURCE_BYTES;

/// reShapr's own documents, as its pages write them: without `metadata` and `spec`.
const RESHAPR: &str = r"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: petstore}
spec:
  name: Petstore
  version: 1.0.0
  http: {baseUrl: 'https://api.acme.com/v1', actions: {pet: {path: '/pets/{name}', args: {name: {type: string, required: true}}}}}
---
apiVersion: reshapr.io/v1alpha1
kind: Prompts
service: {name: Petstore, version: 1.0.0}
prompts:
  list_pets:
    title: List the pets
    description: Browse the catalog to get all the pets
    result: Get all the pets from the catalog
  get_pet:
    arguments:
    - {name: name, description: The name of the pet, required: true}
    result: |-
      Get the pet named '${name}' ({name}), for $5, {other}, ${other}.
---
apiVersion: reshapr.io/v1alpha1
kind: Resources
service: {name: Petstore, version: 1.0.0}
resources:
  'file:///project/readme.md':
    name: README.MD
    mimeType: text/plain
    icons: [{src: 'file:///icon.png', mimeType: image/png, sizes: ['48x48']}]
    text: Hello
    annotations: {audience: [user], priority: 0.80}
  'file:///logo.png': {name: Logo, blob: AAEC}
resourceTemplates:
  'file:///project/src/{path}?mode=raw':
    name: Project Source File
    title: Files
---
apiVersion: reshapr.io/v1alpha1
kind: CustomTools
service: {name: Petstore, version: 1.0.0}
customTools:
  get_pet_by_name:
    tool: pet
    input: {type: object, properties: {pet: {type: string}}, required: [pet]}
    arguments: {name: 'the ${pet} for $5'}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: e}
spec: {service: {name: Petstore, version: 1.0.0}, filters: []}
";

fn compiled(text: &str) -> Compilation {
    let parsed = parse_document("a.yaml", text.as_bytes());
    assert!(!parsed.is_broken(), "{:#?}", parsed.diagnostics);
    compile(&parsed.resources, &CompileEnv::default())
}

fn service(compilation: &Compilation) -> &ServiceDocument {
    compilation.snapshot.services.values().next().expect("a service is served")
}

fn published(compilation: &Compilation) -> &PublishedContent {
    &compilation.snapshot.expositions.values().next().expect("is served").content
}

#[test]
fn documents_of_reshapr_become_prompts_resources_and_tools() {
    let compilation = compiled(RESHAPR);
    assert_eq!(
        said(&compilation),
        [
            "a.yaml:21:5: warning: prompts.get_pet.result: there is no argument `other`, so `{other}` is text; declare it in \
          `arguments`, or write a space after the brace to keep it as text"
        ]
    );
    let document = service(&compilation);
    assert_eq!(document.format_version, 4);
    let ServiceContent { prompts, resources, templates } = &document.content;
    assert_eq!(prompts["list_pets"].title.as_deref(), Some("List the pets"));
    let message = &prompts["get_pet"].messages[0];
    assert_eq!(message.role, PromptRole::User);
    assert_eq!(message.text, "Get the pet named '{name}' ({name}), for $5, {other}, ${other}.");
    assert!(prompts["get_pet"].arguments["name"].required);
    let readme = &resources["file:///project/readme.md"];
    assert_eq!(readme.content, ResourceContent::Text("Hello".to_owned()));
    let annotations = readme.info.annotations.as_ref().map(JsonText::as_str);
    assert_eq!(annotations, Some(r#"{"audience":["user"],"priority":0.80}"#));
    assert_eq!(resources["file:///logo.png"].content, ResourceContent::Blob("AAEC".to_owned()));
    let template = &templates["file:///project/src/{path}?mode=raw"];
    let Call::Http(call) = &template.read.call else { panic!("an HTTP call") };
    assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/project/src/{path}"));
    assert_eq!(call.request.query["mode"], "raw");
    assert_eq!(template.read.response_type, Some(ResponseType::Text));
    assert!(!template.read.risk.mutating && template.read.risk.idempotent);
    let Call::Alias(alias) = &document.tools["get_pet_by_name"].call else { panic!("an alias") };
    let arguments = alias.arguments.as_ref().expect("has arguments");
    assert_eq!(arguments["name"].as_str(), r#""the {pet} for $5""#);
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        *published(&compilation),
        PublishedContent {
            prompts: own(&["list_pets", "get_pet"]),
            resources: own(&["file:///project/readme.md", "file:///logo.png"]),
            templates: own(&["file:///project/src/{path}?mode=raw"]),
            ..PublishedContent::default()
        }
    );
}

#[test]
fn an_exposition_selects_by_name_and_by_uri() {
    // What is added to the exposition; prompts, resources and templates that are published, or why it is stopped.
    let table = [
        ("", Ok((2, 2, 1))),
        ("prompts: {include: [list_*]}", Ok((1, 2, 1))),
        ("prompts: {exclude: ['*']}, resources: {include: []}", Ok((0, 0, 0))),
        ("resources: {exclude: ['file:///project/*']}", Ok((2, 1, 0))),
        ("resources: {include: ['file:///project/src/{path}?mode=raw']}", Ok((2, 0, 1))),
        ("prompts: {exclude: [list_pet]}", Err(Reason::ToolNotFound)),
        ("resources: {include: ['file:///nothing']}", Err(Reason::ToolNotFound)),
        ("enforcement: Enforced", Ok((2, 2, 0))),
    ];
    for (more, expected) in table {
        let text = RESHAPR.replace("filters: []}", &format!("filters: [], {more}}}"));
        let compilation = compiled(&text);
        let found = match compilation.snapshot.stopped.values().next() {
            Some(stopped) => Err(stopped.reason),
            None => {
                let content = published(&compilation);
                Ok((content.prompts.len(), content.resources.len(), content.templates.len()))
            }
        };
        assert_eq!(found, expected, "{more}: {:#?}", said(&compilation));
        let warned = said(&compilation).iter().any(|line| line.contains("1 resource templates are not published"));
        assert_eq!(warned, more == "enforcement: Enforced", "{more}");
    }
}

/// A document with this below `spec`, in flow YAML without braces, and what is said about it.
fn findings(kind: &str, spec: &str) -> Vec<String> {
    let text = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec: {{version: '1', http: {{baseUrl: \
         'https://a.example', actions: {{get: {{path: /}}}}}}}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: {kind}\nmetadata: \
         {{name: a}}\nspec: {{service: {{name: s, version: '1'}}, {spec}}}\n"
    );
    let parsed = parse_document("a.yaml", text.as_bytes());
    let mut all: Vec<String> = parsed.diagnostics.iter().map(|d| format!("{}: {}", d.field, d.message)).collect();
    let compilation = compile(&parsed.resources, &CompileEnv::default());
    all.extend(compilation.diagnostics.iter().map(|d| format!("{}: {}", d.field, d.message)));
    all
}

#[test]
fn what_is_wrong_is_said_at_its_place() {
    let long = format!("p: {{result: '{}'}}", "x".repeat(MAX_PROMPT_BYTES + 1));
    let many = (0..=MAX_PROMPT_PARTS).map(|n| format!("{{name: a{n}}}")).collect::<Vec<_>>().join(",");
    let many = format!("p: {{arguments: [{many}], result: x}}");
    let values = (0..=MAX_VALUES.0).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(",");
    let values = format!("p: {{arguments: [{{name: a, enum: [{values}]}}], result: '{{a}}'}}");
    let prompts = (0..=MAX_CONTENT).map(|n| format!("p{n}: {{result: x}}")).collect::<Vec<_>>().join(",");
    for (prompts, expected) in [
        ("p: {result: []}", "spec.prompts.p.result: has 0 messages"),
        (
            "p: {result: '{a}', arguments: [{name: a}, {name: a}]}",
            "spec.prompts.p.arguments[1].name: argument `a` occurs twice",
        ),
        (
            "p: {result: '{a}', arguments: [{name: a, enum: [x], default: y}]}",
            "spec.prompts.p.arguments[0].default: is not one of `enum`",
        ),
        (
            "p: {result: x, arguments: [{name: a}]}",
            "spec.prompts.p.result: has no `{a}`, so the argument has no effect",
        ),
        (
            "p: {result: '{a}', arguments: [{name: 'a b'}]}",
            "spec.prompts.p.arguments[0].name: is not a valid argument name",
        ),
        ("p: {result: [{role: system, text: x}]}", "spec.prompts.p.result[0].role: unsupported value `system`"),
        (&long, "spec.prompts.p.result: has 262145 bytes, more than the limit of 262144"),
        (&many, "spec.prompts.p.arguments: has 65 entries, more than the limit of 64"),
        (&values, "spec.prompts.p.arguments[0].enum: has 257 values"),
        (&prompts, "spec.prompts: has 1001 entries, more than the limit of 1000"),
    ] {
        let found = findings("Prompts", &format!("prompts: {{{prompts}}}"));
        assert!(found.iter().any(|line| line == expected), "{expected}: {found:#?}");
    }
    let long = format!("resources: {{'a:/b': {{name: a, text: '{}'}}}}", "x".repeat(MAX_RESOURCE_BYTES + 1));
    let of = |uri: &str| format!("resourceTemplates: {{'{uri}': {{name: a}}}}");
    let field = |uri: &str| format!("spec.resourceTemplates[\"{uri}\"]: ");
    for (spec, expected) in [
        ("resources: {'a:/b': {name: a}}".to_owned(), "spec.resources[\"a:/b\"]: has no content".to_owned()),
        (
            "resources: {'a:/b': {name: a, text: x, blob: AA==}}".to_owned(),
            "spec.resources[\"a:/b\"].blob: `text` and `blob` are mutually exclusive".to_owned(),
        ),
        (
            "resources: {'a:/b': {name: a, blob: '?'}}".to_owned(),
            "spec.resources[\"a:/b\"].blob: is not base64".to_owned(),
        ),
        ("resources: {readme: {name: a, text: x}}".to_owned(), "spec.resources.readme: is not a URI".to_owned()),
        (
            "resources: {'a:/b': {name: a, text: x, annotations: [1]}}".to_owned(),
            "spec.resources[\"a:/b\"].annotations: is not an object".to_owned(),
        ),
        (
            "resources: {'a:/b': {name: a, text: x, annotations: {audience: [user, model]}}}".to_owned(),
            "spec.resources[\"a:/b\"].annotations.audience: is not a list of roles".to_owned(),
        ),
        (
            "resources: {'a:/b': {name: a, text: x, annotations: {priority: 5}}}".to_owned(),
            "spec.resources[\"a:/b\"].annotations.priority: is not a number from 0 to 1".to_owned(),
        ),
        (
            "resources: {'a:/b': {name: a, text: x, annotations: {lastModified: 2026}}}".to_owned(),
            "spec.resources[\"a:/b\"].annotations.lastModified: is not a text".to_owned(),
        ),
        (
            "resources: {'a:/b': {name: a, text: x, icons: [{src: 'https://a/b.png'}, {mimeType: image/png}]}}"
                .to_owned(),
            "spec.resources[\"a:/b\"].icons[1]: is not an icon".to_owned(),
        ),
        (long, "spec.resources[\"a:/b\"]: has 1048577 bytes of content, more than the limit of 1048576".to_owned()),
        (of("a://b/c"), field("a://b/c") + "has no variable"),
        (of("a:{b}"), field("a:{b}") + "has no path below which requests are sent"),
        (of("a://{b}/c"), field("a://{b}/c") + "has a variable before its path"),
        (of("a://b/{+c}"), field("a://b/{+c}") + "`{+c}` is not a simple variable"),
        (of("a://b/{c}{d}"), field("a://b/{c}{d}") + "has two variables without text between them"),
        (of("a://b/{c}/{c}"), field("a://b/{c}/{c}") + "has the variable `c` twice"),
        (of("a://b/../{c}"), field("a://b/../{c}") + "the path of its requests has a segment `.` or `..`"),
        (of("a://b/{c}#d"), field("a://b/{c}#d") + "has a fragment, which no request carries"),
        (of("a://b/{c}?{d}=1"), field("a://b/{c}?{d}=1") + "has a variable as the name of a query parameter"),
        (
            "resourceTemplates: {'a://b/{c}': {name: a, variables: {d: {enum: [x]}}}}".to_owned(),
            "spec.resourceTemplates[\"a://b/{c}\"].variables.d: the template has no `{d}`".to_owned(),
        ),
    ] {
        let found = findings("Resources", &spec);
        assert!(found.contains(&expected), "{expected}: {found:#?}");
    }
}

/// Of two with one name the older one holds, and an error leaves out no other.
#[test]
fn the_older_document_holds_and_errors_leave_out_no_other() {
    let mut world = World::good();
    let service = "service: {name: s, version: '1'}";
    world.put("Prompts", "old", &format!("{service}, prompts: {{a: {{result: old}}, b: {{result: b}}}}"));
    world.put(
        "Prompts",
        "new",
        &format!("{service}, prompts: {{a: {{result: new}}, c: {{result: []}}, d: {{result: d}}}}"),
    );
    world.put("Prompts", "lost", "service: {name: other, version: '1'}, prompts: {a: {result: x}}");
    let compilation = world.compile(None);
    let (exposition, document) = served(&compilation);
    assert_eq!(exposition.content.prompts, ["a", "b", "d"]);
    assert_eq!(document.content.prompts["a"].messages[0].text, "old");
    let found: Vec<_> = compilation.diagnostics.iter().map(|d| (&*d.file, d.reason, d.message.as_str())).collect();
    assert_eq!(
        found,
        [
            ("Prompts team-a/lost", Reason::ServiceNotFound, "service other 1 does not exist in namespace team-a"),
            ("Prompts team-a/new", Reason::Conflict, "is already defined in Prompts team-a/old"),
            ("Prompts team-a/new", Reason::InvalidManifest, "has 0 messages"),
        ]
    );
}

/// A template sends the credential of the service, so its owner has to allow it.
#[test]
fn a_template_has_the_credential_of_the_service() {
    let mut world = World::good();
    world.put(
        "Resources",
        "r",
        "service: {name: s, version: '1'}, resourceTemplates: {'a://b/docs/{page}': {name: docs}}",
    );
    world.add("Exposition", "tools: {include: []}");
    world.edit("Exposition", "access:", "filters: [], access:");
    let (exposition, _) = served(&world.compile(None));
    assert_eq!(exposition.credentials.keys().collect::<Vec<_>>(), ["api/token"]);
    world.put_secret("api", secret(Upstream, &["token"], &["other.example.com bearer"], "u1.2"));
    let compilation = world.compile(None);
    assert_eq!(compilation.snapshot.stopped[&id()].reason, Reason::SecretUseNotAllowed);
    // A plan changes how templates reach the upstream, as it does for tools.
    world.put("ConfigurationPlan", "p", "endpoint: 'https://other.example.com/v2', headers: {set: {X-A: b}}");
    world.add("Exposition", "configurationPlan: {name: p}");
    let (_, document) = served(&world.compile(None));
    let Call::Http(call) = &document.content.templates["a://b/docs/{page}"].read.call else { panic!("an HTTP call") };
    assert_eq!(call.request.headers["X-A"], "b");
}

#[test]
fn prompts_of_a_server_are_passed_on_under_advisory_only() {
    let mut world = World::good();
    world.remove("ServiceManifest");
    world.remove("ToolsFilters");
    world.put(
        "ServiceManifest",
        "s",
        "version: '1', mcp: {url: 'https://api.example.com/mcp', tools: {get: {inputSchema: {type: object}}}}",
    );
    world.edit("Exposition", "access:", "filters: [], access:");
    let all = Some(NamePatterns::default());
    let (exposition, _) = served(&world.compile(None));
    assert_eq!((&exposition.content.server_prompts, &exposition.content.server_resources), (&all, &all));
    assert_eq!(exposition.format_version, 4);
    world.add("Exposition", "prompts: {include: [a*], exclude: [ab]}, resources: {include: []}");
    let (exposition, _) = served(&world.compile(None));
    let patterns = exposition.content.server_prompts.as_ref().expect("are passed on");
    assert!(patterns.selects("aa") && !patterns.selects("ab") && !patterns.selects("b"));
    world.add("Exposition", "enforcement: Enforced");
    let compilation = world.compile(None);
    let (exposition, _) = served(&compilation);
    assert!(exposition.content.is_empty());
    let warned: Vec<_> = compilation.diagnostics.iter().map(|d| d.message.as_str()).collect();
    assert!(warned.contains(&"prompts of an MCP server are not published under Enforced"), "{warned:?}");
    assert!(!warned.iter().any(|text| text.starts_with("resources of")), "none were asked for: {warned:?}");
    world.put("Resources", "r", "service: {name: s, version: '1'}, resourceTemplates: {'a://b/{c}': {name: d}}");
    let said: Vec<_> = world.compile(None).diagnostics.iter().map(|d| d.message.clone()).collect();
    assert!(said.contains(&"a template is read by HTTP, and the service is an MCP server".to_owned()), "{said:?}");
}

//! What happens to an exposition when something that it needs is broken or gone. `docs/keep-or-stop.md` has the table.

use std::fmt::Write as _;
use std::path::Path;

use tamis_config::{Condition, Reason};

use super::config_maps::{API, map, name_it};
use super::world::{Secret, World, outcome, secret, served};
use crate::cluster::ConfigMapState;
use crate::cluster::SecretRole::{Callers, Upstream};

/// A situation, what makes it of the good world, what is served where nothing was served before, and where something was.
type Row = (&'static str, fn(&mut World), &'static str, &'static str);

const STALE_SERVICE: &str = "the last good service is served";
const STALE_SETS: &str = "filters cannot be read; the last good filters apply";
const UNKNOWN: &str = "nonsense: 1";

const SECTIONS: &[(&str, &[Row])] = &[
    (
        "The service",
        &[
            ("every resource is valid", |_| {}, "new", "new"),
            (
                "the ServiceManifest is missing",
                |w| w.remove("ServiceManifest"),
                "stop `ServiceNotFound`",
                "stop `ServiceNotFound`",
            ),
            (
                "the manifest is invalid (a path names an unknown argument)",
                |w| w.edit("ServiceManifest", "{id}", "{nobody}"),
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
            (
                "the manifest cannot be read (an unknown field)",
                |w| w.add("ServiceManifest", UNKNOWN),
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
            (
                "`tools` names a tool that does not exist",
                |w| w.add("Exposition", "tools: {exclude: [nobody]}"),
                "stop `ToolNotFound`",
                "stop `ToolNotFound`",
            ),
            (
                "the group's gateways may not call the upstream's address",
                |w| w.edit("ServiceManifest", "https://api.example.com", "https://10.0.0.1"),
                "stop `EgressDenied`",
                "stop `EgressDenied`",
            ),
        ],
    ),
    (
        "Documents in ConfigMaps",
        &[
            (
                "the service comes from a document in a ConfigMap",
                |w| stored(w, Some(map("api", "api.yaml", API))),
                "new",
                "new",
            ),
            (
                "the ConfigMap is missing, or has no label",
                |w| stored(w, None),
                "stop `ConfigMapNotFound`",
                STALE_SERVICE,
            ),
            (
                "the ConfigMap lacks the key",
                |w| stored(w, Some(map("api", "other.yaml", API))),
                "stop `ConfigMapNotFound`",
                STALE_SERVICE,
            ),
            (
                "the operator may not read ConfigMaps of the namespace",
                |w| stored(w, Some(ConfigMapState::Forbidden)),
                "stop `ConfigMapNotFound`",
                STALE_SERVICE,
            ),
            (
                "the document has a mistake, or cannot be unpacked",
                |w| stored(w, Some(map("api", "api.yaml", "openapi: 1.2.3"))),
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
            (
                "the quota of the namespace refuses the ConfigMap",
                |w| stored(w, Some(ConfigMapState::Refused("the quota is used up".to_owned()))),
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
        ],
    ),
    (
        "Filters",
        &[
            (
                "the only default set is missing, and the manifest has no filter",
                |w| w.remove("ToolsFilters"),
                "stop `FilterSetNotFound`",
                "stop `FilterSetNotFound`",
            ),
            (
                "the only default set is missing, and the manifest has a filter",
                |w| {
                    w.remove("ToolsFilters");
                    w.edit("ServiceManifest", "{type: array}", "{type: array, filter: {retain: [/a]}}");
                },
                "new",
                "new",
            ),
            (
                "the only default set is missing, and the exposition has `filters: []` (loosening waits half a second)",
                |w| {
                    w.remove("ToolsFilters");
                    w.add("Exposition", "filters: []");
                },
                "new",
                "new",
            ),
            (
                "a filter does not compile",
                |w| w.edit("ToolsFilters", "/a", "a"),
                "tool get is not published",
                "tool get uses its last good filter",
            ),
            (
                "a filter does not compile, and the enforcement has changed",
                |w| {
                    w.edit("ToolsFilters", "/a", "a");
                    w.add("Exposition", "enforcement: Enforced");
                },
                "tool get is not published",
                "tool get is not published",
            ),
            ("a default set cannot be read", |w| w.add("ToolsFilters", UNKNOWN), "stop `InvalidFilter`", STALE_SETS),
            (
                "a default set cannot be read, nor the name of its service",
                |w| w.edit("ToolsFilters", "version: '1'", "nonsense: 1"),
                "stop `InvalidFilter`",
                STALE_SETS,
            ),
            (
                "a set cannot be read that the exposition does not name in `filters`",
                |w| {
                    w.put("ToolsFilters", "other", "service: {name: s, version: '1'}, nonsense: 1");
                    w.edit(
                        "ToolsFilters",
                        "service: {name: s, version: '1'}, filters",
                        "name: base, service: {name: s, version: '1'}, filters",
                    );
                    w.add("Exposition", "filters: [base]");
                },
                "new",
                "new",
            ),
            (
                "a set that the exposition names is missing",
                |w| w.add("Exposition", "filters: [strict]"),
                "stop `FilterSetNotFound`",
                "stop `FilterSetNotFound`",
            ),
            (
                "a set that the exposition names cannot be read",
                |w| {
                    w.add("ToolsFilters", "name: strict, nonsense: 1");
                    w.add("Exposition", "filters: [strict]");
                },
                "stop `InvalidFilter`",
                STALE_SETS,
            ),
            (
                "a set that the exposition names cannot be read, nor the set's name",
                |w| {
                    w.add("ToolsFilters", "name: [strict]");
                    w.add("Exposition", "filters: [strict]");
                },
                "stop `FilterSetNotFound`",
                "stop `FilterSetNotFound`",
            ),
        ],
    ),
    (
        "ConfigurationPlan and CustomTools",
        &[
            (
                "the ConfigurationPlan is missing",
                |w| w.add("Exposition", "configurationPlan: {name: prod}"),
                "stop `PlanNotFound`",
                "stop `PlanNotFound`",
            ),
            (
                "the plan is invalid",
                |w| {
                    w.put("ConfigurationPlan", "prod", "endpoint: 'ftp://api.example.com'");
                    w.add("Exposition", "configurationPlan: {name: prod}");
                },
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
            (
                "the plan cannot be read",
                |w| {
                    w.put("ConfigurationPlan", "prod", UNKNOWN);
                    w.add("Exposition", "configurationPlan: {name: prod}");
                },
                "stop `InvalidManifest`",
                "filters cannot be read; the last good filters apply; the last good service is served",
            ),
            (
                "CustomTools have an error (their tools are not published)",
                |w| {
                    w.put(
                        "CustomTools",
                        "more",
                        "service: {name: s, version: '1'}, customTools: {mine: {tool: nobody}}",
                    );
                },
                "new",
                "new",
            ),
        ],
    ),
    (
        "The group",
        &[
            (
                "the GatewayGroup is missing",
                |w| w.remove("GatewayGroup"),
                "stop `GatewayGroupNotFound`",
                "stop `GatewayGroupNotFound`",
            ),
            ("the group cannot be read", |w| w.add("GatewayGroup", UNKNOWN), "unchanged", "unchanged"),
            (
                "the group belongs to another operator",
                |w| w.add("GatewayGroup", "controllerName: example.com/other"),
                "unchanged",
                "unchanged",
            ),
            (
                "the group does not allow expositions of the namespace",
                |w| w.add("GatewayGroup", "allowedNamespaces: {from: Selector, selector: {matchLabels: {a: b}}}"),
                "stop `RefNotPermitted`",
                "stop `RefNotPermitted`",
            ),
            (
                "the group is the second one in its namespace",
                |w| {
                    w.put("GatewayGroup", "second", "");
                    w.add("Exposition", "gatewayGroup: {name: second}");
                },
                "stop `Conflict`",
                "stop `Conflict`",
            ),
            (
                "the exposition does not meet the group's `require`",
                |w| w.add("GatewayGroup", "require: {enforced: true}"),
                "stop `BelowGroupFloor`",
                "stop `BelowGroupFloor`",
            ),
        ],
    ),
    (
        "Callers",
        &[
            (
                "the exposition has no `access`",
                |w| w.edit("Exposition", ", access: {apiKeys: {secretRef: {name: partners}}}", ""),
                "stop `AccessRequired`",
                "stop `AccessRequired`",
            ),
            (
                "the Secret with the callers' keys is missing",
                |w| drop(w.secrets.remove("team-a/partners")),
                "stop `SecretNotFound`",
                "stop `SecretNotFound`",
            ),
            (
                "the Secret with the callers' keys has no label",
                |w| w.put_secret("partners", Secret::Unlabelled),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "the Secret with the callers' keys is labelled for upstreams",
                |w| w.put_secret("partners", secret(Upstream, &["acme"], &[], "c1.1")),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "the operator may not read Secrets of the namespace",
                |w| w.put_secret("partners", Secret::Forbidden),
                "stop `RefNotPermitted`",
                "stop `RefNotPermitted`",
            ),
        ],
    ),
    (
        "Credentials of the upstream",
        &[
            (
                "the Secret is missing",
                |w| drop(w.secrets.remove("team-a/api")),
                "stop `SecretNotFound`",
                "stop `SecretNotFound`",
            ),
            (
                "the key in the Secret is missing",
                |w| w.put_secret("api", secret(Upstream, &["other"], &["api.example.com bearer"], "u1.2")),
                "stop `SecretNotFound`",
                "stop `SecretNotFound`",
            ),
            (
                "the Secret has no label",
                |w| w.put_secret("api", Secret::Unlabelled),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "the Secret is labelled for callers",
                |w| w.put_secret("api", secret(Callers, &["token"], &["api.example.com bearer"], "u1.1")),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "the Secret's owner does not allow its use at the host",
                |w| w.put_secret("api", secret(Upstream, &["token"], &["other.example.com bearer"], "u1.2")),
                "stop `SecretUseNotAllowed`",
                "stop `SecretUseNotAllowed`",
            ),
            (
                "the value of the Secret has changed",
                |w| w.put_secret("api", secret(Upstream, &["token"], &["api.example.com bearer"], "u1.2")),
                "new",
                "new",
            ),
        ],
    ),
    (
        "The exposition itself",
        &[(
            "the exposition cannot be read",
            |w| w.add("Exposition", UNKNOWN),
            "unchanged",
            "the exposition cannot be read; its last good version is served",
        )],
    ),
];

/// Lets the service be described by a key of a ConfigMap, which is in this state.
fn stored(world: &mut World, state: Option<ConfigMapState>) {
    name_it(world, "api.yaml");
    world.config_maps.extend(state.map(|state| ("team-a/api".to_owned(), state)));
}

const HEAD: &str = "# Keep or stop

This page shows what an exposition serves when something that it needs is broken or missing. A test generates it from the
table in `crds/src/compile/tests/keep_or_stop.rs` and checks each row.

Malformed configuration is invalid, never absent. A resource with an error keeps its last good version, if that version was
compiled under the current enforcement. If an exposition names something that does not exist or that it may not use, the
exposition stops: it answers 503 with the reason. Everything else in the exposition follows the current resources: a broken
filter delays no change to `access`, `tools` or `limits`, and a set that cannot be read delays no edit of a set whose
filters are in service. *New* means that the current resources are served; *unchanged* means that whatever was served before
stays, even if it was nothing.

A stopped exposition remembers nothing: when it may be served again, it is compiled from the resources of that time. A tool
whose filter is broken at that time is not published until the filter is fixed.

`tamis serve` behaves the same, with these differences. It needs no group, no `access` and no labels on Secrets; ConfigMaps need theirs. A broken
file keeps its previous content. A broken file without previous content counts as a default set that cannot be read, and its
expositions answer 503.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (section, rows) in SECTIONS {
        let _ = write!(
            page,
            "\n## {section}\n\n| situation | nothing was served | something was served |\n|---|---|---|\n"
        );
        for (what, _, fresh, then) in *rows {
            let _ = writeln!(page, "| {what} | {fresh} | {then} |");
        }
    }
    page
}

/// Whether compiling can fail for this reason: gateways decide the other conditions.
fn is_of_the_compiler(reason: Reason) -> bool {
    matches!(reason.condition(), Condition::Accepted | Condition::ResolvedRefs)
}

#[test]
fn each_situation_keeps_or_stops() {
    let good = World::good();
    let before = good.compile(None);
    assert_eq!((outcome(&before).as_str(), &before.diagnostics[..]), ("new", &[][..]));
    for (section, rows) in SECTIONS {
        for (what, change, fresh, then) in *rows {
            let mut world = good.clone();
            change(&mut world);
            assert_eq!(outcome(&world.compile(None)), *fresh, "{section}: {what}, nothing before");
            let after = world.compile(Some(&before.snapshot));
            assert_eq!(outcome(&after), *then, "{section}: {what}, something before\n{:#?}", after.diagnostics);
            // Compiled again over what came of it, it stays.
            let again = world.compile(Some(&after.snapshot));
            if !then.starts_with("stop") {
                assert_eq!(outcome(&again), *then, "{section}: {what}, once more");
            }
            for diagnostic in &after.diagnostics {
                let kind = diagnostic.file.split(' ').next().unwrap_or_default();
                assert!(diagnostic.file.contains(" team-a/"), "{diagnostic}");
                // Only the documents of APIs have lines.
                let is_stored = diagnostic.message.starts_with("ConfigMap team-a/api[api.yaml]:1:");
                let has_line = diagnostic.message.contains(":1") && !is_stored;
                assert!(kind.chars().all(char::is_alphabetic) && !has_line, "{diagnostic}");
                assert!(is_of_the_compiler(diagnostic.reason), "{diagnostic}");
            }
            for stopped in after.snapshot.stopped.values() {
                assert!(is_of_the_compiler(stopped.reason), "{stopped:?}");
            }
        }
    }
}

#[test]
fn the_page_shows_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/keep-or-stop.md");
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        std::fs::write(&path, page()).expect("docs can be written");
    }
    let stored = std::fs::read_to_string(&path).expect("docs/keep-or-stop.md is there");
    assert_eq!(stored, page(), "run with TAMIS_UPDATE=1");
}

#[test]
fn what_is_broken_delays_nothing_else() {
    let before = World::good().compile(None).snapshot;
    let broken: [fn(&mut World); 3] = [
        |w| w.edit("ToolsFilters", "/a", "a"),
        |w| w.add("ToolsFilters", UNKNOWN),
        |w| w.edit("ServiceManifest", "{id}", "{nobody}"),
    ];
    for (index, breaks) in broken.into_iter().enumerate() {
        let mut world = World::good();
        breaks(&mut world);
        world.add("Exposition", "limits: {concurrent: 3}, tools: {include: [get]}");
        world.put_secret("partners", secret(Callers, &["other"], &[], "c1.2"));
        let (document, _) = served(&world.compile(Some(&before)));
        let tamis_config::Access::ApiKeys { handle: Some(handle), .. } = document.access.as_ref().unwrap() else {
            panic!("{document:?}")
        };
        assert_eq!((document.limits.concurrent, handle.0.as_str()), (Some(3), "c1.2.all"), "{index}");
        assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get"], "{index}");
        assert!(document.tools["get"].filter.is_some(), "{index}");
    }
}

#[test]
fn a_set_that_cannot_be_read_freezes_only_what_it_may_hold() {
    let before = World::good().compile(None).snapshot;
    let mut world = World::good();
    world.edit("ToolsFilters", "{get: {retain: [/a]}}", "{get: {retain: [/b]}, list: {retain: [/b]}}");
    world.put("ToolsFilters", "other", "service: {name: s, version: '1'}, nonsense: 1");
    let compilation = world.compile(Some(&before));
    let (document, _) = served(&compilation);
    assert!(format!("{:?}", document.tools["get"]).contains("/b"), "the set that won for it can be read");
    assert!(document.tools["list"].filter.is_none(), "as it was: nobody knows whose filter it would be");
    assert_eq!(outcome(&compilation), STALE_SETS);

    // What is served of an Enforced set that cannot be read stays Enforced.
    let mut strict = World::good();
    strict.add("ToolsFilters", "enforcement: Enforced");
    let before = strict.compile(None).snapshot;
    strict.add("ToolsFilters", UNKNOWN);
    let (document, _) = served(&strict.compile(Some(&before)));
    assert_eq!(document, before.expositions[&super::world::id()]);
}

#[test]
fn filters_of_another_service_or_set_are_never_kept() {
    let before = World::good().compile(None).snapshot;
    let mut other = World::good();
    other.put(
        "ServiceManifest",
        "other",
        "version: '1', http: {baseUrl: 'https://api.example.com', actions: {get: {path: /x}}}",
    );
    other.put("ToolsFilters", "of-other", "service: {name: other, version: '1'}, filters: {get: {retain: [a]}}");
    other.edit("Exposition", "name: s,", "name: other,");
    assert_eq!(outcome(&other.compile(Some(&before))), "tool get is not published");

    let mut set = World::good();
    set.put("ToolsFilters", "strict", "name: strict, service: {name: s, version: '1'}, filters: {get: {retain: [a]}}");
    set.add("Exposition", "filters: [strict]");
    assert_eq!(outcome(&set.compile(Some(&before))), "tool get is not published");
}

#[test]
fn an_exposition_that_cannot_be_read_loses_what_is_revoked() {
    let before = World::good().compile(None).snapshot;
    let mut world = World::good();
    world.add("Exposition", UNKNOWN);
    world.put_secret("partners", secret(Callers, &["other"], &[], "c1.2"));
    world.put_secret("api", secret(Upstream, &["token"], &["api.example.com bearer"], "u1.2"));
    world.edit("ToolsFilters", "/a", "/b");
    let compilation = world.compile(Some(&before));
    let (document, _) = served(&compilation);
    assert!(format!("{:?}", document.access).contains("c1.2.all"));
    assert!(document.credentials["api/token"].handle.0.starts_with("u1.2."));
    assert!(format!("{:?}", document.tools["get"]).contains("/b"));
    assert!(!compilation.placements.contains_key(&super::world::id()), "it stays where it is");
    world.secrets.clear();
    assert_eq!(outcome(&world.compile(Some(&before))), "stop `SecretNotFound`");

    // A set that protects more now does so at once; one that is for another service now says nothing of this one.
    let mut stricter = World::good();
    stricter.add("Exposition", UNKNOWN);
    stricter.add("ToolsFilters", "enforcement: Enforced");
    let (document, _) = served(&stricter.compile(Some(&before)));
    assert_eq!(document.enforcement, tamis_engine::Enforcement::Enforced);
    assert_eq!(document.tools.keys().collect::<Vec<_>>(), ["get"], "what is bare is not published any more");
    let mut moved = World::good();
    moved.add("Exposition", UNKNOWN);
    moved.edit("ToolsFilters", "name: s,", "name: other,");
    moved.edit("ToolsFilters", "/a", "/b");
    assert_eq!(served(&moved.compile(Some(&before))).0, before.expositions[&super::world::id()]);
}

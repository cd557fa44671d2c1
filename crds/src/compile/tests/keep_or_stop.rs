//! What happens to an exposition when something that it needs is broken or gone. `docs/keep-or-stop.md` has the table.

use std::fmt::Write as _;
use std::path::Path;

use super::world::{Secret, World, outcome, secret, served};
use crate::Reason;
use crate::cluster::SecretRole::{Callers, Upstream};

/// A situation, what makes it of the good world, what is served where nothing was served before, and where something was.
type Row = (&'static str, fn(&mut World), &'static str, &'static str);

const STALE_SERVICE: &str = "the last good service is served";
const STALE_SETS: &str = "filters cannot be read, so the last good ones apply";
const UNKNOWN: &str = "nonsense: 1";

const SECTIONS: &[(&str, &[Row])] = &[
    (
        "The service",
        &[
            ("all is in order", |_| {}, "new", "new"),
            (
                "the ServiceManifest is gone",
                |w| w.remove("ServiceManifest"),
                "stop `ServiceNotFound`",
                "stop `ServiceNotFound`",
            ),
            (
                "the manifest is invalid (a path names no argument)",
                |w| w.edit("ServiceManifest", "{id}", "{nobody}"),
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
            (
                "the manifest cannot be read (a field that is not known)",
                |w| w.add("ServiceManifest", UNKNOWN),
                "stop `InvalidManifest`",
                STALE_SERVICE,
            ),
            (
                "`tools` names one that is not there",
                |w| w.add("Exposition", "tools: {exclude: [nobody]}"),
                "stop `ToolNotFound`",
                "stop `ToolNotFound`",
            ),
            (
                "the upstream is where the group's gateways may not call",
                |w| w.edit("ServiceManifest", "https://api.example.com", "https://10.0.0.1"),
                "stop `EgressDenied`",
                "stop `EgressDenied`",
            ),
        ],
    ),
    (
        "Filters",
        &[
            (
                "the only default set is gone, and no filter is in the manifest",
                |w| w.remove("ToolsFilters"),
                "stop `FilterSetNotFound`",
                "stop `FilterSetNotFound`",
            ),
            (
                "the same, and a filter is in the manifest",
                |w| {
                    w.remove("ToolsFilters");
                    w.edit("ServiceManifest", "{type: array}", "{type: array, filter: {retain: [/a]}}");
                },
                "new",
                "new",
            ),
            (
                "the same, and the exposition says `filters: []` (what loosens waits half a second)",
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
                "tool get has its last good filter",
            ),
            (
                "a filter does not compile, and enforcement is another",
                |w| {
                    w.edit("ToolsFilters", "/a", "a");
                    w.add("Exposition", "enforcement: Enforced");
                },
                "tool get is not published",
                "tool get is not published",
            ),
            ("a default set cannot be read", |w| w.add("ToolsFilters", UNKNOWN), "stop `InvalidFilter`", STALE_SETS),
            (
                "a default set cannot be read, nor what service it is for",
                |w| w.edit("ToolsFilters", "version: '1'", "nonsense: 1"),
                "stop `InvalidFilter`",
                STALE_SETS,
            ),
            (
                "another set cannot be read, and the exposition names its sets",
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
                "a set that it names is gone",
                |w| w.add("Exposition", "filters: [strict]"),
                "stop `FilterSetNotFound`",
                "stop `FilterSetNotFound`",
            ),
            (
                "a set that it names cannot be read",
                |w| {
                    w.add("ToolsFilters", "name: strict, nonsense: 1");
                    w.add("Exposition", "filters: [strict]");
                },
                "stop `InvalidFilter`",
                STALE_SETS,
            ),
            (
                "a set that it names cannot be read, nor its name",
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
        "The plan and further tools",
        &[
            (
                "the ConfigurationPlan is gone",
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
                "filters cannot be read, so the last good ones apply; the last good service is served",
            ),
            (
                "CustomTools are in error (the tools that they would make are not published)",
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
                "the GatewayGroup is gone",
                |w| w.remove("GatewayGroup"),
                "stop `GatewayGroupNotFound`",
                "stop `GatewayGroupNotFound`",
            ),
            ("the group cannot be read", |w| w.add("GatewayGroup", UNKNOWN), "left alone", "left alone"),
            (
                "the group is another operator's",
                |w| w.add("GatewayGroup", "controllerName: example.com/other"),
                "left alone",
                "left alone",
            ),
            (
                "the group takes no exposition of the namespace",
                |w| w.add("GatewayGroup", "allowedNamespaces: {from: Selector, selector: {matchLabels: {a: b}}}"),
                "stop `RefNotPermitted`",
                "stop `RefNotPermitted`",
            ),
            (
                "the group is the second of its namespace",
                |w| {
                    w.put("GatewayGroup", "second", "");
                    w.add("Exposition", "gatewayGroup: {name: second}");
                },
                "stop `Conflict`",
                "stop `Conflict`",
            ),
            (
                "the group requires more than the exposition has",
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
                "nothing is said of who may call",
                |w| w.edit("Exposition", ", access: {apiKeys: {secretRef: {name: partners}}}", ""),
                "stop `AccessRequired`",
                "stop `AccessRequired`",
            ),
            (
                "the Secret with the callers' keys is gone",
                |w| drop(w.secrets.remove("team-a/partners")),
                "stop `SecretNotFound`",
                "stop `SecretNotFound`",
            ),
            (
                "that Secret has no label",
                |w| w.put_secret("partners", Secret::Unlabelled),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "that Secret is for upstreams",
                |w| w.put_secret("partners", secret(Upstream, &["acme"], &[], "c1.1")),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "Secrets of the namespace may not be read",
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
                "the Secret is gone",
                |w| drop(w.secrets.remove("team-a/api")),
                "stop `SecretNotFound`",
                "stop `SecretNotFound`",
            ),
            (
                "the key in it is gone",
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
                "the Secret is for callers",
                |w| w.put_secret("api", secret(Callers, &["token"], &["api.example.com bearer"], "u1.1")),
                "stop `SecretNotLabelled`",
                "stop `SecretNotLabelled`",
            ),
            (
                "the Secret may not be used at the host",
                |w| w.put_secret("api", secret(Upstream, &["token"], &["other.example.com bearer"], "u1.2")),
                "stop `SecretUseNotAllowed`",
                "stop `SecretUseNotAllowed`",
            ),
            (
                "the Secret has another value",
                |w| w.put_secret("api", secret(Upstream, &["token"], &["api.example.com bearer"], "u1.2")),
                "new",
                "new",
            ),
        ],
    ),
    (
        "The exposition itself",
        &[(
            "it cannot be read",
            |w| w.add("Exposition", UNKNOWN),
            "left alone",
            "it cannot be read, so what was served of it stays",
        )],
    ),
];

const HEAD: &str = "# Keep or stop

What an exposition serves when something that it needs is broken or gone. Made by `crds/src/compile/tests/keep_or_stop.rs`
from its table, each row of which is a test.

Malformed is invalid, never absent: what is in error keeps its last good form, where that was made under today's enforcement.
Whatever an exposition names and does not find, or is not permitted, stops it: it answers 503 with the reason. All else in
it goes on to what the resources say today: a broken filter delays no change to `access`, `tools` or `limits`, and a set
that cannot be read holds up no edit of a set whose filters are served. *New* is what the resources say; *left alone* is
what is served now, be it nothing.

What is stopped remembers nothing: once it may be served again, it is made of what the resources say then. A tool whose
filter is broken at that time is not published until the filter is mended.

`tamis serve` decides alike, with these differences: it needs no group, no `access` and no labels on Secrets; a broken file
keeps what it said before; where nothing is known of a broken file, it stands for a default set that cannot be read, and an
exposition in it answers 503.
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
                assert!(kind.chars().all(char::is_alphabetic) && !diagnostic.message.contains(":1"), "{diagnostic}");
                assert!(Reason::ALL.contains(&diagnostic.reason));
            }
            for stopped in after.snapshot.stopped.values() {
                assert!(Reason::ALL.iter().any(|reason| reason.as_str() == stopped.reason), "{stopped:?}");
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

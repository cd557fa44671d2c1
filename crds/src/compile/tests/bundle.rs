//! Bundles: what they publish of their parts, and what is said about parts that they cannot publish.

use std::collections::BTreeSet;
use std::sync::Arc;

use tamis_config::{
    Access, BundleDocument, BundleLimits, BundlePart, Digest, ExpositionId, NamePatterns, OutputLimits,
    PublishedContent, Reason, Snapshot,
};

use super::world::{NAMESPACE, World, secret};
use super::{parse_document, said};
use crate::cluster::{PartState, PartTools, SecretRole};
use crate::{Bundled, Compilation, CompileEnv, Loaded, ObjectName, Paused, compile, diagnose};

fn all() -> ExpositionId {
    ExpositionId { namespace: NAMESPACE.into(), name: "all".into() }
}

/// The cluster of [`World::good`] with a bundle of `e`.
fn world() -> World {
    let mut world = World::good();
    world.put("Exposition", "all", "expositions: [{name: e, prefix: a_}], access: {anonymous: true}");
    world
}

fn bundle(compilation: &Compilation) -> &BundleDocument {
    compilation.snapshot.bundles.get(&all()).unwrap_or_else(|| panic!("{compilation:#?}"))
}

/// Adds a part that is compiled apart, with a prompt, a resource and a template of this service, and the prompts of its server.
fn content_part(world: &mut World, name: &str, service: &str) {
    let content = PublishedContent {
        prompts: vec!["review".to_owned()],
        resources: vec!["docs://a".to_owned()],
        templates: vec!["docs://b/{x}".to_owned()],
        server_prompts: Some(NamePatterns::default()),
        server_resources: None,
    };
    let tools = PartTools { content, service: Some(Digest::of(service.as_bytes())), ..PartTools::default() };
    let group = Some(ObjectName { namespace: NAMESPACE.into(), name: "default".into() });
    world.parts.insert(format!("team-a/{name}"), PartState::Served { group, tools: Arc::new(tools) });
}

/// The number of tools of the bundle, and the findings about it, each as a field and its reason.
fn outcome(compilation: &Compilation) -> String {
    let own = compilation.diagnostics.iter().filter(|d| d.file.contains("Exposition team-a/all"));
    let own: Vec<_> = own.map(|d| format!("{} {}", d.field, d.reason)).collect();
    match (compilation.bundled.get(&all()), compilation.snapshot.stopped.get(&all())) {
        (Some(bundled), None) => {
            let pending = if bundled.pending.is_empty() { "" } else { " and more" };
            format!("{}{pending} {}", bundled.tools, own.join(", ")).trim().to_owned()
        }
        (None, Some(stopped)) => format!("stop {}", stopped.reason),
        other => format!("{other:?} {}", own.join(", ")),
    }
}

#[test]
fn a_bundle_names_its_parts_and_holds_nothing_of_them() {
    let mut world = world();
    world.put_secret("friends", secret(SecretRole::Callers, &["bob"], &[], "f1.1"));
    world.put(
        "Exposition",
        "all",
        "expositions: [{name: e, prefix: a_}], access: {apiKeys: {secretRef: {name: friends}}}, limits: \
         {requestsPerSecond: 5, burst: 9, concurrent: 2, timeout: 3s, maxResponseBytes: 1Mi, output: {tokens: 7}}, lists: {ttl: 90s}",
    );
    let compilation = world.compile(None);
    let expected = BundleDocument {
        format_version: 4,
        id: all(),
        parts: vec![BundlePart { name: "e".into(), prefix: "a_".into() }],
        access: Some(Access::ApiKeys {
            secret: "friends".into(),
            handle: Some(tamis_config::CredentialHandle("f1.1.all".into())),
        }),
        limits: BundleLimits {
            requests_per_second: Some(5),
            burst: Some(9),
            concurrent: Some(2),
            timeout_ms: Some(3_000),
            max_response_bytes: Some(1 << 20),
            output: OutputLimits { bytes: None, tokens: Some(7) },
        },
        list_ttl_ms: 90_000,
    };
    assert_eq!(*bundle(&compilation), expected);
    assert_eq!(compilation.bundled[&all()], Bundled { tools: 2, unfiltered: 1, pending: vec![] });
    assert_eq!(compilation.placements[&all()].to_string(), "team-a/default");
    // Another filter of the part is no other document.
    world.edit("ToolsFilters", "/a", "/b");
    assert_eq!(*bundle(&world.compile(None)), expected);
}

#[test]
fn parts_that_cannot_be_published_are_reported_and_the_others_are_served() {
    type Edit = fn(&mut World);
    let parts = |text: &str| format!("expositions: [{text}], access: {{anonymous: true}}");
    let put = |world: &mut World, text: &str| world.put("Exposition", "all", &parts(text));
    let nothing: Edit = |_| {};
    // The parts, what else changes, and what comes of it.
    let table: &[(&str, Edit, &str)] = &[
        ("{name: e}", nothing, "2"),
        ("{name: e, prefix: a_}, {name: f}", nothing, "2 spec.expositions[1].name ExpositionNotFound"),
        ("{name: all}", nothing, "0 spec.expositions[0].name RefNotPermitted"),
        (
            "{name: inner}, {name: e}",
            |w| w.put("Exposition", "inner", "expositions: [{name: e}], access: {anonymous: true}"),
            "2 spec.expositions[0].name RefNotPermitted",
        ),
        ("{name: e}", |w| w.remove("ServiceManifest"), "0 spec.expositions[0].name ExpositionStopped"),
        (
            "{name: e}, {name: g}",
            |w| {
                w.put("GatewayGroup", "other/default", "allowedNamespaces: {from: All}");
                let more = "gatewayGroup: {name: default, namespace: other}, access: {anonymous: true}";
                w.put("Exposition", "g", &format!("service: {{name: s, version: '1'}}, {more}"));
            },
            "2 spec.expositions[1].name RefNotPermitted",
        ),
        (
            "{name: e}, {name: twin}",
            |w| w.put("Exposition", "twin", "service: {name: s, version: '1'}, access: {bundleOnly: true}"),
            "2 spec.expositions[1].name Conflict",
        ),
        (
            "{name: e}, {name: twin, prefix: t_}",
            |w| w.put("Exposition", "twin", "service: {name: s, version: '1'}, access: {bundleOnly: true}"),
            "4",
        ),
        (
            "{name: e, prefix: a-prefix-of-32-characters-exactl}, {name: e2}",
            |w| {
                w.edit(
                    "ServiceManifest",
                    "actions: {get:",
                    &format!("actions: {{{}: {{path: /long}}, get:", "l".repeat(33)),
                );
            },
            "2 spec.expositions[0].prefix Conflict, spec.expositions[1].name ExpositionNotFound",
        ),
        // Parts that are compiled apart.
        (
            "{name: apart}, {name: e, prefix: a_}",
            |w| {
                let tools = (0..4_999).map(|number| (format!("t{number}"), false)).collect();
                let group = Some(ObjectName { namespace: NAMESPACE.into(), name: "default".into() });
                let state = PartState::Served { group, tools: Arc::new(PartTools { tools, ..PartTools::default() }) };
                drop(w.parts.insert("team-a/apart".into(), state));
            },
            "5000 spec.expositions[1].prefix TooLarge",
        ),
        // Prompts and resources: under the same prefix, under two, and of one service.
        (
            "{name: one}, {name: two}",
            |w| {
                content_part(w, "one", "a");
                content_part(w, "two", "b");
            },
            "0 spec.expositions[1].name Conflict, spec.expositions[1].name Conflict, spec.expositions[1].name Conflict, \
             spec.expositions[1].name Conflict",
        ),
        (
            "{name: one, prefix: a_}, {name: two, prefix: b_}",
            |w| {
                content_part(w, "one", "a");
                content_part(w, "two", "b");
            },
            "0 spec.expositions[1].name Conflict, spec.expositions[1].name Conflict",
        ),
        (
            "{name: one, prefix: a_}, {name: two, prefix: b_}",
            |w| {
                content_part(w, "one", "a");
                content_part(w, "two", "a");
            },
            "0",
        ),
        ("{name: apart}", |w| drop(w.parts.insert("team-a/apart".into(), PartState::Pending)), "0 and more"),
        (
            "{name: apart}",
            |w| drop(w.parts.insert("team-a/apart".into(), PartState::Bundle)),
            "0 spec.expositions[0].name RefNotPermitted",
        ),
        (
            "{name: apart}",
            |w| {
                let group = Some(ObjectName { namespace: NAMESPACE.into(), name: "default".into() });
                drop(
                    w.parts.insert("team-a/apart".into(), PartState::Stopped { group, reason: Reason::SecretNotFound }),
                );
            },
            "0 spec.expositions[0].name ExpositionStopped",
        ),
        (
            "{name: apart}",
            |w| {
                let state = PartState::Stopped { group: None, reason: Reason::Pending };
                drop(w.parts.insert("team-a/apart".into(), state));
            },
            "0 and more",
        ),
    ];
    for (named, edit, expected) in table {
        let mut world = world();
        put(&mut world, named);
        edit(&mut world);
        let compilation = world.compile(None);
        assert_eq!(outcome(&compilation), *expected, "{named}");
        assert!(compilation.diagnostics.iter().all(|d| !d.is_error() || !d.remedy.is_empty()));
    }
}

#[test]
fn access_group_and_ceilings_stop_a_bundle() {
    let table = [
        ("", "stop AccessRequired"),
        ("access: {}", "stop AccessRequired"),
        ("access: {apiKeys: {secretRef: {name: none}}}", "stop SecretNotFound"),
        ("access: {anonymous: true}, gatewayGroup: {name: none}", "stop GatewayGroupNotFound"),
        ("access: {anonymous: true}, limits: {timeout: 10m}", "stop BelowGroupFloor"),
        ("access: {anonymous: true}, limits: {maxResponseBytes: 100Mi}", "stop BelowGroupFloor"),
        ("access: {anonymous: true}", "2"),
    ];
    for (more, expected) in table {
        let mut world = world();
        world.put("Exposition", "all", format!("expositions: [{{name: e}}], {more}").trim_end_matches(", "));
        assert_eq!(outcome(&world.compile(None)), expected, "{more}");
    }
    // A floor on access is the bundle's to meet; one on enforcement is that of its parts.
    let mut world = world();
    world.put(
        "Exposition",
        "twin",
        "service: {name: s, version: '1'}, access: {bundleOnly: true}, tools: {include: [get]}",
    );
    world.put("Exposition", "all", "expositions: [{name: twin}], access: {anonymous: true}");
    world.add("GatewayGroup", "require: {access: true}");
    let compilation = world.compile(None);
    assert_eq!(outcome(&compilation), "stop BelowGroupFloor");
    world.put("Exposition", "all", "expositions: [{name: twin}], access: {apiKeys: {secretRef: {name: partners}}}");
    assert_eq!(outcome(&world.compile(None)), "1");
    world.edit("GatewayGroup", "require: {access: true}", "require: {enforced: true}");
    assert_eq!(outcome(&world.compile(None)), "0 spec.expositions[0].name ExpositionStopped");
}

#[test]
fn a_part_without_an_address_says_so_alone() {
    let table = [
        ("{bundleOnly: true}", Ok(Some(Access::BundleOnly))),
        ("{bundleOnly: false, anonymous: true}", Ok(Some(Access::Anonymous))),
        ("{bundleOnly: true, anonymous: true}", Err(Reason::AccessRequired)),
        ("{bundleOnly: true, apiKeys: {secretRef: {name: partners}}}", Err(Reason::AccessRequired)),
        ("{bundleOnly: false}", Err(Reason::AccessRequired)),
    ];
    for (access, expected) in table {
        let mut world = World::good();
        world.edit("Exposition", "{apiKeys: {secretRef: {name: partners}}}", access);
        let Snapshot { expositions, stopped, .. } = world.compile(None).snapshot;
        let id = super::world::id();
        let got = expositions.get(&id).map(|document| document.access.clone()).ok_or_else(|| stopped[&id].reason);
        assert_eq!(got, expected, "{access}");
        if let Some(document) = expositions.get(&id) {
            assert_eq!(document.format_version, if document.access == Some(Access::BundleOnly) { 4 } else { 1 });
        }
    }
}

#[test]
fn an_unreadable_bundle_is_served_as_before() {
    let mut world = world();
    let before = world.compile(None).snapshot;
    world.put("Exposition", "all", "expositions: [{name: e, prefix: 'a b'}], access: {anonymous: true}");
    let compilation = world.compile(Some(&before));
    assert_eq!(compilation.snapshot.bundles, before.bundles);
    assert_eq!(compilation.degraded[&all()].len(), 1);
    assert_eq!(compilation.bundled[&all()].tools, 2);
    assert!(world.compile(None).snapshot.bundles.is_empty());
}

#[test]
fn a_pause_adds_no_part_and_removes_one() {
    let paused: BTreeSet<_> = [all()].into();
    let with = |parts: &str, more: &str| {
        let mut world = world();
        world.put("Exposition", "twin", "service: {name: s, version: '1'}, access: {bundleOnly: true}");
        world.put("Exposition", "all", &format!("expositions: [{parts}], {more}"));
        world
    };
    let keys = "access: {apiKeys: {secretRef: {name: partners}}}";
    let before = with("{name: e, prefix: a_}, {name: twin}", keys).compile(None).snapshot;
    let names = |compilation: &Compilation| -> Vec<String> {
        bundle(compilation).parts.iter().map(|part| format!("{}{}", part.prefix, part.name)).collect()
    };
    // The next version, the parts that are served, and what waits.
    for (parts, more, served, waits) in [
        ("{name: e, prefix: a_}, {name: twin}", keys, &["a_e", "twin"][..], Paused::Nothing),
        ("{name: twin}", keys, &["twin"], Paused::Nothing),
        ("{name: e, prefix: b_}", keys, &["a_e"], Paused::Changes),
        ("{name: e, prefix: a_}, {name: twin}", "access: {anonymous: true}", &["a_e", "twin"], Paused::Changes),
        ("{name: other}, {name: e, prefix: a_}", keys, &["a_e"], Paused::Changes),
    ] {
        let compilation = with(parts, more).compile_paused(Some(&before), &paused);
        assert_eq!(names(&compilation), served, "{parts} {more}");
        assert_eq!(compilation.paused[&all()], waits, "{parts} {more}");
        assert!(matches!(bundle(&compilation).access, Some(Access::ApiKeys { .. })));
    }
    let limited = with("{name: e, prefix: a_}, {name: twin}", &format!("{keys}, limits: {{concurrent: 1}}"));
    let compilation = limited.compile_paused(Some(&before), &paused);
    assert_eq!(bundle(&compilation).limits.concurrent, Some(1), "a lower limit does not wait");
    let compilation = limited.compile_paused(None, &paused);
    assert_eq!(compilation.paused[&all()], Paused::Everything);
    assert!(compilation.snapshot.bundles.is_empty());
}

/// Two services and a bundle, as files. `bundle`: the spec of the bundle.
fn files(bundle: &str) -> Loaded {
    let mut text = String::new();
    for (name, tools) in [("github", "[list, get]"), ("jira", "[get, find]")] {
        let actions: Vec<_> =
            tools.trim_matches(['[', ']']).split(", ").map(|t| format!("{t}: {{path: /{t}}}")).collect();
        text.push_str(&format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {name}}}\nspec: {{version: '1', http: \
             {{baseUrl: 'https://a.example', actions: {{{}}}}}}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\n\
             metadata: {{name: {name}}}\nspec: {{service: {{name: {name}, version: '1'}}, filters: []}}\n---\n",
            actions.join(", ")
        ));
    }
    text.push_str("apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: all}\nspec:\n");
    text.push_str(bundle);
    Loaded::of(vec![parse_document("a.yaml", text.as_bytes())])
}

#[test]
fn files_need_no_access_and_no_group() {
    let loaded = files("  expositions: [{name: github, prefix: gh_}, {name: jira}]\n");
    let compilation = compile(&loaded.resources, &CompileEnv::default());
    assert_eq!(said(&compilation), Vec::<String>::new());
    let bundle = compilation.snapshot.bundles.values().next().expect("is served");
    assert_eq!(Bundled::of(bundle, &compilation.snapshot), Bundled { tools: 4, unfiltered: 4, pending: vec![] });
    assert!(Arc::strong_count(bundle) >= 1 && bundle.limits.is_none() && bundle.access.is_none());
}

#[test]
fn every_mistake_of_a_file_has_its_place() {
    let loaded = files("  expositions:\n  - {name: github}\n  - {name: jira}\n  - {name: jria}\n");
    let lines: Vec<_> = diagnose(&loaded).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "a.yaml:27:6: error: spec.expositions[1].name: tool `get` of exposition `jira` is not published, because \
             exposition `github` comes first and has that name too; set another `prefix`, or leave the tool out of one of \
             them with `tools.exclude`",
            "a.yaml:28:6: error: spec.expositions[2].name: exposition `jria` does not exist in namespace default; did you \
             mean `jira`?",
        ]
    );
}

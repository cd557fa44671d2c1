//! What a pause keeps back, and what goes through it.

use std::collections::BTreeSet;

use tamis_config::{Access, Reason, Snapshot};
use tamis_engine::{Enforcement, ReservedInput};

use super::world::{World, id, secret, served};
use crate::Compilation;
use crate::cluster::SecretRole::{Callers, Upstream};
use crate::compile::Paused;

/// What is served of the good world, and what comes of an edit while its exposition is paused.
fn paused(edit: impl FnOnce(&mut World)) -> (Snapshot, Compilation) {
    let mut world = World::good();
    let before = world.compile(None).snapshot;
    edit(&mut world);
    let after = world.compile_paused(Some(&before), &BTreeSet::from([id()]));
    (before, after)
}

#[test]
fn what_is_new_waits() {
    type Edit = fn(&mut World);
    let edits: &[(&str, Edit)] = &[
        ("a filter", |w| w.edit("ToolsFilters", "retain: [/a]", "retain: [/b]")),
        ("a filter that goes", |w| w.edit("ToolsFilters", "get: {retain: [/a]}", "")),
        ("another address", |w| w.edit("ServiceManifest", "path: '/things/{id}'", "path: '/stuff/{id}'")),
        ("a further tool", |w| w.edit("ServiceManifest", "list: {", "more: {path: /more}, list: {")),
        ("a description", |w| w.add("ServiceManifest", "description: other")),
        ("everyone", |w| w.edit("Exposition", "{apiKeys: {secretRef: {name: partners}}}", "{anonymous: true}")),
        ("a longer time", |w| w.add("Exposition", "limits: {timeout: 5m}")),
    ];
    for (what, edit) in edits {
        let (before, after) = paused(edit);
        assert_eq!(after.paused[&id()], Paused::Changes, "{what}");
        assert_eq!(after.snapshot.expositions[&id()], before.expositions[&id()], "{what}");
        assert!(after.snapshot.services.contains_key(&before.expositions[&id()].service), "{what}");
    }
    let (before, after) = paused(|_| {});
    assert_eq!((after.paused[&id()], &after.snapshot.expositions), (Paused::Nothing, &before.expositions));
}

#[test]
fn what_takes_away_goes_through() {
    // Keys of callers are withdrawn, and a filter is edited: the keys are today's, the filter is not.
    let (before, after) = paused(|w| {
        w.put_secret("partners", secret(Callers, &["other"], &[], "c1.2"));
        w.put_secret("api", secret(Upstream, &["token"], &["api.example.com bearer"], "u1.2"));
        w.edit("ToolsFilters", "retain: [/a]", "retain: [/b]");
    });
    let (now, was) = (&after.snapshot.expositions[&id()], &before.expositions[&id()]);
    let Some(Access::ApiKeys { handle: Some(handle), .. }) = &now.access else { panic!("{now:?}") };
    assert_eq!((handle.0.as_str(), after.paused[&id()]), ("c1.2.all", Paused::Changes));
    assert!(now.credentials["api/token"].handle.0.starts_with("u1.2."), "{now:?}");
    assert_eq!(now.tools, was.tools);

    let (_, after) = paused(|w| {
        w.add("Exposition", "tools: {include: [get]}, limits: {requestsPerSecond: 5, timeout: 5m}");
        w.edit("ToolsFilters", "retain: [/a]", "retain: [/b]");
    });
    let (now, _) = served(&after);
    assert_eq!(now.tools.keys().collect::<Vec<_>>(), ["get"]);
    assert_eq!((now.limits.requests_per_second, now.limits.timeout_ms), (Some(5), 30_000), "the lower of both");
    let filter = serde_json::to_string(&now.tools["get"].filter).expect("is JSON");
    assert!(filter.contains("/a"), "{filter}");

    let (_, after) = paused(|w| w.edit("ToolsFilters", "get: {", "list: {retain: [/b]}, get: {"));
    let (now, _) = served(&after);
    assert!(now.tools["list"].filter.is_some(), "a filter comes to a tool that had none");
    let (_, after) = paused(|w| w.add("Exposition", "enforcement: Enforced"));
    let (now, _) = served(&after);
    assert_eq!((now.enforcement, after.paused[&id()]), (Enforcement::Enforced, Paused::Nothing));
    // Where enforcement is raised, too, nothing opens.
    let (before, after) = paused(|w| {
        w.edit("Exposition", "{apiKeys: {secretRef: {name: partners}}}", "{anonymous: true}");
        w.add("Exposition", "enforcement: Enforced, limits: {timeout: 5m}");
    });
    let (now, was) = (served(&after).0, &before.expositions[&id()]);
    assert_eq!((now.enforcement, after.paused[&id()]), (Enforcement::Enforced, Paused::Changes));
    assert_eq!((&now.access, now.limits.timeout_ms), (&was.access, was.limits.timeout_ms));
    let (_, after) = paused(|w| {
        w.put(
            "ServiceManifest",
            "other",
            "version: '1', http: {baseUrl: 'https://api.example.com', actions: {get: {path: /x}}}",
        );
        w.edit("Exposition", "name: s,", "name: other,");
        w.add("Exposition", "filters: []");
    });
    assert!(served(&after).0.tools.is_empty(), "no tool of a service that it does not publish any more");
}

/// How much of an answer is shown, and in which form.
#[test]
fn limits_of_answers_are_the_lower_ones_and_new_inputs_wait() {
    let before = "limits: {output: {bytes: 9, tokens: 5}}, output: {inputs: [_budget, chunk]}";
    let after = "limits: {output: {bytes: 7, tokens: 8}}, tokens: {tokenizer: estimate}, output: {inputs: [chunk, _output_mode]}";
    let mut world = World::good();
    world.add("Exposition", before);
    let old = world.compile(None).snapshot;
    world.edit("Exposition", before, after);
    world.edit("ToolsFilters", "retain: [/a]", "retain: [/b], output: {format: toon}");
    let (now, _) = served(&world.compile_paused(Some(&old), &BTreeSet::from([id()])));
    assert_eq!((now.limits.output.bytes, now.limits.output.tokens), (Some(7), Some(5)));
    assert_eq!(now.tokens.tokenizer.as_str(), "estimate");
    assert_eq!(now.inputs, Some(vec![ReservedInput::Chunk]));
    assert_eq!(now.tools, old.expositions[&id()].tools);
    assert_eq!(now.format_version, 2);

    // An exposition whose new filter needs a newer gateway keeps the version of the old one.
    let mut world = World::good();
    let old = world.compile(None).snapshot;
    world.edit("ToolsFilters", "retain: [/a]", "retain: [/b], output: {format: toon}");
    assert_eq!(served(&world.compile(None)).0.format_version, 2);
    let (now, _) = served(&world.compile_paused(Some(&old), &BTreeSet::from([id()])));
    assert_eq!(*now, *old.expositions[&id()]);
    // The reverse: the old filter stays, and so does its version.
    let newer = world.compile(None).snapshot;
    world.edit("ToolsFilters", ", output: {format: toon}", "");
    let (now, _) = served(&world.compile_paused(Some(&newer), &BTreeSet::from([id()])));
    assert_eq!((now.format_version, &now.tools), (2, &newer.expositions[&id()].tools));
}

#[test]
fn what_stops_stops() {
    type Edit = fn(&mut World);
    let edits: &[(&str, Edit, Reason)] = &[
        ("the group takes it no longer", |w| w.remove("GatewayGroup"), Reason::GatewayGroupNotFound),
        ("callers' keys", |w| drop(w.secrets.remove("team-a/partners")), Reason::SecretNotFound),
        ("the service", |w| w.remove("ServiceManifest"), Reason::ServiceNotFound),
        (
            "the group denies where it was served from, and not where it is to be",
            |w| {
                w.edit("ServiceManifest", "https://api.example.com", "https://new.example.com");
                w.put_secret(
                    "api",
                    secret(Upstream, &["token"], &["api.example.com bearer", "new.example.com bearer"], "u1.1"),
                );
                w.add("GatewayGroup", "egress: {deny: [api.example.com]}");
            },
            Reason::EgressDenied,
        ),
        (
            "the Secret may be used at the new address only",
            |w| {
                w.edit("ServiceManifest", "https://api.example.com", "https://new.example.com");
                w.put_secret("api", secret(Upstream, &["token"], &["new.example.com bearer"], "u1.1"));
            },
            Reason::SecretUseNotAllowed,
        ),
    ];
    for (what, edit, reason) in edits {
        let (_, after) = paused(edit);
        assert!(!after.snapshot.expositions.contains_key(&id()), "{what}");
        assert_eq!(after.snapshot.stopped[&id()].reason, *reason, "{what}");
    }
}

#[test]
fn what_was_not_published_is_not() {
    let world = World::good();
    let after = world.compile_paused(Some(&Snapshot::default()), &BTreeSet::from([id()]));
    assert_eq!(after.paused[&id()], Paused::Everything);
    assert!(!after.snapshot.expositions.contains_key(&id()) && !after.snapshot.stopped.contains_key(&id()));
    // One that was stopped goes on to answer as it did.
    let mut broken = World::good();
    broken.remove("ServiceManifest");
    let before = broken.compile(None).snapshot;
    let after = world.compile_paused(Some(&before), &BTreeSet::from([id()]));
    assert_eq!(after.snapshot.stopped[&id()].reason, before.stopped[&id()].reason);
    assert!(!after.snapshot.expositions.contains_key(&id()));
}

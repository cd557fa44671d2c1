//! What a group requires of the filters of its expositions.

use super::*;

#[test]
fn a_group_can_require_allow_lists() {
    let below = |tool: &str, whose: &str, more: &str| {
        format!(
            "GatewayGroup default/g requires allow-lists, but the filter of `{tool}` in {whose} passes data that it does not \
             name{more}; name the data that may pass with `select`, `retain` or, for text, `text.keep`, without globs and \
             without `passthrough`"
        )
    };
    const SET: &str = "set default/a";
    // What the group requires, the enforcement, the filters of the set; what is published, or why nothing is.
    let table: &[(&str, &str, &str, Result<&str, String>)] = &[
        ("allowLists: true", "Enforced", "plain: {retain: [/a]}", Ok("Enforced plain=default/a embedded=manifest")),
        ("allowLists: true", "Enforced", "plain: {root: '', exclude: [a]}", Err(below("plain", SET, ""))),
        (
            "allowLists: true",
            "Enforced",
            "plain: {patches: [{op: remove, path: /a}]}, create: {root: '', exclude: [a]}",
            Err(below("plain", SET, " (and 1 more)")),
        ),
        ("allowLists: true", "Enforced", "plain: {retain: ['/**/a']}", Err(below("plain", SET, ""))),
        ("allowLists: true", "Enforced", "plain: {passthrough: true}", Err(below("plain", SET, ""))),
        (
            "allowLists: true",
            "Enforced",
            "plain: [{test: {path: /a, value: 1}, retain: [/a]}, {otherwise: true, passthrough: true}]",
            Err(below("plain", SET, "")),
        ),
        // What an Advisory exposition names says nothing of what passes: `enforced` refuses it.
        (
            "allowLists: true",
            "Advisory",
            "plain: {exclude: [a]}",
            Ok("Advisory plain=default/a embedded=manifest create=-"),
        ),
        (
            "allowLists: true, enforced: true",
            "Advisory",
            "plain: {retain: [/a]}",
            Err("GatewayGroup default/g requires `enforcement: Enforced`; set it".to_owned()),
        ),
        (
            "enforced: true",
            "Enforced",
            "plain: {root: '', exclude: [a]}",
            Ok("Enforced plain=default/a embedded=manifest"),
        ),
        (
            "allowLists: false",
            "Enforced",
            "plain: {passthrough: true}",
            Ok("Enforced plain=default/a embedded=manifest"),
        ),
    ];
    for (requires, enforcement, filters, expected) in table {
        let documents = [
            ("GatewayGroup", "g", format!("require: {{{requires}}}")),
            ("ToolsFilters", "a", format!("filters: {{{filters}}}")),
            ("Exposition", "e", format!("enforcement: {enforcement}, gatewayGroup: {{name: g}}")),
        ];
        let documents = documents.each_ref().map(|(kind, name, spec)| (*kind, *name, spec.as_str()));
        let compilation = compile(&resources(&with(&documents)), &CompileEnv::default());
        let found = match compilation.snapshot.stopped.get(&id()) {
            Some(stopped) => {
                assert_eq!(stopped.reason, Reason::BelowGroupFloor, "{requires} {filters}");
                Err(stopped.message.split_once(": ").map_or("", |(_, said)| said).to_owned())
            }
            None => Ok(published(&compilation)),
        };
        assert_eq!(found.as_deref().map_err(Clone::clone), expected.clone(), "{requires} {enforcement} {filters}");
    }
}

/// A filter of the manifest, and one that is served although its set is broken, count too.
#[test]
fn no_filter_escapes_the_floor() {
    let embedded = |filter: &str| {
        let group = ("GatewayGroup", "g", "require: {allowLists: true}");
        let exposition = ("Exposition", "e", "enforcement: Enforced, gatewayGroup: {name: g}");
        with(&[group, exposition]).replace("{retain: [/embedded]}", filter)
    };
    let compiled = |text: &str, previous: Option<&Snapshot>| {
        compile(&resources(text), &CompileEnv { previous, ..CompileEnv::default() })
    };
    assert_eq!(published(&compiled(&embedded("{retain: [/embedded]}"), None)), "Enforced embedded=manifest");
    let stopped = compiled(&embedded("{patches: [{op: remove, path: /a}]}"), None);
    assert_eq!(published(&stopped), "BelowGroupFloor");
    let said = said(&stopped);
    assert!(said.iter().any(|line| line.contains("the filter of `embedded` in the manifest")), "{said:?}");

    let set = |requires: &str, filter: &str| {
        let filters = format!("filters: {{plain: {filter}}}");
        let group = format!("require: {{allowLists: {requires}}}");
        let exposition = "enforcement: Enforced, gatewayGroup: {name: g}";
        with(&[("GatewayGroup", "g", &group), ("ToolsFilters", "a", &filters), ("Exposition", "e", exposition)])
    };
    let served = compiled(&set("false", "{root: '', exclude: [a]}"), None).snapshot;
    let broken = set("true", "{retain: [a]}");
    assert_eq!(published(&compiled(&broken, Some(&served))), "BelowGroupFloor");
    let served = compiled(&set("true", "{retain: [/a]}"), None).snapshot;
    assert_eq!(published(&compiled(&broken, Some(&served))), "Enforced plain=default/a embedded=manifest");
}

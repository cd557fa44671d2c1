//! Small documents that would be large ones together.

use super::world::World;
use super::*;
use crate::compile::size::{MAX_EXPOSITION_BYTES, MAX_SERVICE_BYTES, length};
use crate::resources::ObjectName;

/// `count` tools of CustomTools, each made of `get`.
fn aliases(count: usize) -> String {
    let tools: Vec<String> = (0..count).map(|n| format!("t{n}: {{tool: get}}")).collect();
    format!("service: {{name: s, version: '1'}}, customTools: {{{}}}", tools.join(", "))
}

fn because(compilation: &Compilation, reason: Reason) -> Vec<String> {
    let found = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.reason == reason);
    found.map(|diagnostic| format!("{} {}", diagnostic.file, diagnostic.message)).collect()
}

/// 200 kB of manifest and 5,000 tools of CustomTools would be a gigabyte.
#[test]
fn tools_that_repeat_a_long_one_are_counted_before_they_are_made() {
    let mut world = World::good();
    let long = format!("actions: {{get: {{description: '{}', path: '/things/{{id}}',", "x".repeat(190_000));
    world.edit("ServiceManifest", "actions: {get: {path: '/things/{id}',", &long);
    world.put("CustomTools", "many", &aliases(5_000));
    let compilation = world.compile(None);
    let said = because(&compilation, Reason::TooLarge);
    assert!(
        said.len() == 1 && said[0].contains("CustomTools team-a/many") && said[0].contains("exceed the limit"),
        "{said:?}"
    );
    let document = compilation.snapshot.services.values().next().expect("the service is served");
    assert!(
        document.tools.contains_key("get")
            && document.tools.contains_key("t0")
            && !document.tools.contains_key("t4999")
    );
    assert!(length(&**document) <= MAX_SERVICE_BYTES, "{}", length(&**document));
    // As many as have room say nothing.
    world.put("CustomTools", "many", &aliases(10));
    assert_eq!(because(&world.compile(None), Reason::TooLarge), [""; 0]);
}

/// A filter counts for each tool that has it, and is not repeated to find out.
#[test]
fn filters_that_many_tools_share_are_counted_before_they_are_repeated() {
    let paths: Vec<String> = (0..800).map(|n| format!("/a/member/of/it/{n:080}")).collect();
    let mut world = World::good();
    world.put("CustomTools", "many", &aliases(200));
    world.edit("ToolsFilters", "retain: [/a]", &format!("retain: [{}]", paths.join(", ")));
    let compilation = world.compile(None);
    let id = ExpositionId { namespace: "team-a".into(), name: "e".into() };
    let stopped = compilation.snapshot.stopped.get(&id).map(|stopped| stopped.reason);
    assert_eq!(stopped, Some(Reason::TooLarge));
    let said = because(&compilation, Reason::TooLarge);
    assert!(said.len() == 1 && said[0].contains(&MAX_EXPOSITION_BYTES.to_string()), "{said:?}");
}

/// Comparing every unknown name with every known one would take minutes.
#[test]
fn of_many_unknown_tools_some_are_named() {
    let mut world = World::good();
    let filters: Vec<String> = (0..3_000).map(|n| format!("unknown{n}: {{retain: [/a]}}")).collect();
    world.put(
        "ToolsFilters",
        "base",
        &format!("service: {{name: s, version: '1'}}, filters: {{{}}}", filters.join(", ")),
    );
    let tools: Vec<String> = (0..3_000).map(|n| format!("t{n}: {{tool: unknown{n}}}")).collect();
    let customs = format!("service: {{name: s, version: '1'}}, customTools: {{{}}}", tools.join(", "));
    let unknown = because(&world.compile(None), Reason::ToolNotFound);
    assert!(unknown.len() == 21 && unknown.iter().any(|said| said.contains("2980 more filters")), "{}", unknown.len());
    world.put("CustomTools", "many", &customs);
    let compilation = world.compile(None);
    let named = compilation.diagnostics.iter().filter(|said| said.remedy == "name a tool of the ServiceManifest");
    assert_eq!(named.count(), 3_000);
}

/// What is compiled in parts is what is compiled at once.
#[test]
fn parts_say_together_what_the_whole_says() {
    let mut world = World::good();
    world.put(
        "ToolsFilters",
        "broken",
        "name: b, service: {name: s, version: '1'}, filters: {get: {select: {a: 'b['}}}",
    );
    world.put("ToolsFilters", "unused", "name: u, service: {name: s, version: '1'}, filters: {gte: {retain: [/a]}}");
    world.put(
        "Exposition",
        "f",
        "service: {name: s, version: '1'}, access: {anonymous: true}, filters: [b], enforcement: Enforced",
    );
    let whole = world.compile(None);
    let expositions = world.compile_part(Part::Expositions);
    let mut parts = expositions.diagnostics.clone();
    for name in ["base", "broken", "unused"] {
        let sets = [ObjectName { namespace: "team-a".into(), name: name.into() }].into();
        let part = world.compile_part(Part::Objects(&sets));
        let own = part.diagnostics.iter().filter(|said| said.file.starts_with("ToolsFilters"));
        assert!(own.clone().all(|said| *said.file == *format!("ToolsFilters team-a/{name}")), "{name}");
        parts.extend(part.diagnostics);
    }
    Diagnostic::sort(&mut parts);
    let missing: Vec<_> = whole.diagnostics.iter().filter(|said| !parts.contains(said)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(whole.diagnostics.len() > 2);
    assert_eq!(whole.snapshot.expositions, expositions.snapshot.expositions);
    assert_eq!(whole.snapshot.stopped, expositions.snapshot.stopped);
}

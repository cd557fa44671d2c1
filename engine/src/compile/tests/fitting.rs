//! The fields of `output` that decide what a budget shows.

use super::super::allow_list::Shown;
use super::super::{fitting, pointers};
use super::*;
use crate::FilterSpec;
use crate::PatternBudget;
use crate::compile::check::Findings;
use crate::fit::{Algorithm, Candidates, FitProgram, Form, Preset, Strategy, ToolKind};
use crate::program::Root;
use crate::work::Work;

/// Compiles the fields, and returns the program with the findings.
fn fit(filter: &str, tool: ToolKind, enforced: bool) -> (FitProgram, Vec<(Severity, String)>) {
    let spec: FilterSpec = serde_json::from_str(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    let path = |entry: &String| match entry.starts_with('/') {
        true => pointers::extended(entry).unwrap(),
        false => vec![pointers::member(entry)],
    };
    let retained: Option<Vec<_>> = spec.retain.as_ref().map(|paths| paths.iter().map(path).collect());
    let excluded: Vec<_> = spec.exclude.iter().flatten().map(|entry| Some(path(entry))).collect();
    let shown = Shown { spec: &spec, retained: retained.as_deref(), excluded: &excluded, root: &Root::Detect };
    let mut patterns = PatternBudget::default();
    let mut findings = Findings::new(&mut patterns);
    let program = fitting::compile(spec.output.as_deref().unwrap(), tool, shown, enforced, &mut findings);
    (program, findings.into_vec().into_iter().map(|finding| (finding.severity, finding.to_string())).collect())
}

#[test]
fn mistakes_name_the_field_and_the_remedy() {
    for (output, expected) in [
        (
            r#"{"preset":"issue"}"#,
            &[
                "output.preset: `issue` is no preset, use one of `issues`, `pulls`, `merge_requests`, `diffs`, `comments`, `discussions`, `logs`",
            ][..],
        ),
        (
            r#"{"strategy":"newest"}"#,
            &[
                "output.strategy: `newest` is no strategy, use one of `default`, `element_count`, `cascading`, `size_proportional`, `thread_level`, `head_tail`",
            ],
        ),
        (
            r#"{"strategy":{"name":"x","newest":"first"}}"#,
            &[
                "output.strategy.name: `x` is no strategy, use one of `default`, `element_count`, `cascading`, `size_proportional`, `thread_level`, `head_tail`",
            ],
        ),
        (
            r#"{"algorithm":"fast"}"#,
            &["output.algorithm: `fast` is no algorithm, use one of `knapsack`, `greedy`, `fair`, `head_tail`"],
        ),
        (
            r#"{"strategy":{"name":"default","newest":"first","boost":["x"]}}"#,
            &[
                "output.strategy.newest: `default` has no `newest`, remove it, or use `cascading`",
                "output.strategy.boost: `default` has no `boost`, remove it, or use `head_tail`",
            ],
        ),
        (
            r#"{"strategy":{"name":"cascading","newest":"top"}}"#,
            &["output.strategy.newest: `top` is no end of a list, use one of `last`, `first`"],
        ),
        (
            r#"{"strategy":{"name":"size_proportional","path":"","weights":{}}}"#,
            &[
                "output.strategy.path: the name of the field is empty, name a member of the item, or remove it",
                "output.strategy.weights: is empty, name file patterns and their weights, or remove it",
            ],
        ),
        (
            r#"{"strategy":{"name":"size_proportional","weights":{"*.md":1.5,"":0,"a":-0.1}}}"#,
            &[
                "output.strategy.weights[\"*.md\"]: 1.5 is no weight, give a number from 0 to 1",
                "output.strategy.weights[\"\"]: the pattern has 0 bytes, 1 to 256 are allowed, name files, such as `*.lock` or `*/tests/*`",
                "output.strategy.weights.a: -0.1 is no weight, give a number from 0 to 1",
            ],
        ),
        (
            r#"{"strategy":{"name":"thread_level","resolved":"/a~","comments":"/~3"}}"#,
            &[
                "output.strategy.resolved: segment 1 (`a~`) has `~ at the end`, which is no escape, write `~0` for `~`, `~1` for `/`",
                "output.strategy.comments: segment 1 (`~3`) has `~3`, which is no escape, write `~0` for `~`, `~1` for `/`",
            ],
        ),
        (
            r#"{"strategy":{"name":"head_tail","boost":["a","("]}}"#,
            &[
                "output.strategy.boost[1]: is not a regular expression: unclosed group, correct the expression; a literal special character is written with a backslash, such as \\[",
            ],
        ),
        (
            r#"{"strategy":{"name":"head_tail","boost":[]}}"#,
            &[
                "output.strategy.boost: is empty, name expressions, or remove it for the expressions of the documentation",
            ],
        ),
        (r#"{"levels":{}}"#, &["output.levels: is empty, name a level and what it keeps, or remove `levels`"]),
        (
            r#"{"levels":{"full":["a"],"":["a"],"x":[],"y":["",  "/~9"]}}"#,
            &[
                "output.levels.full: `full` is the item with all that it has, give the level another name",
                "output.levels[\"\"]: the name is empty, give the level another name",
                "output.levels.x: is empty, which would keep nothing, name what to keep, or remove the level",
                "output.levels.y[0]: the name is empty, name a member of the item, or remove the entry",
                "output.levels.y[1]: segment 1 (`~9`) has `~9`, which is no escape, write `~0` for `~`, `~1` for `/`, `~2` for `*`",
            ],
        ),
        (
            r#"{"levels":{"1":["a"],"2":["a"],"3":["a"],"4":["a"],"5":["a"],"6":["a"],"7":["a"],"8":["a"],"9":["a"]}}"#,
            &["output.levels: has 9 levels, at most 8 are allowed, keep those that differ most"],
        ),
    ] {
        let (_, findings) = fit(&format!(r#"{{"output":{output}}}"#), ToolKind::Other, false);
        let expected: Vec<_> = expected.iter().map(|text| (Severity::Error, (*text).to_owned())).collect();
        assert_eq!(findings, expected, "{output}");
    }
}

#[test]
fn a_strategy_reads_what_the_filter_leaves() {
    let strategy = r#""output":{"strategy":{"name":"size_proportional","path":"file","group":"/team/name"}}"#;
    for (stages, expected) in [
        (r#""select":{"file":"f","team":"t"},"#, &[][..]),
        (r#""retain":["/items/file","/items/team"],"root":"/items","#, &[]),
        (r#""exclude":["other","/team/id"],"#, &[]),
        (
            r#""select":{"path":"f","team":"t"},"#,
            &[
                "output.strategy.path: reads `file`, which is not among the keys that `select` gives, name one of those keys, or add the field to `select`",
            ],
        ),
        (
            r#""exclude":["fi*","/team/name"],"#,
            &[
                "output.strategy.path: reads `file`, which is dropped by `exclude`, name another field, or remove this one from `exclude`",
                "output.strategy.group: reads `/team/name`, which is dropped by `exclude`, name another field, or remove this one from `exclude`",
            ],
        ),
        (
            r#""retain":["/items/team"],"#,
            &[
                "output.strategy.path: reads `file`, which is not among what `retain` keeps, name another field, or add this one to `retain`",
            ],
        ),
    ] {
        for (enforced, severity) in [(false, Severity::Warning), (true, Severity::Error)] {
            let (_, findings) = fit(&format!("{{{stages}{strategy}}}"), ToolKind::Other, enforced);
            let expected: Vec<_> = expected.iter().map(|text| (severity, (*text).to_owned())).collect();
            assert_eq!(findings, expected, "{stages}");
        }
    }
    // The default of a setting is a field like any other; a preset and the tool's name promise nothing.
    let (_, findings) = fit(r#"{"select":{"a":"a"},"output":{"strategy":"thread_level"}}"#, ToolKind::Other, true);
    assert_eq!(findings.len(), 2, "{findings:?}");
    let preset = r#"{"select":{"a":"a"},"output":{"preset":"diffs","budget":{"bytes":9}}}"#;
    assert_eq!(fit(preset, ToolKind::Diffs, true).1, []);
    let levels = r#"{"select":{"a":"a"},"output":{"levels":{"x":["a","/a/b","b","/c/d","/*/e"]}}}"#;
    let (_, findings) = fit(levels, ToolKind::Other, true);
    let never =
        |entry: &str| format!("`{entry}` is not among the keys that `select` gives, so the level never keeps it");
    let remedy = "remove the entry, or name a field of the filtered item";
    assert_eq!(
        findings,
        [
            (Severity::Warning, format!("output.levels.x[2]: {}, {remedy}", never("b"))),
            (Severity::Warning, format!("output.levels.x[3]: {}, {remedy}", never("/c/d"))),
        ]
    );
}

#[test]
fn groups_and_fair_need_each_other() {
    for (output, expected) in [
        (
            r#"{"algorithm":"fair"}"#,
            Some(
                "output.algorithm: `fair` shares the budget between groups, and there is one, name the field of the group in `output.strategy.group`",
            ),
        ),
        (
            r#"{"algorithm":"greedy","strategy":{"name":"default","group":"g"}}"#,
            Some(
                "output.strategy.group: only `fair` shares the budget between groups, remove it, or `output.algorithm`",
            ),
        ),
        (r#"{"algorithm":"fair","strategy":{"name":"default","group":"g"}}"#, None),
        (r#"{"strategy":{"name":"default","group":"g"}}"#, None),
    ] {
        let (_, findings) = fit(&format!(r#"{{"output":{output}}}"#), ToolKind::Other, true);
        assert_eq!(findings, expected.map(|text| (Severity::Warning, text.to_owned())).into_iter().collect::<Vec<_>>());
    }
}

/// Whether a strategy is the one with this name, by the values that it gives.
fn name(strategy: &Strategy) -> &'static str {
    match strategy {
        Strategy::Default => "default",
        Strategy::ElementCount => "element_count",
        Strategy::Cascading { .. } => "cascading",
        Strategy::SizeProportional { .. } => "size_proportional",
        Strategy::ThreadLevel { .. } => "thread_level",
        Strategy::HeadTail { .. } => "head_tail",
    }
}

#[test]
fn what_the_filter_says_wins_over_the_preset_and_the_preset_over_the_tool() {
    for (output, tool, strategy, levels) in [
        (r#"{"budget":{"bytes":9}}"#, ToolKind::Diffs, "size_proportional", 0),
        (r#"{"budget":{"bytes":9}}"#, ToolKind::Items, "element_count", 0),
        (r#"{"budget":{"bytes":9}}"#, ToolKind::Comments, "cascading", 0),
        (r#"{"budget":{"bytes":9}}"#, ToolKind::Discussions, "thread_level", 0),
        (r#"{"budget":{"bytes":9}}"#, ToolKind::Logs, "head_tail", 0),
        (r#"{"budget":{"bytes":9}}"#, ToolKind::Other, "default", 0),
        (r#"{"notice":true}"#, ToolKind::Diffs, "default", 0),
        (r#"{"preset":"issues","budget":{"bytes":9}}"#, ToolKind::Diffs, "element_count", 2),
        (r#"{"preset":"pulls","strategy":"cascading"}"#, ToolKind::Diffs, "cascading", 2),
        (r#"{"preset":"merge_requests","levels":{"x":["a"]}}"#, ToolKind::Diffs, "element_count", 1),
        (r#"{"preset":"diffs"}"#, ToolKind::Other, "size_proportional", 1),
        (r#"{"preset":"comments"}"#, ToolKind::Other, "cascading", 1),
        (r#"{"preset":"discussions"}"#, ToolKind::Other, "thread_level", 1),
        (r#"{"preset":"logs"}"#, ToolKind::Other, "head_tail", 0),
        (r#"{"strategy":{"name":"default"},"budget":{"bytes":9}}"#, ToolKind::Logs, "default", 0),
    ] {
        let (program, findings) = fit(&format!(r#"{{"output":{output}}}"#), tool, true);
        assert_eq!(findings, [], "{output}");
        assert_eq!((name(&program.strategy), program.levels.len()), (strategy, levels), "{output}");
    }
    assert_eq!(fit(r#"{"output":{"preset":"diffs"}}"#, ToolKind::Other, true).0.preset, Some(Preset::Diffs));
}

#[test]
fn a_program_gives_groups_forms_and_its_expressions() {
    let work = Work::unlimited();
    let output = r#"{"output":{"levels":{"x":["a"]},"strategy":{"name":"thread_level","comments":"c","group":"a"}}}"#;
    let (program, _) = fit(output, ToolKind::Other, true);
    let items = [r#"{"a":1,"c":[1,2,3,4]}"#, r#"{"a":2}"#, r#"{"a":1}"#];
    assert_eq!(program.groups(&items, &work), Some(vec![0, 1, 0]));
    // In a table all items take the same form: there are no forms of comments.
    assert_eq!(program.details(items[0], false, &work).len(), 4);
    assert_eq!(program.details(items[0], true, &work).len(), 2);
    assert_eq!(program.details(items[1], false, &work).len(), 2);
    assert_eq!((program.expressions(), program.search_bytes()), (None, 0));
    let (logs, _) = fit(r#"{"output":{"preset":"logs"}}"#, ToolKind::Other, true);
    assert_eq!(logs.groups(&items, &work), None);
    let (_, bytes) = logs.expressions().unwrap();
    assert!(bytes > 0 && logs.search_bytes() > 0);
    assert_eq!(logs.expressions(), FitProgram::of(ToolKind::Logs).expressions(), "one automaton for all");
}

#[test]
fn settings_reach_the_strategy() {
    for (strategy, items, expected) in [
        (r#"{"name":"cascading","newest":"first"}"#, ["1", "2"], [1_000_000, 950_000]),
        (
            r#"{"name":"size_proportional","path":"/f/n","weights":{"*.md":0.25}}"#,
            [r#"{"f":{"n":"a.md"}}"#, r#"{"f":{"n":"a.lock"}}"#],
            [250_000, 1_000_000],
        ),
        (
            r#"{"name":"thread_level","resolved":"done"}"#,
            [r#"{"done":true}"#, r#"{"resolved":true}"#],
            [300_000, 1_000_000],
        ),
        (r#"{"name":"head_tail","boost":["^7"]}"#, ["7", "17"], [2_000_000, 1_000_000]),
        (r#"{"name":"head_tail"}"#, ["\"ERROR\"", "\"warn\""], [2_000_000, 1_000_000]),
    ] {
        let (program, findings) = fit(&format!(r#"{{"output":{{"strategy":{strategy}}}}}"#), ToolKind::Other, true);
        assert_eq!(findings, []);
        assert_eq!(program.values(&items, &Work::unlimited()), expected, "{strategy}");
    }
}

#[test]
fn the_default_algorithm_follows_the_strategy_and_the_list() {
    let list = |items: usize, forms: usize| {
        let mut candidates = Candidates::default();
        (0..items).for_each(|_| candidates.push((0..forms).map(|_| Form { value: 1, weight: 1 })));
        candidates
    };
    for (output, items, forms, expected) in [
        (r#"{}"#, 99, 1, Algorithm::Knapsack),
        (r#"{}"#, 100, 1, Algorithm::Greedy),
        (r#"{"preset":"issues"}"#, 99, 3, Algorithm::Knapsack),
        (r#"{"preset":"issues"}"#, 100, 3, Algorithm::Greedy),
        (r#"{"preset":"issues"}"#, 100_000, 3, Algorithm::Greedy),
        // 20 threads of six comments.
        (r#"{"preset":"discussions"}"#, 20, 6, Algorithm::Greedy),
        (r#"{"preset":"discussions"}"#, 20, 5, Algorithm::Knapsack),
        (r#"{"strategy":{"name":"default","group":"g"}}"#, 5, 1, Algorithm::Fair),
        (r#"{"strategy":{"name":"head_tail","group":"g"}}"#, 5, 1, Algorithm::HeadTail),
        (r#"{"strategy":"element_count"}"#, 10_000, 1, Algorithm::Greedy),
        (r#"{"algorithm":"greedy"}"#, 5, 1, Algorithm::Greedy),
        (r#"{"algorithm":"head_tail"}"#, 5, 1, Algorithm::HeadTail),
    ] {
        let (program, _) = fit(&format!(r#"{{"output":{output}}}"#), ToolKind::Other, true);
        assert_eq!(program.algorithm(&list(items, forms)), expected, "{output} {items}");
    }
}

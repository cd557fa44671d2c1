//! The forms of an item.

use serde_json::Value;

use super::*;
use crate::fit::{Details, Field, FitProgram, Level, Levels, Preset, ToolKind};
use crate::program::{Index, Name, Segment, Trie};
use crate::stream::ItemPaths;
use crate::{json, run};

fn level(name: &str, paths: &[&str], scalars: bool) -> Level {
    let mut trie = Trie::default();
    for (id, path) in paths.iter().enumerate() {
        let segment = |text: &str| Segment::Name(Name { text: text.into(), index: Index::None });
        trie.insert(&path.split('/').map(segment).collect::<Vec<_>>(), id);
    }
    Level::new(name, trie, scalars)
}

/// The forms of an item with their values and texts.
fn forms(item: &str, levels: &Levels, comments: Option<&Field>, worth: u64) -> Vec<(u64, String)> {
    let work = Work::unlimited();
    let details = Details::new(item, levels, comments, &work);
    let (mut forms, mut buffer) = (Vec::new(), "left over".to_owned());
    details.each(worth, &mut buffer, &work, |detail| forms.push(detail));
    assert_eq!(forms.len(), details.len());
    let text = |form: usize| {
        let mut out = ">".to_owned();
        details.write(form, &mut out, &work);
        out.split_off(1)
    };
    let forms: Vec<_> = forms.into_iter().enumerate().map(|(form, detail)| (detail, text(form))).collect();
    forms
        .into_iter()
        .map(|(detail, text)| (detail.value, text, detail.bytes))
        .map(|(value, text, bytes)| {
            assert_eq!(text.len(), bytes, "{text}");
            (value, text)
        })
        .collect()
}

#[test]
fn levels_keep_what_their_paths_lead_to() {
    let levels = Levels::new(vec![level("standard", &["a", "b/c", "l/n"], false), level("minimal", &["a"], false)]);
    assert_eq!(levels.iter().map(Level::name).collect::<Vec<_>>(), ["standard", "minimal"]);
    for (item, standard, minimal) in [
        (r#"{"a":1,"b":{"c":2,"d":3},"x":4}"#, r#"{"a":1,"b":{"c":2}}"#, r#"{"a":1}"#),
        (r#"{"x":[1],"a":[{"y":1}]}"#, r#"{"a":[{"y":1}]}"#, r#"{"a":[{"y":1}]}"#),
        (r#"{"l":[{"n":1,"o":2},{"o":3},7]}"#, r#"{"l":[{"n":1},{},{}]}"#, "{}"),
        (r#"{"b":"text","x":1}"#, "{}", "{}"),
        // A tree reads keys with escapes, and duplicates.
        (r#"{"\u0061":1,"x":1}"#, r#"{"\u0061":1}"#, r#"{"\u0061":1}"#),
        (r#"{"a":1,"x":1,"a":2}"#, r#"{"a":2}"#, r#"{"a":2}"#),
        ("{}", "{}", "{}"),
    ] {
        let expected = [(1_000_000, item), (700_000, standard), (400_000, minimal)];
        assert_eq!(forms(item, &levels, None, 1_000_000), expected.map(|(value, text)| (value, text.to_owned())));
    }
    for item in ["7", "null", "\"a\"", "[]", r#"[{"a":1,"x":2}]"#] {
        assert_eq!(forms(item, &levels, None, 5), [(5, item.to_owned())], "no object, no levels");
    }
}

#[test]
fn a_scalar_stays_where_a_path_of_a_preset_continues() {
    let levels = Levels::new(vec![level("standard", &["user/login", "labels/name"], true)]);
    for (item, kept) in [
        (
            r#"{"user":{"login":"x","url":"y"},"labels":[{"name":"n","color":"c"}]}"#,
            r#"{"user":{"login":"x"},"labels":[{"name":"n"}]}"#,
        ),
        (r#"{"user":"x","labels":["n",1,null],"url":"y"}"#, r#"{"user":"x","labels":["n",1,null]}"#),
        (r#"{"user":null,"labels":[],"url":"y"}"#, r#"{"user":null,"labels":[]}"#),
        (r#"{"user":{"url":"y"},"url":"y"}"#, "{}"),
        // In a tree.
        (
            r#"{"\u0075ser":"x","labels":["n",[{"name":1,"x":2}]],"url":"y"}"#,
            r#"{"\u0075ser":"x","labels":["n",[{"name":1}]]}"#,
        ),
    ] {
        assert_eq!(forms(item, &levels, None, 10)[1].1, kept);
    }
}

#[test]
fn threads_show_the_first_comment_and_the_newest() {
    let comments = Field::any_of(&["comments"]);
    let levels = Levels::new(vec![level("minimal", &["id", "comments/b"], false)]);
    let thread = r#"{"id":1,"comments":[{"b":1,"x":0},{"b":2},{"b":3,"y":[1,2]},{"b":4}],"z":2}"#;
    let expected = [
        (2_000_000, thread),
        (1_500_000, r#"{"id":1,"comments":[{"b":1,"x":0},{"b":3,"y":[1,2]},{"b":4}],"z":2}"#),
        (1_000_000, r#"{"id":1,"comments":[{"b":1,"x":0},{"b":4}],"z":2}"#),
        (400_000, r#"{"id":1,"comments":[{"b":1},{"b":4}]}"#),
    ];
    assert_eq!(
        forms(thread, &levels, Some(&comments), 1_000_000),
        expected.map(|(value, text)| (value, text.to_owned())),
    );
    let none = Levels::default();
    for item in [
        r#"{"comments":[1,2]}"#,
        r#"{"comments":[]}"#,
        r#"{"comments":{"nodes":[1,2,3]}}"#,
        r#"{"comments":3}"#,
        r#"{"notes":[1,2,3]}"#,
        "[1,2,3]",
        "7",
    ] {
        assert_eq!(forms(item, &none, Some(&comments), 7), [(7, item.to_owned())]);
    }
    assert_eq!(forms(r#"{"comments":[1,2,3,4,5]}"#, &none, Some(&comments), 3).len(), 4);
    let either = Field::any_of(&["comments", "notes", "comments/nodes"]);
    assert_eq!(
        forms(r#"{"comments":{"nodes":[1,2,3]}}"#, &none, Some(&either), 3)[1].1,
        r#"{"comments":{"nodes":[1,3]}}"#
    );
    let long = format!(r#"{{"comments":[{}]}}"#, vec!["1"; 5_000].join(","));
    let forms = forms(&long, &none, Some(&comments), 300_000);
    assert_eq!(
        (forms.len(), forms[0].0, &*forms[4_998].1),
        (4_999, 300_000 + 4_998 * 150_000, r#"{"comments":[1,1]}"#)
    );
}

#[test]
fn presets_have_smaller_levels_for_items_of_github_and_gitlab() {
    let github_issue = r#"{"url":"u","id":1,"number":7,"title":"t","user":{"login":"x","id":2,"url":"u"},"labels":[{"id":3,"name":"bug","color":"f"}],"state":"open","assignees":[{"login":"y","url":"u"}],"created_at":"c","body":"text"}"#;
    let gitlab_issue = r#"{"id":1,"iid":7,"title":"t","description":"text","state":"opened","author":{"id":1,"username":"x","web_url":"u"},"labels":["bug"],"created_at":"c","web_url":"u"}"#;
    let selected = r#"{"number":7,"title":"t","state":"open","by":"x","labels":["bug"],"created":"c"}"#;
    let file = r#"{"sha":"s","filename":"a.rs","status":"modified","additions":1,"deletions":2,"patch":"@@ -1 +1 @@"}"#;
    let discussion = r#"{"id":"d","notes":[{"id":1,"body":"b","author":{"username":"x","web_url":"u"},"resolved":false,"created_at":"c"}]}"#;
    for (preset, item, expected) in [
        (
            Preset::Issues,
            github_issue,
            &[
                r#"{"id":1,"number":7,"title":"t","user":{"login":"x"},"labels":[{"name":"bug"}],"state":"open","assignees":[{"login":"y"}],"body":"text"}"#,
                r#"{"id":1,"number":7,"title":"t","state":"open"}"#,
            ][..],
        ),
        (
            Preset::MergeRequests,
            gitlab_issue,
            &[
                r#"{"id":1,"iid":7,"title":"t","description":"text","state":"opened","author":{"username":"x"},"labels":["bug"]}"#,
                r#"{"id":1,"iid":7,"title":"t","state":"opened"}"#,
            ],
        ),
        (
            Preset::Pulls,
            selected,
            &[
                r#"{"number":7,"title":"t","state":"open","by":"x","labels":["bug"]}"#,
                r#"{"number":7,"title":"t","state":"open"}"#,
            ],
        ),
        (Preset::Diffs, file, &[r#"{"filename":"a.rs","status":"modified","additions":1,"deletions":2}"#]),
        (
            Preset::Comments,
            r#"{"id":1,"url":"u","body":"b","user":{"login":"x","url":"u"},"created_at":"c"}"#,
            &[r#"{"id":1,"body":"b","user":{"login":"x"},"created_at":"c"}"#],
        ),
        (
            Preset::Discussions,
            discussion,
            &[r#"{"id":"d","notes":[{"body":"b","author":{"username":"x"},"resolved":false}]}"#],
        ),
        (Preset::Logs, "{}", &[]),
    ] {
        let texts: Vec<_> = forms(item, &preset.levels(), None, 10).into_iter().skip(1).map(|(_, text)| text).collect();
        assert_eq!(texts, expected, "{}", preset.as_str());
        assert!(texts.iter().all(|text| text.len() < item.len() && serde_json::from_str::<Value>(text).is_ok()));
        assert_eq!(Preset::named(preset.as_str()), Some(preset));
    }
    assert_eq!(Preset::ALL.map(Preset::noun).len(), 7);
}

#[test]
fn tools_are_known_by_their_names() {
    for (name, kind) in [
        ("get_issues", ToolKind::Items),
        ("get_merge_requests", ToolKind::Items),
        ("get_issue_comments", ToolKind::Comments),
        ("get_merge_request_diffs", ToolKind::Diffs),
        ("get_merge_request_discussions", ToolKind::Discussions),
        ("get_job_logs", ToolKind::Logs),
        ("cloud__get_issues", ToolKind::Items),
        ("a__b__get_job_logs", ToolKind::Logs),
        ("get_pipeline", ToolKind::Other),
        ("get_issues_", ToolKind::Other),
        ("cloud_get_issues", ToolKind::Other),
        ("__", ToolKind::Other),
        ("", ToolKind::Other),
    ] {
        assert_eq!(ToolKind::of(name), kind, "{name}");
    }
}

#[test]
fn odd_items_have_forms_too() {
    let levels = Preset::Issues.levels();
    let comments = Field::any_of(&["comments"]);
    let large = format!(r#"{{"id":1,"title":"t","body":"{}","url":"u"}}"#, "x".repeat(10 << 20));
    let deep = format!(r#"{{"id":1,"title":{}1{}}}"#, "[".repeat(120), "]".repeat(120));
    let wide = format!("{{{}}}", (0..10_000).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(","));
    for (item, least) in [(&*large, r#"{"id":1,"title":"t"}"#), (&deep, &deep), (&wide, "{}"), ("{}", "{}")] {
        let forms = forms(item, &levels, Some(&comments), 1_000_000);
        assert_eq!(forms.last().map(|(_, text)| text.as_str()), Some(least));
        assert!(forms.is_sorted_by(|rich, poor| rich.1.len() >= poor.1.len()));
    }
    let work = Work::unlimited();
    let empty = vec!["{}"; 10_000];
    let program = FitProgram::of(ToolKind::Discussions);
    let mut candidates = Candidates::with_capacity(empty.len(), 1);
    for (item, worth) in empty.iter().zip(program.values(&empty, &work)) {
        let mut forms = Vec::new();
        program.details(item, false, &work).each(worth, &mut String::new(), &work, |detail| {
            forms.push(Form { value: detail.value, weight: detail.bytes as u64 + 1 });
        });
        candidates.push(forms);
    }
    let problem = Problem { candidates: &candidates, algorithm: program.algorithm(&candidates), uniform: false };
    assert_eq!(choose(problem, 3_000).iter().collect::<Vec<_>>(), (0..1_000).map(|item| (item, 0)).collect::<Vec<_>>());
}

/// JSON values as they are after a filter, with keys that paths name, one of them with an escape.
fn documents() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![Just("1"), Just("\"t\""), Just("null"), Just("\"\\u0061\"")].prop_map(str::to_owned);
    let key = prop_oneof![4 => Just("a"), 4 => Just("b"), 4 => Just("c"), 1 => Just("\\u0061"), 1 => Just("0")];
    let value = scalar.prop_recursive(3, 24, 4, move |inner| {
        let list = vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(",")));
        prop_oneof![list, object(key.clone(), inner)]
    });
    object(prop_oneof![Just("a"), Just("b"), Just("c"), Just("x")], value)
}

fn object(
    keys: impl Strategy<Value = &'static str> + 'static,
    values: impl Strategy<Value = String> + 'static,
) -> impl Strategy<Value = String> {
    vec((keys, values), 0..4).prop_map(|members| {
        let members: Vec<_> = members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    #[test]
    fn bytes_and_tree_keep_the_same(item in documents(), paths in vec(vec(0_usize..5, 1..4), 1..5), scalars: bool) {
        let work = Work::unlimited();
        let mut trie = Trie::default();
        let mut inserted: Vec<Vec<usize>> = Vec::new();
        for path in paths {
            // No path of a level covers another.
            if inserted.iter().all(|other| !other.starts_with(&path) && !path.starts_with(other)) {
                let segment = |at: &usize| Segment::Name(Name::new(["a", "b", "c", "0", "x"][*at]));
                trie.insert(&path.iter().map(segment).collect::<Vec<_>>(), inserted.len());
                inserted.push(path);
            }
        }
        let mut fast = String::new();
        let paths = ItemPaths::new(&trie, scalars).expect("paths without patterns");
        if paths.keep(&item, &mut fast, &work) {
            let document = json::parse(item.as_bytes(), 16).expect("JSON");
            prop_assert_eq!(fast, json::to_string(&run::narrowed(document, &trie, scalars, &work)), "{}", item);
        } else {
            prop_assert!(fast.is_empty());
        }
    }
}

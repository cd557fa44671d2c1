use super::{advisory, enforced, table};

/// The document as it is, one item.
fn item(select: &str) -> [super::Case; 2] {
    let filter = format!("{{\"root\":\"\",\"select\":{select}}}");
    [advisory(&filter), enforced(&filter)]
}

#[test]
fn takes_members_in_the_order_of_their_declaration() {
    let cases = [
        (r#"{"b":"b","a":"a"}"#, r#"{"a":1,"x":2,"b":3}"#, r#"{"b":3,"a":1}"#),
        (r#"{"by":"user.login"}"#, r#"{"user":{"login":"x","id":1}}"#, r#"{"by":"x"}"#),
        // The same source twice; digits and escapes as they are.
        (r#"{"p":"a","q":"a"}"#, r#"{"a":1.10}"#, r#"{"p":1.10,"q":1.10}"#),
        (r#"{"p":"a"}"#, r#"{"\u0061":"\ud800\/"}"#, r#"{"p":"\ud800\/"}"#),
        // Output keys are escaped.
        (r#"{"q\"\n":"a"}"#, r#"{"a":1}"#, "{\"q\\\"\\n\":1}"),
        // An index, all elements, in depth.
        (r#"{"f":"l[0].n","s":"l[1]"}"#, r#"{"l":[{"n":1},2,3]}"#, r#"{"f":1,"s":2}"#),
        (r#"{"m":"m[1][0]"}"#, r#"{"m":[[1],[2,3]]}"#, r#"{"m":2}"#),
        (
            r#"{"n":"labels[*].name"}"#,
            r#"{"labels":[{"name":"a","c":1},{"name":null},{"c":2},3]}"#,
            r#"{"n":["a",null]}"#,
        ),
        (r#"{"n":"a[*].b[*].c"}"#, r#"{"a":[{"b":[{"c":1},{"c":2}]},{"b":[]},{"x":0}]}"#, r#"{"n":[[1,2],[]]}"#),
        (r#"{"n":"a[*]"}"#, r#"{"a":[1,{"b":2}]}"#, r#"{"n":[1,{"b":2}]}"#),
        (r#"{"n":"a[*].b","k":"k"}"#, r#"{"a":[],"k":1}"#, r#"{"n":[],"k":1}"#),
        (r#"{"n":"a[*].b","k":"k"}"#, r#"{"a":[{}],"k":1}"#, r#"{"k":1}"#),
        // A dot or a bracket inside a key.
        (r#"{"n":"a\\.b.c\\[0\\]\\\\"}"#, r#"{"a.b":{"c[0]\\":1}}"#, r#"{"n":1}"#),
        // A present null is found; below it is nothing.
        (r#"{"n":"a","m":"a.b","k":"k"}"#, r#"{"a":null,"k":1}"#, r#"{"n":null,"k":1}"#),
        // A name does not map over a list, an index is none of an object.
        (r#"{"n":"a.b","m":"o[0]","k":"k"}"#, r#"{"a":[{"b":1}],"o":{"0":1},"k":2}"#, r#"{"k":2}"#),
        // Of duplicates the last.
        (r#"{"n":"a.b"}"#, r#"{"a":{"b":1},"a":{"b":2,"b":3}}"#, r#"{"n":3}"#),
    ];
    for (select, input, expected) in cases {
        for case in item(select) {
            table(&case, &[(input, expected)]);
        }
    }
}

#[test]
fn an_item_without_a_field_goes_without_it() {
    for case in item(r#"{"a":"a","b":"b"}"#) {
        let filtered = case.run(r#"[{"a":1,"b":2},{"a":3},{"c":4}]"#);
        assert_eq!(filtered.text, r#"[{"a":1,"b":2},{"a":3},{}]"#);
        assert!(filtered.report.partial_miss.is_empty());
        let filtered = case.run(r#"[{"a":1},{"a":3}]"#);
        assert_eq!(filtered.report.partial_miss, ["b"]);
        assert_eq!(filtered.report.error, None);
    }
}

#[test]
fn partial_misses_come_in_the_order_of_declaration_by_their_source() {
    for case in item(r#"{"z":"z.z","a":"a[*].b","k":"k"}"#) {
        assert_eq!(case.run(r#"{"k":1}"#).report.partial_miss, ["z.z", "a[*].b"]);
    }
}

#[test]
fn a_total_miss_is_a_failed_stage() {
    let [advisory, enforced] = item(r#"{"a":"a","b":"b.c"}"#);
    for input in [r#"[{"x":1},{}]"#, "{}", r#"{"b":1}"#, "\"s\"", "7", "null", r#"["s",{"x":1}]"#] {
        let filtered = advisory.run(input);
        assert_eq!(filtered.text, input, "unfiltered");
        assert_eq!(filtered.report.error.map(|e| e.stage.as_str()), Some("select"));
        assert!(filtered.report.partial_miss.is_empty());
        assert_eq!(enforced.refused(input).0, "select");
    }
    // It undoes what stage 5 did.
    let filtered = super::advisory(r#"{"maxItems":1,"select":{"a":"a"}}"#).run(r#"[{"x":1},{"x":2}]"#);
    assert_eq!((filtered.text.as_str(), filtered.report.items_truncated_from), (r#"[{"x":1},{"x":2}]"#, None));
}

#[test]
fn an_empty_list_misses_nothing() {
    for case in item(r#"{"a":"a"}"#) {
        let filtered = case.run("[]");
        assert_eq!(filtered.text, "[]");
        assert_eq!((filtered.report.error, filtered.report.partial_miss.len()), (None, 0));
    }
}

#[test]
fn elements_that_are_not_objects_pass_or_are_hidden() {
    let [advisory, enforced] = item(r#"{"a":"a"}"#);
    let input = r#"[1,{"a":1,"b":2},"s",[{"b":3}],null]"#;
    assert_eq!(advisory.text(input), r#"[1,{"a":1},"s",[{"b":3}],null]"#);
    assert_eq!(enforced.text(input), r#"[{},{"a":1},{},{},{}]"#);
    // A list without objects misses nothing.
    assert_eq!(advisory.run("[1,2]").report.error, None);
    assert_eq!(advisory.text("[1,2]"), "[1,2]");
    assert_eq!(enforced.refused("[1,2]").0, "select");
}

#[test]
fn max_items_keeps_the_first() {
    for (max, expected, from) in
        [(2, "[1,2]", Some(3)), (3, "[1,2,3]", None), (9, "[1,2,3]", None), (0, "[1,2,3]", None)]
    {
        for case in [
            advisory(&format!("{{\"root\":\"\",\"maxItems\":{max}}}")),
            enforced(&format!("{{\"root\":\"\",\"maxItems\":{max}}}")),
        ] {
            let filtered = case.run("[1,2,3]");
            assert_eq!((filtered.text.as_str(), filtered.report.items_truncated_from), (expected, from));
            assert_eq!(case.text(r#"{"a":1}"#), r#"{"a":1}"#, "nothing on an object");
            assert_eq!(case.text("5"), "5");
        }
    }
}

#[test]
fn exclude_drops_names_and_paths_of_the_item() {
    let cases = [
        (r#"["b"]"#, r#"[{"a":1,"b":2},{"b":3}]"#, r#"[{"a":1},{}]"#),
        (r#"["b"]"#, r#"{"a":1,"b":2,"c":{"b":3}}"#, r#"{"a":1,"c":{"b":3}}"#),
        (r#"["b"]"#, r#"{"\u0062":1,"a":2}"#, r#"{"a":2}"#),
        // Duplicates of the item: the last at the first one's place.
        (r#"["b"]"#, r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3}"#),
        (r#"["/u/e"]"#, r#"{"u":{"e":1,"i":2},"e":3}"#, r#"{"u":{"i":2},"e":3}"#),
        (r#"["/e"]"#, r#"{"u":{"e":1},"e":3}"#, r#"{"u":{"e":1}}"#),
        // They read like those of `retain`.
        (r#"["/l/e"]"#, r#"{"l":[{"e":1,"i":2},[{"e":3}],4]}"#, r#"{"l":[{"i":2},[{}],4]}"#),
        (r#"["/l/*/e"]"#, r#"{"l":[{"e":1,"i":2}]}"#, r#"{"l":[{"i":2}]}"#),
        (r#"["/*/e"]"#, r#"{"x":{"e":1,"i":2},"y":{"e":3}}"#, r#"{"x":{"i":2},"y":{}}"#),
        (r#"["/l/0","/l/2"]"#, r#"{"l":["a","b","c","d"]}"#, r#"{"l":["b","d"]}"#),
        (r#"["/l/*"]"#, r#"{"l":["a","b"]}"#, r#"{"l":[]}"#),
        (r#"["/~2"]"#, r#"{"*":1,"a":2}"#, r#"{"a":2}"#),
        (r#"["/a","/a/b"]"#, r#"{"a":{"b":1},"c":2}"#, r#"{"c":2}"#),
        // A number is a name of an object.
        (r#"["0"]"#, r#"{"0":1,"1":2}"#, r#"{"1":2}"#),
        // In items that are lists, their elements.
        (r#"["b"]"#, r#"[[{"a":1,"b":2}],5]"#, r#"[[{"a":1}],5]"#),
        // Absent, or a scalar: nothing to drop.
        (r#"["zz","/q/r"]"#, r#"[{"a":1},2,null]"#, r#"[{"a":1},2,null]"#),
    ];
    for (exclude, input, expected) in cases {
        let filter = format!("{{\"root\":\"\",\"exclude\":{exclude}}}");
        table(&advisory(&filter), &[(input, expected)]);
        table(&enforced(&filter), &[(input, expected)]);
    }
}

#[test]
fn exclude_comes_after_select() {
    let filter = r#"{"root":"","select":{"by":"user","n":"n"},"exclude":["n","/by/email"]}"#;
    for case in [advisory(filter), enforced(filter)] {
        table(&case, &[(r#"{"n":1,"user":{"email":2,"id":3}}"#, r#"{"by":{"id":3}}"#)]);
    }
}

#[test]
fn drops_nulls_and_empties() {
    let nulls = r#"{"root":"/p","dropNulls":true}"#;
    let empties = r#"{"root":"/p","dropEmpty":true}"#;
    let input =
        r#"{"p":{"a":null,"b":[null,{"c":null,"d":[]}],"e":"","f":{},"g":{"h":null},"i":0,"j":false},"s":null}"#;
    assert_eq!(
        advisory(nulls).text(input),
        r#"{"p":{"b":[null,{"d":[]}],"e":"","f":{},"g":{},"i":0,"j":false},"s":null}"#,
        "array elements stay, siblings are left alone"
    );
    assert_eq!(advisory(empties).text(input), r#"{"p":{"b":[null,{}],"i":0,"j":false},"s":null}"#);
    assert_eq!(enforced(empties).text(input), r#"{"p":{"b":[null,{}],"i":0,"j":false}}"#);
    // The payload itself stays.
    assert_eq!(advisory(empties).text(r#"{"p":{"a":{"b":{"c":[]}}}}"#), r#"{"p":{}}"#);
    assert_eq!(advisory(nulls).text(r#"{"p":null}"#), r#"{"p":null}"#);
    // After select.
    let filter = r#"{"root":"","select":{"a":"a","b":"b"},"dropNulls":true}"#;
    table(&advisory(filter), &[(r#"[{"a":null,"b":1}]"#, r#"[{"b":1}]"#), (r#"[{"a":null}]"#, "[{}]")]);
}

#[test]
fn what_a_dropped_duplicate_hides_does_not_come_back() {
    // Input, output of `dropNulls`, output of `dropEmpty`.
    for (input, nulls, empties) in [
        (r#"{"a":1,"a":null}"#, "{}", "{}"),
        (r#"{"a":null,"a":1}"#, r#"{"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#, r#"{"a":3,"b":2}"#),
        (r#"{"a":1,"\u0061":null,"b":2}"#, r#"{"b":2}"#, r#"{"b":2}"#),
        (r#"{"a":null,"a":1,"a":null}"#, "{}", "{}"),
        (r#"{"a":1,"a":""}"#, r#"{"a":""}"#, "{}"),
        (r#"{"a":1,"a":{"b":1,"b":null}}"#, r#"{"a":{}}"#, "{}"),
        (r#"{"a":[1],"a":[]}"#, r#"{"a":[]}"#, "{}"),
        (r#"{"x":{"y":[{"a":"s","a":null}]}}"#, r#"{"x":{"y":[{}]}}"#, r#"{"x":{"y":[{}]}}"#),
        (r#"[[{"a":1,"a":null}],{"a":2,"a":null}]"#, "[[{}],{}]", "[[{}],{}]"),
    ] {
        for (field, expected) in [("dropNulls", nulls), ("dropEmpty", empties)] {
            let filter = format!("{{\"root\":\"\",\"{field}\":true}}");
            table(&advisory(&filter), &[(input, expected)]);
            table(&enforced(&filter), &[(input, expected)]);
        }
    }
    // With other stages before it.
    for filter in [
        r#"{"root":"","retain":["/u","/k"],"dropNulls":true}"#,
        r#"{"root":"","select":{"u":"u","k":"k"},"dropNulls":true}"#,
        r#"{"root":"","exclude":["v","/u/v"],"dropNulls":true}"#,
        r#"{"root":"","patches":[{"op":"remove","path":"/v"},{"op":"remove","path":"/u/v"}],"dropNulls":true}"#,
    ] {
        let input = r#"{"v":0,"u":{"a":1,"a":null,"w":{"a":1,"a":null}},"k":1,"k":2}"#;
        table(&advisory(filter), &[(input, r#"{"u":{"w":{}},"k":2}"#)]);
    }
}

#[test]
fn under_enforced_a_field_that_is_dropped_looks_like_one_that_is_absent() {
    let filters = [
        r#"{"root":"","select":{"a":"a","b":"b"},"dropNulls":true,"exclude":["b"]}"#,
        r#"{"root":"","select":{"a":"a","b":"b"},"dropEmpty":true,"exclude":["b"]}"#,
    ];
    for filter in filters {
        for input in ["{}", r#"{"a":null}"#, r#"{"b":1}"#, r#"{"a":null,"b":null,"x":1}"#, r#"[{"b":1},{"a":null}]"#] {
            assert_eq!(
                enforced(filter).refused(input),
                ("select", "no path of `select` resolves in any item".to_owned())
            );
        }
    }
}

#[test]
fn exclude_takes_globs() {
    let user = r#"{"login":"a","html_url":1,"url":2,"deep":[{"url":3,"n":[{"url":4,"k":5}]}],"*":6}"#;
    for (exclude, expected) in [
        (r#"["*_url"]"#, r#"{"login":"a","url":2,"deep":[{"url":3,"n":[{"url":4,"k":5}]}],"*":6}"#),
        (r#"["*url"]"#, r#"{"login":"a","deep":[{"url":3,"n":[{"url":4,"k":5}]}],"*":6}"#),
        (r#"["/**/url"]"#, r#"{"login":"a","html_url":1,"deep":[{"n":[{"k":5}]}],"*":6}"#),
        (r#"["/**/*url"]"#, r#"{"login":"a","deep":[{"n":[{"k":5}]}],"*":6}"#),
        (r#"["/deep/**/url"]"#, r#"{"login":"a","html_url":1,"url":2,"deep":[{"n":[{"k":5}]}],"*":6}"#),
        (r#"["/**/n/**/url"]"#, r#"{"login":"a","html_url":1,"url":2,"deep":[{"url":3,"n":[{"k":5}]}],"*":6}"#),
        (r#"["/**/0/n"]"#, r#"{"login":"a","html_url":1,"url":2,"deep":[{"url":3}],"*":6}"#),
        (r#"["~2","deep"]"#, r#"{"login":"a","html_url":1,"url":2}"#),
        (r#"["/~2","d*p"]"#, r#"{"login":"a","html_url":1,"url":2}"#),
        (r#"["*"]"#, "{}"),
        (r#"["/**"]"#, "{}"),
        (r#"["/deep/**"]"#, r#"{"login":"a","html_url":1,"url":2,"*":6}"#),
    ] {
        for case in [
            advisory(&format!(r#"{{"root":"","exclude":{exclude}}}"#)),
            enforced(&format!(r#"{{"root":"","exclude":{exclude}}}"#)),
        ] {
            assert_eq!(case.text(user), expected, "{exclude}");
            assert_eq!(case.text(&format!("[{user}]")), format!("[{expected}]"), "{exclude}");
            assert_eq!(case.run(user).report.unresolved, [] as [&str; 0], "{exclude}");
        }
    }
}

#[test]
fn entries_of_exclude_that_match_nothing_are_missed() {
    let missed = |filter: &str, input: &str| {
        let [one, two] = [advisory(filter), enforced(filter)].map(|case| case.run(input).report.unresolved);
        assert_eq!(one, two, "{filter}");
        one
    };
    let none: [&str; 0] = [];
    let input = r#"[{"email":1,"user":{"url":2},"tags":[]},{"id":3}]"#;
    assert_eq!(
        missed(r#"{"root":"","exclude":["emial","email","/user/ulr","/user/url"]}"#, input),
        ["emial", "/user/ulr"]
    );
    assert_eq!(missed(r#"{"root":"","exclude":["*_id","/**/ulr","i*","/**/url"]}"#, input), ["*_id", "/**/ulr"]);
    // An empty list misses nothing that is named below it.
    assert_eq!(missed(r#"{"root":"","exclude":["/tags/name","/tags/**/x"]}"#, input), none);
    assert_eq!(missed(r#"{"root":"","exclude":["emial"]}"#, "[]"), none);
    // Items that `maxItems` drops say nothing.
    assert_eq!(missed(r#"{"root":"","maxItems":1,"exclude":["id"]}"#, input), ["id"]);
    // What `select` drops anyway is not missed; what it gives is looked for there too.
    let select = r#""root":"","select":{"e":"email","user":"user","id":"id"}"#;
    assert_eq!(
        missed(&format!(r#"{{{select},"exclude":["e","emial","/user/ulr","/id/x"]}}"#), input),
        ["/user/ulr", "/id/x"]
    );
    assert_eq!(missed(&format!(r#"{{{select},"exclude":["/e/x","/*/url","/**/tags"]}}"#), input), ["/e/x"]);
}

#[test]
fn many_globs_take_time_by_the_member() {
    // Each `**` could begin at each of the members: followed one by one they would be 2^16 ways to each.
    let pattern = "/**/a".repeat(16);
    let filter = format!(r#"{{"root":"","exclude":["{pattern}/b"]}}"#);
    let document = "{\"a\":".repeat(120) + "{\"b\":1,\"c\":2}" + &"}".repeat(120);
    let expected = "{\"a\":".repeat(120) + "{\"c\":2}" + &"}".repeat(120);
    assert_eq!(advisory(&filter).text(&document), expected);
    let name = "ab".repeat(10_000);
    let filter = format!(r#"{{"root":"","exclude":["{}c"]}}"#, "*ab".repeat(1000));
    let document = format!(r#"{{"{name}":1,"{name}c":2}}"#);
    assert_eq!(advisory(&filter).text(&document), format!(r#"{{"{name}":1}}"#));
}

#[test]
fn a_list_that_is_empty_hides_no_missing_name() {
    let missed = |path: &str, input: &str| {
        let filter = format!(r#"{{"root":"","select":{{"id":"id","x":"{path}"}}}}"#);
        let [one, two] = [advisory(&filter), enforced(&filter)].map(|case| case.run(input).report.partial_miss);
        assert_eq!(one, two);
        !one.is_empty()
    };
    let items = r#"[{"id":1,"labels":[]},{"id":2,"labels":[{"name":"bug"}]}]"#;
    assert!(missed("labels[*].nmae", items));
    assert!(!missed("labels[*].name", items));
    assert!(!missed("labels[*].name", r#"[{"id":1,"labels":[]},{"id":2}]"#));
    assert!(missed("labels[*].name", r#"[{"id":1,"labels":5},{"id":2}]"#));
    assert!(missed("labels[*].name", r#"[{"id":1,"labels":[5]},{"id":2}]"#));
    assert!(!missed("l[*].m[*].n", r#"[{"id":1,"l":[{"m":[]}]},{"id":2,"l":[]}]"#));
    assert!(missed("l[*].m[*].n", r#"[{"id":1,"l":[{"m":[]},{"m":[{"o":1}]}]}]"#));
    assert!(!missed("l[*].m[*].n", r#"[{"id":1,"l":[{"m":[{}]},{"m":[{"n":1}]}]}]"#));
}

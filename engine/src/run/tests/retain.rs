use super::{advisory, enforced, table};

/// Filter, input, output.
const CASES: &[(&str, &str, &str)] = &[
    // The union of the branches, in the document's own order.
    (r#"["/c","/a"]"#, r#"{"a":1,"b":2,"c":3}"#, r#"{"a":1,"c":3}"#),
    (r#"["/u/b","/u/a"]"#, r#"{"u":{"a":1,"x":0,"b":2},"v":3}"#, r#"{"u":{"a":1,"b":2}}"#),
    (r#"["/u"]"#, r#"{"u":{"a":1,"x":0},"v":3}"#, r#"{"u":{"a":1,"x":0}}"#),
    // A shorter path covers a longer one.
    (r#"["/u/a","/u"]"#, r#"{"u":{"a":1,"x":0},"v":3}"#, r#"{"u":{"a":1,"x":0}}"#),
    // "" is the whole document.
    (r#"[""]"#, r#"{"a":1,"b":[2]}"#, r#"{"a":1,"b":[2]}"#),
    // Bytes stay: digits, escapes, duplicates below a path's end.
    (
        r#"["/a"]"#,
        r#"{ "\u0061" : [ 1.10 , "\ud800" , {"x":1,"x":2} ] }"#,
        r#"{"\u0061":[1.10,"\ud800",{"x":1,"x":2}]}"#,
    ),
    // Duplicates in an object that a path enters: the last value, at the first one's place.
    (r#"["/a","/b"]"#, r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
    (r#"["/a/x"]"#, r#"{"a":{"x":1},"a":{"x":2,"x":3}}"#, r#"{"a":{"x":3}}"#),
    // Unresolved paths are ignored.
    (r#"["/a","/nope/deeper"]"#, r#"{"a":1,"b":2}"#, r#"{"a":1}"#),
    (r#"["/a/x"]"#, r#"{"a":5,"b":2}"#, "{}"),
    (r#"["/a/x"]"#, r#"{"a":{"y":1}}"#, "{}"),
    // What resolves nowhere leaves {}, [] or null.
    (r#"["/a"]"#, r#"{"b":1}"#, "{}"),
    (r#"["/5"]"#, "[1,2]", "[]"),
    (r#"["/a"]"#, "\"text\"", "null"),
    (r#"["/a"]"#, "7", "null"),
    // A name on an array maps over its elements; `*` says the same.
    (r#"["/items/name"]"#, r#"{"items":[{"name":1,"x":2},{"x":3}],"y":4}"#, r#"{"items":[{"name":1},{}]}"#),
    (r#"["/items/*/name"]"#, r#"{"items":[{"name":1,"x":2},{"x":3}],"y":4}"#, r#"{"items":[{"name":1},{}]}"#),
    (r#"["/name"]"#, r#"[{"name":1,"x":2},{"x":3}]"#, r#"[{"name":1},{}]"#),
    // Two paths under one array merge element by element.
    (r#"["/i/b","/i/a"]"#, r#"{"i":[{"a":1,"b":2,"c":3},{"b":4,"c":5}]}"#, r#"{"i":[{"a":1,"b":2},{"b":4}]}"#),
    (r#"["/i/*/b","/i/a"]"#, r#"{"i":[{"a":1,"b":2,"c":3},{"b":4,"c":5}]}"#, r#"{"i":[{"a":1,"b":2},{"b":4}]}"#),
    // Arrays in arrays are mapped too.
    (r#"["/m/v"]"#, r#"{"m":[[{"v":1,"w":2},[]],[],{"w":3}]}"#, r#"{"m":[[{"v":1},[]],[],{}]}"#),
    // An empty array stays empty.
    (r#"["/items/name"]"#, r#"{"items":[],"y":1}"#, r#"{"items":[]}"#),
    (r#"["/items/*/name"]"#, r#"{"items":[],"y":1}"#, r#"{"items":[]}"#),
    // An index keeps that element alone.
    (r#"["/i/1"]"#, r#"{"i":[1,2,3]}"#, r#"{"i":[2]}"#),
    (r#"["/i/2","/i/0"]"#, r#"{"i":["a","b","c"]}"#, r#"{"i":["a","c"]}"#),
    (r#"["/i/0/a"]"#, r#"{"i":[{"a":1,"b":2},{"a":3}]}"#, r#"{"i":[{"a":1}]}"#),
    (r#"["/i/7"]"#, r#"{"i":[1]}"#, "{}"),
    // An index and a name: the element whole, the others narrowed.
    (r#"["/i/1","/i/a"]"#, r#"{"i":[{"a":1,"b":2},{"a":3,"b":4}]}"#, r#"{"i":[{"a":1},{"a":3,"b":4}]}"#),
    // A number on an array is always an index, on an object a key; with leading zeros it is a name.
    (r#"["/o/0"]"#, r#"{"o":{"0":1,"1":2}}"#, r#"{"o":{"0":1}}"#),
    (r#"["/i/00"]"#, r#"{"i":[{"00":1,"x":2}]}"#, r#"{"i":[{"00":1}]}"#),
    (r#"["/i/0"]"#, r#"{"i":[{"0":1},{"0":2}]}"#, r#"{"i":[{"0":1}]}"#),
    (r#"["/i/99999999999999999999999"]"#, r#"{"i":[1]}"#, "{}"),
    // `*` on an object matches every member; those without the rest of the path go.
    (r#"["/o/*/v"]"#, r#"{"o":{"a":{"v":1,"w":2},"b":{"w":3},"c":{"v":4}}}"#, r#"{"o":{"a":{"v":1},"c":{"v":4}}}"#),
    (r#"["/*"]"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#),
    (r#"["/*/x"]"#, r#"[{"x":1,"y":2}]"#, r#"[{"x":1}]"#),
    // A literal `*` is `~2`, `~` is `~0`, `/` is `~1`.
    (
        r#"["/~2","/a~1b","/c~0d","/e*f"]"#,
        r#"{"*":1,"a/b":2,"c~d":3,"e*f":4,"x":5}"#,
        r#"{"*":1,"a/b":2,"c~d":3,"e*f":4}"#,
    ),
    // The empty key.
    (r#"["/"]"#, r#"{"":1,"a":2}"#, r#"{"":1}"#),
    // Escaped keys match.
    (r#"["/na/me"]"#, r#"{"\u006e\u0061":{"m\u0065":1,"x":2}}"#, r#"{"\u006e\u0061":{"m\u0065":1}}"#),
];

#[test]
fn keeps_what_the_paths_lead_to() {
    for (paths, input, expected) in CASES {
        let filter = format!("{{\"retain\":{paths}}}");
        table(&advisory(&filter), &[(input, expected)]);
        table(&enforced(&filter), &[(input, expected)]);
    }
}

#[test]
fn an_element_without_kept_members_becomes_an_empty_object() {
    for (paths, input, expected) in [
        // It does not show what the element was, unless names map over a list in it.
        (r#"["/m/v"]"#, r#"{"m":[[5],{"w":3},5,null,"s"]}"#, r#"{"m":[[{}],{},{},{},{}]}"#),
        (r#"["/m/*/v"]"#, r#"{"m":[5,{}]}"#, r#"{"m":[{},{}]}"#),
        // One that is named by its index stays too.
        (r#"["/i/0/n"]"#, r#"{"i":[{"x":1},{"n":1}]}"#, r#"{"i":[{}]}"#),
        (r#"["/i/0/n"]"#, r#"{"i":[1]}"#, r#"{"i":[{}]}"#),
        (r#"["/i/0/n"]"#, r#"{"i":[null]}"#, r#"{"i":[{}]}"#),
        // It maps over a list, which stays.
        (r#"["/i/0/n"]"#, r#"{"i":[[]]}"#, r#"{"i":[[]]}"#),
        (r#"["/i/0/n"]"#, r#"{"i":[]}"#, "{}"),
        (r#"["/i/2/n","/i/0/n"]"#, r#"{"i":[1,{"n":2},{"n":3}]}"#, r#"{"i":[{},{"n":3}]}"#),
        // An index within an element, and on the way to one.
        (r#"["/i/0/1/n"]"#, r#"{"i":[[{"n":1}]]}"#, r#"{"i":[{}]}"#),
        (r#"["/i/0/1/n"]"#, r#"{"i":[[1,2]]}"#, r#"{"i":[[{}]]}"#),
        (r#"["/i/*/0/n"]"#, r#"{"i":[[1],[],1]}"#, r#"{"i":[[{}],{},{}]}"#),
        (r#"["/i/0/l/0/n"]"#, r#"{"i":[{"l":[5]},{"l":[5]}]}"#, r#"{"i":[{"l":[{}]}]}"#),
        (r#"["/i/0/l/0/n"]"#, r#"{"i":[{"l":5}]}"#, r#"{"i":[{}]}"#),
    ] {
        let filter = format!("{{\"retain\":{paths}}}");
        table(&advisory(&filter), &[(input, expected)]);
        table(&enforced(&filter), &[(input, expected)]);
    }
}

#[test]
fn an_element_named_by_index_is_counted_whatever_it_is() {
    let filter = r#"{"retain":["/items/0/n","/items/2/n"],"root":"/items","select":{"n":"n"},
        "compact":{"header":"{{.Total}} {{.Count}}","item":"{{.n}}"}}"#;
    let text = |first: &str| {
        let text = enforced(filter).text(&format!(r#"{{"items":[{first},{{"n":1}},{{"n":2}}]}}"#));
        text.lines().next().unwrap().to_owned()
    };
    for other in ["1", "null", r#""s""#, "[]", "[1]", r#"[{"n":1}]"#, "[[]]", r#"{"s":1}"#] {
        assert_eq!(text(other), "2 2", "{other}");
    }
    let filter = r#"{"retain":["/items/0/n","/u/n"],"root":"/u","exclude":["x"]}"#;
    for (first, user) in [("1", "5"), ("null", r#"{"s":1}"#), (r#"{"x":{}}"#, "null")] {
        let input = format!(r#"{{"items":[{first}],"u":{user}}}"#);
        assert_eq!(enforced(filter).text(&input), r#"{"items":[{}],"u":{}}"#, "{input}");
    }
}

#[test]
fn under_select_no_element_shows_what_it_was() {
    let list = |items: &str| format!(r#"{{"items":[{items},{{"n":1,"s":2}}]}}"#);
    let select = r#""root":"/items","select":{"n":"n"}"#;
    for kind in ["1", "null", r#""s""#, "true", "{}", r#"{"s":1}"#] {
        for retain in ["", r#""retain":["/items/n"],"#, r#""retain":["/items"],"#] {
            let filter = format!("{{{retain}{select}}}");
            assert_eq!(enforced(&filter).text(&list(kind)), r#"{"items":[{},{"n":1}]}"#, "{filter} {kind}");
        }
        // Under `Advisory` only `retain` hides what an element was.
        let filter = format!(r#"{{"retain":["/items/n"],{select}}}"#);
        assert_eq!(advisory(&filter).text(&list(kind)), r#"{"items":[{},{"n":1}]}"#, "{kind}");
    }
    for inner in ["[]", "[1]", r#"[{"n":1}]"#] {
        assert_eq!(enforced(&format!("{{{select}}}")).text(&list(inner)), r#"{"items":[{},{"n":1}]}"#, "{inner}");
        let filter = format!(r#"{{"retain":["/items/n"],{select}}}"#);
        assert_eq!(enforced(&filter).text(&list(inner)), r#"{"items":[[],{"n":1}]}"#, "{inner}");
    }
    // A list of nothing but placeholders is a failed stage, whatever the elements were.
    for items in ["1", "{}", r#"{"s":1},null"#] {
        let input = format!(r#"{{"items":[{items}]}}"#);
        assert_eq!(enforced(&format!("{{{select}}}")).refused(&input).0, "select", "{items}");
    }
}

#[test]
fn names_unresolved_paths_in_the_order_of_their_declaration() {
    let case = advisory(r#"{"retain":["/z","/a","/items/name","/items/nope","/i/3","/a/b"]}"#);
    let unresolved = |input: &str| case.run(input).report.unresolved;
    assert_eq!(unresolved(r#"{"a":1,"items":[{},{"name":1}],"i":[0]}"#), ["/z", "/items/nope", "/i/3"]);
    // An empty list misses nothing.
    assert_eq!(unresolved(r#"{"a":1,"items":[],"i":[]}"#), ["/z", "/i/3"]);
    // Of duplicates only the last counts.
    let case = advisory(r#"{"retain":["/a/b"]}"#);
    assert_eq!(case.run(r#"{"a":{"b":1},"a":{}}"#).report.unresolved, ["/a/b"]);
}

#[test]
fn under_enforced_what_a_later_stage_empties_goes() {
    let filter = r#"{"retain":["/a/b","/l/0/b","/k"],"dropNulls":true}"#;
    for (input, expected) in [
        (r#"{"a":{"b":null},"k":1}"#, r#"{"k":1}"#),
        (r#"{"a":{"x":2},"k":1}"#, r#"{"k":1}"#),
        (r#"{"a":{},"k":{}}"#, r#"{"k":{}}"#),
        (r#"{"l":[{"b":null},5],"k":1}"#, r#"{"l":[{}],"k":1}"#),
        (r#"{"l":[{},5],"k":1}"#, r#"{"l":[{}],"k":1}"#),
    ] {
        assert_eq!(enforced(filter).text(input), expected, "{input}");
    }
    // What the payload is in stays.
    let filter = r#"{"retain":["/a/b"],"root":"/a","dropEmpty":true}"#;
    for input in [r#"{"a":{"b":null}}"#, r#"{"a":{"x":1}}"#, r#"{"a":{}}"#] {
        assert_eq!(enforced(filter).text(input), r#"{"a":{}}"#, "{input}");
    }
}

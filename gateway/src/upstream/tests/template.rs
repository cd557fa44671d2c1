use super::*;

fn parsed(text: &str) -> (Vec<String>, Vec<String>) {
    let (template, unknown) = Template::parse(text, |name| matches!(name, "a" | "b.c" | "d[e]"));
    let part = |part: &Part| match part {
        Part::Text(text) => format!("'{text}'"),
        Part::Argument(name) => name.to_string(),
    };
    (template.parts().iter().map(part).collect(), unknown)
}

#[test]
fn splits_texts_at_known_placeholders() {
    for (text, parts, unknown) in [
        ("", vec![], vec![]),
        ("x", vec!["'x'"], vec![]),
        ("{a}", vec!["a"], vec![]),
        ("x{a}y{b.c}{d[e]}", vec!["'x'", "a", "'y'", "b.c", "d[e]"], vec![]),
        ("{{a}}", vec!["'{'", "a", "'}'"], vec![]),
        ("{z}{a}", vec!["'{z}'", "a"], vec!["z"]),
        ("{}{ a}{a }{a", vec!["'{}{ a}{a }{a'"], vec![]),
        ("}{a}{", vec!["'}'", "a", "'{'"], vec![]),
        (r#"{"k": "{a}"}"#, vec![r#"'{"k": "'"#, "a", r#"'"}'"#], vec![]),
        ("é{a}ß", vec!["'é'", "a", "'ß'"], vec![]),
    ] {
        assert_eq!(
            parsed(text),
            (parts.into_iter().map(str::to_owned).collect(), unknown.into_iter().map(str::to_owned).collect()),
            "{text}"
        );
    }
}

#[test]
fn recognises_a_sole_placeholder_and_a_constant() {
    let known = |name: &str| name == "a";
    for (text, sole, constant) in [
        ("{a}", Some("a"), None),
        ("{a} ", None, None),
        ("x", None, Some("x")),
        ("", None, Some("")),
        ("{b}", None, Some("{b}")),
    ] {
        let (template, _) = Template::parse(text, known);
        assert_eq!((template.sole(), template.constant()), (sole, constant), "{text}");
    }
    let error = Template::strict("field".to_owned(), "x{b}", known).unwrap_err();
    assert_eq!(error.to_string(), "field: `{b}` is not an argument of the tool");
}

#[test]
fn null_is_a_value_in_json_and_absent_elsewhere() {
    let arguments = crate::upstream::http::tests::support::arguments(r#"{"a": null, "b": 1.10}"#);
    let defaults = [("a", "2"), ("c", "3.0"), ("d", "null")]
        .into_iter()
        .map(|(name, json)| (name.to_owned(), JsonText::parse(json).unwrap()))
        .collect();
    let values = Values::new(&arguments, &defaults);
    // The caller's null is a value in JSON and nothing elsewhere; it is no default.
    for (name, json, text) in [
        ("a", Some("null"), None),
        ("b", Some("1.10"), Some("1.10")),
        ("c", Some("3.0"), Some("3.0")),
        ("d", Some("null"), None),
        ("e", None, None),
    ] {
        assert_eq!((values.json(name), values.get(name)), (json, text), "{name}");
    }
}

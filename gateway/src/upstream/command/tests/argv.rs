use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn argv(call: &Value) -> Argv {
    let mut call = call.clone();
    call["successCodes"] = json!([0]);
    Argv::new("call", &serde_json::from_str(&call.to_string()).unwrap()).unwrap()
}

fn words(argv: &Argv, arguments: &Value) -> Result<Vec<String>, String> {
    argv.words(&serde_json::from_str(&arguments.to_string()).unwrap()).map_err(|error| error.to_string())
}

/// Every style, in the order that kimbap has: positional arguments, options, the option for JSON.
fn every_style() -> Value {
    json!({
        "words": ["issue", "list"],
        "arguments": {
            "label": {"style": "flag", "flag": "--label"},
            "owner": {"style": "positional"},
            "author": {"style": "joined", "flag": "--author"},
            "all": {"style": "boolean", "flag": "--all"},
            "fields": {"style": "comma", "flag": "--fields"},
            "where": {"style": "json", "flag": "--where"},
            "repo": {"style": "positional"},
        },
        "defaults": {"owner": "acme"},
        "lastWords": ["--json"],
    })
}

#[test]
fn arguments_become_words_in_a_fixed_order() {
    let argv = argv(&every_style());
    for (arguments, expected) in [
        (json!({}), vec!["acme"]),
        (json!({"owner": "o", "repo": "r"}), vec!["o", "r"]),
        (json!({"all": true, "label": ["a", "b c"]}), vec!["acme", "--label", "a", "--label", "b c", "--all"]),
        (json!({"all": false, "label": []}), vec!["acme"]),
        (json!({"author": "-x", "fields": ["a", "b"]}), vec!["acme", "--author=-x", "--fields", "a,b"]),
        (json!({"author": ["a", "--b"]}), vec!["acme", "--author=a", "--author=--b"]),
        (json!({"where": {"a": [1, "--x"]}}), vec!["acme", "--where", r#"{"a":[1,"--x"]}"#]),
        (json!({"label": null, "repo": ""}), vec!["acme", ""]),
    ] {
        let expected: Vec<&str> = ["issue", "list"].into_iter().chain(expected).chain(["--json"]).collect();
        assert_eq!(words(&argv, &arguments).unwrap(), expected, "{arguments}");
    }
    // Digits stay as the caller wrote them.
    let digits = argv.words(&serde_json::from_str(r#"{"label":1.10,"repo":12345678901234567890}"#).unwrap()).unwrap();
    assert_eq!(digits[3..6], ["12345678901234567890", "--label", "1.10"]);

    let mut last = every_style();
    last["endOfOptions"] = json!("--");
    let argv = self::argv(&last);
    let made = words(&argv, &json!({"owner": "-o", "repo": "--force", "all": true})).unwrap();
    assert_eq!(made, ["issue", "list", "--all", "--json", "--", "-o", "--force"]);
}

/// The table of attacks: what an argument may say, and whether each style takes it as it is.
#[test]
fn no_value_becomes_an_option_another_word_or_another_argument() {
    let argv = argv(&every_style());
    let hostile: Vec<(Value, bool)> = vec![
        // The value, and whether it is only possible in one word with its option.
        (json!("-"), true),
        (json!("--"), true),
        (json!("-rf"), true),
        (json!("--output=/etc/passwd"), true),
        (json!(-5), true),
        (json!("-\u{a0}"), true),
        (json!("=x"), false),
        (json!("a=b"), false),
        (json!("a\nb"), false),
        (json!("\n--x"), false),
        (json!(" --x"), false),
        (json!("\r\n"), false),
        (json!(""), false),
        (json!("'; rm -rf / #"), false),
        (json!("$(id) `id` ${HOME} $HOME"), false),
        (json!("* ? [a-z] ~ {a,b}"), false),
        (json!("\"\\\" 'x' \\"), false),
        (json!("| & > < ; ! %"), false),
        (json!("\u{202e}\u{0}".trim_end_matches('\0')), false),
        (json!("–dash"), false),
        (json!("x".repeat(MAX_WORD - 20)), false),
    ];
    for (value, alone) in &hostile {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let joined = words(&argv, &json!({"author": value})).unwrap();
        assert_eq!(joined, ["issue", "list", "acme", &format!("--author={text}"), "--json"], "{value}");
        for (argument, before) in [("label", vec!["acme", "--label"]), ("owner", vec![])] {
            let made = words(&argv, &json!({argument: value}));
            if *alone {
                let expected =
                    format!("argument `{argument}` begins with `-`, so that the program would read it as an option");
                assert_eq!(made, Err(expected), "{value}");
            } else {
                let expected: Vec<&str> =
                    ["issue", "list"].into_iter().chain(before).chain([&*text, "--json"]).collect();
                assert_eq!(made.unwrap(), expected, "{value}");
            }
        }
    }
    for (arguments, expected) in [
        (json!({"owner": "a\u{0}b"}), "argument `owner` contains a zero byte, which no program can be given"),
        (json!({"author": "\u{0}"}), "argument `author` contains a zero byte, which no program can be given"),
        (json!({"label": ["a", "\u{0}"]}), "argument `label` contains a zero byte, which no program can be given"),
        (json!({"fields": ["a,b"]}), "argument `fields` has an element with a comma, which would be two elements"),
        (
            json!({"fields": ["-a", "b"]}),
            "argument `fields` begins with `-`, so that the program would read it as an option",
        ),
        (json!({"where": -1}), "argument `where` begins with `-`, so that the program would read it as an option"),
        (json!({"label": {"a": 1}}), "argument `label` is an object, which cannot be written as text"),
        (json!({"label": [["a"]]}), "argument `label` holds a list in a list, which cannot be written as text"),
        (json!({"all": "true"}), "argument `all` is neither true nor false"),
        (json!({"label": "x".repeat(MAX_WORD + 1)}), "argument `label` is longer than 131071 bytes"),
        (json!({"author": "x".repeat(MAX_WORD)}), "argument `author` is longer than 131071 bytes"),
    ] {
        assert_eq!(words(&argv, &arguments), Err(expected.to_owned()));
    }
    let together =
        |name: &str| format!("argument `{name}` makes a command line of more than 1048576 bytes or 4096 words");
    let many = json!({"label": vec!["x"; 3000], "owner": "o"});
    assert_eq!(words(&argv, &many), Err(together("label")));
    assert_eq!(words(&argv, &json!({"author": vec!["x".repeat(100_000); 11]})), Err(together("author")));
}

#[test]
fn an_absent_positional_argument_is_not_replaced_by_the_next() {
    let argv = argv(&json!({"arguments": {"remote": {"style": "positional"}, "branch": {"style": "positional"}}}));
    assert_eq!(words(&argv, &json!({"remote": "r", "branch": "b"})).unwrap(), ["r", "b"]);
    assert_eq!(words(&argv, &json!({"remote": "", "branch": "b"})).unwrap(), ["", "b"]);
    assert_eq!(words(&argv, &json!({"remote": "r"})).unwrap(), ["r"]);
    let expected = "argument `branch` is only possible together with `remote`, which comes before it";
    for arguments in [json!({"branch": "b"}), json!({"remote": null, "branch": "b"})] {
        assert_eq!(words(&argv, &arguments), Err(expected.to_owned()));
    }
}

#[test]
fn words_that_no_command_line_has_are_refused_at_load() {
    for (call, expected) in [
        (json!({"words": ["a\u{0}"]}), "call: has a word with a zero byte"),
        (json!({"arguments": {"a": {"style": "flag", "flag": "--\u{0}"}}}), "call: has a word with a zero byte"),
        (json!({"arguments": {"a": {"style": "flag"}}}), "call.arguments.a: must have a flag, unless it is positional"),
        (
            json!({"arguments": {"a": {"style": "positional", "flag": "--a"}}}),
            "call.arguments.a: must have a flag, unless it is positional",
        ),
    ] {
        let mut call = call.clone();
        call["successCodes"] = json!([0]);
        let call: CommandCall = serde_json::from_str(&call.to_string()).unwrap();
        assert_eq!(Argv::new("call", &call).unwrap_err().to_string(), expected);
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<String>(),
        4 => prop::sample::select(vec![
            "-", "--", "=", "\0", "\n", "\r\n", " ", "\t", "'", "\"", "\\", "$(id)", "`id`", "$HOME", "*", "?", "[a]", "~", ";",
            "|", "&", ">", "<", "--json", "-rf", "--output=x", ",", "{a}", "@file", "%", "\u{202e}", "",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Whatever the arguments say: an error, or a command line whose words are counted and placed by the names of the arguments
    /// alone, with each value in one word of its own.
    #[test]
    fn the_command_line_depends_on_values_in_their_own_words_only(
        owner in hostile(), repo in hostile(), author in hostile(), labels in prop::collection::vec(hostile(), 0..3),
        all: bool, end: bool,
    ) {
        let mut call = every_style();
        if end {
            call["endOfOptions"] = json!("--");
        }
        let argv = argv(&call);
        let arguments = json!({"owner": owner, "repo": repo, "author": author, "label": labels, "all": all});
        let Ok(made) = words(&argv, &arguments) else {
            // Something was refused, for a reason that the values have.
            let alone = [&owner, &repo].into_iter().filter(|_| !end).chain(&labels);
            let dash = alone.into_iter().any(|value| value.starts_with('-'));
            let zero = [&owner, &repo, &author].into_iter().chain(&labels).any(|value| value.contains('\0'));
            prop_assert!(dash || zero);
            return Ok(());
        };
        let labelled: Vec<String> = labels.iter().flat_map(|label| ["--label".to_owned(), label.clone()]).collect();
        let mut options = labelled;
        options.push(format!("--author={author}"));
        options.extend(all.then(|| "--all".to_owned()));
        let (positionals, json) = (vec![owner, repo], vec!["--json".to_owned()]);
        let fixed = vec!["issue".to_owned(), "list".to_owned()];
        let expected = if end {
            [fixed, options, json, vec!["--".to_owned()], positionals].concat()
        } else {
            [fixed, positionals, options, json].concat()
        };
        prop_assert_eq!(made, expected);
    }
}

use indexmap::IndexMap;
use serde_json::{Value, json};
use tamis_config::PromptRole;

use super::*;

fn prompt(arguments: &Value, messages: &[(PromptRole, &str)]) -> ServicePrompt {
    let messages = messages.iter().map(|(role, text)| PromptMessage { role: *role, text: (*text).to_owned() });
    let arguments: IndexMap<String, PromptArgument> = serde_json::from_value(arguments.clone()).unwrap();
    ServicePrompt { title: None, description: None, arguments, messages: messages.collect() }
}

fn rendered(prompt: &ServicePrompt, arguments: Option<&str>) -> Result<Value, String> {
    let raw = arguments.map(|text| RawValue::from_string(text.to_owned()).unwrap());
    render(prompt, raw.as_deref()).map(|text| serde_json::from_str(&text).unwrap())
}

#[test]
fn arguments_fill_their_places() {
    let arguments =
        json!({"name": {"required": true}, "tone": {"default": "kind", "enum": ["kind", "short"]}, "more": {}});
    let text = "Hi {name}, be {tone}{more}. {other} {\"a\": 1} { name }";
    let prompt = prompt(&arguments, &[(PromptRole::User, text), (PromptRole::Assistant, "{name}{name}")]);
    let texts = |arguments: &str| {
        rendered(&prompt, Some(arguments)).map(|messages| {
            assert_eq!((&messages[0]["role"], &messages[1]["role"]), (&json!("user"), &json!("assistant")));
            ["0", "1"].map(|n| messages.pointer(&format!("/{n}/content/text")).unwrap().as_str().unwrap().to_owned())
        })
    };
    let said = |first: &str, second: &str| Ok([first.to_owned(), second.to_owned()]);
    assert_eq!(texts(r#"{"name":"A"}"#), said("Hi A, be kind. {other} {\"a\": 1} { name }", "AA"));
    // A value is text: its braces are no places, and its quotation marks are escaped.
    assert_eq!(
        texts(r#"{"name":"{more}\"","tone":"short","more":"!"}"#),
        said("Hi {more}\", be short!. {other} {\"a\": 1} { name }", "{more}\"{more}\"")
    );
}

#[test]
fn what_is_wrong_is_named_without_its_value() {
    let arguments = json!({"name": {"required": true}, "tone": {"enum": ["kind"]}});
    let prompt = prompt(&arguments, &[(PromptRole::User, "{name} {tone}")]);
    let many = format!("{{{}}}", (0..65).map(|n| format!("\"name\":\"{n}\"")).collect::<Vec<_>>().join(","));
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(MAX_ARGUMENT + 1));
    for (given, expected) in [
        (None, "argument `name` is missing"),
        (Some("{}"), "argument `name` is missing"),
        (Some(r#"{"name":7}"#), "argument `name` is not a string"),
        (Some(r#"{"name":"x","nam":"secret"}"#), "there is no argument `nam`"),
        (Some(r#"{"name":"x","tone":"secret"}"#), "argument `tone` is none of its allowed values: kind"),
        (Some("[1]"), "arguments must be an object of strings"),
        (Some(&many), "there are more than 64 arguments"),
        (Some(&long), "argument `name` is longer than 65536 bytes"),
    ] {
        assert_eq!(rendered(&prompt, given), Err(expected.to_owned()), "{given:?}");
    }
}

#[test]
fn a_filled_prompt_is_bounded() {
    let arguments = json!({"name": {"required": true}});
    let prompt = prompt(&arguments, &[(PromptRole::User, &"{name}".repeat(17))]);
    let given = |length: usize| format!("{{\"name\":\"{}\"}}", "x".repeat(length));
    assert!(rendered(&prompt, Some(&given(MAX_RENDERED / 17))).is_ok());
    let error = rendered(&prompt, Some(&given(MAX_RENDERED / 17 + 1))).unwrap_err();
    assert_eq!(error, "the messages would be longer than 1048576 bytes");
}

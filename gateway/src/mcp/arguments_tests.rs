use serde_json::json;

use super::*;

fn reserved(apply: bool, raw: bool) -> Reserved {
    Reserved::new(apply, raw, |_| false)
}

fn take(reserved: &Reserved, text: &str) -> (Result<Call, InvalidArguments>, Vec<String>) {
    let mut arguments = read(Some(text)).unwrap();
    let call = reserved.take(&mut arguments);
    (call, arguments.into_keys().collect())
}

#[test]
fn reserved_inputs_are_taken_out_and_applied() {
    let (call, left) = take(&reserved(true, true), r#"{"a":1,"_output_mode":"raw","_budget":100,"_own":2}"#);
    assert_eq!(call.unwrap(), Call { raw: true, budget: Some(100) });
    assert_eq!(left, ["a", "_own"]);
    let (call, left) = take(&reserved(false, false), r#"{"_output_mode":"raw","_budget":"x"}"#);
    assert_eq!((call.unwrap(), left.len()), (Call::default(), 0));
}

#[test]
fn wrong_reserved_inputs_are_refused_by_name() {
    for (text, name) in [
        (r#"{"_output_mode":"all"}"#, "_output_mode"),
        (r#"{"_output_mode":1}"#, "_output_mode"),
        (r#"{"_budget":0}"#, "_budget"),
        (r#"{"_budget":-1}"#, "_budget"),
        (r#"{"_budget":1.5}"#, "_budget"),
        (r#"{"_budget":"10"}"#, "_budget"),
    ] {
        let message = take(&reserved(true, true), text).0.unwrap_err().0;
        assert!(message.contains(name), "{text}: {message}");
    }
    let enforced = take(&reserved(true, false), r#"{"_output_mode":"raw"}"#).0.unwrap_err().0;
    assert!(enforced.contains("not published"), "{enforced}");
    assert_eq!(take(&reserved(true, false), r#"{"_output_mode":"default"}"#).0, Ok(Call::default()));
}

#[test]
fn a_tool_keeps_an_argument_that_has_a_reserved_name() {
    let reserved = Reserved::new(true, true, |name| name == "_budget" || name == "__budget");
    let (call, left) = take(&reserved, r#"{"_budget":"mine","___budget":7}"#);
    assert_eq!((call.unwrap().budget, left), (Some(7), vec!["_budget".to_owned()]));
}

#[test]
fn digits_stay_and_the_last_of_two_wins() {
    let arguments = read(Some(r#"{"n":1.10,"n":12345678901234567890123}"#)).unwrap();
    assert_eq!(arguments["n"].get(), "12345678901234567890123");
    for text in ["[]", "1", "\"a\"", "{\"a\":}"] {
        assert!(read(Some(text)).is_err(), "{text}");
    }
    assert!(read(None).unwrap().is_empty());
}

#[test]
fn what_does_not_fit_is_named_without_its_value() {
    let schema = json!({
        "type": "object",
        "properties": {"state": {"enum": ["open", "closed"]}, "n": {"type": "integer"}, "owner": {"type": "string"}},
        "required": ["owner"], "additionalProperties": false,
    });
    let validator = jsonschema::options().build(&schema).unwrap();
    let message = validate(&validator, &json!({"state": "hunter2", "n": "hunter2", "extra": 1})).unwrap_err().0;
    for part in ["`state`", "`n`", "owner", "extra"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("hunter2"), "{message}");
    assert_eq!(validate(&validator, &json!({"owner": "a"})), Ok(()));
    assert!(tree(&read(Some(r#"{"n":1e999}"#)).unwrap()).unwrap_err().0.contains("`n`"));
}

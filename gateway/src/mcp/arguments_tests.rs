use serde_json::json;

use tamis_engine::Budget;

use super::*;

/// The reserved inputs of a filtered tool that a filter adds `_budget_tokens` to.
fn reserved(raw: bool) -> Reserved {
    named(raw, |_| false)
}

fn named(raw: bool, taken: impl Fn(&str) -> bool) -> Reserved {
    let inputs = [ReservedInput::OutputMode, ReservedInput::Budget, ReservedInput::BudgetTokens];
    Reserved::new(inputs.into_iter().collect(), raw, taken)
}

fn take(reserved: &Reserved, text: &str) -> (Result<(bool, Budget), InvalidArguments>, Vec<String>) {
    let mut arguments = read(Some(text)).unwrap();
    let call = reserved.take(&mut arguments);
    (call.map(|call| (call.raw, call.budget)), arguments.iter().map(|(name, _)| name.to_owned()).collect())
}

#[test]
fn reserved_inputs_are_taken_out_and_applied() {
    let (call, left) = take(&reserved(true), r#"{"a":1,"_output_mode":"raw","_budget":100,"_own":2}"#);
    assert_eq!(call, Ok((true, Budget::bytes(100))));
    assert_eq!(left, ["a", "_own"]);
    let both = Budget { bytes: Some(Bytes(7)), tokens: Some(Tokens(8)) };
    assert_eq!(take(&reserved(true), r#"{"_budget":7,"_budget_tokens":8}"#), (Ok((false, both)), Vec::new()));
    // Only an input that is advertised is taken from a call.
    let none = Reserved::new(ReservedInputs::default(), true, |_| false);
    let (call, left) = take(&none, r#"{"_output_mode":"raw","_budget":"x"}"#);
    assert_eq!((call.unwrap(), left.len()), ((false, Budget::default()), 2));
}

#[test]
fn a_whole_number_is_a_budget_however_it_is_written() {
    for text in ["100", "100.0", "1e2", "1000e-1", "1.0E+2"] {
        let call = take(&reserved(true), &format!("{{\"_budget\":{text}}}")).0;
        assert_eq!(call, Ok((false, Budget::bytes(100))), "{text}");
    }
    // As any input that is a number: one that is larger than any answer is no limit.
    for text in ["1000000000000000000", "1e30", "1e300"] {
        let Budget { bytes, tokens } = take(&reserved(true), &format!("{{\"_budget\":{text}}}")).0.unwrap().1;
        assert!(bytes.is_some_and(|bytes| bytes.0 >= 1_000_000_000_000_000_000) && tokens.is_none(), "{text}");
    }
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
        (r#"{"_budget":0.0}"#, "_budget"),
        (r#"{"_budget":-100.0}"#, "_budget"),
        (r#"{"_budget_tokens":0}"#, "_budget_tokens"),
    ] {
        let message = take(&reserved(true), text).0.unwrap_err().0;
        assert!(message.contains(name), "{text}: {message}");
    }
    let enforced = take(&reserved(false), r#"{"_output_mode":"raw"}"#).0.unwrap_err().0;
    assert!(enforced.contains("not published"), "{enforced}");
    assert_eq!(take(&reserved(false), r#"{"_output_mode":"default"}"#).0, Ok((false, Budget::default())));
}

#[test]
fn a_tool_keeps_an_argument_that_has_a_reserved_name() {
    let reserved = named(true, |name| name == "_budget" || name == "__budget");
    let (call, left) = take(&reserved, r#"{"_budget":"mine","___budget":7}"#);
    assert_eq!((call.unwrap().1, left), (Budget::bytes(7), vec!["_budget".to_owned()]));
}

#[test]
fn digits_stay_and_duplicate_keys_are_refused_at_any_depth() {
    let arguments = read(Some(r#"{"n":12345678901234567890123,"m":1.10}"#)).unwrap();
    assert_eq!((arguments.get("n"), arguments.get("m")), (Some("12345678901234567890123"), Some("1.10")));
    for text in [
        r#"{"scope":"all","scope":"public"}"#,
        r#"{"scope":"all","sc\u006fpe":"public"}"#,
        r#"{"deep":[{"scope":1,"sc\u006fpe":2}]}"#,
    ] {
        let refused = read(Some(text)).unwrap_err().0;
        assert!(refused.contains("`scope` is there twice"), "{refused}");
    }
    for text in ["[]", "1", "\"a\"", "{\"a\":}", r#"{"n":1e999}"#, r#"{"n":"\ud800"}"#] {
        assert!(read(Some(text)).is_err(), "{text}");
    }
    assert!(read(None).unwrap().is_empty());
}

#[test]
fn bytes_and_depth_of_arguments_are_bounded() {
    let sized = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    assert!(read(Some(&sized(LIMITS.bytes))).is_ok());
    assert!(read(Some(&sized(LIMITS.bytes + 1))).unwrap_err().0.contains("larger than 1048576 bytes"));
    let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(read(Some(&nested(LIMITS.depth - 1))).is_ok());
    assert!(read(Some(&nested(LIMITS.depth))).unwrap_err().0.contains("deeper than 64 levels"));
}

#[test]
fn what_does_not_fit_is_named_without_its_value() {
    let schema = json!({
        "type": "object",
        "properties": {"state": {"enum": ["open", "closed"]}, "n": {"type": "integer"}, "owner": {"type": "string"}},
        "required": ["owner"], "additionalProperties": false,
    });
    let schema = tamis_schema::compile(&schema.to_string(), &mut tamis_schema::Patterns::default()).unwrap();
    let given = |text| read(Some(text)).unwrap();
    let error = validate(&schema, &given(r#"{"state":"hunter2","n":"hunter2","extra":1}"#), None);
    let Err(ValidationError::Invalid(InvalidArguments(message))) = error else { panic!("{error:?}") };
    for part in ["`state`", "`n`", "`owner`", "`extra`"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("hunter2"), "{message}");
    assert_eq!(validate(&schema, &given(r#"{"owner":"a"}"#), None), Ok(()));
    assert_eq!(validate(&schema, &given(r#"{"owner":"a"}"#), Some(2)), Err(ValidationError::Heavy));
}

#[test]
fn a_megabyte_of_wrong_arguments_takes_a_few_megabytes() {
    let schema = json!({"properties": {"ss": {"type": "array", "items": {"type": "string"}}}});
    let schema = tamis_schema::compile(&schema.to_string(), &mut tamis_schema::Patterns::default()).unwrap();
    let text = format!("{{\"ss\":[{}1]}}", "1,".repeat((LIMITS.bytes - 9) / 2));
    let mut refused = None;
    let measured = allocation_counter::measure(|| refused = Some(validate(&schema, &read(Some(&text)).unwrap(), None)));
    let Some(Err(ValidationError::Invalid(InvalidArguments(message)))) = refused else { panic!("{refused:?}") };
    assert!(message.starts_with("`ss.0`: is not of type string"), "{message}");
    assert!(measured.bytes_max <= 32 * text.len() as u64, "{} bytes", measured.bytes_max);
}

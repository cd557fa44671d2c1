//! Templates mean what they mean in Go: the answers come from Go's own `text/template`
//! (`data/go-templates/main.go`), for all in which the two are to agree.

use serde_json::Value;
use tamis_engine::json;
use tamis_engine::template::{Meter, Template};

#[test]
fn templates_render_as_in_go() {
    let file: Value = serde_json::from_str(include_str!("data/go-templates/cases.json")).expect("valid");
    let data = file["data"].to_string();
    let dot = json::parse(data.as_bytes(), 16).expect("valid");
    let cases = file["cases"].as_array().expect("a list");
    assert!(cases.len() > 40);
    let mut wrong = Vec::new();
    for case in cases {
        let (source, want) = (case["template"].as_str().expect("text"), case["want"].as_str().expect("text"));
        let mut got = String::new();
        match Template::parse(source) {
            Ok(template) => template.render(&dot, &mut got, &mut Meter::default()).expect("within limits"),
            Err(error) => got = error.to_string(),
        }
        if got != want {
            wrong.push(format!("{source}\n  Go:    {want:?}\n  Tamis: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

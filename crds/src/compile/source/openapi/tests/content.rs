//! Bodies of every media type, and cookies.

use super::*;

#[test]
fn bodies() {
    let body = |required: bool, media: &str, schema: &str| {
        let operation = format!(
            "parameters: [{{name: q, in: query}}]\nrequestBody: {{required: {required}, content: {{{media}: {{schema: {schema}}}}}}}"
        );
        converted(&one("3.1.0", "/p", "post", &operation), &[], None)
    };
    let json = "application/json";
    let parts = "{type: object, properties: {a: {type: string}, b: {}}, required: [a]}";
    // Where members would be lost, or collide, the body stays whole.
    let table = [
        (true, json, parts, r#"{"a":"{a}","b":"{b}"}"#, json!(["a"])),
        (false, json, "{type: object, properties: {a: {}}}", r#"{"a":"{a}"}"#, Value::Null),
        (false, json, parts, r#""{body}""#, Value::Null),
        (true, json, "{type: array, items: {type: string}}", r#""{body}""#, json!(["body"])),
        (true, json, "{type: object, properties: {q: {}}}", r#""{body}""#, json!(["body"])),
        (true, json, "{type: object, properties: {a: {}}, additionalProperties: true}", r#""{body}""#, json!(["body"])),
        (true, json, "{type: object, properties: {a: {}}, required: [z]}", r#""{body}""#, json!(["body"])),
        (true, json, "{type: [object, 'null'], properties: {a: {}}}", r#""{body}""#, json!(["body"])),
        (true, json, "{allOf: [{type: object}]}", r#""{body}""#, json!(["body"])),
        (true, json, "{type: object, properties: {a b: {}, a-b: {}}}", r#"{"a b":"{a_b}","a-b":"{a-b}"}"#, Value::Null),
        (true, json, "{type: object, properties: {a b: {}, a_b: {}}}", r#""{body}""#, json!(["body"])),
    ];
    for (required, media, schema, template, names) in table {
        let conversion = body(required, media, schema);
        let call = http(&conversion);
        assert_eq!(call.request.body.as_ref().map(|body| body.0.as_str()), Some(template), "{schema}");
        assert_eq!(input(&conversion).get("required").unwrap_or(&Value::Null), &names, "{schema}");
    }
    let merge = body(true, "application/merge-patch+json", "{type: object}");
    assert_eq!(http(&merge).request.headers["Content-Type"], "application/merge-patch+json");
    let form = body(true, "application/x-www-form-urlencoded", parts);
    assert_eq!(
        http(&form).request.form,
        IndexMap::from([("a".to_owned(), "{a}".to_owned()), ("b".to_owned(), "{b}".to_owned())])
    );
    assert!(http(&form).request.body.is_none());
}

#[test]
fn fields_of_forms_have_the_style_of_their_encoding() {
    let form = |schema: &str, encoding: &str| {
        let media = format!("{{schema: {{type: object, properties: {{a: {schema}}}}}, encoding: {{{encoding}}}}}");
        let operation =
            format!("requestBody: {{required: true, content: {{application/x-www-form-urlencoded: {media}}}}}");
        converted(&one("3.0.3", "/p", "post", &operation), &[], None)
    };
    let list = "{type: array, items: {type: string}}";
    let object = "{type: object, properties: {k: {type: string}}}";
    let objects = "{type: array, items: {type: object}}";
    let either = "{anyOf: [{type: string}, {type: object}]}";
    let style = |schema: &str, encoding: &str| {
        let conversion = form(schema, encoding);
        match conversion.left_out.first() {
            Some(left) => Err(left.reason.clone()),
            None => Ok(http(&conversion).request.form_styles.get("a").copied().unwrap_or_default()),
        }
    };
    let expected = [
        (list, "", ArgumentStyle::Repeat),
        (list, "a: {explode: false}", ArgumentStyle::Comma),
        (list, "a: {style: form}", ArgumentStyle::Repeat),
        (list, "a: {style: spaceDelimited, explode: false}", ArgumentStyle::Space),
        (list, "a: {style: pipeDelimited, explode: false}", ArgumentStyle::Pipe),
        (list, "a: {style: deepObject, explode: true}", ArgumentStyle::Nested),
        (object, "a: {style: deepObject, explode: true}", ArgumentStyle::Nested),
        (objects, "a: {style: deepObject, explode: true}", ArgumentStyle::Nested),
        (either, "a: {style: deepObject, explode: true}", ArgumentStyle::Nested),
        (object, "a: {contentType: application/json}", ArgumentStyle::Json),
        ("{type: string}", "a: {contentType: text/plain}", ArgumentStyle::Repeat),
    ];
    for (schema, encoding, expected) in expected {
        assert_eq!(style(schema, encoding), Ok(expected), "{schema} {encoding}");
    }
    let deep = "has a body that is a form whose field `a` is an object, or a list of objects or lists";
    let refused = [
        (object, "", deep),
        (objects, "a: {style: form}", deep),
        (list, "a: {style: simple}", "has a body that is a form whose field `a` has the style `simple`"),
        (list, "a: {contentType: text/csv}", "has a body that is a form whose field `a` is written as text/csv"),
    ];
    for (schema, encoding, reason) in refused {
        assert_eq!(style(schema, encoding), Err(reason.to_owned()), "{schema} {encoding}");
    }
    // A form without fields is no body, unless one is required.
    let empty = |required: bool| {
        let media = "{schema: {type: object, properties: {}}, encoding: {}}";
        let operation =
            format!("requestBody: {{required: {required}, content: {{application/x-www-form-urlencoded: {media}}}}}");
        converted(&one("3.0.3", "/p", "post", &operation), &[], None)
    };
    assert!(http(&empty(false)).request.form.is_empty());
    assert_eq!(empty(true).left_out[0].reason, "has a body that is a form of any fields");
}

#[test]
fn bodies_that_are_not_json() {
    let body = |media: &str, content: &str| {
        let operation = format!("requestBody: {{required: true, content: {{{media}: {content}}}}}");
        converted(&one("3.0.3", "/p", "post", &operation), &[], None)
    };
    let bytes = json!({"type": "string", "contentEncoding": "base64"});
    let text = json!({"type": "string"});
    // The media type, what it holds, how it is written, and the schema of the argument.
    let whole = [
        ("text/plain", "{schema: {type: string}}", "text", &text),
        ("text/csv", "{}", "text", &text),
        ("application/xml", "{schema: {type: string}}", "text", &text),
        ("application/octet-stream", "{schema: {type: string, format: binary}}", "bytes", &bytes),
        ("image/png", "{}", "bytes", &bytes),
    ];
    for (media, content, kind, schema) in whole {
        let conversion = body(media, content);
        let content = serde_json::to_value(http(&conversion).request.content.as_ref()).expect("serializes");
        assert_eq!(content, json!({"argument": "body", "type": kind, "mediaType": media}), "{media}");
        assert_eq!(&input(&conversion)["properties"]["body"], schema, "{media}");
        assert_eq!(input(&conversion)["required"], json!(["body"]), "{media}");
    }
    // Text before bytes.
    let both =
        converted(&one("3.1.0", "/p", "post", "requestBody: {content: {image/png: {}, image/svg+xml: {}}}"), &[], None);
    assert_eq!(
        http(&both).request.content.as_ref().and_then(|content| content.media_type.as_deref()),
        Some("image/svg+xml")
    );
    let fields = "{schema: {type: object, required: [file, n], properties: {\
                  file: {type: string, format: binary, description: The file}, \
                  files: {type: array, items: {type: string, format: binary}}, \
                  n: {type: integer}, tags: {type: array, items: {type: string}}, \
                  meta: {type: object, properties: {a: {}}}, metas: {type: array, items: {type: object}}, \
                  id: {type: string, readOnly: true}}}, \
                  encoding: {file: {contentType: image/png}, files: {contentType: 'image/png, image/jpeg'}, \
                  meta: {contentType: application/x+json}}}";
    let conversion = body("multipart/form-data", fields);
    let expected = json!({
        "file": {"argument": "file", "type": "bytes", "mediaType": "image/png"},
        "files": {"argument": "files", "type": "bytes", "mediaType": "application/octet-stream"},
        "n": {"argument": "n", "type": "text"},
        "tags": {"argument": "tags", "type": "text"},
        "meta": {"argument": "meta", "type": "json", "mediaType": "application/x+json"},
        "metas": {"argument": "metas", "type": "json", "mediaType": "application/json"},
    });
    assert_eq!(serde_json::to_value(&http(&conversion).request.parts).expect("serializes"), expected);
    let input = input(&conversion);
    assert_eq!(
        input["properties"]["file"],
        json!({"description": "The file", "type": "string", "contentEncoding": "base64"})
    );
    assert_eq!(input["properties"]["files"], json!({"type": "array", "items": bytes}));
    assert_eq!(input["required"], json!(["file", "n"]));
    let refused = [
        ("{b: {contentType: text/csv}}", "has a body whose part `b` is not text and is written as text/csv"),
        ("{b: {style: form}}", "has a body whose part `b` has a style"),
        ("{b: {headers: {X-A: {required: true}}}}", "has a body whose part `b` requires headers"),
    ];
    for (encoding, reason) in refused {
        let content = format!(
            "{{schema: {{type: object, properties: {{b: {{type: object, properties: {{}}}}}}}}, encoding: {encoding}}}"
        );
        assert_eq!(body("multipart/form-data", &content).left_out[0].reason, reason);
    }
}

#[test]
fn cookies() {
    let auth = Auth { kind: AuthKind::Bearer, name: None, prefix: None, username: None, credential: None };
    let document = |style: &str| {
        let schema = "schema: {type: array, items: {type: string}}";
        one("3.2.0", "/p", "get", &format!("parameters: [{{name: s, in: cookie, {style}, {schema}}}]"))
    };
    for (style, written) in [
        ("explode: false", json!({"s": {"argument": "s"}})),
        ("style: cookie", json!({"s": {"argument": "s", "style": "cookie"}})),
    ] {
        let conversion = converted(&document(style), &[], None);
        assert_eq!(serde_json::to_value(&http(&conversion).request.cookies).expect("serializes"), written);
        // A cookie may name an account, as `auth` does.
        let conversion = converted(&document(style), &[], Some(&auth));
        let omitted = &conversion.tools.first().expect("a tool").1.omitted;
        assert_eq!(omitted[..], ["cookie `s`, which cannot be sent in addition to `auth`"]);
        assert!(http(&conversion).request.cookies.is_empty());
    }
}

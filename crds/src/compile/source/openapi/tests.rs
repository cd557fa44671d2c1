//! Documents, and the tools that they become.

mod content;

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use tamis_config::{ArgumentStyle, AuthKind, Call, HttpCall};
use tamis_engine::ResponseType;

use super::*;
use crate::yaml;

/// Converts everything of a document, or what the patterns select.
fn converted(text: &str, include: &[&str], auth: Option<&Auth>) -> Conversion {
    let file: Arc<str> = "api.yaml".into();
    let nodes = yaml::parse(&file, text.as_bytes()).expect("is YAML");
    let include: Vec<String> = include.iter().map(|&pattern| pattern.to_owned()).collect();
    let include = (!include.is_empty()).then_some(&include[..]);
    let source = DocumentAt { file: &file, field: "", node: &nodes[0] };
    convert(source, Selection { include, exclude: &[] }, auth, None)
}

fn said(conversion: &Conversion) -> Vec<String> {
    conversion.findings.iter().map(ToString::to_string).collect()
}

/// A document with one operation, `GET /p/{id}`, whose lines below `get:` are given.
fn one(version: &str, path: &str, method: &str, operation: &str) -> String {
    let lines = operation.lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "      {line}");
        text
    });
    format!(
        "openapi: {version}\nservers: [{{url: https://api.example.com/v1}}]\npaths:\n  {path}:\n    {method}:\n{lines}"
    )
}

fn http(conversion: &Conversion) -> &HttpCall {
    let tool = conversion.tools.values().next().unwrap_or_else(|| panic!("{:#?}", said(conversion)));
    let Call::Http(call) = &tool.tool.call else { panic!("an HTTP call") };
    call
}

fn input(conversion: &Conversion) -> Value {
    let tool = conversion.tools.values().next().unwrap_or_else(|| panic!("{:#?}", said(conversion)));
    serde_json::from_str(tool.tool.input_schema.as_str()).expect("is JSON")
}

#[test]
fn an_operation_becomes_a_tool() {
    let text = one(
        "3.0.3",
        "/pets/{petId}",
        "put",
        "operationId: pets/update\n\
         summary: Update\n  a pet\n\
         description: Changes a pet.\n\
         parameters:\n\
         - {name: petId, in: path, required: true, description: The pet, schema: {type: integer, format: int64}}\n\
         - {name: dry run, in: query, schema: {type: boolean, default: false}}\n\
         - {name: X-Trace, in: header, schema: {type: string}}\n\
         - {name: Authorization, in: header, required: true, schema: {type: string}}\n\
         requestBody:\n  \
           required: true\n  \
           content:\n    \
             application/json:\n      \
               schema:\n        \
                 type: object\n        \
                 required: [name, id]\n        \
                 properties:\n          \
                   id: {type: integer, readOnly: true}\n          \
                   name: {type: string, nullable: true, minLength: 1, example: Rex}\n          \
                   weight: {type: number, minimum: 0, exclusiveMinimum: true, multipleOf: 0.10}\n\
         responses:\n  \
           '200':\n    \
             content:\n      \
               application/json:\n        \
                 schema:\n          \
                   type: object\n          \
                   properties: {id: {type: integer}, secret: {type: string, writeOnly: true}}",
    );
    let conversion = converted(&text, &[], None);
    assert_eq!(said(&conversion), [""; 0]);
    assert_eq!(conversion.base_url.as_deref(), Some("https://api.example.com/v1"));
    let (name, Converted { operation, tool, omitted }) = conversion.tools.first().expect("a tool");
    assert_eq!((&**name, &**operation, omitted.len()), ("pets_update", "PUT /pets/{petId}", 0));
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (Some("Update a pet"), Some("Changes a pet.")));
    assert_eq!((tool.risk.mutating, tool.risk.destructive, tool.risk.idempotent), (true, false, true));
    assert_eq!(
        tool.input_schema.as_str(),
        r#"{"type":"object","properties":{"petId":{"description":"The pet","type":"integer","format":"int64"},"dry_run":{"type":"boolean","default":false},"X-Trace":{"type":"string"},"name":{"type":["string","null"],"minLength":1,"examples":["Rex"]},"weight":{"type":"number","exclusiveMinimum":0,"multipleOf":0.10}},"required":["petId","name"],"additionalProperties":false}"#
    );
    assert_eq!(tool.response_type, Some(ResponseType::Object));
    let output = tool.output_schema.as_ref().map(tamis_engine::JsonText::as_str);
    assert_eq!(output, Some(r#"{"type":"object","properties":{"id":{"type":"integer"}}}"#));
    let call = http(&conversion);
    assert_eq!((&*call.method, &*call.path), ("PUT", "/pets/{petId}"));
    assert_eq!(call.request.path_params["petId"], "{petId}");
    assert_eq!(call.request.query["dry run"], "{dry_run}");
    assert_eq!(call.request.headers["X-Trace"], "{X-Trace}");
    assert_eq!(call.request.headers.len(), 1, "the gateway authenticates, not the caller");
    let body = call.request.body.as_ref().map(|body| body.0.as_str());
    assert_eq!(body, Some(r#"{"name":"{name}","weight":"{weight}"}"#));
}

#[test]
fn styles_of_parameters() {
    let list = "schema: {type: array, items: {type: string}}";
    let object = "schema: {type: object, properties: {k: {type: string}, l: {type: integer}}, required: [k]}";
    // The parameter, and what the request has: the style of the query, or path and separator.
    let query = [
        (format!("{{name: a, in: query, {list}}}"), ArgumentStyle::Repeat),
        (format!("{{name: a, in: query, explode: false, {list}}}"), ArgumentStyle::Comma),
        (format!("{{name: a, in: query, style: spaceDelimited, {list}}}"), ArgumentStyle::Space),
        (format!("{{name: a, in: query, style: pipeDelimited, explode: false, {list}}}"), ArgumentStyle::Pipe),
        (format!("{{name: a, in: query, style: pipeDelimited, explode: true, {list}}}"), ArgumentStyle::Repeat),
        (format!("{{name: a, in: query, style: deepObject, explode: true, {object}}}"), ArgumentStyle::Deep),
        (format!("{{name: a, in: query, style: deepObject, {list}}}"), ArgumentStyle::Nested),
        (
            "{name: a, in: query, style: deepObject, schema: {type: object, properties: {k: {type: object}}}}"
                .to_owned(),
            ArgumentStyle::Nested,
        ),
        (format!("{{name: a, in: query, content: {{application/json: {{{object}}}}}}}"), ArgumentStyle::Json),
        ("{name: a, in: query, explode: false, schema: {type: string}}".to_owned(), ArgumentStyle::Repeat),
    ];
    for (parameter, style) in query {
        let conversion = converted(&one("3.1.0", "/p", "get", &format!("parameters:\n- {parameter}")), &[], None);
        let request = &http(&conversion).request;
        assert_eq!(request.query["a"], "{a}", "{parameter}");
        assert_eq!(request.styles.get("a").copied().unwrap_or_default(), style, "{parameter}");
    }
    let path = [
        ("", list, "/p/{a}", Some(",")),
        ("style: label, ", list, "/p/.{a}", Some(",")),
        ("style: label, explode: true, ", list, "/p/.{a}", Some(".")),
        ("style: matrix, ", list, "/p/;a={a}", Some(",")),
        ("style: matrix, explode: true, ", list, "/p/;a={a}", Some(";a=")),
        ("style: matrix, ", "schema: {type: string}", "/p/;a={a}", None),
        ("", "schema: {type: string}", "/p/{a}", None),
    ];
    for (style, schema, expected, separator) in path {
        let parameter = format!("{{name: a, in: path, required: true, {style}{schema}}}");
        let conversion = converted(&one("3.1.0", "'/p/{a}'", "get", &format!("parameters:\n- {parameter}")), &[], None);
        let call = http(&conversion);
        assert_eq!(call.path, expected, "{parameter}");
        assert_eq!(call.request.separators.get("a").map(String::as_str), separator, "{parameter}");
    }
    // Names and values of an object are elements of a list, or pairs.
    let written = [
        ("path, required: true", "'/p/{a}'", "/p/{a}", "elements"),
        ("path, required: true, explode: true", "'/p/{a}'", "/p/{a}", "pairs"),
        ("path, required: true, style: label, explode: true", "'/p/{a}'", "/p/.{a}", "pairs"),
        ("path, required: true, style: matrix", "'/p/{a}'", "/p/;a={a}", "elements"),
        ("header", "/p", "/p", "elements"),
        ("header, explode: true", "/p", "/p", "pairs"),
        ("query, explode: false", "/p", "/p", "elements"),
        ("query, style: spaceDelimited, explode: false", "/p", "/p", "elements"),
    ];
    for (place, path, expected, style) in written {
        let parameter = format!("parameters:\n- {{name: a, in: {place}, {object}}}");
        let conversion = converted(&one("3.1.0", path, "get", &parameter), &[], None);
        let call = http(&conversion);
        assert_eq!(call.path, expected, "{place}");
        assert_eq!(serde_json::to_value(&call.request.objects).expect("serializes"), json!({"a": style}), "{place}");
    }
    // Members of an object in style form are parameters of their own.
    let parameter = format!("parameters:\n- {{name: a, in: query, required: true, {object}}}");
    let conversion = converted(&one("3.1.0", "/p", "get", &parameter), &[], None);
    assert_eq!(http(&conversion).request.query.keys().collect::<Vec<_>>(), ["k", "l"]);
    assert_eq!(input(&conversion)["required"], json!(["k"]));
}

#[test]
fn what_cannot_be_sent_leaves_the_operation_or_the_parameter_out() {
    let object = "schema: {type: object, properties: {k: {type: string}}}";
    let table = [
        (
            "{name: a, in: cookie, @schema: {type: array, items: {type: string}}}".to_owned(),
            "cookie `a`, which is a list in style form with explode, which no cookie can hold",
        ),
        ("{name: a;b, in: cookie, @schema: {}}".to_owned(), "cookie `a;b`, which has a name that no cookie can have"),
        (
            "{name: a, in: header, @schema: {type: object, properties: {k: {type: array}}}}".to_owned(),
            "header `a`, which is an object that holds objects or lists",
        ),
        (format!("{{name: a, in: cookie, @{object}}}"), "cookie `a`, which is an object in a cookie"),
        (
            "{name: a, in: query, @schema: {type: array, items: {type: object}}}".to_owned(),
            "query `a`, which is a list of objects or lists",
        ),
        ("{name: Cookie, in: header, @schema: {}}".to_owned(), "header `Cookie`, which is managed by the gateway"),
        ("{name: Host, in: header, @schema: {}}".to_owned(), "header `Host`, which is managed by the gateway"),
        (
            "{name: a, in: query, @schema: {type: object, additionalProperties: true}}".to_owned(),
            "query `a`, which is an object of any members in style form",
        ),
        (
            format!("{{name: a, in: query, style: pipeDelimited, explode: true, @{object}}}"),
            "query `a`, which is an object in a style of lists with explode",
        ),
        (
            "{name: a, in: header, style: deepObject, @schema: {type: array}}".to_owned(),
            "header `a`, which is in the style `deepObject` that its place or its schema does not allow",
        ),
    ];
    for (parameter, reason) in table {
        let document =
            |required: &str| one("3.1.0", "/p", "get", &format!("parameters:\n- {}", parameter.replace('@', required)));
        let needed = converted(&document("required: true, "), &[], None);
        assert_eq!(needed.left_out[0].reason, format!("requires {reason}"), "{parameter}");
        assert!(
            said(&needed)[0].starts_with("api.yaml:5:5: warning: paths./p.get: the operation is left out: it requires")
        );
        // An optional one is not an argument, and the tool is there.
        let optional = converted(&document(""), &[], None);
        assert_eq!(optional.left_out.len(), 0, "{parameter}");
        assert_eq!(optional.tools["get_p"].omitted, [reason], "{parameter}");
        assert_eq!(input(&optional)["properties"], json!({}), "{parameter}");
    }
    let operations = [
        (
            "post",
            "requestBody: {required: true, content: {multipart/form-data: {}}}",
            "has a body of parts of any names",
        ),
        ("post", "requestBody: {required: true, content: {image/*: {}}}", "has a body of image/*"),
        (
            "post",
            "requestBody: {required: true, content: {application/xml: {schema: {type: object}}}}",
            "has a body of application/xml",
        ),
        (
            "post",
            "requestBody: {content: {application/x-www-form-urlencoded: {schema: {properties: {a: {items: {type: object}}}}}}}",
            "has a body that is a form whose field `a` is an object, or a list of objects or lists",
        ),
        ("get", "requestBody: {required: true, content: {application/json: {}}}", "requires a body with GET"),
        ("get", "responses: {'200': {content: {image/png: {}}}}", "answers with image/png"),
        (
            "get",
            "servers: [{url: https://other.example.com}]",
            "has a server of its own, `https://other.example.com`, which the `baseUrl` of another manifest can name",
        ),
        ("get", "parameters: [{$ref: 'other.yaml#/x'}]", "refers to another document, `other.yaml#/x`"),
        ("trace", "summary: x", "has a method that the gateway does not send, TRACE"),
        (
            "get",
            "requestBody: {content: {image/png: {}}}\nresponses: {'200': {content: {image/png: {}}}}",
            "answers with image/png",
        ),
        (
            "get",
            "parameters: [{name: a-b, in: query}, {name: a b, in: query}, {name: a b_query, in: query}, {name: a?b, in: query, required: true}]",
            "requires query `a?b`, which has several parameters that would be called `a_b`",
        ),
    ];
    for (method, operation, reason) in operations {
        let conversion = converted(&one("3.1.0", "/p", method, operation), &[], None);
        assert_eq!(conversion.left_out.first().map(|left| &*left.reason), Some(reason), "{:?}", said(&conversion));
        assert!(conversion.tools.is_empty());
    }
}

#[test]
fn definitions_are_what_is_reached() {
    let text = "openapi: 3.0.0\nservers: [{url: 'https://{h}.example.com', variables: {h: {default: api}}}]\npaths:\n  /t:\n    post:\n      \
        requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Tree'}}}}\n      \
        responses: {'200': {content: {application/json: {schema: {$ref: '#/components/schemas/Tree'}}}}}\n\
        components:\n  schemas:\n    Tree: {type: object, properties: {id: {type: integer, readOnly: true}, \
        children: {type: array, items: {$ref: '#/components/schemas/Tree'}}, kind: {$ref: '#/components/schemas/a~1b', description: x}}}\n    \
        a/b: {type: string, nullable: true, enum: [x]}\n    Other: {type: no-such-type}\n";
    let conversion = converted(text, &[], None);
    assert_eq!(said(&conversion), [""; 0], "what nothing refers to is not looked at");
    assert_eq!(conversion.base_url.as_deref(), Some("https://api.example.com"));
    let tree = json!({"type": "object", "properties": {
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}, "kind": {"$ref": "#/$defs/a_1b"}}});
    let input = input(&conversion);
    assert_eq!(input["$defs"], json!({"Tree": tree, "a_1b": {"type": ["string", "null"], "enum": ["x", null]}}));
    assert_eq!(input["properties"]["children"]["items"], json!({"$ref": "#/$defs/Tree"}));
    let output = conversion.tools["post_t"].tool.output_schema.as_ref().expect("a schema");
    let output: Value = serde_json::from_str(output.as_str()).expect("is JSON");
    assert_eq!(output["type"], "object");
    assert_eq!(output["$defs"]["Tree"]["properties"]["id"], json!({"type": "integer"}));
}

#[test]
fn a_server_of_its_own_may_be_that_of_the_document() {
    let table = [
        ("https://api.example.com/v1", true),
        ("https://api.example.com/v1/", true),
        ("//api.example.com/v1", true),
        ("http://api.example.com/v1", false),
        ("https://api.example.com", false),
        ("https://uploads.example.com/v1", false),
    ];
    for (url, is_tool) in table {
        let text =
            one("3.0.3", "/p", "get", &format!("servers: [{{url: '{url}'}}, {{url: https://other.example.com}}]"));
        assert_eq!(converted(&text, &[], None).tools.len(), usize::from(is_tool), "{url}");
    }
    // A manifest with the operation's server as its `baseUrl` publishes it.
    let text = "openapi: 3.1.0\nservers: [{url: https://api.example.com}]\npaths:\n  /a: {get: {}}\n  /b: {servers: [{url: \
                https://up.example.com/v1}, {url: https://up2.example.com}], get: {}, post: {servers: [{url: /v2}]}}\n";
    let file: Arc<str> = "api.yaml".into();
    let nodes = yaml::parse(&file, text.as_bytes()).expect("is YAML");
    let document = DocumentAt { file: &file, field: "", node: &nodes[0] };
    let table: [(Option<&str>, &[&str]); 7] = [
        (None, &["get_a"]),
        (Some("https://up.example.com/v1"), &["get_a", "get_b"]),
        (Some("https://UP.example.com:443/v1/"), &["get_a", "get_b"]),
        (Some("https://up2.example.com"), &["get_a", "get_b"]),
        (Some("https://up.example.com/V1"), &["get_a"]),
        (Some("http://up.example.com/v1"), &["get_a"]),
        (Some("https://up.example.com:8443/v1"), &["get_a"]),
    ];
    for (own, tools) in table {
        let conversion = convert(document, Selection::default(), None, own);
        assert_eq!(conversion.tools.keys().collect::<Vec<_>>(), tools, "{own:?}");
        let own_server = conversion.left_out.iter().find(|left| left.operation == "POST /b").expect("is left out");
        assert_eq!(
            own_server.reason,
            "has a server of its own, `/v2`, which the `baseUrl` of another manifest can name"
        );
    }
    let text = one(
        "3.0.3",
        "/p",
        "get",
        "servers: [{url: 'https://{host}/v1', variables: {host: {default: api.example.com}}}]",
    );
    assert_eq!(converted(&text, &[], None).tools.len(), 1);
}

#[test]
fn security_and_credentials() {
    let auth = Auth {
        kind: AuthKind::Query,
        name: Some("key".to_owned()),
        prefix: None,
        username: None,
        credential: Some(tamis_config::CredentialRef { name: "s".to_owned(), key: "k".to_owned() }),
    };
    let anonymous = |operation: &str| {
        let conversion = converted(&one("3.1.0", "/p", "get", operation), &[], Some(&auth));
        http(&conversion).auth.as_ref().map(|auth| auth.kind)
    };
    assert_eq!(anonymous("security: []"), Some(AuthKind::None));
    assert_eq!(anonymous("security: [{a: []}]"), None);
    assert_eq!(anonymous("security: [{}]"), None);
    assert_eq!(anonymous("summary: x"), None);
    // A credential in the body needs a body that is an object.
    let in_body = Auth { kind: AuthKind::Body, name: Some("key".to_owned()), ..auth.clone() };
    let body = |schema: &str| {
        let operation = format!("requestBody: {{required: true, content: {{application/json: {{schema: {schema}}}}}}}");
        converted(&one("3.1.0", "/p", "post", &operation), &[], Some(&in_body)).left_out
    };
    assert_eq!(body("{type: object, properties: {a: {}}}"), []);
    let reason = "has a body that is not divided into members, which `auth` of type body needs";
    assert_eq!(body("{type: array}")[0].reason, reason);
    // No argument takes the place of the credential.
    let conversion = converted(&one("3.1.0", "/p", "get", "parameters: [{name: key, in: query}]"), &[], Some(&auth));
    assert!(http(&conversion).request.query.is_empty());
    let nested = Auth { name: Some("a[key]".to_owned()), ..auth };
    let deep = "parameters: [{name: a, in: query, style: deepObject, schema: {type: object}}]";
    let conversion = converted(&one("3.1.0", "/p", "get", deep), &[], Some(&nested));
    assert_eq!(conversion.tools["get_p"].omitted, ["query `a`, which could set the parameter of the credential"]);
}

#[test]
fn operations_are_selected_and_names_are_stable() {
    let text = "openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths:\n  /a: {get: {operationId: listA, tags: [x]}, post: {operationId: addA}}\n  \
                /b: {get: {tags: [x, y]}, parameters: []}\n";
    let names = |include: &[&str]| converted(text, include, None).tools.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&[]), ["listA", "addA", "get_b"]);
    assert_eq!(names(&["x"]), ["listA", "get_b"]);
    assert_eq!(names(&["GET /*"]), ["listA", "get_b"]);
    assert_eq!(names(&["*A"]), ["listA", "addA"]);
    assert_eq!(names(&["POST /a", "y"]), ["addA", "get_b"]);
    assert_eq!(converted(text, &["y"], None).unselected, 2);
}

#[test]
fn bounds_are_reached() {
    let mut many = "openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths:\n".to_owned();
    for index in 0..=select::MAX_OPERATIONS {
        let _ = writeln!(many, "  /{index}: {{get: {{}}}}");
    }
    let conversion = converted(&many, &[], None);
    assert!(said(&conversion)[0].contains("paths: has more than 10000 operations"), "{:?}", said(&conversion));
    let fewer = many.rsplit_once("  /").map(|(fewer, _)| fewer).expect("an operation");
    let conversion = converted(fewer, &[], None);
    assert!(said(&conversion)[0].contains("10000 operations are selected, more than the limit of 5000"));
    assert_eq!(converted(fewer, &["GET /9*"], None).tools.len(), 1111);

    // Definitions that double at each step are written once each.
    let mut wide = one(
        "3.1.0",
        "/p",
        "post",
        "requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/s0'}}}}",
    );
    wide.push_str("components:\n  schemas:\n");
    for index in 0..50 {
        let next = index + 1;
        let _ = writeln!(
            wide,
            "    s{index}: {{anyOf: [{{properties: {{a: {{$ref: '#/components/schemas/s{next}'}}, b: {{$ref: '#/components/schemas/s{next}'}}}}}}]}}"
        );
    }
    wide.push_str("    s50: {type: string}\n");
    let conversion = converted(&wide, &[], None);
    assert_eq!(conversion.tools.len(), 1, "{:?}", said(&conversion));

    // A schema beyond its limit leaves the operation out.
    let long = "x".repeat(1000);
    let mut large = one("3.1.0", "/p", "get", "");
    large.push_str("      parameters:\n");
    for index in 0..255 {
        let _ = writeln!(large, "      - {{name: a{index}, in: query, schema: {{const: {long}{long}}}}}");
    }
    let conversion = converted(&large, &[], None);
    // The parameters are optional, so those that do not fit are not arguments.
    assert!(conversion.tools["get_p"].omitted.iter().all(|text| text.ends_with("has schemas of more than 256 KiB")));
    assert!(conversion.tools["get_p"].tool.input_schema.as_str().len() < 300 << 10);
    large.push_str("      - {name: b, in: query}\n      - {name: c, in: query}\n");
    assert_eq!(converted(&large, &[], None).left_out[0].reason, "has more than 256 parameters");
}

#[test]
fn a_mistake_has_its_place() {
    let table = [
        (
            "parameters:\n- {name: a, in: query, schema: {type: strin}}",
            "8:1",
            "paths./p.get.parameters[0].schema.type: `strin` is not a type; did you mean string?",
        ),
        (
            "parameters:\n- {name: a, in: query, schema: {maximum: Infinity}}",
            "",
            "paths./p.get.parameters[0].schema.maximum: expected a number, found `Infinity`",
        ),
        (
            "parameters:\n- {name: a, in: query, schema: {maximum: .inf}}",
            "",
            "paths./p.get.parameters[0].schema.maximum: expected a number, found `.inf`",
        ),
        (
            "parameters:\n- {name: a, in: query, schema: {default: .nan}}",
            "",
            "paths./p.get.parameters[0].schema.default: JSON cannot represent .nan",
        ),
        ("parameters:\n- {name: a, in: query, schema: {minLength: -1}}", "", "schema.minLength: -1 is not a count"),
        ("parameters:\n- {name: a, in: query, schema: text}", "", "schema: expected a schema, found a string"),
        ("parameters:\n- {name: a, in: nowhere}", "", "parameters[0].in: `nowhere` is not a place of parameters"),
        ("parameters:\n- {name: a, in: body}", "", "parameters[0]: a parameter cannot be in the body"),
        ("parameters:\n- {in: query}", "", "parameters[0]: the parameter has no name"),
        (
            "parameters:\n- {$ref: '#/components/parameters/none'}",
            "",
            "parameters[0].$ref: `#/components/parameters/none` does not exist",
        ),
        (
            "parameters:\n- {name: a, in: query, schema: {required: true}}",
            "",
            "schema.required: expected a list of names, found a boolean",
        ),
        ("parameters:\n- {name: a, in: query, schema: {enum: []}}", "", "schema.enum: is not a list of values"),
        ("parameters:\n- {name: a, in: query, schema: {allOf: {}}}", "", "schema.allOf: is not a list of schemas"),
    ];
    for (operation, _, expected) in table {
        let conversion = converted(&one("3.1.0", "/p", "get", operation), &[], None);
        let said = said(&conversion);
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(said[0].contains(expected) && said[0].contains(": error: "), "{}", said[0]);
        assert!(said[0].starts_with("api.yaml:7:"), "{}", said[0]);
    }
    for path in ["'/p#a'", "'/p?a=b'", "'/p/{a b}'", "'/p q'"] {
        let odd = converted(&one("3.1.0", path, "get", "summary: x"), &[], None);
        assert!(odd.left_out[0].reason.starts_with("has a path with a character that no path can have"), "{path}");
    }
    let path = converted(&one("3.1.0", "'/p/{id}'", "get", "summary: x"), &[], None);
    assert_eq!(
        said(&path),
        [
            "api.yaml:5:5: error: paths[\"/p/{id}\"].get: the path has `{id}`, and no parameter of the path declares it; add the \
          parameter with `in: path`, or correct its name"
        ]
    );
    let dots = converted(&one("3.1.0", "/p/../admin", "get", "summary: x"), &[], None);
    assert!(said(&dots)[0].contains("has a segment `.` or `..`"), "{:?}", said(&dots));
    // A mistake in an answer leaves out its schema alone.
    let answer =
        "responses: {'200': {content: {application/json: {schema: {type: object, properties: {a: {type: wrong}}}}}}}";
    let conversion = converted(&one("3.1.0", "/p", "get", answer), &[], None);
    assert!(said(&conversion)[0].contains("warning: ") && said(&conversion)[0].contains("`wrong` is not a type"));
    assert!(conversion.tools["get_p"].tool.output_schema.is_none());
    assert_eq!(conversion.tools["get_p"].tool.response_type, Some(ResponseType::Object));
}

#[test]
fn references_that_lead_nowhere() {
    let document = |components: &str| {
        let operation = "parameters: [{name: a, in: query, schema: {$ref: '#/components/schemas/A'}}]";
        converted(&format!("{}components:\n  schemas: {components}\n", one("3.1.0", "/p", "get", operation)), &[], None)
    };
    let back = "leads back to itself by references";
    for (components, expected) in [
        ("{A: {$ref: '#/components/schemas/B'}, B: {$ref: '#/components/schemas/A'}}", back),
        ("{A: {allOf: [{$ref: '#/components/schemas/A'}]}}", back),
        ("{A: {allOf: [{$ref: '#/components/schemas/B'}]}, B: {not: {$ref: '#/components/schemas/A'}}}", back),
    ] {
        let conversion = document(components);
        assert!(
            said(&conversion).iter().any(|line| line.contains(expected) && line.contains("error")),
            "{components}: {:#?}",
            said(&conversion)
        );
    }
    let fine =
        document("{A: {properties: {a: {$ref: '#/components/schemas/A'}}, items: {$ref: '#/components/schemas/A'}}}");
    assert_eq!(said(&fine), [""; 0]);
}

#[test]
fn documents_that_are_none() {
    let table = [
        ("just text", "expected an OpenAPI document, found a string"),
        ("swagger: '2.0'", "swagger: Swagger 2.0 is not supported; convert it to OpenAPI 3"),
        ("openapi: 4.0.0", "openapi: version `4.0.0` is not supported"),
        ("openapi: 3.10.0", "openapi: version `3.10.0` is not supported"),
        ("info: {}", "has no `openapi` version"),
        ("openapi: 3.0.0", "has no `paths`"),
        ("openapi: 3.0.0\npaths: []", "paths: expected a mapping of paths, found a list"),
        (
            "openapi: 3.0.0\nservers: [{url: http://169.254.169.254/latest}]\npaths: {}",
            "servers[0].url: `http://169.254.169.254/latest`: http is allowed for loopback",
        ),
        ("openapi: 3.0.0\nservers: [{url: 'https://{h}/'}]\npaths: {}", "servers[0].url: `https://{h}/`: "),
        (
            "openapi: 3.0.0\nservers: [{url: 'https://{h}/', variables: {h: {}}}]\npaths: {}",
            "servers[0].variables.h: the variable has no default",
        ),
        (
            "openapi: 3.0.0\npaths: {/a: {get: {operationId: a}}, /b: {get: {operationId: a}}}",
            "paths./b.get.operationId: `a` is also the operationId of GET /a",
        ),
    ];
    for (text, expected) in table {
        let said = said(&converted(text, &[], None));
        assert!(said.iter().any(|line| line.contains(expected) && line.contains("error: ")), "{text}: {said:#?}");
    }
}

//! Actions that are written of an OpenAPI document: they serve the same tools, with the same requests.

use serde_json::Value;
use tamis_config::ServiceDocument;

use super::*;
use crate::expand_api;

const SERVICE: &str =
    "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: pets}\nspec:\n  version: '1'\n";
const EXPOSITION: &str = "---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: pets}
spec: {service: {name: pets, version: '1'}, filters: []}
";
const AUTH: &str = "    auth: {type: bearer, secretRef: {name: s, key: k}}\n";

/// Whatever an operation can have that concerns its action.
const API: &str = "openapi: 3.1.0
servers: [{url: https://api.example.com/v1}]
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get:
      operationId: pet
      summary: A pet
      description: |-
        One pet,
          with '{braces}' and \"quotes\".
      parameters:
      - {name: tags, in: query, explode: false, schema: {type: array, items: {type: string}}}
      - {name: ids, in: query, schema: {type: array, items: {type: integer, minimum: 1}}}
      - {name: size, in: query, description: How many, schema: {type: integer, minimum: 1, default: 20}}
      - {name: kind, in: query, schema: {$ref: '#/components/schemas/Kind'}}
      - {name: X-Trace, in: header, schema: {type: string}}
      responses: {'200': {content: {application/json: {schema: {type: object, properties: {a: {type: string}}}}}}}
    put:
      operationId: replace
      deprecated: true
      security: []
      requestBody:
        required: true
        content:
          application/vnd.pets+json:
            schema: {type: object, required: [name], properties: {name: {type: [string, 'null']}, price: {type: number, enum: [1.10, 2e3]}}}
    delete: {operationId: remove}
    options: {operationId: options, responses: {'200': {content: {text/plain: {}}}}}
  /whole: {post: {operationId: whole, requestBody: {content: {application/json: {schema: {type: object}}}}}}
  /form:
    post:
      operationId: form
      requestBody: {required: true, content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {a: {type: string}}}}}}
  /any: {get: {operationId: any, parameters: [{name: a, in: query, schema: {}}]}}
  /own: {get: {operationId: own, parameters: [{name: _a, in: query, schema: {type: string}}]}}
  /deep: {get: {operationId: deep, parameters: [{name: a, in: query, style: deepObject, schema: {type: object}}]}}
  /list/{a}: {get: {operationId: list, parameters: [{name: a, in: path, required: true, schema: {type: array, items: {type: string}}}]}}
components:
  schemas: {Kind: {type: string, description: The kind, enum: [cat, dog]}}
  securitySchemes: {a: {type: http, scheme: bearer}}
";

fn served(text: &str) -> ServiceDocument {
    let compilation = compile(&resources(text), &CompileEnv::default());
    let service = compilation.snapshot.services.values().next();
    (**service.unwrap_or_else(|| panic!("{:#?}", said(&compilation)))).clone()
}

/// Each tool, with what its action lacks.
type Lacks = Vec<(String, Vec<String>)>;
/// Each operation that is no action, and why.
type LeftOut = Vec<(String, String)>;

/// Compares the service of a document with that of its actions, and returns what each tool lacks and what is left out.
fn compared(file: &str, text: &str) -> (Lacks, LeftOut) {
    let expansion = expand_api(file, text.as_bytes(), None, None);
    let auth = if expansion.report.auth.is_some() { AUTH } else { "" };
    let indented: String = text.lines().map(|line| format!("      {line}\n")).collect();
    let of_document = served(&format!("{SERVICE}  openapi:\n    inline:\n{indented}{auth}{EXPOSITION}"));
    let actions = serde_json::to_string(&expansion.actions).expect("serializes");
    let base_url = expansion.report.base_url.as_deref().expect("has a server");
    let of_actions =
        served(&format!("{SERVICE}  http:\n    baseUrl: {base_url}\n    actions: {actions}\n{auth}{EXPOSITION}"));
    assert_eq!(of_actions.source, of_document.source);
    let expanded: Vec<&String> = of_actions.tools.keys().collect();
    let order: Vec<&String> = of_document.tools.keys().filter(|name| of_actions.tools.contains_key(*name)).collect();
    assert_eq!(expanded, order);
    assert_eq!(expanded, expansion.report.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>());
    let mut lacking = Vec::new();
    for (tool, (name, own)) in expansion.report.tools.iter().zip(&of_actions.tools) {
        let document = &of_document.tools[name];
        // The call is all that a request is made of.
        let visible = |tool: &tamis_config::ServiceTool| {
            (tool.title.clone(), tool.description.clone(), tool.response_type, tool.risk, tool.call.clone())
        };
        assert_eq!(visible(own), visible(document), "{name}");
        let schema = |text: &str| serde_json::from_str::<Value>(text).expect("is JSON");
        let (is, was) = (schema(own.input_schema.as_str()), schema(document.input_schema.as_str()));
        assert_eq!(is["required"], was["required"], "{name}");
        let names =
            |schema: &Value| schema["properties"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
        assert_eq!(names(&is), names(&was), "{name}");
        let has_references = document.input_schema.as_str().contains("$ref");
        if tool.omitted.iter().all(|omitted| omitted == "the output schema") && !has_references {
            assert_eq!(is, was, "{name}");
        }
        lacking.push((name.clone(), tool.omitted.clone()));
    }
    (lacking, expansion.report.left_out)
}

#[test]
fn actions_serve_the_tools_of_their_document() {
    let (lacking, left_out) = compared("api.yaml", API);
    let lacking: Vec<(&str, Vec<&str>)> =
        lacking.iter().map(|(name, lacks)| (&**name, lacks.iter().map(String::as_str).collect())).collect();
    let of_pet = vec!["items of `ids`", "minimum, default of `size`", "the output schema"];
    let expected = [
        ("pet", of_pet),
        ("replace", vec!["null of `name`"]),
        ("remove", vec![]),
        ("options", vec![]),
        ("whole", vec![]),
    ];
    assert_eq!(lacking, expected);
    let left_out: Vec<String> = left_out.iter().map(|(operation, reason)| format!("{operation}: {reason}")).collect();
    assert_eq!(
        left_out,
        [
            "POST /form: sends a form, which no action does",
            "GET /any: has the argument `a`, which is not of one type",
            "GET /own: has the argument `_a`, and actions reserve names that begin with `_`",
            "GET /deep: has query `a` in a style that no argument of an action has",
            "GET /list/{a}: has a list or an object in the path, which no action does",
        ]
    );
}

#[test]
fn actions_of_a_published_document_serve_its_tools() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/openapi/github.openapi.json");
    let text = std::fs::read_to_string(file).expect("is there");
    let (lacking, left_out) = compared("github.json", &text);
    assert_eq!((lacking.len(), left_out), (3, Vec::new()));
}

#[test]
fn types_that_an_argument_has() {
    // The schema, the argument that it becomes, and what the argument lacks.
    let table = [
        ("{type: string, format: date}", Some(r#"{"type":"string"}"#), "format"),
        ("{type: [integer, 'null'], enum: [1, null]}", Some(r#"{"type":"integer","enum":[1]}"#), "null"),
        ("{type: [integer, string]}", None, ""),
        ("{enum: [a, b]}", Some(r#"{"type":"string","enum":["a","b"]}"#), ""),
        ("{enum: [a, 1]}", None, ""),
        ("{type: number, enum: [1, 2.50]}", Some(r#"{"type":"number","enum":[1,2.50]}"#), ""),
        ("{anyOf: [{type: string}, {type: string, format: x}]}", Some(r#"{"type":"string"}"#), "anyOf"),
        ("{oneOf: [{type: string}, {type: integer}]}", None, ""),
        ("{oneOf: [{type: object}, {type: 'null'}]}", Some(r#"{"type":"object"}"#), "oneOf"),
        (
            "{allOf: [{$ref: '#/components/schemas/A'}], description: b}",
            Some(r#"{"type":"array","description":"b","items":{"type":"string"}}"#),
            "maxItems",
        ),
        (
            "{type: array, items: {type: array, items: {type: string}}}",
            Some(r#"{"type":"array","items":{"type":"array"}}"#),
            "items",
        ),
        ("{type: object, properties: {a: {}}}", Some(r#"{"type":"object"}"#), "properties"),
        ("{$ref: '#/components/schemas/B'}", Some(r#"{"type":"array"}"#), "anyOf"),
        ("true", None, ""),
    ];
    for (schema, expected, lacks) in table {
        let text = format!(
            "openapi: 3.1.0\nservers: [{{url: https://a.example}}]\npaths: {{/a: {{post: {{operationId: a, requestBody: {{required: true, \
             content: {{application/json: {{schema: {{type: object, properties: {{x: {schema}}}}}}}}}}}}}}}}}\ncomponents: {{schemas: {{A: {{type: array, \
             description: a, maxItems: 2, items: {{type: string}}}}, B: {{anyOf: [{{$ref: '#/components/schemas/B2'}}, {{$ref: '#/components/schemas/B2'}}]}}, \
             B2: {{type: array, items: {{$ref: '#/components/schemas/B'}}}}}}}}\n"
        );
        let expansion = expand_api("a.yaml", text.as_bytes(), None, None);
        let Some(action) = expansion.actions.get("a") else {
            assert_eq!(expected, None, "{schema}: {:?}", expansion.report);
            continue;
        };
        let mut arg: Value = serde_json::to_value(&action.args["x"]).expect("serializes");
        assert_eq!(arg.as_object_mut().and_then(|arg| arg.remove("required")), Some(Value::Bool(false)));
        let expected: Value = serde_json::from_str(expected.unwrap_or_default()).expect("is expected");
        assert_eq!(arg, expected, "{schema}");
        let omitted: Vec<String> = if lacks.is_empty() { Vec::new() } else { vec![format!("{lacks} of `x`")] };
        assert_eq!(expansion.report.tools[0].omitted, omitted, "{schema}");
    }
}

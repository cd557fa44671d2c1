//! What `tamis import openapi` says about a document, and writes of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::Auth;

use super::super::report::{ApiReport, ApiTool};
use super::super::{Converted, DocumentAt, Selection};
use super::document::{At, Document};
use super::{Conversion, convert, prune};
use crate::compile::auth::kind;
use crate::read::api;
use crate::resources::AuthType;

/// Reads an OpenAPI document. `file` is only a name, for messages and to distinguish JSON (`.json`) from YAML; `include` chooses
/// operations as `operations.include` of a manifest does, and `base_url` is its `baseUrl`.
#[must_use]
pub fn examine_api(file: &str, bytes: &[u8], include: Option<&[String]>, base_url: Option<&str>) -> ApiReport {
    examined(file, bytes, (include, base_url), false).0
}

/// Reads a document, and returns its tools, too. `authenticated`: whether the tools are those of a service with the credential that
/// the document names.
pub(super) fn examined(
    file: &str,
    bytes: &[u8],
    (include, own_url): (Option<&[String]>, Option<&str>),
    authenticated: bool,
) -> (ApiReport, IndexMap<String, Converted>) {
    let none = |finding| (ApiReport { findings: vec![finding], ..ApiReport::default() }, IndexMap::new());
    let file: Arc<str> = file.into();
    let node = match api::tree_of(&file, bytes) {
        Ok(node) => node,
        Err(finding) => return none(*finding),
    };
    let source = DocumentAt { file: &file, field: "", node: &node };
    let document = match Document::new(&file, "", &node) {
        Ok(document) => document,
        Err(finding) => return none(finding),
    };
    let own = auth(&document);
    let credential = own.as_ref().filter(|_| authenticated).map(|(of, name)| Auth {
        kind: kind(*of),
        name: name.clone(),
        prefix: None,
        username: None,
        credential: None,
    });
    let Conversion { base_url, tools, left_out, unselected, names, findings } =
        convert(source, Selection { include, exclude: &[] }, credential.as_ref(), own_url);
    let matches = |pattern: &String| names.iter().any(|name| tamis_config::matches_pattern(pattern, name));
    let mut report = ApiReport {
        base_url,
        left_out: left_out.into_iter().map(|left| (left.operation, left.reason)).collect(),
        unselected,
        unmatched: include.unwrap_or_default().iter().filter(|pattern| !matches(pattern)).cloned().collect(),
        findings,
        auth: own,
        ..ApiReport::default()
    };
    let info = document.root().get("info");
    let text = |key: &str| info.as_ref().and_then(|info| info.text_of(key)).map(str::to_owned);
    (report.title, report.version) = (text("title"), text("version"));
    let kept: BTreeSet<&str> = tools.values().map(|tool| &*tool.operation).collect();
    report.pruned = prune::prune(&document, &kept);
    report.tools = tools.iter().map(|(name, tool)| ApiTool::new(name.clone(), tool.clone())).collect();
    (report, tools)
}

/// Returns the first of the document's security requirements that one credential satisfies, or else the first of its schemes.
fn auth(document: &Document<'_>) -> Option<(AuthType, Option<String>)> {
    let schemes = document.root().get("components").and_then(|components| components.get("securitySchemes"))?;
    let required =
        document.root().get("security").into_iter().flat_map(|security| security.items().collect::<Vec<_>>());
    let named = required.filter_map(|one| {
        let mut members = one.members();
        let (name, _) = members.next()?;
        if members.next().is_some() { None } else { schemes.get(name) }
    });
    let all = schemes.members().map(|(_, at)| at).collect::<Vec<_>>();
    named.chain(all).find_map(|scheme| one_auth(&document.resolve(&scheme).ok()?))
}

fn one_auth(scheme: &At<'_>) -> Option<(AuthType, Option<String>)> {
    let name = || scheme.text_of("name").map(str::to_owned);
    match (scheme.text_of("type")?, scheme.text_of("in"), scheme.text_of("scheme")) {
        ("http", _, Some(kind)) if kind.eq_ignore_ascii_case("bearer") => Some((AuthType::Bearer, None)),
        ("http", _, Some(kind)) if kind.eq_ignore_ascii_case("basic") => Some((AuthType::Basic, None)),
        ("oauth2" | "openIdConnect", ..) => Some((AuthType::Bearer, None)),
        ("apiKey", Some("header"), _) => Some((AuthType::Header, Some(name()?))),
        ("apiKey", Some("query"), _) => Some((AuthType::Query, Some(name()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnostic;

    const API: &str = "openapi: 3.0.3
info: {title: Pets, version: 1.0.2, x-logo: {}}
servers: [{url: https://api.example.com/v1}]
security: [{a: [], b: []}, {key: []}]
paths:
  /pets:
    parameters: [{$ref: '#/components/parameters/trace'}]
    get:
      operationId: listPets
      tags: [pets]
      x-code: 1
      parameters: [{name: size, in: query, schema: {type: number, maximum: 12345678901234567890.10}}]
      responses:
        '200': {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Pets'}, examples: {a: {}}}}}
        '404': {description: no, content: {application/json: {schema: {$ref: '#/components/schemas/Error'}}}}
    post: {operationId: addPet, requestBody: {required: true, content: {image/*: {}}}}
  /other: {get: {operationId: other}}
components:
  parameters: {trace: {name: X-Trace, in: header, schema: {type: string}}}
  schemas:
    Pets: {type: object, properties: {examples: {$ref: '#/components/schemas/Pet'}, x-kept: {type: string}}}
    Pet: {type: object}
    Error: {type: object}
  securitySchemes: {key: {type: apiKey, in: header, name: X-Key}, a: {type: http, scheme: bearer}}
";

    #[test]
    fn a_report_names_everything_and_prunes() {
        let include = ["pets".to_owned(), "POST *".to_owned(), "nothing".to_owned()];
        let report = examine_api("pets.yaml", API.as_bytes(), Some(&include), None);
        assert_eq!((report.title.as_deref(), report.version.as_deref()), (Some("Pets"), Some("1.0.2")));
        assert_eq!(report.auth, Some((AuthType::Header, Some("X-Key".to_owned()))));
        let tools: Vec<_> = report.tools.iter().map(|tool| (&*tool.name, &*tool.operation)).collect();
        assert_eq!(tools, [("listPets", "GET /pets")]);
        assert_eq!(report.left_out, [("POST /pets".to_owned(), "has a body of image/*".to_owned())]);
        assert_eq!((report.unselected, &report.unmatched[..]), (1, &["nothing".to_owned()][..]));
        let pruned = report.pruned.expect("is pruned");
        for gone in ["addPet", "other", "Error", "x-code", "x-logo", "404"] {
            assert!(!pruned.contains(gone), "{gone}: {pruned}");
        }
        for kept in ["x-kept", "\"Pet\"", "X-Trace", "12345678901234567890.10", "\"examples\": {\n"] {
            assert!(pruned.contains(kept), "{kept}: {pruned}");
        }
        // What is pruned becomes the same tools, and is pruned no further.
        let again = examine_api("pets.json", pruned.as_bytes(), None, None);
        assert_eq!(again.findings, []);
        assert_eq!((&again.tools, again.pruned.as_ref()), (&report.tools, Some(&pruned)));
    }

    #[test]
    fn a_reference_to_an_operation_forbids_pruning() {
        let api = "openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths:\n  /a: {get: {parameters: [{name: a, in: query, schema: \
                   {$ref: '#/paths/~1b/get/parameters/0/schema'}}]}}\n  /b: {get: {parameters: [{name: b, in: query, schema: {type: string}}]}}\n";
        let report = examine_api("a.yaml", api.as_bytes(), Some(&["GET /a".to_owned()]), None);
        assert_eq!((report.tools.len(), report.pruned), (1, None));
    }

    #[test]
    fn what_is_no_document_is_a_finding() {
        for text in ["a: [", "", "a: 1\n---\nb: 2", "openapi: 3.0.0"] {
            let report = examine_api("a.yaml", text.as_bytes(), None, None);
            assert!(report.findings.iter().any(Diagnostic::is_error), "{text}");
        }
    }
}

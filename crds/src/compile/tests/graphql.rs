//! Manifests whose tools come from a GraphQL schema.

use tamis_config::{ExpositionDocument, Snapshot};

use super::*;
use crate::{Loaded, load};

const SCHEMA: &str = "
      type Query { user(login: String!): User users: [User!]! }
      type Mutation { add(login: String!): User }
      type User { login: String! name: String friends: Friends }
      type Friends { count: Int nodes: [User] }
";

const REST: &str = "---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: short}
spec:
  name: short
  service: {name: users, version: '1'}
  filters:
    user: {retain: [/login]}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: short}
spec: {service: {name: users, version: '1'}, filters: [short]}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: open}
spec: {service: {name: users, version: '1'}, filters: []}
";

fn manifest(more: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: users}}\nspec:\n  version: '1'\n  graphql:\n    \
         baseUrl: https://api.example.com/graphql\n{more}"
    )
}

fn inline(more: &str) -> String {
    format!("{}{REST}", manifest(&format!("    inline: |{SCHEMA}{more}")))
}

fn compiled(text: &str, previous: Option<&Snapshot>) -> Compilation {
    compile(&resources(text), &CompileEnv { previous, ..CompileEnv::default() })
}

fn exposition<'c>(compilation: &'c Compilation, name: &str) -> &'c ExpositionDocument {
    let found = compilation.snapshot.expositions.values().find(|document| document.id.name == name);
    found.unwrap_or_else(|| panic!("{name} is served: {:#?}", said(compilation)))
}

fn query<'c>(compilation: &'c Compilation, name: &str, tool: &str) -> Option<&'c str> {
    exposition(compilation, name).tools[tool].query.as_deref().map(String::as_str)
}

const SHORT: &str = "query user($login:String!){user(login:$login){login}}";

#[test]
fn each_exposition_has_the_query_that_its_filter_needs() {
    let made = compiled(&inline(""), None);
    assert_eq!(said(&made), [""; 0]);
    assert_eq!(query(&made, "short", "user"), Some(SHORT));
    assert_eq!(query(&made, "short", "users"), None, "it has no filter");
    assert_eq!(query(&made, "open", "user"), None);
    assert_eq!((exposition(&made, "short").format_version, exposition(&made, "open").format_version), (4, 1));
    assert_eq!(made.snapshot.services.len(), 1, "the service is the same");
    let service = made.snapshot.services.values().next().expect("a service");
    assert_eq!(service.tools.keys().collect::<Vec<_>>(), ["user", "users"]);
    assert_eq!((service.format_version, service.destinations()), (4, vec!["https://api.example.com/graphql"]));
    // What the filter reads of an extracted part is not what it reads of the field.
    let extracted = compiled(&inline("    overrides: {user: {response: {extract: friends}}}\n"), None);
    assert_eq!(query(&extracted, "short", "user"), None);
    // A renamed tool, and one that wraps it.
    let renamed = inline("    overrides: {users: {name: user2}, user: {name: users, title: One}}\n");
    let renamed = compiled(&renamed.replace("    user: {retain", "    users: {retain"), None);
    assert_eq!(said(&renamed), [""; 0]);
    assert_eq!(query(&renamed, "short", "users"), Some(SHORT));
    let alias = "---\napiVersion: tamis.dev/v1alpha1\nkind: CustomTools\nmetadata: {name: more}\nspec:\n  service: {name: users, version: '1'}\n  \
                 customTools: {octocat: {tool: user, arguments: {login: octocat}}}\n";
    let wrapped = compiled(&format!("{}{alias}", inline("")), None);
    assert_eq!(query(&wrapped, "short", "octocat"), Some(SHORT), "{:#?}", said(&wrapped));
}

#[test]
fn what_is_kept_has_the_query_that_it_was_served_with() {
    let before = compiled(&inline(""), None);
    // The last good service is served, and so are its queries.
    let broken = compiled(&inline("    fields: {include: [usr]}\n"), Some(&before.snapshot));
    assert_eq!(query(&broken, "short", "user"), Some(SHORT));
    assert!(broken.degraded.values().flatten().any(|degraded| *degraded == Degraded::PreviousService));
    // While a change waits, a query of another version of the service is not sent.
    let without = inline("")
        .replace("filters: [short]", "filters: []")
        .replace("login: String! name", "login: String! id: ID name");
    let now = compiled(&without, None);
    let next = now.snapshot.expositions.iter().find(|(id, _)| id.name == "short").expect("is served").1;
    let held = crate::tighten(exposition(&before, "short"), next, &|_| false);
    assert_eq!((held.tools["user"].filter.is_some(), held.tools["user"].query.as_ref()), (true, None));
}

#[test]
fn what_a_manifest_says_wrongly() {
    let table = [
        ("    fields: {include: [usr]}\n", "fields.include[0]: the document has no field `usr`; did you mean `user`?"),
        ("    fields: {include: ['x*']}\n", "warning: spec.graphql.fields.include[0]: matches no field"),
        ("    fields: {exclude: [Mutation.ad]}\n", "did you mean `Mutation.add`?"),
        (
            "    overrides: {usr: {title: x}}\n",
            "overrides.usr: no operation and no field becomes this tool; did you mean `user`?",
        ),
        ("    overrides: {user: {name: users}}\n", "overrides: two tools would have the name `users`"),
        ("    overrides: {user: {pagination: {type: offset}}}\n", "pagination: is not possible for GraphQL"),
        ("    file: a.graphql\n", "file: and `inline` are mutually exclusive"),
        ("    operations: {}\n", "spec.graphql.operations: has no document"),
        ("    operations: {inline: a, file: a.graphql}\n", "operations.file: and `inline` are mutually exclusive"),
        ("    auth: {type: bearer}\n", "auth.secretRef: type bearer requires a credential"),
        ("  http: {baseUrl: https://a.example, actions: {}}\n", "graphql: `http` and `graphql` are mutually exclusive"),
    ];
    for (more, expected) in table {
        let told = said(&compiled(&inline(more), None));
        assert!(told.iter().any(|line| line.contains(expected)), "{more}: {told:#?}");
    }
    // A risk that is overridden does not make a change of a query.
    let made = compiled(&inline("    overrides: {user: {risk: {level: low}}}\n"), None);
    let service = made.snapshot.services.values().next().expect("a service");
    assert!(!service.tools["user"].risk.mutating && service.tools["user"].risk.idempotent);
}

#[test]
fn files_are_read_and_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writes");
    let told = || -> Vec<String> {
        let loaded: Loaded = load(&[dir.path().to_owned()]);
        let prefix = format!("{}/", dir.path().display());
        crate::diagnose(&loaded).iter().map(|finding| finding.to_string().replace(&prefix, "")).collect()
    };
    write("schema.graphql", SCHEMA);
    let unnamed = told();
    assert!(
        unnamed[0].starts_with(
            "schema.graphql:1:1: warning: the file is a GraphQL document, and no ServiceManifest names it"
        ),
        "{unnamed:?}"
    );
    write("users.yaml", &format!("{}{REST}", manifest("    file: schema.graphql\n")));
    assert_eq!(told(), [""; 0]);
    write("schema.graphql", &SCHEMA.replace("[User]", "[Usr]"));
    let wrong = told();
    assert!(
        wrong.iter().any(|line| line.starts_with("schema.graphql:5:41: error: cannot find type `Usr`")),
        "{wrong:?}"
    );
    write("schema.graphql", "\u{0}");
    assert!(told().iter().any(|line| line.starts_with("schema.graphql:1:1: error: control character")), "{:?}", told());
    std::fs::remove_file(dir.path().join("schema.graphql")).expect("removes");
    assert!(
        told().iter().any(|line| line.contains("schema.graphql:1:1: error: no such file or folder")),
        "{:?}",
        told()
    );
    write("users.yaml", &format!("{}{REST}", manifest("    file: ../schema.graphql\n")));
    assert!(told().iter().any(|line| line.contains("spec.graphql.file: has an empty part")), "{:?}", told());
    // The result of introspection is JSON, which no other document would be.
    write("users.yaml", &format!("{}{REST}", manifest("    file: schema.json\n")));
    let scalar = r#"{"kind":"SCALAR","name":"String"}"#;
    write(
        "schema.json",
        &format!(
            r#"{{"data":{{"__schema":{{"queryType":{{"name":"Query"}},"types":[{{"kind":"OBJECT","name":"Query","fields":[{{"name":"user","args":[],"type":{{"kind":"OBJECT","name":"User"}}}}]}},{{"kind":"OBJECT","name":"User","fields":[{{"name":"login","args":[],"type":{scalar}}}]}}]}}}}}}"#
        ),
    );
    assert_eq!(told(), [""; 0]);
}

use super::relations::MAX_RELATIONS;
use super::*;
use crate::parse_document;

const SCHEMA: &str = "
type Query {
  user(login: String!): User
  search(query: String!, kind: Kind = USER, filter: Filter, first: Int): Results!
  node(id: ID!): Node
}
type Mutation { rename(login: String!, name: String!): User }
enum Kind { USER TEAM }
input Filter { kind: Kind, ids: [ID!], since: Date, inner: Filter }
scalar Date
interface Node { id: ID! }
type User implements Node {
  id: ID!
  login: String!
  name: String
  avatarUrl(size: Int): String!
  followers(first: Int, last: Int): Followers!
  repository(name: String!): Repository
}
type Followers { totalCount: Int! nodes: [User!] }
type Repository implements Node { id: ID! name: String! issues(states: [Kind!], first: Int): Issues }
type Issues { totalCount: Int! nodes: [Issue] }
type Issue { title: String }
type Results { count: Int! }
";

/// Translates tools, each `NAME: {..}` of YAML with the indentation of two spaces.
fn translate(tools: &str) -> Result<GraphQlOperations, Vec<String>> {
    translate_with(SCHEMA, tools)
}

fn translate_with(schema: &str, tools: &str) -> Result<GraphQlOperations, Vec<String>> {
    let text = format!(
        "apiVersion: reshapr.io/v1alpha1\nkind: CustomTools\nservice: {{name: g, version: '1'}}\ncustomTools:\n{tools}"
    );
    let parsed = parse_document("tools.yaml", text.as_bytes());
    assert_eq!(parsed.diagnostics, [], "{text}");
    graphql_operations(("schema.graphql", schema.as_bytes()), &parsed.resources.tools)
        .map_err(|findings| findings.iter().map(ToString::to_string).collect())
}

#[test]
fn relations_become_fields_with_arguments() {
    // The example of reShapr's specification.
    let tools = "  get_user_with_latest_followers:
    tool: user
    title: A user
    description: Get a user details with the latest followers details
    input:
      type: object
      properties:
        user: {type: string, description: The GitHub login of the user to fetch}
      required: [user]
    arguments:
      login: ${user}
      __relation_avatarUrl:
        size: 32
      __relation_followers:
        last: 10
";
    let made = translate(tools).expect("is translated");
    let expected = "# Get a user details with the latest followers details
query get_user_with_latest_followers($user: String!) {
  user(login: $user) {
    id
    login
    name
    avatarUrl(size: 32)
    followers(last: 10) {
      totalCount
      nodes {
        id
        login
        name
        avatarUrl
      }
    }
  }
}
";
    assert_eq!(made.text, expected);
    assert_eq!(made.titles, [("get_user_with_latest_followers".to_owned(), "A user".to_owned())]);
    let documents = GraphQlDocuments {
        schema: ("schema.graphql", SCHEMA.as_bytes()),
        operations: Some(("operations.graphql", made.text.as_bytes())),
    };
    let report = examine_graphql(documents, None, 3);
    assert_eq!((report.findings, report.tools.len()), (Vec::new(), 1));
}

#[test]
fn values_are_written_as_graphql_has_them() {
    let tools = "  find:
    tool: search
    input:
      type: object
      properties: {text: {type: string}, kind: {type: string, default: TEAM}, since: {type: string}, max: {type: integer}}
      required: [text]
    arguments:
      query: '{text}'
      kind: ${kind}
      first: ${max}
      filter: {kind: USER, ids: [1, 'a\"b'], since: '${since}', inner: {since: 1.10}}
  rename:
    tool: rename
    input: {type: object, properties: {login: {type: string}, name: {type: string}}, required: [login, name]}
  deep:
    tool: user
    arguments:
      login: octocat
      __relation_repository:
        name: hello
        __relation_issues: {states: [USER], __relation_nodes: {}}
  other:
    tool: node
    arguments: {id: 12}
";
    let made = translate(tools).expect("is translated");
    for part in [
        "query find($text: String!, $kind: Kind = TEAM, $max: Int, $since: Date) {",
        r#"search(query: $text, kind: $kind, first: $max, filter: {kind: USER, ids: [1, "a\"b"], since: $since, inner: {since: 1.10}}) {"#,
        "mutation rename($login: String!, $name: String!) {\n  rename(login: $login, name: $name) {",
        "query deep {\n  user(login: \"octocat\") {",
        "repository(name: \"hello\") {\n      id\n      name\n      issues(states: [USER]) {\n        totalCount\n        nodes {\n          title",
        "node(id: 12) {\n    __typename\n    id",
    ] {
        assert!(made.text.contains(part), "{part}\nis not in\n{}", made.text);
    }
    let documents = GraphQlDocuments {
        schema: ("schema.graphql", SCHEMA.as_bytes()),
        operations: Some(("operations.graphql", made.text.as_bytes())),
    };
    let report = examine_graphql(documents, None, 3);
    assert_eq!((report.findings, report.tools.len()), (Vec::new(), 4));
}

#[test]
fn what_cannot_be_translated_is_an_error_with_its_place() {
    let input = "input: {type: object, properties: {a: {type: string}}}";
    let cases = [
        (
            "  t: {tool: usr}\n",
            "tools.yaml:5:7: error: customTools.t.tool: there is no field `usr` in the query type or the mutation type; did you mean `user`?",
        ),
        ("  a-b: {tool: user}\n", "customTools.a-b: is no name of an operation; use letters, digits and `_`"),
        (
            "  t: {tool: user, arguments: {logi: x}}\n",
            "there is no argument `logi` of the field `user`; did you mean `login`?",
        ),
        ("  t: {tool: user, arguments: {}}\n", "the field `user` needs the argument `login`; give it a value"),
        (
            "  t: {tool: user, arguments: {login: x, __relation_follower: {}}}\n",
            "there is no field `follower` of the type `User`; did you mean `followers`?",
        ),
        ("  t: {tool: user, arguments: {login: x, __relation_followers: 3}}\n", "has to be the arguments of the field"),
        (
            "  t: {tool: user, arguments: {login: x, __relation_repository: {}}}\n",
            "the field `repository` needs the argument `name`",
        ),
        (
            "  t: {tool: user, arguments: {login: x, __relation_login: {__relation_x: {}}}}\n",
            "there is no field `x` of the type `String`",
        ),
        (
            "  t: {tool: search, arguments: {query: x, filter: {kin: USER}}}\n",
            "there is no field `kin` of the type `Filter`; did you mean `kind`?",
        ),
        ("  t: {tool: search, arguments: {query: x, filter: {since: {a b: 1}}}}\n", "is no name of GraphQL"),
    ];
    for (tools, expected) in cases {
        let findings = translate(tools).expect_err(tools);
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{tools}: {findings:?}");
    }
    let cases = [
        ("login: 'x ${a}'", "has the placeholder `a` in a text, which GraphQL has not"),
        ("login: '${b}'", "there is no argument `b`"),
        ("login: x", "customTools.t.input.properties.a: is not used in `arguments`"),
    ];
    for (argument, expected) in cases {
        let tools = format!("  t: {{tool: user, {input}, arguments: {{{argument}}}}}\n");
        let findings = translate(&tools).expect_err(&tools);
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{tools}: {findings:?}");
    }
}

#[test]
fn what_is_translated_is_bounded() {
    let fields: String = (0..=MAX_RELATIONS).map(|number| format!("f{number}: T ")).collect();
    let schema = format!("type Query {{ a: T }} type T {{ x: Int {fields}}}");
    let of = |count: usize| {
        let relations: Vec<String> = (0..count).map(|number| format!("__relation_f{number}: {{}}")).collect();
        let tools = format!("  t: {{tool: a, arguments: {{{}}}}}\n", relations.join(", "));
        translate_with(&schema, &tools)
    };
    assert!(of(MAX_RELATIONS).is_ok());
    let findings = of(MAX_RELATIONS + 1).expect_err("are too many");
    assert!(findings.iter().any(|finding| finding.contains("more than 100 relations")), "{findings:?}");

    let description = "d".repeat(3000);
    let tools: String = (0..500)
        .map(|number| format!("  t{number}: {{tool: node, arguments: {{id: 1}}, description: {description}}}\n"))
        .collect();
    let findings = translate(&tools).expect_err("is too long");
    assert!(findings.iter().any(|finding| finding.contains("more than 1048576 bytes")), "{findings:?}");
}

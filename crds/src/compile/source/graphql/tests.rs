use std::sync::Arc;

use tamis_engine::{CompileOptions, Enforcement, ToolFilter};

use super::*;
use crate::yaml::{Node, Position};

const SCHEMA: &str = r#"
"Where it begins."
type Query {
  "A user."
  user("The login." login: String!, first: Int = 10): User
  users(filter: [Filter!], order: Order = ASC, at: DateTime, id: ID): [User!]!
  search(text: String!): [Hit]
  node(id: ID!): Node
  count: Int
  reserved(_x: Int!): Int
  optional(_x: Int): Int
  raw: Raw
  old: String @deprecated
}
type Mutation { add(input: AddInput!): User, remove(id: ID!): Boolean! }
type Subscription { changes: Int }
enum Order { ASC DESC }
scalar DateTime
"Chooses users."
input Filter { name: String, and: [Filter!], limit: Int! = 5, kind: Order }
input AddInput { login: String!, by: Filter }
interface Node { id: ID! }
union Hit = User | Team
type Team implements Node { id: ID!, title: String!, size: Int, members(first: Int!): [User] }
type User implements Node {
  id: ID!
  login: String!
  name: String
  size: String
  team: Team
  teams: [Team!]!
  picture(size: Int!): String
  avatar(size: Int): String
}
type Raw { raw: String, more: String }
"#;

fn conversion(schema: &str, operations: Option<&str>, include: Option<&[&str]>) -> Conversion {
    let file: Arc<str> = "schema.graphql".into();
    let other: Arc<str> = "operations.graphql".into();
    let node = Node::text(Position::START, schema);
    let written = operations.map(|text| Node::text(Position::START, text));
    let operations = written.as_ref().map(|node| DocumentAt { file: &other, field: "", node });
    let include: Option<Vec<String>> = include.map(|all| all.iter().map(|&one| one.to_owned()).collect());
    let any = include.is_some() || operations.is_none();
    let source = Source { schema: DocumentAt { file: &file, field: "", node: &node }, operations };
    convert(source, Selection { any, include: include.as_deref(), exclude: &[] })
}

fn query(conversion: &Conversion, tool: &str) -> String {
    let Call::Http(call) = &conversion.tools[tool].tool.call else { panic!("an HTTP call") };
    call.graphql.as_ref().expect("a GraphQL call").query.clone()
}

fn errors(conversion: &Conversion) -> Vec<String> {
    conversion.findings.iter().filter(|finding| finding.is_error()).map(ToString::to_string).collect()
}

#[test]
fn fields_become_tools() {
    let all = conversion(SCHEMA, None, None);
    assert_eq!(errors(&all), Vec::<String>::new());
    let names: Vec<&str> = all.tools.keys().map(String::as_str).collect();
    assert_eq!(names, ["user", "users", "search", "node", "count", "optional", "raw", "old"]);
    assert_eq!(
        query(&all, "user"),
        "query user($login:String!,$first:Int){user(login:$login,first:$first){id login name size team{id title size}teams{id title size}avatar}}"
    );
    assert_eq!(all.tools["user"].omitted, ["field `User.picture`, which needs the argument `size`"]);
    // The fields of two types have one name and two types: only the first of them is asked for.
    assert_eq!(
        query(&all, "search"),
        "query search($text:String!){search(text:$text){__typename ... on User{id login name size team{id title size}teams{id title size}avatar}... on Team{id title}}}"
    );
    assert_eq!(
        query(&all, "node"),
        "query node($id:ID!){node(id:$id){__typename id ... on Team{title size}... on User{login name team{id title size}teams{id title size}avatar}}}"
    );
    assert_eq!(query(&all, "count"), "query count{count}");
    assert_eq!(query(&all, "optional"), "query optional{optional}");
    assert_eq!(all.tools["optional"].omitted.len(), 1);
    assert_eq!(all.left_out.len(), 1, "{:?}", all.left_out);
    assert_eq!(all.left_out[0].operation, "Query.reserved");
    assert_eq!(all.unselected, 2, "mutations are named");
    assert!(all.tools["old"].tool.description.as_deref().is_some_and(|text| text.starts_with("Deprecated.")));
    let tool = &all.tools["users"].tool;
    assert_eq!(
        tool.input_schema.as_str(),
        r##"{"type":"object","properties":{"filter":{"type":["array","null"],"items":{"$ref":"#/$defs/Filter"}},"order":{"enum":["ASC","DESC",null],"default":"ASC"},"at":{"description":"DateTime"},"id":{"type":["string","integer","null"]}},"additionalProperties":false,"$defs":{"Filter":{"type":"object","properties":{"name":{"type":["string","null"]},"and":{"type":["array","null"],"items":{"$ref":"#/$defs/Filter"}},"limit":{"type":"integer","minimum":-2147483648,"maximum":2147483647,"default":5},"kind":{"enum":["ASC","DESC",null]}},"additionalProperties":false,"description":"Chooses users."}}}"##
    );
    assert_eq!((tool.response_type, tool.output_schema.as_ref()), (Some(ResponseType::Array), None));
    let output = all.tools["user"].tool.output_schema.as_ref().expect("an object");
    assert!(
        output.as_str().contains(r#""team":{"type":["object","null"],"properties":{"id":{"type":"string"}"#),
        "{output:?}"
    );
}

#[test]
fn every_default_query_fits_the_schema() {
    let include = ["*", "Mutation.*"];
    let all = conversion(SCHEMA, None, Some(&include));
    assert_eq!(all.tools.len(), 10, "{:?}", all.tools.keys());
    let schema = &all.queries.as_ref().expect("it is read").schema;
    for (name, converted) in &all.tools {
        let text = query(&all, name);
        let parsed = ExecutableDocument::parse_and_validate(schema, text.clone(), "query");
        assert!(parsed.is_ok(), "{text}");
        let Call::Http(call) = &converted.tool.call else { panic!("an HTTP call") };
        assert_eq!(call.method, "POST");
    }
    let mutation = &all.tools["add"].tool;
    assert_eq!((mutation.risk.mutating, mutation.risk.idempotent), (true, false));
}

#[test]
fn a_mutation_is_a_tool_only_where_it_is_named() {
    let table: [(&[&str], &[&str]); 6] = [
        (&["add"], &["add"]),
        (&["*add*"], &[]),
        (&["Mutation.*"], &["add", "remove"]),
        (&["Mutation.add"], &["add"]),
        (&["Query.count", "re*"], &["count"]),
        (&["changes"], &[]),
    ];
    for (include, expected) in table {
        let converted = conversion(SCHEMA, None, Some(include));
        let names: Vec<&str> = converted.tools.keys().map(String::as_str).collect();
        assert_eq!(names, expected, "{include:?}");
    }
    let converted = conversion(SCHEMA, None, Some(&["changes"]));
    assert_eq!(converted.left_out[0].reason, "is a subscription, which is not supported");
}

#[test]
fn operations_become_tools() {
    let text = "# Finds a user.\n# By login.\nquery find($login: String!, $size: Int! = 32, $filter: Filter) {\n  user(login: $login) { login small: picture(size: $size) ...more }\n  \
                }\nfragment more on User { team { title } }\n\nmutation Add($input: AddInput!) { first: add(input: $input) { id } remove(id: 1) }\n\
                query unused { count }\n";
    let text = text
        .replace("$filter: Filter) {", "$filter: Filter) { users(filter: [$filter]) { id }")
        .replace("[$filter]", "[]");
    let found = errors(&conversion(SCHEMA, Some(&text), None));
    assert!(found.len() == 1 && found[0].contains("unused variable: `$filter`"), "{found:?}");
    let text = text.replace(", $filter: Filter", "").replace("filter: []", "order: ASC");
    let converted = conversion(SCHEMA, Some(&text), None);
    assert_eq!(errors(&converted), Vec::<String>::new());
    let names: Vec<&str> = converted.tools.keys().map(String::as_str).collect();
    assert_eq!(names, ["find", "Add", "unused"]);
    let find = &converted.tools["find"].tool;
    assert_eq!(find.description.as_deref(), Some("Finds a user. By login."));
    assert_eq!(
        query(&converted, "find"),
        "query find($login: String!, $size: Int! = 32) { users(order: ASC) { id } user(login: $login) { login small: picture(size: $size) ...more } } fragment more on User { team { title } }"
    );
    assert!(!query(&converted, "unused").contains("fragment"));
    let Call::Http(call) = &find.call else { panic!("an HTTP call") };
    assert_eq!(call.graphql.as_ref().and_then(|call| call.field.as_deref()), None, "there are two root fields");
    let body = call.request.body.as_ref().expect("a body");
    assert_eq!(body.0.as_str(), r#"{"variables":{"login":"{login}","size":"{size}"}}"#);
    assert!(find.input_schema.as_str().contains(r#""default":32"#), "{:?}", find.input_schema);
    assert!(find.input_schema.as_str().contains("The login."), "{:?}", find.input_schema);
    let Call::Http(call) = &converted.tools["unused"].tool.call else { panic!("an HTTP call") };
    assert_eq!(call.graphql.as_ref().and_then(|call| call.field.as_deref()), Some("count"));
    assert!(converted.tools["Add"].tool.risk.mutating);
}

#[test]
fn mistakes_are_reported_where_they_are() {
    let operations = [
        ("query a { user(login: 1) { login } }", "operations.graphql:1:23: error"),
        ("query a {\n  user(login: \"x\") { logn }\n}", "operations.graphql:2:22: error"),
        ("query a { nothing }", "operations.graphql:1:11: error"),
        ("query a($x: Int!) { count }", "operations.graphql:1:9: error"),
        ("{ count }", "operations.graphql:1:1: error: the operation has no name"),
        ("subscription a { changes }", "operations.graphql:1:14: error: the operation `a` is a subscription"),
        (
            "query a($_x: Int) { user(login: \"a\", first: $_x) { login } }",
            "operations.graphql:1:7: error: the operation `a` has the variable `$_x`",
        ),
        ("fragment f on User { login }", "operations.graphql:1:1: error"),
        ("query a { count } query a { count }", "operations.graphql:1:25: error"),
        ("query a { count", "operations.graphql:1:16: error"),
        ("type A { b: Int }", "operations.graphql:1:1: error"),
        ("", "operations.graphql:1:1: error: syntax error"),
        ("fragment f on User { login }\n# no query", "operations.graphql:1:1: error"),
    ];
    for (text, expected) in operations {
        let found = errors(&conversion(SCHEMA, Some(text), None));
        assert!(found.first().is_some_and(|first| first.starts_with(expected)), "{text}: {found:?}");
    }
    let schemas = [
        ("type Query {\n  a: Strng\n}", "schema.graphql:2:6: error"),
        ("type A { b: Int }", "schema.graphql:1:1: error: the schema has no query type"),
        ("type Query { a: Int } type Query { b: Int }", "schema.graphql:1:28: error"),
        ("type Query { a(b: Query): Int }", "schema.graphql:1:16: error"),
        ("type Query { a: Int } query b { a }", "schema.graphql:1:23: error"),
        ("type Query implements Node { a: Int } interface Node { id: ID! }", "schema.graphql:1:"),
        ("type Query { a: Int", "schema.graphql:1:20: error"),
        ("input A { a: A! } type Query { a(a: A): Int }", "schema.graphql:1:"),
        ("", "schema.graphql:1:1: error"),
        ("\"", "schema.graphql:1:1: error"),
        ("[1]", "schema.graphql:1:1: error"),
        ("{\"data\": {}}", "schema.graphql:1:1: error: is JSON without `data.__schema`"),
        ("{", "schema.graphql:1:1: error: begins with `{`, but is not JSON"),
    ];
    for (text, expected) in schemas {
        let found = errors(&conversion(text, None, None));
        assert!(found.first().is_some_and(|first| first.starts_with(expected)), "{text}: {found:?}");
    }
}

#[test]
fn hostile_documents_are_refused_in_time() {
    let deep = format!("query a {{ {} count {} }}", "a {".repeat(2_000), "}".repeat(2_000));
    let arguments =
        |count: usize, text: &str| (0..count).map(|n| format!("\"{text}\" a{n}: String ")).collect::<String>();
    let wide = |count, text: &str| format!("type Query {{ a({}): Int }}", arguments(count, text));
    let cycle = "query a { ...b } fragment b on Query { ...c } fragment c on Query { ...b }";
    assert!(!errors(&conversion(SCHEMA, Some(&deep), None)).is_empty());
    assert!(!errors(&conversion(SCHEMA, Some(cycle), None)).is_empty());
    let list = format!("type Query {{ a: {}Int{} }}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(!errors(&conversion(&list, None, None)).is_empty());
    let reason = |schema: &str| conversion(schema, None, None).left_out[0].reason.clone();
    assert_eq!(reason(&wide(400, &"x".repeat(1000))), "has schemas of more than 256 KiB");
    assert_eq!(reason(&wide(3_000, "")), "has a query of more than 64 KiB");
    let many: String = (0..6_000).map(|n| format!("a{n}: Int ")).collect();
    let found = errors(&conversion(&format!("type Query {{ {many} }}"), None, None));
    assert!(found[0].contains("6000 fields are selected, more than the limit of 5000"), "{found:?}");
    let large = format!("type Query {{ a: Int }} # {}", "x".repeat(8 << 20));
    assert!(errors(&conversion(&large, None, None))[0].contains("more than the limit"));
    // Each level has two ways into the next: what is selected is bounded all the same.
    let levels: String = (0..30).map(|n| format!("type T{n} {{ a: T{}, b: T{}, s: Int }} ", n + 1, n + 1)).collect();
    let converted = conversion(&format!("{levels} type T30 {{ s: Int }} type Query {{ t: T0 }}"), None, None);
    assert_eq!(query(&converted, "t"), "query t{t{a{s}b{s}s}}");
}

/// Fragments stand for many more fields than they have.
#[test]
fn operations_that_grow_are_refused_in_time() {
    let schema = "type Query { a: String, q: Query }";
    let fragments = |body: fn(usize) -> String, count: usize| {
        let all: String = (0..count).map(|n| format!("fragment F{n} on Query {{ {} }}\n", body(n + 1))).collect();
        format!("query q {{ ...F0 }}\n{all}fragment F{count} on Query {{ a }}")
    };
    let many = "query q {...F ...F}\nfragment F on Query {".to_owned()
        + &(0..10_001).map(|n| format!("a{n}: a ")).collect::<String>()
        + "}";
    let grown = "more than 20000 fields with their fragments in place";
    for (operations, expected) in [
        (fragments(|n| format!("x: q {{ ...F{n} }} y: q {{ ...F{n} }}"), 60), grown),
        (fragments(|n| format!("...F{n} ...F{n}"), 40), grown),
        (fragments(|n| format!("... on Query {{ ...F{n} }} ... {{ ...F{n} }}"), 40), grown),
        (fragments(|n| format!("q {{ ...F{n} }} ...F{n}"), 30), grown),
        (fragments(|n| format!("...F{n}"), 5_000), "refer to each other"),
        (many, grown),
        ("query q { ...F }\nfragment F on Query { q { ...F } }".to_owned(), "the fragment `F` refers to itself"),
    ] {
        let found = errors(&conversion(schema, Some(&operations), None));
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
    // A schema with more fields than a query has room for.
    let wide: String = (0..1_000).map(|n| format!("f{n}: T ")).collect();
    let roots: String = (0..5).map(|n| format!("r{n}: T ")).collect();
    let made = conversion(&format!("type Query {{ {roots} }}\ntype T {{ s: String {wide} }}"), None, None);
    assert_eq!((errors(&made).len(), made.tools.len()), (0, 5));
    let roots: String = (0..20_000).map(|n| format!("r{n}: Int ")).collect();
    let made = conversion(&format!("type Query {{ {roots} }}"), None, None);
    assert!(errors(&made)[0].contains("20000 fields are selected, more than the limit"), "{:?}", errors(&made));
}

#[test]
fn a_query_asks_for_what_a_filter_reads() {
    let all = conversion(SCHEMA, None, None);
    let queries = all.queries.as_ref().expect("it is read");
    let derived = |tool: &str, filter: &str| {
        let filter: ToolFilter = serde_json::from_str(filter).expect("a filter");
        let options = CompileOptions {
            enforcement: Enforcement::Enforced,
            response_type: all.tools[tool].tool.response_type,
            ..CompileOptions::default()
        };
        let reads = tamis_engine::compile(&filter, &options).program.expect("it compiles").reads();
        queries.query(tool, &reads)
    };
    let head = "query user($login:String!,$first:Int){user(login:$login,first:$first)";
    let table = [
        ("user", r#"{"root":"","select":{"l":"login"}}"#, Some(format!("{head}{{login}}}}"))),
        // The schema's order, whatever the filter's.
        ("user", r#"{"retain":["/team/title","/login","/teams/*/id"]}"#, Some(format!("{head}{{login team{{title}}teams{{id}}}}}}"))),
        // Everything of an object: what would be asked for without a filter.
        ("user", r#"{"retain":["/team"]}"#, Some(format!("{head}{{team{{id title size}}}}}}"))),
        // What the schema does not have is not asked for.
        ("user", r#"{"retain":["/nothing"]}"#, Some(format!("{head}{{__typename}}}}"))),
        ("user", r#"{"retain":["/picture","/id"]}"#, Some(format!("{head}{{id}}}}"))),
        ("user", r#"{"passthrough":true}"#, None),
        ("users", r#"{"select":{"l":"login"}}"#, Some("query users($filter:[Filter!],$order:Order,$at:DateTime,$id:ID){users(filter:$filter,order:$order,at:$at,id:$id){login}}".to_owned())),
        ("search", r#"{"select":{"a":"login","b":"title","c":"__typename"}}"#, Some("query search($text:String!){search(text:$text){__typename ... on User{login}... on Team{title}}}".to_owned())),
        ("node", r#"{"retain":["/id","/login"]}"#, Some("query node($id:ID!){node(id:$id){__typename id ... on User{login}}}".to_owned())),
        ("raw", r#"{"retain":["/more"]}"#, None),
        ("count", r#"{"retain":["/a"]}"#, Some("query count{count}".to_owned())),
    ];
    for (tool, filter, expected) in table {
        assert_eq!(derived(tool, filter), expected, "{tool} {filter}");
    }
}

#[test]
fn the_result_of_introspection_is_a_schema() {
    let json = r#"{"data":{"__schema":{"queryType":{"name":"Root"},"mutationType":null,"types":[
      {"kind":"OBJECT","name":"Root","fields":[
        {"name":"user","description":"A \"user\".\nIndeed.","args":[{"name":"id","type":{"kind":"NON_NULL","ofType":{"kind":"SCALAR","name":"ID"}},"defaultValue":null},
          {"name":"order","type":{"kind":"ENUM","name":"Order"},"defaultValue":"ASC"}],
         "type":{"kind":"LIST","ofType":{"kind":"NON_NULL","ofType":{"kind":"UNION","name":"Hit"}}},"isDeprecated":true}],"interfaces":[]},
      {"kind":"UNION","name":"Hit","possibleTypes":[{"name":"User"}]},
      {"kind":"INTERFACE","name":"Node","fields":[{"name":"id","args":[],"type":{"kind":"SCALAR","name":"ID"}}]},
      {"kind":"OBJECT","name":"User","interfaces":[{"name":"Node"}],"fields":[{"name":"id","args":[],"type":{"kind":"SCALAR","name":"ID"}}]},
      {"kind":"ENUM","name":"Order","enumValues":[{"name":"ASC"},{"name":"DESC","isDeprecated":false}]},
      {"kind":"INPUT_OBJECT","name":"In","inputFields":[{"name":"a","type":{"kind":"SCALAR","name":"Int"}}],"isOneOf":true},
      {"kind":"SCALAR","name":"Int"},{"kind":"SCALAR","name":"ID"},{"kind":"SCALAR","name":"Date","specifiedByURL":"https://a.example"},
      {"kind":"OBJECT","name":"__Schema","fields":[]}
    ]}}}"#;
    let converted = conversion(json, None, None);
    assert_eq!(errors(&converted), Vec::<String>::new());
    assert_eq!(
        query(&converted, "user"),
        "query user($id:ID!,$order:Order){user(id:$id,order:$order){__typename ... on User{id}}}"
    );
    assert!(
        converted.tools["user"].tool.description.as_deref().is_some_and(|text| text.contains("A \"user\".\nIndeed."))
    );
    // No name of the result becomes anything else of the schema.
    for (from, to) in [
        ("\"name\":\"Hit\",\"possible", "\"name\":\"Hit } type X {\",\"possible"),
        ("\"name\":\"Root\"}", "\"name\":1}"),
        ("\"kind\":\"UNION\",\"name\":\"Hit\",\"p", "\"kind\":\"X\",\"name\":\"Hit\",\"p"),
    ] {
        assert!(json.contains(from));
        assert_eq!(errors(&conversion(&json.replace(from, to), None, None)).len(), 1, "{to}");
    }
}

#[test]
fn an_import_keeps_what_the_tools_need() {
    let import = |schema: &str, include: &[&str], operations: Option<&str>, depth| {
        let include: Vec<String> = include.iter().map(|&one| one.to_owned()).collect();
        let operations = operations.map(|text| ("o.graphql", text.as_bytes()));
        let documents = GraphQlDocuments { schema: ("s.graphql", schema.as_bytes()), operations };
        examine_graphql(documents, (!include.is_empty()).then_some(&include), depth)
    };
    let report = import(SCHEMA, &["user", "Mutation.remove", "nothing"], None, 1);
    assert_eq!(report.unmatched, ["nothing"]);
    assert_eq!(report.unselected, 9);
    let pruned = report.pruned.expect("it is a schema");
    for gone in ["teams", "Hit", "Filter", "Order", "search", "AddInput", "Subscription", "Team", "Node", "DateTime"] {
        assert!(!pruned.contains(gone), "{gone}: {pruned}");
    }
    for kept in ["The login.", "picture(size: Int!)", "remove(id: ID!): Boolean!", "login: String!", "A user."] {
        assert!(pruned.contains(kept), "{kept}: {pruned}");
    }
    // What is pruned becomes the same tools, and is pruned no further.
    let again = import(&pruned, &["user", "Mutation.remove"], None, 1);
    assert_eq!(again.pruned.as_ref(), Some(&pruned));
    let report = import(SCHEMA, &["user", "search", "Mutation.*"], None, 2);
    let pruned = report.pruned.expect("it is a schema");
    let again = import(&pruned, &["user", "search", "Mutation.*"], None, 2);
    assert_eq!((&again.tools, again.pruned.as_ref()), (&report.tools, Some(&pruned)));
    let deeper = import(SCHEMA, &["user", "node"], None, 2).pruned.expect("it is a schema");
    assert!(deeper.contains("type Team implements Node") && deeper.contains("interface Node"), "{deeper}");
    let operations = "query a { user(login: \"x\") { team { members(first: 1) { login } } } }";
    let report = import(SCHEMA, &[], Some(operations), 1);
    let pruned = report.pruned.expect("it is a schema");
    assert!(pruned.contains("members(first: Int!)") && !pruned.contains("teams"), "{pruned}");
    let again = import(&pruned, &[], Some(operations), 1);
    assert_eq!((&again.tools, again.pruned.as_ref()), (&report.tools, Some(&pruned)));
    assert!(import("type Query {", &[], None, 1).findings.iter().any(Diagnostic::is_error));
}

#[test]
fn of_a_field_that_is_defined_twice_the_first_counts() {
    let converted = conversion("type Query { a: Int\n  a: String\n b: Int }", None, None);
    let findings: Vec<String> = converted.findings.iter().map(ToString::to_string).collect();
    assert!(
        findings.len() == 1 && findings[0].starts_with("schema.graphql:2:3: warning: duplicate definitions"),
        "{findings:?}"
    );
    assert_eq!(converted.tools.len(), 2);
    let wrong = conversion("type Query { a: Int a: Int } type Query { b: Int }", None, None);
    assert!(wrong.findings.iter().all(Diagnostic::is_error), "{:?}", wrong.findings);
}

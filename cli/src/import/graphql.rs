//! `tamis import graphql`: writes a ServiceManifest of a GraphQL schema, and the part of the schema that it needs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tamis_crds::{
    ApiReport, Diagnostic, GraphQlDocuments, GraphQlOperations, examine_graphql, graphql_operations, load_file,
};

use super::api::{
    Content, Kinds, SERVER_SIDE, check, check_address, fetch, host, included, manifest, read, refuse, say, write_all,
};
use super::config_map::{self, ConfigMap};
use super::credential::{Credential, CredentialArgs};
use super::introspect::introspect;
use super::line;
use super::manifest::default_name;
use super::tree::Tree;
use crate::note;

/// What becomes tools.
const FIELDS: Kinds = Kinds { many: "fields and operations", one: "field" };

/// Make a ServiceManifest of a GraphQL schema
///
/// Writes NAME.yaml, and next to it NAME.graphql: the schema, pruned to the fields that become tools and what they lead to, and
/// NAME.operations.graphql with --operations; or with --config-map NAME.configmap.yaml, as a cluster takes them. Prints how many
/// fields became tools, and of each other one why it did not. Nothing is overwritten without --force, which also prints which tools
/// are added, removed and changed. A gateway and the operator never download a schema.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import graphql schema.graphql --base-url https://api.example.com/graphql -o api
  # only some fields, a mutation among them, and operations of your own
  tamis import graphql schema.json --base-url https://api.example.com/graphql \\
    --include user --include Mutation.addStar --operations operations.graphql -o api
  # the API itself is asked for its schema, with the token in the environment
  tamis import graphql --base-url https://api.example.com/graphql --bearer-env API_TOKEN --include user -o api
  # for a cluster
  tamis import graphql schema.graphql --base-url https://api.example.com/graphql --config-map -o api && kubectl apply -f api

Exit codes:
  0  written
  1  a document cannot be read or used, or a file cannot be written
  2  usage error")]
pub(crate) struct Args {
    /// The schema: a file, or an https or http address of one. GraphQL's own language, or the JSON of an introspection query
    /// [default: the API at --base-url is asked by introspection].
    #[arg(value_name = "FILE|URL")]
    schema: Option<String>,
    /// The URL of the API's endpoint.
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// A field of a root type that becomes a tool (`user`, `Mutation.addStar`); `*` matches any text. May be repeated [default: all
    /// fields of the query type, or none with --operations].
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// A file with named queries and mutations, each of which becomes a tool.
    #[arg(long, value_name = "FILE")]
    operations: Option<PathBuf>,
    /// A file with CustomTools of reShapr, each of which becomes an operation; `__relation_NAME` of its arguments becomes a field with
    /// arguments.
    #[arg(long, value_name = "FILE", conflicts_with = "operations")]
    custom_tools: Option<PathBuf>,
    #[command(flatten)]
    credential: CredentialArgs,
    /// How many levels of objects are kept of what a tool returns, from 2. Filters can read no deeper.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=16))]
    depth: u8,
    /// The folder to write to.
    #[arg(short = 'o', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The name of the manifest and of its files [default: made of the host of --base-url].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The version of the service.
    #[arg(long, value_name = "VERSION", default_value = "1.0.0")]
    version: String,
    /// Write schema and operations into a ConfigMap with the label tamis.dev/document. They are compressed if `kubectl apply` would
    /// refuse them otherwise, and refused if they do not fit.
    #[arg(long)]
    config_map: bool,
    /// Replace the files if they exist.
    #[arg(long)]
    force: bool,
}

/// The keys of a ConfigMap.
const SCHEMA_KEY: &str = "schema.graphql";
const OPERATIONS_KEY: &str = "operations.graphql";

/// The files of an import.
struct Files {
    schema: PathBuf,
    operations: Option<PathBuf>,
    /// Whether `schema` is a ConfigMap that holds all documents.
    config_map: bool,
}

/// Writes the manifest, the schema and the operations.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { base_url, include, depth, directory, name, version, config_map, force, .. } = args;
    let credential = args.credential.read()?;
    let (schema, bytes) = match &args.schema {
        Some(schema) => (&**schema, fetch(schema)?),
        None => {
            let any = ("inline", Tree::text("type Query { a: Int }"));
            check_address(("graphql", Tree::map([any, ("baseUrl", Tree::text(base_url))])))?;
            ("the schema", introspect(base_url, Credential::headers(credential.as_ref()))?)
        }
    };
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    let shown = with_ending(schema, if is_json { "json" } else { "graphql" });
    let (written, titles) = match (&args.operations, &args.custom_tools) {
        (Some(operations), _) => (Some(read(operations)?), Vec::new()),
        (None, Some(custom_tools)) => match translate(custom_tools, (&shown, &bytes))? {
            Ok(GraphQlOperations { text, titles }) => (Some(text.into_bytes()), titles),
            Err(findings) => return Ok(refuse(&findings.iter().collect::<Vec<_>>(), "tools")),
        },
        (None, None) => (None, Vec::new()),
    };
    let operations_shown = args
        .operations
        .as_ref()
        .map_or_else(|| OPERATIONS_KEY.to_owned(), |path| with_ending(&path.to_string_lossy(), "graphql"));
    let documents = GraphQlDocuments {
        schema: (&shown, &bytes),
        operations: written.as_deref().map(|text| (&*operations_shown, text)),
    };
    let include = (!include.is_empty()).then_some(&include[..]);
    let report = examine_graphql(documents, include, usize::from(*depth));
    let errors: Vec<&Diagnostic> = report.findings.iter().filter(|finding| finding.is_error()).collect();
    if !errors.is_empty() {
        return Ok(refuse(&errors, "fields"));
    }
    if let [pattern, ..] = &report.unmatched[..] {
        bail!("--include: no field matches `{}`; write the name of a field, or `Mutation.NAME`", line(pattern));
    }
    let name = name.clone().unwrap_or_else(|| default_name(host(base_url)));
    let manifest_file = directory.join(format!("{name}.yaml"));
    let pruned =
        report.pruned.as_deref().context("the part of the schema that the tools need is no schema of its own")?;
    let files = Files {
        schema: directory.join(format!("{name}.{}", if *config_map { "configmap.yaml" } else { "graphql" })),
        operations: written.as_ref().map(|_| directory.join(format!("{name}.operations.graphql"))),
        config_map: *config_map,
    };
    let documents = std::iter::once((SCHEMA_KEY, pruned.as_bytes()));
    let documents: Vec<(&str, &[u8])> =
        documents.chain(written.as_deref().map(|text| (OPERATIONS_KEY, text))).collect();
    let stored = config_map.then(|| ConfigMap::of(&name, &documents)).transpose()?;
    let places: Vec<(&str, Tree)> = match &stored {
        Some(map) => (0..documents.len()).map(|number| ("configMapRef", map.reference(number))).collect(),
        None => {
            let endings = ["graphql", "operations.graphql"].into_iter().take(documents.len());
            endings.map(|ending| ("file", Tree::text(format!("{name}.{ending}")))).collect()
        }
    };
    let auth = credential.map(|credential| credential.auth_of(&name));
    let parts = Parts { base_url, auth, include, titles: &titles, places };
    let text = tree(&name, version, parts).to_yaml(0);
    let mut all: Vec<Content<'_>> = match &stored {
        Some(map) => vec![(&files.schema, map.yaml.as_bytes())],
        None => std::iter::once(&*files.schema)
            .chain(files.operations.as_deref())
            .zip(documents.iter().map(|d| d.1))
            .collect(),
    };
    all.push((&manifest_file, text.as_bytes()));
    check(&all, *force)?;
    let before = previous(&files, include, usize::from(*depth));
    write_all(directory, &all, *force)?;
    if stored.is_some_and(|map| map.is_large) {
        note!("{SERVER_SIDE}");
    }
    say(&report, FIELDS, &[&manifest_file, &files.schema], before.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of a document for messages, with the ending by which it is read.
fn with_ending(name: &str, ending: &str) -> String {
    let own = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let fits = match own.as_deref() {
        Some("graphql" | "graphqls" | "gql") => ending == "graphql",
        Some("json") => ending == "json",
        _ => false,
    };
    if fits { name.to_owned() } else { format!("{name}.{ending}") }
}

/// Returns what the files held before, if they can be read.
fn previous(files: &Files, include: Option<&[String]>, depth: usize) -> Option<ApiReport> {
    let Files { schema, operations, config_map } = files;
    let (schema, operations) = if *config_map {
        (config_map::document(schema, SCHEMA_KEY)?, config_map::document(schema, OPERATIONS_KEY))
    } else {
        (read(schema).ok()?, operations.as_deref().and_then(|file| read(file).ok()))
    };
    let documents = GraphQlDocuments {
        schema: (SCHEMA_KEY, &schema),
        operations: operations.as_ref().map(|bytes| (OPERATIONS_KEY, &bytes[..])),
    };
    let report = examine_graphql(documents, include, depth);
    (!report.findings.iter().any(Diagnostic::is_error)).then_some(report)
}

/// What a manifest says about the API.
struct Parts<'p> {
    base_url: &'p str,
    auth: Option<Tree>,
    include: Option<&'p [String]>,
    /// Titles by tool.
    titles: &'p [(String, String)],
    /// Where the schema is, and the operations if there are any.
    places: Vec<(&'p str, Tree)>,
}

fn tree(name: &str, version: &str, parts: Parts<'_>) -> Tree {
    let Parts { base_url, auth, include, titles, places } = parts;
    let mut places = places.into_iter();
    let mut graphql = Tree::Map(Vec::new());
    if let Some((field, schema)) = places.next() {
        graphql.push(field, schema);
    }
    graphql.push("baseUrl", Tree::text(base_url));
    if let Some(auth) = auth {
        graphql.push("auth", auth);
    }
    if let Some(operations) = places.next() {
        graphql.push("operations", Tree::map([operations]));
    }
    if let Some(include) = include {
        graphql.push("fields", included(include));
    }
    if !titles.is_empty() {
        let mut overrides = Tree::Map(Vec::new());
        for (tool, title) in titles {
            overrides.push(tool, Tree::map([("title", Tree::text(title))]));
        }
        graphql.push("overrides", overrides);
    }
    manifest(name, Tree::map([("version", Tree::text(version)), ("graphql", graphql)]))
}

/// Translates CustomTools of reShapr.
fn translate(file: &Path, schema: (&str, &[u8])) -> anyhow::Result<Result<GraphQlOperations, Vec<Diagnostic>>> {
    let loaded = load_file(file);
    if loaded.diagnostics.iter().any(Diagnostic::is_error) {
        return Ok(Err(loaded.diagnostics.into_iter().filter(Diagnostic::is_error).collect()));
    }
    if loaded.resources.tools.is_empty() {
        bail!("{} has no CustomTools", file.display());
    }
    Ok(graphql_operations(schema, &loaded.resources.tools))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tamis_crds::diagnose;

    use super::super::api::changes;
    use super::*;

    const SCHEMA: &str = "type Query { user(login: String!): User other: Other reserved(_a: Int!): Int }
type Mutation { add(login: String!): User }
type User { login: String! picture(size: Int!): String }
type Other { a: Int }
";

    fn args(dir: &Path, include: &[&str]) -> Args {
        Args {
            schema: Some(dir.join("in.graphql").to_string_lossy().into_owned()),
            base_url: "https://api.example.com/graphql".to_owned(),
            include: include.iter().map(|&pattern| pattern.to_owned()).collect(),
            operations: None,
            custom_tools: None,
            credential: CredentialArgs::default(),
            depth: 3,
            directory: dir.join("out"),
            name: None,
            version: "1.0.0".to_owned(),
            config_map: false,
            force: false,
        }
    }

    #[test]
    fn files_are_written_and_never_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("in.graphql"), SCHEMA).expect("writes");
        let operations = "query mine { user(login: \"a\") { login } }\n";
        fs::write(dir.path().join("o.graphql"), operations).expect("writes");
        let with = || Some(dir.path().join("o.graphql"));
        run(&Args { operations: with(), ..args(dir.path(), &["user", "Mutation.add"]) }).expect("is written");
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).expect("is there");
        assert_eq!(
            read("api-example-com.yaml"),
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata:\n  name: api-example-com\nspec:\n  version: \"1.0.0\"\n  \
             graphql:\n    file: api-example-com.graphql\n    baseUrl: https://api.example.com/graphql\n    operations:\n      \
             file: api-example-com.operations.graphql\n    fields:\n      include:\n        - user\n        - Mutation.add\n"
        );
        let schema = read("api-example-com.graphql");
        assert!(schema.contains("picture") && !schema.contains("Other"), "{schema}");
        assert_eq!(read("api-example-com.operations.graphql"), operations);
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out")])), []);
        let again = run(&args(dir.path(), &[])).expect_err("is there").to_string();
        assert!(again.ends_with("api-example-com.graphql exists; --force replaces it"), "{again}");
        run(&Args { force: true, ..args(dir.path(), &["user"]) }).expect("is replaced");
        assert!(!read("api-example-com.graphql").contains("Mutation"));
    }

    #[test]
    fn schema_and_operations_become_keys_of_a_config_map() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("in.graphql"), SCHEMA).expect("writes");
        fs::write(dir.path().join("o.graphql"), "query mine { user(login: \"a\") { login } }\n").expect("writes");
        let with = || Some(dir.path().join("o.graphql"));
        let import = |force| run(&Args { operations: with(), config_map: true, force, ..args(dir.path(), &["user"]) });
        import(false).expect("is written");
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).expect("is there");
        let manifest = read("api-example-com.yaml");
        for key in [SCHEMA_KEY, OPERATIONS_KEY] {
            let reference = format!("configMapRef:\n      name: api-example-com\n      key: {key}");
            assert!(manifest.replace("        ", "      ").contains(&reference), "{manifest}");
            assert!(read("api-example-com.configmap.yaml").contains(key));
        }
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out")])), []);
        assert!(import(false).is_err(), "nothing is overwritten");
        import(true).expect("is replaced");
        let files =
            Files { schema: dir.path().join("out/api-example-com.configmap.yaml"), operations: None, config_map: true };
        let before = previous(&files, Some(&["user".to_owned()]), 3).expect("can be read again");
        assert_eq!(before.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["mine", "user"]);
    }

    #[test]
    fn custom_tools_become_operations() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("in.graphql"), SCHEMA).expect("writes");
        let tools = "apiVersion: reshapr.io/v1alpha1\nkind: CustomTools\nservice: {name: g, version: '1'}\ncustomTools:\n  with_picture:\n    \
                     tool: user\n    title: A picture\n    description: Finds a picture\n    input: {type: object, properties: {who: {type: string}}, required: [who]}\n    \
                     arguments: {login: '${who}', __relation_picture: {size: 32}}\n";
        fs::write(dir.path().join("tools.yaml"), tools).expect("writes");
        let with = |name: &str| Args { custom_tools: Some(dir.path().join(name)), ..args(dir.path(), &[]) };
        run(&with("tools.yaml")).expect("is written");
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).expect("is there");
        assert_eq!(
            read("api-example-com.operations.graphql"),
            "# Finds a picture\nquery with_picture($who: String!) {\n  user(login: $who) {\n    login\n    picture(size: 32)\n  }\n}\n"
        );
        let manifest = read("api-example-com.yaml");
        assert!(manifest.contains("    overrides:\n      with_picture:\n        title: A picture\n"), "{manifest}");
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out")])), []);
        let error = run(&with("in.graphql")).expect_err("are no tools").to_string();
        assert!(error.contains("has no CustomTools"), "{error}");
        fs::write(dir.path().join("tools.yaml"), tools.replace("picture:", "pictur:")).expect("writes");
        assert_eq!(run(&with("tools.yaml")).expect("is refused"), ExitCode::from(1));
    }

    #[test]
    fn what_cannot_be_imported_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("in.graphql"), SCHEMA).expect("writes");
        let error = run(&args(dir.path(), &["none"])).expect_err("no such field").to_string();
        assert!(error.contains("no field matches `none`"), "{error}");
        let base_url = "http://example.com".to_owned();
        let error = run(&Args { base_url, ..args(dir.path(), &[]) }).expect_err("no https").to_string();
        assert!(error.contains("http is allowed for loopback"), "{error}");
        assert!(!dir.path().join("out").exists(), "nothing is written");
    }

    #[test]
    fn what_has_changed_is_said() {
        let examine = |schema: &str| {
            let documents = GraphQlDocuments { schema: ("s.graphql", schema.as_bytes()), operations: None };
            examine_graphql(documents, None, 3)
        };
        let (before, now) =
            (examine("type Query { a: Int b: Int c: Int }"), examine("type Query { b(x: Int): Int c: Int d: Int }"));
        assert_eq!(changes(Some(&before), &now), "added: d\nremoved: a\nchanged: b\n");
        assert_eq!(changes(Some(&now), &now), "no tool has changed\n");
        assert_eq!(changes(None, &now), "");
    }
}

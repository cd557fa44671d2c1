//! `tamis import graphql`: writes a ServiceManifest of a GraphQL schema, and the part of the schema that it needs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tamis_crds::{ApiReport, Diagnostic, GraphQlDocuments, examine_graphql};

use super::api::{Content, Kinds, changes, check, fetch, included, manifest, read, refuse, summary, write_all};
use super::line;
use super::manifest::default_name;
use super::tree::Tree;
use crate::{note, output};

/// What becomes tools.
const FIELDS: Kinds = Kinds { many: "fields and operations", one: "field" };

/// Make a ServiceManifest of a GraphQL schema
///
/// Writes NAME.yaml, and next to it NAME.graphql: the schema, pruned to the fields that become tools and what they lead to, and
/// NAME.operations.graphql with --operations. Prints how many fields became tools, and of each other one why it did not. Nothing is
/// overwritten without --force, which also prints which tools are added, removed and changed. A gateway and the operator never
/// download a schema.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import graphql schema.graphql --base-url https://api.example.com/graphql -o api
  # only some fields, a mutation among them, and operations of your own
  tamis import graphql schema.json --base-url https://api.example.com/graphql \\
    --include user --include Mutation.addStar --operations operations.graphql -o api

Exit codes:
  0  written
  1  a document cannot be read or used, or a file cannot be written
  2  usage error")]
pub(crate) struct Args {
    /// The schema: a file, or an https or http address of one. GraphQL's own language, or the JSON of an introspection query.
    #[arg(value_name = "FILE|URL")]
    schema: String,
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
    /// Replace the files if they exist.
    #[arg(long)]
    force: bool,
}

/// The files of an import.
struct Files {
    manifest: PathBuf,
    schema: PathBuf,
    operations: Option<PathBuf>,
}

/// Writes the manifest, the schema and the operations.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { schema, base_url, include, operations, depth, directory, name, version, force } = args;
    let bytes = fetch(schema)?;
    let written = operations.as_deref().map(read).transpose()?;
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    let shown = with_ending(schema, if is_json { "json" } else { "graphql" });
    let operations_shown = operations.as_ref().map(|path| with_ending(&path.to_string_lossy(), "graphql"));
    let documents =
        GraphQlDocuments { schema: (&shown, &bytes), operations: operations_shown.as_deref().zip(written.as_deref()) };
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
    let files = Files {
        manifest: directory.join(format!("{name}.yaml")),
        schema: directory.join(format!("{name}.graphql")),
        operations: written.as_ref().map(|_| directory.join(format!("{name}.operations.graphql"))),
    };
    let pruned =
        report.pruned.as_deref().context("the part of the schema that the tools need is no schema of its own")?;
    let text = tree(&name, version, base_url, include, written.is_some()).to_yaml(0);
    let mut all: Vec<Content<'_>> = vec![(&files.schema, pruned.as_bytes())];
    all.extend(files.operations.as_deref().zip(written.as_deref()));
    all.push((&files.manifest, text.as_bytes()));
    check(&all, *force)?;
    let before = previous(&files, include, usize::from(*depth));
    write_all(directory, &all, *force)?;
    let mut said = summary(&report, FIELDS, &files.manifest, &files.schema);
    said.push_str(&changes(before.as_ref(), &report));
    output::write(said.as_bytes())?;
    if report.tools.is_empty() {
        note!("warning: no field becomes a tool");
    }
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

/// Returns the host of an address, or the whole text.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':', '?', '#']).next().unwrap_or(rest)
}

/// Returns what the files held before, if they can be read.
fn previous(files: &Files, include: Option<&[String]>, depth: usize) -> Option<ApiReport> {
    let schema = read(&files.schema).ok()?;
    let operations = files.operations.as_deref().and_then(|file| Some((file.to_string_lossy(), read(file).ok()?)));
    let documents = GraphQlDocuments {
        schema: (&files.schema.to_string_lossy(), &schema),
        operations: operations.as_ref().map(|(file, bytes)| (&**file, &bytes[..])),
    };
    let report = examine_graphql(documents, include, depth);
    (!report.findings.iter().any(Diagnostic::is_error)).then_some(report)
}

fn tree(name: &str, version: &str, base_url: &str, include: Option<&[String]>, has_operations: bool) -> Tree {
    let mut graphql = Tree::map([("file", Tree::text(format!("{name}.graphql"))), ("baseUrl", Tree::text(base_url))]);
    if has_operations {
        let file = Tree::text(format!("{name}.operations.graphql"));
        graphql.push("operations", Tree::map([("file", file)]));
    }
    if let Some(include) = include {
        graphql.push("fields", included(include));
    }
    manifest(name, Tree::map([("version", Tree::text(version)), ("graphql", graphql)]))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tamis_crds::diagnose;

    use super::*;

    const SCHEMA: &str = "type Query { user(login: String!): User other: Other reserved(_a: Int!): Int }
type Mutation { add(login: String!): User }
type User { login: String! picture(size: Int!): String }
type Other { a: Int }
";

    fn args(dir: &Path, include: &[&str]) -> Args {
        Args {
            schema: dir.join("in.graphql").to_string_lossy().into_owned(),
            base_url: "https://api.example.com/graphql".to_owned(),
            include: include.iter().map(|&pattern| pattern.to_owned()).collect(),
            operations: None,
            depth: 3,
            directory: dir.join("out"),
            name: None,
            version: "1.0.0".to_owned(),
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

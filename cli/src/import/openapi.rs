//! `tamis import openapi`: writes a ServiceManifest of an OpenAPI document, and the part of the document that it needs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use tamis_crds::resources::AuthType;
use tamis_crds::{ApiReport, Diagnostic, Expansion, examine_api, expand_api};

use super::api::{
    Content, Kinds, SERVER_SIDE, check, fetch, included, manifest, read, refuse, say, summary, write_all,
};
use super::config_map::{self, ConfigMap};
use super::line;
use super::manifest::{default_name, default_version};
use super::tree::Tree;
use crate::note;

/// What becomes tools.
const OPERATIONS: Kinds = Kinds { many: "operations", one: "operation" };

/// Make a ServiceManifest of an OpenAPI document (3.0 to 3.2)
///
/// Writes NAME.yaml, and next to it NAME.openapi.json: the document, pruned to the operations that become tools and what they
/// refer to, or with --config-map NAME.configmap.yaml, as a cluster takes it. Prints how many operations became tools, and of each other one why it did not. Nothing is overwritten without
/// --force, which also prints which tools are added, removed and changed. A gateway and the operator never download a document.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import openapi petstore.yaml -o api
  # only some operations: by operationId, by tag, or by method and path
  tamis import openapi https://api.example.com/openapi.json --include 'pets' --include 'GET /orders/*' -o api
  # plain HTTP actions, to continue by hand
  tamis import openapi petstore.yaml --expand -o api
  # for a cluster
  tamis import openapi petstore.yaml --config-map -o api && kubectl apply -f api

Exit codes:
  0  written
  1  the document cannot be read or used, or a file cannot be written
  2  usage error")]
pub(crate) struct Args {
    /// The document: a file, or an https or http address.
    #[arg(value_name = "FILE|URL")]
    document: String,
    /// An operationId, a tag, or a method and a path (`GET /pets`) of the operations that become tools; `*` matches any text. May be
    /// repeated [default: all].
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// The folder to write to.
    #[arg(short = 'o', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The name of the manifest and of its files [default: made of the document's title].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The version of the service [default: the document's version].
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// The API's address [default: the document's first server].
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Write the document into a ConfigMap with the label tamis.dev/document. It is compressed if `kubectl apply` would refuse it
    /// otherwise, and refused if it does not fit.
    #[arg(long)]
    config_map: bool,
    /// Write plain actions of `http` instead of a document, to continue by hand. What an action cannot express is left out, and named
    /// with the reason.
    #[arg(long, conflicts_with = "config_map")]
    expand: bool,
    /// Replace the files if they exist.
    #[arg(long)]
    force: bool,
}

/// Writes the manifest and the document.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { document, include, directory, name, version, base_url, config_map, expand, force } = args;
    let bytes = fetch(document)?;
    // Whatever the name of a download ends in, JSON is read as JSON: YAML reads some of its numbers and escapes otherwise.
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    let shown = if is_json && !document.to_ascii_lowercase().ends_with(".json") {
        format!("{document}.json")
    } else {
        document.clone()
    };
    let (chosen, own_url) = ((!include.is_empty()).then_some(&include[..]), base_url.as_deref());
    let (report, actions) = if *expand {
        let Expansion { report, actions } = expand_api(&shown, &bytes, chosen, own_url);
        (report, Some(actions))
    } else {
        (examine_api(&shown, &bytes, chosen, own_url), None)
    };
    let errors = report.findings.iter().filter(|finding| finding.is_error());
    let errors: Vec<&Diagnostic> =
        errors.filter(|error| base_url.is_none() || !error.field.starts_with("servers")).collect();
    if !errors.is_empty() {
        return Ok(refuse(&errors, OPERATIONS.many));
    }
    if let [pattern, ..] = &report.unmatched[..] {
        bail!(
            "--include: no operation matches `{}`; write an operationId, a tag, or a method and a path",
            line(pattern)
        );
    }
    if base_url.is_none() && report.base_url.is_none() {
        bail!("the document names no server by an absolute URL; pass --base-url");
    }
    let name = name.clone().unwrap_or_else(|| default_name(report.title.as_deref().unwrap_or("api")));
    let version = version.clone().unwrap_or_else(|| default_version(report.version.as_deref().unwrap_or("1.0.0")));
    let manifest_file = directory.join(format!("{name}.yaml"));
    if let Some(actions) = actions {
        return write_actions(Expansion { report, actions }, (&name, &version), own_url, &manifest_file, args);
    }
    let key = format!("openapi.{}", if report.pruned.is_some() || is_json { "json" } else { "yaml" });
    let content = report.pruned.as_ref().map_or(&bytes[..], |pruned| pruned.as_bytes());
    let stored = config_map.then(|| ConfigMap::of(&name, &[(&key, content)])).transpose()?;
    let document_name = if *config_map { format!("{name}.configmap.yaml") } else { format!("{name}.{key}") };
    let document_file = directory.join(&document_name);
    let place = match &stored {
        Some(map) => ("configMapRef", map.reference(0)),
        None => ("file", Tree::text(&document_name)),
    };
    // A document that cannot be pruned holds other operations too.
    let kept = chosen.filter(|_| report.pruned.is_none());
    let text = tree(&name, &version, place, (own_url, kept), &report).to_yaml(0);
    let written = stored.as_ref().map_or(content, |map| map.yaml.as_bytes());
    let files: [Content<'_>; 2] = [(&manifest_file, text.as_bytes()), (&document_file, written)];
    check(&files, *force)?;
    let before = match config_map {
        true => config_map::document(&document_file, &key),
        false => read(&document_file).ok(),
    };
    let before = before.map(|bytes| examine_api(&key, &bytes, kept, own_url));
    // The manifest last: it names the document.
    write_all(directory, &[files[1], files[0]], *force)?;
    if stored.is_some_and(|map| map.is_large) {
        note!("{SERVER_SIDE}");
    }
    say(&report, OPERATIONS, &[&manifest_file, &document_file], before.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

fn tree(
    name: &str,
    version: &str,
    (field, place): (&str, Tree),
    (base_url, include): (Option<&str>, Option<&[String]>),
    report: &ApiReport,
) -> Tree {
    let mut openapi = Tree::map([(field, place)]);
    if let Some(url) = base_url {
        openapi.push("baseUrl", Tree::text(url));
    }
    push_auth(name, report, &mut openapi);
    if let Some(include) = include {
        openapi.push("operations", included(include));
    }
    manifest(name, spec(version, report, ("openapi", openapi)))
}

/// Writes a manifest with the actions of a document.
fn write_actions(
    Expansion { report, actions }: Expansion,
    (name, version): (&str, &str),
    base_url: Option<&str>,
    file: &Path,
    args: &Args,
) -> anyhow::Result<ExitCode> {
    if actions.is_empty() {
        bail!("no operation can be an action of `http`\n{}", summary(&report, OPERATIONS, &[file]).trim_end());
    }
    let mut http = Tree::map([]);
    if let Some(url) = base_url.or(report.base_url.as_deref()) {
        http.push("baseUrl", Tree::text(url));
    }
    push_auth(name, &report, &mut http);
    let actions = serde_json::to_string(&actions)?;
    http.push("actions", Tree::parse(&actions).map_err(anyhow::Error::msg)?);
    let text = manifest(name, spec(version, &report, ("http", http))).to_yaml(0);
    let content: Content<'_> = (file, text.as_bytes());
    check(&[content], args.force)?;
    write_all(&args.directory, &[content], args.force)?;
    say(&report, OPERATIONS, &[file], None)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the spec of a manifest with this source.
fn spec(version: &str, report: &ApiReport, (field, source): (&str, Tree)) -> Tree {
    let mut spec = Tree::map([("version", Tree::text(version))]);
    if let Some(title) = report.title.as_deref().filter(|title| !title.trim().is_empty()) {
        spec.push("description", Tree::text(line(title)));
    }
    spec.push(field, source);
    spec
}

/// Adds the `auth` that the document names, with a secret of the service's own name.
fn push_auth(name: &str, report: &ApiReport, source: &mut Tree) {
    if let Some((kind, parameter)) = &report.auth {
        let kind = match kind {
            AuthType::Header => "header",
            AuthType::Bearer => "bearer",
            AuthType::Basic => "basic",
            AuthType::Query => "query",
            AuthType::Body => "body",
            AuthType::None => "none",
        };
        let mut auth = Tree::map([("type", Tree::text(kind))]);
        if let Some(parameter) = parameter {
            auth.push("name", Tree::text(parameter));
        }
        auth.push("secretRef", Tree::map([("name", Tree::text(name)), ("key", Tree::text("token"))]));
        source.push("auth", auth);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tamis_crds::diagnose;

    use super::*;

    const API: &str = "openapi: 3.0.3
info: {title: Pet Store, version: 1.0.2}
servers: [{url: https://api.example.com/v1}]
paths:
  /pets:
    get: {operationId: listPets, tags: [pets], parameters: [{name: c d, in: cookie}]}
    post: {operationId: addPet, tags: [pets], responses: {'200': {content: {image/png: {}}}}}
  /other: {get: {operationId: other}}
components: {securitySchemes: {a: {type: http, scheme: bearer}}}
";

    fn import(dir: &Path, more: Args) -> anyhow::Result<ExitCode> {
        fs::write(dir.join("in.yaml"), API).expect("writes");
        run(&Args { document: dir.join("in.yaml").to_string_lossy().into_owned(), directory: dir.join("out"), ..more })
    }

    fn args(include: &[&str]) -> Args {
        Args {
            document: String::new(),
            include: include.iter().map(|&pattern| pattern.to_owned()).collect(),
            directory: PathBuf::new(),
            name: None,
            version: None,
            base_url: None,
            config_map: false,
            expand: false,
            force: false,
        }
    }

    #[test]
    fn a_config_map_is_written_and_compared() {
        let dir = tempfile::tempdir().expect("a folder");
        let with = |force| Args { config_map: true, force, ..args(&["pets"]) };
        import(dir.path(), with(false)).expect("is written");
        let out = dir.path().join("out");
        let manifest = fs::read_to_string(out.join("pet-store.yaml")).expect("is there");
        assert!(manifest.contains("    configMapRef:\n      name: pet-store\n      key: openapi.json\n"), "{manifest}");
        assert_eq!(diagnose(&tamis_crds::load(std::slice::from_ref(&out))), []);
        assert!(import(dir.path(), with(false)).is_err(), "nothing is overwritten");
        let stored = config_map::document(&out.join("pet-store.configmap.yaml"), "openapi.json").expect("is there");
        assert_eq!(examine_api("a.json", &stored, None, None).tools.len(), 1);
        import(dir.path(), with(true)).expect("is replaced");
    }

    #[test]
    fn actions_are_written_and_said() {
        let dir = tempfile::tempdir().expect("a folder");
        let with = |include: &[&str], force| Args { expand: true, force, ..args(include) };
        import(dir.path(), with(&["listPets"], false)).expect("is written");
        let out = dir.path().join("out");
        let read = || fs::read_to_string(out.join("pet-store.yaml")).expect("is there");
        let expected = "  http:
    baseUrl: https://api.example.com/v1
    auth:
      type: bearer
      secretRef:
        name: pet-store
        key: token
    actions:
      listPets:
        description: GET /pets
        method: GET
        path: \"/pets\"
";
        assert!(read().ends_with(expected), "{}", read());
        assert_eq!(fs::read_dir(&out).expect("is there").count(), 1, "one file");
        assert_eq!(diagnose(&tamis_crds::load(std::slice::from_ref(&out))), []);
        let again = import(dir.path(), with(&[], false)).expect_err("is there").to_string();
        assert!(again.ends_with("pet-store.yaml exists; --force replaces it"), "{again}");
        import(dir.path(), with(&[], true)).expect("is replaced");
        let once = read();
        assert!(once.contains("\n      other:\n"), "{once}");
        import(dir.path(), with(&[], true)).expect("is replaced");
        assert_eq!(read(), once, "the order is stable");
        let none = import(dir.path(), with(&["POST /pets"], true)).expect_err("no action").to_string();
        assert!(
            none.contains("no operation can be an action of `http`") && none.contains("answers with image/png"),
            "{none}"
        );
        assert_eq!(read(), once, "nothing is written");
    }

    #[test]
    fn a_manifest_and_its_document_are_written_and_never_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        import(dir.path(), args(&["pets"])).expect("is written");
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).expect("is there");
        assert_eq!(
            read("pet-store.yaml"),
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata:\n  name: pet-store\nspec:\n  version: \"1.0.2\"\n  \
             description: Pet Store\n  openapi:\n    file: pet-store.openapi.json\n    auth:\n      type: bearer\n      \
             secretRef:\n        name: pet-store\n        key: token\n"
        );
        let document = read("pet-store.openapi.json");
        assert!(document.contains("listPets") && !document.contains("other"), "{document}");
        let loaded = tamis_crds::load(&[dir.path().join("out")]);
        assert_eq!(diagnose(&loaded), []);
        let again = import(dir.path(), args(&[])).expect_err("is there").to_string();
        assert!(again.ends_with("pet-store.yaml exists; --force replaces it"), "{again}");
        import(dir.path(), Args { force: true, ..args(&[]) }).expect("is replaced");
        assert!(read("pet-store.openapi.json").contains("other"));
        import(dir.path(), Args { force: true, ..args(&[]) }).expect("is replaced");
        let once = read("pet-store.openapi.json");
        import(dir.path(), Args { force: true, ..args(&[]) }).expect("is replaced");
        assert_eq!(read("pet-store.openapi.json"), once, "the order is stable");
    }

    #[test]
    fn what_happens_to_each_operation_is_said() {
        let report = examine_api("in.yaml", API.as_bytes(), Some(&["pets".to_owned()]), None);
        assert_eq!(
            summary(&report, OPERATIONS, &[Path::new("m.yaml"), Path::new("d.json")]),
            "m.yaml, d.json: 1 of 2 operations became tools\nleft out POST /pets: answers with image/png\nlistPets: without \
             cookie `c d`, which has a name that no cookie can have\n1 operation was not selected\n"
        );
    }

    #[test]
    fn what_cannot_be_imported_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let error = import(dir.path(), args(&["none"])).expect_err("no such operation").to_string();
        assert!(error.contains("no operation matches `none`"), "{error}");
        fs::write(dir.path().join("x.yaml"), "openapi: 3.0.0\npaths: {/a: {get: {}}}").expect("writes");
        let document = || dir.path().join("x.yaml").to_string_lossy().into_owned();
        let error = run(&Args { document: document(), ..args(&[]) }).expect_err("no server").to_string();
        assert!(error.contains("pass --base-url"), "{error}");
        let base_url = Some("http://example.com".to_owned());
        let directory = dir.path().join("out");
        let error = run(&Args { document: document(), base_url, directory: directory.clone(), ..args(&[]) });
        let error = error.expect_err("no https").to_string();
        assert!(error.contains("http is allowed for loopback"), "{error}");
        assert!(!directory.exists(), "nothing is written");
        run(&Args { document: dir.path().join("none").to_string_lossy().into_owned(), ..args(&[]) })
            .expect_err("no file");
    }
}

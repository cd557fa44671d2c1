//! `tamis import grpc`: writes a ServiceManifest of .proto files, of a descriptor set or of what a server says by reflection, and the
//! part of the descriptors that it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tamis_crds::{Diagnostic, GrpcReport, ProtoFile, examine_grpc, proto_imports};

use super::api::{
    Content, Kinds, SERVER_SIDE, check, check_address, fetch, host, manifest, read, refuse, say, write_all,
};
use super::config_map::{self, ConfigMap};
use super::credential::{Credential, CredentialArgs};
use super::line;
use super::manifest::default_name;
use super::reflection::reflect;
use super::tree::Tree;
use crate::note;

/// What becomes tools.
const METHODS: Kinds = Kinds { many: "methods", one: "method" };
/// .proto files that are read.
const MAX_FILES: usize = 1_000;

/// Make a ServiceManifest of .proto files, of a descriptor set, or of a server with reflection
///
/// Writes NAME.yaml, and next to it NAME.proto and the files that it imports: the .proto texts, pruned to the methods that become
/// tools and the messages that they need. Prints how many methods became tools, and of each other one why it did not. Nothing is
/// overwritten without --force, which also prints which tools are added, removed and changed. A gateway and the operator never
/// download a document.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import grpc service.proto --endpoint https://grpc.example.com -o api
  # imports in another folder, and only some methods
  tamis import grpc protos/etcd/api/etcdserverpb/rpc.proto -I protos --endpoint http://127.0.0.1:2379 \\
    --include KV/Range --include 'Lease/*' -o api
  # the server itself is asked for its descriptors, with the token in the environment
  tamis import grpc --reflection https://grpc.example.com --bearer-env API_TOKEN -o api
  # for a cluster
  tamis import grpc service.binpb --endpoint https://grpc.example.com --config-map -o api && kubectl apply -f api

Exit codes:
  0  written
  1  a document cannot be read or used, or a file cannot be written
  2  usage error")]
pub(crate) struct Args {
    /// A .proto file, or a descriptor set (.binpb, .pb, .desc): a file, or an https or http address.
    #[arg(value_name = "FILE|URL", required_unless_present = "reflection")]
    document: Option<String>,
    /// The scheme, host and port of the server [default: those of --reflection].
    #[arg(long, value_name = "URL", required_unless_present = "reflection")]
    endpoint: Option<String>,
    /// The scheme, host and port of a server that is asked for its descriptors, by server reflection, in place of FILE.
    #[arg(long, value_name = "URL", conflicts_with_all = ["document", "proto_path"])]
    reflection: Option<String>,
    #[command(flatten)]
    credential: CredentialArgs,
    /// A method that becomes a tool (`Range`, `KV/Range`); `*` matches any text. May be repeated [default: all].
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// A folder in which imports are found, before those of FILE and above it. May be repeated.
    #[arg(short = 'I', long, value_name = "DIR")]
    proto_path: Vec<PathBuf>,
    /// The folder to write to.
    #[arg(short = 'o', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The name of the manifest and of its files [default: made of the host of --endpoint].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The version of the service.
    #[arg(long, value_name = "VERSION", default_value = "1.0.0")]
    version: String,
    /// Write the texts into the manifest.
    #[arg(long)]
    inline: bool,
    /// Write the texts into a ConfigMap with the label tamis.dev/document. They are compressed if `kubectl apply` would refuse them
    /// otherwise, and refused if they do not fit.
    #[arg(long, conflicts_with = "inline")]
    config_map: bool,
    /// Replace the files if they exist.
    #[arg(long)]
    force: bool,
}

/// Writes the manifest and the .proto files.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { include, directory, name, version, inline, config_map, force, .. } = args;
    let credential = args.credential.read()?;
    let documents = read_documents(args, credential.as_ref())?;
    let endpoint = args.endpoint.as_ref().or(args.reflection.as_ref()).context("--endpoint is missing")?;
    let include = (!include.is_empty()).then_some(&include[..]);
    let report = examine_grpc(&documents, include);
    let errors: Vec<&Diagnostic> = report.api.findings.iter().filter(|finding| finding.is_error()).collect();
    if !errors.is_empty() {
        return Ok(refuse(&errors, METHODS.many));
    }
    if let [pattern, ..] = &report.api.unmatched[..] {
        bail!("--include: no method matches `{}`; write the name of a method, or `SERVICE/METHOD`", line(pattern));
    }
    let name = name.clone().unwrap_or_else(|| default_name(host(endpoint)));
    let manifest_file = directory.join(format!("{name}.yaml"));
    let root = directory.join(format!("{name}.proto"));
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    let mut source = Tree::map([("endpoint", Tree::text(endpoint))]);
    if let Some(credential) = credential {
        source.push("auth", credential.auth_of(&name));
    }
    let map_file = directory.join(format!("{name}.configmap.yaml"));
    let (mut is_large, mut root_key) = (false, String::new());
    if *config_map {
        let keys = keys(&report, &name)?;
        let stored =
            ConfigMap::of(&name, &keys.iter().map(|(key, text)| (&**key, text.as_bytes())).collect::<Vec<_>>())?;
        source.push("configMapRef", stored.reference(0));
        root_key = keys.into_iter().next().map(|(key, _)| key).unwrap_or_default();
        is_large = stored.is_large;
        files.push((map_file.clone(), stored.yaml));
    } else if !inline {
        source.push("file", Tree::text(format!("{name}.proto")));
        for text in &report.texts {
            files.push((directory.join(&text.path), text.text.clone()));
        }
        // One that has the name already, and all methods, stands for itself.
        if report.roots != [format!("{name}.proto")] {
            if files.iter().any(|(file, _)| *file == root) {
                bail!("{} would be written twice; pass another --name", root.display());
            }
            files.push((root.clone(), public_imports(&report)));
        }
    }
    let spec = Tree::map([("version", Tree::text(version)), ("grpc", source)]);
    let mut text = manifest(&name, spec).to_yaml(0);
    if *inline {
        // The source is the last field.
        text.push_str(&inline_texts(&report));
    }
    let mut all: Vec<Content<'_>> = files.iter().map(|(file, text)| (&**file, text.as_bytes())).collect();
    all.push((&manifest_file, text.as_bytes()));
    check(&all, *force)?;
    let before = if *config_map { previous_keys(&map_file, &root_key) } else { previous(&root) };
    for (file, _) in &files {
        let folder = file.parent().unwrap_or(directory);
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    write_all(directory, &all, *force)?;
    if is_large {
        note!("{SERVER_SIDE}");
    }
    let written = [&*manifest_file, if *config_map { &map_file } else { &root }];
    let written = if *inline { &written[..1] } else { &written[..] };
    say(&report.api, METHODS, written, before.as_ref().map(|report| &report.api))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads what the arguments name, or asks the server.
fn read_documents(args: &Args, credential: Option<&Credential>) -> anyhow::Result<Vec<ProtoFile>> {
    if let Some(document) = &args.document {
        return documents(document, &args.proto_path);
    }
    let url = args.reflection.as_ref().context("FILE or --reflection is missing")?;
    let message = Tree::text("syntax = \"proto3\";\nservice A { rpc A(B) returns (B); }\nmessage B {}\n");
    let source = Tree::map([("endpoint", Tree::text(url)), ("inline", Tree::map([("a.proto", message)]))]);
    check_address(("grpc", source)).context("--reflection")?;
    let bytes = reflect(url, Credential::headers(credential))?;
    Ok(vec![ProtoFile { path: "reflection.binpb".to_owned(), file: "reflection.binpb".to_owned(), bytes }])
}

/// Returns the document, and the files that it imports, as far as they are there.
fn documents(document: &str, proto_path: &[PathBuf]) -> anyhow::Result<Vec<ProtoFile>> {
    let bytes = fetch(document)?;
    let is_text = std::str::from_utf8(&bytes).is_ok_and(|text| text.contains(';'));
    let ending = document.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let file = match ending.as_deref() {
        Some("proto" | "binpb" | "pb" | "desc") => document.to_owned(),
        // By what it holds, as downloads may have any name.
        _ => format!("{document}.{}", if is_text { "proto" } else { "binpb" }),
    };
    let own = Path::new(document).file_name().map_or_else(|| document.into(), |name| name.to_string_lossy());
    let mut files = vec![ProtoFile { path: own.into_owned(), file, bytes }];
    let above = Path::new(document).ancestors().skip(1).map(Path::to_owned);
    let folders: Vec<PathBuf> = proto_path.iter().cloned().chain(above).collect();
    let mut next = 0;
    while let Some(ProtoFile { bytes, file, .. }) = files.get(next) {
        next += 1;
        if !file.to_ascii_lowercase().ends_with(".proto") {
            continue;
        }
        for import in std::str::from_utf8(bytes).map(proto_imports).unwrap_or_default() {
            if files.len() >= MAX_FILES || files.iter().any(|file| file.path == import) {
                continue;
            }
            let found = folders.iter().map(|folder| folder.join(&import)).find(|path| path.is_file());
            let Some(path) = found else { continue };
            files.push(ProtoFile { path: import, file: path.to_string_lossy().into_owned(), bytes: read(&path)? });
        }
    }
    // The first one by the path by which others would import it.
    if let Some(folder) = proto_path.iter().find(|folder| Path::new(document).starts_with(folder)) {
        let path = Path::new(document).strip_prefix(folder).unwrap_or(Path::new(document));
        files[0].path = path.to_string_lossy().into_owned();
    }
    Ok(files)
}

/// Returns a .proto text that stands for those with methods.
fn public_imports(report: &GrpcReport) -> String {
    let mut text = "syntax = \"proto3\";\n\n".to_owned();
    for root in &report.roots {
        text.push_str(&format!("import public \"{root}\";\n"));
    }
    text
}

/// Returns the keys of a ConfigMap with their texts, first the one that the manifest names: `.` is in place of each `/` of a path.
fn keys(report: &GrpcReport, name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let key = |path: &str| path.replace('/', ".");
    let mut keys: Vec<(String, String)> =
        report.texts.iter().map(|text| (key(&text.path), text.text.clone())).collect();
    let root = match &report.roots[..] {
        [root] => key(root),
        _ => {
            keys.push((format!("{name}.proto"), public_imports(report)));
            format!("{name}.proto")
        }
    };
    keys.sort_by_key(|(key, _)| (*key != root, key.clone()));
    if let Some(twice) = keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        bail!(
            "two files would have the key `{}` in the ConfigMap; import a descriptor set, or pass another --name",
            twice[0].0
        );
    }
    Ok(keys)
}

/// Returns what a ConfigMap held before, if it can be read. `root`: the key that its manifest names.
fn previous_keys(file: &Path, root: &str) -> Option<GrpcReport> {
    let mut documents = config_map::documents(file)?;
    documents.sort_by_key(|(key, _)| key != root);
    let texts = documents.iter().filter_map(|(_, text)| std::str::from_utf8(text).ok());
    let imports: Vec<String> = texts.flat_map(proto_imports).collect();
    let each = documents.into_iter().map(|(key, bytes)| {
        let import = imports.iter().find(|import| import.replace('/', ".") == key);
        ProtoFile { path: import.unwrap_or(&key).clone(), file: key, bytes }
    });
    let report = examine_grpc(&each.collect::<Vec<_>>(), None);
    (!report.api.findings.iter().any(Diagnostic::is_error)).then_some(report)
}

/// Returns the field `inline` of the source, at the end of a manifest.
fn inline_texts(report: &GrpcReport) -> String {
    let mut text = "    inline:\n".to_owned();
    for proto in &report.texts {
        text.push_str(&format!("      {}: |\n", proto.path));
        for line in proto.text.lines() {
            let line = format!("        {line}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Returns what the files held before, if they can be read.
fn previous(root: &Path) -> Option<GrpcReport> {
    let files = documents(&root.to_string_lossy(), &[]).ok()?;
    let report = examine_grpc(&files, None);
    (!report.api.findings.iter().any(Diagnostic::is_error)).then_some(report)
}

#[cfg(test)]
mod tests {
    use tamis_crds::diagnose;

    use super::super::api::changes;
    use super::*;

    const RPC: &str = "syntax = \"proto3\";\npackage a;\nimport \"b/kv.proto\";\nimport \"options.proto\";\n
service KV {
  // Gets a pair.
  rpc Get(b.Pair) returns (b.Pair) { option (level) = 1; }
  rpc Put(b.Pair) returns (b.Pair);
  rpc Load(stream b.Pair) returns (b.Pair);
}
";
    const KV: &str =
        "syntax = \"proto3\";\npackage b;\nmessage Pair { string key = 1; }\nmessage Other { string key = 1; }\n";
    const OPTIONS: &str = "syntax = \"proto2\";\nimport \"google/protobuf/descriptor.proto\";\n\
                           extend google.protobuf.MethodOptions { optional int32 level = 50000; }\n";

    fn args(dir: &Path, include: &[&str]) -> Args {
        Args {
            document: Some(dir.join("in/a/rpc.proto").to_string_lossy().into_owned()),
            endpoint: Some("http://127.0.0.1:2379".to_owned()),
            reflection: None,
            credential: CredentialArgs::default(),
            include: include.iter().map(|&pattern| pattern.to_owned()).collect(),
            proto_path: Vec::new(),
            directory: dir.join("out"),
            name: Some("kv".to_owned()),
            version: "1.0.0".to_owned(),
            inline: false,
            config_map: false,
            force: false,
        }
    }

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("in/a")).expect("is made");
        fs::create_dir_all(dir.path().join("in/b")).expect("is made");
        for (file, text) in [("a/rpc.proto", RPC), ("b/kv.proto", KV), ("options.proto", OPTIONS)] {
            fs::write(dir.path().join("in").join(file), text).expect("writes");
        }
        dir
    }

    #[test]
    fn files_are_written_and_never_overwritten() {
        let dir = folder();
        run(&args(dir.path(), &["KV/Get"])).expect("is written");
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).expect("is there");
        assert_eq!(
            read("kv.yaml"),
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata:\n  name: kv\nspec:\n  version: \"1.0.0\"\n  \
             grpc:\n    endpoint: http://127.0.0.1:2379\n    file: kv.proto\n"
        );
        assert_eq!(read("kv.proto"), "syntax = \"proto3\";\n\nimport public \"rpc.proto\";\n");
        let rpc = "syntax = \"proto3\";\n\npackage a;\n\nimport \"b/kv.proto\";\n\nservice KV {\n  // Gets a pair.\n  \
                   rpc Get(.b.Pair) returns (.b.Pair);\n}\n";
        assert_eq!(read("rpc.proto"), rpc);
        let kv = "syntax = \"proto3\";\n\npackage b;\n\nmessage Pair {\n  string key = 1;\n}\n";
        assert_eq!(read("b/kv.proto"), kv);
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out")])), []);
        // A manifest alone leads to the files that it needs.
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out/kv.yaml")])), []);
        let again = run(&args(dir.path(), &[])).expect_err("is there").to_string();
        assert!(again.ends_with("exists; --force replaces it"), "{again}");
        let before = previous(&dir.path().join("out/kv.proto")).expect("is readable");
        run(&Args { force: true, ..args(dir.path(), &["Put"]) }).expect("is replaced");
        let now = previous(&dir.path().join("out/kv.proto")).expect("is readable");
        assert_eq!(changes(Some(&before.api), &now.api), "added: KV_Put\nremoved: KV_Get\n");
    }

    #[test]
    fn a_manifest_may_hold_the_texts() {
        let dir = folder();
        run(&Args { inline: true, ..args(dir.path(), &["Get"]) }).expect("is written");
        let text = fs::read_to_string(dir.path().join("out/kv.yaml")).expect("is there");
        assert!(text.contains("    inline:\n      b/kv.proto: |\n        syntax = \"proto3\";\n"), "{text}");
        assert!(!dir.path().join("out/kv.proto").exists());
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out")])), []);
    }

    #[test]
    fn texts_become_keys_of_a_config_map() {
        let dir = folder();
        let import = |force, include| run(&Args { config_map: true, force, ..args(dir.path(), include) });
        import(false, &["Get"]).expect("is written");
        let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).expect("is there");
        assert!(
            read("kv.yaml").contains("    configMapRef:\n      name: kv\n      key: rpc.proto\n"),
            "{}",
            read("kv.yaml")
        );
        let map = read("kv.configmap.yaml");
        assert!(map.contains("  rpc.proto: |") && map.contains("  b.kv.proto: |"), "{map}");
        assert_eq!(diagnose(&tamis_crds::load(&[dir.path().join("out")])), []);
        assert!(import(false, &["Get"]).is_err(), "nothing is overwritten");
        let file = dir.path().join("out/kv.configmap.yaml");
        let before = previous_keys(&file, "rpc.proto").expect("is readable");
        import(true, &["Put"]).expect("is replaced");
        let now = previous_keys(&file, "rpc.proto").expect("is readable");
        assert_eq!(changes(Some(&before.api), &now.api), "added: KV_Put\nremoved: KV_Get\n");
    }

    #[test]
    fn what_cannot_be_imported_is_an_error() {
        let dir = folder();
        let error = run(&args(dir.path(), &["none"])).expect_err("no such method").to_string();
        assert!(error.contains("no method matches `none`"), "{error}");
        let endpoint = "http://example.com".to_owned();
        let error = run(&Args { endpoint: Some(endpoint), ..args(dir.path(), &[]) }).expect_err("no https").to_string();
        assert!(error.contains("http is allowed for loopback"), "{error}");
        fs::remove_file(dir.path().join("in/b/kv.proto")).expect("is removed");
        let code = run(&args(dir.path(), &[])).expect("is said");
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(1)));
        assert!(!dir.path().join("out").exists(), "nothing is written");
    }
}

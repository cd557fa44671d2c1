//! What imports have in common: the documents of APIs, manifests, and the files that are written.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use tamis_crds::yaml::MAX_API_BYTES;
use tamis_crds::{ApiReport, Diagnostic, Loaded, diagnose, parse_document};

use super::line;
use super::tree::Tree;
use crate::{note, output};

/// The longest time in which a document is downloaded.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// What to do with a large ConfigMap.
pub(super) const SERVER_SIDE: &str = "apply the ConfigMap with `kubectl apply --server-side`, since it exceeds what `kubectl apply` \
     keeps in an annotation";

/// Returns a document from a file, or from an https or http address.
pub(super) fn fetch(document: &str) -> anyhow::Result<Vec<u8>> {
    if document.starts_with("https://") || document.starts_with("http://") {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(download(document))
    } else {
        read(Path::new(document))
    }
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    use std::io::Read as _;

    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(MAX_API_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(bytes.len() as u64 <= MAX_API_BYTES, "{} has more than {MAX_API_BYTES} bytes", path.display());
    Ok(bytes)
}

/// Downloads a document of at most [`MAX_API_BYTES`].
async fn download(url: &str) -> anyhow::Result<Vec<u8>> {
    const FAILED: &str = "cannot download the document";
    let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
    let response = client.get(url).send().await.and_then(reqwest::Response::error_for_status).context(FAILED)?;
    body(response, "document", FAILED).await
}

/// Reads the body of an answer, of at most [`MAX_API_BYTES`]. `what`: what it is, and `failed`: what is said if it cannot be read.
pub(super) async fn body(mut response: reqwest::Response, what: &str, failed: &'static str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.context(failed)? {
        bytes.extend_from_slice(&chunk);
        anyhow::ensure!(bytes.len() as u64 <= MAX_API_BYTES, "the {what} has more than {MAX_API_BYTES} bytes");
    }
    Ok(bytes)
}

/// Returns a client that sends headers, a credential among them, to the host that the caller names and to no other one.
pub(super) fn asking(headers: HeaderMap, timeout: Duration) -> ClientBuilder {
    Client::builder().redirect(Policy::none()).timeout(timeout).default_headers(headers)
}

/// Checks that a manifest may name the address of a source: nothing is sent to any other.
pub(super) fn check_address(source: (&str, Tree)) -> anyhow::Result<()> {
    let probe = manifest("api", Tree::map([("version", Tree::text("1")), source])).to_yaml(0);
    check(&[(Path::new("manifest.yaml"), probe.as_bytes())], true)
}

/// Prints the errors of a document. `what`: what may be chosen instead.
pub(super) fn refuse(errors: &[&Diagnostic], what: &str) -> ExitCode {
    for error in errors {
        eprintln!("{error}");
    }
    note!("nothing written; correct the document, or choose other {what} with --include");
    ExitCode::from(1)
}

/// Returns a ServiceManifest.
pub(super) fn manifest(name: &str, spec: Tree) -> Tree {
    Tree::map([
        ("apiVersion", Tree::text(tamis_crds::resources::API_VERSION)),
        ("kind", Tree::text("ServiceManifest")),
        ("metadata", Tree::map([("name", Tree::text(name))])),
        ("spec", spec),
    ])
}

/// Returns the choice of some patterns.
pub(super) fn included(patterns: &[String]) -> Tree {
    Tree::map([("include", Tree::List(patterns.iter().map(Tree::text).collect()))])
}

/// A file, and its content.
pub(super) type Content<'f> = (&'f Path, &'f [u8]);

/// Checks that `tamis validate` accepts the files, and that none of them is there unless `force` is set.
pub(super) fn check(files: &[Content<'_>], force: bool) -> anyhow::Result<()> {
    let parsed = files.iter().map(|(file, content)| parse_document(&file.to_string_lossy(), content)).collect();
    if let Some(error) = diagnose(&Loaded::of(parsed)).iter().find(|finding| finding.is_error()) {
        bail!("the manifest would not be accepted: {error}");
    }
    match files.iter().find(|(file, _)| !force && file.exists()) {
        Some((file, _)) => bail!("{} exists; --force replaces it", file.display()),
        None => Ok(()),
    }
}

/// Writes the files into a folder, which is created.
pub(super) fn write_all(directory: &Path, files: &[Content<'_>], force: bool) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    files.iter().try_for_each(|(file, content)| write(file, content, force))
}

/// Writes a file. One that exists is an error unless `force` is set.
pub(super) fn write(file: &Path, content: &[u8], force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let options =
        if force { options.write(true).create(true).truncate(true) } else { options.write(true).create_new(true) };
    options
        .open(file)
        .and_then(|mut file| file.write_all(content))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// What becomes tools, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    /// All of them.
    pub(super) many: &'static str,
    /// One that may be selected.
    pub(super) one: &'static str,
}

/// Prints what became of a document, and which tools differ from those of the files before. `written`: the files that matter to the
/// user.
pub(super) fn say(
    report: &ApiReport,
    kinds: Kinds,
    written: &[&Path],
    before: Option<&ApiReport>,
) -> anyhow::Result<()> {
    let text = summary(report, kinds, written) + &changes(before, report);
    output::write(text.as_bytes())?;
    if report.tools.is_empty() {
        note!("warning: no {} becomes a tool", kinds.one);
    }
    Ok(())
}

/// Returns what became of a document, as [`say`] prints it.
pub(super) fn summary(report: &ApiReport, Kinds { many, one }: Kinds, written: &[&Path]) -> String {
    let selected = report.tools.len() + report.left_out.len();
    let files: Vec<String> = written.iter().map(|file| file.display().to_string()).collect();
    let mut text = format!("{}: {} of {selected} {many} became tools\n", files.join(", "), report.tools.len());
    for (operation, reason) in &report.left_out {
        text.push_str(&format!("left out {}: {}\n", line(operation), line(reason)));
    }
    for tool in &report.tools {
        for omitted in &tool.omitted {
            text.push_str(&format!("{}: without {}\n", tool.name, line(omitted)));
        }
    }
    if report.unselected > 0 {
        let them = if report.unselected == 1 { format!("{one} was") } else { format!("{one}s were") };
        text.push_str(&format!("{} {them} not selected\n", report.unselected));
    }
    text
}

/// Says which tools a newer document adds, removes and changes; nothing without an older one.
pub(super) fn changes(before: Option<&ApiReport>, now: &ApiReport) -> String {
    let Some(before) = before else { return String::new() };
    let find = |report: &ApiReport, name: &str| report.tools.iter().find(|tool| tool.name == name).cloned();
    let mut groups: [(&str, Vec<&str>); 3] = [("added", Vec::new()), ("removed", Vec::new()), ("changed", Vec::new())];
    for tool in &now.tools {
        match find(before, &tool.name) {
            None => groups[0].1.push(&tool.name),
            Some(old) if old.digest != tool.digest => groups[2].1.push(&tool.name),
            Some(_) => {}
        }
    }
    groups[1].1 = before.tools.iter().filter(|tool| find(now, &tool.name).is_none()).map(|tool| &*tool.name).collect();
    let said: String = groups
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}\n", names.join(", ")))
        .collect();
    if said.is_empty() { "no tool has changed\n".to_owned() } else { said }
}

/// Returns the host of an address, or the whole text.
pub(super) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':', '?', '#']).next().unwrap_or(rest)
}

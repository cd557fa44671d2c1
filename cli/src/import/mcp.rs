//! `tamis import mcp`: writes a ServiceManifest that pins the tools of an MCP server, and compares one with the server.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use tamis_crds::resources::{McpSpec, McpToolSpec, ServiceManifestSpec};
use tamis_crds::{Loaded, Resource, diagnose, load_file, parse_document};

use super::client::{self, Listed, ServerInfo};
use super::compare::{Change, describe, differences};
use super::listing::{Definition, LeftOut, Listing, listing};
use super::tree::Tree;
use super::update::splice;
use crate::note;
use crate::output;

/// The exit code if the server's tools differ from the file and the file was left alone.
const DIFFERENT: u8 = 4;

/// Pin the tools that an MCP server lists in a ServiceManifest, or compare a manifest with the server
///
/// Without -o, the manifest is printed. With -o, it is written to a new file. If the file exists, it is compared with the server
/// instead: one line for each tool that was added, removed or changed, with the parts that differ. --update shows each
/// difference and writes the server's tools to the file; everything outside `tools` stays as it is, comments included. --force
/// writes the whole file anew.
///
/// A gateway withholds a tool that differs from what is pinned, so run this again when a server announces a change. Tools that
/// cannot be pinned are left out and reported on standard error: an invalid or repeated name, a schema that Tamis cannot
/// validate or that refers to another document, and what exceeds 1,000 tools or 4 MiB.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import mcp https://mcp.example.com/mcp -o tickets.yaml
  # which tools have changed since
  tamis import mcp -o tickets.yaml
  # accept the changes
  tamis import mcp -o tickets.yaml --update
  # the server requires a token, which is in the environment
  tamis import mcp https://mcp.example.com/mcp --bearer-env TICKETS_TOKEN -o tickets.yaml

Exit codes:
  0  written, or the file and the server agree
  1  the server cannot be asked, or the file cannot be read or written
  2  usage error
  4  the server's tools differ from the file, which was left alone")]
pub(crate) struct Args {
    /// The server's endpoint, for example https://mcp.example.com/mcp [default: the URL in the file].
    #[arg(value_name = "URL", required_unless_present = "file")]
    url: Option<String>,
    /// The file to write or to compare, or a folder for NAME.yaml.
    #[arg(short = 'o', long, value_name = "FILE|DIR")]
    file: Option<PathBuf>,
    /// The name of a new manifest [default: made of the server's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The version of a new manifest [default: the server's version].
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// The environment variable with a bearer token for the server. A new manifest refers to the Secret of its own name, key
    /// `token`.
    #[arg(long, value_name = "VARIABLE")]
    bearer_env: Option<String>,
    /// A header with a credential for the server, and the environment variable with its value. As --bearer-env otherwise.
    #[arg(long, value_name = "NAME=VARIABLE", conflicts_with = "bearer_env")]
    header_env: Option<String>,
    /// Write the whole file anew if it exists.
    #[arg(long, requires = "file")]
    force: bool,
    /// Write the server's tools to the file.
    #[arg(long, requires = "file", conflicts_with = "force")]
    update: bool,
    /// The output format: of a new manifest, or of the comparison.
    #[arg(long, value_enum, default_value_t = Form::Yaml)]
    output: Form,
}

/// The format in which a manifest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// A YAML document; a comparison is text for people
    Yaml,
    /// JSON
    Json,
}

/// A manifest in a file.
struct Pinned {
    path: PathBuf,
    text: String,
    url: String,
    tools: BTreeMap<String, Definition>,
    manifest: std::sync::Arc<Resource<ServiceManifestSpec>>,
}

/// A credential: the header that carries it, and `auth` of a manifest without its secret.
struct Credential {
    name: HeaderName,
    value: HeaderValue,
    auth: Tree,
}

/// Writes or compares. Returns 4 if the server differs from the file.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let existing = match args.file.as_deref().filter(|file| file.is_file() && !args.force) {
        Some(file) => Some(Pinned::read(file)?),
        None => None,
    };
    let url = match (&args.url, &existing) {
        (Some(url), _) => url.clone(),
        (None, Some(pinned)) => pinned.url.clone(),
        (None, None) => bail!("there is no file to take the server's URL from; name the URL"),
    };
    let credential = args.credential()?;
    // Nothing is sent to an address that a manifest must not name.
    check(&manifest("server", "1", &ServerInfo::default(), &url, None, &BTreeMap::new()))?;
    let parsed = Url::parse(&url).context("the URL")?;
    let headers = credential.iter().map(|credential| (credential.name.clone(), credential.value.clone())).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Listed { server, tools } = runtime.block_on(client::list(&parsed, headers))?;
    let found = listing(tools.iter().map(|tool| tool.get()));
    for LeftOut { tool, reason } in &found.left_out {
        let tool = if tool.is_empty() { String::new() } else { format!(" {}", super::line(tool)) };
        note!("warning: left out{tool}: {}", super::line(reason));
    }
    let name = args.name.clone().unwrap_or_else(|| default_name(&server.name));
    let file = args.file.as_ref().map(|file| {
        let ending = if args.output == Form::Json { "json" } else { "yaml" };
        if file.is_dir() { file.join(format!("{name}.{ending}")) } else { file.clone() }
    });
    let existing = match (existing, &file) {
        (Some(pinned), _) => Some(pinned),
        (None, Some(file)) if file.exists() && !args.force => Some(Pinned::read(file)?),
        _ => None,
    };
    if let Some(pinned) = existing {
        return args.compare(&pinned, &url, &found);
    }
    let version = args.version.clone().unwrap_or_else(|| default_version(&server.version));
    let auth = credential.map(|credential| credential.auth_of(&name));
    let tree = manifest(&name, &version, &server, &url, auth, &found.tools);
    check(&tree)?;
    let count = found.tools.len();
    match file {
        None => output::write(args.form(&tree, &url).as_bytes())?,
        Some(file) => {
            write(&file, &args.form(&tree, &url), args.force)?;
            output::write(format!("{}: {count} tools\n", file.display()).as_bytes())?;
        }
    }
    if count == 0 {
        note!("warning: the server lists no tool that can be pinned");
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn credential(&self) -> anyhow::Result<Option<Credential>> {
        let value = |variable: &str, prefix: &str| {
            let text =
                std::env::var(variable).map_err(|_| anyhow!("the environment variable {variable} is not set"))?;
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", text.trim_end_matches(['\r', '\n'])))
                .map_err(|_| {
                    anyhow!("the environment variable {variable} has characters that a header cannot carry")
                })?;
            value.set_sensitive(true);
            Ok::<_, anyhow::Error>(value)
        };
        if let Some(variable) = &self.bearer_env {
            let auth = Tree::map([("type", Tree::text("bearer"))]);
            return Ok(Some(Credential { name: AUTHORIZATION, value: value(variable, "Bearer ")?, auth }));
        }
        let Some(header) = &self.header_env else { return Ok(None) };
        let (name, variable) = header.split_once('=').context("--header-env: write NAME=VARIABLE")?;
        let auth = Tree::map([("type", Tree::text("header")), ("name", Tree::text(name))]);
        let header: HeaderName = name.parse().map_err(|_| anyhow!("--header-env: `{name}` is not a header name"))?;
        Ok(Some(Credential { name: header, value: value(variable, "")?, auth }))
    }

    /// Returns the text of a new manifest.
    fn form(&self, tree: &Tree, url: &str) -> String {
        match self.output {
            Form::Json => format!("{}\n", tree.to_json()),
            Form::Yaml => format!(
                "# The tools of {url}, as it listed them. `tamis import mcp -o FILE` compares them with\n\
                 # what the server lists now, and --update accepts the differences.\n{}",
                tree.to_yaml(0)
            ),
        }
    }

    /// Reports the differences between a file and the server, and writes them if asked to.
    fn compare(&self, pinned: &Pinned, url: &str, found: &Listing) -> anyhow::Result<ExitCode> {
        let path = pinned.path.display();
        if pinned.url != url {
            bail!("{path} is about {}; --force writes it anew for {url}", pinned.url);
        }
        let changes = differences(&pinned.tools, &found.tools);
        let update = self.update && !changes.is_empty();
        if update {
            let tools = tools(&found.tools);
            let place = pinned.manifest.origin.entry(&["mcp", "tools"]).context("the file has no `tools`")?;
            let text = splice(&pinned.text, place, &tools)
                .map_err(|why| anyhow!("{path} cannot be updated, because {why}; --force writes it anew"))?;
            let read = Pinned::of(&pinned.path, &text).context("the updated file would be invalid")?;
            anyhow::ensure!(
                differences(&read.tools, &found.tools).is_empty(),
                "the updated file would not pin the tools"
            );
            fs::write(&pinned.path, text).with_context(|| format!("cannot write {path}"))?;
        }
        let said = match self.output {
            Form::Json => format!("{}\n", report(&pinned.path, &changes, &found.left_out, update)),
            Form::Yaml if changes.is_empty() => format!("{path}: {} tools, no difference\n", pinned.tools.len()),
            Form::Yaml => {
                let done = if update { format!("{path}: updated\n") } else { String::new() };
                describe(&changes, (&pinned.tools, &found.tools), self.update) + &done
            }
        };
        output::write(said.as_bytes())?;
        if changes.is_empty() || update {
            return Ok(ExitCode::SUCCESS);
        }
        note!("{path} was left alone; --update shows the differences and accepts them");
        Ok(ExitCode::from(DIFFERENT))
    }
}

impl Credential {
    /// Returns `auth` of a manifest, which names the Secret of the manifest's own name.
    fn auth_of(self, name: &str) -> Tree {
        let mut auth = self.auth;
        auth.push("secretRef", Tree::map([("name", Tree::text(name)), ("key", Tree::text("token"))]));
        auth
    }
}

impl Pinned {
    fn read(path: &Path) -> anyhow::Result<Self> {
        // Reads with the limits of every file of documents.
        if let Some(error) = load_file(path).diagnostics.iter().find(|finding| finding.is_error()) {
            bail!("{error}");
        }
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::of(path, &text)
    }

    fn of(path: &Path, text: &str) -> anyhow::Result<Self> {
        let parsed = parse_document(&path.to_string_lossy(), text.as_bytes());
        if let Some(error) = parsed.diagnostics.iter().find(|finding| finding.is_error()) {
            bail!("{error}");
        }
        let mut manifests = parsed.resources.manifests.iter().filter(|manifest| manifest.spec.mcp.is_some());
        let (Some(manifest), None) = (manifests.next(), manifests.next()) else {
            bail!(
                "{} exists, and does not pin exactly one MCP server; name another file, or write it anew with --force",
                path.display()
            );
        };
        let Some(McpSpec { url, tools, .. }) = &manifest.spec.mcp else { bail!("has no MCP server") };
        let tools = tools.iter().map(|(name, tool)| Ok((name.clone(), definition(tool)?)));
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            url: url.clone(),
            tools: tools.collect::<anyhow::Result<_>>()?,
            manifest: std::sync::Arc::clone(manifest),
        })
    }
}

/// Returns a tool of a manifest.
pub(super) fn definition(tool: &McpToolSpec) -> anyhow::Result<Definition> {
    let json = serde_json::to_string(tool)?;
    Ok(Definition::of(&Tree::parse(&json).map_err(|error| anyhow!(error))?))
}

fn tools(tools: &BTreeMap<String, Definition>) -> Tree {
    Tree::Map(tools.iter().map(|(name, definition)| (name.clone(), definition.tree().clone())).collect())
}

/// Returns the document.
fn manifest(
    name: &str,
    version: &str,
    server: &ServerInfo,
    url: &str,
    auth: Option<Tree>,
    pinned: &BTreeMap<String, Definition>,
) -> Tree {
    let mut mcp = Tree::map([("url", Tree::text(url))]);
    if let Some(auth) = auth {
        mcp.push("auth", auth);
    }
    mcp.push("tools", tools(pinned));
    let mut spec = Tree::map([("version", Tree::text(version))]);
    let about = [&server.description, &server.title].into_iter().flatten().find(|text| !text.trim().is_empty());
    if let Some(about) = about {
        spec.push("description", Tree::text(about));
    }
    spec.push("mcp", mcp);
    Tree::map([
        ("apiVersion", Tree::text(tamis_crds::resources::API_VERSION)),
        ("kind", Tree::text("ServiceManifest")),
        ("metadata", Tree::map([("name", Tree::text(name))])),
        ("spec", spec),
    ])
}

/// Checks that `tamis validate` accepts a manifest.
fn check(manifest: &Tree) -> anyhow::Result<()> {
    let parsed = parse_document("the manifest", manifest.to_yaml(0).as_bytes());
    match diagnose(&Loaded::of(vec![parsed])).iter().find(|finding| finding.is_error()) {
        None => Ok(()),
        Some(error) => bail!("{}: {}; {}", error.field, error.message, error.remedy),
    }
}

fn write(file: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let options =
        if force { options.write(true).create(true).truncate(true) } else { options.write(true).create_new(true) };
    options
        .open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Returns the comparison as JSON.
fn report(path: &Path, changes: &BTreeMap<String, Change>, left_out: &[LeftOut], updated: bool) -> serde_json::Value {
    let named = |wanted: &Change| {
        changes.iter().filter(|(_, change)| *change == wanted).map(|(name, _)| name).collect::<Vec<_>>()
    };
    let changed = changes.iter().filter_map(|(name, change)| match change {
        Change::Changed(parts) => Some(serde_json::json!({ "tool": name, "parts": parts })),
        Change::Added | Change::Removed => None,
    });
    let left_out =
        left_out.iter().map(|LeftOut { tool, reason }| serde_json::json!({ "tool": tool, "reason": reason }));
    serde_json::json!({
        "file": path.to_string_lossy(),
        "added": named(&Change::Added),
        "removed": named(&Change::Removed),
        "changed": changed.collect::<Vec<_>>(),
        "leftOut": left_out.collect::<Vec<_>>(),
        "updated": updated,
    })
}

/// Makes an object's name of a server's: `mcp-servers/everything` becomes `everything`.
fn default_name(server: &str) -> String {
    let last = server.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let name: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "server".to_owned() } else { name.to_owned() }
}

/// Returns the server's version if it can be a service's.
fn default_version(server: &str) -> String {
    let fits = !server.trim().is_empty() && server.len() <= 128 && !server.chars().any(char::is_control);
    if fits { server.to_owned() } else { "1.0.0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_made_of_the_servers() {
        let rows = [
            ("mcp-servers/everything", "everything"),
            ("My Server!", "my-server"),
            ("", "server"),
            ("///", "server"),
            ("日本", "server"),
            (&*"x".repeat(80), &*"x".repeat(63)),
        ];
        for (server, name) in rows {
            assert_eq!(default_name(server), name, "{server}");
        }
        for (server, version) in
            [("2.0.0", "2.0.0"), ("", "1.0.0"), (" ", "1.0.0"), ("1\n2", "1.0.0"), (&*"1".repeat(129), "1.0.0")]
        {
            assert_eq!(default_version(server), version, "{server}");
        }
    }

    #[test]
    fn a_manifest_is_written_in_order_and_accepted() {
        let server = ServerInfo { title: Some("A: server".to_owned()), ..ServerInfo::default() };
        let found = listing([r#"{"name":"a","description":"One.","inputSchema":{"type":"object","x":1.0}}"#]);
        let auth = Credential {
            name: AUTHORIZATION,
            value: HeaderValue::from_static("x"),
            auth: Tree::map([("type", Tree::text("bearer"))]),
        };
        let tree = manifest("s", "2.0.0", &server, "https://example.com/mcp", Some(auth.auth_of("s")), &found.tools);
        check(&tree).expect("is accepted");
        let expected = "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata:\n  name: s\nspec:\n  version: \"2.0.0\"\n  \
                        description: \"A: server\"\n  mcp:\n    url: https://example.com/mcp\n    auth:\n      type: bearer\n      \
                        secretRef:\n        name: s\n        key: token\n    tools:\n      a:\n        description: One.\n        \
                        inputSchema:\n          type: object\n          x: 1.0\n";
        assert_eq!(tree.to_yaml(0), expected);
    }

    #[test]
    fn an_address_that_no_manifest_may_name_is_refused() {
        for url in [
            "http://example.com/mcp",
            "ftp://example.com",
            "https://example.com/?key=1",
            "https://u:p@example.com",
            "x",
        ] {
            check(&manifest("s", "1", &ServerInfo::default(), url, None, &BTreeMap::new())).expect_err(url);
        }
    }
}

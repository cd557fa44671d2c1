//! `tamis import mcp`: writes a ServiceManifest that pins the tools of an MCP server, and compares one with the server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use reqwest::Url;
use tamis_config::CredentialRef;
use tamis_crds::resources::{SecretKeyRef, ServiceManifestSpec};
use tamis_crds::{Resource, load_file, parse_document};
use tamis_gateway::upstream::environment_variable;

use super::api::write;
use super::client::{self, Capability, Listed, ServerInfo};
use super::compare::{Change, describe, differences};
use super::credential::{Credential, CredentialArgs};
use super::listing::{Definition, LeftOut, Listing, listing};
use super::manifest::{Endpoint, check, default_name, default_version, definition, manifest, tools};
use super::program;
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
/// replaces the whole file.
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
  # the server is a program
  tamis import mcp -o files.yaml -- npx -y @modelcontextprotocol/server-filesystem /data

Exit codes:
  0  written, or the file and the server agree
  1  the server cannot be asked, or the file cannot be read or written
  2  usage error
  4  the server's tools differ from the file, which was left alone")]
pub(crate) struct Args {
    /// The server's endpoint, for example `https://mcp.example.com/mcp` [default: the URL in the file].
    #[arg(value_name = "URL", required_unless_present_any = ["file", "command"])]
    url: Option<String>,
    /// The program that is the server, and its arguments. It is started for the questions and ended after them. No shell reads
    /// the words.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = ["url", "bearer_env", "header_env"])]
    command: Vec<String>,
    /// An environment variable that the program gets in addition to PATH, HOME, USER, LOGNAME, TMPDIR, LANG and LC_*. A new
    /// manifest names it.
    #[arg(long, value_name = "VARIABLE", requires = "command")]
    env: Vec<String>,
    /// The file to write or to compare, or a folder for NAME.yaml.
    #[arg(short = 'o', long, value_name = "FILE|DIR")]
    file: Option<PathBuf>,
    /// The name of a new manifest [default: made of the server's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The version of a new manifest [default: the server's version].
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    credential: CredentialArgs,
    /// What the client declares that it can be asked for during a call: some servers of 2025-11-25 and before list a tool only to such
    /// clients. May be repeated.
    #[arg(long, value_enum, value_name = "CAPABILITY", conflicts_with = "command")]
    client_capability: Vec<Capability>,
    /// Replace the whole file if it exists.
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
    endpoint: Endpoint,
    tools: BTreeMap<String, Definition>,
    manifest: std::sync::Arc<Resource<ServiceManifestSpec>>,
}

/// Writes or compares. Returns 4 if the server differs from the file.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let existing = match args.file.as_deref().filter(|file| file.is_file() && !args.force) {
        Some(file) => Some(Pinned::read(file)?),
        None => None,
    };
    let endpoint = match (&args.url, &existing) {
        (Some(url), _) => Endpoint::Url(url.clone()),
        (None, _) if !args.command.is_empty() => Endpoint::Command(args.command.clone()),
        // A file from elsewhere must not start a program because its tools are compared.
        (None, Some(Pinned { endpoint: named @ Endpoint::Command(_), path, .. })) => bail!(
            "{} names a program, which runs only if you name it: tamis import mcp -o {} .. -- {named}",
            path.display(),
            path.display()
        ),
        (None, Some(pinned)) => pinned.endpoint.clone(),
        (None, None) => bail!("there is no file to take the server's URL from; name the URL"),
    };
    let credential = args.credential.read()?;
    let env = || args.env.iter().map(Tree::text).collect();
    let variables = || (!args.env.is_empty()).then(|| ("env", Tree::List(env())));
    // Nothing is sent to an address that a manifest must not name.
    let asked = variables().into_iter().collect();
    check(&manifest("server", "1", &ServerInfo::default(), &endpoint, asked, &BTreeMap::new()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Listed { server, tools } = match &endpoint {
        Endpoint::Url(url) => {
            let parsed = Url::parse(url).context("the URL")?;
            let headers = Credential::headers(credential.as_ref());
            runtime.block_on(client::list(&parsed, headers, &args.client_capability))?
        }
        Endpoint::Command(command) => {
            let environment = args.environment(existing.as_ref())?;
            runtime.block_on(program::list(command, &environment))?
        }
    };
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
        return args.compare(&pinned, &endpoint, &found);
    }
    let version = args.version.clone().unwrap_or_else(|| default_version(&server.version));
    let auth = credential.map(|credential| ("auth", credential.auth_of(&name)));
    let more = auth.into_iter().chain(variables()).collect();
    let tree = manifest(&name, &version, &server, &endpoint, more, &found.tools);
    check(&tree)?;
    let count = found.tools.len();
    match file {
        None => output::write(args.form(&tree, &endpoint).as_bytes())?,
        Some(file) => {
            write(&file, args.form(&tree, &endpoint).as_bytes(), args.force)?;
            output::write(format!("{}: {}\n", file.display(), counted(count)).as_bytes())?;
        }
    }
    if count == 0 {
        note!("warning: the server lists no tool that can be pinned");
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the environment of the program: the variables that the arguments and the file name, and the credentials of the file.
    fn environment(&self, existing: Option<&Pinned>) -> anyhow::Result<Vec<(OsString, OsString)>> {
        let spec = existing.and_then(|pinned| pinned.manifest.spec.mcp.as_ref());
        let listed: Vec<String> = self.env.iter().chain(spec.iter().flat_map(|spec| &spec.env)).cloned().collect();
        for name in &self.env {
            std::env::var_os(name).with_context(|| format!("the environment variable {name} is not set"))?;
        }
        let mut environment = tamis_gateway::programs::environment(std::env::vars_os(), &listed);
        for (name, SecretKeyRef { name: secret, key }) in spec.iter().flat_map(|spec| &spec.secret_env) {
            let variable = environment_variable(&CredentialRef { name: secret.clone(), key: key.clone() });
            let value = std::env::var_os(&variable)
                .with_context(|| format!("the file gives the program {name}, so set {variable}"))?;
            environment.push((name.into(), value));
        }
        Ok(environment)
    }

    /// Returns the text of a new manifest.
    fn form(&self, tree: &Tree, endpoint: &Endpoint) -> String {
        match self.output {
            Form::Json => format!("{}\n", tree.to_json()),
            Form::Yaml => format!(
                "# The tools of {}, as it listed them. `tamis import mcp -o FILE{}` compares them with\n\
                 # what the server lists now, and --update accepts the differences.\n{}",
                // A comment is one line.
                endpoint.to_string().replace(|c: char| c.is_control(), " "),
                if matches!(endpoint, Endpoint::Command(_)) { " -- PROGRAM .." } else { "" },
                tree.to_yaml(0)
            ),
        }
    }

    /// Reports the differences between a file and the server, and writes them if asked to.
    fn compare(&self, pinned: &Pinned, endpoint: &Endpoint, found: &Listing) -> anyhow::Result<ExitCode> {
        let path = pinned.path.display();
        if pinned.endpoint != *endpoint {
            bail!("{path} is about {}; --force replaces it with one for {endpoint}", pinned.endpoint);
        }
        let changes = differences(&pinned.tools, &found.tools);
        let update = self.update && !changes.is_empty();
        if update {
            let tools = tools(&found.tools);
            let place = pinned.manifest.origin.entry(&["mcp", "tools"]).context("the file has no `tools`")?;
            let text = splice(&pinned.text, place, &tools)
                .map_err(|why| anyhow!("{path} cannot be updated, because {why}; --force replaces it"))?;
            let read = Pinned::of(&pinned.path, &text).context("the updated file would be invalid")?;
            anyhow::ensure!(
                differences(&read.tools, &found.tools).is_empty(),
                "the updated file would not pin the tools"
            );
            fs::write(&pinned.path, text).with_context(|| format!("cannot write {path}"))?;
        }
        let said = match self.output {
            Form::Json => format!("{}\n", report(&pinned.path, &changes, &found.left_out, update)),
            Form::Yaml if changes.is_empty() => format!("{path}: {}, no difference\n", counted(pinned.tools.len())),
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
                "{} exists, and does not pin exactly one MCP server; name another file, or replace it with --force",
                path.display()
            );
        };
        let Some((spec, endpoint)) = manifest.spec.mcp.as_ref().and_then(|spec| Some((spec, Endpoint::of(spec)?)))
        else {
            bail!("{} has neither `url` nor `command`", path.display());
        };
        if spec.follow == Some(true) {
            bail!("{} follows its server, so it pins no tools; remove `follow` to pin them", path.display());
        }
        let tools = spec.pinned().map(|(name, tool)| Ok((name.clone(), definition(tool)?)));
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            endpoint,
            tools: tools.collect::<anyhow::Result<_>>()?,
            manifest: std::sync::Arc::clone(manifest),
        })
    }
}

fn counted(tools: usize) -> String {
    format!("{tools} {}", if tools == 1 { "tool" } else { "tools" })
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

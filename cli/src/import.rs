//! `tamis import`: documents of other products as documents of Tamis.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tamis_crds::Diagnostic;

use crate::logging::{Coloured, LogArgs};
use crate::output::{self, Form};
use crate::{documents, note};

/// Turn documents of other products into documents of Tamis.
///
/// `tamis serve`, `validate` and `filter` read such documents as they are. A cluster takes documents of tamis.dev only: this
/// writes them, to standard output. Findings go to standard error; where one is an error, nothing is written. Labels and
/// annotations stay, comments do not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import reshapr filters.yaml | kubectl apply -f -
  tamis import reshapr examples/seeds/reshapr --namespace team-a > reshapr.yaml
  tamis import kimbap github.yaml

Exit codes:
  0  written (warnings do not count)
  1  a document cannot be read: nothing is written
  2  usage")]
pub(crate) struct Args {
    /// Whose documents they are.
    #[arg(value_enum)]
    from: From,
    /// Files and folders; `-` is standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The namespace of documents that name none; without it they name none, and kubectl decides.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// How they are written.
    #[arg(long, value_enum, default_value_t = Form::Yaml)]
    output: Form,
}

// Documents say themselves what they are: the word keeps the command's form the same for what cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    /// reShapr's `reshapr.io/v1alpha1`
    Reshapr,
    /// kimbap's service manifests
    Kimbap,
}

/// Writes the documents; 1 where one cannot be read.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let Args { from: From::Reshapr | From::Kimbap, paths, namespace, output: form } = args;
    let loaded = documents::load(paths)?;
    let ansi = log.colours(&io::stderr());
    for diagnostic in &loaded.diagnostics {
        eprintln!("{}", Coloured(diagnostic, ansi));
    }
    if loaded.diagnostics.iter().any(Diagnostic::is_error) {
        note!("nothing is written: fix the errors above");
        return Ok(ExitCode::from(1));
    }
    let documents = tamis_crds::import(&loaded.resources, namespace.as_deref());
    if documents.is_empty() {
        note!("nothing is written: there is no document of a kind that Tamis has");
        return Ok(ExitCode::from(1));
    }
    output::objects(&documents, *form)?;
    Ok(ExitCode::SUCCESS)
}

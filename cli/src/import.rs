//! `tamis import`: converts documents of other products to documents of Tamis.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tamis_crds::Diagnostic;

use crate::logging::{Coloured, LogArgs};
use crate::output::{self, Form};
use crate::{documents, note};

/// Convert documents of other products to documents of Tamis.
///
/// `tamis serve`, `validate` and `filter` read such documents as they are, but a cluster accepts only documents of tamis.dev.
/// This command prints them to standard output. Findings go to standard error; if one is an error, nothing is printed.
/// Labels and annotations are kept, comments are not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis import reshapr filters.yaml | kubectl apply -f -
  tamis import reshapr examples/seeds/reshapr --namespace team-a > reshapr.yaml
  tamis import kimbap github.yaml

Exit codes:
  0  converted (warnings do not count)
  1  a document cannot be read; nothing is printed
  2  usage error")]
pub(crate) struct Args {
    /// The product that the documents are written for.
    #[arg(value_enum)]
    from: From,
    /// Files and folders; `-` stands for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The namespace for documents that set none. Without it they keep none, and kubectl chooses.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Form::Yaml)]
    output: Form,
}

// Documents identify themselves. The argument keeps the command line uniform for formats that do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum From {
    /// reShapr's `reshapr.io/v1alpha1`
    Reshapr,
    /// kimbap's service manifests
    Kimbap,
}

/// Prints the converted documents. Returns 1 if a document cannot be read.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let Args { from: From::Reshapr | From::Kimbap, paths, namespace, output: form } = args;
    let loaded = documents::load(paths)?;
    let ansi = log.colours(&io::stderr());
    for diagnostic in &loaded.diagnostics {
        eprintln!("{}", Coloured(diagnostic, ansi));
    }
    if loaded.diagnostics.iter().any(Diagnostic::is_error) {
        note!("nothing written; fix the errors above");
        return Ok(ExitCode::from(1));
    }
    let documents = tamis_crds::import(&loaded.resources, namespace.as_deref());
    if documents.is_empty() {
        note!("nothing written; the input has no document of a kind that Tamis supports");
        return Ok(ExitCode::from(1));
    }
    output::objects(&documents, *form)?;
    Ok(ExitCode::SUCCESS)
}

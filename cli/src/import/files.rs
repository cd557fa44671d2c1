//! `tamis import reshapr` and `kimbap`: converts documents of other products to documents of Tamis.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tamis_crds::Diagnostic;

use crate::logging::{Coloured, LogArgs};
use crate::output::{self, Form};
use crate::{documents, note};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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

/// Prints the converted documents. Returns 1 if a document cannot be read.
///
/// Documents identify themselves, so the product that the caller names makes no difference.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let Args { paths, namespace, output: form } = args;
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

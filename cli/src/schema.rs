//! `tamis schema`: the JSON Schema of the documents.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::output;

/// Print the JSON Schema of the documents, for editors.
///
/// The schema covers the kinds that files may hold, ToolsFilters without metadata and spec, and kimbap's manifests. Use `tamis
/// validate` to check what a schema cannot express: references, templates and pointers.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis schema > tamis.schema.json
  # then, as the first line of a document, for editors with the YAML language server:
  # yaml-language-server: $schema=./tamis.schema.json")]
pub(crate) struct Args {}

/// Prints the schema.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    let mut text = serde_json::to_string_pretty(&tamis_crds::document_schema()).context("cannot write the schema")?;
    text.push('\n');
    output::write(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

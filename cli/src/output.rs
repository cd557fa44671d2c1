//! What commands write. A reader that has seen enough (`tamis schema | head -1`) is no failure, and a closed standard error
//! ends no server.

use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;
use serde_json::{Value, json};
use tamis_crds::definitions;

/// How a command writes Kubernetes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// A stream of YAML documents
    Yaml,
    /// One JSON object, a `List`
    Json,
}

/// Writes Kubernetes objects to standard output.
///
/// # Errors
/// As [`write`].
pub(crate) fn objects(objects: &[Value], form: Form) -> anyhow::Result<()> {
    let text = match form {
        Form::Yaml => definitions::yaml(objects),
        Form::Json => {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
            format!("{}\n", serde_json::to_string_pretty(&list).context("cannot write the objects as JSON")?)
        }
    };
    write(text.as_bytes())
}

/// Writes a command's result to standard output.
///
/// # Errors
/// The stream's, other than that nobody reads it any more.
pub(crate) fn write(text: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        _ => Ok(()),
    }
}

/// Writes to standard error for people; see [`crate::note`].
pub(crate) fn write_note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// `eprintln!` that does not panic when standard error is closed.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::output::write_note(&format!("{}\n", format_args!($($text)*)))
    };
}

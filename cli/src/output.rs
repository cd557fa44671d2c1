//! The output of commands. A reader that stops early (`tamis schema | head -1`) is not a failure, and a closed standard error
//! does not stop a server.

use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;
use serde_json::{Value, json};
use tamis_crds::definitions;

/// The format in which a command prints Kubernetes objects.
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
/// See [`write()`].
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

/// Prints the result of a command to standard output.
///
/// # Errors
/// If writing fails for another reason than a closed pipe.
pub(crate) fn write(text: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        _ => Ok(()),
    }
}

/// Prints a message for people to standard error; see [`crate::note`].
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

/// Returns a number with a comma after each three digits.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

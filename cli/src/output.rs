//! What commands write. A reader that has seen enough (`tamis schema | head -1`) is no failure, and a closed standard error
//! ends no server.

use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;

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

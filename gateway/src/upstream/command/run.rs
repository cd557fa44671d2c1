//! One run of a program: started within limits, read within bounds, and ended with its children.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Semaphore, oneshot};

use crate::memory::{Buffer, Exhausted, Reservation, STEP};
use crate::programs::{Group, Programs, Running};
use crate::upstream::UpstreamError;
use crate::upstream::mcp::NOT_STARTED;
use crate::upstream::returned::{Needles, Search};

/// Bytes that are read at once.
const CHUNK: usize = 32 << 10;
/// Bytes at the end of standard error that are kept.
const LAST_WORDS: usize = 8 << 10;
/// How long the rest of the output of a program that ended may take to arrive. A child that has left the group may hold the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// What is started.
pub(super) struct Start<'a> {
    /// The limiter, and what it executes.
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: Option<&'a str>,
    /// What the program gets on its standard input.
    pub(super) input: Option<Bytes>,
}

/// Bounds on what a run may write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of standard output.
    pub(super) output: u64,
    /// Bytes of standard error.
    pub(super) error: u64,
}

/// A run that has ended.
pub(super) struct Ended {
    /// How, if the system knows.
    pub(super) status: Option<ExitStatus>,
    pub(super) output: Bytes,
    /// The end of standard error.
    pub(super) error: Bytes,
}

/// Runs a program to its end. Dropping the future ends the program: SIGTERM to its group, SIGKILL after a while. `places` bounds
/// the programs that run at once, those that are being ended included. `started` is set when the program may have run.
///
/// # Errors
/// [`UpstreamError`].
pub(super) async fn run(
    start: Start<'_>,
    bounds: Bounds,
    needles: Option<&Needles>,
    (programs, places): (&Programs, &Arc<Semaphore>),
    memory: &mut Reservation,
    started: &mut bool,
) -> Result<Ended, UpstreamError> {
    let exhausted = |sent| move |Exhausted| UpstreamError::Exhausted { sent };
    let not_started = || UpstreamError::Unreachable { reason: NOT_STARTED, sent: false };
    let Start { words, environment, folder, input } = start;
    let place = Arc::clone(places).acquire_owned().await.map_err(|_| not_started())?;
    if programs.are_ending() {
        return Err(not_started());
    }
    memory.take(STEP).await.map_err(exhausted(false))?;
    let (sender, mut status) = oneshot::channel();
    let stop = programs.stop_token();
    // Ends the program when this future is dropped.
    let _guard = stop.clone().drop_guard();
    let mut pipes = None;
    let has_input = input.is_some();
    let begin = || {
        let (program, arguments) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(environment);
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        Group::run(command)
    };
    let ran = programs.run(
        begin,
        |running| running.group.id(),
        |running| {
            let Running { stdin, stdout, stderr, mut group } = running;
            pipes = Some((stdin, stdout, stderr));
            async move {
                let is_stopped = tokio::select! {
                    () = group.exited() => false,
                    () = stop.cancelled() => true,
                };
                let status = if is_stopped { group.stop().await } else { group.end().await };
                drop(place);
                // The call may have been given up.
                let _ = sender.send(status);
            }
        },
    );
    let Some((stdin, mut stdout, mut stderr)) = ran.ok().and(pipes) else { return Err(not_started()) };
    *started = true;
    let mut buffer = Buffer::new(memory, None).await.map_err(exhausted(true))?;
    let mut search = needles.map(|needles| Box::new(Search::new(needles)));
    let (mut output_open, mut error_open, mut how) = (true, true, None);
    let (mut chunk, mut piece) = (BytesMut::with_capacity(CHUNK), vec![0; LAST_WORDS]);
    let (mut last_words, mut error_bytes) = (Vec::new(), 0);
    let mut write = std::pin::pin!(write(stdin, input));
    let mut is_written = false;
    let mut end = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    while output_open || error_open || how.is_none() {
        tokio::select! {
            read = stdout.read_buf(&mut chunk), if output_open => {
                output_open = matches!(read, Ok(1..));
                let new = chunk.split().freeze();
                if search.as_mut().is_some_and(|search| search.feed(&new)) {
                    return Err(UpstreamError::CredentialReturned);
                }
                if (buffer.len() + new.len()) as u64 > bounds.output {
                    return Err(UpstreamError::TooLarge { limit: bounds.output });
                }
                buffer.push(new).await.map_err(exhausted(true))?;
                chunk.reserve(CHUNK);
            }
            read = stderr.read(&mut piece), if error_open => {
                let new = &piece[..read.unwrap_or(0)];
                error_open = !new.is_empty();
                error_bytes += new.len() as u64;
                if error_bytes > bounds.error {
                    return Err(UpstreamError::TooLarge { limit: bounds.error });
                }
                keep_end(&mut last_words, new);
            }
            () = &mut write, if !is_written => is_written = true,
            status = &mut status, if how.is_none() => {
                how = Some(status.ok().flatten());
                end.as_mut().reset(tokio::time::Instant::now() + LAST_OUTPUT);
            }
            () = &mut end, if how.is_some() => break,
        }
    }
    let mut error = Bytes::from(last_words);
    if needles.is_some_and(|needles| Search::is_in(needles, &error)) {
        error = Bytes::new();
    }
    Ok(Ended { status: how.flatten(), output: buffer.finish(), error })
}

/// Writes the input of a program, and ends it.
async fn write(stdin: Option<ChildStdin>, input: Option<Bytes>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        // A program need not read.
        let _ = stdin.write_all(&input).await;
    }
}

/// Adds to a text of which only the end is kept.
fn keep_end(text: &mut Vec<u8>, new: &[u8]) {
    text.extend_from_slice(new);
    text.drain(..text.len().saturating_sub(LAST_WORDS));
}

//! Asks an MCP server that is a program.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use tamis_gateway::programs::{Group, Started};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};

use super::client::{Failure, Listed, MAX_ANSWER_BYTES, Message, Session, Wire, message};

/// The longest time for one request. Programs such as `npx` install what they start.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time for all questions.
const TOTAL: Duration = Duration::from_secs(180);
/// Lines that may come before an answer.
const MAX_OTHERS: usize = 10_000;
/// Bytes at the end of standard error that are shown if the program fails.
const LAST_WORDS: usize = 2 << 10;

/// Starts a program, reads all pages of its list, and ends it with its children.
///
/// # Errors
/// The program cannot be started, ends, or does not answer as the protocol says.
pub(super) async fn list(command: &[String], environment: &[(OsString, OsString)]) -> anyhow::Result<Listed> {
    // The program is in a process group of its own, so the signal of a terminal does not reach it.
    tokio::select! {
        listed = tokio::time::timeout(TOTAL, list_to_end(command, environment)) => {
            listed.unwrap_or_else(|_| Err(anyhow!("the program does not answer within {} s", TOTAL.as_secs())))
        }
        () = crate::serve::interrupted() => bail!("interrupted"),
    }
}

async fn list_to_end(command: &[String], environment: &[(OsString, OsString)]) -> anyhow::Result<Listed> {
    match attempt(command, environment, true).await {
        // Some servers end when the first message is not `initialize`.
        (_, true) => attempt(command, environment, false).await.0,
        (listed, false) => listed,
    }
}

/// Returns the list, and whether the program ended at the first question.
async fn attempt(
    command: &[String],
    environment: &[(OsString, OsString)],
    discover: bool,
) -> (anyhow::Result<Listed>, bool) {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let started = Group::start(command, environment.to_vec()).with_context(|| format!("cannot start {program}"));
    let Started { stdin, stdout, stderr, group } = match started {
        Ok(started) => started,
        Err(error) => return (Err(error), false),
    };
    let words = tokio::spawn(last_words(stderr));
    let pipes = Pipes { stdin: Some(stdin), stdout, read: Vec::new(), answers: 0, ended: false };
    let mut session = Session::new(pipes);
    let listed = session.list(discover).await;
    let Pipes { answers, ended, stdin, stdout, .. } = session.wire;
    drop((stdin, stdout));
    group.end().await;
    let ended_at_once = discover && ended && answers == 0;
    let listed = match listed {
        Err(error) if ended => {
            let words = words.await.unwrap_or_default();
            let said =
                if words.is_empty() { String::new() } else { format!("; its standard error ends with:\n{words}") };
            Err(anyhow!("{error:#}{said}"))
        }
        listed => listed,
    };
    (listed, ended_at_once)
}

/// Reads standard error to its end, and returns the last lines.
async fn last_words(mut stderr: impl AsyncRead + Unpin) -> String {
    let (mut piece, mut last) = (vec![0; 8 << 10], Vec::new());
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        last.extend_from_slice(&piece[..read]);
        last.drain(..last.len().saturating_sub(LAST_WORDS));
    }
    let text = String::from_utf8_lossy(&last).replace(|c: char| c.is_control() && c != '\n', " ");
    text.trim_end().to_owned()
}

/// The pipes of a program.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// What was read and is not a whole line.
    read: Vec<u8>,
    answers: usize,
    ended: bool,
}

impl Pipes {
    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("the program has ended")?;
        let sent = async {
            stdin.write_all(format!("{message}\n").as_bytes()).await?;
            stdin.flush().await
        };
        if sent.await.is_err() {
            self.ended = true;
            bail!("the program has ended");
        }
        Ok(())
    }

    /// Returns the next line.
    async fn line(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut searched = 0;
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.read[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(searched + end + 1);
                return Ok(std::mem::replace(&mut self.read, rest));
            }
            searched = self.read.len();
            if searched > MAX_ANSWER_BYTES {
                bail!("the program writes a line of more than {} MiB", MAX_ANSWER_BYTES >> 20);
            }
            let Ok(read @ 1..) = self.stdout.read(&mut piece).await else {
                self.ended = true;
                bail!("the program has ended");
            };
            self.read.extend_from_slice(&piece[..read]);
        }
    }

    async fn answer(&mut self, id: u64) -> anyhow::Result<Message> {
        for _ in 0..MAX_OTHERS {
            let line = self.line().await?;
            // Some programs write other lines than messages.
            if let Ok(Some(message)) = message(&line, Some(id)) {
                match message.asks() {
                    true => self.send(&refusal(id)).await?,
                    false => return Ok(message),
                }
            } else if let Some(asked) = request(&line) {
                self.send(&refusal(asked)).await?;
            }
        }
        bail!("the program writes more than {MAX_OTHERS} lines before its answer")
    }
}

/// Returns the id of a request of the server.
pub(super) fn request(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    message.get("method")?;
    message.get("id").filter(|id| !id.is_null()).cloned()
}

/// Returns the answer to a request of the server.
pub(super) fn refusal(id: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "error": { "code": -32601, "message": "not supported" } })
}

impl Wire for Pipes {
    async fn ask(&mut self, message: &Value, id: u64, method: &str, _version: &str) -> Result<Message, Failure> {
        self.send(message).await?;
        let answer = tokio::time::timeout(TIMEOUT, self.answer(id)).await;
        let answer =
            answer.map_err(|_| anyhow!("the program does not answer `{method}` within {} s", TIMEOUT.as_secs()))??;
        self.answers += 1;
        Ok(answer)
    }

    async fn notify(&mut self, message: &Value, _version: &str) -> anyhow::Result<()> {
        self.send(message).await
    }
}

//! Servers that are programs: messages go over the program's standard input and output, one in a line.
//!
//! ```text
//! pool       which process answers a call: one for each exposition and caller     starts, ends
//! process    one program: calls that wait, and the task that reads and writes
//! reader     the lines of the program, within bounds                               reads
//! skim       for whom a line is                                                    pure
//! ```

mod pool;
mod process;
mod reader;
mod skim;

use std::sync::Arc;

use tamis_config::{CredentialRef, ProgramSource};

use super::message::{self, Reply};
use super::wire::{Answered, Outgoing, Transport, Wire, malformed};
use crate::memory::Exhausted;
use crate::upstream::incoming::Fault;
use crate::upstream::returned::{Needles, Search};
use crate::upstream::{CredentialScope, InvalidService, Secret, UpstreamError};

pub(super) use self::pool::Pool;
pub(crate) use self::pool::ProgramReport;
pub(super) use self::process::{Next, Process, Shared};
pub(super) use self::reader::{Line, Lost};
pub(super) use self::skim::{Kind, Skim};

/// Why there is no answer of a program, as the category of an error.
pub(in crate::upstream) const ENDED: &str = "program_ended";
/// The program could not be started.
pub(in crate::upstream) const NOT_STARTED: &str = "program_not_started";
/// The program ended too often, and is started again later.
pub(in crate::upstream) const WAITS: &str = "program_waits";
/// All processes of the service are in use.
pub(in crate::upstream) const BUSY: &str = "program_busy";
/// The program wrote too much that is no answer, and was ended.
pub(in crate::upstream) const FLOODED: &str = "program_flooded";

/// A program, as one call uses it.
pub(super) struct Program<'a> {
    pool: &'a Pool,
    /// Whose process it is: the exposition and the caller.
    key: Arc<str>,
    secrets: Vec<Secret>,
    needles: Option<Arc<Needles>>,
    process: Option<Arc<Process>>,
}

impl<'a> Program<'a> {
    /// Reads the credentials that the program gets.
    ///
    /// # Errors
    /// [`UpstreamError::Credential`].
    pub(super) fn new(pool: &'a Pool, key: Arc<str>, credentials: CredentialScope<'_>) -> Result<Self, UpstreamError> {
        let secrets = pool.secrets(credentials)?;
        let needles = Needles::new(secrets.iter().map(Secret::expose)).map(Arc::new);
        Ok(Self { pool, key, secrets, needles, process: None })
    }

    /// Returns a process that runs: the one of the last time, or another one that is started for it.
    ///
    /// # Errors
    /// [`Fault`].
    pub(super) async fn attach(&mut self, memory: &mut crate::memory::Reservation) -> Result<Arc<Process>, Fault> {
        let process = self.pool.process(&self.key, &self.secrets, memory).await?;
        self.process = Some(Arc::clone(&process));
        Ok(process)
    }

    /// Returns the process that was attached.
    ///
    /// # Errors
    /// [`Fault`] if there is none.
    pub(super) fn attached(&self) -> Result<Arc<Process>, Fault> {
        self.process.clone().ok_or(Fault::Unsent(ENDED))
    }

    /// Returns whether the process that was attached has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.has_ended())
    }

    /// Notes that the server's list of tools is read now.
    pub(super) fn note_comparison(&self) {
        if let Some(process) = &self.process {
            process.note_comparison();
        }
    }

    /// Decides whether the next process is spoken to in the legacy era at once, without a question for the modern one.
    pub(super) fn skip_discovery(&self, skip: bool) {
        self.pool.skip_discovery(skip);
    }

    /// Notes that the process ended when it was asked for the modern era, as some servers do. The next one is not asked.
    pub(super) fn ended_at_discovery(&self) {
        self.pool.skip_discovery(true);
        if let Some(process) = &self.process {
            self.pool.excuse(process);
        }
    }

    /// Returns whether the process is spoken to in the legacy era at once.
    pub(super) fn skips_discovery(&self) -> bool {
        self.pool.skips_discovery()
    }

    /// Tells the program that a call is not waited for any more, if it reads messages.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(process) = &self.process {
            process.send_now(super::request::cancelled(id));
        }
    }
}

impl Wire<'_> {
    /// Sends a message to the program and waits for the answer.
    pub(super) async fn post_program(
        &mut self,
        process: &Arc<Process>,
        outgoing: Outgoing<'_>,
    ) -> Result<Answered, Fault> {
        let Outgoing { method: _, headers: _, body, id, limit, refuse_with: _ } = outgoing;
        let exhausted = |sent| Fault::Final(UpstreamError::Exhausted { sent });
        self.requests += 1;
        self.context.memory.take(body.len() as u64).await.map_err(|Exhausted| exhausted(false))?;
        // The message may wait for the program for longer than its call.
        let held = self.context.memory.split(body.len() as u64);
        let Some(id) = id else {
            process.send(body, held).await?;
            return Ok(Answered::Accepted);
        };
        let needles = match &self.transport {
            Transport::Program(program) => program.needles.clone(),
            Transport::Http(_) | Transport::Events(..) => None,
        };
        let relay = self.relay().map(|relay| (Arc::clone(relay), needles));
        let mut waiting = process.wait_for(id, limit, relay)?;
        process.send(body, held).await?;
        let (line, held) = waiting.answer().await?;
        self.context.memory.take(line.len() as u64).await.map_err(|Exhausted| exhausted(true))?;
        drop(held);
        if self.has_credential(line.clone()).await? {
            return Err(Fault::Final(UpstreamError::CredentialReturned));
        }
        let message::Received { answer, .. } = self.read_message(line, id).await?;
        Ok(match answer.ok_or_else(|| malformed("holds no answer to the request"))? {
            Reply::Result(result) => Answered::Result(result, None),
            Reply::Error(error) => Answered::Error(error),
        })
    }

    /// Returns whether a line contains a credential that the program got.
    async fn has_credential(&self, line: bytes::Bytes) -> Result<bool, Fault> {
        let Transport::Program(program) = &self.transport else { return Ok(false) };
        let Some(needles) = program.needles.clone() else { return Ok(false) };
        let bytes = line.len();
        self.off_thread(bytes, move || Search::is_in(&needles, &line)).await.map_err(Fault::Final)
    }
}

/// What a document says about a program.
#[derive(Debug)]
struct Plan {
    command: Vec<String>,
    /// Names of variables that pass.
    env: Vec<String>,
    /// Variables whose values are credentials.
    secret_env: Vec<(String, CredentialRef)>,
}

impl Plan {
    fn new(source: &ProgramSource) -> Result<Self, InvalidService> {
        let ProgramSource { command, env, secret_env } = source;
        let has_nul = |text: &String| text.contains('\0');
        if command.first().is_none_or(String::is_empty) || command.iter().any(has_nul) {
            return Err(InvalidService::new("source.program.command", "must be a program and its arguments"));
        }
        if env.iter().chain(secret_env.keys()).any(|name| name.is_empty() || has_nul(name) || name.contains('=')) {
            return Err(InvalidService::new("source.program.env", "has an invalid name of a variable"));
        }
        let secret_env = secret_env.iter().map(|(name, credential)| (name.clone(), credential.clone())).collect();
        Ok(Self { command: command.clone(), env: env.clone(), secret_env })
    }
}

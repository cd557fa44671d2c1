//! Programs that are started for each call.
//!
//! ```text
//! find      where the program is                         decided at load
//! argv      the command line of a call                   pure
//! run       one run: limits, bounds, the end             starts, reads
//! output    what was printed, as the output of a tool    pure
//! ```

mod argv;
mod find;
mod output;
mod run;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use indexmap::IndexMap;
use tamis_config::{
    Call, CommandCall, CommandLimits, CommandSource, CredentialRef, Retry, ServiceDocument, ServiceTool,
};
use tamis_engine::JsonText;
use tokio::sync::Semaphore;

use self::argv::Argv;
use self::output::Reading;
use self::run::{Bounds, Ended, Start};
use super::http::{Decision, Failure, decide};
use super::returned::Needles;
use super::{Answer, Arguments, CallContext, Client, CredentialScope, InvalidService, Secret, UpstreamError};
use crate::compute::NotRun;
use crate::memory::Exhausted;
use crate::offload::{LIGHT_READ, Work};
use crate::programs::{Limits, Programs, environment};

/// Programs of a service that run at once, those that are being ended included. Other calls wait for one of them to end.
const MAX_RUNNING: usize = 64;

/// How a program ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// With an exit code.
    Code(u8),
    /// By a signal.
    Signal(i32),
}

impl std::fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// The tools of a program, read once.
#[derive(Debug)]
pub(super) struct CommandService {
    /// The name of the program, for traces.
    name: Box<str>,
    file: PathBuf,
    env: Vec<String>,
    inject: IndexMap<String, String>,
    secret_env: IndexMap<String, CredentialRef>,
    folder: Option<Box<str>>,
    limits: CommandLimits,
    programs: Arc<Programs>,
    places: Arc<Semaphore>,
    actions: IndexMap<String, Action>,
}

/// A tool, ready to be called.
#[derive(Debug)]
struct Action {
    argv: Argv,
    /// The defaults of arguments that the program gets as JSON; none if it gets words.
    input: Option<IndexMap<String, JsonText>>,
    success: Vec<u8>,
    reading: Reading,
    timeout: Duration,
    idempotent: bool,
    retry: Option<Retry>,
    /// Texts for the caller by exit code.
    errors: IndexMap<u8, String>,
}

impl CommandService {
    /// Finds the program, and reads the calls. Nothing is started.
    ///
    /// # Errors
    /// Names the first field that cannot be used. The program is not there, or this gateway runs no programs.
    pub(super) fn new(
        source: &CommandSource,
        document: &ServiceDocument,
        client: &Client,
    ) -> Result<Self, InvalidService> {
        let CommandSource { executable, env, env_inject, secret_env, working_dir, limits } = source;
        let programs = client.programs().filter(|programs| !programs.limiter().is_empty()).ok_or_else(|| {
            InvalidService::new("source.command", "this gateway runs no programs; only `tamis serve` does")
        })?;
        let names = env_inject.keys().chain(secret_env.keys());
        if names.clone().any(|name| name.is_empty() || name.contains(['\0', '=']))
            || env_inject.values().any(|v| v.contains('\0'))
        {
            return Err(InvalidService::new("source.command.env", "has an invalid variable"));
        }
        let file = find::find(executable, std::env::var_os("PATH").as_deref()).ok_or_else(|| {
            let message =
                format!("`{executable}` is not a program that can be executed; install it, or write its absolute path");
            InvalidService::new("source.command.executable", message)
        })?;
        let mut actions = IndexMap::new();
        for (name, tool) in &document.tools {
            let field = format!("tools.{name}.call");
            match &tool.call {
                Call::Command(call) => {
                    actions.insert(name.clone(), Action::new(&format!("{field}.command"), tool, call, limits)?);
                }
                // Resolved before a call.
                Call::Alias(_) => {}
                Call::Http(_) | Call::Mcp(_) | Call::Grpc(_) => {
                    return Err(InvalidService::new(field, "must be `command`: the service is a program"));
                }
            }
        }
        Ok(Self {
            name: file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default().into(),
            file,
            env: env.clone(),
            inject: env_inject.clone(),
            secret_env: secret_env.clone(),
            folder: working_dir.as_deref().map(Into::into),
            limits: *limits,
            programs: Arc::clone(programs),
            places: Arc::new(Semaphore::new(MAX_RUNNING)),
            actions,
        })
    }

    /// Runs the program for a call.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        context: CallContext<'_>,
    ) -> Result<Answer, UpstreamError> {
        let action = self.actions.get(tool).ok_or_else(|| UpstreamError::UnknownTool(tool.to_owned()))?;
        let begun = Instant::now();
        let secrets = self.secrets(context.credentials)?;
        let words = action.argv.words(arguments)?;
        let input = action.input.as_ref().map(|defaults| input(arguments, defaults));
        let bytes = words.iter().map(String::len).sum::<usize>() + input.as_ref().map_or(0, Bytes::len);
        context.memory.take(bytes as u64).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: false })?;
        let deadline = context.bounds.deadline.min(begun + action.timeout);
        let mut flight = Flight {
            service: self,
            action,
            words,
            input,
            needles: Needles::new(secrets.iter().map(Secret::expose)),
            secrets,
            context,
            runs: 0,
            started: false,
        };
        let ran = match begun < deadline {
            true => tokio::time::timeout_at(deadline.into(), flight.attempts(deadline)).await.ok(),
            false => None,
        };
        let output = ran.unwrap_or(Err(UpstreamError::Timeout { sent: flight.started }))?;
        Ok(Answer {
            output,
            media: Vec::new(),
            meta: None,
            errors: None,
            pagination: None,
            cut: None,
            status: 200,
            requests: flight.runs,
            elapsed: begun.elapsed(),
        })
    }

    /// Reads the credentials that the program gets.
    fn secrets(&self, credentials: CredentialScope<'_>) -> Result<Vec<Secret>, UpstreamError> {
        let read = |credential: &CredentialRef| {
            let secret = credentials.get(credential).map(|(secret, _)| secret);
            let usable = secret.filter(|secret| !secret.expose().is_empty() && !secret.expose().contains('\0'));
            usable.ok_or_else(|| UpstreamError::Credential(credential.clone()))
        };
        self.secret_env.values().map(read).collect()
    }

    /// Returns the environment of a run.
    fn environment(&self, secrets: &[Secret]) -> Vec<(OsString, OsString)> {
        let mut variables = environment(std::env::vars_os(), &self.env);
        variables.extend(self.inject.iter().map(|(name, value)| (name.into(), value.into())));
        let given = self.secret_env.keys().zip(secrets);
        variables.extend(given.map(|(name, secret)| (name.into(), secret.expose().into())));
        variables
    }
}

impl Action {
    fn new(
        field: &str,
        tool: &ServiceTool,
        call: &CommandCall,
        limits: &CommandLimits,
    ) -> Result<Self, InvalidService> {
        Ok(Self {
            argv: Argv::new(field, call)?,
            input: call.json_input.then(|| call.defaults.clone()),
            success: call.success_codes.clone(),
            reading: Reading {
                declared: tool.response_type,
                ndjson: call.ndjson,
                extract: call.extract.as_deref().filter(|path| !path.is_empty()).map(Into::into),
            },
            timeout: Duration::from_millis(call.timeout_ms.unwrap_or(limits.timeout_ms)),
            idempotent: !tool.risk.mutating || tool.risk.idempotent,
            retry: call.retry.clone(),
            errors: call.error_mapping.clone(),
        })
    }

    /// Returns how the program failed, or `None` if it did not.
    fn failure(&self, status: Option<ExitStatus>) -> Option<ProgramEnd> {
        let Some(status) = status else { return Some(ProgramEnd::Signal(0)) };
        match (status.code().and_then(|code| u8::try_from(code).ok()), status.signal()) {
            (Some(code), _) if self.success.contains(&code) => None,
            (Some(code), _) => Some(ProgramEnd::Code(code)),
            (None, signal) => Some(ProgramEnd::Signal(signal.unwrap_or(0))),
        }
    }
}

/// A call in flight.
struct Flight<'a> {
    service: &'a CommandService,
    action: &'a Action,
    words: Vec<String>,
    input: Option<Bytes>,
    secrets: Vec<Secret>,
    needles: Option<Needles>,
    context: CallContext<'a>,
    /// Programs that were started.
    runs: u32,
    /// Whether a program may have run.
    started: bool,
}

impl Flight<'_> {
    /// Runs the program until it succeeds, or must not run again.
    async fn attempts(&mut self, deadline: Instant) -> Result<super::Output, UpstreamError> {
        let mut attempt = 1;
        loop {
            let Ended { status, output, error } = self.run(attempt).await?;
            let Some(how) = self.action.failure(status) else { return self.read(output, deadline).await };
            let wait = match how {
                ProgramEnd::Code(code) => {
                    let failure = Failure::Status { status: code.into(), retry_after: None };
                    let left = deadline.saturating_duration_since(Instant::now());
                    decide(self.action.retry.as_ref(), self.action.idempotent, attempt, failure, left)
                }
                ProgramEnd::Signal(_) => Decision::Stop,
            };
            match wait {
                Decision::Wait(time) => tokio::time::sleep(time).await,
                Decision::Stop => {
                    let mapped = match how {
                        ProgramEnd::Code(code) => self.action.errors.get(&code).cloned(),
                        ProgramEnd::Signal(_) => None,
                    };
                    return Err(UpstreamError::Exit { how, mapped, body: error });
                }
            }
            self.context.memory.release(output.len() as u64);
            attempt += 1;
        }
    }

    /// Runs the program once.
    async fn run(&mut self, attempt: u32) -> Result<Ended, UpstreamError> {
        let service = self.service;
        let CommandLimits { timeout_ms: _, output_bytes, processes, memory_bytes } = service.limits;
        let limits = Limits {
            memory: memory_bytes,
            processes: processes.into(),
            // The processor time of one process, on all cores. Ends a process that has left the group.
            cpu: (self.action.timeout.as_secs() + 1).saturating_mul(crate::workers::available_cores().get() as u64),
        };
        let mut words = service.programs.limiter().to_vec();
        words.extend(limits.words(std::process::id()));
        words.push(service.file.clone().into());
        words.extend(self.words.iter().map(OsString::from));
        let start = Start {
            words,
            environment: service.environment(&self.secrets),
            folder: service.folder.as_deref(),
            input: self.input.clone(),
        };
        let bounds = Bounds { output: output_bytes.min(self.context.bounds.max_response_bytes), error: output_bytes };
        let mut span = self.context.trace.map(|trace| trace.program(&service.name, attempt - 1));
        self.runs += 1;
        let with = (&*service.programs, &service.places);
        let ran = run::run(start, bounds, self.needles.as_ref(), with, self.context.memory, &mut self.started).await;
        if let Some(span) = &mut span {
            match &ran {
                Ok(ended) => match self.action.failure(ended.status) {
                    None => span.exited(ended.status.and_then(|status| status.code()), None),
                    Some(_) => span.exited(ended.status.and_then(|status| status.code()), Some("exit")),
                },
                Err(error) => span.failed(error.category()),
            }
        }
        ran
    }

    /// Reads what the program printed: here if it is little, otherwise off the serving threads.
    async fn read(&mut self, printed: Bytes, deadline: Instant) -> Result<super::Output, UpstreamError> {
        let (bytes, reading) = (printed.len(), self.action.reading.clone());
        if bytes <= LIGHT_READ {
            return reading.read(printed);
        }
        // The list of several lines is a copy, and exists next to them for a while.
        self.context.memory.take(bytes as u64).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: true })?;
        let done = self.context.offload.run(Work::Upstream, deadline, None, move |_| reading.read(printed)).await;
        self.context.memory.release(bytes as u64);
        done.map_err(|not_run| match not_run {
            NotRun::Overdue => UpstreamError::Timeout { sent: true },
            NotRun::Exhausted => UpstreamError::Exhausted { sent: true },
        })?
    }
}

/// Returns the arguments as a JSON object, with the defaults of those that are absent.
fn input(arguments: &Arguments, defaults: &IndexMap<String, JsonText>) -> Bytes {
    let mut all = arguments.clone();
    for (name, value) in defaults {
        if all.get(name).is_none() {
            all.insert(name, value.as_str());
        }
    }
    Bytes::from(all.object().into_owned())
}

#[cfg(test)]
#[path = "tests/calls.rs"]
mod tests;

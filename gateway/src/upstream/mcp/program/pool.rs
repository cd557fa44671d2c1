//! The processes of a service: one for each exposition and caller, since a process is one session and may keep state of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tamis_config::ProgramSource;

use super::process::{Counts, Process};
use super::{BUSY, NOT_STARTED, Plan, WAITS};
use crate::backoff;
use crate::memory::{Exhausted, Reservation, STEP};
use crate::programs::{Group, Programs, environment};
use crate::upstream::incoming::Fault;
use crate::upstream::{CredentialScope, InvalidService, Secret, UpstreamError};

/// Processes of a service at once. The one that was unused for longest ends when another one is needed.
const MAX_PROCESSES: usize = 16;
/// A process that ran for this long was not started in vain.
const STABLE: Duration = Duration::from_secs(10);
/// How long a program waits after its first failure, and how long at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// A call waits for a restart for this long at most.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The processes of a service.
#[derive(Debug)]
pub(in crate::upstream::mcp) struct Pool {
    service: Box<str>,
    plan: Plan,
    programs: Arc<Programs>,
    state: Mutex<State>,
    counts: Arc<Counts>,
    skips_discovery: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Arc<str>, Entry>,
    /// Counts the uses of processes.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    process: Option<Arc<Process>>,
    used: u64,
    /// Processes that ended soon after their start, one after the other.
    failures: u32,
    /// When the program may be started again.
    not_before: Instant,
}

/// What is known of a service's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramReport {
    /// Processes that run.
    pub(crate) running: usize,
    /// Processes that were started.
    pub(crate) starts: u64,
    /// Bytes that they wrote to standard error.
    pub(crate) error_bytes: u64,
    /// Lines of standard output that were for no call.
    pub(crate) other_lines: u64,
}

/// What to do for a call.
enum Step {
    Use(Arc<Process>),
    Wait(Duration),
    Start,
}

impl Pool {
    /// Prepares a program. None is started.
    ///
    /// # Errors
    /// The document cannot be used, or this gateway runs no programs.
    pub(in crate::upstream::mcp) fn new(
        service: &str,
        source: &ProgramSource,
        programs: Option<&Arc<Programs>>,
    ) -> Result<Self, InvalidService> {
        let programs = programs.ok_or_else(|| {
            InvalidService::new("source.program", "this gateway runs no programs; only `tamis serve` does")
        })?;
        Ok(Self {
            service: service.into(),
            plan: Plan::new(source)?,
            programs: Arc::clone(programs),
            state: Mutex::default(),
            counts: Arc::default(),
            skips_discovery: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the credentials that the program gets, in the order of the document.
    ///
    /// # Errors
    /// [`UpstreamError::Credential`].
    pub(super) fn secrets(&self, credentials: CredentialScope<'_>) -> Result<Vec<Secret>, UpstreamError> {
        let read = |(_, credential): &(String, _)| {
            let secret = credentials.get(credential).map(|(secret, _)| secret);
            let usable = secret.filter(|secret| !secret.expose().is_empty() && !secret.expose().contains('\0'));
            usable.ok_or_else(|| UpstreamError::Credential(credential.clone()))
        };
        self.plan.secret_env.iter().map(read).collect()
    }

    /// Returns the process of `key`, after starting it if it does not run, or runs with other credentials.
    ///
    /// # Errors
    /// The program cannot be started, or not yet.
    pub(super) async fn process(
        &self,
        key: &Arc<str>,
        secrets: &[Secret],
        memory: &mut Reservation,
    ) -> Result<Arc<Process>, Fault> {
        let mut held = None;
        loop {
            match self.step(key, secrets)? {
                Step::Use(process) => return Ok(process),
                Step::Wait(wait) if wait > MAX_WAIT => return Err(Fault::Unsent(WAITS)),
                Step::Wait(wait) => tokio::time::sleep(wait).await,
                Step::Start => match held.take() {
                    Some(held) => return self.start(key, secrets, held),
                    None => {
                        let exhausted = |Exhausted| Fault::Final(UpstreamError::Exhausted { sent: false });
                        memory.take(STEP).await.map_err(exhausted)?;
                        held = Some(memory.split(STEP));
                    }
                },
            }
        }
    }

    fn step(&self, key: &Arc<str>, secrets: &[Secret]) -> Result<Step, Fault> {
        let mut state = self.lock();
        let State { entries, uses } = &mut *state;
        *uses += 1;
        if let Some(entry) = entries.get_mut(key) {
            entry.used = *uses;
            return Ok(entry.step(secrets, Instant::now()));
        }
        if entries.len() >= MAX_PROCESSES {
            let is_idle = |entry: &Entry| entry.process.as_ref().is_none_or(|process| Arc::strong_count(process) == 1);
            let idle = entries.iter().filter(|(_, entry)| is_idle(entry)).min_by_key(|(_, entry)| entry.used);
            let oldest = idle.map(|(key, _)| Arc::clone(key)).ok_or(Fault::Unsent(BUSY))?;
            entries.remove(&oldest);
        }
        let entry = Entry { process: None, used: *uses, failures: 0, not_before: Instant::now() };
        entries.insert(Arc::clone(key), entry);
        Ok(Step::Start)
    }

    fn start(&self, key: &Arc<str>, secrets: &[Secret], held: Reservation) -> Result<Arc<Process>, Fault> {
        let mut state = self.lock();
        // Another call may have started it in the meantime, or the entry may have made room.
        let Some(entry) = state.entries.get_mut(key) else { return Err(Fault::Unsent(BUSY)) };
        if let Some(process) = entry.process.as_ref().filter(|process| process.serves(secrets)) {
            return Ok(Arc::clone(process));
        }
        if self.programs.are_ending() {
            return Err(Fault::Unsent(NOT_STARTED));
        }
        let Plan { command, env, secret_env } = &self.plan;
        let mut variables = environment(std::env::vars_os(), env);
        let given = secret_env.iter().zip(secrets);
        variables.extend(given.map(|((name, _), secret)| (name.into(), secret.expose().into())));
        let start = || Group::start(command, variables);
        match Process::start(&self.programs, start, &self.counts, secrets.to_vec(), held) {
            Ok(process) => {
                let process = Arc::new(process);
                entry.process = Some(Arc::clone(&process));
                Ok(process)
            }
            Err(error) => {
                entry.fail(Instant::now());
                tracing::error!(service = %self.service, program = %command[0], "the program cannot be started: {error}");
                Err(Fault::Unsent(NOT_STARTED))
            }
        }
    }

    /// Notes that the end of a process was no failure.
    pub(super) fn excuse(&self, process: &Arc<Process>) {
        let mut state = self.lock();
        let is_it = |entry: &&mut Entry| entry.process.as_ref().is_some_and(|one| Arc::ptr_eq(one, process));
        if let Some(entry) = state.entries.values_mut().find(is_it) {
            entry.process = None;
        }
    }

    pub(super) fn skip_discovery(&self, skip: bool) {
        self.skips_discovery.store(skip, Ordering::Relaxed);
    }

    pub(super) fn skips_discovery(&self) -> bool {
        self.skips_discovery.load(Ordering::Relaxed)
    }

    /// Returns what is known of the service's programs.
    pub(in crate::upstream::mcp) fn report(&self) -> ProgramReport {
        let runs = |entry: &&Entry| entry.process.as_ref().is_some_and(|process| !process.has_ended());
        let running = self.lock().entries.values().filter(runs).count();
        let Counts { starts, error_bytes, other_lines } = &*self.counts;
        let [starts, error_bytes, other_lines] =
            [starts, error_bytes, other_lines].map(|count| count.load(Ordering::Relaxed));
        ProgramReport { running, starts, error_bytes, other_lines }
    }
}

impl Process {
    /// Whether the process runs with these credentials.
    fn serves(&self, secrets: &[Secret]) -> bool {
        !self.has_ended() && self.secrets == secrets
    }
}

impl Entry {
    /// Decides what to do for a call.
    fn step(&mut self, secrets: &[Secret], now: Instant) -> Step {
        match &self.process {
            Some(process) if process.serves(secrets) => return Step::Use(Arc::clone(process)),
            Some(process) => {
                match process.ended() {
                    Some(ended) if ended.duration_since(process.started) < STABLE => self.fail(ended),
                    Some(_) => self.failures = 0,
                    // It runs with a credential of before, and ends with its last call.
                    None => {}
                }
                self.process = None;
            }
            None => {}
        }
        match self.not_before.saturating_duration_since(now) {
            Duration::ZERO => Step::Start,
            wait => Step::Wait(wait),
        }
    }

    fn fail(&mut self, at: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = at + backoff::after_failures(self.failures, BACKOFF, backoff::random());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_waits_longer_each_time_within_bounds() {
        let ms = |failures, random| backoff::after_failures(failures, BACKOFF, random).as_millis();
        for (failures, most) in [(1, 250), (2, 500), (3, 1_000), (7, 16_000), (8, 30_000), (u32::MAX, 30_000)] {
            assert_eq!(ms(failures, 1.0), most, "{failures}");
            let least = ms(failures, 0.0);
            assert!(least >= most / 2 && least < most / 2 + most / 100 + 1, "{failures}: {least}");
        }
    }
}

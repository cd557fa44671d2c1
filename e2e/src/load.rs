//! Callers that call continuously and verify every answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::{Era, Rpc};
use tokio::task::JoinHandle;

/// The number of failed calls that an error describes.
const SHOWN: usize = 5;

/// A call, and the answers that are right.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) endpoint: String,
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    /// How long a caller waits for an answer.
    pub(crate) patience: Duration,
    /// Why an answer is wrong, if it is.
    pub(crate) wrong: fn(&Value) -> Option<&'static str>,
}

impl Question {
    /// Calls once, on a connection pool.
    pub(crate) async fn ask(&self, rpc: &Rpc) -> Result<Value> {
        let called = tokio::time::timeout(self.patience, rpc.call(self.tool, &self.arguments)).await;
        let text = called.with_context(|| format!("no answer within {:?}", self.patience))??.text_block()?;
        let answer = serde_json::from_str(&text)?;
        match (self.wrong)(&answer) {
            None => Ok(answer),
            Some(why) => anyhow::bail!("WRONG: {why}: {text}"),
        }
    }

    /// Calls once, on a new connection.
    pub(crate) async fn once(&self) -> Result<Value> {
        self.ask(&Rpc::new(&self.endpoint, Era::Modern)?).await
    }
}

struct Notes {
    began: Instant,
    good: usize,
    failed: Vec<(Duration, String)>,
    failures: usize,
    wrong: usize,
    last_good: Instant,
    gap: Duration,
    times: Vec<Duration>,
    latest: Value,
}

/// Running callers. They end when this is dropped.
pub(crate) struct Load {
    notes: Arc<Mutex<Notes>>,
    callers: Vec<JoinHandle<()>>,
}

/// The result of all callers.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) good: usize,
    pub(crate) failures: usize,
    /// The longest time without a good answer of any caller.
    pub(crate) gap: Duration,
    pub(crate) median: Duration,
    pub(crate) slowest: Duration,
    pub(crate) took: Duration,
    failed: String,
}

impl Load {
    /// Starts callers. Every second caller opens a connection for each call; the others keep their connections, as
    /// clients do.
    pub(crate) fn start(question: &Question, callers: usize, between: Duration) -> Result<Self> {
        let now = Instant::now();
        let notes = Notes {
            began: now,
            good: 0,
            failed: Vec::new(),
            failures: 0,
            wrong: 0,
            last_good: now,
            gap: Duration::ZERO,
            times: Vec::new(),
            latest: json!(null),
        };
        let notes = Arc::new(Mutex::new(notes));
        let callers = (0..callers).map(|caller| {
            let (question, notes) = (question.clone(), Arc::clone(&notes));
            let kept = Rpc::new(&question.endpoint, Era::Modern)?;
            Ok(tokio::spawn(async move {
                loop {
                    let began = Instant::now();
                    let answer = if caller % 2 == 0 { question.ask(&kept).await } else { question.once().await };
                    notes.lock().unwrap_or_else(PoisonError::into_inner).take(began, answer);
                    tokio::time::sleep(between).await;
                }
            }))
        });
        let callers = callers.collect::<Result<_>>()?;
        Ok(Self { notes, callers })
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last right answer.
    pub(crate) fn latest(&self) -> Value {
        self.notes().latest.clone()
    }

    /// Ends the callers.
    ///
    /// # Errors
    /// An answer was wrong, or no call was answered.
    pub(crate) fn end(self) -> Result<Seen> {
        self.callers.iter().for_each(JoinHandle::abort);
        let mut notes = self.notes();
        notes.times.sort_unstable();
        let last = notes.last_good.elapsed();
        let failed = notes.failed.iter().map(|(at, why)| format!("after {at:.1?}: {why}"));
        let failed = failed.collect::<Vec<_>>().join("\n");
        ensure!(notes.wrong == 0, "{} wrong answers:\n{failed}", notes.wrong);
        ensure!(notes.good > 0, "no call was answered:\n{failed}");
        Ok(Seen {
            good: notes.good,
            failures: notes.failures,
            gap: notes.gap.max(last),
            median: notes.times[notes.times.len() / 2],
            slowest: notes.times.last().copied().unwrap_or_default(),
            took: notes.began.elapsed(),
            failed,
        })
    }

    /// [`Load::end`].
    ///
    /// # Errors
    /// Also if a call failed.
    pub(crate) fn end_without_failure(self) -> Result<Seen> {
        let seen = self.end()?;
        ensure!(
            seen.failures == 0,
            "{} of {} calls failed:\n{}",
            seen.failures,
            seen.good + seen.failures,
            seen.failed
        );
        Ok(seen)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.callers.iter().for_each(JoinHandle::abort);
    }
}

impl Notes {
    fn take(&mut self, began: Instant, answer: Result<Value>) {
        match answer {
            Ok(answer) => {
                self.good += 1;
                self.gap = self.gap.max(self.last_good.elapsed());
                self.last_good = Instant::now();
                self.times.push(began.elapsed());
                self.latest = answer;
            }
            Err(error) => {
                let why = format!("{error:#}");
                self.failures += 1;
                self.wrong += usize::from(why.starts_with("WRONG"));
                if self.failed.len() < SHOWN {
                    self.failed.push((self.began.elapsed(), why));
                }
            }
        }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { good, failures, gap, median, slowest, took, .. } = self;
        write!(f, "{good} calls answered in {took:.0?}, {failures} failed; ")?;
        write!(f, "median {median:.0?}, slowest {slowest:.0?}, longest gap {gap:.0?}")
    }
}

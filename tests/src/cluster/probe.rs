//! A caller that calls continuously and judges every answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::paired_services::Side;
use crate::Rpc;

/// The pause between two calls, short enough to notice momentary faults.
const BETWEEN: Duration = Duration::from_millis(3);
/// Bad answers that a failed test shows.
const SHOWN: usize = 10;

/// A correct answer: the service that gave it, and the version of the filter that produced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The service.
    pub side: Side,
    /// The version of its filter set.
    pub version: u64,
}

#[derive(Debug)]
struct Record {
    began: Instant,
    /// Whether every call must be answered.
    strict: bool,
    latest: Option<Observation>,
    /// The newest version seen of each service. No later answer may be older.
    newest: [u64; 2],
    good: usize,
    excused: usize,
    /// The longest time between two good answers.
    gap: Duration,
    last_good: Instant,
    bad: Vec<String>,
}

/// Calls one exposition of [`super::PairedServices`] continuously until it is dropped.
#[derive(Debug)]
pub struct Probe {
    record: Arc<Mutex<Record>>,
    task: JoinHandle<()>,
}

impl Probe {
    /// Starts to call.
    #[must_use]
    pub fn start(rpc: Rpc) -> Self {
        let now = Instant::now();
        let record = Arc::new(Mutex::new(Record {
            began: now,
            strict: true,
            latest: None,
            newest: [0; 2],
            good: 0,
            excused: 0,
            gap: Duration::ZERO,
            last_good: now,
            bad: Vec::new(),
        }));
        let shared = Arc::clone(&record);
        let task = tokio::spawn(async move {
            loop {
                let answer = rpc.call("read", &json!({})).await;
                let judged = match answer {
                    Ok(answer) => match answer.text_block() {
                        Ok(text) => judge(&text),
                        Err(_) => Judged::Refused(format!("{} {}", answer.status, answer.text)),
                    },
                    Err(error) => Judged::Refused(format!("{error:#}")),
                };
                shared.lock().unwrap_or_else(PoisonError::into_inner).add(judged);
                tokio::time::sleep(BETWEEN).await;
            }
        });
        Self { record, task }
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last correct answer.
    #[must_use]
    pub fn latest(&self) -> Option<Observation> {
        self.record().latest
    }

    /// Returns the number of correct answers.
    #[must_use]
    pub fn good(&self) -> usize {
        self.record().good
    }

    /// Sets whether calls may fail from now on, because no gateway runs or the exposition does not exist. A wrong
    /// answer is still an error.
    pub fn allow_failures(&self, allowed: bool) {
        let mut record = self.record();
        record.strict = !allowed;
        record.last_good = Instant::now();
    }

    /// Returns a summary of the answers.
    ///
    /// # Errors
    /// An answer was unfiltered, a mixture, older than an earlier one, or missing although calls had to be answered.
    pub fn verdict(&self) -> Result<String> {
        let record = self.record();
        ensure!(record.bad.is_empty(), "{} bad answers, first {}", record.bad.len(), record.bad.join("\n"));
        ensure!(record.good > 0, "nothing was answered");
        Ok(format!(
            "{} calls answered rightly in {:.1?}, {} excused, longest gap {:.0?}",
            record.good,
            record.began.elapsed(),
            record.excused,
            record.gap
        ))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

enum Judged {
    Good(Observation),
    Refused(String),
    Bad(String),
}

/// Judges an answer: it must be exactly what one version of one service's filter makes of that service's answer,
/// requested with that service's credential.
fn judge(text: &str) -> Judged {
    let bad = |why: &str| Judged::Bad(format!("{why}: {text}"));
    let Ok(answer) = serde_json::from_str::<Value>(text) else { return bad("no JSON") };
    let Some(side) = [Side::A, Side::B].into_iter().find(|side| answer["upstream"] == side.name()) else {
        return bad("of no service");
    };
    let Some(version) = answer["head"].as_u64() else { return bad("unfiltered") };
    let whole = json!({
        "head": version,
        "set": side.name(),
        "tail": version,
        "upstream": side.name(),
        "authorized": true,
    });
    if answer == whole { Judged::Good(Observation { side, version }) } else { bad("a mixture, or unfiltered") }
}

impl Record {
    fn add(&mut self, judged: Judged) {
        let at = self.began.elapsed();
        match judged {
            Judged::Good(seen) => {
                let newest = &mut self.newest[seen.side.index()];
                if seen.version < *newest {
                    let bad = format!("{at:.2?}: version {} after {newest} of {:?}", seen.version, seen.side);
                    self.note(bad);
                } else {
                    *newest = seen.version;
                    self.good += 1;
                    self.latest = Some(seen);
                }
                if self.strict {
                    self.gap = self.gap.max(self.last_good.elapsed());
                }
                self.last_good = Instant::now();
            }
            Judged::Refused(why) if self.strict => self.note(format!("{at:.2?}: {why}")),
            Judged::Refused(_) => self.excused += 1,
            Judged::Bad(why) => self.note(format!("{at:.2?}: {why}")),
        }
    }

    fn note(&mut self, bad: String) {
        if self.bad.len() < SHOWN {
            self.bad.push(bad);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_answers_are_good() {
        let good = r#"{"upstream":"a","authorized":true,"head":3,"set":"a","tail":3}"#;
        assert!(matches!(judge(good), Judged::Good(Observation { side: Side::A, version: 3 })));
        let bad = [
            r#"{"upstream":"a","authorized":true,"secret":"REMOVED"}"#,
            r#"{"upstream":"a","authorized":true,"secret":"REMOVED","head":3,"set":"a","tail":3}"#,
            r#"{"upstream":"a","authorized":true,"head":3,"set":"a","tail":4}"#,
            r#"{"upstream":"b","authorized":true,"head":3,"set":"a","tail":3}"#,
            r#"{"upstream":"a","authorized":false,"head":3,"set":"a","tail":3}"#,
            "sorry",
        ];
        for text in bad {
            assert!(matches!(judge(text), Judged::Bad(_)), "{text}");
        }
    }
}

//! A caller that never stops calling, and judges every answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::twins::Twin;
use crate::Rpc;

/// Between two calls: what is wrong for a moment is to be seen.
const BETWEEN: Duration = Duration::from_millis(3);
/// Bad answers that a failed test shows.
const SHOWN: usize = 10;

/// A good answer: which service gave it, and the version of the filter that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// The service.
    pub twin: Twin,
    /// The version of its filter set.
    pub version: u64,
}

#[derive(Debug)]
struct Notes {
    began: Instant,
    /// Whether each call must be answered.
    strict: bool,
    latest: Option<Sight>,
    /// The newest version that was seen of each: none may be older after it.
    newest: [u64; 2],
    good: usize,
    excused: usize,
    /// The longest time between two good answers.
    gap: Duration,
    last_good: Instant,
    bad: Vec<String>,
}

/// Calls one exposition of a [`super::Twins`] all the time, until it is dropped.
#[derive(Debug)]
pub struct Witness {
    notes: Arc<Mutex<Notes>>,
    task: JoinHandle<()>,
}

impl Witness {
    /// Begins to call.
    #[must_use]
    pub fn start(rpc: Rpc) -> Self {
        let now = Instant::now();
        let notes = Arc::new(Mutex::new(Notes {
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
        let shared = Arc::clone(&notes);
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
                shared.lock().unwrap_or_else(PoisonError::into_inner).take(judged);
                tokio::time::sleep(BETWEEN).await;
            }
        });
        Self { notes, task }
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was answered last.
    #[must_use]
    pub fn latest(&self) -> Option<Sight> {
        self.notes().latest
    }

    /// How many good answers there were.
    #[must_use]
    pub fn good(&self) -> usize {
        self.notes().good
    }

    /// Whether calls may fail from here on, because there is no gateway to answer, or the exposition is not there. A bad
    /// answer stays bad.
    pub fn excuse(&self, excuse: bool) {
        let mut notes = self.notes();
        notes.strict = !excuse;
        notes.last_good = Instant::now();
    }

    /// From here on another process answers, which may have started from an older state.
    pub fn other_process(&self) {
        self.notes().newest = [0; 2];
    }

    /// What was seen, in words.
    ///
    /// # Errors
    /// An answer was unfiltered, a mixture, older than one before it, or missing where one was due.
    pub fn verdict(&self) -> Result<String> {
        let notes = self.notes();
        ensure!(notes.bad.is_empty(), "{} bad answers, first {}", notes.bad.len(), notes.bad.join("\n"));
        ensure!(notes.good > 0, "nothing was answered");
        Ok(format!(
            "{} calls answered rightly in {:.1?}, {} excused, longest gap {:.0?}",
            notes.good,
            notes.began.elapsed(),
            notes.excused,
            notes.gap
        ))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

enum Judged {
    Good(Sight),
    Refused(String),
    Bad(String),
}

/// An answer must be just what one version of one service's filter makes of that service's answer, asked with its own
/// credential.
fn judge(text: &str) -> Judged {
    let bad = |why: &str| Judged::Bad(format!("{why}: {text}"));
    let Ok(answer) = serde_json::from_str::<Value>(text) else { return bad("no JSON") };
    let Some(twin) = [Twin::A, Twin::B].into_iter().find(|twin| answer["upstream"] == twin.name()) else {
        return bad("of no service");
    };
    let Some(version) = answer["head"].as_u64() else { return bad("unfiltered") };
    let whole = json!({
        "head": version,
        "set": twin.name(),
        "tail": version,
        "upstream": twin.name(),
        "welcome": true,
    });
    if answer == whole { Judged::Good(Sight { twin, version }) } else { bad("a mixture, or unfiltered") }
}

impl Notes {
    fn take(&mut self, judged: Judged) {
        let at = self.began.elapsed();
        match judged {
            Judged::Good(sight) => {
                let newest = &mut self.newest[sight.twin.index()];
                if sight.version < *newest {
                    let bad = format!("{at:.2?}: version {} after {newest} of {:?}", sight.version, sight.twin);
                    self.note(bad);
                } else {
                    *newest = sight.version;
                    self.good += 1;
                    self.latest = Some(sight);
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
        let good = r#"{"upstream":"a","welcome":true,"head":3,"set":"a","tail":3}"#;
        assert!(matches!(judge(good), Judged::Good(Sight { twin: Twin::A, version: 3 })));
        let bad = [
            r#"{"upstream":"a","welcome":true,"secret":"REMOVED"}"#,
            r#"{"upstream":"a","welcome":true,"secret":"REMOVED","head":3,"set":"a","tail":3}"#,
            r#"{"upstream":"a","welcome":true,"head":3,"set":"a","tail":4}"#,
            r#"{"upstream":"b","welcome":true,"head":3,"set":"a","tail":3}"#,
            r#"{"upstream":"a","welcome":false,"head":3,"set":"a","tail":3}"#,
            "sorry",
        ];
        for text in bad {
            assert!(matches!(judge(text), Judged::Bad(_)), "{text}");
        }
    }
}

//! Continuous calls while objects change, and their answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::cluster::TestEnv;
use tamis_tests::{Era, Rpc};
use tokio::task::JoinHandle;

/// In members of the sample's issue that no filter of these tests lets pass.
const REMOVED: &str = "REMOVED";
/// Between two calls.
const PAUSE: Duration = Duration::from_millis(3);
const SELDOM: Duration = Duration::from_millis(40);

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    /// When the call began.
    pub(crate) began: Instant,
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) text: String,
}

impl Answered {
    /// Whether it is a tool's result that is no error.
    pub(crate) fn is_ok(&self) -> bool {
        self.status == 200 && self.text.contains("\"result\"") && !self.text.contains("\"isError\":true")
    }
}

/// Calls of one tool, one after the other, until they are ended.
pub(crate) struct Calls {
    answers: Arc<Mutex<Vec<Answered>>>,
    over: Arc<AtomicBool>,
    task: JoinHandle<Result<()>>,
}

impl Calls {
    /// Calls `get-issue` of an exposition.
    pub(crate) fn of(env: &TestEnv, exposition: &str) -> Result<Self> {
        Self::to(env, exposition, "get-issue", None)
    }

    /// Calls a tool that takes what `get-issue` takes, with an API key or without.
    pub(crate) fn to(env: &TestEnv, exposition: &str, tool: &str, key: Option<&str>) -> Result<Self> {
        let rpc = env.gateway.rpc("team-a", exposition, Era::Modern)?;
        Ok(Self::begin(rpc, tool, key, PAUSE))
    }

    /// Calls `get-issue` of an exposition anywhere, seldom enough for many to be called at once.
    pub(crate) fn slowly(env: &TestEnv, namespace: &str, exposition: &str) -> Result<Self> {
        let rpc = env.gateway.rpc(namespace, exposition, Era::Modern)?;
        Ok(Self::begin(rpc, "get-issue", None, SELDOM))
    }

    fn begin(rpc: Rpc, tool: &str, key: Option<&str>, pause: Duration) -> Self {
        let answers: Arc<Mutex<Vec<Answered>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let caller = Caller { rpc, tool: tool.to_owned(), key: key.map(str::to_owned), pause };
        let task = tokio::spawn(caller.call_until_over(Arc::clone(&answers), Arc::clone(&over)));
        Self { answers, over, task }
    }

    /// The newest answer, to a call that began after this was asked.
    pub(crate) async fn next(&self) -> Result<Answered> {
        let asked = Instant::now();
        loop {
            ensure!(!self.task.is_finished(), "the calls have ended");
            let newest = self.answers.lock().unwrap_or_else(PoisonError::into_inner).last().cloned();
            match newest {
                Some(answer) if answer.began >= asked => return Ok(answer),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Ends them and gives all answers; none of them may be unfiltered.
    pub(crate) async fn end(self) -> Result<Vec<Answered>> {
        self.over.store(true, Ordering::SeqCst);
        self.task.await??;
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let leak = answers.iter().position(|answer| answer.text.contains(REMOVED));
        ensure!(
            leak.is_none(),
            "answer {leak:?} of {} is unfiltered: {:?}",
            answers.len(),
            leak.map(|at| &answers[at])
        );
        Ok(answers)
    }
}

struct Caller {
    rpc: Rpc,
    tool: String,
    key: Option<String>,
    pause: Duration,
}

impl Caller {
    async fn call_until_over(self, answers: Arc<Mutex<Vec<Answered>>>, over: Arc<AtomicBool>) -> Result<()> {
        let params = json!({"name": self.tool, "arguments": {"owner": "o", "repo": "r", "number": 1}});
        while !over.load(Ordering::SeqCst) {
            let began = Instant::now();
            let mut request = self.rpc.request("tools/call", params.clone());
            if let Some(key) = &self.key {
                request = request.bearer_auth(key);
            }
            let answer = self.rpc.send(request).await?;
            let answered = Answered { began, status: answer.status, text: answer.text };
            answers.lock().unwrap_or_else(PoisonError::into_inner).push(answered);
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }
}

//! A caller that does nothing wrong: small calls, one after the other, on connections that it keeps.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tamis_tests::Gateway;

/// Callers at once.
const CALLERS: usize = 3;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"small","arguments":{}}}"#;

/// What it saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    times: Vec<Duration>,
    /// Answers that were none, and how often.
    pub(crate) failed: BTreeMap<String, usize>,
}

impl Seen {
    pub(crate) fn calls(&self) -> usize {
        self.times.len()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.times.clone();
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
        let most = times.last().copied().unwrap_or_default();
        let failed: usize = self.failed.values().sum();
        write!(
            f,
            "{} calls, {failed} failed, p50 {:.1?}, p99 {:.1?}, at most {most:.1?}",
            self.times.len(),
            at(50),
            at(99)
        )
    }
}

/// Calls for so long.
pub(crate) async fn call_for(gateway: &Gateway, time: Duration) -> Seen {
    let url = format!("{}/mcp/victims/victim", gateway.url);
    let until = Instant::now() + time;
    let callers = (0..CALLERS).map(|_| tokio::spawn(call_until(url.clone(), until)));
    let mut all = Seen::default();
    for caller in callers.collect::<Vec<_>>() {
        let Seen { times, failed } = caller.await.unwrap_or_default();
        all.times.extend(times);
        for (what, count) in failed {
            *all.failed.entry(what).or_default() += count;
        }
    }
    all
}

async fn call_until(url: String, until: Instant) -> Seen {
    let client = reqwest::Client::new();
    let mut seen = Seen::default();
    while Instant::now() < until {
        let begun = Instant::now();
        let failed = match call(&client, &url).await {
            Ok((200, text)) if text.contains("\"isError\":false") => None,
            Ok((status, text)) => Some(format!("{status} {}", text.chars().take(200).collect::<String>())),
            Err(error) => Some(format!("{error:?}")),
        };
        seen.times.push(begun.elapsed());
        if let Some(failed) = failed {
            *seen.failed.entry(failed).or_default() += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seen
}

async fn call(client: &reqwest::Client, url: &str) -> reqwest::Result<(u16, String)> {
    let request = client.post(url).header("content-type", "application/json").header("accept", "application/json");
    let response = request.body(CALL).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

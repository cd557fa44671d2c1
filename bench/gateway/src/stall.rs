//! Measures what calls of the other workers notice while one worker is held up.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::call::{Call, Era};
use crate::client::{Protocol, Sender, once};
use crate::cores::Cores;
use crate::documents;
use crate::process::Server;
use crate::stats::Latency;
use thread::Held;

/// Connections, which the gateway spreads over two workers.
const CONNECTIONS: usize = 16;
/// How long the worker is held up, and how long calls are measured before that.
const TIME: Duration = Duration::from_secs(1);
/// The pause between two calls of a connection.
const PAUSE: Duration = Duration::from_millis(2);
const METRIC: &str = "tamis_worker_stalls_total";

/// The figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Stall {
    pub(crate) connections: usize,
    /// The connections of the worker that was held up.
    pub(crate) held: usize,
    /// Calls of the other worker, before.
    pub(crate) before: Latency,
    /// Calls of the other worker that began while the first was held up.
    pub(crate) during: Latency,
    /// The stalls that the gateway counted.
    pub(crate) reported: u64,
}

/// A call: when it began, since the start of the measurement, and how long it took.
type Sample = (Duration, Duration);

/// Stops one thread of a `tamis serve` with two workers for a second.
pub(crate) async fn measure(cores: &Cores, tamis: &Path) -> Result<Stall> {
    eprintln!("calls while a worker is held up");
    let upstream = Server::own(&["upstream", "4"])?;
    let [folder, secrets] = [tempfile::tempdir()?, tempfile::tempdir()?];
    documents::calls(folder.path(), secrets.path(), upstream.port, &[4])?;
    let secrets = secrets.path().to_string_lossy();
    let options = ["--log-level", "warn", "--workers", "2", "--secrets", &secrets];
    let server = Server::tamis(cores, tamis, folder.path(), &options).await?;
    let call = Call::tool("/mcp/default/select".to_owned(), "items-4", Era::Legacy)?;
    let request = call.request(server.port, Protocol::Http1)?;
    let (start, ended) = (Instant::now(), Rc::new(Cell::new(false)));
    let samples: Vec<Rc<RefCell<Vec<Sample>>>> = (0..CONNECTIONS).map(|_| Rc::default()).collect();
    let mut running: JoinSet<Result<()>> = JoinSet::new();
    for (mut sender, samples) in
        Sender::open(server.port, Protocol::Http1, CONNECTIONS).await?.into_iter().zip(&samples)
    {
        let (ended, samples, request) = (Rc::clone(&ended), Rc::clone(samples), request.clone());
        running.spawn_local(async move {
            while !ended.get() {
                let began = start.elapsed();
                sender.call(request.clone()).await?;
                samples.borrow_mut().push((began, start.elapsed() - began));
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        });
    }
    tokio::time::sleep(TIME).await;
    let counted = stalls(&server).await?;
    let held = Held::stop(server.thread("tamis-worker-1")?)?;
    let from = start.elapsed();
    tokio::time::sleep(TIME).await;
    let until = start.elapsed();
    held.release()?;
    tokio::time::sleep(TIME).await;
    ended.set(true);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let reported = stalls(&server).await? - counted;
    let samples: Vec<Vec<Sample>> = samples.iter().map(|samples| samples.take()).collect();
    let (held, mut before, mut during) = apart(&samples, from..until);
    Ok(Stall {
        connections: CONNECTIONS,
        held,
        before: Latency::of(&mut before),
        during: Latency::of(&mut during),
        reported,
    })
}

/// Returns the number of connections that had a call for more than half of the stall, and the latencies of the others'
/// calls before and during the stall. The first fifth is the warm-up.
fn apart(samples: &[Vec<Sample>], stall: Range<Duration>) -> (usize, Vec<Duration>, Vec<Duration>) {
    let is_held = |samples: &&Vec<Sample>| {
        let half = (stall.end - stall.start) / 2;
        samples.iter().any(|&(began, took)| began < stall.end && began + took > stall.start && took > half)
    };
    let began_in = |times: Range<Duration>| -> Vec<Duration> {
        let others = samples.iter().filter(|samples| !is_held(samples)).flatten();
        others.filter(|(began, _)| times.contains(began)).map(|&(_, took)| took).collect()
    };
    let held = samples.iter().filter(is_held).count();
    (held, began_in(stall.start / 5..stall.start), began_in(stall.clone()))
}

/// Reads from the admin port how often a worker was held up.
async fn stalls(server: &Server) -> Result<u64> {
    let admin = server.admin.context("the server has no admin port")?;
    let (_, body) = once(admin, &Call::get("/metrics".to_owned())).await?;
    let text = std::str::from_utf8(&body)?;
    let value = text.lines().find_map(|line| line.strip_prefix(METRIC)?.trim().parse().ok());
    value.with_context(|| format!("/metrics does not list {METRIC}"))
}

#[cfg(target_os = "linux")]
mod thread {
    use anyhow::{Context as _, Result};
    use nix::sys::ptrace::{Options, detach, interrupt, seize};
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::Pid;

    /// A thread that is stopped as a debugger stops it, while the others of its process run. Released on drop.
    pub(super) struct Held(Option<Pid>);

    impl Held {
        pub(super) fn stop(thread: i32) -> Result<Self> {
            let thread = Pid::from_raw(thread);
            seize(thread, Options::empty()).context("this system does not permit to stop a thread")?;
            let held = Self(Some(thread));
            interrupt(thread)?;
            waitpid(thread, Some(WaitPidFlag::__WALL))?;
            Ok(held)
        }

        pub(super) fn release(mut self) -> Result<()> {
            self.0.take().map_or(Ok(()), |thread| Ok(detach(thread, None)?))
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            if let Some(thread) = self.0 {
                let _ = detach(thread, None);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod thread {
    use anyhow::{Result, bail};

    /// The other systems stop processes only.
    pub(super) enum Held {}

    impl Held {
        pub(super) fn stop(_: i32) -> Result<Self> {
            bail!("stopping one thread needs Linux");
        }

        pub(super) fn release(self) -> Result<()> {
            match self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::apart;

    #[test]
    fn a_connection_is_held_if_one_call_spans_the_stall() {
        let ms = Duration::from_millis;
        let held = vec![(ms(900), ms(1)), (ms(990), ms(1015)), (ms(2006), ms(1))];
        let late_but_free = vec![(ms(100), ms(700)), (ms(900), ms(3)), (ms(1500), ms(400)), (ms(2100), ms(9))];
        let free = vec![(ms(500), ms(2)), (ms(1000), ms(4)), (ms(2000), ms(8))];
        let (count, before, during) = apart(&[held, late_but_free, free], ms(1000)..ms(2000));
        assert_eq!(count, 1);
        assert_eq!(before, [ms(3), ms(2)]);
        assert_eq!(during, [ms(400), ms(4)]);
    }
}

//! Closed and open loops of calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_local};

use crate::call::Call;
use crate::client::{Protocol, Sender, once_over};
use crate::cores::CoreTime;
use crate::pace::Pace;
use crate::process::Server;
use crate::stats::{Closed, Latency};

/// What is called, and how.
pub(crate) struct Load<'a> {
    pub(crate) server: &'a Server,
    pub(crate) core: usize,
    pub(crate) call: &'a Call,
    pub(crate) protocol: Protocol,
    /// Calls at the same time: connections of HTTP/1.1, streams of HTTP/2.
    pub(crate) concurrency: usize,
    /// How long a measurement takes. A fifth of that passes before.
    pub(crate) time: Duration,
}

impl Load<'_> {
    fn warm_up(&self) -> Duration {
        self.time / 5
    }

    /// Makes one call, checks its answer and returns the answer's length.
    pub(crate) async fn check(&self) -> Result<usize> {
        let (status, body) = once_over(self.protocol, self.server.port, self.call).await?;
        self.call.check(status, &body)?;
        Ok(body.len())
    }

    /// Measures throughput: each connection makes its next call when it has the previous answer.
    pub(crate) async fn closed(&self, length: usize) -> Result<Closed> {
        let request = self.call.request(self.server.port, self.protocol)?;
        let senders = Sender::open(self.server.port, self.protocol, self.concurrency).await?;
        let (calls, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let mut running = JoinSet::new();
        for mut sender in senders {
            let (calls, ended, request) = (Rc::clone(&calls), Rc::clone(&ended), request.clone());
            running.spawn_local(async move {
                while !ended.get() {
                    expect(sender.call(request.clone()).await?, length)?;
                    calls.set(calls.get() + 1);
                }
                Ok(())
            });
        }
        let read = || -> Result<_> { Ok((Instant::now(), calls.get(), self.server.cpu()?, CoreTime::now(self.core)?)) };
        tokio::time::sleep(self.warm_up()).await;
        let (start, calls_before, cpu_before, core_before) = read()?;
        tokio::time::sleep(self.time).await;
        let (end, calls_after, cpu_after, core_after) = read()?;
        ended.set(true);
        join(running).await?;
        Ok(Closed {
            calls: calls_after - calls_before,
            wall: end - start,
            cpu: cpu_after.saturating_sub(cpu_before),
            idle: core_after.idle.saturating_sub(core_before.idle),
            processes: core_after.processes.saturating_sub(core_before.processes),
        })
    }

    /// Measures latency at a constant rate. A call begins at its scheduled time even if earlier calls are late, and its
    /// latency counts from that time, so that a stall shows in every call that it delays.
    pub(crate) async fn open(&self, length: usize, rate: f64) -> Result<Latency> {
        let request = self.call.request(self.server.port, self.protocol)?;
        let senders = Sender::open(self.server.port, self.protocol, self.concurrency).await?;
        let interval = Duration::from_secs_f64(1.0 / rate.max(1.0));
        let total = ((self.warm_up() + self.time).as_secs_f64() / interval.as_secs_f64()).ceil() as u32;
        let due = Rc::new(Semaphore::new(0));
        let pace = Pace::start(interval)?;
        let schedule = Rc::new(Schedule {
            start: pace.started(),
            interval,
            warm: (self.warm_up().as_secs_f64() / interval.as_secs_f64()) as u32,
            total,
            next: Cell::new(0),
            latencies: RefCell::new(Vec::with_capacity(total as usize)),
        });
        let mut running = JoinSet::new();
        for sender in senders {
            running.spawn_local(call_on_time(sender, request.clone(), length, Rc::clone(&schedule), Rc::clone(&due)));
        }
        let dispatcher = spawn_local({
            let due = Rc::clone(&due);
            async move {
                let mut released = 0;
                while released < total {
                    let ticks = pace.ticks().await?.min(total - released);
                    due.add_permits(ticks as usize);
                    released += ticks;
                }
                // Calls that wait for their turn end when all turns are taken.
                due.add_permits(Semaphore::MAX_PERMITS >> 1);
                anyhow::Ok(())
            }
        });
        join(running).await?;
        dispatcher.await??;
        let mut latencies = schedule.latencies.borrow_mut();
        Ok(Latency::of(&mut latencies))
    }
}

/// The times at which the calls of an open loop begin.
struct Schedule {
    start: Instant,
    interval: Duration,
    /// Calls that are not counted.
    warm: u32,
    total: u32,
    next: Cell<u32>,
    latencies: RefCell<Vec<Duration>>,
}

async fn call_on_time(
    mut sender: Sender,
    request: Request<Full<Bytes>>,
    length: usize,
    schedule: Rc<Schedule>,
    due: Rc<Semaphore>,
) -> Result<()> {
    loop {
        due.acquire().await.context("the schedule ended")?.forget();
        let number = schedule.next.get();
        if number >= schedule.total {
            return Ok(());
        }
        schedule.next.set(number + 1);
        expect(sender.call(request.clone()).await?, length)?;
        if number >= schedule.warm {
            let scheduled = schedule.start + schedule.interval * (number + 1);
            schedule.latencies.borrow_mut().push(Instant::now().saturating_duration_since(scheduled));
        }
    }
}

fn expect(length: usize, expected: usize) -> Result<()> {
    ensure!(length == expected, "an answer has {length} bytes, the first had {expected}");
    Ok(())
}

async fn join(mut running: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

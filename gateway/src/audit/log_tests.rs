use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tamis_config::{Access, ExpositionDocument, FORMAT_VERSION, ServiceDocument};

use super::*;
use crate::audit::queue::CAPACITY;
use crate::call::Caller;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::memory::{Chain, Reservation};
use crate::metrics::Outcome;
use crate::shares::{Limits, Resource, Shares};
use crate::upstream::LocalCredentials;
use crate::{Change, Options};

/// An exposition with the tool `read`.
fn exposition() -> Arc<Exposition> {
    let service: ServiceDocument = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "name": "s", "version": "1",
        "source": {"http": {"baseUrl": "https://a.example"}},
        "tools": {"read": {"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}}},
    }))
    .unwrap();
    let document: ExpositionDocument = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "id": {"namespace": "team", "name": "a"}, "service": service.digest(),
        "enforcement": "Advisory", "tools": {"read": {}}, "access": Access::Anonymous,
    }))
    .unwrap();
    let gateway = Gateway::new(Options::new(Arc::new(LocalCredentials::new(None)))).unwrap();
    assert_eq!(gateway.update(&[Change::Serve(Arc::new(document), Arc::new(service))]).failed, []);
    Arc::clone(gateway.registry.find("team/a").unwrap().state().serving().unwrap())
}

/// The record of a call, which has a number in the place of the answer's size.
fn record(exposition: &Arc<Exposition>, number: usize) -> Record {
    Record {
        exposition: Arc::clone(exposition),
        bundle: None,
        tool: 0,
        caller: Caller::Parent,
        outcome: Outcome::Ok,
        failed_stage: None,
        status: 200,
        output_bytes: 3,
        result_bytes: number,
        answer: None,
        ended: Instant::now(),
        took: Duration::from_micros(7),
        trace: None,
        file: None,
    }
}

/// Where lines go: all bytes, and one entry for each write.
#[derive(Clone, Default)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    writes: Arc<Mutex<usize>>,
    /// What the next writes do instead.
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

enum Fault {
    Error(ErrorKind),
    /// Writes so many bytes.
    Part(usize),
    Panic,
    /// Waits until the channel is closed.
    Block(Receiver<()>),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.faults.lock().unwrap().pop_front();
        let written = match fault {
            None => bytes.len(),
            Some(Fault::Part(count)) => count,
            Some(Fault::Error(kind)) => return Err(kind.into()),
            Some(Fault::Panic) => panic!("on purpose"),
            Some(Fault::Block(until)) => {
                let _ = until.recv();
                bytes.len()
            }
        };
        *self.writes.lock().unwrap() += 1;
        self.bytes.lock().unwrap().extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn with(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self { faults: Arc::new(Mutex::new(faults.into_iter().collect())), ..Self::default() }
    }

    fn log(&self) -> Log {
        Log::start(AuditLog::Json, Arc::default(), Box::new(self.clone())).unwrap()
    }

    fn writer(&self) -> Writer {
        Writer::new(AuditLog::Json, Arc::default(), Box::new(self.clone()))
    }

    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The numbers of the records.
    fn numbers(&self) -> Vec<usize> {
        self.lines().iter().map(|line| usize::try_from(line["result_bytes"].as_u64().unwrap()).unwrap()).collect()
    }
}

fn wait_until(reached: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never reached");
}

#[test]
fn records_are_written_in_the_order_of_the_calls() {
    let (exposition, output) = (exposition(), Output::default());
    let log = output.log();
    let count = 3 * CAPACITY;
    (0..count).for_each(|number| log.record(record(&exposition, number)));
    wait_until(|| log.is_idle());
    assert_eq!(output.numbers(), (0..count).collect::<Vec<_>>());
}

#[test]
fn many_records_are_one_write_with_the_time_at_which_each_call_ended() {
    let (exposition, output) = (exposition(), Output::default());
    let mut writer = output.writer();
    let now = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
    let mut old = record(&exposition, 0);
    old.ended = now.0 - Duration::from_millis(1_500);
    writer.format(&old, now);
    writer.flush();
    assert_eq!(output.lines()[0]["timestamp"], "1970-01-01T00:00:58.500000Z");
    let mut batch: Vec<_> = (1..101).map(|number| record(&exposition, number)).collect();
    writer.write(&mut batch);
    assert_eq!((batch.len(), output.numbers(), *output.writes.lock().unwrap()), (0, (0..101).collect(), 2));
    // Memory is bounded: a larger batch is more than one write.
    let mut batch: Vec<_> = (0..CAPACITY).map(|number| record(&exposition, number)).collect();
    writer.write(&mut batch);
    let writes = *output.writes.lock().unwrap() - 2;
    let bytes = output.bytes.lock().unwrap().len();
    assert!((bytes / (2 * CHUNK)..=bytes / CHUNK + 1).contains(&writes), "{writes} writes of {bytes} bytes");
}

#[test]
fn while_the_reader_of_the_log_is_slow_calls_wait_and_no_record_is_lost() {
    let exposition = exposition();
    let (release, blocked) = channel();
    let output = Output::with([Fault::Block(blocked)]);
    let log = output.log();
    let count = 2 * CAPACITY + 10;
    log.record(record(&exposition, 0));
    wait_until(|| output.faults.lock().unwrap().is_empty());
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| (1..count).for_each(|number| log.record(record(&exposition, number))));
        // The queue is full: one more record, and its call waits.
        wait_until(|| log.0.queue.len() == CAPACITY);
        assert!(!calls.is_finished() && !log.is_idle() && output.numbers().is_empty());
        drop(release);
        calls.join().unwrap();
    });
    wait_until(|| log.is_idle());
    assert_eq!(output.numbers(), (0..count).collect::<Vec<_>>());
}

#[test]
fn the_memory_of_an_answer_is_held_until_it_is_signed() {
    let exposition = exposition();
    let (release, blocked) = channel();
    let output = Output::with([Fault::Block(blocked)]);
    let log = output.log();
    let shares = Shares::new(Limits { bytes: 1 << 20, floor: 1 << 20, calls: 1, streams: 1 });
    let reserved = || shares.used(Resource::Bytes);
    let mut held = Reservation::try_open(&shares.of(&exposition.id)).unwrap();
    let mut answer = Chain::from(vec![b'a'; 1_000]);
    assert!(held.try_take(1_000));
    log.record(record(&exposition, 0));
    wait_until(|| output.faults.lock().unwrap().is_empty());
    log.record(Record { answer: Some(answer.share(&mut held)), ..record(&exposition, 1) });
    // The transport has written the answer; the writer of the log still blocks.
    drop((answer, held));
    assert_eq!(reserved(), 1_000);
    drop(release);
    wait_until(|| log.is_idle());
    assert_eq!((reserved(), output.numbers()), (0, vec![0, 1]));
}

#[test]
fn a_log_that_is_dropped_writes_what_it_has() {
    let (exposition, output) = (exposition(), Output::default());
    let log = output.log();
    (0..10).for_each(|number| log.record(record(&exposition, number)));
    drop(log);
    wait_until(|| output.numbers().len() == 10);
}

#[test]
fn with_write_through_a_record_is_written_when_the_call_returns() {
    let (exposition, output) = (exposition(), Output::default());
    let log = output.log();
    log.record(record(&exposition, 0));
    log.write_through();
    for number in 1..10 {
        log.record(record(&exposition, number));
        assert_eq!(output.numbers(), (0..=number).collect::<Vec<_>>());
    }
}

#[test]
fn a_write_that_is_cut_short_or_would_block_is_completed() {
    let (exposition, would_block) = (exposition(), || Fault::Error(ErrorKind::WouldBlock));
    let output = Output::with([Fault::Part(5), would_block(), Fault::Error(ErrorKind::Interrupted), would_block()]);
    let mut writer = output.writer();
    writer.write(&mut vec![record(&exposition, 0), record(&exposition, 1)]);
    assert_eq!(output.numbers(), [0, 1]);
}

#[test]
fn a_closed_log_loses_lines_and_stops_nothing() {
    let exposition = exposition();
    let output = Output::with([Fault::Error(ErrorKind::BrokenPipe)]);
    let mut writer = output.writer();
    writer.write(&mut vec![record(&exposition, 0)]);
    writer.write(&mut vec![record(&exposition, 1)]);
    assert_eq!(output.numbers(), [1]);
}

#[test]
fn a_panic_is_logged_and_later_records_are_written() {
    let exposition = exposition();
    let (lines, errors) = (Output::with([Fault::Panic]), Output::default());
    let sink = errors.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || sink.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut writer = lines.writer();
        writer.write(&mut vec![record(&exposition, 0), record(&exposition, 1)]);
        writer.write(&mut vec![record(&exposition, 2)]);
    });
    assert_eq!(lines.numbers(), [2]);
    assert_eq!(errors.lines()[0]["fields"]["count"], 2);

    // As events: the subscriber panics at the first one, and keeps what it has formatted.
    let events = Output::with([Fault::Panic]);
    let sink = events.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || sink.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let mut writer = Writer::new(AuditLog::Events, Arc::default(), Box::new(io::sink()));
        writer.write(&mut vec![record(&exposition, 0), record(&exposition, 1)]);
    });
    let messages: Vec<_> = events.lines().iter().map(|line| line["fields"]["message"].to_string()).collect();
    assert_eq!(
        messages,
        ["tool call", "audit record lost: its formatter panicked", "tool call"].map(|m| format!("{m:?}"))
    );
}

/// What a record costs; run with `--ignored --nocapture`, for figures with optimisation.
#[test]
#[ignore = "measures"]
fn what_a_record_costs() {
    const ROUNDS: u32 = 20_000;
    fn report(what: &str, mut work: impl FnMut()) {
        let begun = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        println!("{what}: {:?}", begun.elapsed() / ROUNDS);
    }
    let exposition = exposition();
    let keyring = Arc::new(Keyring::of_the_process().unwrap());
    for size in [0, 1 << 10, 4 << 10, 64 << 10] {
        let answer = vec![b'a'; size];
        report(&format!("signature of {size} bytes"), || {
            std::hint::black_box(keyring.sign([std::hint::black_box(&answer[..])]));
        });
    }
    let (record, now) = (record(&exposition, 1_000), (Instant::now(), SystemTime::now()));
    for log in [AuditLog::Events, AuditLog::Text, AuditLog::Json] {
        let mut writer = Writer::new(log, Arc::default(), Box::new(io::sink()));
        let builder = tracing_subscriber::fmt().with_ansi(false).with_writer(io::sink);
        tracing::subscriber::with_default(builder.json().flatten_event(true).finish(), || {
            report(&format!("one line, {log:?}"), || {
                writer.format(&record, now);
                writer.lines.clear();
            });
        });
    }
    let log = Log::start(AuditLog::Json, keyring, Box::new(io::sink())).unwrap();
    report("the call's part", || log.record(Record { ended: now.0, ..self::record(&exposition, 0) }));
    let metrics = crate::metrics::Metrics::new().unwrap();
    report("a histogram", || metrics.call_duration.observe(std::hint::black_box(0.004)));
    let series = exposition.tool_series(0);
    report("the counters of a call", || {
        series.call(&metrics, Outcome::Ok);
        series.bytes(&metrics, std::hint::black_box(1_000), 100);
    });
}

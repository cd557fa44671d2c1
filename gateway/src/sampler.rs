//! A sample of outputs, counted by a thread of its own.
//!
//! `tamis_filter_saved_tokens_estimate_total` counts tokens for calls that count none. To count every output would take
//! more time than to filter it, so a call only multiplies its bytes by the ratios of its tool. For those ratios, a tool
//! gives a window of an upstream's output and of the answer every [`INTERVAL`], and the thread counts their tokens.
//!
//! - No call waits: a sample is left out if [`PLACES`] others wait.
//! - The thread counts at most one sample in [`PAUSE`], of at most two times [`WINDOW`] bytes.
//! - Windows are dropped once they are counted. What is kept of them is numbers.
//! - A gateway that has loaded no vocabulary takes no samples and starts no thread.
//!
//! Why so: `docs/decisions/0053-saved-tokens.md`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use tamis_tokens::Vocabulary;

use crate::metrics::{CallSizes, SampleCounters, ToolSeries};

/// Maximum bytes of one window.
const WINDOW: usize = 4 << 10;
/// Maximum number of samples that wait.
const PLACES: usize = 16;
/// Least time between two samples of one tool.
const INTERVAL: Duration = Duration::from_secs(10);
/// Pause of the thread after each sample.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes samples. Its thread starts with the first one, and ends after the sampler.
#[derive(Debug)]
pub(crate) struct Sampler {
    started: Instant,
    /// Samples that wait or are being counted.
    waiting: Arc<AtomicUsize>,
    /// Numbers the samples, so that each has its windows elsewhere.
    taken: AtomicU32,
    counters: SampleCounters,
    /// None if the thread could not be started.
    thread: OnceLock<Option<SyncSender<Box<Sample>>>>,
}

/// A place among those that wait.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Windows of one call, and what counts them. Holds data that the filter may have removed, so it shows none of it.
pub(crate) struct Sample {
    vocabulary: Vocabulary,
    input: Box<[u8]>,
    output: Box<[u8]>,
    series: Arc<ToolSeries>,
    sizes: CallSizes,
    _place: Place,
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Creates a sampler that counts its samples in `counters`.
    pub(crate) fn new(counters: SampleCounters) -> Self {
        Self {
            started: Instant::now(),
            waiting: Arc::default(),
            taken: AtomicU32::new(0),
            counters,
            thread: OnceLock::new(),
        }
    }

    /// Takes a sample of a call, if its vocabulary is loaded, its tool's next sample is due, and there is a place. It
    /// takes the time to copy two windows at most.
    pub(crate) fn take(
        &self,
        series: &Arc<ToolSeries>,
        sizes: CallSizes,
        input: &[u8],
        output: &str,
    ) -> Option<Box<Sample>> {
        let vocabulary = sizes.vocabulary.filter(|_| sizes.is_smaller())?;
        let now = self.started.elapsed();
        if !series.is_sample_due(now, INTERVAL) {
            return None;
        }
        let place = self.place()?;
        if !series.claim_sample(now, INTERVAL) {
            return None;
        }
        let turn = self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(Sample {
            vocabulary,
            input: window(input, turn).into(),
            output: window(output.as_bytes(), turn).into(),
            series: Arc::clone(series),
            sizes,
            _place: place,
        }))
    }

    fn place(&self) -> Option<Place> {
        let add = |waiting| (waiting < PLACES).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Place(Arc::clone(&self.waiting)))
    }

    /// Has a sample counted, and the tokens that its call saved.
    pub(crate) fn count(&self, sample: Box<Sample>) {
        let thread = self.thread.get_or_init(|| {
            let (sender, receiver) = sync_channel(PLACES);
            let counters = self.counters.clone();
            let builder = thread::Builder::new().name("sampler".to_owned());
            builder.spawn(move || run(&receiver, &counters)).ok().map(|_| sender)
        });
        let sent = match thread {
            Some(thread) => thread.try_send(sample).map_err(|error| match error {
                TrySendError::Full(sample) | TrySendError::Disconnected(sample) => sample,
            }),
            None => Err(sample),
        };
        if let Err(sample) = sent {
            sample.series.add_saved_tokens(&sample.sizes);
        }
    }
}

fn run(samples: &Receiver<Box<Sample>>, counters: &SampleCounters) {
    while let Ok(sample) = samples.recv() {
        // A panic is a bug. It costs a sample.
        let _ = catch_unwind(AssertUnwindSafe(|| sample.count(counters)));
        drop(sample);
        thread::sleep(PAUSE);
    }
}

impl Sample {
    /// Counts the windows, and then the tokens that the call saved, by ratios that include them.
    fn count(&self, counters: &SampleCounters) {
        let tokenizer = self.vocabulary.load();
        let ratios = self.series.ratios();
        for (window, ratio) in [(&self.input, &ratios.input), (&self.output, &ratios.output)] {
            // A character that the window cuts becomes another one.
            let text = String::from_utf8_lossy(window);
            if let Some(tokens) = tokenizer.count(&text, usize::MAX, &mut |_| true) {
                ratio.add(self.vocabulary, window.len(), tokens.min(window.len()));
                counters.add(self.vocabulary, window.len(), tokens);
            }
        }
        self.series.add_saved_tokens(&self.sizes);
    }
}

/// Returns a part of `bytes` of at most [`WINDOW`] bytes. Consecutive turns take parts that are spread evenly, since
/// the beginning of an output is often unlike the rest.
fn window(bytes: &[u8], turn: u32) -> &[u8] {
    let places = bytes.len().saturating_sub(WINDOW);
    // Multiples of the golden ratio are spread evenly over a circle.
    let spread = u128::from(turn.wrapping_mul(0x9E37_79B9));
    let at = usize::try_from((spread * (places as u128 + 1)) >> 32).unwrap_or(0);
    &bytes[at..bytes.len().min(at + WINDOW)]
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;

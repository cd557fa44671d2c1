//! Samples are taken seldom, counted elsewhere, and forgotten.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tamis_config::ExpositionId;
use tamis_engine::Factor;

use super::*;
use crate::metrics::Metrics;

const CL100K: Vocabulary = Vocabulary::Cl100kBase;

fn series() -> Arc<ToolSeries> {
    let id = Arc::new(ExpositionId { namespace: "n".to_owned(), name: "e".to_owned() });
    Arc::new(ToolSeries::new(&id, "t"))
}

fn sizes(input: usize, output: usize) -> CallSizes {
    CallSizes { input, output, counted: None, vocabulary: Some(CL100K), factor: Factor::ONE }
}

/// Waits until all samples are counted.
fn settle(sampler: &Sampler) {
    let began = Instant::now();
    while sampler.waiting.load(Ordering::Relaxed) > 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "the thread counts nothing");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn windows_are_small_and_spread() {
    let text: Vec<u8> = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
    let starts: BTreeSet<u32> = (0..20)
        .map(|turn| {
            let window = window(&text, turn);
            assert_eq!(window.len(), WINDOW);
            u32::from_be_bytes(window[..4].try_into().expect("four bytes")) >> 8
        })
        .collect();
    assert!(starts.len() > 15, "{starts:?}");
    for length in [0, 1, WINDOW - 1, WINDOW] {
        for turn in [0, 1, u32::MAX] {
            assert_eq!(window(&text[..length], turn), &text[..length]);
        }
    }
    for turn in (0..u32::MAX).step_by(1 << 24).chain([u32::MAX]) {
        assert_eq!(window(&text[..=WINDOW], turn).len(), WINDOW, "{turn}");
    }
}

#[test]
fn a_call_that_is_sampled_is_estimated_by_its_own_sample() {
    let metrics = Metrics::new().expect("the names are good");
    let sampler = Sampler::new(metrics.sample.clone());
    let series = series();
    let (input, output) = ("word ".repeat(5_000), "[1,2,3]".repeat(100));
    let sizes = sizes(input.len(), output.len());
    series.bytes(&metrics, sizes.input, sizes.output);
    let sample = sampler.take(&series, sizes, input.as_bytes(), &output).expect("the first call is sampled");
    assert!(!format!("{sample:?}").contains("word"), "{sample:?}");
    sampler.count(sample);
    settle(&sampler);
    let count = |text: &str| CL100K.load().count(text, usize::MAX, &mut |_| true).expect("is counted");
    let exact = count(&input) - count(&output);
    let text = String::from_utf8(metrics.render(crate::metrics::GaugeValues::default())).expect("is text");
    let line = text.lines().find_map(|line| line.strip_prefix("tamis_filter_saved_tokens_estimate_total{"));
    let estimate: u64 = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("is a number");
    // `estimate` would say 6,943, where the vocabulary has about 4,500.
    assert!(estimate.abs_diff(exact as u64) <= exact as u64 / 50, "{estimate} {exact}");
    let bytes = WINDOW + output.len();
    assert!(
        text.contains(&format!("tamis_filter_token_sample_bytes_total{{tokenizer=\"cl100k_base\"}} {bytes}\n")),
        "{text}"
    );
    assert!(text.contains("tamis_filter_token_sample_bytes_total{tokenizer=\"o200k_base\"} 0\n"), "{text}");
}

#[test]
fn a_tool_is_sampled_once_in_an_interval() {
    let metrics = Metrics::new().expect("the names are good");
    let sampler = Sampler::new(metrics.sample.clone());
    let series = series();
    let take = || sampler.take(&series, sizes(10, 5), b"1234567890", "12345");
    assert!(take().is_some());
    assert!(take().is_none());
    let later = sampler.started.elapsed() + INTERVAL;
    assert!(series.is_sample_due(later + Duration::from_secs(1), INTERVAL));
    // Of two calls at once, one gives the sample.
    assert!(series.claim_sample(later + Duration::from_secs(1), INTERVAL));
    assert!(!series.claim_sample(later + Duration::from_secs(1), INTERVAL));
}

#[test]
fn a_call_finds_no_place_when_enough_samples_wait() {
    let metrics = Metrics::new().expect("the names are good");
    let sampler = Sampler::new(metrics.sample.clone());
    let take = || sampler.take(&series(), sizes(10, 5), b"1234567890", "12345");
    let waiting: Vec<_> = (0..PLACES).map(|_| take().expect("there is a place")).collect();
    let late = series();
    assert!(sampler.take(&late, sizes(10, 5), b"1234567890", "12345").is_none());
    drop(waiting);
    // The tool that found no place gives a sample with its next call.
    assert!(sampler.take(&late, sizes(10, 5), b"1234567890", "12345").is_some());
    assert_eq!(sampler.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn nothing_is_sampled_without_a_vocabulary_or_where_nothing_was_kept() {
    let metrics = Metrics::new().expect("the names are good");
    let sampler = Sampler::new(metrics.sample.clone());
    let series = series();
    let without = CallSizes { vocabulary: None, ..sizes(10, 5) };
    assert!(sampler.take(&series, without, b"1234567890", "12345").is_none());
    assert!(sampler.take(&series, sizes(5, 5), b"12345", "12345").is_none());
    assert!(sampler.thread.get().is_none());
}

//! The operations of the benchmark, by crate `devboy-format-pipeline`.

use std::io::{BufRead, Write};

use devboy_core::{Comment, Discussion, FileDiff, Issue, MergeRequest};
use devboy_format_pipeline::{Pipeline, PipelineConfig, TransformOutput};
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;

/// The budget of `fit`, in characters: 8,000 tokens of 3.5 characters.
const BUDGET: usize = 28_000;

/// Runs `KIND-OPERATION` over `input`, a JSON list of the pipeline's own values, and returns the output.
///
/// `encode` parses the list and writes all of it as TOON. `fit` parses it and fits it into 8,000 tokens, with its index.
///
/// # Panics
/// If the input is no such list, or the operation is unknown.
#[must_use]
pub fn run(op: &str, input: &[u8]) -> Vec<u8> {
    let (kind, op) = op.rsplit_once('-').expect("a kind and an operation");
    let max_chars = match op {
        "encode" => 0,
        "fit" => BUDGET,
        _ => panic!("no such operation: {op}"),
    };
    // Nothing is cut before it is encoded.
    let config =
        PipelineConfig { max_chars, max_chars_per_item: usize::MAX, max_description_len: usize::MAX, ..Default::default() };
    let pipeline = Pipeline::with_config(config);
    let output: TransformOutput = match kind {
        "issues" => pipeline.transform_issues(parse::<Issue>(input)),
        "merge_requests" => pipeline.transform_merge_requests(parse::<MergeRequest>(input)),
        "diffs" => pipeline.transform_diffs(parse::<FileDiff>(input)),
        "comments" => pipeline.transform_comments(parse::<Comment>(input)),
        "discussions" => pipeline.transform_discussions(parse::<Discussion>(input)),
        _ => panic!("no such kind: {kind}"),
    }
    .expect("the pipeline succeeds");
    output.to_string_with_hints().into_bytes()
}

fn parse<T: DeserializeOwned>(input: &[u8]) -> Vec<T> {
    serde_json::from_slice(input).expect("a list of the pipeline's values")
}

/// Returns the processor time of this thread in nanoseconds.
#[must_use]
pub fn thread_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Answers lines of `operation iterations` on standard input, over the file named by the first argument, with
/// `nanoseconds bytes-of-output`: the processor time of all iterations, and the size of one output.
///
/// # Panics
/// On any error: this is a child process of the benchmark.
pub fn serve() {
    let input = std::fs::read(std::env::args().nth(1).expect("a file name")).expect("a readable file");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let (op, iterations) = line.split_once(' ').expect("operation and count");
        let mut bytes = 0;
        let start = thread_nanos();
        for _ in 0..iterations.parse::<u32>().expect("a count") {
            bytes = std::hint::black_box(run(op, std::hint::black_box(&input))).len();
        }
        println!("{} {bytes}", thread_nanos() - start);
        std::io::stdout().flush().expect("standard output");
    }
}

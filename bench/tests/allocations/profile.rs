//! The profile of a heap: allocations of this process by call stack.

use std::fmt;
use std::fs;

use serde::Deserialize;

/// A call stack that allocates in every call.
pub(super) struct Site {
    /// Allocations in one call.
    pub(super) calls: usize,
    /// Bytes of them.
    pub(super) bytes: usize,
    /// Functions and their positions, the innermost first.
    pub(super) stack: Vec<String>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, bytes, stack } = self;
        writeln!(f, "{calls} x, {bytes} bytes")?;
        stack.iter().try_for_each(|frame| writeln!(f, "    {frame}"))
    }
}

/// The file that the profiler writes.
#[derive(Deserialize)]
struct Profile {
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

#[derive(Deserialize)]
struct Point {
    /// Bytes.
    tb: usize,
    /// Blocks.
    tbk: usize,
    /// Indices of frames, the innermost first.
    fs: Vec<usize>,
}

/// Runs `work`, which does the same `times` times, and returns the stacks that allocate each time, the most allocations first.
pub(super) fn sites(times: usize, work: impl FnOnce()) -> Vec<Site> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("heap.json");
    let profiler = dhat::Profiler::builder().file_name(&file).trim_backtraces(None).build();
    work();
    drop(profiler);
    let Profile { pps, ftbl } = serde_json::from_slice(&fs::read(&file).expect("a profile")).expect("a profile");
    let each = |total: usize| (total + times / 2) / times;
    let mut sites: Vec<Site> = pps
        .into_iter()
        .filter(|point| each(point.tbk) > 0)
        .map(|Point { tb, tbk, fs }| Site {
            calls: each(tbk),
            bytes: each(tb),
            stack: fs.into_iter().map(|frame| position(&ftbl[frame]).to_owned()).collect(),
        })
        .collect();
    sites.sort_by(|a, b| (b.calls, &a.stack).cmp(&(a.calls, &b.stack)));
    sites
}

/// Returns a frame without its address and column: `FUNCTION (FILE:LINE)`. Async functions have no other name than their file.
fn position(frame: &str) -> &str {
    let frame = frame.split_once(": ").map_or(frame, |(_, rest)| rest);
    frame.rsplit_once(':').map_or(frame, |(frame, _)| frame)
}

//! Measures the memory of an exposition.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::Server;
use crate::targets::memory_folder;

/// Prints resident memory for each number of expositions, and the growth with each further one.
pub(crate) async fn run(tamis: &Path, counts: &[usize], tools: usize) -> Result<()> {
    println!("{:>12} {:>14} {:>18} {:>12}", "expositions", "own memory kB", "kB an exposition", "ready s");
    let mut first: Option<(usize, u64)> = None;
    for &count in counts {
        let folder = tempfile::tempdir()?;
        memory_folder(folder.path(), count, tools)?;
        let start = Instant::now();
        let server = Server::tamis(tamis, folder.path(), &[], Duration::from_secs(300)).await?;
        let ready = start.elapsed();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let memory = server.memory()?;
        let each = first.map_or("-".to_owned(), |(n, base)| {
            format!("{:.1}", (memory.saturating_sub(base)) as f64 / 1000.0 / (count - n) as f64)
        });
        println!("{count:>12} {:>14} {each:>18} {:>12.2}", memory / 1000, ready.as_secs_f64());
        first.get_or_insert((count, memory));
    }
    Ok(())
}

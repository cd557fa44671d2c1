//! Starts of programs that are not under test (etcd, kube-apiserver, Prometheus, the collector), repeated when another
//! program takes their port.
//!
//! This is the only retry in the test suite. A port is reserved against other tests, but any other program of the machine
//! may bind it before its owner does. Tests themselves are never repeated, and neither are starts of Tamis.

use std::env;
use std::fs::File;
use std::io::Write as _;

use anyhow::{Context, Result};

/// Names a file that gets a line for each repeated start. `cargo xtask` sets it, and lists the lines after the tests.
const REPORT: &str = "TAMIS_TEST_STARTS";
const ATTEMPTS: u32 = 3;
/// What each of the programs logs when its port is taken.
const TAKEN: &str = "address already in use";

/// Starts a program, and starts it again, on other ports, when its port was taken; at most three times in all.
///
/// # Errors
/// Those of the last start, or the report cannot be written.
pub(crate) async fn repeated<T>(program: &str, start: impl AsyncFn() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match start().await {
            Err(error) if attempt < ATTEMPTS && is_taken(&error) => {
                report(&format!("{program}: start {attempt} of {ATTEMPTS} found its port taken"))?;
                attempt += 1;
            }
            other => return other,
        }
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains(TAKEN)
}

fn report(line: &str) -> Result<()> {
    eprintln!("{line}");
    let Some(file) = env::var_os(REPORT) else { return Ok(()) };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let mut file = File::options().create(true).append(true).open(&file).with_context(|| format!("{file:?}"))?;
    // One write, so that lines of tests that run at once do not mix.
    Ok(file.write_all(format!("{test}: {line}\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::bail;

    use super::{ATTEMPTS, repeated};

    /// How often a program is started that fails with this text until it has been started so many times.
    async fn starts(failure: &str, until: u32) -> (u32, bool) {
        let count = Cell::new(0);
        let result = repeated("a program", async || {
            count.set(count.get() + 1);
            if count.get() < until {
                bail!("{failure}");
            }
            Ok(())
        });
        let succeeded = result.await.is_ok();
        (count.get(), succeeded)
    }

    #[tokio::test]
    async fn only_a_taken_port_repeats_a_start_and_at_most_twice() {
        let taken = "etcd ended: listen tcp 127.0.0.1:20001: bind: address already in use";
        assert_eq!(starts(taken, 1).await, (1, true));
        assert_eq!(starts(taken, 2).await, (2, true));
        assert_eq!(starts(taken, ATTEMPTS + 1).await, (ATTEMPTS, false));
        assert_eq!(starts("tamis is not ready", 2).await, (1, false));
    }
}

//! Divides the file descriptors that the process may have.

use std::num::NonZero;

/// Descriptors of a worker's runtime: two of its event queue, one to wake it, and one for signals.
const OF_A_WORKER: u64 = 4;

/// The limit of descriptors from which idle connections to upstreams are not restricted.
const PLENTY: u64 = 2_048;

/// Returns `RLIMIT_NOFILE` of this process, if the system reports it.
pub(crate) fn limit() -> Option<u64> {
    read(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

fn read(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the number of workers whose runtimes take at most a quarter of the limit, and the limit without them.
pub(crate) fn workers(limit: Option<u64>, wanted: NonZero<usize>) -> (NonZero<usize>, Option<u64>) {
    let Some(limit) = limit else { return (wanted, None) };
    let most = usize::try_from(limit / 4 / OF_A_WORKER).unwrap_or(usize::MAX);
    let workers = wanted.min(NonZero::new(most).unwrap_or(NonZero::<usize>::MIN));
    (workers, Some(limit.saturating_sub(workers.get() as u64 * OF_A_WORKER)))
}

/// Returns the maximum number of callers' connections: five eighths of the limit. The rest is for upstreams, files,
/// watches and the admin port.
pub(crate) fn connections(limit: Option<u64>, wanted: usize) -> usize {
    let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit / 8 * 5).unwrap_or(usize::MAX));
    wanted.min(most).max(1)
}

/// Returns the maximum number of idle connections to one upstream.
pub(crate) fn idle_per_host(limit: Option<u64>, wanted: usize) -> usize {
    match limit {
        Some(limit) if limit < PLENTY => wanted.min(usize::try_from(limit / 32).unwrap_or(usize::MAX)).max(1),
        _ => wanted,
    }
}

/// Returns whether an error means that the process (`EMFILE`) or the machine (`ENFILE`) has no descriptor left.
pub(crate) fn are_exhausted(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_soft_one() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             94992                94992                processes \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(read(text), Some(1024));
        assert_eq!(read("Max open files            unlimited            unlimited            files"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn descriptors_are_divided() {
        for (limit, connections_of, idle) in
            [(Some(256), 160, 8), (Some(1_024), 640, 32), (Some(65_536), 10_000, 64), (None, 10_000, 64)]
        {
            assert_eq!(connections(limit, 10_000), connections_of, "{limit:?}");
            assert_eq!(idle_per_host(limit, 64), idle, "{limit:?}");
        }
        assert_eq!((connections(Some(0), 10), idle_per_host(Some(0), 64)), (1, 1));
    }

    #[test]
    fn workers_leave_descriptors_to_connections() {
        for (limit, wanted, started, left) in [
            (Some(256), 2, 2, Some(248)),
            (Some(256), 100, 16, Some(192)),
            (Some(1_024), 256, 64, Some(768)),
            (Some(0), 8, 1, Some(0)),
            (None, 1_024, 1_024, None),
        ] {
            let (workers, rest) = workers(limit, NonZero::new(wanted).unwrap());
            assert_eq!((workers.get(), rest), (started, left), "{limit:?} {wanted}");
        }
    }
}

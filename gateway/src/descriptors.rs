//! Divides the file descriptors that the process may have.

use std::num::NonZero;

use crate::upstream::IdleLimits;

/// Descriptors of a worker's runtime: two of its event queue, one to wake it, and one for signals.
const OF_A_WORKER: u64 = 4;

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

/// Returns how many unused connections to upstreams are kept: an eighth of the limit at most, and a quarter of these to one host.
pub(crate) fn idle(limit: Option<u64>, wanted: IdleLimits) -> IdleLimits {
    let Some(limit) = limit else { return wanted };
    let part = |of: u64, wanted: usize| wanted.min(usize::try_from(limit / of).unwrap_or(usize::MAX)).max(1);
    IdleLimits { per_host: part(32, wanted.per_host), total: part(8, wanted.total) }
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
        let wanted = IdleLimits { per_host: 256, total: 1_024 };
        for (limit, connections_of, per_host, total) in [
            (Some(0), 1, 1, 1),
            (Some(256), 160, 8, 32),
            (Some(1_024), 640, 32, 128),
            (Some(65_536), 10_000, 256, 1_024),
            (None, 10_000, 256, 1_024),
        ] {
            assert_eq!(connections(limit, 10_000), connections_of, "{limit:?}");
            assert_eq!(idle(limit, wanted), IdleLimits { per_host, total }, "{limit:?}");
        }
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

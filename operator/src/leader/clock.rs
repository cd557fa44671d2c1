//! The clock by which a lease expires.

use std::ops::Add;
use std::time::Duration;

/// A moment, counted from the start of the machine. The clock advances while the process is stopped and while the
/// machine sleeps, so that a claim that expired in the meantime is seen as expired after waking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// Returns the current moment.
    #[must_use]
    pub fn now() -> Self {
        Self(since_start())
    }

    /// Returns the moment at a time after the machine's start. For tests.
    #[must_use]
    pub const fn at(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// Returns the time since `earlier`. Zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Reads `CLOCK_BOOTTIME`. `CLOCK_MONOTONIC`, which `Instant` reads, stops while a machine is suspended.
#[cfg(target_os = "linux")]
fn since_start() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
fn since_start() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

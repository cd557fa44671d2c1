//! The clock by which a lease runs out.

use std::ops::Add;
use std::time::Duration;

/// A moment of this machine since it was started. It goes on while the process is stopped and while the machine
/// sleeps: a claim that ran out in the meantime is seen as such by whoever wakes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self(since_start())
    }

    /// A moment so long after the machine's start; what tests reckon with.
    #[must_use]
    pub const fn at(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long after `earlier` this is; zero where it is before.
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

/// `CLOCK_MONOTONIC`, which `Instant` reads, stands still while a machine is suspended.
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

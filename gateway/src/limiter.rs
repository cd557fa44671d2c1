//! Limits the rate and the number of concurrent calls of one exposition. Lock-free: a call touches two atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tamis_config::CallLimits;

/// The limit that rejected a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many calls a second; the time until the next call is admitted.
    Rate(Duration),
    /// Too many calls at once.
    Concurrent,
}

/// Limits on the calls of one exposition. Survives reloads that do not change the limits.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Nanoseconds that one call uses up; 0 is unlimited.
    interval: u64,
    /// Nanoseconds by which calls may be early: the burst.
    tolerance: u64,
    concurrent: u32,
    start: Instant,
    /// The time at which the bucket is full again, in nanoseconds since `start` (generic cell rate algorithm).
    full_at: AtomicU64,
    under_way: AtomicU32,
}

impl Limiter {
    /// Creates a limiter. Without a burst, the calls of one second may arrive at once.
    pub(crate) fn new(limits: &CallLimits) -> Self {
        let interval = limits.requests_per_second.map_or(0, |rate| 1_000_000_000 / u64::from(rate.max(1)));
        let burst = limits.burst.or(limits.requests_per_second).unwrap_or(1).max(1);
        Self {
            interval,
            tolerance: interval.saturating_mul(u64::from(burst)),
            concurrent: limits.concurrent.unwrap_or(u32::MAX),
            start: Instant::now(),
            full_at: AtomicU64::new(0),
            under_way: AtomicU32::new(0),
        }
    }

    /// Admits a call, or returns the limit that rejects it.
    pub(crate) fn admit(self: &Arc<Self>, now: Instant) -> Result<Admitted, Refusal> {
        // A call that is refused takes no place, not even for a moment: another thread would refuse a call that fits.
        let next = |under_way: u32| (under_way < self.concurrent).then(|| under_way + 1);
        let taken = self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.map_err(|_| Refusal::Concurrent)?;
        let admitted = Admitted(Arc::clone(self));
        self.spend(now).map(|()| admitted)
    }

    fn spend(&self, now: Instant) -> Result<(), Refusal> {
        if self.interval == 0 {
            return Ok(());
        }
        let now = u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        let mut full_at = self.full_at.load(Ordering::Relaxed);
        loop {
            let next = full_at.max(now).saturating_add(self.interval);
            if next - now > self.tolerance {
                return Err(Refusal::Rate(Duration::from_nanos(next - now - self.tolerance)));
            }
            match self.full_at.compare_exchange_weak(full_at, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => full_at = seen,
            }
        }
    }
}

/// An admitted call. It counts as concurrent until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<Limiter>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: Option<u32>, burst: Option<u32>, concurrent: Option<u32>) -> Arc<Limiter> {
        let limits = CallLimits { requests_per_second: rate, burst, concurrent, ..CallLimits::default() };
        Arc::new(Limiter::new(&limits))
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let limiter = limiter(Some(10), Some(3), None);
        let start = limiter.start;
        for _ in 0..3 {
            assert!(limiter.admit(start).is_ok());
        }
        let Err(Refusal::Rate(wait)) = limiter.admit(start) else { panic!("over the burst") };
        assert_eq!(wait, Duration::from_millis(100));
        assert!(limiter.admit(start + Duration::from_millis(99)).is_err());
        assert!(limiter.admit(start + Duration::from_millis(100)).is_ok());
        assert!(limiter.admit(start + Duration::from_millis(100)).is_err());
        for _ in 0..3 {
            assert!(limiter.admit(start + Duration::from_secs(5)).is_ok());
        }
        assert!(limiter.admit(start + Duration::from_secs(5)).is_err());
    }

    #[test]
    fn calls_at_once_are_counted_and_given_back() {
        let limiter = limiter(None, None, Some(2));
        let now = Instant::now();
        let first = limiter.admit(now).unwrap();
        let second = limiter.admit(now).unwrap();
        assert_eq!(limiter.admit(now).unwrap_err(), Refusal::Concurrent);
        assert_eq!(limiter.admit(now).unwrap_err(), Refusal::Concurrent);
        drop(first);
        assert!(limiter.admit(now).is_ok());
        drop(second);
        assert_eq!(limiter.under_way.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn refused_calls_take_no_place() {
        let limiter = limiter(None, None, Some(2));
        let now = Instant::now();
        let _held = [limiter.admit(now).unwrap(), limiter.admit(now).unwrap()];
        std::thread::scope(|scope| {
            let refused = || {
                for _ in 0..200_000 {
                    assert_eq!(limiter.admit(now).unwrap_err(), Refusal::Concurrent);
                }
            };
            let threads = [scope.spawn(refused), scope.spawn(refused)];
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                assert_eq!(limiter.under_way.load(Ordering::Relaxed), 2);
            }
        });
    }
}

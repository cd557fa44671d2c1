//! How long to wait before something that failed is tried again.

use std::time::Duration;

/// Returns how long to wait after so many failures in a row: `first`, doubled with each failure, and `most` at most. The time is
/// spread over its upper half, so that what failed together is not tried again together. `random` is between 0 and 1.
pub(crate) fn after_failures(failures: u32, (first, most): (Duration, Duration), random: f64) -> Duration {
    let whole = first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(most);
    whole.mul_f64(0.5 + random / 2.0)
}

/// Returns a random number between 0 and 1; 0.5 if the system has none.
pub(crate) fn random() -> f64 {
    let mut bytes = [0; 4];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

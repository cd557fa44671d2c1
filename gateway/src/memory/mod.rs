//! One budget in bytes for the memory of calls: requests, upstream answers, trees, answers until they are written,
//! audit records until they are written, streams and connections.
//!
//! A call holds one [`Reservation`]. It takes from the pool in steps of [`STEP`], so that a small call touches the pool
//! once. It moves together with the data: into the response's body, or into the queue of the audit log.

mod buffer;
mod chain;
mod held;
mod limit;
mod needs;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::shares::{Grant, Resource, Share, Standing};

pub(crate) use buffer::Buffer;
pub(crate) use chain::{Chain, Shared};
pub(crate) use held::Held;
pub use limit::{Basis, MemoryLimit};
pub(crate) use needs::{STREAM, arguments_need, connection_part, light_need};

/// Bytes that are taken from the pool at once.
pub(crate) const STEP: u64 = 64 << 10;
/// Maximum wait of an exposition above an equal share.
const MAX_WAIT_ABOVE: Duration = Duration::from_millis(100);
/// Maximum wait of other expositions. They wait for calls of expositions above an equal share, which have time limits.
const MAX_WAIT_BELOW: Duration = Duration::from_secs(10);
/// Interval between two attempts while waiting. Releasing memory wakes no waiter, so it costs nothing.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The gateway has no memory for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway's memory is in use")]
pub struct Exhausted;

/// Memory of one call, given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    grant: Grant,
    /// The bytes of the grant that are used.
    used: u64,
    /// The size that the grant would have had after the last refused increase.
    refused: u64,
}

impl Reservation {
    /// Reserves a first step, or waits for room.
    ///
    /// # Errors
    /// [`Exhausted`]: there was no room within the time that the exposition may wait.
    pub(crate) async fn open(share: &Arc<Share>) -> Result<Self, Exhausted> {
        if let Some(opened) = Self::try_open(share) {
            return Ok(opened);
        }
        let grant = Box::pin(wait(|| share.take(Resource::Bytes, STEP))).await?;
        Ok(Self { grant, used: 0, refused: 0 })
    }

    /// Reserves a first step if there is room now.
    pub(crate) fn try_open(share: &Arc<Share>) -> Option<Self> {
        share.take(Resource::Bytes, STEP).ok().map(|grant| Self { grant, used: 0, refused: 0 })
    }

    /// Creates a reservation with a budget that no other shares.
    ///
    /// # Errors
    /// [`Exhausted`]: the budget is smaller than a step.
    pub fn alone(budget: u64) -> Result<Self, Exhausted> {
        Self::try_open(&Share::alone(budget)).ok_or(Exhausted)
    }

    /// Reserves more bytes, or waits for room.
    ///
    /// # Errors
    /// [`Exhausted`]; what was reserved before stays.
    pub(crate) async fn take(&mut self, bytes: u64) -> Result<(), Exhausted> {
        if !self.try_take(bytes) {
            let (missing, grant) = (self.missing(bytes), &mut self.grant);
            // In a box, so that the futures of calls have no room for a wait that is rare.
            if let Err(exhausted) = Box::pin(wait(|| grant.grow(missing))).await {
                self.refused = grant.amount().saturating_add(missing);
                return Err(exhausted);
            }
            self.used = self.used.saturating_add(bytes);
        }
        Ok(())
    }

    /// Reserves more bytes if there is room now.
    pub(crate) fn try_take(&mut self, bytes: u64) -> bool {
        let missing = self.missing(bytes);
        let taken = missing == 0 || self.grant.grow(missing).is_ok();
        if taken {
            self.used = self.used.saturating_add(bytes);
        }
        taken
    }

    /// Returns whether the last refused increase exceeds what one exposition can ever hold, so that waiting cannot
    /// help.
    pub(crate) fn can_never_fit(&self) -> bool {
        !self.grant.could_be(self.refused)
    }

    /// Returns the bytes that are used.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the bytes, in whole steps, that must be taken from the pool before `bytes` more can be used.
    fn missing(&self, bytes: u64) -> u64 {
        let missing = self.used.saturating_add(bytes).saturating_sub(self.grant.amount());
        missing.checked_next_multiple_of(STEP).unwrap_or(missing)
    }

    /// Releases bytes. Whole steps go back to the pool.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.shrink_to(self.used.saturating_sub(bytes));
    }

    /// Releases all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        self.used = bytes.min(self.used);
        self.grant.shrink_to(self.used.next_multiple_of(STEP).max(STEP));
    }

    /// Moves bytes into another reservation.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let grant = self.grant.split(bytes);
        self.used = self.used.saturating_sub(bytes);
        Self { used: grant.amount(), grant, refused: 0 }
    }

    /// Takes over another reservation of the same exposition.
    pub(crate) fn absorb(&mut self, other: Self) {
        let Self { grant, used, refused: _ } = other;
        self.grant.absorb(grant);
        self.used += used;
    }
}

/// Returns the maximum wait of an exposition with this standing.
fn max_wait(standing: Standing) -> Duration {
    match standing {
        Standing::Above => MAX_WAIT_ABOVE,
        Standing::Crowded | Standing::Below => MAX_WAIT_BELOW,
    }
}

/// Retries until there is room, for as long as the exposition's standing allows.
async fn wait<T>(mut attempt: impl FnMut() -> Result<T, Standing>) -> Result<T, Exhausted> {
    let refused = match attempt() {
        Ok(taken) => return Ok(taken),
        Err(standing) => standing,
    };
    let start = Instant::now();
    let mut standing = refused;
    loop {
        if start.elapsed() >= max_wait(standing) {
            return Err(Exhausted);
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
        match attempt() {
            Ok(taken) => return Ok(taken),
            Err(now) => standing = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use tamis_config::ExpositionId;

    use super::*;
    use crate::shares::{Limits, Shares};

    fn id(namespace: &str) -> ExpositionId {
        ExpositionId { namespace: namespace.to_owned(), name: "x".to_owned() }
    }

    fn shares(bytes: u64) -> (Shares, Arc<Share>, Arc<Share>) {
        let shares = Shares::new(Limits { bytes, floor: 4 * STEP, calls: 1, streams: 1 });
        let (one, other) = (shares.of(&id("a")), shares.of(&id("b")));
        (shares, one, other)
    }

    #[tokio::test]
    async fn a_reservation_takes_whole_steps_and_gives_them_back() {
        let (shares, share, _) = shares(64 * STEP);
        let used = || shares.used(Resource::Bytes) / STEP;
        let mut held = Reservation::open(&share).await.unwrap();
        for (bytes, steps) in [(0, 1), (STEP, 1), (1, 2), (STEP - 1, 2), (10 * STEP, 12)] {
            held.take(bytes).await.unwrap();
            assert_eq!(used(), steps, "{bytes}");
        }
        for (bytes, steps) in [(STEP - 1, 12), (1, 11), (9 * STEP, 2)] {
            held.release(bytes);
            assert_eq!(used(), steps, "{bytes}");
        }
        let part = held.split(STEP + 1);
        assert_eq!((part.used, held.used, used()), (STEP + 1, STEP - 1, 2));
        held.absorb(part);
        held.shrink_to(5);
        assert_eq!((held.used, used()), (5, 1));
        held.shrink_to(100);
        assert_eq!(held.used, 5, "keeping takes nothing");
        drop(held);
        assert_eq!(used(), 0);
    }

    #[tokio::test]
    async fn an_exposition_above_its_share_is_refused_and_one_below_waits_for_room() {
        assert_eq!(max_wait(Standing::Above), Duration::from_millis(100));
        assert_eq!([Standing::Crowded, Standing::Below].map(max_wait), [Duration::from_secs(10); 2]);
        let (shares, greedy, modest) = shares(16 * STEP);
        let start = Instant::now();
        let mut held = Reservation::open(&greedy).await.unwrap();
        held.take(12 * STEP).await.unwrap();
        assert_eq!(held.take(STEP).await, Err(Exhausted));
        assert!(start.elapsed() >= MAX_WAIT_ABOVE, "it waited");

        let mut served = Reservation::open(&modest).await.unwrap();
        served.take(2 * STEP).await.unwrap();
        let mut third = Reservation::open(&shares.of(&id("c"))).await.unwrap();
        third.take(2 * STEP).await.unwrap();
        assert_eq!(served.grant.grow(1), Err(Standing::Below), "there is nothing left");
        let give = async {
            tokio::time::sleep(2 * RETRY_INTERVAL).await;
            held.release(8 * STEP);
        };
        let (taken, ()) = tokio::join!(served.take(STEP), give);
        assert_eq!(taken, Ok(()));
    }

    #[tokio::test]
    async fn a_wait_for_memory_is_bounded() {
        let (_, _, other) = shares(3 * STEP);
        let mut mine = Reservation::open(&other).await.unwrap();
        for more_than_there_is in [9 * STEP, u64::MAX] {
            assert_eq!(mine.take(more_than_there_is).await, Err(Exhausted));
        }
        assert!(Reservation::alone(STEP - 1).is_err());
    }
}

//! Divides the resources of a gateway (bytes, calls, streams) among its expositions.
//!
//! While a pool has room, any exposition may take from it. The last eighths are kept for those that hold little:
//!
//! | requester | may fill the pool to |
//! |---|---|
//! | an exposition above an equal share | 6/8 |
//! | an exposition below it, in a namespace that is above an equal share | 7/8 |
//! | an exposition and a namespace that are both below | 8/8 |
//!
//! An equal share of the pool is the part that each active namespace would get if one more joined. An exposition's
//! share is the same part of its namespace's share. Therefore no exposition can deny another one its first eighth, and
//! no namespace can deny another one its first eighth. A grant costs three atomic operations, and three more when it is
//! released. There is no lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tamis_config::ExpositionId;

/// A shared resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Bytes of memory.
    Bytes,
    /// Calls in flight.
    Calls,
    /// Open streams of notifications.
    Streams,
}

const RESOURCES: usize = 3;

/// How the use of an exposition compares with an equal share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The exposition and its namespace hold no more than an equal share.
    Below,
    /// The exposition holds no more than an equal share, but its namespace does.
    Crowded,
    /// The exposition holds more.
    Above,
}

impl Standing {
    /// Returns how far a pool may be filled by a request of this standing.
    fn ceiling(self, limit: u64) -> u64 {
        match self {
            Self::Below => limit,
            Self::Crowded => limit - limit / 8,
            Self::Above => limit - limit / 4,
        }
    }
}

/// The input of a decision. The uses include the requested amount, and the counts of active ones include the requester.
#[derive(Debug, Clone, Copy)]
struct View {
    limit: u64,
    /// The minimum of an exposition's share.
    floor: u64,
    namespaces: u64,
    namespace_used: u64,
    members: u64,
    member_used: u64,
}

fn standing(view: View) -> Standing {
    let View { limit, floor, namespaces, namespace_used, members, member_used } = view;
    let of_namespace = limit / (namespaces + 1);
    let of_member = (of_namespace / (members + 1)).max(floor);
    match (member_used > of_member, namespace_used > of_namespace) {
        (true, _) => Standing::Above,
        (false, true) => Standing::Crowded,
        (false, false) => Standing::Below,
    }
}

#[derive(Debug)]
struct Pool {
    limit: u64,
    floor: u64,
    used: AtomicU64,
    /// Namespaces that hold something.
    active: AtomicU64,
}

#[derive(Debug, Default)]
struct NamespaceUse {
    used: AtomicU64,
    /// Expositions that hold something.
    active: AtomicU64,
}

/// Adds to a use, and to the count of active users if this one becomes active.
fn add(used: &AtomicU64, active: &AtomicU64, amount: u64) {
    if used.fetch_add(amount, Ordering::Relaxed) == 0 {
        active.fetch_add(1, Ordering::Relaxed);
    }
}

/// The reverse of [`add`].
fn subtract(used: &AtomicU64, active: &AtomicU64, amount: u64) {
    if used.fetch_sub(amount, Ordering::Relaxed) == amount {
        active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Limits of the pools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes.
    pub(crate) bytes: u64,
    /// The minimum of an exposition's share in bytes, however many expositions there are.
    pub(crate) floor: u64,
    /// Calls.
    pub(crate) calls: u64,
    /// Streams.
    pub(crate) streams: u64,
}

/// The pools, and the expositions that share them.
#[derive(Debug)]
pub(crate) struct Shares {
    pools: Arc<[Pool; RESOURCES]>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    namespaces: HashMap<String, Weak<Namespace>>,
    expositions: HashMap<ExpositionId, Weak<Share>>,
    /// The number of entries above which unused ones are removed.
    prune_above: usize,
}

#[derive(Debug, Default)]
struct Namespace([NamespaceUse; RESOURCES]);

/// The share of one exposition.
#[derive(Debug)]
pub(crate) struct Share {
    pools: Arc<[Pool; RESOURCES]>,
    namespace: Arc<Namespace>,
    used: [AtomicU64; RESOURCES],
}

impl Shares {
    pub(crate) fn new(limits: Limits) -> Self {
        let Limits { bytes, floor, calls, streams } = limits;
        let pool = |limit, floor| Pool { limit, floor, used: AtomicU64::new(0), active: AtomicU64::new(0) };
        // In the order of `Resource`.
        Self { pools: Arc::new([pool(bytes, floor), pool(calls, 1), pool(streams, 1)]), known: Mutex::default() }
    }

    /// Returns the share of an exposition. Across reloads it is the same one for as long as anything holds it.
    pub(crate) fn of(&self, id: &ExpositionId) -> Arc<Share> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = known.expositions.get(id).and_then(Weak::upgrade) {
            return share;
        }
        if known.expositions.len() + known.namespaces.len() > known.prune_above {
            known.expositions.retain(|_, share| share.strong_count() > 0);
            known.namespaces.retain(|_, namespace| namespace.strong_count() > 0);
            known.prune_above = 64 + 2 * (known.expositions.len() + known.namespaces.len());
        }
        let namespace = known.namespaces.get(&id.namespace).and_then(Weak::upgrade).unwrap_or_default();
        known.namespaces.insert(id.namespace.clone(), Arc::downgrade(&namespace));
        let share = Arc::new(Share { pools: Arc::clone(&self.pools), namespace, used: Default::default() });
        known.expositions.insert(id.clone(), Arc::downgrade(&share));
        share
    }

    /// Returns how much of a pool is taken.
    pub(crate) fn used(&self, what: Resource) -> u64 {
        self.pools[what as usize].used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Creates a share with pools that no other exposition uses.
    pub(crate) fn alone(bytes: u64) -> Arc<Self> {
        let limits = Limits { bytes, floor: bytes, calls: 1, streams: 1 };
        Shares::new(limits).of(&ExpositionId { namespace: String::new(), name: String::new() })
    }

    /// Takes an amount from a pool.
    ///
    /// # Errors
    /// The standing of the exposition, if the pool has no room for it.
    pub(crate) fn take(self: &Arc<Self>, what: Resource, amount: u64) -> Result<Grant, Standing> {
        self.charge(what, amount)?;
        Ok(Grant { share: Arc::clone(self), what, amount })
    }

    fn charge(&self, what: Resource, amount: u64) -> Result<(), Standing> {
        let (pool, namespace, used) = self.counters(what);
        let mine = used.load(Ordering::Relaxed);
        let namespace_used = namespace.used.load(Ordering::Relaxed);
        let standing = standing(View {
            limit: pool.limit,
            floor: pool.floor,
            namespaces: pool.active.load(Ordering::Relaxed) + u64::from(namespace_used == 0),
            namespace_used: namespace_used.saturating_add(amount),
            members: namespace.active.load(Ordering::Relaxed) + u64::from(mine == 0),
            member_used: mine.saturating_add(amount),
        });
        let ceiling = standing.ceiling(pool.limit);
        let fits = |used: u64| used.checked_add(amount).filter(|after| *after <= ceiling);
        pool.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| standing)?;
        if amount > 0 {
            add(&namespace.used, &pool.active, amount);
            add(used, &namespace.active, amount);
        }
        Ok(())
    }

    /// Returns whether this amount can be taken while no other exposition holds any.
    fn fits_alone(&self, what: Resource, amount: u64) -> bool {
        let (pool, ..) = self.counters(what);
        let alone = View {
            limit: pool.limit,
            floor: pool.floor,
            namespaces: 1,
            namespace_used: amount,
            members: 1,
            member_used: amount,
        };
        amount <= standing(alone).ceiling(pool.limit)
    }

    fn give_back(&self, what: Resource, amount: u64) {
        if amount > 0 {
            let (pool, namespace, used) = self.counters(what);
            subtract(used, &namespace.active, amount);
            subtract(&namespace.used, &pool.active, amount);
            pool.used.fetch_sub(amount, Ordering::Relaxed);
        }
    }

    fn counters(&self, what: Resource) -> (&Pool, &NamespaceUse, &AtomicU64) {
        let at = what as usize;
        (&self.pools[at], &self.namespace.0[at], &self.used[at])
    }
}

/// An amount taken from a pool. It is released on drop.
#[derive(Debug)]
pub(crate) struct Grant {
    share: Arc<Share>,
    what: Resource,
    amount: u64,
}

impl Grant {
    /// Returns the amount.
    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns whether the grant could have this amount while no other exposition holds any.
    pub(crate) fn could_be(&self, amount: u64) -> bool {
        self.share.fits_alone(self.what, amount)
    }

    /// Takes more from the pool.
    ///
    /// # Errors
    /// The standing of the exposition, if the pool has no room for it. The grant then stays as it was.
    pub(crate) fn grow(&mut self, by: u64) -> Result<(), Standing> {
        self.share.charge(self.what, by)?;
        self.amount += by;
        Ok(())
    }

    /// Releases all but `amount`.
    pub(crate) fn shrink_to(&mut self, amount: u64) {
        if let Some(excess) = self.amount.checked_sub(amount) {
            self.share.give_back(self.what, excess);
            self.amount = amount;
        }
    }

    /// Moves a part, at most the whole, into another grant.
    pub(crate) fn split(&mut self, amount: u64) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Self { share: Arc::clone(&self.share), what: self.what, amount }
    }

    /// Moves all of another grant of the same share into this one.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.share, &other.share) && self.what == other.what);
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.share.give_back(self.what, self.amount);
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;

//! The levels of log messages that legacy clients have set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mcp::level::Level;
use crate::recent::Recent;

/// The most sessions whose level is kept.
const MOST: usize = 4_096;

/// The level of each session that has set one. A gateway keeps no other state of a session, and another replica does not know the
/// level. Without one, a session gets no log messages.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    levels: Mutex<Recent<Box<str>, Level>>,
    /// Whether a session has ever set a level. Most gateways have no such session, and look up none.
    is_used: AtomicBool,
}

impl Levels {
    fn lock(&self) -> MutexGuard<'_, Recent<Box<str>, Level>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a session has set a level.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Sets the level of a session. That of the session that was unused for longest goes if there are too many.
    pub(crate) fn set(&self, session: &str, level: Level) {
        self.is_used.store(true, Ordering::Relaxed);
        self.lock().insert(session.into(), level, MOST);
    }

    /// Returns the level of a session.
    pub(crate) fn get(&self, session: &str) -> Option<Level> {
        self.lock().used(session).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_level_that_it_set_last() {
        let levels = Levels::default();
        assert!(!levels.is_used());
        levels.set("a", Level::Error);
        assert!(levels.is_used());
        levels.set("b", Level::Info);
        levels.set("a", Level::Debug);
        assert_eq!(["a", "b", "c"].map(|session| levels.get(session)), [Some(Level::Debug), Some(Level::Info), None]);
    }

    #[test]
    fn the_session_that_was_unused_for_longest_goes() {
        let levels = Levels::default();
        (0..MOST).for_each(|n| levels.set(&n.to_string(), Level::Info));
        assert!(levels.get("0").is_some());
        levels.set("new", Level::Info);
        assert_eq!(levels.lock().len(), MOST);
        assert_eq!(["0", "1", "2", "new"].map(|session| levels.get(session).is_some()), [true, false, true, true]);
    }
}

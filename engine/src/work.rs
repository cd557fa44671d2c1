//! The work of one run: how many steps each stage may take, and whether the caller still waits for the result.
//!
//! A stage ends early for one of two reasons. It reaches its bound: the stage has failed, the same way on every run.
//! Or the caller's interrupt fires: the run then has no result at all. Both states are sticky. A loop leaves when
//! [`Work::spend`] returns `false`; the code that began the stage then calls [`Work::end_stage`], and the code that
//! began the run calls [`Work::is_interrupted`]. So no loop has to carry an error, and a forgotten check costs time
//! but never gives a wrong answer.

use std::cell::Cell;
use std::fmt;

use crate::tokens::Memo;

/// Steps between two polls of the interrupt: 10 to 100 microseconds.
const POLL: usize = 8192;

/// Steps that every stage may take, whatever the size of the output.
pub(crate) const STEPS: usize = 2_500_000;
/// Additional steps that a stage may take for each byte of the original output.
pub(crate) const STEPS_PER_BYTE: usize = 8;

/// Returns the number of steps that one stage may take on an output of `bytes` bytes.
#[must_use]
pub fn stage_steps(bytes: usize) -> usize {
    bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS)
}

/// Steps that `text` may take, whatever the size of the output. The bound is higher than [`STEPS`] because computing
/// the states of its expressions takes steps too.
const TEXT_STEPS: usize = 20_000_000;

/// Returns the number of steps that `text` may take on an output of `bytes` bytes.
#[must_use]
pub fn text_steps(bytes: usize) -> usize {
    bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(TEXT_STEPS)
}

/// A run that was interrupted because the caller no longer waits. It says nothing about the output or the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the filter was interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Counts the steps of one run.
pub(crate) struct Work<'i> {
    interrupt: Option<&'i dyn Fn() -> bool>,
    /// Steps that [`Work::spend`] may still hand out before it has to check the bounds and the interrupt: the rest of
    /// a grant.
    left: Cell<usize>,
    /// The size of the last grant, to which `left` was set.
    granted: Cell<usize>,
    /// Steps of the current stage, without those of the current grant.
    used: Cell<usize>,
    /// Steps that the current stage may take.
    bound: Cell<usize>,
    /// Steps that the rest of the run may take, all stages together, without the current grant.
    allowance: Cell<usize>,
    exceeded: Cell<bool>,
    interrupted: Cell<bool>,
    /// The tokens that the run has counted.
    pub(crate) counts: Memo,
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("used", &self.used()).field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl<'i> Work<'i> {
    /// Returns work that nothing interrupts; its stages have no bound until [`Work::begin_stage`] sets one.
    pub(crate) fn unlimited() -> Self {
        Self {
            interrupt: None,
            left: Cell::new(0),
            granted: Cell::new(0),
            used: Cell::new(0),
            bound: Cell::new(usize::MAX),
            allowance: Cell::new(usize::MAX),
            exceeded: Cell::new(false),
            interrupted: Cell::new(false),
            counts: Memo::default(),
        }
    }

    /// Returns work that ends when `interrupt` returns `true`.
    pub(crate) fn until(interrupt: &'i dyn Fn() -> bool) -> Self {
        Self { interrupt: Some(interrupt), ..Self::unlimited() }
    }

    /// Returns work that counts as interrupted after about `steps` steps.
    pub(crate) fn at_most(steps: usize) -> Self {
        Self { allowance: Cell::new(steps), ..Self::unlimited() }
    }

    /// Begins a stage that may take `bound` steps.
    pub(crate) fn begin_stage(&self, bound: usize) {
        self.return_grant();
        self.used.set(0);
        self.bound.set(bound);
        self.exceeded.set(false);
    }

    /// Ends the stage, and returns whether it reached its bound. Steps that follow have no bound.
    pub(crate) fn end_stage(&self) -> bool {
        let exceeded = self.exceeded.get();
        self.begin_stage(usize::MAX);
        exceeded
    }

    /// Begins a part of the stage that may take as many steps as a whole stage. Returns `false` where the stage must end.
    #[must_use]
    pub(crate) fn restart(&self) -> bool {
        self.return_grant();
        self.used.set(0);
        !self.exceeded.get() && !self.interrupted.get()
    }

    /// Counts `steps` steps. Returns `false` where the stage must end.
    #[inline(always)]
    #[must_use]
    pub(crate) fn spend(&self, steps: usize) -> bool {
        let left = self.left.get();
        if steps <= left {
            self.left.set(left - steps);
            return true;
        }
        self.spend_slow(steps)
    }

    /// Counts steps that are linear in the size of the output: they are polled, but raise the bound by as much.
    /// Returns `false` where the stage must end.
    #[inline(always)]
    #[must_use]
    pub(crate) fn spend_unbounded(&self, steps: usize) -> bool {
        self.bound.set(self.bound.get().saturating_add(steps));
        self.spend(steps)
    }

    #[inline(never)]
    #[cold]
    fn spend_slow(&self, steps: usize) -> bool {
        self.return_grant();
        self.used.set(self.used.get().saturating_add(steps));
        self.allowance.set(self.allowance.get().saturating_sub(steps));
        if self.interrupted.get() || self.exceeded.get() {
            return false;
        }
        if self.used.get() > self.bound.get() {
            self.exceeded.set(true);
            return false;
        }
        if self.allowance.get() == 0 || self.interrupt.is_some_and(|due| due()) {
            self.interrupted.set(true);
            return false;
        }
        let more = POLL.min(self.bound.get() - self.used.get()).min(self.allowance.get());
        self.left.set(more);
        self.granted.set(more);
        true
    }

    /// Counts the used part of the current grant, and withdraws the rest.
    fn return_grant(&self) {
        let taken = self.granted.get() - self.left.get();
        self.used.set(self.used.get().saturating_add(taken));
        self.allowance.set(self.allowance.get().saturating_sub(taken));
        self.left.set(0);
        self.granted.set(0);
    }

    /// Polls the interrupt now.
    pub(crate) fn poll(&self) -> Result<(), Interrupted> {
        let _ = self.spend_slow(0);
        if self.interrupted.get() { Err(Interrupted) } else { Ok(()) }
    }

    /// Returns whether the stage has reached its bound.
    pub(crate) fn exceeded(&self) -> bool {
        self.exceeded.get()
    }

    /// Returns whether the run is interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    /// Returns the steps of the stage so far.
    pub(crate) fn used(&self) -> usize {
        self.used.get() + (self.granted.get() - self.left.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_met_to_the_step_whatever_polls_between() {
        for bound in [0, 1, 7, POLL - 1, POLL, POLL + 1, 3 * POLL + 5] {
            for size in [1, 3, POLL, 2 * POLL] {
                let asked = Cell::new(0_usize);
                let interrupt = || {
                    asked.set(asked.get() + 1);
                    false
                };
                for work in [Work::unlimited(), Work::until(&interrupt)] {
                    work.begin_stage(bound);
                    let mut taken = 0;
                    while work.spend(size) {
                        taken += size;
                    }
                    assert!(work.exceeded() && !work.is_interrupted());
                    assert_eq!(taken, bound / size * size);
                    assert!(!work.spend(1), "it stays so");
                    work.begin_stage(bound);
                    assert!(!work.exceeded());
                    assert_eq!(work.spend(1), bound > 0, "but not for the next stage");
                }
            }
        }
    }

    #[test]
    fn an_interrupt_is_polled_every_few_steps_and_holds_for_all_stages() {
        let asked = Cell::new(0_usize);
        let interrupt = || {
            asked.set(asked.get() + 1);
            asked.get() > 10
        };
        let work = Work::until(&interrupt);
        work.begin_stage(usize::MAX);
        let steps = (0..).take_while(|_| work.spend(1)).count();
        assert!(work.is_interrupted() && !work.exceeded());
        assert!((9 * POLL..=11 * POLL).contains(&steps), "{steps}");
        work.begin_stage(usize::MAX);
        assert!(!work.spend(1));
        assert_eq!(work.poll(), Err(Interrupted));
    }

    #[test]
    fn an_allowance_is_for_all_stages_together() {
        let work = Work::at_most(100);
        for _ in 0..9 {
            work.begin_stage(50);
            assert!((0..10).all(|_| work.spend(1)));
        }
        work.begin_stage(50);
        assert!((0..50).any(|_| !work.spend(1)));
        assert!(work.is_interrupted());
    }
}

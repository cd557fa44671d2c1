//! The reference executor: every stage on the tree of spans, in order.

use crate::program::Program;
use crate::{Call, Enforcement, Filtered, Input, Refused};

impl Program {
    /// Runs the program over one output, by the fast path where there is one.
    ///
    /// # Errors
    /// [`Refused`] under `Enforced`, where a stage fails: no data then goes to the caller.
    pub fn apply(&self, input: Input<'_>, call: &Call) -> Result<Filtered, Refused> {
        self.apply_reference(input, call)
    }

    /// Runs the program over one output, stage by stage on a tree: what [`Program::apply`] must equal.
    ///
    /// # Errors
    /// [`Refused`] under `Enforced`, where a stage fails: no data then goes to the caller.
    #[doc(hidden)]
    pub fn apply_reference(&self, _input: Input<'_>, _call: &Call) -> Result<Filtered, Refused> {
        todo!("stages")
    }

    /// The posture that the program was compiled for.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        self.0.enforcement
    }
}

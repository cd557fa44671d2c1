//! Counts the memory of the compiled regular expressions of loaded filters. Programs with equal lists of expressions
//! share one automaton, which counts once.

use std::collections::HashSet;

use tamis_engine::Program;

/// Lists of expressions: the identity and the size in bytes of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expressions(Vec<(usize, usize)>);

/// The total size of a set of lists.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    counted: HashSet<usize>,
    bytes: usize,
}

impl Expressions {
    /// Adds the lists of a program.
    pub(crate) fn add(&mut self, program: &Program) {
        self.0.extend(program.expressions());
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// Returns the size of all lists in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns whether there are no lists.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Sum {
    /// Adds lists that were not counted yet.
    pub(crate) fn add(&mut self, expressions: &Expressions) {
        for (list, bytes) in &expressions.0 {
            if self.counted.insert(*list) {
                self.bytes += bytes;
            }
        }
    }

    /// Returns the size of all lists in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

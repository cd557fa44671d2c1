//! What the regular expressions of loaded filters take once compiled. Programs with equal lists share one automaton, which
//! counts once.

use std::collections::HashSet;

use tamis_engine::Program;

/// Lists of expressions, each by its identity, and the bytes that it takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expressions(Vec<(usize, usize)>);

/// The bytes of lists that are held at once.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    counted: HashSet<usize>,
    bytes: usize,
}

impl Expressions {
    /// Adds what a program holds.
    pub(crate) fn add(&mut self, program: &Program) {
        self.0.extend(program.expressions());
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// The bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Sum {
    /// Adds lists that are held.
    pub(crate) fn add(&mut self, expressions: &Expressions) {
        for (list, bytes) in &expressions.0 {
            if self.counted.insert(*list) {
                self.bytes += bytes;
            }
        }
    }

    /// The bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

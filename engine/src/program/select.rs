//! Source paths of `select`.

/// One output member.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// The output key.
    pub(crate) name: Box<str>,
    /// The output key as JSON, with quotes.
    pub(crate) key: Box<str>,
    /// The source path as written, for the report.
    pub(crate) source: Box<str>,
    /// The source path.
    pub(crate) path: Box<[Step]>,
}

/// One step of a source path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A member, by its name.
    Name(Box<str>),
    /// `[n]`: one element.
    Index(usize),
    /// `[*]`: the list of what the rest of the path finds in each element, without the elements in which it finds
    /// nothing. It resolves if the array is empty or one element resolves.
    Each,
}

impl Field {
    /// Returns whether the two fields may give the same value, or one a value that contains the other's.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let meet = |(a, b): (&Step, &Step)| match (a, b) {
            (Step::Name(a), Step::Name(b)) => a == b,
            (Step::Index(a), Step::Index(b)) => a == b,
            (Step::Each, Step::Each | Step::Index(_)) | (Step::Index(_), Step::Each) => true,
            (Step::Name(_), _) | (_, Step::Name(_)) => false,
        };
        self.path.iter().zip(&other.path).all(meet)
    }
}

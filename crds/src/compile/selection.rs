//! Checks what `include` and `exclude` of an exposition name.

use tamis_config::{Reason, matches_pattern};

use super::expose::Stop;
use crate::Diagnostic;
use crate::diagnostic::did_you_mean;
use crate::origin::{FieldPath, Origin};

/// `include` and `exclude`, and where they are.
pub(super) struct Selected<'s> {
    pub(super) include: Option<&'s [String]>,
    pub(super) exclude: &'s [String],
    pub(super) origin: &'s Origin,
    pub(super) at: FieldPath,
}

/// What is said of a name that there is not.
pub(super) struct Words<'w> {
    /// Returns the message about a name.
    pub(super) unknown: &'w dyn Fn(&str) -> String,
    /// The remedy, if no other name is similar.
    pub(super) remedy: &'w str,
    /// The message and the remedy for a pattern of `include` that matches nothing.
    pub(super) unmatched: (&'w str, &'w str),
}

impl Selected<'_> {
    /// Checks that every name is among `names`, or among `more`, which are not suggested. A pattern may match nothing.
    ///
    /// # Errors
    /// A name that is not there stops the exposition: otherwise what an excluded name means would be published if the name is
    /// misspelt.
    pub(super) fn check(
        &self,
        names: &[&str],
        more: &[String],
        words: &Words<'_>,
        found: &mut Vec<Diagnostic>,
    ) -> Result<(), Stop> {
        let Self { include, exclude, origin, at } = self;
        let included = include.iter().copied().flatten().enumerate();
        let included = included.map(|(index, pattern)| (at.key("include").index(index), pattern, true));
        let excluded = exclude.iter().enumerate();
        let excluded = excluded.map(|(index, pattern)| (at.key("exclude").index(index), pattern, false));
        for (path, pattern, is_included) in included.chain(excluded) {
            let mut known = names.iter().copied().chain(more.iter().map(String::as_str));
            if known.any(|name| matches_pattern(pattern, name)) {
                continue;
            }
            if !pattern.contains(['*', '?']) {
                let remedy = match did_you_mean(pattern, names.iter().copied()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => words.remedy.to_owned(),
                };
                return Err(Stop::new(Reason::ToolNotFound, path, (words.unknown)(pattern), remedy));
            }
            if is_included {
                let (message, remedy) = words.unmatched;
                found.push(origin.warning(&path, message, remedy));
            }
        }
        Ok(())
    }
}

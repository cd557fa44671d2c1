//! How many fields operations have with their fragments in place. A few fragments of a few fields each can stand for any number,
//! and what comes after takes time for each.

use std::collections::HashMap;

use apollo_compiler::ExecutableDocument;
use apollo_compiler::executable::{Selection, SelectionSet};
use apollo_compiler::schema::Name;

use super::text::Text;
use crate::Diagnostic;

/// The most fields, fragments and spreads of all operations together.
const MAX_EXPANDED: u64 = 20_000;

/// The most fragments that refer to each other in a row.
const MAX_CHAIN: usize = 100;

/// Checks the operations of a document, in time linear in its length.
///
/// # Errors
/// They have too many fields, or a fragment that refers to itself.
pub(super) fn check(document: &ExecutableDocument, text: &Text<'_>) -> Result<(), Vec<Diagnostic>> {
    let (message, remedy) = match size(document) {
        Ok(size) if size <= MAX_EXPANDED => return Ok(()),
        Ok(_) => (
            format!("the operations have more than {MAX_EXPANDED} fields with their fragments in place"),
            "select fewer fields, or use fragments less often",
        ),
        Err(Problem::Cycle(name)) => (format!("the fragment `{name}` refers to itself"), "remove the reference"),
        Err(Problem::Chain(name)) => (
            format!("the fragment `{name}` is the end of more than {MAX_CHAIN} fragments that refer to each other"),
            "write some of them out",
        ),
    };
    Err(vec![text.error(None, message, remedy)])
}

/// Returns the size of all operations together, or that of the largest fragment.
fn size(document: &ExecutableDocument) -> Result<u64, Problem> {
    let mut sizes = Sizes { document, known: HashMap::new(), chain: 0 };
    let mut sum = 0_u64;
    for operation in document.operations.iter() {
        sum = sum.saturating_add(sizes.of(&operation.selection_set)?);
    }
    // Fragments that no operation uses are validated, too.
    for name in document.fragments.keys() {
        sum = sum.max(sizes.fragment(name)?);
    }
    Ok(sum)
}

/// Why a size is not known.
enum Problem {
    /// This fragment refers to itself.
    Cycle(Name),
    /// Too many fragments lead to this one.
    Chain(Name),
}

struct Sizes<'d> {
    document: &'d ExecutableDocument,
    /// The size of each fragment; none while it is being counted.
    known: HashMap<&'d Name, Option<u64>>,
    /// The fragments that are being counted.
    chain: usize,
}

impl<'d> Sizes<'d> {
    fn of(&mut self, set: &'d SelectionSet) -> Result<u64, Problem> {
        let mut sum = 0_u64;
        for selection in &set.selections {
            let size = match selection {
                Selection::Field(field) => self.of(&field.selection_set)?,
                Selection::InlineFragment(fragment) => self.of(&fragment.selection_set)?,
                Selection::FragmentSpread(spread) => self.fragment(&spread.fragment_name)?,
            };
            sum = sum.saturating_add(size).saturating_add(1);
        }
        Ok(sum)
    }

    fn fragment(&mut self, name: &Name) -> Result<u64, Problem> {
        // One that does not exist is reported by what comes after.
        let Some((name, fragment)) = self.document.fragments.get_key_value(name) else { return Ok(0) };
        match self.known.get(name) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => return Err(Problem::Cycle(name.clone())),
            None => {}
        }
        if self.chain == MAX_CHAIN {
            return Err(Problem::Chain(name.clone()));
        }
        self.known.insert(name, None);
        self.chain += 1;
        let size = self.of(&fragment.selection_set)?;
        self.chain -= 1;
        self.known.insert(name, Some(size));
        Ok(size)
    }
}

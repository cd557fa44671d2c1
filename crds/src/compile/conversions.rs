//! What documents became, so that an edit of anything else converts none of them again.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tamis_config::Digest;

use crate::Diagnostic;

/// The bytes of conversions that are kept by default.
const DEFAULT_BYTES: usize = 64 << 20;

/// What a document, or several, became.
pub(super) trait Conversion: Any + Send + Sync {
    /// Returns the findings, which name the files of the documents.
    fn findings(&self) -> &[Diagnostic];

    /// Returns about how many bytes of memory the conversion takes.
    fn weight(&self) -> usize;
}

/// The conversions of earlier compilations, by the digest of the documents and of what the manifest selects. The ones that were
/// used last are kept, up to a number of bytes.
pub struct Conversions {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The one that was used last is the first.
    entries: VecDeque<Entry>,
    bytes: usize,
    made: u64,
}

struct Entry {
    key: Digest,
    /// The files of the documents, as the findings name them.
    files: Vec<Arc<str>>,
    weight: usize,
    conversion: Arc<dyn Any + Send + Sync>,
}

impl Default for Conversions {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES)
    }
}

impl fmt::Debug for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conversions({} made)", self.made())
    }
}

impl Conversions {
    /// Creates an empty memory. `most`: the bytes of conversions that are kept; a larger one is not kept.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, held: Mutex::default() }
    }

    /// Returns how many conversions were made.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).made
    }

    /// Returns a conversion with its findings, whose files are replaced by `files`.
    pub(super) fn find<C: Conversion>(&self, key: &Digest, files: &[Arc<str>]) -> Option<(Arc<C>, Vec<Diagnostic>)> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let at = held.entries.iter().position(|entry| entry.key == *key)?;
        let entry = held.entries.remove(at)?;
        let conversion = Arc::clone(&entry.conversion).downcast::<C>().ok();
        let findings = conversion.as_ref().map(|conversion| {
            let named = |finding: &Diagnostic| {
                let index = entry.files.iter().position(|file| *file == finding.file);
                let file = index.and_then(|index| files.get(index)).unwrap_or(&finding.file);
                Diagnostic { file: Arc::clone(file), ..finding.clone() }
            };
            conversion.findings().iter().map(named).collect()
        });
        held.entries.push_front(entry);
        Some((conversion?, findings?))
    }

    /// Counts a conversion, and keeps it if it has a key.
    pub(super) fn keep<C: Conversion>(&self, key: Option<Digest>, files: Vec<Arc<str>>, conversion: &Arc<C>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.made += 1;
        let weight = conversion.weight();
        let Some(key) = key.filter(|_| weight <= self.most) else { return };
        held.bytes += weight;
        let conversion: Arc<dyn Any + Send + Sync> = Arc::<C>::clone(conversion);
        held.entries.push_front(Entry { key, files, weight, conversion });
        while held.bytes > self.most {
            held.bytes -= held.entries.pop_back().map_or(0, |entry| entry.weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Position;

    struct Text(String, Vec<Diagnostic>);

    impl Conversion for Text {
        fn findings(&self) -> &[Diagnostic] {
            &self.1
        }

        fn weight(&self) -> usize {
            self.0.len()
        }
    }

    #[test]
    fn the_ones_that_were_used_last_are_kept() {
        let conversions = Conversions::new(10);
        let file = |text: &str| -> Vec<Arc<str>> { vec![text.into()] };
        let key = |text: &str| Digest::of(text.as_bytes());
        let put = |text: &str| {
            let finding = Diagnostic::warning(&text.into(), Position::START, "", "is odd", "change it");
            let made = Arc::new(Text(text.to_owned(), vec![finding]));
            conversions.keep(Some(key(text)), file(text), &made);
        };
        let has =
            |text: &str| conversions.find::<Text>(&key(text), &file("now")).map(|(_, said)| said[0].file.to_string());
        put("aaaa");
        put("bbbb");
        assert_eq!((has("aaaa"), has("none")), (Some("now".to_owned()), None));
        put("cccc");
        assert_eq!((has("aaaa").is_some(), has("bbbb").is_some(), has("cccc").is_some()), (true, false, true));
        put("more than fits");
        assert_eq!((has("aaaa").is_some(), has("more than fits").is_some()), (true, false));
        conversions.keep(None, file("x"), &Arc::new(Text("x".to_owned(), Vec::new())));
        assert_eq!(conversions.made(), 5);
    }
}

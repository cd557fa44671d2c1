//! The id of a list and of its division.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::work::Work;
use crate::{Budget, TokenCounter};

/// The domain of the digest: ids of another encoding differ.
const DOMAIN: &[u8] = b"tamis.dev/list/1";

/// The bytes of the digest that an id shows.
const SHOWN_BYTES: usize = 3;

/// The id of a filtered list together with the settings that divide it: another id is another list or another division.
///
/// It is the beginning of a SHA-256, so that a caller cannot learn from an id what a list contains, but can compare
/// two ids. Two lists of the same call have the same id by chance once in 16,777,216 times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListId([u8; SHOWN_BYTES]);

/// What divides a list, apart from its items. Whether a call asks for a window of it does not matter: an id holds for
/// all pages of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListSettings<'a> {
    /// The limits on the answer.
    pub(crate) budget: Budget,
    /// What counts its tokens. Where nothing is counted, it decides nothing, and is no part of the id: an exposition
    /// then has whatever tokenizer its other tools need.
    pub(crate) counter: TokenCounter<'a>,
    /// The name of the format that the answer has, or the names of those to choose from, with commas.
    pub(crate) format: &'a str,
    /// All that decides which items are shown: the strategy with its settings, the algorithm and the levels.
    pub(crate) strategy: &'a str,
}

impl ListSettings<'_> {
    /// Returns whether the division depends on counts of tokens: on a limit, or on the choice of a format.
    fn counts_tokens(&self) -> bool {
        self.budget.tokens.is_some() || self.format.contains(',')
    }
}

impl ListId {
    /// Returns the id of a list. `items` are its items in order, as compact JSON or as lines.
    pub(crate) fn new<'i>(
        settings: &ListSettings<'_>,
        items: impl IntoIterator<Item = &'i str>,
        work: &Work<'_>,
    ) -> Self {
        let ListSettings { budget: Budget { bytes, tokens }, counter, format, strategy } = settings;
        let TokenCounter { tokenizer, factor } = counter;
        let mut digest = Sha256::new();
        // Every part comes after its length, so that no two lists give the same bytes.
        let mut part = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        let limit = |limit: Option<usize>| limit.map_or(Vec::new(), |limit| (limit as u64).to_le_bytes().to_vec());
        part(DOMAIN);
        part(&limit(bytes.map(|bytes| bytes.0)));
        part(&limit(tokens.map(|tokens| tokens.0)));
        part(format.as_bytes());
        part(strategy.as_bytes());
        let (name, millionths) = if settings.counts_tokens() {
            (tokenizer.name(), factor.millionths().to_le_bytes().to_vec())
        } else {
            ("", Vec::new())
        };
        part(name.as_bytes());
        part(&millionths);
        for item in items {
            if !work.spend_unbounded(1 + item.len() / 16) {
                break;
            }
            part(item.as_bytes());
        }
        let mut id = [0; SHOWN_BYTES];
        id.iter_mut().zip(digest.finalize()).for_each(|(shown, byte)| *shown = byte);
        Self(id)
    }
}

impl fmt::Display for ListId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Bytes, Estimate, Factor, Tokenizer, Tokens};

    const SETTINGS: ListSettings<'static> = ListSettings {
        budget: Budget { bytes: Some(Bytes(8000)), tokens: None },
        counter: TokenCounter { tokenizer: &Estimate, factor: Factor::ONE },
        format: "json",
        strategy: "default",
    };

    /// A tokenizer of another name.
    #[derive(Debug)]
    struct Other;

    impl Tokenizer for Other {
        fn name(&self) -> &'static str {
            "other"
        }

        fn is_exact(&self) -> bool {
            true
        }

        fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
            Estimate.count(text, most, keep_going)
        }
    }

    /// An id.
    pub(in crate::pages) fn any() -> ListId {
        ListId([0x3f, 0x9a, 0x1c])
    }

    fn id(settings: &ListSettings<'_>, items: &[&str]) -> String {
        ListId::new(settings, items.iter().copied(), &Work::unlimited()).to_string()
    }

    #[test]
    fn an_id_is_the_same_on_every_machine() {
        // Computed with Python's hashlib from the encoding that the code describes.
        assert_eq!(id(&SETTINGS, &["{\"a\":1}", "{\"a\":2}"]), "cb86c5");
    }

    #[test]
    fn every_setting_and_every_item_counts() {
        let base = SETTINGS;
        let budget = |bytes: Option<usize>, tokens: Option<usize>| ListSettings {
            budget: Budget { bytes: bytes.map(Bytes), tokens: tokens.map(Tokens) },
            ..base
        };
        let more = Factor::new(1.46).expect("within the limits");
        let mut ids = HashSet::new();
        for settings in [
            base,
            budget(Some(8001), None),
            budget(None, None),
            budget(None, Some(8000)),
            budget(Some(8000), Some(8000)),
            ListSettings { format: "toon", ..base },
            // A part that is longer takes nothing from the next.
            ListSettings { format: "jsond", strategy: "efault", ..base },
            ListSettings { strategy: "cascading", ..base },
            ListSettings { counter: TokenCounter { tokenizer: &Other, ..base.counter }, ..budget(None, Some(8000)) },
            ListSettings { counter: TokenCounter { factor: more, ..base.counter }, ..budget(None, Some(8000)) },
            ListSettings { format: "json,toon", ..base },
            ListSettings { format: "json,toon", counter: TokenCounter { tokenizer: &Other, ..base.counter }, ..base },
        ] {
            for items in [&[][..], &[""], &["", ""], &["1"], &["1", "2"], &["2", "1"], &["12"], &["1", "2", ""]] {
                assert!(ids.insert(id(&settings, items)), "{settings:?} {items:?}");
            }
        }
    }

    #[test]
    fn a_tokenizer_that_counts_nothing_is_no_part_of_an_id() {
        let more = Factor::new(1.46).expect("within the limits");
        for counter in
            [TokenCounter { tokenizer: &Other, factor: Factor::ONE }, TokenCounter { factor: more, ..SETTINGS.counter }]
        {
            let settings = ListSettings { counter, ..SETTINGS };
            assert_eq!(id(&settings, &["1", "2"]), id(&SETTINGS, &["1", "2"]), "{counter:?}");
        }
    }
}

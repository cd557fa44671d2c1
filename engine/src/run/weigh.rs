//! What the items of a list weigh: estimates of the shares of the budget that they take.

use super::finish::Settings;
use super::list::Items;
use crate::answer::{Scale, Size};
use crate::fit::{Candidates, Detail, Details, Form};
use crate::format::{Format, choice};
use crate::tokens::{Factor, TokenCounter};
use crate::work::Work;
use crate::{Bytes, Tokens};

/// The bytes of items up to which each item is counted.
const ALL: usize = 64 << 10;
/// The bytes of more items that are counted to learn how many tokens a byte has.
const SAMPLE: usize = 16 << 10;
/// As [`SAMPLE`], for items at a level. Up to so many bytes, each of them is counted.
const SAMPLE_OF_LEVEL: usize = 8 << 10;
/// The bytes between two items of a list in JSON.
const COMMA: usize = 1;

/// The items of a window of a list, with the forms that each may take.
pub(super) struct Forms<'p, 't> {
    pub(super) details: Vec<Details<'p, 't>>,
}

impl<'p, 't> Forms<'p, 't> {
    pub(super) fn new(details: impl Iterator<Item = Details<'p, 't>>) -> Self {
        Self { details: details.collect() }
    }
}

/// What the items of a window of a list weigh in one format.
pub(super) struct Weigher<'r, 'p, 't> {
    pub(super) settings: &'r Settings<'p>,
    pub(super) items: &'r Items<'t>,
    /// The items, in full.
    pub(super) texts: &'r [&'t str],
    /// What the items are worth in full.
    pub(super) values: &'r [u64],
    pub(super) format: Format,
    /// What the items weigh in full; see [`Weigher::full`].
    pub(super) full: &'r Full,
    pub(super) work: &'r Work<'r>,
}

/// What the items of a window of a list weigh in full.
pub(super) struct Full {
    weights: Vec<u64>,
    /// Whether the list of all items can be written in the format.
    pub(super) is_written: bool,
}

/// How near the weights of items are to what the items take in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nearness {
    /// They add up.
    Exact,
    /// Each item was measured by itself, and takes more so than in a list, if anything.
    Each,
    /// They are estimates by the bytes.
    Estimated,
}

impl Nearness {
    /// Returns how near the weights of items in `format` are. `items` are in JSON.
    pub(super) fn of<'t>(scale: &Scale<'_>, format: Format, items: impl Iterator<Item = &'t str>) -> Self {
        match (scale.budget.tokens, format) {
            (None, Format::Json) => Self::Exact,
            (None, _) => Self::Each,
            // A tokenizer that estimates goes by the bytes.
            (Some(_), Format::Json) if !scale.counter.tokenizer.is_exact() => Self::Exact,
            (Some(_), _) if !scale.counter.tokenizer.is_exact() || has_at_most(ALL, items) => Self::Each,
            (Some(_), _) => Self::Estimated,
        }
    }
}

impl Full {
    /// Returns what items weigh that are written in `format`: each item in the list of all of them, or in JSON.
    pub(super) fn new(
        settings: &Settings<'_>,
        items: &Items<'_>,
        texts: &[&str],
        format: Format,
        work: &Work<'_>,
    ) -> Self {
        let bytes = texts.iter().map(|text| text.len() + COMMA).sum();
        let write = || items.with(bytes, texts, |text, out| out.push_str(text));
        match in_format(settings, format, write, (ALL, SAMPLE), work) {
            Some(weights) => Self { weights, is_written: true },
            None => {
                let weights = weights(&settings.scale, texts.iter().copied(), COMMA, (ALL, SAMPLE));
                Self { weights, is_written: format == Format::Json }
            }
        }
    }
}

impl Weigher<'_, '_, '_> {
    /// Returns the items with their forms, where each item may take another form. A form weighs as much less than the
    /// item in full as it is smaller in JSON.
    pub(super) fn mixed(&self, forms: &Forms<'_, '_>) -> Candidates {
        let mut candidates = Candidates::with_capacity(self.texts.len(), 1 + self.settings.program.fit.levels.len());
        let (mut buffer, mut of_item) = (String::new(), Vec::new());
        let weights = self.full.weights.iter().zip(self.values);
        for ((item, details), (whole, value)) in self.texts.iter().zip(&forms.details).zip(weights) {
            of_item.clear();
            details.each(*value, &mut buffer, self.work, |Detail { value, bytes, shows }| {
                let weight = u128::from(*whole) * (bytes + COMMA) as u128 / (item.len() + COMMA) as u128;
                let form = Form { value, weight: u64::try_from(weight).unwrap_or(u64::MAX) };
                of_item.push(if shows { form } else { Form::NONE });
            });
            candidates.push(of_item.iter().copied());
        }
        candidates
    }

    /// Returns the items with their forms, where all items take the same form. A form weighs what it has in the list of
    /// all items that have the form. Returns `None` if `worth` is set, and in no form the list is worth writing.
    pub(super) fn uniform(&self, forms: &Forms<'_, '_>, worth: bool) -> Option<Candidates> {
        let most = forms.details.iter().map(Details::len).max().unwrap_or(1);
        let levels: Vec<_> = (1..most).map(|form| self.level(forms, form)).collect();
        if worth && !self.full.is_written && levels.iter().all(Option::is_none) {
            return None;
        }
        let in_json = levels.iter().any(Option::is_none).then(|| self.mixed(forms));
        let mut levels: Vec<_> = levels.into_iter().map(|forms| forms.map(Vec::into_iter)).collect();
        let mut candidates = Candidates::with_capacity(self.texts.len(), most);
        for (item, (details, value)) in forms.details.iter().zip(self.values).enumerate() {
            // Every level has an entry for each item that has the level.
            let poorer = levels.iter_mut().enumerate().take(details.len() - 1).map(|(level, weights)| {
                let weight = weights.as_mut().and_then(Iterator::next);
                let form = |weight| Form { value: details.worth(level + 1, *value), weight };
                match (weight, &in_json) {
                    (Some(weight), _) => weight.map_or(Form::NONE, form),
                    (None, Some(json)) => match json.forms(item)[level + 1] {
                        Form::NONE => Form::NONE,
                        Form { weight, .. } => form(weight),
                    },
                    (None, None) => Form::NONE,
                }
            });
            let full = Form { value: details.worth(0, *value), weight: self.full.weights[item] };
            candidates.push(std::iter::once(full).chain(poorer));
        }
        Some(candidates)
    }

    /// Returns what the items that have a form weigh in it; `None` for those of which it shows nothing. Returns `None` if
    /// their list cannot be written in the format.
    fn level(&self, forms: &Forms<'_, '_>, form: usize) -> Option<Vec<Option<u64>>> {
        let having = || forms.details.iter().filter(|details| details.len() > form);
        let mut shows = Vec::new();
        let write = || {
            self.items.with(0, having(), |details, out| {
                let open = out.len();
                details.write(form, out, self.work);
                shows.push(details.shows(&out[open..]));
            })
        };
        let counted = (SAMPLE_OF_LEVEL, SAMPLE_OF_LEVEL);
        let weights = in_format(self.settings, self.format, write, counted, self.work)?;
        Some(weights.into_iter().zip(shows).map(|(weight, shows)| shows.then_some(weight)).collect())
    }
}

/// Returns what the items of the list that `write` gives weigh in `format`; see [`weights`] for `counted`. Returns `None`
/// if the list is JSON.
fn in_format(
    settings: &Settings<'_>,
    format: Format,
    write: impl FnOnce() -> (String, std::ops::Range<usize>),
    counted: (usize, usize),
    work: &Work<'_>,
) -> Option<Vec<u64>> {
    if format == Format::Json {
        return None;
    }
    let (text, list) = write();
    let elements = choice::elements(&text, list, format, &settings.request(settings.formats), work)?;
    Some(weights(&settings.scale, elements.iter(), 0, counted))
}

/// Returns the shares of the budget that items take, each with `separator` more bytes.
///
/// Their tokens are counted if all items together have at most `all` bytes. Otherwise they are estimated by the
/// bytes, with the ratio of the first `sample` bytes. The factor of the tokens applies to the share: tokens that are
/// rounded up for each item would add up to far more than those of the list.
fn weights<'t>(
    scale: &Scale<'_>,
    items: impl Iterator<Item = &'t str> + Clone,
    separator: usize,
    (all, sample): (usize, usize),
) -> Vec<u64> {
    let tokens = scale.budget.tokens.map(|_| TokensOf::new(scale, items.clone(), all, sample));
    items
        .map(|item| {
            let bytes = scale.share(Size { bytes: Bytes(item.len() + separator), tokens: None });
            bytes.max(tokens.as_ref().map_or(0, |tokens| tokens.share(scale, item, separator)))
        })
        .collect()
}

/// How the tokens of items are found.
enum TokensOf {
    /// By counting each item.
    Each,
    /// By the tokens of so many bytes.
    Ratio { tokens: usize, bytes: usize },
}

impl TokensOf {
    fn new<'t>(scale: &Scale<'_>, items: impl Iterator<Item = &'t str> + Clone, all: usize, most: usize) -> Self {
        let is_exact = scale.counter.tokenizer.is_exact();
        if is_exact && has_at_most(all, items.clone()) {
            return Self::Each;
        }
        let mut sample = String::with_capacity(most);
        for item in items {
            let rest = most - sample.len();
            sample.push_str(&item[..item.floor_char_boundary(rest)]);
            if item.len() >= rest {
                break;
            }
        }
        let tokens = count(scale, &sample);
        Self::Ratio { tokens, bytes: sample.len().max(1) }
    }

    /// Returns the share of the budget that the tokens of an item take, with a separator of so many bytes.
    fn share(&self, scale: &Scale<'_>, item: &str, separator: usize) -> u64 {
        match self {
            // The separator is rarely a token of its own, but may be.
            Self::Each => scale.tokens_share((count(scale, item) + separator) as u128, 1),
            Self::Ratio { tokens, bytes } => {
                scale.tokens_share((item.len() + separator) as u128 * *tokens as u128, *bytes)
            }
        }
    }
}

/// Returns whether items together have at most `most` bytes.
fn has_at_most<'t>(most: usize, mut items: impl Iterator<Item = &'t str>) -> bool {
    let mut bytes = 0_usize;
    items.all(|item| {
        bytes += item.len();
        bytes <= most
    })
}

/// Returns the tokens of a text, without the factor.
fn count(scale: &Scale<'_>, text: &str) -> usize {
    let counter = TokenCounter { factor: Factor::ONE, ..scale.counter };
    // An interrupted run has no result, whatever its weights.
    counter.count_within(text, Tokens(usize::MAX), scale.work).unwrap_or_default().0
}

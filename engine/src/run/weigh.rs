//! What the items of a list weigh: estimates of the shares of the budget that they take.

use super::finish::Settings;
use super::list::Items;
use crate::answer::{Scale, Size};
use crate::fit::{Candidates, Details, Form};
use crate::format::{Format, choice};
use crate::work::Work;
use crate::{Bytes, Tokens};

/// The bytes of items that are counted to learn how many tokens a byte has.
const SAMPLE: usize = 64 << 10;
/// The bytes between two items of a list in JSON.
const COMMA: usize = 1;

/// What the items of a window of a list weigh in one format, in each of their forms.
pub(super) struct Weigher<'r, 'p, 't> {
    pub(super) settings: &'r Settings<'p>,
    pub(super) items: &'r Items<'t>,
    /// The forms of the items.
    pub(super) details: &'r [Details<'p, 't>],
    /// The items, in full.
    pub(super) texts: &'r [&'t str],
    pub(super) format: Format,
    /// Whether all items take the same form.
    pub(super) uniform: bool,
    pub(super) work: &'r Work<'r>,
}

impl Weigher<'_, '_, '_> {
    /// Returns the items with their forms. `values` are what the items are worth in full.
    ///
    /// An item in full weighs what it has in the list of all items, written in the format. Where all items take the same
    /// form, the same holds of the levels. Otherwise a form weighs as much less as it is smaller in JSON.
    pub(super) fn candidates(&self, values: impl IntoIterator<Item = u64>) -> Candidates {
        let scale = &self.settings.scale;
        let forms = self.details.iter().map(Details::len).max().unwrap_or(1);
        let full = self.in_format(0).unwrap_or_else(|| weights(scale, self.texts.iter().copied(), COMMA));
        let levels: Vec<_> = match self.uniform {
            true => (1..forms).map(|form| self.in_format(form)).collect(),
            false => Vec::new(),
        };
        let mut levels: Vec<_> = levels.into_iter().map(|weights| weights.map(Vec::into_iter)).collect();
        let mut candidates = Candidates::with_capacity(self.texts.len(), forms);
        let (mut buffer, mut of_item) = (String::new(), Vec::new());
        for (((item, details), value), whole) in self.texts.iter().zip(self.details).zip(values).zip(full) {
            of_item.clear();
            details.each(value, &mut buffer, self.work, |detail| {
                let weight = u128::from(whole) * (detail.bytes + COMMA) as u128 / (item.len() + COMMA) as u128;
                of_item.push(Form { value: detail.value, weight: u64::try_from(weight).unwrap_or(u64::MAX) });
            });
            // Every level has a weight for each item that has the level.
            for (form, weights) in of_item[1..].iter_mut().zip(&mut levels) {
                if let Some(weight) = weights.as_mut().and_then(Iterator::next) {
                    form.weight = weight;
                }
            }
            candidates.push(of_item.iter().copied());
        }
        candidates
    }

    /// Returns what the items that have a form weigh in it, each in the list of all of them. Returns `None` if the list is
    /// JSON.
    fn in_format(&self, form: usize) -> Option<Vec<u64>> {
        if self.format == Format::Json {
            return None;
        }
        let having = || (0..self.details.len()).filter(|item| self.details[*item].len() > form);
        let bytes = having().map(|item| self.texts[item].len() + COMMA).sum();
        let (text, list) = self.items.with(bytes, having(), |item, out| self.details[item].write(form, out, self.work));
        let request = self.settings.request(&[]);
        let elements = choice::elements(&text, list, self.format, &request, self.work)?;
        Some(weights(&self.settings.scale, elements.iter(), 0))
    }
}

/// Returns the shares of the budget that items take, each with `separator` more bytes.
///
/// Their tokens are counted if all items together have at most [`SAMPLE`] bytes. Otherwise they are estimated by the
/// bytes, with the ratio of so many of the first ones.
fn weights<'t>(scale: &Scale<'_>, items: impl Iterator<Item = &'t str> + Clone, separator: usize) -> Vec<u64> {
    let tokens = scale.budget.tokens.map(|_| TokensOf::new(scale, items.clone()));
    items
        .map(|item| {
            let bytes = item.len() + separator;
            let tokens = tokens.as_ref().map(|tokens| tokens.item(scale, item, separator));
            scale.share(Size { bytes: Bytes(bytes), tokens })
        })
        .collect()
}

/// How the tokens of items are found.
enum TokensOf {
    /// By counting each item.
    Each,
    /// By the tokens of a sample of so many bytes.
    Sample { tokens: usize, bytes: usize },
}

impl TokensOf {
    fn new<'t>(scale: &Scale<'_>, items: impl Iterator<Item = &'t str>) -> Self {
        let mut sample = String::new();
        for item in items {
            let rest = SAMPLE - sample.len();
            if item.len() > rest {
                sample.push_str(&item[..item.floor_char_boundary(rest)]);
                let tokens = scale.count(&sample, Tokens(usize::MAX)).0;
                return Self::Sample { tokens, bytes: sample.len().max(1) };
            }
            sample.push_str(item);
        }
        Self::Each
    }

    /// Returns the tokens of an item and of a separator of so many bytes.
    fn item(&self, scale: &Scale<'_>, item: &str, separator: usize) -> Tokens {
        match self {
            // The separator is rarely a token of its own, but may be.
            Self::Each => Tokens(scale.count(item, Tokens(usize::MAX)).0 + separator),
            Self::Sample { tokens, bytes } => {
                let tokens = ((item.len() + separator) as u128 * *tokens as u128).div_ceil(*bytes as u128);
                Tokens(usize::try_from(tokens).unwrap_or(usize::MAX))
            }
        }
    }
}

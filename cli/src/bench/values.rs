//! What the items of a list are worth, and which of them an answer shows.

use tamis_engine::{Filtered, Format, ItemForm, ItemForms, Report};

use super::bound::{self, fractional_optimum};
use super::list::{List, shown_by_index, shown_in_json};
use super::measure::{FULL, Filter, Settings};

/// A list, and what each form of its items is worth and weighs.
pub(super) struct Valued<'l, 't, 'p> {
    pub(super) list: &'l List<'t>,
    forms: Vec<ItemForms<'p, 'l>>,
    /// By item, its forms. They weigh what each has by itself, as JSON.
    weighed: Vec<Vec<bound::Form>>,
    /// The names of the levels.
    levels: Vec<&'p str>,
}

impl<'l, 't, 'p> Valued<'l, 't, 'p> {
    /// Values the items of a filtered list.
    pub(super) fn new(filter: &'p Filter, list: &'l List<'t>, settings: Settings<'_>) -> Self {
        let items: Vec<&str> = list.items.iter().map(String::as_str).collect();
        let forms = filter.program.forms(&items, false);
        let weighed = forms.iter().map(|forms| weigh(forms, settings)).collect();
        Self { list, forms, weighed, levels: filter.program.levels().collect() }
    }

    /// Returns the value of the whole list.
    pub(super) fn whole(&self) -> u64 {
        self.weighed.iter().filter_map(|forms| forms.first()).map(|form| form.value).sum()
    }

    /// Returns the value of the fractional optimum within `budget` tokens, if the whole list has `tokens`.
    ///
    /// Tokens do not add up: a list has fewer than its items have by themselves. So the weights are scaled to the list.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a display"
    )]
    pub(super) fn bound(&self, budget: usize, tokens: usize) -> u64 {
        let sum: f64 = self.weighed.iter().filter_map(|forms| forms.first()).map(|form| form.weight).sum();
        fractional_optimum(&self.weighed, budget as f64 * sum / tokens.max(1) as f64) as u64
    }

    /// Returns which items an answer shows in which form, if that can be told.
    pub(super) fn shown(&self, answer: &Filtered) -> Option<Vec<(usize, usize)>> {
        let report = &answer.report;
        if report.budget.is_none() {
            return Some((0..self.forms.len()).map(|item| (item, 0)).collect());
        }
        if matches!(report.format, Some(Format::Json) | None) {
            return shown_in_json(self.list, &self.forms, &answer.text);
        }
        // In a table all items have one form, which the report names.
        let dropped = report.budget.as_ref().map_or(0, |budget| budget.items_dropped);
        let items = match dropped {
            0 => (0..self.forms.len()).collect(),
            _ => shown_by_index(answer.notice.as_deref()?)?,
        };
        let level = match &report.levels[..] {
            [] if answer.notice.as_deref().is_some_and(|notice| notice.contains("with fewer fields")) => return None,
            [] => return Some(items.into_iter().map(|item| (item, 0)).collect()),
            [(name, count)] if *count == items.len() => self.levels.iter().position(|level| **level == **name)?,
            _ => return None,
        };
        let form = |item: usize| {
            let count = self.weighed.get(item)?.len();
            (0..count).find(|form| self.forms[item].level(*form) == Some(level)).map(|form| (item, form))
        };
        items.into_iter().map(form).collect()
    }

    /// Returns how many items have which form.
    pub(super) fn count(&self, shown: &[(usize, usize)]) -> Vec<(String, usize)> {
        let names = [FULL, "with fewer comments"].into_iter().chain(self.levels.iter().copied());
        let number = |&(item, form): &(usize, usize)| match (form, self.forms[item].level(form)) {
            (_, Some(level)) => 2 + level,
            (0, None) => 0,
            (_, None) => 1,
        };
        let count = |wanted: usize| shown.iter().filter(|shown| number(shown) == wanted).count();
        names.enumerate().map(|(form, name)| (name.to_owned(), count(form))).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns how many items have which form, where only the report tells.
    pub(super) fn reported(&self, report: &Report, shown: Option<usize>) -> Vec<(String, usize)> {
        let levels = report.levels.iter().map(|(name, count)| (name.to_string(), *count));
        let others = shown.unwrap_or_default().saturating_sub(levels.clone().map(|(_, count)| count).sum());
        // Of items that have comments, the report does not say whether all are shown.
        let whole = self
            .forms
            .iter()
            .zip(&self.weighed)
            .all(|(forms, weighed)| (1..weighed.len()).all(|form| forms.level(form).is_some()));
        let full = Some((FULL.to_owned(), others)).filter(|(_, count)| whole && *count > 0);
        full.into_iter().chain(levels).collect()
    }

    /// Returns the value of the items that are shown.
    pub(super) fn value(&self, shown: &[(usize, usize)]) -> u64 {
        shown.iter().filter_map(|(item, form)| self.weighed[*item].get(*form)).map(|form| form.value).sum()
    }
}

/// Returns the value and the tokens of each form of an item. Of the forms with fewer comments, which can be many, the
/// tokens follow from the bytes.
#[expect(clippy::cast_precision_loss, reason = "sizes are at most 16 MiB")]
fn weigh(forms: &ItemForms<'_, '_>, settings: Settings<'_>) -> Vec<bound::Form> {
    // With the comma after it.
    let count = |form| settings.count(&(forms.json(form) + ",")) as f64;
    let measured = forms.measure();
    let (whole, bytes) = (count(0), measured.first().map_or(1, |form| form.bytes.max(1)) as f64);
    let weight = |(number, form): (usize, &ItemForm)| bound::Form {
        value: form.value,
        weight: match (number, forms.level(number)) {
            (0, _) => whole,
            (_, Some(_)) => count(number),
            (_, None) => whole * form.bytes as f64 / bytes,
        },
    };
    measured.iter().enumerate().map(weight).collect()
}

//! The items of a list with the forms that each may take, and what was chosen of them.

/// One way to show an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// The information in the item when it is shown this way, in millionths of an ordinary item.
    pub(crate) value: u64,
    /// The estimated share of the budget, in the unit of the limit.
    pub(crate) weight: u64,
}

/// The items of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidates {
    forms: Vec<Form>,
    /// By item, the end of its forms.
    ends: Vec<u32>,
    /// By item, its group. Empty if there is one group.
    groups: Vec<u32>,
}

impl Form {
    /// A form that no choice takes.
    pub(crate) const NONE: Self = Self { value: 0, weight: u64::MAX };
}

impl Candidates {
    /// Returns an empty list with room for `items` items of `forms` forms each.
    pub(crate) fn with_capacity(items: usize, forms: usize) -> Self {
        Self { forms: Vec::with_capacity(items * forms), ends: Vec::with_capacity(items), groups: Vec::new() }
    }

    /// Adds an item. `forms` are its forms from rich to poor; the number of a form is its position. A form that
    /// weighs no less than a richer one, or is worth no less than it, is never the better choice of the two, so the
    /// caller does not have to leave it out.
    pub(crate) fn push(&mut self, forms: impl IntoIterator<Item = Form>) {
        // A weight of 0 would make every density infinite.
        self.forms.extend(forms.into_iter().map(|form| Form { weight: form.weight.max(1), ..form }));
        self.ends.push(u32::try_from(self.forms.len()).unwrap_or(u32::MAX));
    }

    /// Sets the group of each item. `groups` has one number for each item.
    pub(crate) fn set_groups(&mut self, groups: Vec<u32>) {
        debug_assert_eq!(groups.len(), self.len());
        self.groups = groups;
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of forms of all items.
    pub(crate) fn forms_in_all(&self) -> usize {
        self.forms.len()
    }

    /// Returns the forms of an item, from rich to poor.
    pub(crate) fn forms(&self, item: usize) -> &[Form] {
        let start = item.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.forms[start..self.ends[item] as usize]
    }

    /// Returns the group of an item.
    pub(super) fn group(&self, item: usize) -> u32 {
        self.groups.get(item).copied().unwrap_or(0)
    }
}

/// The forms that are allowed: all of them, or one for all items.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'c> {
    pub(super) candidates: &'c Candidates,
    /// The only form that is allowed.
    pub(super) only: Option<usize>,
}

impl<'c> View<'c> {
    pub(super) fn len(self) -> usize {
        self.candidates.len()
    }

    /// Returns the forms of an item with their numbers, from rich to poor.
    pub(super) fn forms(self, item: usize) -> impl DoubleEndedIterator<Item = (usize, Form)> + Clone + 'c {
        let forms = self.candidates.forms(item);
        let (first, last) = match self.only {
            None => (0, forms.len()),
            Some(only) => (only.min(forms.len()), (only + 1).min(forms.len())),
        };
        forms[first..last].iter().enumerate().map(move |(number, form)| (first + number, *form))
    }

    /// Returns the richest form of an item.
    pub(super) fn richest(self, item: usize) -> Option<(usize, Form)> {
        self.forms(item).next()
    }

    /// Returns the form of an item that weighs least; of equal ones the richest.
    pub(super) fn lightest(self, item: usize) -> Option<(usize, Form)> {
        self.forms(item).min_by_key(|(_, form)| form.weight)
    }
}

/// The form in which each item is shown, if it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    /// By item, the number of its form.
    forms: Vec<u32>,
    shown: usize,
}

/// The number that stands for an item that is left out.
const OUT: u32 = u32::MAX;

impl Selection {
    /// Returns the selection that leaves out all of `items` items.
    pub(crate) fn none(items: usize) -> Self {
        Self { forms: vec![OUT; items], shown: 0 }
    }

    /// Returns the form of an item; `None` if it is left out.
    pub(crate) fn form(&self, item: usize) -> Option<usize> {
        self.forms.get(item).copied().filter(|form| *form != OUT).map(|form| form as usize)
    }

    /// Returns the number of items that are shown.
    pub(crate) fn shown(&self) -> usize {
        self.shown
    }

    /// Returns the items that are shown with their forms, in the document's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let shown = self.forms.iter().enumerate().filter(|(_, form)| **form != OUT);
        shown.map(|(item, form)| (item, *form as usize))
    }

    pub(super) fn set(&mut self, item: usize, form: Option<usize>) {
        let form = form.and_then(|form| u32::try_from(form).ok()).unwrap_or(OUT);
        let before = std::mem::replace(&mut self.forms[item], form);
        self.shown += usize::from(form != OUT);
        self.shown -= usize::from(before != OUT);
    }

    /// Returns the sum of the values and of the weights of all forms that are shown.
    pub(crate) fn sum(&self, candidates: &Candidates) -> Form {
        let none = Form { value: 0, weight: 0 };
        self.iter().fold(none, |sum, (item, form)| {
            let Form { value, weight } = candidates.forms(item)[form];
            Form { value: sum.value.saturating_add(value), weight: sum.weight.saturating_add(weight) }
        })
    }

    /// Returns whether every item is shown in its richest form.
    pub(crate) fn is_complete(&self) -> bool {
        self.forms.iter().all(|form| *form == 0)
    }
}

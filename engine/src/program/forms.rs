//! The forms in which a budget may show the items of a list, for what measures and explains a filter.

use std::fmt;

use super::Program;
use crate::fit::{Detail, Details, FitProgram, Level};
use crate::work::Work;

/// The forms in which a budget may show one item of a list, from rich to poor. Form 0 is the item in full.
pub struct ItemForms<'p, 'i> {
    details: Details<'p, 'i>,
    /// The value of the item, see [`Details::each`].
    worth: u64,
}

/// The value and the size of a form of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemForm {
    /// The value in millionths of an ordinary item (`docs/filters/values.md`). 0 for a form that shows nothing of the
    /// item, which no budget chooses.
    pub value: u64,
    /// The bytes of the form as compact JSON.
    pub bytes: usize,
}

impl ItemForms<'_, '_> {
    /// Returns the value and the size of each form. Takes time linear in the item for each level.
    #[must_use]
    pub fn measure(&self) -> Vec<ItemForm> {
        let mut forms = Vec::with_capacity(self.details.len());
        let each = |Detail { value, bytes, shows }| {
            forms.push(ItemForm { value: if shows { value } else { 0 }, bytes });
        };
        self.details.each(self.worth, &mut String::new(), &Work::unlimited(), each);
        forms
    }

    /// Returns the position among [`Program::levels`] of a form that is a level. Other forms show the item in full or with
    /// fewer comments.
    #[must_use]
    pub fn level(&self, form: usize) -> Option<usize> {
        self.details.level(form)
    }

    /// Returns a form of the item as compact JSON.
    #[must_use]
    pub fn json(&self, form: usize) -> String {
        let mut json = String::new();
        self.details.write(form, &mut json, &Work::unlimited());
        json
    }
}

// Debug shows no content: the item is a payload.
impl fmt::Debug for ItemForms<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} forms of an item", self.details.len())
    }
}

impl Program {
    fn fit(&self) -> Option<&FitProgram> {
        self.0.branches.first().map(|branch| &branch.output.fit)
    }

    /// Returns the names of the levels of detail that the filter's first branch declares, from rich to poor.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.fit().into_iter().flat_map(|fit| fit.levels.iter().map(Level::name))
    }

    /// Returns the forms of each item of a list, for the filter's first branch. `items` are the items of the filtered list
    /// as compact JSON. `uniform` leaves out the forms with fewer comments, which a table does not have.
    #[must_use]
    pub fn forms<'i>(&self, items: &[&'i str], uniform: bool) -> Vec<ItemForms<'_, 'i>> {
        let Some(fit) = self.fit() else { return Vec::new() };
        let work = Work::unlimited();
        let values = fit.values(items, &work);
        let forms = items.iter().zip(values);
        forms.map(|(item, worth)| ItemForms { details: fit.details(item, uniform, &work), worth }).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompileOptions, FilterSpec, OutputSpec, Program, ToolFilter, compile};

    fn program(output: OutputSpec) -> Program {
        let filter = FilterSpec { output: Some(Box::new(output)), ..FilterSpec::default() };
        compile(&ToolFilter::Single(Box::new(filter)), &CompileOptions::default()).program.expect("a valid filter")
    }

    #[test]
    fn an_item_has_a_form_for_each_level() {
        let program = program(OutputSpec { preset: Some("issues".to_owned()), ..OutputSpec::default() });
        assert_eq!(program.levels().collect::<Vec<_>>(), ["standard", "minimal"]);
        let items = [r#"{"number":1,"body":"text","url":"u"}"#, "7"];
        let forms = program.forms(&items, false);
        let json = |form| forms[0].json(form);
        assert_eq!([json(0), json(1), json(2)], [items[0], r#"{"number":1,"body":"text"}"#, r#"{"number":1}"#]);
        assert_eq!([0, 1, 2].map(|form| forms[0].level(form)), [None, Some(0), Some(1)]);
        let measured: Vec<_> = forms[0].measure().iter().map(|form| (form.value, form.bytes)).collect();
        assert_eq!(measured, [(1_000_000, items[0].len()), (700_000, 26), (400_000, 12)]);
        // Nothing is left of an item that has none of the fields.
        let forms_of_other = program.forms(&[r#"{"other":1}"#], false);
        assert_eq!(forms_of_other[0].measure().iter().map(|form| form.value).collect::<Vec<_>>(), [1_000_000, 0, 0]);
        // The last of two items is worth 0.3, and a number has no levels.
        assert_eq!(forms[1].measure().iter().map(|form| form.value).collect::<Vec<_>>(), [300_000]);
    }

    #[test]
    fn threads_have_forms_with_fewer_comments() {
        let program = program(OutputSpec { preset: Some("discussions".to_owned()), ..OutputSpec::default() });
        let item = r#"{"id":1,"comments":[1,2,3,4]}"#;
        assert_eq!(program.forms(&[item], true)[0].measure().len(), 2);
        let forms = program.forms(&[item], false);
        assert_eq!(forms[0].measure().len(), 4);
        assert_eq!(forms[0].json(2), r#"{"id":1,"comments":[1,4]}"#);
        assert_eq!([1, 2, 3].map(|form| forms[0].level(form)), [None, None, Some(0)]);
    }
}

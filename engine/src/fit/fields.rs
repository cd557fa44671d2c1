//! Fields of an item, read from its bytes.

use std::borrow::Cow;
use std::ops::Range;

use crate::json;
use crate::program::Name;
use crate::stream::{elements, value_at};
use crate::work::Work;

/// A field of an item: the first of these paths that leads to something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field(Box<[Box<[Name]>]>);

impl Field {
    /// Returns the field at a path.
    pub(crate) fn at(path: impl Into<Box<[Name]>>) -> Self {
        Self(Box::new([path.into()]))
    }

    /// Returns the field that is at the first of these paths that an item has: names with `/` between them.
    pub(crate) fn any_of(paths: &[&str]) -> Self {
        Self(paths.iter().map(|path| path.split('/').map(Name::new).collect()).collect())
    }

    /// Returns the JSON of the field; of duplicate members the last counts.
    pub(super) fn json<'i>(&self, item: &'i str, work: &Work<'_>) -> Option<&'i str> {
        self.0.iter().find_map(|path| value_at(item, path, work)).map(|place| &item[place])
    }

    /// Returns the characters of the field if it is a string.
    pub(super) fn text<'i>(&self, item: &'i str, work: &Work<'_>) -> Option<Cow<'i, str>> {
        self.json(item, work).filter(|json| json.starts_with('"')).map(json::decode_lossy)
    }

    /// Returns the place of the first list at one of the paths, and of its elements.
    pub(super) fn list(&self, item: &str, work: &Work<'_>) -> Option<(Range<usize>, Vec<Range<usize>>)> {
        let mut lists = self.0.iter().filter_map(|path| value_at(item, path, work));
        lists.find_map(|list| Some((list.clone(), elements(item, list, work)?)))
    }
}

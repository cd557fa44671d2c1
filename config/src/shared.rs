//! Equal filters are held once. A thousand tools often have the same filter, and a filter that was read takes six times
//! the bytes of its JSON.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use tamis_engine::ToolFilter;

use crate::ExpositionTool;

/// Filters that one is compared with: the last that were different. Comparing with all would be quadratic.
const RECENT: usize = 16;

/// What has a filter.
pub trait Filtered {
    /// Its filter, where it has one.
    fn filter(&mut self) -> Option<&mut Arc<ToolFilter>>;
}

impl Filtered for Arc<ToolFilter> {
    fn filter(&mut self) -> Option<&mut Arc<ToolFilter>> {
        Some(self)
    }
}

impl Filtered for ExpositionTool {
    fn filter(&mut self) -> Option<&mut Arc<ToolFilter>> {
        self.filter.as_mut()
    }
}

/// The filters that were read last.
#[derive(Debug, Default)]
struct Recent(VecDeque<Arc<ToolFilter>>);

impl Recent {
    /// Puts an equal filter that was read before in the place of one.
    fn share(&mut self, filter: &mut Arc<ToolFilter>) {
        if let Some(known) = self.0.iter().find(|known| *known == filter) {
            *filter = Arc::clone(known);
            return;
        }
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(Arc::clone(filter));
    }
}

/// Reads a map of tools; for `deserialize_with`. Of equal filters one is held, as soon as they are read.
///
/// # Errors
/// A value is not what it should be.
pub fn deserialize<'de, D, T>(deserializer: D) -> Result<IndexMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Filtered,
{
    struct Tools<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + Filtered> Visitor<'de> for Tools<T> {
        type Value = IndexMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut tools, mut recent) = (IndexMap::new(), Recent::default());
            while let Some((name, mut tool)) = map.next_entry::<String, T>()? {
                if let Some(filter) = tool.filter() {
                    recent.share(filter);
                }
                tools.insert(name, tool);
            }
            Ok(tools)
        }
    }

    deserializer.deserialize_map(Tools(PhantomData))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    fn filters(paths: &[usize]) -> IndexMap<String, Arc<ToolFilter>> {
        let filters = paths.iter().enumerate();
        let json: serde_json::Map<_, _> =
            filters.map(|(n, path)| (format!("t{n}"), json!({"retain": [format!("/{path}")]}))).collect();
        deserialize(&json!(json)).expect("are filters")
    }

    #[test]
    fn equal_filters_are_held_once() {
        // Which filter each tool has; how many are held.
        let table = [
            (vec![], 0),
            (vec![1; 1_000], 1),
            ((0..1_000).map(|n| n % RECENT).collect(), RECENT),
            ((0..1_000).collect(), 1_000),
            // Further apart than is looked: held again, which costs memory and nothing else.
            ((0..=RECENT).chain([0]).collect(), RECENT + 2),
        ];
        for (paths, expected) in table {
            let read = filters(&paths);
            let held: HashSet<_> = read.values().map(Arc::as_ptr).collect();
            assert_eq!(held.len(), expected);
            for (filter, path) in read.values().zip(&paths) {
                assert_eq!(serde_json::to_value(filter).expect("is JSON"), json!({"retain": [format!("/{path}")]}));
            }
        }
    }

    #[test]
    fn a_tool_without_a_filter_has_none_of_another() {
        let tools = json!({"a": {"filter": {"retain": ["/a"]}}, "b": {}, "c": {"filter": {"retain": ["/a"]}}});
        let read: IndexMap<String, ExpositionTool> = deserialize(&tools).expect("are tools");
        assert!(read["b"].filter.is_none());
        let filter = |tool: &str| read[tool].filter.as_ref().expect("has one");
        assert!(Arc::ptr_eq(filter("a"), filter("c")));
        assert!(deserialize::<_, ExpositionTool>(&json!([])).is_err());
        assert!(deserialize::<_, ExpositionTool>(&json!({"a": 7})).is_err());
    }
}

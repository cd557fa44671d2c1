//! Tables whose rows may lack columns: an absent member is written as `null`.
//!
//! Such a table has at least half of its cells from the document, so that rows that have hardly a column in common are
//! no table: 10,000 items with a column of their own would otherwise be written as 100,000,000 times `null`. The same
//! rule holds for TOON and for `table`.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::keys::Key;
use super::layout::{Kind, Layout, Layouts, Member};

/// Returns the most cells that a table may have if `present` of them are in the document.
pub(super) fn most_cells(present: usize) -> usize {
    present.saturating_mul(2)
}

/// The distinct layouts of the rows of lists, in the order of their first appearance. Lists may be in rows of others.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    rows: Vec<Layout>,
    /// For each layout the last list that it was added for.
    lists: Vec<u32>,
}

impl Distinct {
    /// Adds a row of the list with the number `list`, from 1. `layouts` is the number of layouts so far.
    #[inline(always)]
    pub(super) fn add(&mut self, row: Layout, list: u32, layouts: usize) {
        if row.index() >= self.lists.len() {
            self.lists.resize(layouts, 0);
        }
        if self.lists[row.index()] != list {
            self.lists[row.index()] = list;
            self.rows.push(row);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows that were added after the first `len`.
    pub(super) fn since(&self, len: usize) -> &[Layout] {
        &self.rows[len..]
    }

    /// Removes the rows that were added after the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }
}

/// Returns the layout that has the members of all `rows`, in the order of their first appearance. Returns `None` if
/// that is no table: a member is a cell in one row and an object in another, or an object that a row lacks.
///
/// Takes time linear in the members of `rows`.
pub(super) fn union(layouts: &mut Layouts<'_>, rows: &[Layout]) -> Option<Layout> {
    if let [row] = rows {
        return Some(*row);
    }
    let mut columns: Vec<Column> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut members = Vec::new();
    for row in rows {
        layouts.members(*row, &mut members);
        for Member { key, kind } in &members {
            let place = *places.entry(*key).or_insert_with(|| {
                columns.push(Column { key: *key, groups: Vec::new(), cells: 0 });
                columns.len() - 1
            });
            match kind.layout() {
                None => columns[place].cells += 1,
                Some(group) => columns[place].groups.push(group),
            }
        }
    }
    let mut union = Layout::EMPTY;
    for Column { key, mut groups, cells } in columns {
        let kind = if groups.is_empty() {
            Kind::PRIMITIVE
        } else if cells == 0 && groups.len() == rows.len() {
            distinct(&mut groups);
            Kind::group(self::union(layouts, &groups)?)
        } else {
            return None;
        };
        union = layouts.with(union, Member { key, kind });
    }
    Some(union)
}

/// A column, with its values in the rows that have it.
struct Column {
    key: Key,
    groups: Vec<Layout>,
    cells: usize,
}

/// Keeps the first of equal layouts, in order.
fn distinct(groups: &mut Vec<Layout>) {
    let mut seen = HashSet::with_capacity(groups.len());
    groups.retain(|group| seen.insert(*group));
}

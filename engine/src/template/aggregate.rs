//! The functions of templates over a list of items: each makes one short text of many values.
//!
//! Values are the scalars at a path, `null` left out; a list on the way stands for its elements, so `.labels.name`
//! reads the names of all labels of all items.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use indexmap::IndexMap;

use super::value::Value;
use crate::answer::cut_to;

/// The folders that `paths` names.
const MOST_PATHS: usize = 3;
/// How deep the folders may be that `paths` names.
const MOST_FOLDERS: usize = 8;
/// The values that `counts` names.
const MOST_VALUES: usize = 5;
/// The bytes of a value that `counts` and `range` show.
const VALUE_BYTES: usize = 40;
/// The bytes of a path that `paths` shows.
const PATH_BYTES: usize = 100;
/// The decimals that `sum` adds.
const DECIMALS: usize = 9;

/// A function over the values of many items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregate {
    /// The folders of paths of files, `src/app/*, docs/*`: as deep as three of them hold all files, the one with the
    /// most files first. A folder with one file is that file's path. If the files have more than three folders at the
    /// top, `and 4 more` follows.
    Paths,
    /// The smallest and the largest value, `1..52`: of the numbers, or where there are none, of the texts by their
    /// characters. If they are equal, the value alone.
    Range,
    /// The values and how often each occurs, `open 12, closed 3`, the most frequent first: five of them, then `and 7
    /// more`, which counts the values that are not named.
    Counts,
    /// The exact sum of the numbers, `120`. Nothing if one of them has an exponent or more than nine decimals, or if
    /// the sum has more than 29 digits before the point.
    Sum,
}

impl Aggregate {
    pub(super) const ALL: [Self; 4] = [Self::Paths, Self::Range, Self::Counts, Self::Sum];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::Range => "range",
            Self::Counts => "counts",
            Self::Sum => "sum",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|aggregate| aggregate.name() == name)
    }

    /// Returns the text for scalar values.
    pub(super) fn of(self, values: &[Value<'_>]) -> String {
        match self {
            Self::Paths => paths(&values.iter().map(Value::to_text).collect::<Vec<_>>()),
            Self::Range => range(values).unwrap_or_default(),
            Self::Counts => counts(values),
            Self::Sum => sum(values).unwrap_or_default(),
        }
    }
}

/// Returns the first `depth` folders of a path.
fn folder(path: &str, depth: usize) -> &str {
    let depth = depth + usize::from(path.starts_with('/'));
    let end = memchr::memchr_iter(b'/', path.as_bytes()).take(depth).last();
    end.map_or("", |end| &path[..end])
}

fn paths(files: &[Cow<'_, str>]) -> String {
    let is_named = |depth: &usize| {
        let mut folders = HashSet::new();
        files.iter().all(|file| {
            folders.insert(folder(file, *depth));
            folders.len() <= MOST_PATHS
        })
    };
    let depth = (1..=MOST_FOLDERS).rev().find(is_named).unwrap_or(1);
    // The number of files in each folder, and one of them.
    let mut folders = IndexMap::new();
    for file in files {
        folders.entry(folder(file, depth)).or_insert((0_usize, file)).0 += 1;
    }
    let named = most(&folders, MOST_PATHS, |(count, _)| *count).into_iter();
    let names = named.map(|(folder, (count, file))| match (count, *folder) {
        (1, _) => cut_to(file, PATH_BYTES),
        (_, "") => "*".to_owned(),
        (_, folder) => cut_to(folder, PATH_BYTES) + "/*",
    });
    listed(&names.collect::<Vec<_>>(), folders.len().saturating_sub(MOST_PATHS))
}

fn range(values: &[Value<'_>]) -> Option<String> {
    let numbers = values.iter().any(|value| matches!(value, Value::Number(_)));
    let mut ends: Option<(&Value<'_>, &Value<'_>)> = None;
    for value in values {
        match value {
            Value::Number(_) if numbers => {}
            Value::Text(_) if !numbers => {}
            _ => continue,
        }
        let (least, most) = ends.unwrap_or((value, value));
        let least = if value.order(least) == Some(Ordering::Less) { value } else { least };
        let most = if value.order(most) == Some(Ordering::Greater) { value } else { most };
        ends = Some((least, most));
    }
    let (least, most) = ends?;
    let equal = least.order(most) == Some(Ordering::Equal);
    let (least, most) = (short(&least.to_text()), short(&most.to_text()));
    Some(if equal { least } else { format!("{least}..{most}") })
}

fn counts(values: &[Value<'_>]) -> String {
    let mut distinct = IndexMap::new();
    for value in values {
        *distinct.entry(value.to_text()).or_insert(0_usize) += 1;
    }
    let named = most(&distinct, MOST_VALUES, |count| *count);
    let rest = values.len() - named.iter().map(|(_, count)| **count).sum::<usize>();
    let names: Vec<String> = named.into_iter().map(|(value, count)| format!("{} {count}", short(value))).collect();
    listed(&names, rest)
}

/// Returns the entries with the highest counts, the highest first; of equal ones the earlier first.
fn most<K, V>(counted: &IndexMap<K, V>, limit: usize, count: impl Fn(&V) -> usize) -> Vec<(&K, &V)> {
    let mut most: Vec<(&K, &V)> = Vec::with_capacity(limit + 1);
    for entry in counted {
        let at = most.partition_point(|(_, other)| count(other) >= count(entry.1));
        if at < limit {
            most.insert(at, entry);
            most.truncate(limit);
        }
    }
    most
}

fn listed(names: &[String], more: usize) -> String {
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}

fn short(value: &str) -> String {
    cut_to(value, VALUE_BYTES)
}

fn sum(values: &[Value<'_>]) -> Option<String> {
    // In units of the last decimal.
    let (mut sum, mut decimals, mut any) = (0_i128, 0, false);
    for value in values {
        let Value::Number(digits) = value else { continue };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if fraction.len() > DECIMALS {
            return None;
        }
        // The digits with all decimals are a whole number, unless there is an exponent.
        let units: i128 = format!("{whole}{fraction:0<DECIMALS$}").parse().ok()?;
        sum = sum.checked_add(units)?;
        decimals = decimals.max(fraction.len());
        any = true;
    }
    let unit = 10_u128.pow(DECIMALS as u32);
    let (whole, rest) = (sum.unsigned_abs() / unit, sum.unsigned_abs() % unit);
    let fraction = &format!("{rest:0>DECIMALS$}")[..decimals];
    let (sign, point) = (if sum < 0 { "-" } else { "" }, if decimals > 0 { "." } else { "" });
    any.then(|| format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
#[path = "aggregate_tests.rs"]
mod tests;

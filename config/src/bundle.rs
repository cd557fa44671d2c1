//! One address for several expositions, and the names that their tools have there.

use serde::{Deserialize, Serialize};

use crate::{Access, CredentialHandle, ExpositionId, OutputLimits};

/// A bundle: the expositions whose tools it publishes, and what applies to its callers in addition to what each
/// exposition says.
///
/// It names its parts and holds nothing of them. A gateway reads the current state of each part for every request, so a
/// change of a part needs no new document of the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleDocument {
    /// The lowest format version that expresses the document: [`Self::FORMAT_VERSION`].
    pub format_version: u32,
    /// Its name.
    pub id: ExpositionId,
    /// The parts, in the order in which their tools are listed.
    pub parts: Vec<BundlePart>,
    /// Who may call; `None` is what `tamis serve` on loopback allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Bounds on calls, on top of those of the parts.
    #[serde(default, skip_serializing_if = "BundleLimits::is_none")]
    pub limits: BundleLimits,
    /// Milliseconds for which clients may keep the lists of tools, prompts and resources; 0 asks them to keep none.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub list_ttl_ms: u64,
}

impl BundleDocument {
    /// The format version of every bundle.
    pub const FORMAT_VERSION: u32 = 4;
    /// The most parts of a bundle.
    pub const MAX_PARTS: usize = 64;

    /// Returns the credential value that has to be there before the document can be loaded.
    #[must_use]
    pub fn handle(&self) -> Option<&CredentialHandle> {
        self.access.as_ref().and_then(Access::secret).and_then(|(_, handle)| handle)
    }

    /// Returns the id of a part: a part is in the namespace of its bundle.
    #[must_use]
    pub fn id_of(&self, part: &BundlePart) -> ExpositionId {
        ExpositionId { namespace: self.id.namespace.clone(), name: part.name.clone() }
    }
}

/// One part of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlePart {
    /// `metadata.name` of an exposition in the namespace of the bundle.
    pub name: String,
    /// What the names of its tools begin with in the bundle.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

impl BundlePart {
    /// The most bytes of a prefix. It leaves half of a name to the tool.
    pub const MAX_PREFIX: usize = 32;

    /// Returns whether a text can begin the name of a tool.
    #[must_use]
    pub fn is_prefix(text: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
        text.len() <= Self::MAX_PREFIX && text.bytes().all(allowed)
    }
}

/// Bounds on the calls of a bundle. The stricter of a bound of the bundle and of the part applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BundleLimits {
    /// Calls a second, over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// Calls at once beyond that rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Calls under way at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<u32>,
    /// Milliseconds that one call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Bytes of one output after decompression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_response_bytes: Option<u64>,
    /// The largest answer.
    #[serde(skip_serializing_if = "OutputLimits::is_none")]
    pub output: OutputLimits,
}

impl BundleLimits {
    /// Returns whether the bundle sets no limit.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the stricter of both, limit by limit.
    #[must_use]
    pub fn tightest(&self, other: &Self) -> Self {
        fn least<T: Ord + Copy>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.into_iter().chain(b).min()
        }
        Self {
            requests_per_second: least(self.requests_per_second, other.requests_per_second),
            burst: least(self.burst, other.burst),
            concurrent: least(self.concurrent, other.concurrent),
            timeout_ms: least(self.timeout_ms, other.timeout_ms),
            max_response_bytes: least(self.max_response_bytes, other.max_response_bytes),
            output: self.output.tightest(other.output),
        }
    }
}

/// The most bytes of a tool's name in a bundle: clients and models accept no longer ones.
pub const MAX_TOOL_NAME: usize = 64;

/// The most tools of all parts together, as of one service. It bounds the work of a list.
pub const MAX_TOOLS: usize = 5_000;

/// Returns how many of its tools each part may publish, given how many it has: the first ones, up to [`MAX_TOOLS`] in all.
#[must_use]
pub fn rooms(counts: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut left = MAX_TOOLS;
    let mut take = |count: usize| {
        let room = count.min(left);
        left -= room;
        room
    };
    counts.into_iter().map(&mut take).collect()
}

/// Why a tool of a part is not published by its bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// An earlier part, by position, publishes a tool under the name.
    Taken(usize),
    /// The name has more than [`MAX_TOOL_NAME`] bytes.
    TooLong,
    /// The parts have more than [`MAX_TOOLS`] tools.
    TooMany,
}

/// Finds the tool that a name stands for: the position of its part, and the name of the tool there.
///
/// The first part that has the tool under the name counts, whichever part admits the caller: a name never means different
/// tools to different callers. `has` says whether a part has a tool.
pub fn resolve<'p, 'n>(
    prefixes: impl IntoIterator<Item = &'p str>,
    name: &'n str,
    has: impl Fn(usize, &str) -> bool,
) -> Option<(usize, &'n str)> {
    if name.len() > MAX_TOOL_NAME {
        return None;
    }
    let candidates = prefixes.into_iter().enumerate();
    candidates
        .filter_map(|(part, prefix)| Some((part, name.strip_prefix(prefix)?)))
        .find(|(part, tool)| !tool.is_empty() && has(*part, tool))
}

/// Returns the name of a part's tool in the bundle.
///
/// # Errors
/// [`LeftOut`] if the bundle does not publish the tool.
pub fn name_of<'p>(
    prefixes: impl IntoIterator<Item = &'p str> + Clone,
    part: usize,
    tool: &str,
    has: impl Fn(usize, &str) -> bool,
) -> Result<String, LeftOut> {
    let prefix = prefixes.clone().into_iter().nth(part).unwrap_or_default();
    let name = format!("{prefix}{tool}");
    if name.len() > MAX_TOOL_NAME {
        return Err(LeftOut::TooLong);
    }
    // The part itself has the tool, so what is not resolved is its own.
    match resolve(prefixes.into_iter().take(part), &name, has) {
        Some((earlier, _)) => Err(LeftOut::Taken(earlier)),
        None => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts with the prefix and the tools of each.
    type Parts = [(&'static str, &'static [&'static str])];

    fn has(parts: &Parts) -> impl Fn(usize, &str) -> bool {
        move |part, tool| parts[part].1.contains(&tool)
    }

    #[test]
    fn a_name_stands_for_the_tool_of_the_first_part_that_has_it() {
        let parts: &Parts = &[("gh_", &["list", "jira_get"]), ("", &["gh_list", "get", "gh_"]), ("gh_jira_", &["get"])];
        let prefixes = || parts.iter().map(|(prefix, _)| *prefix);
        // A name, and the part and the tool that it stands for.
        for (name, expected) in [
            ("gh_list", Some((0, "list"))),
            ("get", Some((1, "get"))),
            ("gh_jira_get", Some((0, "jira_get"))),
            // No tool has an empty name.
            ("gh_", Some((1, "gh_"))),
            ("list", None),
            ("gh_get", None),
            ("GH_list", None),
            ("", None),
        ] {
            assert_eq!(resolve(prefixes(), name, has(parts)), expected, "{name}");
        }
        // A part, a tool, and its name in the bundle.
        for (part, tool, expected) in [
            (0, "list", Ok("gh_list")),
            (0, "jira_get", Ok("gh_jira_get")),
            (1, "get", Ok("get")),
            (1, "gh_list", Err(LeftOut::Taken(0))),
            (2, "get", Err(LeftOut::Taken(0))),
        ] {
            let named = name_of(prefixes(), part, tool, has(parts));
            assert_eq!(named.as_deref(), expected.as_ref().copied(), "{part} {tool}");
            if let Ok(name) = named {
                assert_eq!(resolve(prefixes(), &name, has(parts)), Some((part, tool)));
            }
        }
    }

    #[test]
    fn a_name_has_at_most_64_bytes() {
        for (prefix, length, expected) in [("p_", 62, true), ("p_", 63, false), ("", 64, true), ("", 65, false)] {
            let tool = "t".repeat(length);
            let has = |_: usize, asked: &str| asked == tool;
            let named = name_of([prefix], 0, &tool, has);
            assert_eq!(named.is_ok(), expected, "{prefix} {length}");
            assert!(expected || named == Err(LeftOut::TooLong));
            assert_eq!(resolve([prefix], &format!("{prefix}{tool}"), has).is_some(), expected);
        }
    }

    #[test]
    fn the_first_tools_have_room() {
        for (counts, expected) in [
            (vec![], vec![]),
            (vec![3, 0, 5], vec![3, 0, 5]),
            (vec![MAX_TOOLS, 1], vec![MAX_TOOLS, 0]),
            (vec![1, usize::MAX, 7], vec![1, MAX_TOOLS - 1, 0]),
        ] {
            assert_eq!(rooms(counts), expected);
        }
    }

    #[test]
    fn a_prefix_has_the_characters_of_a_tool() {
        let long = "p".repeat(BundlePart::MAX_PREFIX);
        for (prefix, valid) in
            [("", true), ("gh_", true), ("a.b/c-", true), ("a b", false), ("ä", false), (&long, true)]
        {
            assert_eq!(BundlePart::is_prefix(prefix), valid, "{prefix}");
        }
        assert!(!BundlePart::is_prefix(&format!("{long}p")));
    }

    #[test]
    fn the_stricter_limit_counts() {
        let some = BundleLimits { requests_per_second: Some(5), timeout_ms: Some(900), ..BundleLimits::default() };
        let others = BundleLimits { requests_per_second: Some(9), concurrent: Some(2), ..BundleLimits::default() };
        let both = BundleLimits { concurrent: Some(2), ..some.clone() };
        assert_eq!(some.tightest(&others), both);
        assert_eq!(others.tightest(&some), both);
        assert!(BundleLimits::default().is_none() && !some.is_none());
    }
}

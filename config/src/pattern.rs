//! Names of tools, and patterns that choose among names.

use serde::{Deserialize, Serialize};

/// Matches a pattern in which `*` matches any text and `?` any character. Patterns and names are short, so a simple algorithm
/// with backtracking to the last `*` is fast enough.
#[must_use]
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut back) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// Names, or patterns in which `*` matches any text and `?` any character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamePatterns {
    /// What to publish; `None` publishes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// What to leave out of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl NamePatterns {
    /// Returns whether a name is published.
    #[must_use]
    pub fn selects(&self, name: &str) -> bool {
        selects(self.include.as_deref(), &self.exclude, name)
    }

    /// Returns a choice of names that both choose. Names that two patterns have in common, of which neither has all names of
    /// the other, are left out.
    #[must_use]
    pub fn narrowed(&self, other: &Self) -> Self {
        let include = match (&self.include, &other.include) {
            (None, include) | (include, None) => include.clone(),
            (Some(own), Some(others)) => {
                let within = |pattern: &str, wider: &[String]| wider.iter().any(|wider| covers(wider, pattern));
                let mut both: Vec<_> = own.iter().filter(|own| within(own, others)).cloned().collect();
                both.extend(others.iter().filter(|other| !own.contains(other) && within(other, own)).cloned());
                Some(both)
            }
        };
        let mut exclude = self.exclude.clone();
        exclude.extend(other.exclude.iter().filter(|pattern| !self.exclude.contains(pattern)).cloned());
        Self { include, exclude }
    }
}

/// Returns whether all names of `pattern` are names of `wider`. `false` may also mean that this is not known.
fn covers(wider: &str, pattern: &str) -> bool {
    // A `*` of `pattern` stands for any text, so that only a `*` may match it.
    wider == pattern || (!wider.contains('?') && matches_pattern(wider, pattern))
}

/// Returns whether a name is among those that `include` names, or among all without it, and not among those that `exclude` names.
#[must_use]
pub fn selects(include: Option<&[String]>, exclude: &[String], name: &str) -> bool {
    let any = |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, name));
    include.is_none_or(any) && !any(exclude)
}

/// Returns whether a name can be that of a tool. The conformance suite of MCP is stricter than its text.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    !name.is_empty() && name.len() <= 64 && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patterns() -> impl Strategy<Value = NamePatterns> {
        let some = || proptest::collection::vec("[ab*?]{0,4}", 0..4);
        (proptest::option::of(some()), some()).prop_map(|(include, exclude)| NamePatterns { include, exclude })
    }

    proptest! {
        #[test]
        fn a_narrowed_choice_has_no_name_that_one_of_both_has_not(
            one in patterns(), other in patterns(), names in proptest::collection::vec("[ab]{0,5}", 1..20),
        ) {
            let both = one.narrowed(&other);
            for name in names {
                prop_assert!(!both.selects(&name) || (one.selects(&name) && other.selects(&name)), "{name} {both:?}");
            }
            prop_assert_eq!(one.narrowed(&one), one);
        }
    }

    #[test]
    fn a_narrower_pattern_stays() {
        let choice = |include: &[&str]| NamePatterns {
            include: Some(include.iter().map(|pattern| (*pattern).to_owned()).collect()),
            exclude: Vec::new(),
        };
        // One choice, another, the names of both.
        for (one, other, both) in [
            (&["docs/*"][..], &["docs/a", "x"][..], &["docs/a"][..]),
            (&["docs/a*", "b"], &["*"], &["docs/a*", "b"]),
            (&["a"], &["a"], &["a"]),
            (&["a*"], &["*b"], &[]),
            // `?` stands for one character, `*` for any text.
            (&["a?"], &["a*"], &["a?"]),
        ] {
            assert_eq!(choice(one).narrowed(&choice(other)).include, choice(both).include, "{one:?} {other:?}");
            let mut swapped = choice(other).narrowed(&choice(one)).include.unwrap_or_default();
            swapped.sort();
            let mut both = choice(both).include.unwrap_or_default();
            both.sort();
            assert_eq!(swapped, both, "{other:?} {one:?}");
        }
    }

    #[test]
    fn names_and_patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("get-*", "get-issue", true),
            ("get-*", "list-issues", false),
            ("*issue*", "get-issue", true),
            ("?et", "get", true),
            ("?et", "gets", false),
            ("a*b*c", "a-b-b-c", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
        for (name, expected) in
            [("a", true), ("A/b.c_d-1", true), ("", false), ("a b", false), ("é", false), ("*", false)]
        {
            assert_eq!(is_tool_name(name), expected, "{name}");
        }
        assert!(is_tool_name(&"x".repeat(64)) && !is_tool_name(&"x".repeat(65)));
    }
}

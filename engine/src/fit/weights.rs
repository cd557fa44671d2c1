//! What files are worth, by their names (seed 002, "Size-Proportional").

use super::values::ORDINARY;
use crate::program::Glob;
use crate::work::Work;

/// The patterns of `size_proportional` without `weights`, and their values in millionths.
pub(super) const DEFAULTS: [(&str, u64); 21] = [
    ("*.lock", 50_000),
    ("*.sum", 50_000),
    ("package-lock.json", 50_000),
    ("pnpm-lock.yaml", 50_000),
    ("*.min.js", 100_000),
    ("*.min.css", 100_000),
    ("*/migrations/*", 600_000),
    ("*/migrate/*", 600_000),
    ("schema.*", 600_000),
    ("*.schema.*", 600_000),
    ("*/test/*", 700_000),
    ("*/tests/*", 700_000),
    ("*/__tests__/*", 700_000),
    ("*/spec/*", 700_000),
    ("test_*", 700_000),
    ("*_test.*", 700_000),
    ("*_tests.*", 700_000),
    ("*.test.*", 700_000),
    ("*_spec.*", 700_000),
    ("*.spec.*", 700_000),
    ("*Test.java", 700_000),
];

/// A path with more bytes than this is no path: it counts as another file.
const LONGEST_PATH: usize = 4096;

/// File patterns, and what the files are worth; the first that matches counts.
#[derive(Debug, Clone)]
pub(crate) struct Weights(Box<[(Pattern, u64)]>);

/// A pattern in which `*` matches any characters.
#[derive(Debug, Clone)]
struct Pattern {
    /// Whether the pattern is for the path and not for the name of the file: it contains `/`.
    whole: bool,
    text: Text,
}

#[derive(Debug, Clone)]
enum Text {
    Plain(Box<str>),
    Glob(Glob),
}

impl Default for Weights {
    fn default() -> Self {
        Self::new(DEFAULTS)
    }
}

impl Weights {
    /// Compiles patterns with their values in millionths. A pattern with a `/` is compared with the whole path, with a
    /// `/` before it; any other pattern with the name of the file.
    pub(crate) fn new<'p>(patterns: impl IntoIterator<Item = (&'p str, u64)>) -> Self {
        let pattern = |text: &str| Pattern {
            whole: text.contains('/'),
            text: match Glob::new(text.split('*').map(str::to_owned)) {
                Some(glob) => Text::Glob(glob),
                None => Text::Plain(text.into()),
            },
        };
        Self(patterns.into_iter().map(|(text, value)| (pattern(text), value)).collect())
    }

    /// Returns what the file at `path` is worth.
    pub(super) fn of(&self, path: &str, work: &Work<'_>) -> u64 {
        if path.len() > LONGEST_PATH {
            return ORDINARY;
        }
        let _ = work.spend_unbounded(self.0.len() * (1 + path.len() / 64));
        let whole = format!("/{}", path.trim_start_matches('/'));
        let name = whole.rsplit('/').next().unwrap_or_default();
        let found = self.0.iter().find(|(pattern, _)| pattern.matches(if pattern.whole { &whole } else { name }));
        found.map_or(ORDINARY, |(_, value)| *value)
    }
}

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        match &self.text {
            Text::Plain(plain) => **plain == *text,
            Text::Glob(glob) => glob.matches(text),
        }
    }
}

//! URI templates with simple variables (RFC 6570, level 1), matched against URIs.

use percent_encoding::percent_decode_str;
use tamis_config::placeholder::{Piece, pieces};
use tamis_config::{NamePatterns, matches_pattern};
use url::Url;

/// A URI template: text and variables in turns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UriTemplate(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Variable(Box<str>),
}

/// What a URI has in the places of a template's variables, with what is percent-encoded there decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matched {
    /// The values by variable, in the order of the template.
    pub(super) values: Vec<(String, String)>,
    /// Whether a value spans several segments of the URI.
    pub(super) spans: bool,
}

impl UriTemplate {
    /// Parses a template. The compile step has refused two variables without text between them.
    pub(super) fn parse(text: &str) -> Self {
        let part = |piece| match piece {
            Piece::Literal(text) => Part::Text(text.into()),
            Piece::Placeholder(name) => Part::Variable(name.into()),
        };
        Self(pieces(text).map(part).collect())
    }

    /// Returns the variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable(name) => Some(&**name),
        })
    }

    /// Returns the values of the variables in `uri`, or `None` if it is none of the template's URIs. A value ends where the
    /// text after its variable begins for the first time, and is never empty. Takes time in proportion to the length.
    pub(super) fn matches(&self, uri: &str) -> Option<Matched> {
        let (mut rest, mut values, mut spans) = (uri, Vec::new(), false);
        let mut parts = self.0.iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Text(text) => rest = rest.strip_prefix(&**text)?,
                Part::Variable(name) => {
                    let end = match parts.peek() {
                        Some(Part::Text(text)) => rest.find(&**text)?,
                        // The compile step allows no variable here.
                        Some(Part::Variable(_)) => return None,
                        None => rest.len(),
                    };
                    let value = &rest[..end];
                    if value.is_empty() {
                        return None;
                    }
                    spans |= value.contains(['/', '?', '#']);
                    values.push((name.to_string(), percent_decode_str(value).decode_utf8().ok()?.into_owned()));
                    rest = &rest[end..];
                }
            }
        }
        rest.is_empty().then_some(Matched { values, spans })
    }
}

/// Returns whether a resource of a server is passed on, by its URI. A pattern may also be a URI template, which stands for its
/// URIs.
///
/// A server may take another spelling of a URI for the same, so a choice that excludes something passes on only URIs in their
/// normal form (WHATWG URL, as `url` writes it), and compares them without percent-encoding and without what servers ignore, too.
pub(crate) fn selects(patterns: &NamePatterns, uri: &str) -> bool {
    let names = |pattern: &str, uri: &str| {
        matches_pattern(pattern, uri) || (pattern.contains('{') && UriTemplate::parse(pattern).matches(uri).is_some())
    };
    let is_included = patterns.include.as_ref().is_none_or(|include| include.iter().any(|pattern| names(pattern, uri)));
    if patterns.exclude.is_empty() || !is_included {
        return is_included;
    }
    let Some(parsed) = Url::parse(uri).ok().filter(|parsed| parsed.as_str() == uri) else { return false };
    let bare = bare(&parsed);
    let plain = [uri, &bare].map(|uri| percent_decode_str(uri).decode_utf8_lossy());
    let mut spellings = [uri, &*bare].into_iter().chain(plain.iter().map(|uri| &**uri));
    !spellings.any(|uri| patterns.exclude.iter().any(|pattern| names(pattern, uri)))
}

/// Returns whether a resource template of a server is passed on, by its text. What a pattern excludes has no other names of
/// variables, and a text without variables is a URI.
pub(crate) fn selects_template(patterns: &NamePatterns, template: &str) -> bool {
    if !template.contains('{') {
        return selects(patterns, template);
    }
    let is_excluded = |pattern: &String| UriTemplate::parse(pattern).matches(template).is_some();
    patterns.selects(template) && !patterns.exclude.iter().any(is_excluded)
}

/// Returns a URI without user, port and fragment, without an empty query, empty segments and a slash at the end, and with its
/// host in lower case.
fn bare(uri: &Url) -> String {
    let mut bare = format!("{}:", uri.scheme());
    if uri.as_str()[bare.len()..].starts_with("//") {
        bare.push_str("//");
        bare.push_str(&uri.host_str().unwrap_or_default().to_ascii_lowercase());
    }
    for (index, segment) in uri.path().split('/').enumerate() {
        match (index, segment) {
            (0, segment) => bare.push_str(segment),
            (_, "") => {}
            (_, segment) => {
                bare.push('/');
                bare.push_str(segment);
            }
        }
    }
    if let Some(query) = uri.query().filter(|query| !query.is_empty()) {
        bare.push('?');
        bare.push_str(query);
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_excluded_has_no_other_spelling() {
        let choice = |include: Option<&[&str]>, exclude: &[&str]| NamePatterns {
            include: include.map(|include| include.iter().map(|text| (*text).to_owned()).collect()),
            exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
        };
        let excluding = choice(None, &["demo://a/secret.md", "demo://text/{id}"]);
        // A choice, a URI, and whether it is passed on.
        for (patterns, uri, expected) in [
            (&excluding, "demo://a/open.md", true),
            (&excluding, "demo://a/secret.md", false),
            (&excluding, "DEMO://a/secret.md", false),
            (&excluding, "demo://a/x/../secret.md", false),
            (&excluding, "demo://a/./secret.md", false),
            (&excluding, " demo://a/secret.md", false),
            (&excluding, "demo://a/sec\tret.md", false),
            (&excluding, "demo://a/sec%72et.md", false),
            (&excluding, "demo://a/%2e%2e/a/secret.md", false),
            (&excluding, "demo://a/secret.md#", false),
            (&excluding, "demo://a/secret.md#x", false),
            (&excluding, "demo://a/secret.md?", false),
            (&excluding, "demo://A/secret.md", false),
            (&excluding, "demo://a:80/secret.md", false),
            (&excluding, "demo://u:p@a/secret.md", false),
            (&excluding, "demo://a//secret.md", false),
            (&excluding, "demo://a/secret.md/", false),
            (&excluding, "demo://A//sec%72et.md/#", false),
            (&excluding, "demo://a/open.md?x=1#y", true),
            (&excluding, "demo://a/", true),
            (&excluding, "demo://text/1", false),
            (&excluding, "demo://text/{id}", false),
            (&excluding, "demo://other/1", true),
            (&excluding, "memo:insights", true),
            (&excluding, "not a uri", false),
            (&choice(None, &[]), "DEMO://a/x/../secret.md", true),
            (&choice(Some(&["demo://text/{id}"]), &[]), "demo://text/1", true),
            (&choice(Some(&["demo://text/{id}"]), &[]), "demo://texts/1", false),
            (&choice(Some(&["demo://*"]), &["*secret*"]), "demo://a/sec%72et.md", false),
        ] {
            assert_eq!(selects(patterns, uri), expected, "{patterns:?} {uri}");
        }
    }

    #[test]
    fn what_is_excluded_has_no_other_template() {
        let patterns = NamePatterns { include: None, exclude: vec!["f:///secret/{x}".to_owned(), "f:///a".to_owned()] };
        for (template, expected) in [
            ("f:///secret/{x}", false),
            ("f:///secret/{y}", false),
            ("f:///secret/{+x}", false),
            ("f:///secret/x.txt", false),
            ("f:///a#", false),
            ("f:///open/{x}", true),
            ("f:///open", true),
        ] {
            assert_eq!(selects_template(&patterns, template), expected, "{template}");
        }
    }

    #[test]
    fn a_uri_gives_the_values_of_its_variables() {
        // The template, the URI, its values, and whether one spans segments.
        let table = [
            ("docs://a/{page}", "docs://a/intro", Some((vec!["intro"], false))),
            ("docs://a/{page}", "docs://a/in%2Ftro", Some((vec!["in/tro"], false))),
            ("docs://a/{page}", "docs://a/b/c", Some((vec!["b/c"], true))),
            ("docs://a/{page}", "docs://a/", None),
            ("docs://a/{page}", "docs://b/intro", None),
            ("docs://a/{page}", "docs://a/%ff", None),
            ("docs://a/{page}/raw", "docs://a/intro/raw", Some((vec!["intro"], false))),
            ("docs://a/{page}/raw", "docs://a/intro/raw/raw", None),
            ("docs://{x}-{y}", "docs://1-2-3", Some((vec!["1", "2-3"], false))),
            ("f:///a?x={x}&y=1", "f:///a?x=%C3%A4&y=1", Some((vec!["\u{e4}"], false))),
            ("f:///a?x={x}", "f:///a?x=1#b", Some((vec!["1#b"], true))),
        ];
        for (template, uri, expected) in table {
            let matched = UriTemplate::parse(template).matches(uri);
            let found = matched.as_ref().map(|m| (m.values.iter().map(|(_, v)| v.as_str()).collect(), m.spans));
            assert_eq!(found, expected, "{template} {uri}");
        }
    }

    #[test]
    fn a_long_uri_takes_linear_time() {
        let template = UriTemplate::parse(&(0..50).map(|n| format!("-{{v{n}}}")).collect::<String>());
        let begun = std::time::Instant::now();
        assert_eq!(template.matches(&"x".repeat(1 << 20)), None);
        let long = format!("-{}", "a-".repeat(1 << 19));
        assert!(template.matches(&long).is_some());
        assert!(begun.elapsed() < std::time::Duration::from_secs(2));
    }
}

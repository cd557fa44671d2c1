//! Path segments that contain `*`, such as `*_url`.

/// A pattern of member names, in which each `*` matches any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    /// The texts before, between and after the `*`, with escapes resolved; two or more.
    parts: Vec<Box<str>>,
}

impl Glob {
    /// Returns the pattern with `parts` between its `*`. `None` if there is no `*`.
    pub(crate) fn new(parts: impl IntoIterator<Item = String>) -> Option<Self> {
        let parts: Vec<Box<str>> = parts.into_iter().map(Into::into).collect();
        (parts.len() > 1).then_some(Self { parts })
    }

    /// Returns whether the pattern matches all of `name`. Each part is searched once, from the end of the part
    /// before, so the time is linear in the name and the pattern.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let (Some((first, rest)), Some(last)) = (self.parts.split_first(), self.parts.last()) else { return false };
        let Some(mut rest_of_name) = name.strip_prefix(&**first) else { return false };
        for part in &rest[..rest.len() - 1] {
            match rest_of_name.find(&**part) {
                Some(at) => rest_of_name = &rest_of_name[at + part.len()..],
                None => return false,
            }
        }
        rest_of_name.ends_with(&**last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::new(text.split('*').map(str::to_owned)).unwrap()
    }

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, yes, no) in [
            ("*_url", &["_url", "html_url", "a_url_url"][..], &["url", "_urls", "_ur", ""][..]),
            ("a*", &["a", "ab", "a*"], &["", "ba"]),
            ("*b*", &["b", "abc", "bb"], &["", "a"]),
            ("a*a", &["aa", "aba"], &["a", "ab", ""]),
            ("a*b*c", &["abc", "a_b_c", "abcbc"], &["ac", "acb", "ab"]),
            ("*", &["", "anything", "é"], &[]),
            ("é*", &["é", "éa"], &["e"]),
        ] {
            let glob = glob(pattern);
            yes.iter().for_each(|name| assert!(glob.matches(name), "{pattern} {name}"));
            no.iter().for_each(|name| assert!(!glob.matches(name), "{pattern} {name}"));
        }
        assert_eq!(Glob::new(["a".to_owned()]), None);
    }
}

//! Names of tools, and patterns that choose among them.

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

/// Returns whether a name can be that of a tool. The conformance suite of MCP is stricter than its text.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    !name.is_empty() && name.len() <= 64 && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! `{name}` in paths, queries, headers and bodies.

/// The names that a template asks for. A brace that does not enclose a plain name is an ordinary character: a GraphQL
/// query in a body is full of them.
pub(super) fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = template;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('{')?;
            let end = after.find(|c: char| !is_name_char(c)).unwrap_or(after.len());
            rest = &after[end..];
            if end > 0 && rest.starts_with('}') {
                return Some(&after[..end]);
            }
        }
    })
}

/// What is left of a template without its placeholders.
pub(super) fn literal(template: &str) -> String {
    let mut text = template.to_owned();
    for name in placeholders(template) {
        text = text.replacen(&format!("{{{name}}}"), "", 1);
    }
    text
}

/// Whether a name can stand in braces.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

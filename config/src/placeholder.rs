//! The placeholders (`{name}`) in the paths, queries, headers and bodies of a call. The compiler checks templates with this
//! parser, and the gateway fills them with it.
//!
//! ```text
//! text        = *( literal / placeholder )
//! placeholder = "{" 1*name-char "}"
//! name-char   = any character except white space, control characters, "{", "}", "\"" and "'"
//! ```
//!
//! Every other brace is ordinary text. A body that is JSON or a GraphQL query contains many, and needs no escapes: `{ id }`,
//! `{"id": 1}` and `{}` are literals.

use std::iter::FusedIterator;

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Text that is sent as it is. Never empty, and contains no placeholder.
    Literal(&'t str),
    /// The name in a placeholder, without its braces. Whether an argument has that name is for the caller to decide.
    Placeholder(&'t str),
}

/// Splits a template into its pieces, in order. The pieces, with braces around the placeholders, are the whole text.
///
/// Takes time in proportion to the length of the text.
#[must_use]
pub fn pieces(text: &str) -> Pieces<'_> {
    Pieces { rest: text, name: None }
}

/// The iterator of [`pieces`].
#[derive(Debug, Clone)]
pub struct Pieces<'t> {
    rest: &'t str,
    /// The placeholder that follows the literal returned last.
    name: Option<&'t str>,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        if let Some(name) = self.name.take() {
            return Some(Piece::Placeholder(name));
        }
        let (literal, found) = split(self.rest);
        self.rest = found.map_or("", |(_, rest)| rest);
        let name = found.map(|(name, _)| name);
        if literal.is_empty() {
            return name.map(Piece::Placeholder);
        }
        self.name = name;
        Some(Piece::Literal(literal))
    }
}

impl FusedIterator for Pieces<'_> {}

/// Splits a text at its first placeholder: the text before it, its name, and the text after it.
fn split(text: &str) -> (&str, Option<(&str, &str)>) {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let name = open + 1;
        let Some(end) = text[name..].find(ends_name).map(|at| name + at) else { break };
        if end > name && text[end..].starts_with('}') {
            return (&text[..open], Some((&text[name..end], &text[end + 1..])));
        }
        // The character at `end` may open a placeholder itself.
        from = end;
    }
    (text, None)
}

fn ends_name(c: char) -> bool {
    matches!(c, '{' | '}' | '"' | '\'') || c.is_whitespace() || c.is_control()
}

#[cfg(test)]
#[path = "placeholder_tests.rs"]
mod tests;

//! Bad inputs. The expected text is in `docs/errors.md`.

mod documents;
mod files;
mod graphql;
mod grpc;
mod openapi;
mod programs;

/// One file that has something wrong with it.
pub(crate) struct Case {
    /// What is wrong, as the page's heading says it.
    pub(crate) title: &'static str,
    /// The file's name; its ending decides the syntax.
    pub(crate) file: &'static str,
    /// What it holds.
    pub(crate) input: &'static [u8],
    /// Another file next to it.
    pub(crate) beside: Option<(&'static str, &'static [u8])>,
}

const fn yaml(title: &'static str, input: &'static str) -> Case {
    Case { title, file: "a.yaml", input: input.as_bytes(), beside: None }
}

const fn json(title: &'static str, input: &'static str) -> Case {
    Case { title, file: "a.json", input: input.as_bytes(), beside: None }
}

/// The page, section by section.
pub(crate) const SECTIONS: &[(&str, &[Case])] = &[
    ("Files", files::FILES),
    ("YAML", files::YAML),
    ("JSON", files::JSON),
    ("Documents", documents::ENVELOPE),
    ("Fields", documents::FIELDS),
    ("Text, numbers and booleans", documents::SCALARS),
    ("Other kinds and formats", documents::LATER),
    ("Services", documents::SERVICES),
    ("Filters", documents::FILTERS),
    ("Prompts and resources", documents::CONTENT),
    ("References", documents::REFERENCES),
    ("Bundles", documents::BUNDLES),
    ("OpenAPI documents", openapi::OPENAPI),
    ("GraphQL documents", graphql::GRAPHQL),
    ("Programs", programs::PROGRAMS),
    ("gRPC documents", grpc::GRPC),
];

/// The input as the page can show it: bytes that are no text, and characters that cannot be seen, as escapes.
pub(crate) fn printable(input: &[u8]) -> String {
    let visible = |c: char| match c {
        '\n' => "\n".to_owned(),
        '\t' => "\u{2192}".to_owned(),
        '\u{feff}' => "\\u{feff}".to_owned(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    match std::str::from_utf8(input) {
        Ok(text) => text.chars().map(visible).collect(),
        Err(_) => input.escape_ascii().to_string().replace("\\n", "\n"),
    }
}

//! Comments of .proto texts, which become descriptions.

use std::collections::HashMap;

use prost_reflect::FileDescriptor;

/// The comments of files, by file and by the path of what they are about.
#[derive(Debug, Default)]
pub(super) struct Comments(HashMap<String, HashMap<Vec<i32>, String>>);

impl Comments {
    /// Returns the comment about something, in paragraphs.
    pub(super) fn of(&mut self, file: &FileDescriptor, path: &[i32]) -> Option<&str> {
        let name = file.name();
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), read(file));
        }
        self.0.get(name)?.get(path).map(String::as_str)
    }
}

fn read(file: &FileDescriptor) -> HashMap<Vec<i32>, String> {
    let info = file.file_descriptor_proto().source_code_info.iter();
    let all = info.flat_map(|info| &info.location).filter_map(|location| {
        let comment = location.leading_comments.as_deref().or(location.trailing_comments.as_deref())?;
        let text = paragraphs(comment);
        (!text.is_empty()).then(|| (location.path.clone(), text))
    });
    all.collect()
}

/// Joins the lines of each paragraph. Lines that begin with the mark of a list stay lines.
fn paragraphs(comment: &str) -> String {
    let mut text = String::new();
    let mut is_new = true;
    for line in comment.lines() {
        let own = line.trim().trim_start_matches('*').trim_start();
        if own.is_empty() {
            is_new = true;
            continue;
        }
        let is_item = own.starts_with("- ");
        if !text.is_empty() {
            text.push_str(match (is_new, is_item) {
                (true, _) => "\n\n",
                (false, true) => "\n",
                (false, false) => " ",
            });
        }
        text.push_str(own);
        is_new = false;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_paragraphs() {
        let table = [
            (" One\n two.\n", "One two."),
            (" A.\n\n B\n", "A.\n\nB"),
            ("*\n * Block\n * comment.\n", "Block comment."),
            (" List:\n - a\n - b\n", "List:\n- a\n- b"),
            ("\n \n", ""),
        ];
        for (comment, text) in table {
            assert_eq!(paragraphs(comment), text, "{comment:?}");
        }
    }
}

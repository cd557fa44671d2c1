//! What of Markdown the tests have to know: fences, links, headings and their anchors.

/// A text without its fenced and indented blocks and its comments, whose lines are left empty.
pub(crate) fn prose(text: &str) -> String {
    let (mut open, mut after_blank, mut listed) = (false, true, false);
    let mut prose = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        open ^= fence;
        // Four spaces after an empty line are a block, but in a list they are more of its item.
        listed = line.trim_start().starts_with("- ") || (listed && (line.starts_with(' ') || line.is_empty()));
        let indented = line.starts_with("    ") && after_blank && !listed;
        after_blank = line.is_empty() || indented;
        let comment = line.starts_with("<!--") && line.ends_with("-->");
        if !open && !fence && !indented && !comment {
            prose.push_str(line);
        }
        prose.push('\n');
    }
    prose
}

/// The targets of links and images, by line. What stands in backticks is no link.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text).lines().enumerate() {
        // Even parts are outside of backticks. A link's text may be code: then its target begins the next part.
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = outside.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        found.extend(targets.map(|target| (number + 1, target.to_owned())));
    }
    found
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for heading in prose(text).lines().filter_map(|line| line.strip_prefix('#')) {
        let anchor = slug(heading.trim_start_matches('#').trim());
        let before = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Text in a cell of a table.
pub(crate) fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', "<br>")
}

#[test]
fn blocks_hold_no_links() {
    let text = "[a](b.md)\n\n    [no](no.md)\n\n```\n[no](no.md)\n```\n- x\n    [`c`](d.md#e) `[no](no.md)`\n";
    assert_eq!(links(text), [(1, "b.md".to_owned()), (9, "d.md#e".to_owned())]);
}

#[test]
fn headings_have_the_anchors_of_github() {
    let text = "# What Enforced promises, and what it does not\n## `a.b`\n## Again\n```\n# no\n```\n## Again\n";
    assert_eq!(anchors(text), ["what-enforced-promises-and-what-it-does-not", "ab", "again", "again-1"]);
}

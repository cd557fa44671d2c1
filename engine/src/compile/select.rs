//! Parses source paths of `select`: `user.login`, `labels[*].name`, `a\.b`.

use super::check::Problem;
use crate::json::DEPTH_CEILING;
use crate::program::Step;

const SYNTAX: &str =
    "write names with dots between them, `[n]` for an element, `[*]` for all, `\\.` for a dot in a name";

/// Parses one source path.
pub(super) fn path(text: &str) -> Result<Vec<Step>, Problem> {
    if text.is_empty() {
        return Err(Problem::new("the source path is empty", "name the member to take, such as `user.login`"));
    }
    // Each of these begins a step; escaped ones are counted too.
    let deep = memchr::memchr2_iter(b'.', b'[', text.as_bytes()).count();
    if deep > DEPTH_CEILING {
        let message = format!("the source path has {deep} dots and brackets, at most {DEPTH_CEILING} are allowed");
        return Err(Problem::new(message, "name something less deep: no output is nested that far"));
    }
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        let name = take_name(&mut rest, text)?;
        if !name.is_empty() {
            steps.push(Step::Name(name.into()));
        } else if steps.is_empty() && rest.starts_with('[') {
            return Err(Problem::new(
                format!("`{text}` begins with an index"),
                "begin with the name of a member: items are objects",
            ));
        } else {
            return Err(Problem::new(format!("`{text}` has an empty name"), SYNTAX));
        }
        while let Some(inside) = rest.strip_prefix('[') {
            let (index, after) =
                inside.split_once(']').ok_or_else(|| Problem::new(format!("`{text}` has `[` without `]`"), SYNTAX))?;
            steps.push(step(index, text)?);
            rest = after;
        }
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.is_empty() => return Ok(steps),
            None => return Err(Problem::new(format!("`{text}` has no dot behind `]`"), SYNTAX)),
        }
    }
}

fn step(index: &str, text: &str) -> Result<Step, Problem> {
    if index == "*" {
        return Ok(Step::Each);
    }
    if !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()) {
        // An index beyond `usize` is beyond every array.
        return Ok(Step::Index(index.parse().unwrap_or(usize::MAX)));
    }
    Err(Problem::new(
        format!("`[{index}]` in `{text}` is no index"),
        "write `[0]` for the first element, `[*]` for all",
    ))
}

fn take_name(rest: &mut &str, text: &str) -> Result<String, Problem> {
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => {
                *rest = &rest[at..];
                return Ok(name);
            }
            ']' => {
                return Err(Problem::new(
                    format!("`{text}` has `]` without `[`"),
                    "write `\\]` for a bracket in a name",
                ));
            }
            '\\' => match chars.next() {
                Some((_, escaped @ ('.' | '[' | ']' | '\\'))) => name.push(escaped),
                _ => {
                    return Err(Problem::new(
                        format!("`{text}` has `\\` before something else than `.`, `[`, `]` or `\\`"),
                        "write `\\\\` for a backslash in a name",
                    ));
                }
            },
            _ => name.push(c),
        }
    }
    *rest = "";
    Ok(name)
}

//! Removes members of an object by name, whatever they contain.

use super::run::Run;
use super::scan;
use crate::json::{DEPTH_CEILING, Key};
use crate::work::Work;

/// Returns the JSON object `text` without those of its own members that are called one of `names`, in any spelling.
/// `None` if it has no such member.
pub(crate) fn without_members(text: &str, names: &[&str], work: &Work<'_>) -> Option<String> {
    // A key that differs from every name as written can equal one only through escapes.
    let finders =
        names.iter().copied().chain(["\\u"]).map(|name| memchr::memmem::find(text.as_bytes(), name.as_bytes()));
    if finders.into_iter().all(|found| found.is_none()) {
        return None;
    }
    let mut unused = Vec::new();
    let mut run = Run::new(text.as_bytes(), &mut unused, work);
    let mut out = String::with_capacity(text.len());
    let mut found = false;
    run.document(|run, pos| {
        let (mut pos, mut more) = run.open(pos, b'}')?;
        while more {
            let end = scan::string(run.bytes, pos + 1)?;
            let value = scan::colon(run.bytes, end, &mut run.tally)?;
            let after = run.skip(value, DEPTH_CEILING)?;
            let key = Key::from_raw(&text[pos..end]);
            if names.iter().any(|name| key.is(name)) {
                found = true;
            } else {
                out.push(if out.is_empty() { '{' } else { ',' });
                out.push_str(&text[pos..after]);
            }
            (pos, more) = run.next(after, b'}')?;
        }
        Ok(pos)
    })
    .ok()?;
    out.push_str(if out.is_empty() { "{}" } else { "}" });
    found.then_some(out)
}

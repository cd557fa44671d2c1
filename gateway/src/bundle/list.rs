//! `tools/list` of a bundle: the entries of its parts' lists, one part after the other, under the names of the bundle.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tamis_config::bundle::name_of;

use crate::exposition::{Exposition, PAGE, Page};

/// Returns the name of the tool that a cursor names. As for any exposition, a cursor is the name of a page's first tool.
pub(super) fn name_at(cursor: &str) -> Option<String> {
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// Returns the page that begins at the tool `from`, by the positions of its part and of the tool there. `parts`: the parts
/// to list from there on, each with its position and how many of its tools are published. `has`: whether a part has a tool.
pub(super) fn page<'p>(
    parts: &[(usize, &Arc<Exposition>, usize)],
    from: (usize, usize),
    prefixes: &(impl Iterator<Item = &'p str> + Clone),
    has: impl Fn(usize, &str) -> bool,
) -> Page<'static> {
    let (mut text, mut listed) = (String::new(), 0);
    for (part, exposition, room) in parts {
        let first = if *part == from.0 { from.1 } else { 0 };
        let (list, withheld) = (exposition.entries(), exposition.withheld());
        for (number, tool) in exposition.tools().keys().enumerate().take(*room).skip(first) {
            // The name of a tool that a server lists may be that of another part.
            if withheld.as_ref().is_some_and(|withheld| withheld.contains_key(tool)) || !has(*part, tool) {
                continue;
            }
            let Ok(name) = name_of(prefixes.clone(), *part, tool, &has) else { continue };
            if listed == PAGE {
                return Page { tools: Cow::Owned(text), next: Some(BASE64_URL_SAFE_NO_PAD.encode(name)) };
            }
            if listed > 0 {
                text.push(',');
            }
            list.push_as(number, &name, &mut text);
            listed += 1;
        }
    }
    Page { tools: Cow::Owned(text), next: None }
}

//! The prompts and resources of a bundle: those of its parts, prompts under the part's prefix, resources by their URI.
//!
//! What the documents of any part have comes before what a server may have, and of two parts whose documents have it the first
//! counts, whichever part admits the caller. What a server has is not known. A prompt is asked for where the prefix fits best;
//! a resource may be on any of the servers, and they are asked in their order.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::View;
use super::list::name_at;
use crate::dispatch::OF_SERVER;
use crate::exposition::{Content, ContentList, Exposition, PAGE, Page};
use crate::watch::Reach;

/// A part of a bundle whose prompts or resources are asked for.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// The bundle, as the sender of the request sees it.
    pub(crate) view: Arc<View>,
    /// The position of the part.
    pub(crate) part: usize,
}

impl Member {
    /// Returns the bundle's cursor for a cursor of the part's server.
    pub(crate) fn cursor(&self, of_server: &str) -> String {
        format!("{OF_SERVER}{}.{of_server}", self.part)
    }

    /// Returns the cursor at which the list goes on after that of the part's server; none if it ends there.
    pub(crate) fn next_cursor(&self, list: ContentList) -> Option<String> {
        self.view.server_cursor(list, self.part + 1)
    }

    /// Returns the name in the bundle of an entry that the part's server lists; none if the bundle does not publish it.
    pub(crate) fn name_of_server<'n>(&self, list: ContentList, name: &'n str) -> Option<Cow<'n, str>> {
        let view = &self.view;
        let name = match view.prefix(list, self.part) {
            "" => Cow::Borrowed(name),
            prefix => Cow::Owned(format!("{prefix}{name}")),
        };
        let published = match list {
            ContentList::Prompts => {
                view.document(list, &name).is_none() && view.server_of(&name).is_some_and(|(part, _)| part == self.part)
            }
            ContentList::Resources => view.document_of(&name).is_none(),
            ContentList::Templates => view.document(list, &name).is_none(),
        };
        published.then_some(name)
    }
}

/// Splits the cursor of a server's list, without its mark, into the position of the part and the server's own cursor.
pub(crate) fn split_cursor(cursor: &str) -> Option<(usize, &str)> {
    let (part, of_server) = cursor.split_once('.')?;
    Some((part.parse().ok()?, of_server))
}

impl View {
    /// Returns a part that is served and admits the sender, and the sender's name as the part knows it.
    pub(crate) fn member(&self, part: usize) -> Option<(&Arc<Exposition>, Option<Arc<str>>)> {
        let exposition = self.parts.get(part)?.as_ref()?;
        Some((exposition, self.admission(exposition)?))
    }

    fn contents(&self) -> impl Iterator<Item = (usize, &Content)> {
        self.parts.iter().enumerate().filter_map(|(number, part)| Some((number, part.as_ref()?.content()?)))
    }

    /// Returns what the names of a part's entries begin with.
    fn prefix(&self, list: ContentList, part: usize) -> &str {
        match list {
            ContentList::Prompts => &self.bundle.parts[part].prefix,
            ContentList::Resources | ContentList::Templates => "",
        }
    }

    /// Returns the part whose documents have an entry of a list, and the name of the entry there. Resources are not looked for
    /// among templates.
    pub(crate) fn document<'n>(&self, list: ContentList, name: &'n str) -> Option<(usize, &'n str)> {
        self.contents().find_map(|(part, content)| {
            let own = name.strip_prefix(self.prefix(list, part))?;
            content.has(list, own).then_some((part, own))
        })
    }

    /// Returns the part whose documents have a resource, or a template that reads it.
    pub(crate) fn document_of(&self, uri: &str) -> Option<usize> {
        let exact = self.document(ContentList::Resources, uri).map(|(part, _)| part);
        exact.or_else(|| self.contents().find(|(_, content)| content.has_template_of(uri)).map(|(part, _)| part))
    }

    /// Returns the part whose server is asked for a prompt that no document has, and the name of the prompt there: of the parts that
    /// pass it on, the one with the longest prefix.
    pub(crate) fn server_of<'n>(&self, name: &'n str) -> Option<(usize, &'n str)> {
        let fitting = self.contents().filter_map(|(part, content)| {
            let own = name.strip_prefix(self.prefix(ContentList::Prompts, part)).filter(|own| !own.is_empty())?;
            content.server_prompts()?.selects(own).then_some((part, own))
        });
        fitting.min_by_key(|(_, own)| own.len())
    }

    /// Returns the parts whose servers may have a resource or a template that `passes`, in the order in which they are asked: a server that is
    /// known not to answer comes last.
    pub(crate) fn servers_of(&self, passes: impl Fn(&Content) -> bool) -> Vec<usize> {
        let admitted = self.admitted().filter(|(_, part)| part.content().is_some_and(&passes));
        let is_down =
            |part: &Exposition| part.watch.as_ref().is_some_and(|watch| matches!(watch.reach(), Reach::Unreachable(_)));
        let mut servers: Vec<_> = admitted.map(|(number, part)| (is_down(part), number)).collect();
        servers.sort_unstable();
        servers.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns the cursor of the first server's list of the parts from `from` on; none if no server is asked.
    pub(crate) fn server_cursor(&self, list: ContentList, from: usize) -> Option<String> {
        let asked = |(number, part): &(usize, &Arc<Exposition>)| {
            *number >= from && part.content().is_some_and(|content| content.of_server(list).is_some())
        };
        self.admitted().find(asked).map(|(number, _)| format!("{OF_SERVER}{number}."))
    }

    /// Returns the page of the documents' entries at `cursor`; none for a cursor that names no entry of this sender.
    pub(crate) fn content_page(&self, list: ContentList, cursor: &str) -> Option<Page<'static>> {
        let from = if cursor.is_empty() {
            (0, 0)
        } else {
            let name = name_at(cursor)?;
            let (part, own) = self.document(list, &name)?;
            let (exposition, _) = self.member(part)?;
            let entries = exposition.content()?.list(&exposition.service, list);
            (part, entries.names().iter().position(|name| name == own)?)
        };
        let (mut text, mut listed) = (String::new(), 0);
        let parts = self.admitted().filter(|(part, _)| *part >= from.0);
        for (part, exposition) in parts {
            let Some(content) = exposition.content() else { continue };
            let entries = content.list(&exposition.service, list);
            let first = if part == from.0 { from.1 } else { 0 };
            for (number, own) in entries.names().iter().enumerate().skip(first) {
                let name = format!("{}{own}", self.prefix(list, part));
                if self.document(list, &name).is_none_or(|(owner, _)| owner != part) {
                    continue;
                }
                if listed == PAGE {
                    return Some(Page { tools: Cow::Owned(text), next: Some(BASE64_URL_SAFE_NO_PAD.encode(name)) });
                }
                if listed > 0 {
                    text.push(',');
                }
                match list {
                    ContentList::Prompts => entries.push_as(number, &name, &mut text),
                    ContentList::Resources | ContentList::Templates => entries.push(number, &mut text),
                }
                listed += 1;
            }
        }
        Some(Page { tools: Cow::Owned(text), next: None })
    }
}

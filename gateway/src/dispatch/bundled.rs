//! Requests for the prompts and resources of a bundle: each goes to the part that has what it asks for.

use std::borrow::Cow;
use std::sync::Arc;

use super::content::{
    Asked, Completes, Completion, Wanted, complete_argument, cursor_of, get, invalid_completion, invalid_cursor, read,
    server_page, unknown_prompt,
};
use super::{OF_SERVER, Request, Task, write_page};
use crate::bundle::{Member, View, split_cursor};
use crate::call::ToolCall;
use crate::exposition::{Content, ContentList};
use crate::mcp::RpcError;
use crate::mcp::encode::{self, Sink as _};

/// Decides what such a request asks for.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub(super) fn dispatch(request: &Request<'_>, view: &Arc<View>, wanted: Wanted<'_>) -> Result<Task, RpcError> {
    match wanted {
        Wanted::List(what) => list(request, view, what),
        Wanted::Prompt(name) => {
            let unknown = || unknown_prompt(&name);
            let (part, own) = prompt(view, &name).ok_or_else(unknown)?;
            at(request, view, part, |asked| get(asked, own)).ok_or_else(unknown)?
        }
        Wanted::Resource(uri) => {
            let parts = owners(view, view.document_of(&uri), |content| content.passes_resource(&uri));
            first(request, view, &parts, |asked| read(asked, &uri))
                .unwrap_or_else(|| Err(RpcError::resource_not_found(request.era, &uri)))
        }
        Wanted::Completion(completion) => complete(request, view, completion),
    }
}

/// Makes a request of a part; none if the part does not admit the sender, or has no prompts and resources.
fn at(
    request: &Request<'_>,
    view: &Arc<View>,
    part: usize,
    make: impl FnOnce(Asked<'_>) -> Result<Task, RpcError>,
) -> Option<Result<Task, RpcError>> {
    let (exposition, caller) = view.member(part)?;
    let member = Member { view: Arc::clone(view), part };
    let content = exposition.content()?;
    Some(make(Asked { request, exposition, content, member: Some(&member), caller: caller.as_ref() }))
}

/// Makes a request of the first of these parts, and of each further one if those before do not have what it asks for. Returns none
/// without a part that admits the sender.
fn first(
    request: &Request<'_>,
    view: &Arc<View>,
    parts: &[usize],
    make: impl Fn(Asked<'_>) -> Result<Task, RpcError>,
) -> Option<Result<Task, RpcError>> {
    let mut next: Option<Box<ToolCall>> = None;
    for part in parts.iter().rev() {
        match at(request, view, *part, &make) {
            Some(Ok(Task::Call(call))) => next = Some(Box::new(ToolCall { otherwise: next, ..call })),
            Some(other) => return Some(other),
            None => {}
        }
    }
    next.map(|call| Ok(Task::Call(*call)))
}

/// Returns the part that has a prompt, and the name of the prompt there.
fn prompt<'n>(view: &View, name: &'n str) -> Option<(usize, &'n str)> {
    view.document(ContentList::Prompts, name).or_else(|| view.server_of(name))
}

/// Returns the part whose documents have a resource or a template, or else those whose servers may have it.
fn owners(view: &View, document: Option<usize>, passes: impl Fn(&Content) -> bool) -> Vec<usize> {
    document.map_or_else(|| view.servers_of(passes), |part| vec![part])
}

fn list(request: &Request<'_>, view: &Arc<View>, list: ContentList) -> Result<Task, RpcError> {
    let mut cursor = cursor_of(request)?;
    if !cursor.starts_with(OF_SERVER) {
        let mut page = view.content_page(list, &cursor).ok_or_else(invalid_cursor)?;
        if page.next.is_none() {
            // The lists of the servers follow.
            page.next = view.server_cursor(list, 0);
        }
        match &page.next {
            Some(next) if page.tools.is_empty() => cursor = Cow::Owned(next.clone()),
            _ => {
                let answer = write_page(request.target, request.id.get(), list.member(), &page, request.era);
                return Ok(Task::Answer(answer));
            }
        }
    }
    let of_server = cursor.strip_prefix(OF_SERVER).and_then(split_cursor);
    let (part, cursor) = of_server.ok_or_else(invalid_cursor)?;
    let page = |asked: Asked<'_>| match asked.content.of_server(list) {
        Some(_) => server_page(asked, list, cursor),
        None => Err(invalid_cursor()),
    };
    at(request, view, part, page).ok_or_else(invalid_cursor)?
}

fn complete(request: &Request<'_>, view: &Arc<View>, completion: Completion<'_>) -> Result<Task, RpcError> {
    match &completion.of {
        Completes::Prompt(name) => {
            let (part, own) = prompt(view, name).ok_or_else(invalid_completion)?;
            let mut reference = String::from("{\"type\":\"ref/prompt\",\"name\":");
            encode::string(&mut reference, own);
            reference.put("}");
            let of = Completes::Prompt(Cow::Owned(own.to_owned()));
            let completion = Completion { of, reference: reference.into(), ..completion };
            at(request, view, part, |asked| complete_argument(asked, &completion)).ok_or_else(invalid_completion)?
        }
        Completes::Template(template) => {
            let document = view.document(ContentList::Templates, template).map(|(part, _)| part);
            let parts = owners(view, document, |content| content.passes_template(template));
            first(request, view, &parts, |asked| complete_argument(asked, &completion))
                .unwrap_or_else(|| Err(invalid_completion()))
        }
    }
}

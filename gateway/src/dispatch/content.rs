//! Requests for prompts and resources: answered from the documents, read by a template, or passed on to an MCP server.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Request, Task, bundled, complete, shown, write_page};
use crate::bundle::Member;
use crate::call::{ContentCall, DocumentCall};
use crate::exposition::{Content, ContentList, DocumentMethod, Exposition, Found, ServerMethod};
use crate::input::CallerInput;
use crate::mcp::encode::{self, Sink as _};
use crate::mcp::message::string;
use crate::mcp::{Era, Params, RpcError};
use crate::target::Target;

/// What comes before the cursors of a server's list. The documents' own cursors have no dot.
pub(crate) const OF_SERVER: &str = "s.";
/// The most values of a completion, as the protocol says.
const MAX_COMPLETIONS: usize = 100;

/// A request to an exposition that has prompts or resources.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) exposition: &'a Arc<Exposition>,
    pub(super) content: &'a Content,
    /// The part of a bundle, if the request came through one.
    pub(super) member: Option<&'a Member>,
    /// The sender's name, if that part has another one than the address.
    pub(super) caller: Option<&'a Arc<str>>,
}

/// Decides what such a request asks for.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub(super) fn dispatch(request: &Request<'_>) -> Result<Task, RpcError> {
    let unknown = || RpcError::method_not_found(request.era);
    let wanted = Wanted::of(request)?.filter(|wanted| request.target.has_content(|content| wanted.is_in(content)));
    let wanted = wanted.ok_or_else(unknown)?;
    let exposition = match request.target {
        Target::Exposition(exposition) => exposition,
        Target::Bundle(view) => return bundled::dispatch(request, view, wanted),
    };
    let content = exposition.content().ok_or_else(unknown)?;
    let asked = Asked { request, exposition, content, member: None, caller: None };
    match wanted {
        Wanted::List(what) => list(asked, what),
        Wanted::Prompt(name) => get(asked, &name),
        Wanted::Resource(uri) => read(asked, &uri),
        Wanted::Completion(completion) => complete_argument(asked, &completion),
    }
}

/// What a request asks for.
pub(super) enum Wanted<'a> {
    /// A page of a list.
    List(ContentList),
    /// The prompt of this name.
    Prompt(Cow<'a, str>),
    /// The resource of this URI.
    Resource(Cow<'a, str>),
    /// Values for an argument.
    Completion(Completion<'a>),
}

impl<'a> Wanted<'a> {
    /// Reads the parameters of a request; none if the method is of something else.
    ///
    /// # Errors
    /// The parameters are not those of the method.
    fn of(request: &Request<'a>) -> Result<Option<Self>, RpcError> {
        let params = request.params;
        let text =
            |raw: Option<&'a RawValue>, error| raw.and_then(string).ok_or_else(|| RpcError::invalid_params(error));
        Ok(Some(match request.method {
            "prompts/list" => Self::List(ContentList::Prompts),
            "resources/list" => Self::List(ContentList::Resources),
            "resources/templates/list" => Self::List(ContentList::Templates),
            "prompts/get" => Self::Prompt(text(params.name, "name must be a string")?),
            "resources/read" => Self::Resource(text(params.uri, "uri must be a string")?),
            "completion/complete" => Self::Completion(Completion::of(params)?),
            _ => return Ok(None),
        }))
    }

    /// Returns whether prompts and resources may answer such a request.
    fn is_in(&self, content: &Content) -> bool {
        match self {
            Self::List(ContentList::Prompts) | Self::Prompt(_) => content.has_prompts(),
            Self::List(ContentList::Resources | ContentList::Templates) | Self::Resource(_) => content.has_resources(),
            Self::Completion(_) => content.completes(),
        }
    }
}

/// Reads the cursor of a request; empty without one.
pub(super) fn cursor_of<'a>(request: &Request<'a>) -> Result<Cow<'a, str>, RpcError> {
    let cursor = request.params.cursor.map(|raw| string(raw).ok_or_else(invalid_cursor)).transpose()?;
    Ok(cursor.unwrap_or_default())
}

pub(super) fn invalid_cursor() -> RpcError {
    RpcError::invalid_params("invalid cursor")
}

/// Asks a server for a page of a list.
pub(super) fn server_page(asked: Asked<'_>, list: ContentList, cursor: &str) -> Result<Task, RpcError> {
    let mut params = String::new();
    if !cursor.is_empty() {
        params.put("\"cursor\":");
        encode::string(&mut params, cursor);
    }
    pass(asked, list.method(), None, params)
}

fn list(asked: Asked<'_>, list: ContentList) -> Result<Task, RpcError> {
    let Asked { request, exposition, content, .. } = asked;
    let cursor = cursor_of(request)?;
    let is_passed = content.of_server(list).is_some();
    if let Some(cursor) = cursor.strip_prefix(OF_SERVER) {
        return if is_passed { server_page(asked, list, cursor) } else { Err(invalid_cursor()) };
    }
    let mut page = content.page(&exposition.service, list, Some(&cursor)).ok_or_else(invalid_cursor)?;
    if is_passed && page.next.is_none() {
        if page.tools.is_empty() {
            return server_page(asked, list, "");
        }
        // The server's own list follows.
        page.next = Some(OF_SERVER.to_owned());
    }
    Ok(Task::Answer(write_page(request.target, request.id.get(), list.member(), &page, request.era)))
}

pub(super) fn unknown_prompt(name: &str) -> RpcError {
    RpcError::invalid_params(format!("unknown prompt: {}", shown(name)))
}

pub(super) fn get(asked: Asked<'_>, name: &str) -> Result<Task, RpcError> {
    let Asked { request, exposition, content, .. } = asked;
    let params = request.params;
    let service = &exposition.service;
    if content.prompt(service, name).is_none() {
        if !content.server_prompts().is_some_and(|patterns| patterns.selects(name)) {
            return Err(unknown_prompt(name));
        }
        let mut passed = String::from("\"name\":");
        encode::string(&mut passed, name);
        if let Some(arguments) = params.arguments {
            passed.put(",\"arguments\":");
            passed.put(arguments.get());
        }
        return pass(asked, ServerMethod::GetPrompt, Some(name.to_owned()), passed);
    }
    let arguments = params.arguments.map(|raw| request.source.slice_ref(raw.get().as_bytes()));
    of_documents(asked, DocumentMethod::GetPrompt, DocumentCall::Prompt { name: name.to_owned(), arguments })
}

/// Answers from the documents.
fn of_documents(asked: Asked<'_>, method: DocumentMethod, wanted: DocumentCall) -> Result<Task, RpcError> {
    let number = asked.exposition.tools().len() + asked.content.document_number(method);
    call(asked, number, ContentCall::Document(wanted))
}

pub(super) fn read(asked: Asked<'_>, uri: &str) -> Result<Task, RpcError> {
    let Asked { request, exposition, content, .. } = asked;
    let service = &exposition.service;
    match content.find(service, uri) {
        Some(Found::Own) => {
            of_documents(asked, DocumentMethod::ReadResource, DocumentCall::Resource { uri: uri.to_owned() })
        }
        Some(Found::Template(number, values)) => {
            if let Some(template) = content.service_template(service, number) {
                for (variable, value) in &values {
                    let allowed = template.values.get(variable);
                    if allowed.is_some_and(|allowed| !allowed.contains(value)) {
                        return Err(RpcError::resource_not_found(request.era, uri));
                    }
                }
            }
            let mut arguments = String::from("{");
            for (index, (variable, value)) in values.iter().enumerate() {
                arguments.put(if index == 0 { "" } else { "," });
                encode::string(&mut arguments, variable);
                arguments.put(":");
                encode::string(&mut arguments, value);
            }
            arguments.put("}");
            let number = exposition.tools().len() + number;
            call(asked, number, ContentCall::Template { uri: uri.to_owned(), arguments })
        }
        None if content.passes_resource(uri) => {
            let mut passed = String::from("\"uri\":");
            encode::string(&mut passed, uri);
            pass(asked, ServerMethod::ReadResource, Some(uri.to_owned()), passed)
        }
        None => Err(RpcError::resource_not_found(request.era, uri)),
    }
}

#[derive(Deserialize)]
struct Reference<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a RawValue,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Argument<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// What a completion is asked for.
pub(super) enum Completes<'a> {
    /// An argument of the prompt of this name.
    Prompt(Cow<'a, str>),
    /// A variable of this URI template.
    Template(Cow<'a, str>),
}

/// An argument whose values are asked for.
pub(super) struct Completion<'a> {
    pub(super) of: Completes<'a>,
    /// The reference and the argument, as JSON.
    pub(super) reference: Cow<'a, str>,
    pub(super) argument: &'a RawValue,
    /// The name of the argument.
    pub(super) name: Cow<'a, str>,
    /// What the caller has of its value.
    pub(super) begun: Cow<'a, str>,
}

pub(super) fn invalid_completion() -> RpcError {
    RpcError::invalid_params("ref and argument must name a prompt or a template, and an argument of it")
}

impl<'a> Completion<'a> {
    fn of(params: &Params<'a>) -> Result<Self, RpcError> {
        let read = || {
            let (raw_reference, raw_argument) = (params.reference?, params.argument?);
            let reference: Reference<'a> = serde_json::from_str(raw_reference.get()).ok()?;
            let argument: Argument<'a> = serde_json::from_str(raw_argument.get()).ok()?;
            let of = match (string(reference.kind)?.as_ref(), reference.name, reference.uri) {
                ("ref/prompt", Some(prompt), _) => Completes::Prompt(string(prompt)?),
                ("ref/resource", _, Some(uri)) => Completes::Template(string(uri)?),
                _ => return None,
            };
            let (name, begun) = (string(argument.name)?, string(argument.value)?);
            Some(Self { of, reference: raw_reference.get().into(), argument: raw_argument, name, begun })
        };
        read().ok_or_else(invalid_completion)
    }
}

/// Offers the values of an argument that begin with what the caller has of it.
pub(super) fn complete_argument(asked: Asked<'_>, completion: &Completion<'_>) -> Result<Task, RpcError> {
    let Asked { request, exposition, content, .. } = asked;
    let Completion { of, reference, argument, name, begun } = completion;
    let service = &exposition.service;
    let to_server = || {
        let passed = format!("\"ref\":{reference},\"argument\":{}", argument.get());
        pass(asked, ServerMethod::Complete, None, passed)
    };
    let of_default: Vec<String>;
    let values: &[String] = match of {
        Completes::Prompt(prompt) => match content.prompt(service, prompt) {
            Some(prompt) => {
                let argument = prompt.arguments.get(&**name).ok_or_else(invalid_completion)?;
                of_default = argument.default.iter().cloned().collect();
                if argument.values.is_empty() { &of_default } else { &argument.values }
            }
            None if content.server_prompts().is_some_and(|patterns| patterns.selects(prompt)) => {
                return to_server();
            }
            None => return Err(invalid_completion()),
        },
        Completes::Template(uri) => match content.template_number(uri) {
            Some(number) if content.has_variable(number, name) => {
                let template = content.service_template(service, number).ok_or_else(invalid_completion)?;
                template.values.get(&**name).map(Vec::as_slice).unwrap_or_default()
            }
            None if content.passes_template(uri) => {
                return to_server();
            }
            Some(_) | None => return Err(invalid_completion()),
        },
    };
    let fitting: Vec<&String> = values.iter().filter(|value| value.starts_with(&**begun)).collect();
    let total = fitting.len();
    let mut result = String::from("{\"completion\":{\"values\":[");
    for (index, value) in fitting.into_iter().take(MAX_COMPLETIONS).enumerate() {
        result.put(if index == 0 { "" } else { "," });
        encode::string(&mut result, value);
    }
    result.put(&format!("],\"total\":{total},\"hasMore\":{}}}", total > MAX_COMPLETIONS));
    if request.era == Era::Modern {
        result.put(&complete(request.target));
    }
    result.put("}");
    Ok(Task::Answer(encode::result(request.id.get(), &result)))
}

/// Passes a request on to the server. `params` are the members of its parameters, as JSON without braces.
fn pass(asked: Asked<'_>, method: ServerMethod, name: Option<String>, params: String) -> Result<Task, RpcError> {
    let number = asked.exposition.tools().len() + asked.content.method_number(method);
    call(asked, number, ContentCall::Server { method, name, params })
}

fn call(asked: Asked<'_>, number: usize, content: ContentCall) -> Result<Task, RpcError> {
    let Asked { request, exposition, content: _, member, caller } = asked;
    let mut call = request.call(Arc::clone(exposition), number)?;
    if let (Era::Modern, ContentCall::Server { method: ServerMethod::GetPrompt | ServerMethod::ReadResource, .. }) =
        (request.era, &content)
    {
        // Nothing is passed on under Enforced.
        call.input = CallerInput::read(request.params, request.source)?;
    }
    call.content = Some(content);
    if let Some(member) = member {
        call.bundle = Some(Arc::clone(&member.view.bundle));
        call.member = Some(member.clone());
    }
    if let Some(name) = caller {
        call.caller = call.caller.named(Arc::clone(name));
    }
    Ok(Task::Call(call))
}

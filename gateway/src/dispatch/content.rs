//! Requests for prompts and resources: answered from the documents, read by a template, or passed on to an MCP server.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Request, Task, cacheable, complete, shown, write_page};
use crate::call::{ContentCall, ToolCall};
use crate::exposition::{Content, ContentList, Exposition, Found, ServerMethod};
use crate::mcp::encode::{self, Sink as _};
use crate::mcp::message::string;
use crate::mcp::{Era, RpcError};
use crate::prompts;
use crate::target::Target;
use tamis_config::ResourceContent;

/// What comes before the cursors of a server's list. The documents' own cursors have no dot.
pub(crate) const OF_SERVER: &str = "s.";
/// The most values of a completion, as the protocol says.
const MAX_COMPLETIONS: usize = 100;

/// A request to an exposition that has prompts or resources.
#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a Request<'a>,
    exposition: &'a Arc<Exposition>,
    content: &'a Content,
}

/// Decides what such a request asks for.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub(super) fn dispatch(request: &Request<'_>) -> Result<Task, RpcError> {
    let unknown = || RpcError::method_not_found(request.era);
    // A bundle publishes the tools of its parts only.
    let Target::Exposition(exposition) = request.target else { return Err(unknown()) };
    let content = exposition.content().ok_or_else(unknown)?;
    let asked = Asked { request, exposition, content };
    match request.method {
        "prompts/list" if content.has_prompts() => list(asked, ContentList::Prompts),
        "prompts/get" if content.has_prompts() => get(asked),
        "resources/list" if content.has_resources() => list(asked, ContentList::Resources),
        "resources/templates/list" if content.has_resources() => list(asked, ContentList::Templates),
        "resources/read" if content.has_resources() => read(asked),
        "completion/complete" if content.completes() => complete_argument(asked),
        _ => Err(unknown()),
    }
}

fn list(asked: Asked<'_>, list: ContentList) -> Result<Task, RpcError> {
    let Asked { request, exposition, content } = asked;
    let invalid = || RpcError::invalid_params("invalid cursor");
    let cursor = request.params.cursor.map(|raw| string(raw).ok_or_else(invalid)).transpose()?;
    let cursor = cursor.as_deref().unwrap_or_default();
    let (member, method, server) = match list {
        ContentList::Prompts => ("prompts", ServerMethod::ListPrompts, content.server_prompts()),
        ContentList::Resources => ("resources", ServerMethod::ListResources, content.server_resources()),
        ContentList::Templates => ("resourceTemplates", ServerMethod::ListTemplates, content.server_resources()),
    };
    let of_server = |cursor: &str| {
        let mut params = String::new();
        if !cursor.is_empty() {
            params.put("\"cursor\":");
            encode::string(&mut params, cursor);
        }
        pass(asked, method, None, params)
    };
    if let Some(cursor) = cursor.strip_prefix(OF_SERVER) {
        return if server.is_some() { of_server(cursor) } else { Err(invalid()) };
    }
    let service = &exposition.service;
    let mut page = content.page(service, list, Some(cursor)).ok_or_else(invalid)?;
    if server.is_some() && page.next.is_none() {
        if page.tools.is_empty() {
            return of_server("");
        }
        // The server's own list follows.
        page.next = Some(OF_SERVER.to_owned());
    }
    Ok(Task::Answer(write_page(request.target, request.id.get(), member, &page, request.era)))
}

fn get(asked: Asked<'_>) -> Result<Task, RpcError> {
    let Asked { request, exposition, content } = asked;
    let params = request.params;
    let name = params.name.and_then(string).ok_or_else(|| RpcError::invalid_params("name must be a string"))?;
    let service = &exposition.service;
    let Some(prompt) = content.prompt(service, &name) else {
        if !content.server_prompts().is_some_and(|patterns| patterns.selects(&name)) {
            return Err(RpcError::invalid_params(format!("unknown prompt: {}", shown(&name))));
        }
        let mut passed = String::from("\"name\":");
        encode::string(&mut passed, &name);
        if let Some(arguments) = params.arguments {
            passed.put(",\"arguments\":");
            passed.put(arguments.get());
        }
        return pass(asked, ServerMethod::GetPrompt, Some(name.into_owned()), passed);
    };
    let messages = prompts::render(prompt, params.arguments).map_err(RpcError::invalid_params)?;
    let mut result = String::with_capacity(messages.len() + 256);
    result.put("{");
    if let Some(description) = &prompt.description {
        result.put("\"description\":");
        encode::string(&mut result, description);
        result.put(",");
    }
    result.put("\"messages\":");
    result.put(&messages);
    if request.era == Era::Modern {
        result.put(&complete(request.target));
    }
    result.put("}");
    Ok(Task::Answer(encode::result(request.id.get(), &result)))
}

fn read(asked: Asked<'_>) -> Result<Task, RpcError> {
    let Asked { request, exposition, content } = asked;
    let uri = request.params.uri.and_then(string).ok_or_else(|| RpcError::invalid_params("uri must be a string"))?;
    let service = &exposition.service;
    match content.find(service, &uri) {
        Some(Found::Own(resource)) => {
            let content = match &resource.content {
                ResourceContent::Text(text) => ("text", text.as_str()),
                ResourceContent::Blob(blob) => ("blob", blob.as_str()),
            };
            let mut result = String::from("{\"contents\":[");
            encode::resource(&mut result, &uri, resource.info.mime_type.as_deref(), content);
            result.put("]");
            if request.era == Era::Modern {
                result.put(&cacheable(request.target));
            }
            result.put("}");
            Ok(Task::Answer(encode::result(request.id.get(), &result)))
        }
        Some(Found::Template(number, values)) => {
            if let Some(template) = content.service_template(service, number) {
                for (variable, value) in &values {
                    let allowed = template.values.get(variable);
                    if allowed.is_some_and(|allowed| !allowed.contains(value)) {
                        return Err(RpcError::resource_not_found(request.era, &uri));
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
            call(asked, number, ContentCall::Template { uri: uri.into_owned(), arguments })
        }
        None if content.server_resources().is_some_and(|patterns| patterns.selects(&uri)) => {
            let mut passed = String::from("\"uri\":");
            encode::string(&mut passed, &uri);
            pass(asked, ServerMethod::ReadResource, Some(uri.into_owned()), passed)
        }
        None => Err(RpcError::resource_not_found(request.era, &uri)),
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

/// Offers the values of an argument that begin with what the caller has of it.
fn complete_argument(asked: Asked<'_>) -> Result<Task, RpcError> {
    let Asked { request, exposition, content } = asked;
    let params = request.params;
    let invalid =
        || RpcError::invalid_params("ref and argument must name a prompt or a template, and an argument of it");
    let (Some(raw_reference), Some(raw_argument)) = (params.reference, params.argument) else { return Err(invalid()) };
    let reference: Reference<'_> = serde_json::from_str(raw_reference.get()).map_err(|_| invalid())?;
    let argument: Argument<'_> = serde_json::from_str(raw_argument.get()).map_err(|_| invalid())?;
    let name = string(argument.name).ok_or_else(invalid)?;
    let begun = string(argument.value).ok_or_else(invalid)?;
    let service = &exposition.service;
    let to_server = || {
        let passed = format!("\"ref\":{},\"argument\":{}", raw_reference.get(), raw_argument.get());
        pass(asked, ServerMethod::Complete, None, passed)
    };
    let of_default: Vec<String>;
    let values: &[String] = match (string(reference.kind).ok_or_else(invalid)?.as_ref(), reference.name, reference.uri)
    {
        ("ref/prompt", Some(prompt), _) => {
            let prompt = string(prompt).ok_or_else(invalid)?;
            match content.prompt(service, &prompt) {
                Some(prompt) => {
                    let argument = prompt.arguments.get(&*name).ok_or_else(invalid)?;
                    of_default = argument.default.iter().cloned().collect();
                    if argument.values.is_empty() { &of_default } else { &argument.values }
                }
                None if content.server_prompts().is_some_and(|patterns| patterns.selects(&prompt)) => {
                    return to_server();
                }
                None => return Err(invalid()),
            }
        }
        ("ref/resource", _, Some(uri)) => {
            let uri = string(uri).ok_or_else(invalid)?;
            match content.template_number(&uri) {
                Some(number) if content.has_variable(number, &name) => {
                    let template = content.service_template(service, number).ok_or_else(invalid)?;
                    template.values.get(&*name).map(Vec::as_slice).unwrap_or_default()
                }
                Some(_) => return Err(invalid()),
                None if content.server_resources().is_some_and(|patterns| patterns.selects(&uri)) => {
                    return to_server();
                }
                None => return Err(invalid()),
            }
        }
        _ => return Err(invalid()),
    };
    let fitting: Vec<&String> = values.iter().filter(|value| value.starts_with(&*begun)).collect();
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
    let Asked { request, exposition, content: _ } = asked;
    let call = request.call(Arc::clone(exposition), number)?;
    Ok(Task::Call(ToolCall { content: Some(content), ..call }))
}

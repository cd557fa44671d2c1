//! Decides what a request asks for, whatever transport carries it.

mod bundled;
mod content;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use tamis_engine::Enforcement;

use crate::bundle::Found;
use crate::call::{Caller, ContentCall, ToolCall};
use crate::exposition::{Content, Exposition, Page};
use crate::feeds;
use crate::hops;
use crate::input::CallerInput;
use crate::mcp::encode::{self, Sink as _};
use crate::mcp::era::{MODERN_VERSIONS, negotiate};
use crate::mcp::level::Level;
use crate::mcp::message::{Meta, is_id, string};
use crate::mcp::{Era, Params, RpcError, arguments, headers};
use crate::registry::ListKind;
use crate::relay::Wanted;
use crate::target::Target;
use crate::trace::Parent;

pub(crate) use self::content::OF_SERVER;

/// What a request asks for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are calls, and a box would be an allocation for each")]
pub(crate) enum Task {
    /// This answer.
    Answer(Vec<u8>),
    /// This answer, after the session's level of log messages has been set.
    SetLevel(Level, Vec<u8>),
    /// A tool call.
    Call(ToolCall),
    /// A stream of notifications.
    Listen(Listen),
    /// The beginning or the end of a legacy session's subscription to a resource.
    Subscribe(Subscribe),
}

/// A legacy session's subscription to a resource of an MCP server.
#[derive(Debug)]
pub(crate) struct Subscribe {
    pub(crate) exposition: Arc<Exposition>,
    pub(crate) uri: String,
    /// Whether it begins.
    pub(crate) begins: bool,
}

/// An accepted `subscriptions/listen`.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    /// The request's id, as JSON. Each message is tagged with it.
    id: Bytes,
    /// Whether the client asked for the changes of each list, in the order of [`ListKind::ALL`].
    lists: [bool; 3],
    /// The published resources whose updates the client asked for; then those that the server has accepted.
    uris: Vec<Arc<str>>,
}

/// A request, and what is known about it.
pub(crate) struct Request<'a> {
    /// What it addresses.
    pub(crate) target: &'a Target,
    /// The bytes that `id` and `params` borrow from.
    pub(crate) source: &'a Bytes,
    /// Its id.
    pub(crate) id: &'a RawValue,
    /// Its method.
    pub(crate) method: &'a str,
    /// Its parameters.
    pub(crate) params: &'a Params<'a>,
    /// Its era.
    pub(crate) era: Era,
    /// Its HTTP headers, if it came over HTTP.
    pub(crate) headers: Option<&'a HeaderMap>,
    /// Who sent it.
    pub(crate) caller: &'a Caller,
    /// Whether calls are traced.
    pub(crate) is_traced: bool,
}

/// Decides what a request asks for.
///
/// # Errors
/// The JSON-RPC error to answer with.
pub(crate) fn dispatch(request: &Request<'_>) -> Result<Task, RpcError> {
    let Request { params, era, .. } = *request;
    let id = request.id.get();
    let answer = |result: &str| Ok(Task::Answer(encode::result(id, result)));
    match (request.method, era) {
        ("tools/call", _) => call(request).map(Task::Call),
        ("tools/list", _) => list(request).map(Task::Answer),
        (
            "prompts/list"
            | "prompts/get"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "completion/complete",
            _,
        ) => content::dispatch(request),
        ("server/discover", Era::Modern) => answer(&discover(request)),
        ("subscriptions/listen", Era::Modern) => listen(request).map(Task::Listen),
        ("initialize", Era::Legacy) => answer(&initialize(request, params)?),
        ("resources/subscribe", Era::Legacy) => subscribe(request, true).map(Task::Subscribe),
        ("resources/unsubscribe", Era::Legacy) => subscribe(request, false).map(Task::Subscribe),
        ("ping", Era::Legacy) => answer("{}"),
        ("logging/setLevel", Era::Legacy) => {
            set_level(params).map(|level| Task::SetLevel(level, encode::result(id, "{}")))
        }
        _ => Err(RpcError::method_not_found(era)),
    }
}

fn call(request: &Request<'_>) -> Result<ToolCall, RpcError> {
    let Request { target, params, source, .. } = request;
    let name = params.name.and_then(string).ok_or_else(|| RpcError::invalid_params("name must be a string"))?;
    let unknown = || RpcError::invalid_params(format!("unknown tool: {}", shown(&name)));
    let Found { exposition, bundle, tool, caller } = target.find(&name).ok_or_else(unknown)?;
    let (own_name, _) = exposition.tools().get_index(tool).ok_or_else(unknown)?;
    let rules = &exposition.service.contracts[own_name].param_headers;
    if let (Some(headers), false) = (request.headers, rules.is_empty()) {
        let given = arguments::document(params.arguments.map_or("{}", RawValue::get));
        let given = given.map_err(|e| RpcError::invalid_params(e.0))?;
        headers::check_params(headers, rules, given.root(), request.era)?;
    }
    let mut call = request.call(exposition, tool)?;
    call.bundle = bundle;
    call.arguments = params.arguments.map(|raw| source.slice_ref(raw.get().as_bytes()));
    if let Some(meta) = &params.meta {
        call.wanted = wanted(meta, source);
    }
    if request.era == Era::Modern
        && call.exposition.enforcement == Enforcement::Advisory
        && call.exposition.service.upstream.is_mcp()
    {
        call.input = CallerInput::read(params, source)?;
    }
    if let Some(name) = caller {
        call.caller = call.caller.named(name);
    }
    Ok(call)
}

/// Returns what the metadata of a call says about the messages of a server. A token or a level that is not valid is as none.
fn wanted(meta: &Meta<'_>, source: &Bytes) -> Wanted {
    Wanted {
        token: meta.progress_token.filter(|raw| is_id(raw)).map(|raw| source.slice_ref(raw.get().as_bytes())),
        level: meta.log_level.and_then(string).and_then(|name| Level::parse(&name)),
    }
}

impl Request<'_> {
    /// Returns the call of a tool, or of something else, by its number in the exposition: without arguments, and not through a
    /// bundle.
    ///
    /// # Errors
    /// The request has passed too many gateways.
    fn call(&self, exposition: Arc<Exposition>, number: usize) -> Result<ToolCall, RpcError> {
        let hops = self.headers.map_or(0, hops::hop_count);
        if hops::is_loop(hops) {
            return Err(RpcError::looped());
        }
        Ok(ToolCall {
            exposition,
            bundle: None,
            hops,
            id: self.source.slice_ref(self.id.get().as_bytes()),
            tool: number,
            content: None,
            member: None,
            otherwise: None,
            arguments: None,
            era: self.era,
            wanted: Wanted::default(),
            input: None,
            session: None,
            caller: self.caller.clone(),
            parent: if self.is_traced { Parent::read(self.params, self.headers) } else { Parent::default() },
        })
    }
}

/// Shortens a name that a caller sent, for a message.
pub(crate) fn shown(name: &str) -> &str {
    let end = name.char_indices().nth(64).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

fn list(request: &Request<'_>) -> Result<Vec<u8>, RpcError> {
    let cursor = content::cursor_of(request)?;
    let page = request.target.list(Some(&cursor)).ok_or_else(content::invalid_cursor)?;
    Ok(write_page(request.target, request.id.get(), "tools", &page, request.era))
}

/// Writes a page of a list. `member` is the member of the result that holds the entries.
fn write_page(target: &Target, id: &str, member: &str, page: &Page<'_>, era: Era) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.tools.len() + id.len() + 320);
    encode::open_result(&mut out, id);
    out.put("{\"");
    out.put(member);
    out.put("\":[");
    out.put(&page.tools);
    out.put("]");
    if let Some(next) = &page.next {
        out.put(r#","nextCursor":"#);
        encode::string(&mut out, next);
    }
    if era == Era::Modern {
        out.put(&cacheable(target));
    }
    out.put("}}");
    out
}

/// The members of every modern result that may not be cached as a list.
fn complete(target: &Target) -> String {
    completed(target.server_meta())
}

fn completed(server: &str) -> String {
    format!(r#","resultType":"complete","_meta":{{{server}}}"#)
}

/// The members of a modern result of a call that may not be cached as a list, and none in the legacy era.
pub(crate) fn complete_call(call: &ToolCall) -> String {
    if call.era == Era::Legacy { String::new() } else { completed(call.server_meta()) }
}

/// The members of a modern result of a call of prompts or resources, and none in the legacy era.
pub(crate) fn cacheable_call(call: &ToolCall) -> String {
    if call.era == Era::Legacy {
        return String::new();
    }
    let (is_private, list_ttl_ms) = match &call.member {
        Some(member) => (member.view.is_private(), member.view.bundle.list_ttl_ms),
        None => (call.exposition.is_private(), call.exposition.list_ttl_ms),
    };
    let is_list = matches!(&call.content, Some(ContentCall::Server { method, .. }) if method.list().is_some());
    caching(is_private, if is_list { list_ttl_ms } else { 0 }, call.server_meta())
}

/// The caching members of a modern list.
fn cacheable(target: &Target) -> String {
    caching(target.is_private(), target.list_ttl_ms(), target.server_meta())
}

/// The caching members of a modern result. By default nothing may be cached, because a reload can change it at any time.
fn caching(is_private: bool, ttl_ms: u64, server: &str) -> String {
    // Without keys, all callers get the same result.
    let scope = if is_private { "private" } else { "public" };
    format!(r#","resultType":"complete","ttlMs":{ttl_ms},"cacheScope":"{scope}","_meta":{{{server}}}"#)
}

/// What the target has, as the protocol says it: prompts, resources, completions and log messages only if there are any.
fn capabilities(request: &Request<'_>) -> String {
    let target = request.target;
    let mut out = String::from(r#""capabilities":{"tools":{"listChanged":true}"#);
    if target.has_content(Content::has_prompts) {
        out.push_str(r#","prompts":{"listChanged":true}"#);
    }
    if target.has_content(Content::has_resources) {
        let subscribe = if announcing(request).is_some() { r#","subscribe":true"# } else { "" };
        out.push_str(&format!(r#","resources":{{"listChanged":true{subscribe}}}"#));
    }
    if target.has_content(Content::completes) {
        out.push_str(r#","completions":{}"#);
    }
    if target.sends_logs() {
        out.push_str(r#","logging":{}"#);
    }
    out.push('}');
    out
}

fn instructions(out: &mut String, target: &Target) {
    if let Some(text) = target.instructions() {
        out.push_str(r#","instructions":"#);
        encode::string(out, &text);
    }
}

/// Returns the exposition whose server may announce updates of single resources: one that passes on resources of the server. Over
/// standard input, none are announced.
fn announcing<'r>(request: &Request<'r>) -> Option<&'r Arc<Exposition>> {
    let passes = |content: &Content| content.server_resources().is_some();
    let exposition = request.target.announcing().filter(|_| request.headers.is_some())?;
    exposition.content().is_some_and(passes).then_some(exposition)
}

/// Returns whether a resource of the server is published, so that there may be subscriptions to it.
fn is_announced(exposition: &Exposition, uri: &str) -> bool {
    let of_server =
        |content: &Content| content.find(&exposition.service, uri).is_none() && content.passes_resource(uri);
    uri.len() <= feeds::MAX_URI && exposition.content().is_some_and(of_server)
}

fn subscribe(request: &Request<'_>, begins: bool) -> Result<Subscribe, RpcError> {
    let exposition = announcing(request).ok_or_else(|| RpcError::method_not_found(request.era))?;
    let uri = request.params.uri.and_then(string).ok_or_else(|| RpcError::invalid_params("uri must be a string"))?;
    if uri.len() > feeds::MAX_URI {
        return Err(RpcError::invalid_params(format!("uri has more than {} bytes", feeds::MAX_URI)));
    }
    if !is_announced(exposition, &uri) {
        return Err(RpcError::resource_not_found(request.era, &uri));
    }
    Ok(Subscribe { exposition: Arc::clone(exposition), uri: uri.into_owned(), begins })
}

fn discover(request: &Request<'_>) -> String {
    let target = request.target;
    let versions = MODERN_VERSIONS.map(|version| format!("\"{version}\"")).join(",");
    let mut out = format!(r#"{{"supportedVersions":[{versions}],{}"#, capabilities(request));
    instructions(&mut out, target);
    out.push_str(&cacheable(target));
    out.push('}');
    out
}

fn initialize(request: &Request<'_>, params: &Params<'_>) -> Result<String, RpcError> {
    let target = request.target;
    let requested = params
        .protocol_version
        .and_then(string)
        .ok_or_else(|| RpcError::invalid_params("protocolVersion must be a string"))?;
    let version = negotiate(Some(&requested));
    let server = target.server_info();
    let capabilities = capabilities(request);
    let mut out = format!(r#"{{"protocolVersion":"{version}",{capabilities},"serverInfo":{server}"#);
    instructions(&mut out, target);
    out.push('}');
    Ok(out)
}

fn set_level(params: &Params<'_>) -> Result<Level, RpcError> {
    let level = params.level.and_then(string).and_then(|name| Level::parse(&name));
    level.ok_or_else(|| RpcError::invalid_params("level must be one of the syslog levels"))
}

fn listen(request: &Request<'_>) -> Result<Listen, RpcError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct RequestedNotifications<'a> {
        tools_list_changed: bool,
        prompts_list_changed: bool,
        resources_list_changed: bool,
        #[serde(borrow)]
        resource_subscriptions: Option<&'a RawValue>,
    }
    let malformed = || RpcError::invalid_params("notifications must be an object that names kinds of notifications");
    let requested = request.params.notifications.filter(|raw| raw.get().starts_with('{')).ok_or_else(malformed)?;
    let RequestedNotifications {
        tools_list_changed,
        prompts_list_changed,
        resources_list_changed,
        resource_subscriptions,
    } = serde_json::from_str(requested.get()).map_err(|_| malformed())?;
    let lists = [tools_list_changed, prompts_list_changed, resources_list_changed];
    let uris: Vec<Cow<'_, str>> = match resource_subscriptions.filter(|raw| raw.get() != "null") {
        None => Vec::new(),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|_| RpcError::invalid_params("resourceSubscriptions must be a list of URIs"))?,
    };
    if uris.len() > feeds::OF_A_SESSION {
        return Err(RpcError::invalid_params(format!(
            "resourceSubscriptions has more than {} URIs",
            feeds::OF_A_SESSION
        )));
    }
    let announcing = announcing(request);
    let is_published = |uri: &&Cow<'_, str>| announcing.is_some_and(|exposition| is_announced(exposition, uri));
    let uris = uris.iter().filter(is_published).map(|uri| Arc::from(&**uri)).collect();
    Ok(Listen { id: request.source.slice_ref(request.id.get().as_bytes()), lists, uris })
}

/// Messages of a modern subscription.
impl Listen {
    /// The request's id, as JSON.
    pub(crate) fn id(&self) -> &str {
        // Checked when the request was read.
        std::str::from_utf8(&self.id).unwrap_or("null")
    }

    fn tag(&self) -> String {
        let id = self.id();
        format!(r#""io.modelcontextprotocol/subscriptionId":{id}"#)
    }

    /// The first message: the kinds of notifications that the client will get.
    pub(crate) fn acknowledgement(&self) -> String {
        let granted = ListKind::ALL.into_iter().filter(|list| self.wants(*list));
        let mut granted: Vec<_> = granted.map(|list| format!(r#""{}ListChanged":true"#, list.as_str())).collect();
        if !self.uris.is_empty() {
            let mut accepted = String::from(r#""resourceSubscriptions":["#);
            for (index, uri) in self.uris.iter().enumerate() {
                accepted.put(if index == 0 { "" } else { "," });
                encode::string(&mut accepted, uri);
            }
            accepted.put("]");
            granted.push(accepted);
        }
        let granted = granted.join(",");
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{{}}},"notifications":{{{granted}}}}}}}"#,
            self.tag()
        )
    }

    /// Returns the published resources whose updates the client asked for.
    pub(crate) fn uris(&self) -> &[Arc<str>] {
        &self.uris
    }

    /// Notes which of these resources the server has accepted.
    pub(crate) fn accept(&mut self, uris: Vec<Arc<str>>) {
        self.uris = uris;
    }

    /// The message that a resource was updated.
    pub(crate) fn updated(&self, uri: &str) -> String {
        updated(uri, &format!(r#""_meta":{{{}}},"#, self.tag()))
    }

    /// Whether the client asked for the changes of a list.
    pub(crate) fn wants(&self, list: ListKind) -> bool {
        self.lists[list as usize]
    }

    /// The message that a list changed.
    pub(crate) fn changed(&self, list: ListKind) -> String {
        let (list, tag) = (list.as_str(), self.tag());
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{list}/list_changed","params":{{"_meta":{{{tag}}}}}}}"#)
    }

    /// The last message: the answer to the request.
    pub(crate) fn end(&self, server_meta: &str) -> String {
        let (id, tag) = (self.id(), self.tag());
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{{tag},{server_meta}}}}}}}"#)
    }
}

/// The notification that a resource was updated. `meta`: a member of its parameters, with a comma, or nothing.
pub(crate) fn updated(uri: &str, meta: &str) -> String {
    let mut out = format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{{meta}"uri":"#);
    encode::string(&mut out, uri);
    out.put("}}");
    out
}

/// The notification of the legacy era that a list changed.
pub(crate) fn list_changed(list: ListKind) -> &'static str {
    match list {
        ListKind::Tools => r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        ListKind::Prompts => r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#,
        ListKind::Resources => r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#,
    }
}

//! A loaded service, whatever kind of source it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderValue;
use indexmap::IndexMap;
use tamis_config::{ServiceDocument, Source};
use tokio::sync::watch;
use url::Url;

use super::alias::AliasPlan;
use super::command::CommandService;
use super::grpc::GrpcService;
use super::http::HttpService;
use super::mcp::{Listed, McpService, Opened, Peer, ProgramReport, StreamEnd, Withheld};
use super::{Answer, Arguments, CallContext, Client, CredentialScope, Passed, UpstreamError};
use crate::exposition::ServerMethod;
use crate::feeds::Feed;
use crate::registry::Changes;
use crate::sealed::{Capabilities, ServerSession};

/// A service, parsed once, called often.
#[derive(Debug)]
pub struct Upstream {
    client: Arc<Client>,
    /// Every URL that calls connect to.
    destinations: Vec<Url>,
    calls: Calls,
    aliases: IndexMap<String, AliasPlan>,
}

/// The calls of a service, by the kind of its source.
#[derive(Debug)]
enum Calls {
    Http(HttpService),
    Mcp(Box<McpService>),
    Command(Box<CommandService>),
    Grpc(Box<GrpcService>),
}

/// A service document that cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidService {
    /// The field, from the top of the document.
    pub field: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl InvalidService {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl Upstream {
    /// Parses the templates of a document, so that a call only fills them.
    ///
    /// # Errors
    /// Names the first field that cannot be used. The compile step finds all of them earlier; this is the last check.
    pub fn new(document: &Arc<ServiceDocument>, client: Arc<Client>) -> Result<Self, InvalidService> {
        let calls = match &document.source {
            Source::Http(source) => Calls::Http(HttpService::new(source, document, Arc::clone(&client))?),
            Source::Mcp(source) => Calls::Mcp(Box::new(McpService::new(source, document, Arc::clone(&client))?)),
            Source::Grpc(source) => Calls::Grpc(Box::new(GrpcService::new(source, document, Arc::clone(&client))?)),
            Source::Program(source) => Calls::Mcp(Box::new(McpService::of_program(source, document, &client)?)),
            Source::Command(source) => Calls::Command(Box::new(CommandService::new(source, document, &client)?)),
        };
        let destinations = document.destinations().into_iter().map(Url::parse).collect::<Result<_, _>>();
        let destinations = destinations.map_err(|_| InvalidService::new("source", "connects to what is not a URL"))?;
        let mut aliases = IndexMap::new();
        for (name, tool) in &document.tools {
            if let Some(alias) = tool.alias() {
                let field = format!("tools.{name}.call.alias");
                aliases.insert(name.clone(), AliasPlan::new(&field, alias, tool, document)?);
            }
        }
        Ok(Self { client, destinations, calls, aliases })
    }

    /// Checks that an exposition of this namespace may call the service. A service is loaded once for all its
    /// expositions, but a Service of the cluster may only be called from its own namespace.
    ///
    /// # Errors
    /// What the egress policy forbids, and the remedy.
    pub fn reachable_from(&self, namespace: &str) -> Result<(), String> {
        let policy = self.client.direct().0;
        self.destinations.iter().try_for_each(|url| policy.check_base(url, namespace))
    }

    /// Returns the tool that an alias calls, with that tool's arguments, or `None` for a tool with a call of its own.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that does not fit its place.
    pub fn resolve_alias(&self, tool: &str, arguments: &Arguments) -> Result<Option<(&str, Arguments)>, UpstreamError> {
        self.aliases.get(tool).map(|alias| Ok((alias.tool(), alias.arguments(arguments)?))).transpose()
    }

    /// Calls a tool that is not an alias, with arguments that its schema has accepted.
    ///
    /// # Errors
    /// [`UpstreamError`]. None holds a credential, and only [`UpstreamError::Status`] holds a part of an answer.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        context: CallContext<'_>,
    ) -> Result<Answer, UpstreamError> {
        match &self.calls {
            Calls::Http(service) => service.call(tool, arguments, context).await,
            // In a box, so that the futures of other calls have no room for this one.
            Calls::Mcp(service) => Box::pin(service.call(tool, arguments, context)).await,
            Calls::Command(service) => Box::pin(service.call(tool, arguments, context)).await,
            Calls::Grpc(service) => Box::pin(service.call(tool, arguments, context)).await,
        }
    }

    /// Passes a request of prompts, resources or completions on to the MCP server.
    ///
    /// # Errors
    /// [`UpstreamError`]. The service is no MCP server, if it is [`UpstreamError::UnknownTool`].
    pub(crate) async fn pass(
        &self,
        method: ServerMethod,
        name: Option<&str>,
        params: &str,
        context: CallContext<'_>,
    ) -> Result<Passed, UpstreamError> {
        match &self.calls {
            Calls::Http(_) | Calls::Grpc(_) | Calls::Command(_) => {
                Err(UpstreamError::UnknownTool(method.as_str().to_owned()))
            }
            Calls::Mcp(service) => Box::pin(service.pass(method, name, params, context)).await,
        }
    }

    /// Returns the tools that are withheld from an exposition with these credentials, aliases included, as far as the
    /// upstream has been asked. Only the tools of an MCP server are ever withheld.
    pub(crate) fn withheld(&self, credentials: CredentialScope<'_>) -> BTreeMap<&str, Withheld> {
        let Calls::Mcp(service) = &self.calls else { return BTreeMap::new() };
        let mut withheld = service.withheld(credentials);
        for (name, alias) in &self.aliases {
            if let Some(why) = withheld.get(alias.tool()).copied() {
                withheld.insert(name, why);
            }
        }
        withheld
    }

    /// Returns whether the service is an MCP server whose sessions can belong to sessions of callers.
    pub(crate) fn has_sessions(&self) -> bool {
        self.server().is_some_and(McpService::has_address)
    }

    /// Opens a session of an MCP server for a session of the caller. Any other service has no use for one.
    pub(crate) async fn open(
        &self,
        version: &'static str,
        capabilities: Capabilities,
        context: CallContext<'_>,
    ) -> Opened {
        match self.server() {
            Some(server) => Box::pin(server.open(version, capabilities, context)).await,
            None => Opened::Never,
        }
    }

    /// Sends a caller's answer to a request of an MCP server. `server` is the version that the server speaks and its session, `answer`
    /// the id that the server gave the request, the name of the member (`result` or `error`) and its value. Returns the status of the
    /// response.
    ///
    /// # Errors
    /// [`UpstreamError`]. The service is no MCP server, if it is [`UpstreamError::UnknownTool`].
    pub(crate) async fn answer(
        &self,
        server: (&'static str, Option<&HeaderValue>),
        answer: (&str, &str, &Bytes),
        context: CallContext<'_>,
    ) -> Result<u16, UpstreamError> {
        match self.server() {
            Some(service) => Box::pin(service.answer(server, answer, context)).await,
            None => Err(UpstreamError::UnknownTool("response".to_owned())),
        }
    }

    /// Ends a session on an MCP server, in the background.
    pub(crate) fn end_session(&self, session: &ServerSession, credentials: CredentialScope<'_>) {
        if let Some(server) = self.server() {
            server.end(session, credentials);
        }
    }

    /// Returns whether the service is an MCP server.
    pub(crate) fn is_mcp(&self) -> bool {
        matches!(self.calls, Calls::Mcp(_))
    }

    /// Returns what is known of the programs of the service, if its source is a program.
    pub(crate) fn program(&self) -> Option<ProgramReport> {
        match &self.calls {
            Calls::Http(_) | Calls::Grpc(_) | Calls::Command(_) => None,
            Calls::Mcp(service) => service.program(),
        }
    }

    /// Prepares the calls of the tools that a followed server lists now. `document` is that of this service with these tools.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(crate) fn derived(&self, document: &Arc<ServiceDocument>) -> Result<Self, InvalidService> {
        let calls = match (&self.calls, &document.source) {
            (Calls::Mcp(service), Source::Mcp(source)) => Calls::Mcp(Box::new(service.derived(source, document)?)),
            _ => return Err(InvalidService::new("source", "is not an MCP server that is followed")),
        };
        Ok(Self {
            client: Arc::clone(&self.client),
            destinations: self.destinations.clone(),
            calls,
            aliases: IndexMap::new(),
        })
    }

    /// Returns whether the tools are published as an MCP server lists them.
    pub(crate) fn follows(&self) -> bool {
        self.server().is_some_and(McpService::follows)
    }

    /// Returns the tools of a followed server as they were listed last; none before that.
    pub(crate) fn listed(&self, credentials: CredentialScope<'_>) -> Option<Arc<Listed>> {
        self.server()?.listed(credentials)
    }

    /// Returns the MCP server, if the service is one.
    fn server(&self) -> Option<&McpService> {
        match &self.calls {
            Calls::Http(_) | Calls::Grpc(_) | Calls::Command(_) => None,
            Calls::Mcp(service) => Some(service),
        }
    }

    /// Returns whether the upstream has a list of tools that the gateway watches.
    pub(crate) fn is_watched(&self) -> bool {
        // A program runs when it is called, and announces changes by itself.
        self.server().is_some_and(McpService::has_address)
    }

    /// Returns what is known of an MCP server with these credentials; none for any other kind of service.
    ///
    /// # Errors
    /// The credential is missing or may not be used.
    pub(crate) fn peer(&self, credentials: CredentialScope<'_>) -> Option<Result<Arc<Peer>, UpstreamError>> {
        self.server().filter(|server| server.program().is_none()).map(|server| server.peer(credentials))
    }

    /// Reads the list of an MCP server, and compares its tools. Any other service has none.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(crate) async fn read_list(&self, context: CallContext<'_>) -> Result<(), UpstreamError> {
        match self.server() {
            Some(server) => Box::pin(server.read_list(context)).await,
            None => Ok(()),
        }
    }

    /// Reads the announcements of an MCP server until their stream ends. `opened` is called when none can be missed any more.
    pub(crate) async fn listen(&self, context: CallContext<'_>, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        match self.server() {
            Some(server) => Box::pin(server.listen(context, opened)).await,
            None => StreamEnd::Unsupported,
        }
    }

    /// Reads what an MCP server announces to one caller outside of calls, until no subscription needs it or the stream ends.
    /// `published`: whether a resource is published now.
    pub(crate) async fn feed(
        &self,
        context: CallContext<'_>,
        feed: &Feed,
        published: &(dyn Fn(&str) -> bool + Sync),
    ) -> StreamEnd {
        match self.server() {
            Some(server) => Box::pin(server.feed(context, feed, published)).await,
            None => StreamEnd::Unsupported,
        }
    }

    /// Subscribes to the changes that an MCP server announces of its prompts and resources; none for any other kind of service.
    pub(crate) fn announced(&self) -> Option<watch::Receiver<Changes>> {
        self.server().map(McpService::announced)
    }

    /// Returns whether the tools that are withheld have changed since the last time.
    pub(crate) fn take_change(&self) -> bool {
        match &self.calls {
            Calls::Http(_) | Calls::Grpc(_) | Calls::Command(_) => false,
            Calls::Mcp(service) => service.take_change(),
        }
    }
}

//! A loaded service, whatever kind of source it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{ServiceDocument, Source};
use url::Url;

use super::alias::AliasPlan;
use super::http::HttpService;
use super::mcp::{McpService, Withheld};
use super::{Answer, Arguments, CallContext, Client, CredentialScope, UpstreamError};

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

    /// Returns whether the tools that are withheld have changed since the last time.
    pub(crate) fn take_change(&self) -> bool {
        match &self.calls {
            Calls::Http(_) => false,
            Calls::Mcp(service) => service.take_change(),
        }
    }
}

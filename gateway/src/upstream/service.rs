//! A loaded service: its tools, ready to be called.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode};
use indexmap::IndexMap;
use tamis_config::{
    Call as ToolCall, CredentialRef, HttpCall, HttpSource, Pagination, Retry, ServiceDocument, ServiceTool, Source,
};
use tamis_engine::ResponseType;
use url::Url;

use super::alias::AliasPlan;
use super::auth::{AuthPlan, Authentication};
use super::call::Call;
use super::pages::{Pager, Start};
use super::render::RequestPlan;
use super::template::refuse;
use super::{Answer, Arguments, CallBounds, Client, CredentialScope, UpstreamError};
use crate::memory::{Exhausted, Reservation};
use crate::trace::CallTrace;

/// A service, parsed once, called often.
#[derive(Debug)]
pub struct Upstream {
    client: Arc<Client>,
    base: Url,
    tools: IndexMap<String, Action>,
    aliases: IndexMap<String, AliasPlan>,
}

/// A tool, ready to be called.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) plan: RequestPlan,
    auth: Option<AuthPlan>,
    pub(super) extract: Option<Box<str>>,
    pub(super) is_json: bool,
    /// Whether sending a request twice does no harm.
    pub(super) idempotent: bool,
    pub(super) retry: Option<Retry>,
    pagination: Option<Pagination>,
    pub(super) errors: IndexMap<u16, String>,
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
    /// Parses a document's templates, so that a call only fills them.
    ///
    /// # Errors
    /// Names the first field that cannot be used. The loader finds all of them before; this is the last check.
    pub fn new(document: &ServiceDocument, client: Arc<Client>) -> Result<Self, InvalidService> {
        let Source::Http(source) = &document.source;
        let base = base_url(source)?;
        let (mut tools, mut aliases) = (IndexMap::new(), IndexMap::new());
        for (name, tool) in &document.tools {
            let field = format!("tools.{name}.call");
            match &tool.call {
                ToolCall::Alias(alias) => {
                    aliases.insert(name.clone(), AliasPlan::new(&format!("{field}.alias"), alias, tool, document)?);
                }
                ToolCall::Http(call) => {
                    let action = Action::new(&format!("{field}.http"), &base, source, (tool, call))?;
                    tools.insert(name.clone(), action);
                }
            }
        }
        Ok(Self { client, base, tools, aliases })
    }

    /// Whether an exposition of this namespace may call it. A service is held once for all expositions of it, a Service
    /// of the cluster is for those of its namespace.
    ///
    /// # Errors
    /// What the egress policy forbids, and the remedy.
    pub fn reachable_from(&self, namespace: &str) -> Result<(), String> {
        self.client.direct().0.check_base(&self.base, namespace)
    }

    /// The credential that a call of this tool sends; none where it sends none.
    #[must_use]
    pub fn credential_of(&self, tool: &str) -> Option<&CredentialRef> {
        let tool = self.aliases.get(tool).map_or(tool, AliasPlan::tool);
        self.tools.get(tool)?.auth.as_ref().map(AuthPlan::credential)
    }

    /// The tool that a tool is made of, and that tool's arguments; none where it is a tool of its own.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that does not fit its place.
    pub fn made_of(&self, tool: &str, arguments: &Arguments) -> Result<Option<(&str, Arguments)>, UpstreamError> {
        self.aliases.get(tool).map(|alias| Ok((alias.tool(), alias.arguments(arguments)?))).transpose()
    }

    /// Calls a tool with arguments that its schema has accepted. One that is made of another is called by that one.
    /// `trace` gets a span for each request, and the upstream is told of it. Memory for the answer is reserved in `held`, and
    /// stays so.
    ///
    /// # Errors
    /// [`UpstreamError`]; none holds a credential, or a part of an answer but for [`UpstreamError::Status`].
    pub async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        bounds: CallBounds<'_>,
        credentials: CredentialScope<'_>,
        trace: Option<&CallTrace>,
        held: &mut Reservation,
    ) -> Result<Answer, UpstreamError> {
        let action = self.tools.get(tool).ok_or_else(|| UpstreamError::UnknownTool(tool.to_owned()))?;
        let begun = Instant::now();
        let authentication = match &action.auth {
            Some(auth) => auth.authenticate(credentials)?,
            None => Authentication::default(),
        };
        let rendered = action.plan.render(arguments, authentication.body.as_ref())?;
        if let (false, Some(auth)) = (authentication.may_go_to(&rendered.url), &action.auth) {
            return Err(UpstreamError::CredentialUse(auth.credential().clone()));
        }
        let body = rendered.body.as_ref().map_or(0, Bytes::len);
        held.take(body as u64).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: false })?;
        let mut call = Call {
            client: &self.client,
            action,
            rendered: &rendered,
            authentication: &authentication,
            bounds,
            trace,
            held,
            requests: 0,
            status: StatusCode::OK,
        };
        let (body, pagination) = match &action.pagination {
            None => (call.fetch_one().await?, None),
            Some(plan) => call.fetch_pages(plan, action.start(plan, arguments)?).await?,
        };
        Ok(Answer {
            body,
            is_json: action.is_json,
            pagination,
            status: call.status.as_u16(),
            requests: call.requests,
            elapsed: begun.elapsed(),
        })
    }
}

impl Action {
    fn new(
        field: &str,
        base: &Url,
        source: &HttpSource,
        (tool, call): (&ServiceTool, &HttpCall),
    ) -> Result<Self, InvalidService> {
        let auth = match source.auth_of(call) {
            Some(auth) => AuthPlan::new(&format!("{field}.auth"), auth)?,
            None => None,
        };
        let names_account = |name: &String| matches!(name.to_ascii_lowercase().as_str(), "authorization" | "cookie");
        if let (Some(_), Some(name)) = (&auth, call.request.headers.keys().find(|name| names_account(name))) {
            let field = format!("{field}.request.headers.{name}");
            return Err(InvalidService::new(field, "is not possible next to `auth`"));
        }
        let plan = RequestPlan::new(field, base, (tool, call), auth.as_ref())?;
        // RFC 9110, 9.2.2.
        let idempotent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
        Ok(Self {
            idempotent: idempotent.contains(&plan.method) || tool.risk.idempotent,
            plan,
            auth,
            extract: call.extract.as_deref().filter(|path| !path.is_empty()).map(Into::into),
            is_json: tool.response_type != Some(ResponseType::Text),
            retry: call.retry.clone(),
            pagination: tool.pagination.clone(),
            errors: call.error_mapping.clone(),
        })
    }

    /// Where a paginated call begins.
    fn start(&self, plan: &Pagination, arguments: &Arguments) -> Result<Start, UpstreamError> {
        let (limit, limit_is_total) = self.plan.paging(arguments, "limit")?;
        let number =
            |text: String| text.parse().map_err(|_| refuse("limit", "is no whole number, as a page size must be"));
        let (position, _) = self.plan.paging(arguments, Pager::parameter(plan.kind))?;
        Ok(Start { limit: limit.map(number).transpose()?, limit_is_total, position })
    }
}

/// Scheme, host, port and path prefix.
fn base_url(source: &HttpSource) -> Result<Url, InvalidService> {
    let invalid = |message: &str| InvalidService::new("source.http.baseUrl", message);
    let url = Url::parse(&source.base_url).map_err(|_| invalid("is not a URL; write https://HOST"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("must begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must hold no user or password; use `auth`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("must hold no query and no fragment; put parameters in `request.query`"));
    }
    Ok(url)
}

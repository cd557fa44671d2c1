//! HTTP actions: requests from templates, retries, pages, and the part of a response that is the output.

mod body;
mod content;
mod cookies;
mod exchange;
pub(super) mod extract;
mod fetch;
mod graphql;
mod headers;
mod merge;
mod pages;
mod path;
mod query;
mod render;
pub(super) mod retry;

pub(super) use fetch::extract_output;
pub(super) use headers::for_every_request;
pub(super) use render::MAX_URL;
pub(super) use retry::{Decision, Failure, decide};

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode};
use indexmap::IndexMap;
use tamis_config::{Call, HttpCall, HttpSource, Pagination, Retry, ServiceDocument, ServiceTool};
use tamis_engine::ResponseType;
use url::Url;

use self::fetch::Fetch;
use self::pages::Start;
use self::render::RequestPlan;
use super::auth::{AuthPlan, Authentication};
use super::origin::{Origin, server_url};
use super::template::invalid_argument;
use super::{Answer, Arguments, CallContext, Client, InvalidService, Output, UpstreamError};
use crate::memory::Exhausted;

/// The actions of an HTTP API, parsed once.
#[derive(Debug)]
pub(super) struct HttpService {
    client: Arc<Client>,
    actions: IndexMap<String, Action>,
}

/// A tool, ready to be called.
#[derive(Debug)]
struct Action {
    plan: RequestPlan,
    auth: Option<AuthPlan>,
    /// Dotted path of the output in a response; `None` for all of it.
    extract: Option<Box<str>>,
    is_json: bool,
    /// Whether repeating a request does no harm.
    idempotent: bool,
    retry: Option<Retry>,
    pagination: Option<Pagination>,
    /// Texts for the caller by status code.
    errors: IndexMap<u16, String>,
    /// Set for a GraphQL request: how its answer is read.
    graphql: Option<GraphQlAnswer>,
}

/// How the answer to a GraphQL request is read.
#[derive(Debug)]
struct GraphQlAnswer {
    /// The only root field; none if all of `data` is the output.
    field: Option<Box<str>>,
}

impl HttpService {
    /// Parses the templates of every HTTP call.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn new(
        source: &HttpSource,
        document: &ServiceDocument,
        client: Arc<Client>,
    ) -> Result<Self, InvalidService> {
        let base = base_url(source)?;
        let unusable = || InvalidService::new("source.http.baseUrl", "has a host or a port that no request can have");
        let origin = Arc::new(Origin::of(&base).ok_or_else(unusable)?);
        let mut actions = IndexMap::new();
        let templates = document.content.templates.iter().map(|(uri, template)| (uri, &template.read));
        for (name, tool) in document.tools.iter().chain(templates) {
            match &tool.call {
                Call::Http(call) => {
                    let field = format!("tools.{name}.call.http");
                    actions.insert(name.clone(), Action::new(&field, (&base, &origin), source, (tool, &**call))?);
                }
                // Resolved before a call.
                Call::Alias(_) => {}
                Call::Mcp(_) | Call::Grpc(_) | Call::Command(_) => {
                    let field = format!("tools.{name}.call");
                    return Err(InvalidService::new(field, "must be `http`: the service is an HTTP API"));
                }
            }
        }
        Ok(Self { client, actions })
    }

    /// Calls an action, or reads a resource template.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        context: CallContext<'_>,
    ) -> Result<Answer, UpstreamError> {
        let action = self.actions.get(tool).ok_or_else(|| UpstreamError::UnknownTool(tool.to_owned()))?;
        let begun = Instant::now();
        let authentication = Authentication::of(action.auth.as_ref(), context.credentials)?;
        let rendered = action.plan.render(arguments, authentication.body.as_ref(), context.query)?;
        authentication.check(&rendered.target)?;
        let body = rendered.body.as_ref().map_or(0, Bytes::len);
        context.memory.take(body as u64).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: false })?;
        let mut fetch = Fetch {
            client: &self.client,
            action,
            rendered: &rendered,
            authentication: &authentication,
            context,
            requests: 0,
            status: StatusCode::OK,
            errors: None,
        };
        let (body, pagination) = match &action.pagination {
            None => (fetch.one_page().await?, None),
            Some(plan) => Box::pin(fetch.all_pages(plan, action.start(plan, arguments)?)).await?,
        };
        Ok(Answer {
            output: if action.is_json { Output::Json(body) } else { Output::Text(body) },
            media: Vec::new(),
            meta: None,
            errors: fetch.errors.take(),
            pagination,
            cut: None,
            status: fetch.status.as_u16(),
            requests: fetch.requests,
            elapsed: begun.elapsed(),
        })
    }
}

impl Action {
    fn new(
        field: &str,
        base: (&Url, &Arc<Origin>),
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
        if auth.is_some() && !call.request.cookies.is_empty() {
            return Err(InvalidService::new(format!("{field}.request.cookies"), "are not possible next to `auth`"));
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
            graphql: call.graphql.as_ref().map(|call| GraphQlAnswer { field: call.field.as_deref().map(Into::into) }),
        })
    }

    /// Returns where a paginated call begins.
    fn start(&self, plan: &Pagination, arguments: &Arguments) -> Result<Start, UpstreamError> {
        let (limit, limit_is_total) = self.plan.paging(arguments, "limit")?;
        let number = |text: String| {
            text.parse().map_err(|_| invalid_argument("limit", "is not a whole number, as a page size must be"))
        };
        let (position, _) = self.plan.paging(arguments, plan.kind.argument())?;
        Ok(Start { limit: limit.map(number).transpose()?, limit_is_total, position })
    }
}

/// Parses scheme, host, port and path prefix.
fn base_url(source: &HttpSource) -> Result<Url, InvalidService> {
    const FIELD: &str = "source.http.baseUrl";
    let url = server_url(FIELD, &source.base_url, "https://HOST")?;
    if url.query().is_some() || url.fragment().is_some() {
        let message = "must not hold a query or a fragment; put parameters in `request.query`";
        return Err(InvalidService::new(FIELD, message));
    }
    Ok(url)
}

#[cfg(test)]
pub(super) mod tests {
    // Helpers take `json!({..})` as it is written.
    #![allow(clippy::needless_pass_by_value)]

    mod calls;
    mod credential_returned;
    mod floods;
    mod floods_h2;
    mod handles;
    mod paging;
    mod redirects;
    mod retries;
    pub(crate) mod support;
    mod tls;
}

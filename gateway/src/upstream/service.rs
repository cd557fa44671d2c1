//! A loaded service: its tools, ready to be called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode};
use indexmap::IndexMap;
use jiff::Timestamp;
use tamis_config::{Auth, HttpSource, Pagination, Retry, ServiceDocument, ServiceTool, Source};
use tamis_engine::ResponseType;
use url::Url;

use super::auth::{AuthPlan, Authentication};
use super::exchange::{Fault, Incoming, Outgoing, exchange};
use super::pages::{Page, Pager, Start};
use super::render::{Rendered, RequestPlan};
use super::retry::{Decision, Failure, decide, retry_after};
use super::{Answer, Arguments, CallBounds, Client, Credentials, UpstreamError, extract};

/// How long an error's body may take, so that a slow one leaves time to try again.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// A service, parsed once, called often.
#[derive(Debug)]
pub struct Upstream {
    client: Arc<Client>,
    tools: IndexMap<String, Action>,
}

#[derive(Debug)]
struct Action {
    plan: RequestPlan,
    auth: Option<AuthPlan>,
    extract: Option<Box<str>>,
    is_json: bool,
    idempotent: bool,
    retry: Option<Retry>,
    pagination: Option<Pagination>,
    errors: IndexMap<u16, String>,
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
        let Source::Http(source) = &document.source else {
            return Err(InvalidService::new("source", "is of a kind that this gateway does not know"));
        };
        let base = base_url(source)?;
        let tools = document.tools.iter().map(|(name, tool)| {
            Ok((name.clone(), Action::new(&format!("tools.{name}.http"), &base, source.auth.as_ref(), tool)?))
        });
        Ok(Self { client, tools: tools.collect::<Result<_, _>>()? })
    }

    /// Calls a tool with arguments that its schema has accepted.
    ///
    /// # Errors
    /// [`UpstreamError`]; none holds a credential, or a part of an answer but for [`UpstreamError::Status`].
    pub async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        bounds: CallBounds,
        credentials: &dyn Credentials,
        namespace: &str,
    ) -> Result<Answer, UpstreamError> {
        let action = self.tools.get(tool).ok_or_else(|| UpstreamError::UnknownTool(tool.to_owned()))?;
        let begun = Instant::now();
        let authentication = match &action.auth {
            Some(auth) => auth.authenticate(credentials, namespace)?,
            None => Authentication::default(),
        };
        let rendered = action.plan.render(arguments, authentication.body.as_ref())?;
        let mut call = Call {
            client: &self.client,
            action,
            rendered: &rendered,
            authentication: &authentication,
            bounds,
            requests: 0,
            status: StatusCode::OK,
        };
        let (body, pagination) = match &action.pagination {
            None => (call.fetch(rendered.url.clone(), bounds.max_response_bytes).await?.body(action)?, None),
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
    fn new(field: &str, base: &Url, service: Option<&Auth>, tool: &ServiceTool) -> Result<Self, InvalidService> {
        let call = &tool.http;
        let auth = match call.auth.as_ref().or(service) {
            Some(auth) => AuthPlan::new(&format!("{field}.auth"), auth)?,
            None => None,
        };
        let plan = RequestPlan::new(field, base, tool, auth.as_ref())?;
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
        Ok(Self {
            idempotent: safe.contains(&plan.method) || tool.risk.idempotent,
            plan,
            auth,
            extract: call.extract.as_deref().filter(|path| !path.is_empty()).map(Into::into),
            is_json: tool.response_type != Some(ResponseType::Text),
            retry: call.retry.clone(),
            pagination: call.pagination.clone(),
            errors: call.error_mapping.clone(),
        })
    }

    /// Where a paginated call begins.
    fn start(&self, plan: &Pagination, arguments: &Arguments) -> Result<Start, UpstreamError> {
        let limit = self.plan.paging(arguments, "limit")?;
        let number = |text: String| {
            text.parse().map_err(|_| super::template::refuse("limit", "is no whole number, as a page size must be"))
        };
        let position = match plan.kind {
            tamis_config::PaginationKind::Cursor => self.plan.paging(arguments, "cursor")?,
            tamis_config::PaginationKind::Offset => self.plan.paging(arguments, "offset")?,
        };
        Ok(Start { limit: limit.map(number).transpose()?, limit_is_total: arguments.contains_key("limit"), position })
    }
}

/// Scheme, host, port and path prefix.
fn base_url(source: &HttpSource) -> Result<Url, InvalidService> {
    let invalid = |message: &str| InvalidService::new("source.http.baseUrl", message);
    let url = Url::parse(&source.base_url).map_err(|e| invalid(&format!("is not a URL: {e}")))?;
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

/// One call under way.
struct Call<'a> {
    client: &'a Client,
    action: &'a Action,
    rendered: &'a Rendered,
    authentication: &'a Authentication,
    bounds: CallBounds,
    requests: u32,
    status: StatusCode,
}

/// A successful response, read.
struct Document {
    body: Bytes,
    headers: http::HeaderMap,
}

impl Document {
    /// What the manifest wants of it.
    fn body(&self, action: &Action) -> Result<Bytes, UpstreamError> {
        let Some(path) = action.extract.as_deref().filter(|_| action.is_json && !self.body.is_empty()) else {
            return Ok(self.body.clone());
        };
        let found = extract::extract(&self.body, path).map_err(UpstreamError::Malformed)?;
        found.ok_or_else(|| UpstreamError::Malformed(format!("has nothing at `{path}`, where `extract` looks")))
    }
}

impl Call<'_> {
    /// One request until it succeeds, may not be tried again, or time is up.
    async fn fetch(&mut self, url: Url, limit: u64) -> Result<Document, UpstreamError> {
        let deadline = tokio::time::Instant::from_std(self.bounds.deadline);
        if self.bounds.deadline <= Instant::now() {
            return Err(UpstreamError::Timeout { sent: self.requests > 0 });
        }
        match tokio::time::timeout_at(deadline, self.attempts(url, limit)).await {
            Ok(result) => result,
            Err(_) => Err(UpstreamError::Timeout { sent: self.requests > 0 }),
        }
    }

    async fn attempts(&mut self, url: Url, limit: u64) -> Result<Document, UpstreamError> {
        let mut attempt = 1;
        loop {
            let outgoing = Outgoing {
                method: self.action.plan.method.clone(),
                rendered: self.rendered,
                url: url.clone(),
                authentication: self.authentication,
            };
            let (failure, error) = match self.attempt(&outgoing, limit).await {
                Ok(document) => return Ok(document),
                Err(failed) => failed,
            };
            let Some(failure) = failure else { return Err(error) };
            let left = self.bounds.deadline.saturating_duration_since(Instant::now());
            match decide(self.action.retry.as_ref(), self.action.idempotent, attempt, failure, left) {
                Decision::Stop => return Err(error),
                Decision::Wait(time) => tokio::time::sleep(time).await,
            }
            attempt += 1;
        }
    }

    /// One attempt. A failure that cannot be mended by another has no [`Failure`].
    async fn attempt(
        &mut self,
        outgoing: &Outgoing<'_>,
        limit: u64,
    ) -> Result<Document, (Option<Failure>, UpstreamError)> {
        let failed = |fault: Fault| {
            let failure = match &fault {
                Fault::Unsent(_) => Some(Failure::Unsent),
                Fault::Broken(_) => Some(Failure::Broken),
                Fault::Final(_) => None,
            };
            (failure, fault.into_error())
        };
        let incoming = exchange(self.client, outgoing, &mut self.requests).await.map_err(failed)?;
        self.status = incoming.status;
        if !incoming.status.is_success() {
            return Err(self.refused(incoming).await);
        }
        let headers = incoming.headers.clone();
        let body = incoming.read(limit, self.bounds.max_response_bytes).await.map_err(failed)?;
        Ok(Document { body, headers })
    }

    async fn refused(&self, incoming: Incoming) -> (Option<Failure>, UpstreamError) {
        let status = incoming.status.as_u16();
        let retry_after = retry_after(&incoming.headers, Timestamp::now());
        let time = self.bounds.deadline.min(Instant::now() + ERROR_BODY_TIME);
        let body = incoming.read_error(time.into()).await;
        let mapped = self.action.errors.get(&status).cloned();
        (Some(Failure::Status { status, retry_after }), UpstreamError::Status { status, mapped, body })
    }

    /// Page after page, merged to one list. What came before time or space ran out is kept.
    async fn fetch_pages(
        &mut self,
        plan: &Pagination,
        start: Start,
    ) -> Result<(Bytes, Option<super::PageReport>), UpstreamError> {
        let mut pager = Pager::new(plan, start);
        let mut merged = Merged::default();
        loop {
            let mut url = self.rendered.url.clone();
            pager.apply(&mut url);
            let left = self.bounds.max_response_bytes.saturating_sub(merged.bytes());
            let document = match self.fetch(url, left).await {
                Err(UpstreamError::Timeout { .. } | UpstreamError::TooLarge { .. }) if pager.has_begun() => break,
                other => other?,
            };
            let Some(list) = merged.find(self.action, &document)? else {
                // Not a list: there is nothing to merge, and one page is all.
                return Ok((document.body(self.action)?, None));
            };
            let Some((elements, items)) = extract::list(&list) else {
                return Err(UpstreamError::Malformed("holds a list that is not valid JSON".to_owned()));
            };
            let more = pager.advance(Page { items, ..facts(plan, &document) });
            merged.push(elements);
            if !more {
                break;
            }
        }
        Ok((merged.finish(), Some(pager.report())))
    }
}

/// What an answer says of further pages.
fn facts(plan: &Pagination, document: &Document) -> Page {
    let paths: &[&str] = match &plan.next_path {
        Some(path) => &[path.as_str()],
        None => &["next_cursor", "nextCursor", "response_metadata.next_cursor", "next_page_token", "nextPageToken"],
    };
    let next = paths.iter().find_map(|path| extract::scalar(&document.body, path));
    let header = |name: &str| document.headers.get(name)?.to_str().ok()?.trim().parse().ok();
    let member = |path: &&str| extract::scalar(&document.body, path)?.parse().ok();
    let total = header("x-total")
        .or_else(|| header("x-total-count"))
        .or_else(|| ["total", "total_count", "totalCount", "meta.total", "pagination.total"].iter().find_map(member));
    Page { items: 0, next: next.map(cursor), total }
}

/// Some APIs name the whole URL of the next page; the cursor is a parameter of it.
fn cursor(next: String) -> String {
    let Ok(url) = Url::parse(&next) else { return next };
    let found = url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, value)| value.into_owned());
    found.unwrap_or(next)
}

/// The lists of all pages.
#[derive(Default)]
struct Merged {
    /// The text between the brackets of each list that is not empty.
    pages: Vec<Bytes>,
    /// The member that held the first page's list.
    member: Option<String>,
}

impl Merged {
    /// The list of a page: what `extract` names, the document, or the member of it that the first page had.
    fn find(&mut self, action: &Action, document: &Document) -> Result<Option<Bytes>, UpstreamError> {
        let body = document.body(action)?;
        let is = |body: &Bytes, byte: u8| body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&byte);
        if is(&body, b'[') {
            return Ok(Some(body));
        }
        if let Some(member) = &self.member {
            let found = extract::extract(&body, member).map_err(UpstreamError::Malformed)?;
            return Ok(Some(found.filter(|list| is(list, b'[')).unwrap_or(Bytes::from_static(b"[]"))));
        }
        let found = extract::find_list(&body);
        Ok(found.map(|(member, list)| {
            self.member = Some(member);
            list
        }))
    }

    fn push(&mut self, elements: Bytes) {
        if !elements.is_empty() {
            self.pages.push(elements);
        }
    }

    fn bytes(&self) -> u64 {
        self.pages.iter().map(|p| p.len() as u64 + 1).sum::<u64>() + 1
    }

    fn finish(self) -> Bytes {
        let mut all = BytesMut::with_capacity(usize::try_from(self.bytes()).unwrap_or(0) + 1);
        all.extend_from_slice(b"[");
        for (i, page) in self.pages.iter().enumerate() {
            if i > 0 {
                all.extend_from_slice(b",");
            }
            all.extend_from_slice(page);
        }
        all.extend_from_slice(b"]");
        all.freeze()
    }
}

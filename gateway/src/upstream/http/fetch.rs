//! One call in flight: attempts, pages, the deadline.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use tamis_config::Pagination;

use super::exchange::{Outgoing, exchange};
use super::merge::{Document, Merged};
use super::pages::{Page, Pager, Start};
use super::render::{MAX_URL, Rendered};
use super::retry::{Decision, Failure, decide, retry_after};
use super::{Action, extract, graphql};
use crate::compute::NotRun;
use crate::memory::Exhausted;
use crate::offload::{LIGHT_COPIED, LIGHT_READ, Work};
use crate::upstream::auth::Authentication;
use crate::upstream::incoming::{BodyLimits, Fault, Incoming};
use crate::upstream::origin::Target;
use crate::upstream::returned::Search;
use crate::upstream::template::{check_length, invalid_argument};
use crate::upstream::{CallContext, Client, PageReport, UpstreamError};

/// How long reading the body of an error may take, so that a slow one leaves time for another attempt.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// A rendered request, and what has happened to it so far.
pub(super) struct Fetch<'a> {
    pub(super) client: &'a Client,
    pub(super) action: &'a Action,
    pub(super) rendered: &'a Rendered<'a>,
    pub(super) authentication: &'a Authentication<'a>,
    pub(super) context: CallContext<'a>,
    /// Requests sent.
    pub(super) requests: u32,
    /// Status of the last response.
    pub(super) status: StatusCode,
    /// What a GraphQL server reported next to the data.
    pub(super) errors: Option<Bytes>,
}

impl Fetch<'_> {
    /// Returns the output of a call of one page.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn one_page(&mut self) -> Result<Bytes, UpstreamError> {
        let document = self.fetch(&self.rendered.target, self.context.bounds.max_response_bytes).await?;
        let path = self.extract_path(&document);
        let bytes = document.body.len();
        if let Some(answer) = &self.action.graphql {
            let field = answer.field.clone();
            let work = move || {
                let graphql::Parts { output, errors } = graphql::read(&document.body, field.as_deref())?;
                Ok::<_, UpstreamError>((extract_output(&output, path.as_deref())?, errors))
            };
            let (output, errors) = self.off_thread(bytes, LIGHT_READ, work).await??;
            self.errors = errors;
            return Ok(output);
        }
        let Some(path) = path else { return Ok(document.body) };
        self.off_thread(bytes, LIGHT_READ, move || extract_output(&document.body, Some(&path))).await?
    }

    /// Fetches page after page and merges them into one list. When time runs out, the pages so far are the output. When
    /// space runs out, the call fails: members that a filter removes take space too, and must not decide how many pages
    /// there are.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn all_pages(
        &mut self,
        plan: &Pagination,
        start: Start,
    ) -> Result<(Bytes, Option<PageReport>), UpstreamError> {
        let position = if start.position.is_some() { plan.kind.argument() } else { "path or query" };
        let mut pager = Pager::new(plan, start);
        let mut merged = Merged::default();
        let first = self.page(&pager);
        check_length(first.as_ref().map_or(usize::MAX, Target::len), position, MAX_URL)?;
        let unusable = || invalid_argument(position, "does not give a valid URL");
        let mut target = first.ok_or_else(unusable)?;
        loop {
            let left = self.context.bounds.max_response_bytes.saturating_sub(merged.bytes());
            let document = match self.fetch(&target, left).await {
                Err(UpstreamError::Timeout { .. }) if pager.has_pages() => break,
                other => other?,
            };
            let (path, next_path) = (self.extract_path(&document), plan.next_path.clone());
            let (is_json, detect) = (self.action.is_json, self.context.bounds.detect_list);
            let bytes = document.body.len();
            let mut pages = std::mem::take(&mut merged);
            let work = move || {
                let output = extract_output(&document.body, path.as_deref())?;
                let list = if is_json { pages.find(&output, detect)? } else { None };
                let Some(list) = list else { return Ok(Err(output)) };
                let Some((elements, items)) = extract::list(&list) else {
                    return Err(UpstreamError::Malformed("holds a list that is not valid JSON".to_owned()));
                };
                pages.push(elements);
                Ok(Ok((pages, Page { items, ..document.page(next_path.as_deref(), detect) })))
            };
            let page = match self.off_thread(bytes, LIGHT_READ, work).await?? {
                // There is no list to merge, so this page is the output.
                Err(output) => return Ok((output, None)),
                Ok((pages, page)) => {
                    merged = pages;
                    page
                }
            };
            if self.holds_credential(page.next.as_deref().unwrap_or_default().as_bytes()) {
                return Err(UpstreamError::CredentialReturned);
            }
            let more = pager.advance(page);
            // An error even if this page is left to the caller, who could not fetch it either.
            target = self.page(&pager).filter(|target| target.len() <= MAX_URL).ok_or_else(|| {
                UpstreamError::Malformed(format!("names a next page whose URL is longer than {MAX_URL} bytes"))
            })?;
            if !more {
                break;
            }
        }
        // The pages stay in memory until they are one list.
        self.context.memory.take(merged.bytes()).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: true })?;
        let bytes = usize::try_from(merged.bytes()).unwrap_or(usize::MAX);
        let all = self.off_thread(bytes, LIGHT_COPIED, move || merged.finish()).await?;
        Ok((all, Some(pager.report())))
    }

    /// Runs work on `bytes` bytes: here if they are few, otherwise off the serving threads.
    async fn off_thread<T: Send + 'static>(
        &self,
        bytes: usize,
        light: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UpstreamError> {
        if bytes <= light {
            return Ok(work());
        }
        let CallContext { offload, bounds, .. } = &self.context;
        let done = offload.run(Work::Upstream, bounds.deadline, None, move |_| work()).await;
        done.map_err(|not_run| match not_run {
            NotRun::Overdue => UpstreamError::Timeout { sent: true },
            NotRun::Exhausted => UpstreamError::Exhausted { sent: true },
        })
    }

    /// Returns where the next page is; `None` if that is longer than HTTP's own types accept.
    fn page(&self, pager: &Pager) -> Option<Target> {
        let target = &self.rendered.target;
        target.with_query(Some(&pager.query(target.query())))
    }

    /// Returns whether a text that reaches the caller outside the body holds the credential of the call.
    fn holds_credential(&self, text: &[u8]) -> bool {
        self.authentication.needles.as_ref().is_some_and(|needles| Search::is_in(needles, text))
    }

    /// Returns the path of the output in a response, or `None` if all of it is the output.
    fn extract_path(&self, document: &Document) -> Option<Box<str>> {
        self.action.extract.clone().filter(|_| self.action.is_json && !document.body.is_empty())
    }

    /// Sends a request until it succeeds, must not be repeated, or time is up.
    async fn fetch(&mut self, target: &Target, limit: u64) -> Result<Document, UpstreamError> {
        let deadline = self.context.bounds.deadline;
        if deadline > Instant::now()
            && let Ok(result) = tokio::time::timeout_at(deadline.into(), self.attempts(target, limit)).await
        {
            return result;
        }
        Err(UpstreamError::Timeout { sent: self.requests > 0 })
    }

    async fn attempts(&mut self, target: &Target, limit: u64) -> Result<Document, UpstreamError> {
        let mut attempt = 1;
        loop {
            let (failure, error) = match self.attempt(target, limit).await {
                Ok(document) => return Ok(document),
                Err(failed) => failed,
            };
            let Some(failure) = failure else { return Err(error) };
            let left = self.context.bounds.deadline.saturating_duration_since(Instant::now());
            match decide(self.action.retry.as_ref(), self.action.idempotent, attempt, failure, left) {
                Decision::Stop => return Err(error),
                Decision::Wait(time) => tokio::time::sleep(time).await,
            }
            attempt += 1;
        }
    }

    /// Sends one request. An error without a [`Failure`] is final.
    async fn attempt(&mut self, target: &Target, limit: u64) -> Result<Document, (Option<Failure>, UpstreamError)> {
        let failed = |fault: Fault| {
            let failure = match &fault {
                Fault::Unsent(_) => Some(Failure::Unsent),
                Fault::Broken(_) => Some(Failure::Broken),
                Fault::Final(_) => None,
            };
            (failure, fault.into_error())
        };
        let outgoing = Outgoing {
            plan: &self.action.plan,
            rendered: self.rendered,
            target,
            authentication: self.authentication,
            trace: self.context.trace,
            hops: self.context.hops,
        };
        // In a box: a future is moved whole into the one that awaits it, and this one lies below many.
        let exchanged = Box::pin(exchange(self.client, &outgoing, &mut self.requests)).await;
        let mut incoming = exchanged.map_err(failed)?;
        self.status = incoming.status();
        if !self.status.is_success() {
            return Err(Box::pin(self.error_status(incoming)).await);
        }
        let needles = self.authentication.needles.as_deref();
        let stated = self.context.bounds.max_response_bytes;
        let limits = BodyLimits { limit, stated, needles, memory: &mut *self.context.memory };
        let body = incoming.read(limits).await.map_err(failed)?;
        Ok(Document::new(body, incoming.headers()))
    }

    /// Returns the error for a response with an error status.
    async fn error_status(&mut self, incoming: Incoming) -> (Option<Failure>, UpstreamError) {
        let status = incoming.status().as_u16();
        let retry_after = retry_after(incoming.headers(), Timestamp::now());
        let time = self.context.bounds.deadline.min(Instant::now() + ERROR_BODY_TIME);
        let body = incoming.read_error(time.into(), self.context.memory).await;
        let mapped = self.action.errors.get(&status).cloned();
        let error = match self.holds_credential(&body) {
            true => UpstreamError::CredentialReturned,
            false => UpstreamError::Status { status, mapped, body },
        };
        (Some(Failure::Status { status, retry_after }), error)
    }
}

/// Returns the part of a body at a path.
pub(in crate::upstream) fn extract_output(body: &Bytes, path: Option<&str>) -> Result<Bytes, UpstreamError> {
    let Some(path) = path else { return Ok(body.clone()) };
    let found = extract::extract(body, path).map_err(UpstreamError::Malformed)?;
    found.ok_or_else(|| UpstreamError::Malformed(format!("has nothing at `{path}`, where `extract` looks")))
}

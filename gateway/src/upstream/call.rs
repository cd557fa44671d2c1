//! One call under way: attempts, pages, the deadline.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use tamis_config::Pagination;
use url::Url;

use super::auth::Authentication;
use super::exchange::{Fault, Incoming, Outgoing, Reading, exchange};
use super::merge::{Document, Merged};
use super::pages::{Page, Pager, Start};
use super::render::{MAX_URL, Rendered};
use super::retry::{Decision, Failure, decide, retry_after};
use super::returned::Search;
use super::service::Action;
use super::template::bounded;
use super::{CallBounds, Client, PageReport, UpstreamError, extract};
use crate::compute::NotRun;
use crate::memory::{Exhausted, Reservation};
use crate::offload::{LIGHT_COPIED, LIGHT_READ, Work};
use crate::trace::CallTrace;

/// How long an error's body may take, so that a slow one leaves time to try again.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// A rendered request, and what has happened to it so far.
pub(super) struct Call<'a> {
    pub(super) client: &'a Client,
    pub(super) action: &'a Action,
    pub(super) rendered: &'a Rendered,
    pub(super) authentication: &'a Authentication<'a>,
    pub(super) bounds: CallBounds<'a>,
    pub(super) trace: Option<&'a CallTrace>,
    /// Where memory for answers comes from.
    pub(super) held: &'a mut Reservation,
    /// Requests sent.
    pub(super) requests: u32,
    /// Of the last response.
    pub(super) status: StatusCode,
}

impl Call<'_> {
    /// The output of a call of one page.
    pub(super) async fn fetch_one(&mut self) -> Result<Bytes, UpstreamError> {
        let document = self.fetch(&self.rendered.url, self.bounds.max_response_bytes).await?;
        let Some(path) = self.extract(&document) else { return Ok(document.body) };
        let bytes = document.body.len();
        self.off_thread(bytes, LIGHT_READ, move || extracted(&document.body, Some(&path))).await?
    }

    /// Page after page, merged to one list. What came before time ran out is kept. Where space runs out the call fails:
    /// members that a filter removes take space too, and must not decide how many pages there are.
    pub(super) async fn fetch_pages(
        &mut self,
        plan: &Pagination,
        start: Start,
    ) -> Result<(Bytes, Option<PageReport>), UpstreamError> {
        let position = if start.position.is_some() { Pager::parameter(plan.kind) } else { "path or query" };
        let mut pager = Pager::new(plan, start);
        let mut merged = Merged::default();
        let mut url = self.page_url(&pager);
        bounded(url.as_str(), position, MAX_URL)?;
        loop {
            let left = self.bounds.max_response_bytes.saturating_sub(merged.bytes());
            let document = match self.fetch(&url, left).await {
                Err(UpstreamError::Timeout { .. }) if pager.has_begun() => break,
                other => other?,
            };
            let (path, next_path) = (self.extract(&document), plan.next_path.clone());
            let (is_json, detect, bytes) = (self.action.is_json, self.bounds.detect_list, document.body.len());
            let mut begun = std::mem::take(&mut merged);
            let work = move || {
                let output = extracted(&document.body, path.as_deref())?;
                let list = if is_json { begun.find(&output, detect)? } else { None };
                let Some(list) = list else { return Ok(Err(output)) };
                let Some((elements, items)) = extract::list(&list) else {
                    return Err(UpstreamError::Malformed("holds a list that is not valid JSON".to_owned()));
                };
                begun.push(elements);
                Ok(Ok((begun, Page { items, ..document.page(next_path.as_deref(), detect) })))
            };
            let page = match self.off_thread(bytes, LIGHT_READ, work).await?? {
                // Nothing to merge: what came is the output.
                Err(output) => return Ok((output, None)),
                Ok((all, page)) => {
                    merged = all;
                    page
                }
            };
            if self.returns_credential(page.next.as_deref().unwrap_or_default().as_bytes()) {
                return Err(UpstreamError::CredentialReturned);
            }
            let more = pager.advance(page);
            url = self.page_url(&pager);
            // Also where the caller is to ask for that page: the caller cannot either.
            if url.as_str().len() > MAX_URL {
                return Err(UpstreamError::Malformed(format!(
                    "names a next page whose URL is longer than {MAX_URL} bytes"
                )));
            }
            if !more {
                break;
            }
        }
        // The pages are there until they are one list.
        self.held.take(merged.bytes()).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: true })?;
        let bytes = usize::try_from(merged.bytes()).unwrap_or(usize::MAX);
        let all = self.off_thread(bytes, LIGHT_COPIED, move || merged.finish()).await?;
        Ok((all, Some(pager.report())))
    }

    /// Does work on `bytes` bytes here if they are few, else off the serving threads.
    async fn off_thread<T: Send + 'static>(
        &self,
        bytes: usize,
        light: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UpstreamError> {
        if bytes <= light {
            return Ok(work());
        }
        let done = self.bounds.offload.run(Work::Upstream, self.bounds.deadline, None, move |_| work()).await;
        done.map_err(|not_run| match not_run {
            NotRun::Overdue => UpstreamError::Timeout { sent: true },
            NotRun::Exhausted => UpstreamError::Exhausted { sent: true },
        })
    }

    fn page_url(&self, pager: &Pager) -> Url {
        let mut url = self.rendered.url.clone();
        pager.apply(&mut url);
        url
    }

    /// Whether a text that reaches the caller beside the body contains the credential of the call.
    fn returns_credential(&self, text: &[u8]) -> bool {
        self.authentication.needles.as_ref().is_some_and(|needles| Search::is_in(needles, text))
    }

    /// The path of the part of a response that the manifest asks for, or `None` for all of it.
    fn extract(&self, document: &Document) -> Option<Box<str>> {
        self.action.extract.clone().filter(|_| self.action.is_json && !document.body.is_empty())
    }

    /// One request until it succeeds, may not be tried again, or time is up.
    async fn fetch(&mut self, url: &Url, limit: u64) -> Result<Document, UpstreamError> {
        let deadline = self.bounds.deadline;
        if deadline > Instant::now()
            && let Ok(result) = tokio::time::timeout_at(deadline.into(), self.attempts(url, limit)).await
        {
            return result;
        }
        Err(UpstreamError::Timeout { sent: self.requests > 0 })
    }

    async fn attempts(&mut self, url: &Url, limit: u64) -> Result<Document, UpstreamError> {
        let mut attempt = 1;
        loop {
            let (failure, error) = match self.attempt(url, limit).await {
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

    /// One attempt. What no other attempt can mend has no [`Failure`].
    async fn attempt(&mut self, url: &Url, limit: u64) -> Result<Document, (Option<Failure>, UpstreamError)> {
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
            url,
            authentication: self.authentication,
            trace: self.trace,
            hops: self.bounds.hops,
        };
        let mut incoming = exchange(self.client, &outgoing, &mut self.requests).await.map_err(failed)?;
        self.status = incoming.status();
        if !self.status.is_success() {
            return Err(self.refused(incoming).await);
        }
        let needles = self.authentication.needles.as_ref();
        let reading = Reading { limit, stated: self.bounds.max_response_bytes, needles, held: &mut *self.held };
        let body = incoming.read(reading).await.map_err(failed)?;
        Ok(Document::new(body, incoming.headers()))
    }

    async fn refused(&mut self, incoming: Incoming) -> (Option<Failure>, UpstreamError) {
        let status = incoming.status().as_u16();
        let retry_after = retry_after(incoming.headers(), Timestamp::now());
        let time = self.bounds.deadline.min(Instant::now() + ERROR_BODY_TIME);
        let body = incoming.read_error(time.into(), self.held).await;
        let mapped = self.action.errors.get(&status).cloned();
        let error = match self.returns_credential(&body) {
            true => UpstreamError::CredentialReturned,
            false => UpstreamError::Status { status, mapped, body },
        };
        (Some(Failure::Status { status, retry_after }), error)
    }
}

/// The part of a body at a path.
fn extracted(body: &Bytes, path: Option<&str>) -> Result<Bytes, UpstreamError> {
    let Some(path) = path else { return Ok(body.clone()) };
    let found = extract::extract(body, path).map_err(UpstreamError::Malformed)?;
    found.ok_or_else(|| UpstreamError::Malformed(format!("has nothing at `{path}`, where `extract` looks")))
}

//! Asks an MCP server of the transport of 2024-11-05: a `GET` opens a stream of events that carries the answers, and its first event
//! names the address that messages are sent to.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::client::{Failure, Listed, MAX_ANSWER_BYTES, Message, Session, TIMEOUT, Wire, causes, is_stream, message};
use super::events::{Event, Events};
use super::program::{refusal, request};

/// The longest time for all questions.
const TOTAL: Duration = Duration::from_secs(180);
/// Maximum number of bytes before the address for messages.
const MAX_PREAMBLE: usize = 64 << 10;
/// Events that may come before an answer.
const MAX_OTHERS: usize = 10_000;

/// Reads all pages of the list of a server; none if the server has no such stream.
///
/// # Errors
/// The server cannot be reached, or does not answer as the protocol says.
pub(super) async fn list(client: &Client, url: &Url) -> anyhow::Result<Option<Listed>> {
    let opened = client.get(url.clone()).header(ACCEPT, "text/event-stream").timeout(TOTAL).send();
    let opened = tokio::time::timeout(TIMEOUT, opened).await.context("the server does not answer")?;
    let response = opened.map_err(|error| anyhow!("cannot reach the server: {}", causes(&error.without_url())))?;
    if !response.status().is_success() || !is_stream(&response) {
        return Ok(None);
    }
    let (client, endpoint) = (client.clone(), url.clone());
    let mut stream =
        Stream { client, endpoint, response, events: Events::default(), pending: VecDeque::new(), read: 0 };
    let address = tokio::time::timeout(TIMEOUT, stream.address()).await;
    let address = address.map_err(|_| anyhow!("the server's stream does not name the address for messages"))??;
    stream.endpoint = resolve(url, &address)?;
    // The protocol has known no other era before this transport was replaced.
    Session::new(stream).list(false).await.map(Some)
}

/// Resolves the address for messages. A credential is for the host that the caller named.
fn resolve(url: &Url, address: &str) -> anyhow::Result<Url> {
    let resolved = url.join(address).context("the server names an address for messages that is not a URL")?;
    let is_plain = resolved.username().is_empty() && resolved.password().is_none();
    if resolved.origin() != url.origin() || !is_plain {
        let origin = super::line(&resolved.origin().ascii_serialization());
        bail!("the server names an address for messages at {origin}, which is not the server's origin");
    }
    Ok(resolved)
}

/// An open stream.
struct Stream {
    client: Client,
    /// The address for messages.
    endpoint: Url,
    response: Response,
    events: Events,
    /// Events that were received and not read.
    pending: VecDeque<Event>,
    /// Bytes since the last answer.
    read: usize,
}

impl Stream {
    async fn event(&mut self, limit: usize) -> anyhow::Result<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| anyhow!("the stream breaks: {}", causes(&error.without_url())))?;
            let chunk = chunk.context("the server ends its stream")?;
            self.read += chunk.len();
            if self.read > limit {
                bail!("the stream has more than {} KiB before an answer", limit >> 10);
            }
            self.pending.extend(self.events.push(&chunk));
        }
    }

    async fn address(&mut self) -> anyhow::Result<String> {
        loop {
            let Event { kind, data } = self.event(MAX_PREAMBLE).await?;
            if kind == b"endpoint" {
                self.read = 0;
                return String::from_utf8(data).context("the server names an address for messages that is not text");
            }
        }
    }

    async fn post(&self, message: &Value, version: &str) -> anyhow::Result<Response> {
        let request = self.client.post(self.endpoint.clone()).header(CONTENT_TYPE, "application/json");
        let request = request.header("mcp-protocol-version", version).body(message.to_string());
        request.send().await.map_err(|error| anyhow!("cannot reach the server: {}", causes(&error.without_url())))
    }

    async fn answer(&mut self, id: u64, version: &str) -> anyhow::Result<Message> {
        for _ in 0..MAX_OTHERS {
            let Event { data, .. } = self.event(MAX_ANSWER_BYTES).await?;
            if let Some(asked) = request(&data) {
                // Whether the server takes it does not matter.
                let _ = self.post(&refusal(asked), version).await;
            } else if let Ok(Some(message)) = message(&data, Some(id)) {
                self.read = 0;
                return Ok(message);
            }
        }
        bail!("the stream has more than {MAX_OTHERS} events before an answer")
    }
}

impl Wire for Stream {
    async fn ask(&mut self, message: &Value, id: u64, method: &str, version: &str) -> Result<Message, Failure> {
        let response = self.post(message, version).await?;
        if !response.status().is_success() {
            return Err(Failure::Refused { method: method.to_owned(), message: response.status().to_string() });
        }
        let answer = tokio::time::timeout(TIMEOUT, self.answer(id, version)).await;
        Ok(answer.map_err(|_| anyhow!("the server does not answer `{method}` within {} s", TIMEOUT.as_secs()))??)
    }

    async fn notify(&mut self, message: &Value, version: &str) -> anyhow::Result<()> {
        let status = self.post(message, version).await?.status();
        if !status.is_success() {
            bail!("the server answers `notifications/initialized` with {status}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_messages_is_of_the_server() {
        let url = Url::parse("https://a.example/sse").expect("is a URL");
        for (address, expected) in [
            ("/messages?session=1", Ok("https://a.example/messages?session=1")),
            ("https://a.example:443/m", Ok("https://a.example/m")),
            ("https://b.example/m", Err("at https://b.example,")),
            ("http://a.example/m", Err("at http://a.example,")),
            ("//127.0.0.1/m", Err("at https://127.0.0.1,")),
            ("https://user:word@a.example/m", Err("not the server's origin")),
            ("http://", Err("not a URL")),
        ] {
            match (resolve(&url, address), expected) {
                (Ok(resolved), Ok(expected)) => assert_eq!(resolved.as_str(), expected),
                (Err(error), Err(expected)) => assert!(format!("{error:#}").contains(expected), "{address}: {error:#}"),
                (resolved, expected) => panic!("{address}: {resolved:?}, not {expected:?}"),
            }
        }
    }
}

//! The admin listener: metrics, probes, what is loaded and what became of it. Never exposed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwapOption;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::acks::Ack;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::acks;
use crate::exposition::hex;
use crate::gateway::{Gateway, Readiness};
use crate::hops;
use crate::metrics::Standing;
use crate::registry::{Slot, State};
use crate::serve::{Body, Listening, host_is_allowed, origin_is_allowed, run};
use crate::upstream::Secret;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Gateway {
    /// Serves `/metrics`, `/livez`, `/readyz`, `/config` and, where there is a token, `/acks` on `listener` until
    /// `shutdown`.
    pub async fn serve_admin(self: Arc<Self>, listener: TcpListener, shutdown: CancellationToken) {
        self.client.listens_on(listener.local_addr());
        let listening = Listening::of(&self.options.limits);
        let gateway = Arc::clone(&self);
        let ending = shutdown.clone();
        let answer = move |request: Request<Incoming>, _: SocketAddr| {
            let response = gateway.admin(&request, &ending);
            async { response }
        };
        run(listener, &shutdown, listening, || {}, answer).await;
    }

    fn admin(self: &Arc<Self>, request: &Request<Incoming>, shutdown: &CancellationToken) -> Response<Body> {
        if !origin_is_allowed(request.headers(), &[]) {
            return respond(StatusCode::FORBIDDEN, TEXT, "this Origin may not call\n".into());
        }
        // A page that reaches this port by a name of its own has no token.
        let is_named = || host_is_allowed(request.headers(), request.uri(), &self.options.hostnames);
        let has_token = || self.options.admin_token.is_some() && self.admit(request.headers()).is_ok();
        if !is_named() && !has_token() {
            return respond(
                StatusCode::FORBIDDEN,
                TEXT,
                "this Host may not call; use an address of the gateway\n".into(),
            );
        }
        if request.headers().contains_key(hops::HEADER) {
            return respond(StatusCode::FORBIDDEN, TEXT, "a gateway's call may not lead here\n".into());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".into());
        }
        match request.uri().path() {
            "/metrics" => respond(StatusCode::OK, METRICS, self.metrics.render(self.standing())),
            "/livez" => respond(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" => match self.admission() {
                Ok(note) => respond(StatusCode::OK, TEXT, format!("ok{note}\n").into_bytes()),
                Err(reason) => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n").into_bytes()),
            },
            "/config" => match self.admit(request.headers()) {
                Ok(_) => respond(StatusCode::OK, JSON, self.describe().to_string().into_bytes()),
                Err(refused) => *refused,
            },
            "/acks" if self.options.admin_token.is_some() => match self.admit(request.headers()) {
                Ok(revoked) => {
                    let busy = || respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "too many streams\n".into());
                    acks::body(self, shutdown, revoked).map_or_else(busy, events)
                }
                Err(refused) => *refused,
            },
            _ => respond(StatusCode::NOT_FOUND, TEXT, "/metrics /livez /readyz /config\n".into()),
        }
    }

    /// Lets in who shows the token, where one is wanted: what is cancelled when that is the token no longer, or the answer to
    /// whoever does not.
    fn admit(&self, headers: &HeaderMap) -> Result<CancellationToken, Box<Response<Body>>> {
        let Some(token) = &self.options.admin_token else { return Ok(CancellationToken::new()) };
        let presented = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let presented = presented.and_then(|value| value.split_once(' '));
        let presented = presented.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token);
        match token.admit(presented.unwrap_or_default().trim()) {
            Some(Ok(revoked)) => Ok(revoked),
            Some(Err(Refused)) => {
                let mut refused = respond(StatusCode::UNAUTHORIZED, TEXT, "the group's token is wanted\n".into());
                refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                Err(Box::new(refused))
            }
            None => {
                let unknown = "the group's token is not known yet\n";
                Err(Box::new(respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, unknown.into())))
            }
        }
    }

    /// Whether the gateway may be given traffic: a note, or what keeps it from that.
    fn admission(&self) -> Result<String, String> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("stopping: calls under way are ending".to_owned());
        }
        match self.readiness() {
            Some(Readiness::WaitsFor(what)) => return Err(format!("waiting for {what}")),
            Some(Readiness::Ready(note)) => return Ok(self.notes(note)),
            None => {}
        }
        let status = self.reload_status();
        match (status.applied, status.error) {
            (0, None) => Err("waiting for the first configuration".to_owned()),
            (0, Some(error)) => Err(format!("waiting for a first configuration without errors: {error}")),
            _ => Ok(self.notes(None)),
        }
    }

    /// How things stand, for the metrics.
    fn standing(&self) -> Standing {
        let status = self.reload_status();
        // Where there is an operator, both know of a document that cannot be loaded.
        let (refused, waiting) = self.acks.not_loaded(status.failed.keys());
        let tls_expires = self.options.tls.as_ref().and_then(|tls| tls.expires());
        Standing { ready: self.admission().is_ok(), refused, waiting, broken: status.error.is_some(), tls_expires }
    }

    /// What is unusual, after a colon.
    fn notes(&self, note: Option<String>) -> String {
        let tls = self.options.tls.as_ref().and_then(|tls| tls.problem());
        let tls = tls.map(|problem| format!("the TLS certificate before is shown, since {problem}"));
        let notes: Vec<String> = note.into_iter().chain(tls).collect();
        if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) }
    }

    /// What is loaded, by digest, and what became of the newest documents. No filter, no schema, no address of an upstream.
    fn describe(&self) -> Value {
        let status = self.reload_status();
        let slots = self.registry.all();
        let mut slots: Vec<_> = slots.values().collect();
        slots.sort_by(|a, b| a.id.cmp(&b.id));
        let failed: Vec<_> = status
            .failed
            .iter()
            .map(|(id, message)| json!({"namespace": id.namespace, "name": id.name, "message": message}))
            .collect();
        json!({
            "expositions": slots.into_iter().map(|slot| exposition(slot, self.acks.of(&slot.id).as_ref())).collect::<Vec<_>>(),
            "reloads": status.applied,
            "lastError": status.error,
            "failed": failed,
        })
    }
}

fn exposition(slot: &Slot, newest: Option<&Ack>) -> Value {
    let mut entry = json!({"namespace": slot.id.namespace, "name": slot.id.name});
    if let Some(Ack { digest, state, .. }) = newest {
        entry["newest"] = json!({"digest": digest, "is": state});
    }
    match slot.state().as_ref() {
        State::Serving(exposition) => {
            entry["state"] = json!("Serving");
            entry["digest"] = json!(hex(&exposition.digest));
            entry["service"] = json!(exposition.service.digest);
            entry["enforcement"] = json!(exposition.enforcement);
            entry["tools"] = json!(exposition.tools.keys().collect::<Vec<_>>());
        }
        State::Stopped(stopped) => {
            entry["state"] = json!("Stopped");
            entry["reason"] = json!(stopped.reason);
            entry["message"] = json!(stopped.message);
        }
    }
    entry
}

/// The token that `/config` and `/acks` want. It may change, and may not be known yet.
#[derive(Debug, Default)]
pub struct AdminToken(ArcSwapOption<Known>);

/// A token, as far as it has to be known.
#[derive(Debug)]
struct Known {
    /// A digest of random bytes gives nothing away, and is of one length.
    digest: [u8; 32],
    /// Cancelled when it is the token no longer: a stream that it has opened ends then.
    revoked: CancellationToken,
}

/// It is not the token.
#[derive(Debug)]
struct Refused;

impl AdminToken {
    /// Wants another token from now on; none admits nobody. An empty one is none.
    pub fn set(&self, token: Option<&Secret>) {
        let token = token.map(Secret::expose).filter(|token| !token.is_empty());
        let digest: Option<[u8; 32]> = token.map(|token| Sha256::digest(token).into());
        if self.0.load().as_ref().map(|known| known.digest) == digest {
            return;
        }
        let known = digest.map(|digest| Arc::new(Known { digest, revoked: CancellationToken::new() }));
        if let Some(before) = self.0.swap(known) {
            before.revoked.cancel();
        }
    }

    /// Whether a token is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.load().is_some()
    }

    /// Whether it is this one, in constant time, and what is cancelled when it is so no longer; none while no token is
    /// known.
    fn admit(&self, presented: &str) -> Option<Result<CancellationToken, Refused>> {
        let known = self.0.load_full()?;
        let presented: [u8; 32] = Sha256::digest(presented).into();
        let same = verify_slices_are_equal(&known.digest, &presented);
        Some(same.map(|()| known.revoked.clone()).map_err(|_| Refused))
    }
}

fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn respond(status: StatusCode, kind: HeaderValue, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

//! The admin listener: metrics, probes and what is loaded. Never exposed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::exposition::hex;
use crate::gateway::Gateway;
use crate::registry::{Slot, State};
use crate::serve::{Body, Listening, origin_is_allowed, run};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Gateway {
    /// Serves `/metrics`, `/livez`, `/readyz` and `/config` on `listener` until `shutdown`.
    pub async fn serve_admin(self: Arc<Self>, listener: TcpListener, shutdown: CancellationToken) {
        let listening = Listening::of(&self.options.limits);
        let gateway = Arc::clone(&self);
        let answer = move |request: Request<Incoming>, _: SocketAddr| {
            let response = gateway.admin(&request);
            async { response }
        };
        run(listener, &shutdown, listening, || {}, answer).await;
    }

    fn admin(&self, request: &Request<Incoming>) -> Response<Body> {
        if !origin_is_allowed(request.headers(), &[]) {
            return respond(StatusCode::FORBIDDEN, TEXT, "this Origin may not call\n".into());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".into());
        }
        match request.uri().path() {
            "/metrics" => respond(StatusCode::OK, METRICS, self.metrics.render()),
            "/livez" => respond(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" => match self.waits_for() {
                None => respond(StatusCode::OK, TEXT, "ok\n".into()),
                Some(reason) => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n").into_bytes()),
            },
            "/config" => respond(StatusCode::OK, JSON, self.describe().to_string().into_bytes()),
            _ => respond(StatusCode::NOT_FOUND, TEXT, "/metrics /livez /readyz /config\n".into()),
        }
    }

    /// What keeps the gateway from being ready.
    fn waits_for(&self) -> Option<String> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("stopping: calls under way are ending".to_owned());
        }
        let status = self.reload_status();
        match (status.applied, status.error) {
            (0, None) => Some("waiting for the first configuration".to_owned()),
            (0, Some(error)) => Some(format!("waiting for a first configuration without errors: {error}")),
            _ => None,
        }
    }

    /// What is loaded, by digest. No filter, no schema, no address of an upstream.
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
            "expositions": slots.into_iter().map(|slot| exposition(slot)).collect::<Vec<_>>(),
            "reloads": status.applied,
            "lastError": status.error,
            "failed": failed,
        })
    }
}

fn exposition(slot: &Slot) -> Value {
    let mut entry = json!({"namespace": slot.id.namespace, "name": slot.id.name});
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

fn respond(status: StatusCode, kind: HeaderValue, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

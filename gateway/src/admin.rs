//! The admin listener: metrics, probes, and the loaded configuration with its results. It must not be exposed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::acks::Ack;
use tamis_config::proof::{InvalidQuestion, Question};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::acks;
use crate::bundle::Part;
use crate::exposition::{Exposition, hex};
use crate::gateway::{Gateway, Readiness};
use crate::hops;
use crate::metrics::GaugeValues;
use crate::missing::MissingCredential;
use crate::registry::{Slot, State};
use crate::serve::{Body, Listening, RequestBody, host_is_allowed, origin_is_allowed, run};
use crate::shares::Resource;
use crate::upstream::{LeftOut, ProgramReport, Secret, Withheld};
use crate::workers::Workers;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// The header with the gateway's proof that it knows the token.
const PROOF: HeaderName = HeaderName::from_static("tamis-proof");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Gateway {
    /// Serves `/metrics`, `/livez`, `/readyz`, `/config` and, if the gateway has a token, `/acks` on `listener` until
    /// `shutdown`.
    pub async fn serve_admin(self: Arc<Self>, listener: TcpListener, shutdown: CancellationToken) {
        self.client.listens_on(&listener);
        let listening = Listening::admin(&self.options.limits);
        let gateway = Arc::clone(&self);
        let ending = shutdown.clone();
        let answer = move |request: Request<RequestBody>, _: SocketAddr| {
            let response = gateway.admin(&request, &ending);
            async { response }
        };
        run(listener, &shutdown, listening, &Workers::on_this_runtime(), |_| {}, answer).await;
    }

    fn admin(self: &Arc<Self>, request: &Request<RequestBody>, shutdown: &CancellationToken) -> Response<Body> {
        if !origin_is_allowed(request.headers(), &[]) {
            return respond(StatusCode::FORBIDDEN, TEXT, "this Origin may not call\n".into());
        }
        // A web page that reaches this port under its own host name has no token.
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
            "/metrics" => respond(StatusCode::OK, METRICS, self.scrape()),
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
                Ok(Admitted { revoked, proof }) => {
                    let busy = || respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "too many streams\n".into());
                    let mut response = acks::body(self, shutdown, revoked).map_or_else(busy, events);
                    if let Some(proof) = proof {
                        response.headers_mut().insert(PROOF, proof);
                    }
                    response
                }
                Err(refused) => *refused,
            },
            _ => respond(StatusCode::NOT_FOUND, TEXT, "/metrics /livez /readyz /config\n".into()),
        }
    }

    /// Admits a request that has the group's token, or proves knowledge of it, if a token is required. The error is the
    /// response.
    fn admit(&self, headers: &HeaderMap) -> Result<Admitted, Box<Response<Body>>> {
        let Some(token) = &self.options.admin_token else {
            return Ok(Admitted { revoked: CancellationToken::new(), proof: None });
        };
        let presented = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let admitted = match presented.parse::<Question>() {
            Ok(question) => token.prove(&question, |address| self.is_asked_at(address)),
            Err(InvalidQuestion) => {
                let bearer = presented.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                token.admit(bearer.map(|(_, token)| token).unwrap_or_default().trim())
            }
        };
        match admitted {
            Some(Ok(admitted)) => Ok(admitted),
            Some(Err(Refused)) => {
                let mut refused = respond(StatusCode::UNAUTHORIZED, TEXT, "the group's token is required\n".into());
                refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                Err(Box::new(refused))
            }
            None => {
                let unknown = "the group's token is not known yet\n";
                Err(Box::new(respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, unknown.into())))
            }
        }
    }

    /// Returns whether a question is addressed to this gateway. Another pod may have forwarded it.
    fn is_asked_at(&self, address: &str) -> bool {
        let address: Option<SocketAddr> = address.parse().ok();
        address.is_some_and(|address| self.client.reserved().is_own(address.ip()).unwrap_or(true))
    }

    /// Returns whether the gateway is ready for traffic: a note for `/readyz`, or the reason why it is not.
    fn admission(&self) -> Result<String, String> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("stopping: waiting for calls in flight".to_owned());
        }
        match self.readiness() {
            Some(Readiness::WaitsFor(what)) => return Err(format!("waiting for {what}")),
            Some(Readiness::Ready(note)) => return Ok(self.notes(note)),
            None => {}
        }
        let status = self.reload_status();
        if status.applied == 0 {
            return Err("waiting for the first configuration".to_owned());
        }
        Ok(self.notes(None))
    }

    /// Returns the current values of the gauges.
    /// Returns the metrics, with the current values of the gauges.
    fn scrape(&self) -> Vec<u8> {
        let slots = self.registry.all();
        let reasons = slots.values().filter_map(|slot| {
            let reasons = withheld_reasons(slot.state().serving()?);
            (!reasons.is_empty()).then_some((&*slot.id, reasons))
        });
        self.metrics.withheld(reasons);
        self.metrics.render(self.gauge_values())
    }

    fn gauge_values(&self) -> GaugeValues {
        let status = self.reload_status();
        // In a cluster, a document that cannot be loaded is in both lists.
        let (refused, waiting) = self.acks.not_loaded(status.failed.keys());
        let tls_expires = self.options.tls.as_ref().and_then(|tls| tls.expires());
        GaugeValues {
            ready: self.admission().is_ok(),
            memory: self.options.limits.memory,
            memory_held: self.shares.used(Resource::Bytes),
            memory_set_aside: self.set_aside,
            refused,
            waiting,
            broken: status.error.is_some(),
            tls_expires,
        }
    }

    /// Returns warnings for `/readyz`, after a colon.
    fn notes(&self, note: Option<String>) -> String {
        let tls = self.options.tls.as_ref().and_then(|tls| tls.problem());
        let tls = tls.map(|problem| format!("the TLS certificate before is shown, since {problem}"));
        let notes: Vec<String> = note.into_iter().chain(tls).chain(self.credential_notes()).collect();
        if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) }
    }

    /// Returns the expositions that lack credentials, with the remedy.
    fn credential_notes(&self) -> Vec<String> {
        let all = self.missing_credentials();
        let each = all.iter().flat_map(|(id, missing)| missing.iter().map(move |one| (id, one)));
        each.map(|(id, missing)| format!("{id}: {missing}; {}", missing.remedy())).collect()
    }

    /// Returns the loaded configuration by digest, and the results of the newest documents. It has no filter, no schema
    /// and no address of an upstream.
    fn describe(&self) -> Value {
        let status = self.reload_status();
        let slots = self.registry.all();
        let missing = self.missing_credentials();
        let mut slots: Vec<_> = slots.values().collect();
        slots.sort_by(|a, b| a.id.cmp(&b.id));
        let failed: Vec<_> = status
            .failed
            .iter()
            .map(|(id, message)| json!({"namespace": id.namespace, "name": id.name, "message": message}))
            .collect();
        json!({
            "expositions": slots
                .into_iter()
                .map(|slot| exposition(slot, self.acks.of(&slot.id).as_ref(), missing.get(&slot.id)))
                .collect::<Vec<_>>(),
            "reloads": status.applied,
            "lastError": status.error,
            "failed": failed,
        })
    }
}

/// Returns the reasons for which tools are withheld, one for each tool.
fn withheld_reasons(exposition: &Exposition) -> Vec<&'static str> {
    let withheld = exposition.withheld();
    let mut reasons: Vec<_> = withheld.iter().flat_map(|withheld| withheld.values()).map(|why| why.reason()).collect();
    if let Some(listed) = exposition.listed() {
        reasons.extend(std::iter::repeat_n("invalid", listed.invalid));
        reasons.extend(std::iter::repeat_n("excess", listed.ended.map_or(0, |(_, excess)| excess)));
    }
    reasons
}

fn exposition(slot: &Slot, newest: Option<&Ack>, missing: Option<&Vec<MissingCredential>>) -> Value {
    let mut entry = json!({"namespace": slot.id.namespace, "name": slot.id.name});
    if let Some(missing) = missing {
        let each = |missing: &MissingCredential| json!({"message": missing.to_string(), "remedy": missing.remedy()});
        entry["missingCredentials"] = missing.iter().map(each).collect();
    }
    if let Some(Ack { digest, state, .. }) = newest {
        entry["newest"] = json!({"digest": digest, "is": state});
    }
    match slot.state().as_ref() {
        State::Serving(exposition) => {
            entry["state"] = json!("Serving");
            entry["digest"] = json!(hex(&exposition.digest));
            entry["service"] = json!(exposition.service.digest);
            entry["enforcement"] = json!(exposition.enforcement);
            entry["tools"] = json!(exposition.tools().keys().collect::<Vec<_>>());
            let unfiltered = exposition.tools().iter().filter(|(_, tool)| !tool.filtered).map(|(name, _)| name);
            if let Some(withheld) = exposition.withheld() {
                let why = |(name, why): (&String, &Withheld)| (name.clone(), json!(why.to_string()));
                entry["withheld"] = withheld.iter().map(why).collect::<serde_json::Map<_, _>>().into();
            }
            if let Some(listed) = exposition.listed().filter(|listed| !listed.left_out.is_empty()) {
                let why = |left: &LeftOut| json!({"tool": left.name, "reason": left.flaw.to_string()});
                entry["leftOut"] = listed.left_out.iter().map(why).collect();
            }
            if let Some(upstream) = exposition.upstream_report() {
                entry["upstream"] = json!(upstream);
            }
            entry["unfiltered"] = json!(unfiltered.collect::<Vec<_>>());
            if let Some(program) = exposition.service.upstream.program() {
                let ProgramReport { running, starts, error_bytes, other_lines } = program;
                entry["program"] = json!({
                    "running": running, "starts": starts, "errorBytes": error_bytes, "otherLines": other_lines,
                });
            }
        }
        State::Bundle(bundle) => {
            entry["state"] = json!("Serving");
            entry["digest"] = json!(hex(&bundle.digest));
            let part = |part: &Part| json!({"exposition": &*part.path, "prefix": part.prefix});
            entry["bundle"] = bundle.parts.iter().map(part).collect();
        }
        State::Stopped(stopped) => {
            entry["state"] = json!("Stopped");
            entry["reason"] = json!(stopped.reason);
            entry["message"] = json!(stopped.message);
        }
    }
    entry
}

/// The token that `/config` and `/acks` require. It may change, and may not be known yet.
#[derive(Debug, Default)]
pub struct AdminToken(ArcSwapOption<Known>);

/// The digest of a known token.
#[derive(Debug)]
struct Known {
    /// SHA-256 of the token. It has a fixed length, and does not reveal a random token.
    digest: [u8; 32],
    /// Cancelled when the token is replaced, which ends the streams that it opened.
    revoked: CancellationToken,
}

/// The request does not have the token.
#[derive(Debug)]
struct Refused;

/// An authenticated request.
struct Admitted {
    /// Cancelled when the token is replaced.
    revoked: CancellationToken,
    /// The gateway's own proof, if the request had one.
    proof: Option<HeaderValue>,
}

impl AdminToken {
    /// Replaces the token. Without a token, no request is admitted. An empty token counts as none.
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

    /// Returns whether a token is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.load().is_some()
    }

    /// Compares a token in constant time; none while no token is known.
    fn admit(&self, presented: &str) -> Option<Result<Admitted, Refused>> {
        let known = self.0.load_full()?;
        let presented: [u8; 32] = Sha256::digest(presented).into();
        let same = verify_slices_are_equal(&known.digest, &presented);
        Some(same.map(|()| Admitted { revoked: known.revoked.clone(), proof: None }).map_err(|_| Refused))
    }

    /// Checks that a question proves knowledge of the token, and is addressed to this gateway; none while no token is
    /// known.
    fn prove(&self, question: &Question, is_here: impl Fn(&str) -> bool) -> Option<Result<Admitted, Refused>> {
        let known = self.0.load_full()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &known.digest);
        let sign = |text: &str| hex(hmac::sign(&key, text.as_bytes()).as_ref());
        let Question { nonce, address, time, signature } = question;
        let expected = sign(&Question::signed(nonce, address, *time));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let same = verify_slices_are_equal(expected.as_bytes(), signature.as_bytes()).is_ok();
        if !(same && question.is_fresh(now) && is_here(address)) {
            return Some(Err(Refused));
        }
        let proof = HeaderValue::from_str(&sign(&Question::answered(nonce))).ok();
        Some(Ok(Admitted { revoked: known.revoked.clone(), proof }))
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

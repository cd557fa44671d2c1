//! `GET /`: the expositions that the sender of a request may call; without a key, the anonymous ones. Refusals are plain text.
//!
//! The work of a request is bounded: the anonymous list is built at most once a second, and keys are looked up for a bounded
//! number of requests a second, because a key has to be tried at every exposition.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tamis_config::Access;

use super::respond::{self, NO_STORE, plain};
use super::{Body, admission, origin};
use crate::access::{self, KEY_REQUIRED, KeyDigest};
use crate::bundle::{Sender, View};
use crate::gateway::Gateway;
use crate::memory::{Held, Reservation};
use crate::metrics::Rejection;
use crate::registry::{Slot, State};

/// Expositions in one list.
const LISTED: usize = 500;
/// Maximum age of the anonymous list.
const FRESH: Duration = Duration::from_secs(1);
/// Keys that are looked up in one second.
const KEYED: u32 = 20;
/// Characters of a description that are shown.
const SHOWN: usize = 200;

/// The list that is kept between requests, and the number of keys that were looked up.
#[derive(Debug, Default)]
pub(crate) struct Index {
    anonymous: Mutex<Option<(Instant, Bytes)>>,
    keyed: Mutex<Option<(Instant, u32)>>,
}

/// Why there is no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListError {
    /// The key belongs to no caller of any exposition.
    Unauthorized,
    /// Too many keys are being looked up.
    Busy,
}

/// Answers `GET /`.
pub(super) fn answer(gateway: &Gateway, request: &Parts, peer: IpAddr) -> Response<Body> {
    let reject = |reason, why| admission::reject(gateway, reason, request, peer, why);
    if !origin::host_is_allowed(&request.headers, &request.uri, &gateway.options.hostnames) {
        reject(Rejection::Origin, Some("Host is no name of this gateway"));
        return plain(StatusCode::FORBIDDEN, "this Host may not be asked for a list; use an address of the gateway");
    }
    let mut response = match list(gateway, access::presented(&request.headers)) {
        Ok(list) => match hold(gateway, &list) {
            Some(held) => respond::json(StatusCode::OK, held),
            None => {
                reject(Rejection::Memory, None);
                let busy = plain(StatusCode::SERVICE_UNAVAILABLE, "the gateway's memory is in use; try again\n");
                return respond::retry_after(busy, 1);
            }
        },
        Err(ListError::Unauthorized) => {
            reject(Rejection::Unauthorized, None);
            return respond::challenge(plain(StatusCode::UNAUTHORIZED, KEY_REQUIRED));
        }
        Err(ListError::Busy) => {
            reject(Rejection::Rate, None);
            let busy = plain(StatusCode::TOO_MANY_REQUESTS, "too many lists for keys in one second; try again\n");
            return respond::retry_after(busy, 1);
        }
    };
    // Browsers treat the list as data of this site, never as a page, and do not cache it.
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Copies a list into memory of the share of unauthenticated senders; none if there is too little.
fn hold(gateway: &Gateway, list: &[u8]) -> Option<Held> {
    let mut held = Reservation::try_open(&gateway.unauthenticated)?;
    held.try_take(list.len() as u64).then(|| Held::new(list.to_vec(), held))
}

/// Returns the list for the caller with this key.
fn list(gateway: &Gateway, presented: Option<KeyDigest>) -> Result<Bytes, ListError> {
    let now = Instant::now();
    let Some(key) = presented else { return Ok(anonymous(gateway, now)) };
    if !admit(&gateway.index.keyed, now) {
        return Err(ListError::Busy);
    }
    let store = gateway.options.credentials.as_ref();
    let mut is_known = false;
    let listed = write(gateway, Some(key), |access, namespace| {
        let admitted = access::admit(access, namespace, store, || Some(key)).is_ok();
        is_known |= access.is_some_and(Access::authenticates) && admitted;
        admitted
    });
    if is_known { Ok(listed) } else { Err(ListError::Unauthorized) }
}

fn anonymous(gateway: &Gateway, now: Instant) -> Bytes {
    let mut kept = gateway.index.anonymous.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, list)) = kept.as_ref().filter(|(made, _)| now.saturating_duration_since(*made) < FRESH) {
        return list.clone();
    }
    let list = write(gateway, None, |access, _| match access {
        None | Some(Access::Anonymous) => true,
        Some(Access::ApiKeys { .. } | Access::BundleOnly) => false,
    });
    *kept = Some((now, list.clone()));
    list
}

/// Returns whether another key may be looked up in this second, and counts it.
fn admit(keyed: &Mutex<Option<(Instant, u32)>>, now: Instant) -> bool {
    let mut keyed = keyed.lock().unwrap_or_else(PoisonError::into_inner);
    let second = keyed.filter(|(begun, _)| now.saturating_duration_since(*begun) < Duration::from_secs(1));
    let (begun, count) = second.unwrap_or((now, 0));
    *keyed = Some((begun, count.saturating_add(1)));
    count < KEYED
}

/// Writes the list of the addresses that `may_call` admits, given what each says about access and its namespace. `key`: the
/// key of the caller.
fn write(gateway: &Gateway, key: Option<KeyDigest>, mut may_call: impl FnMut(Option<&Access>, &str) -> bool) -> Bytes {
    let slots = gateway.registry.all();
    let mut found: Vec<(&Slot, Arc<State>)> = Vec::new();
    for slot in slots.values() {
        let state = slot.state();
        let access = match state.as_ref() {
            State::Serving(exposition) => &exposition.access,
            State::Bundle(bundle) => &bundle.access,
            State::Stopped(_) => continue,
        };
        if may_call(access.as_ref(), &slot.id.namespace) {
            found.push((slot, state));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    let is_cut = found.len() > LISTED;
    let listed = found.iter().take(LISTED).filter_map(|(_, state)| describe(gateway, key, state));
    let mut index = json!({"expositions": listed.collect::<Vec<_>>()});
    if is_cut {
        index["more"] = json!(found.len() - LISTED);
    }
    let mut text = format!("{index:#}");
    text.push('\n');
    text.into()
}

fn describe(gateway: &Gateway, key: Option<KeyDigest>, state: &State) -> Option<Value> {
    let id = state.id()?;
    let mut entry = json!({"name": id.to_string(), "path": format!("/mcp/{id}")});
    match state {
        State::Serving(exposition) => {
            let service = &exposition.service.document;
            entry["service"] = json!(service.name);
            entry["version"] = json!(service.version);
            entry["tools"] = json!(exposition.tools().len());
            if let Some(description) = &service.description {
                entry["description"] = json!(description.chars().take(SHOWN).collect::<String>());
            }
        }
        State::Bundle(bundle) => {
            entry["bundle"] = json!(true);
            entry["tools"] = json!(View::new(gateway, bundle, Sender::Key(key)).tools());
        }
        State::Stopped(_) => return None,
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_a_bounded_number_of_key_lookups() {
        let (keyed, start) = (Mutex::default(), Instant::now());
        let admitted = (0..1_000).filter(|_| admit(&keyed, start)).count();
        assert_eq!(admitted, KEYED as usize);
        assert!(!admit(&keyed, start + Duration::from_millis(999)));
        assert!(admit(&keyed, start + Duration::from_secs(1)));
    }
}

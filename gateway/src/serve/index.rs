//! `GET /`: what the sender of a request may call. Without a key, the anonymous expositions.
//!
//! The work of a request is bounded: the anonymous list is made once a second at most, and keys are looked up for a
//! bounded number of requests a second, since a key has to be tried at every exposition.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tamis_config::Access;

use crate::access::KeyDigest;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::registry::State;

/// Expositions that one answer lists.
const LISTED: usize = 500;
/// How old the anonymous list may be.
const FRESH: Duration = Duration::from_secs(1);
/// Lists for keys in one second.
const KEYED: u32 = 20;
/// Characters of a description.
const SHOWN: usize = 200;

/// What is kept between requests.
#[derive(Debug, Default)]
pub(crate) struct Index {
    anonymous: Mutex<Option<(Instant, Bytes)>>,
    keyed: Mutex<Option<(Instant, u32)>>,
}

/// Why there is no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// The key is not one of any exposition.
    Unauthorized,
    /// Keys are being looked up too often.
    Busy,
}

/// The list for whoever presents this key.
///
/// # Errors
/// [`Unlisted`].
pub(super) fn list(gateway: &Gateway, presented: Option<KeyDigest>) -> Result<Bytes, Unlisted> {
    let now = Instant::now();
    let Some(key) = presented else { return Ok(anonymous(gateway, now)) };
    if !admit(&gateway.index.keyed, now) {
        return Err(Unlisted::Busy);
    }
    let store = gateway.options.credentials.as_ref();
    let mut is_known = false;
    let listed = write(gateway, |exposition| {
        let is_callers = exposition.access.as_ref().is_some_and(Access::authenticates);
        let admitted = exposition.admit(store, || Some(key)).is_ok();
        is_known |= is_callers && admitted;
        admitted
    });
    if is_known { Ok(listed) } else { Err(Unlisted::Unauthorized) }
}

fn anonymous(gateway: &Gateway, now: Instant) -> Bytes {
    let mut kept = gateway.index.anonymous.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, list)) = kept.as_ref().filter(|(made, _)| now.saturating_duration_since(*made) < FRESH) {
        return list.clone();
    }
    let list = write(gateway, |exposition| !exposition.access.as_ref().is_some_and(Access::authenticates));
    *kept = Some((now, list.clone()));
    list
}

/// Whether another key may be looked up in this second.
fn admit(keyed: &Mutex<Option<(Instant, u32)>>, now: Instant) -> bool {
    let mut keyed = keyed.lock().unwrap_or_else(PoisonError::into_inner);
    let second = keyed.filter(|(begun, _)| now.saturating_duration_since(*begun) < Duration::from_secs(1));
    let (begun, count) = second.unwrap_or((now, 0));
    *keyed = Some((begun, count.saturating_add(1)));
    count < KEYED
}

fn write(gateway: &Gateway, mut may_call: impl FnMut(&Exposition) -> bool) -> Bytes {
    let slots = gateway.registry.all();
    let mut found: Vec<Arc<Exposition>> = Vec::new();
    for slot in slots.values() {
        if let State::Serving(exposition) = slot.state().as_ref()
            && may_call(exposition)
        {
            found.push(Arc::clone(exposition));
        }
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    let is_cut = found.len() > LISTED;
    let listed: Vec<Value> = found.iter().take(LISTED).map(|exposition| describe(exposition)).collect();
    let mut index = json!({"expositions": listed});
    if is_cut {
        index["more"] = json!(found.len() - LISTED);
    }
    let mut text = format!("{index:#}");
    text.push('\n');
    text.into()
}

fn describe(exposition: &Exposition) -> Value {
    let service = &exposition.service.document;
    let mut entry = json!({
        "name": exposition.id.to_string(),
        "path": format!("/mcp/{}", exposition.id),
        "service": service.name,
        "version": service.version,
        "tools": exposition.tools.len(),
    });
    if let Some(description) = &service.description {
        entry["description"] = json!(description.chars().take(SHOWN).collect::<String>());
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_looked_up_so_often_a_second_and_no_more() {
        let (keyed, start) = (Mutex::default(), Instant::now());
        let admitted = (0..1_000).filter(|_| admit(&keyed, start)).count();
        assert_eq!(admitted, KEYED as usize);
        assert!(!admit(&keyed, start + Duration::from_millis(999)));
        assert!(admit(&keyed, start + Duration::from_secs(1)));
    }
}

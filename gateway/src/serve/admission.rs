//! Admission: the checks that every kind of endpoint makes before it reads a request's body or charges a limit. A refusal is
//! counted and logged here; each kind of endpoint answers it in its own form.

use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;

use super::auth::AuthContext;
use super::origin;
use crate::access::AuthError;
use crate::gateway::Gateway;
use crate::metrics::Rejection;
use crate::refusals::Refused;
use crate::registry::{Slot, State};
use crate::target::Target;

/// An authenticated request to an exposition that is served.
pub(super) struct Admitted {
    pub(super) slot: Arc<Slot>,
    pub(super) target: Target,
    pub(super) auth: AuthContext,
}

/// Why a request to an exposition is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// No exposition has the name, or the one that has it is called through bundles only.
    Unknown,
    /// The exposition is not served at the moment. An unauthenticated sender must not learn the reason.
    Stopped,
    /// The request presents no key, or one that belongs to no caller.
    Unauthorized,
}

/// Returns whether a request comes from a web page that may call the gateway, or from no web page.
pub(super) fn allows_origin(gateway: &Gateway, request: &Parts, peer: IpAddr) -> bool {
    let allowed = origin::is_allowed(&request.headers, &gateway.options.hostnames);
    if !allowed {
        reject(gateway, Rejection::Origin, request, peer, None);
    }
    allowed
}

/// Counts and logs a request that no exposition answers.
pub(super) fn reject(gateway: &Gateway, reason: Rejection, request: &Parts, peer: IpAddr, why: Option<&str>) {
    gateway.metrics.rejected(reason);
    gateway.refusals.note(reason, None, Refused { peer: Some(peer), path: Some(request.uri.path()), why });
}

/// Finds the exposition `name` (`NAMESPACE/NAME`) and authenticates the request.
///
/// # Errors
/// [`Denied`], counted and logged.
pub(super) fn admit(gateway: &Arc<Gateway>, name: &str, request: &Parts, peer: IpAddr) -> Result<Admitted, Denied> {
    let Some(slot) = gateway.registry.find(name) else {
        reject(gateway, Rejection::Unknown, request, peer, None);
        return Err(Denied::Unknown);
    };
    let note = |reason, why| {
        let refused = Refused { peer: Some(peer), path: None, why };
        gateway.refusals.note(reason, Some(&slot.id), refused);
    };
    let state = slot.state();
    let rejected = |reason| {
        if let Some(series) = state.series() {
            series.rejected(&gateway.metrics, reason);
        }
    };
    match AuthContext::new(gateway, &slot, &state, &request.headers) {
        Ok(Some((auth, target))) => Ok(Admitted { slot: Arc::clone(&slot), target, auth }),
        Ok(None) => {
            gateway.metrics.rejected(Rejection::Stopped);
            if let State::Stopped(stopped) = state.as_ref() {
                note(Rejection::Stopped, Some(&format!("{}: {}", stopped.reason, stopped.message)));
            }
            Err(Denied::Stopped)
        }
        Err(AuthError::BundleOnly) => {
            reject(gateway, Rejection::Unknown, request, peer, None);
            Err(Denied::Unknown)
        }
        Err(AuthError::Unauthorized) => {
            rejected(Rejection::Unauthorized);
            note(Rejection::Unauthorized, None);
            Err(Denied::Unauthorized)
        }
        Err(AuthError::CallersUnknown) => {
            rejected(Rejection::Stopped);
            note(Rejection::Stopped, Some("SecretNotFound: the Secret with the callers' keys does not exist"));
            Err(Denied::Stopped)
        }
    }
}

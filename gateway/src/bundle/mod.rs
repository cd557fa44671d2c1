//! Bundles: several expositions behind one address. A bundle names its parts and holds nothing of them. Each request reads
//! the state of the parts once, in a [`View`], and sees the tools, prompts and resources of those that admit its sender.

mod content;
mod list;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use tamis_config::carrier::Unreadable;
use tamis_config::{
    Access, BundleDocument, BundleLimits, BundlePart, CallLimits, ExpositionId, Reason, Stopped, reads,
};

use crate::access::{self, AuthError, KeyDigest};
use crate::exposition::Toolset;
use crate::gateway::Gateway;
use crate::limiter::Limiter;
use crate::mcp::encode;
use crate::metrics::{ExpositionSeries, Totals};
use crate::shares::Share;
use crate::upstream::Credentials;

pub(crate) use content::{Member, split_cursor};
pub(crate) use view::{Found, Sender, View};

/// The most tools that a log line names.
const MOST_NAMED: usize = 10;

/// One bundle. Immutable: a reload creates another one.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Its name.
    pub(crate) id: Arc<ExpositionId>,
    /// SHA-256 of its document's JSON.
    pub(crate) digest: [u8; 32],
    /// Who may call.
    pub(crate) access: Option<Access>,
    /// Limits on calls, on top of those of the parts.
    pub(crate) limits: BundleLimits,
    /// Milliseconds for which clients may keep lists.
    pub(crate) list_ttl_ms: u64,
    /// The parts, in the order in which their tools are listed.
    pub(crate) parts: Vec<Part>,
    /// Its share of the gateway's memory and streams. Calls count for the part.
    pub(crate) share: Arc<Share>,
    /// Limits the rate and the number of calls.
    pub(crate) limiter: Arc<Limiter>,
    /// Its rejected requests. Calls are counted by the parts.
    pub(crate) series: Arc<ExpositionSeries>,
    /// The bytes of the calls through it.
    pub(crate) totals: Arc<BundleTotals>,
    /// The member of a modern `_meta` that names the server.
    pub(crate) server_meta: Arc<str>,
    /// `{"name":..,"version":..}`.
    pub(crate) server_info: String,
}

/// One part of a bundle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The address of the exposition, as `namespace/name`.
    pub(crate) path: Arc<str>,
    /// What the names of its tools begin with.
    pub(crate) prefix: String,
}

/// The bytes of the calls through a bundle. The parts export them as metrics.
#[derive(Debug, Default)]
pub(crate) struct BundleTotals {
    input: AtomicU64,
    output: AtomicU64,
}

impl BundleTotals {
    /// Adds the bytes of one call.
    pub(crate) fn add(&self, input: usize, output: usize) {
        self.input.fetch_add(input as u64, Ordering::Relaxed);
        self.output.fetch_add(output as u64, Ordering::Relaxed);
    }

    /// Returns the bytes so far.
    pub(crate) fn get(&self) -> Totals {
        Totals { input: self.input.load(Ordering::Relaxed), output: self.output.load(Ordering::Relaxed) }
    }
}

impl Bundle {
    /// Loads a document. Unchanged limits and all counters are taken over from `previous`.
    ///
    /// # Errors
    /// Why the document cannot be loaded.
    pub(crate) fn load(document: &BundleDocument, previous: Option<&Self>, gateway: &Gateway) -> Result<Self, Stopped> {
        let stop = |reason, message: String| Err(Stopped { reason, message });
        if !reads(document.format_version) {
            return stop(Reason::GatewayTooOld, Unreadable::TooNew(document.format_version).to_string());
        }
        if gateway.options.require_access && document.access.is_none() {
            let message = "access: say who may call, `anonymous: true` for everyone";
            return stop(Reason::AccessRequired, message.to_owned());
        }
        // The compile step refuses these, but the document may come from another version.
        if document.parts.len() > BundleDocument::MAX_PARTS {
            let message = format!("expositions: more than the limit of {} entries", BundleDocument::MAX_PARTS);
            return stop(Reason::InvalidManifest, message);
        }
        if let Some(part) = document.parts.iter().find(|part| !BundlePart::is_prefix(&part.prefix)) {
            let message = format!("expositions: the prefix of {} cannot begin the name of a tool", part.name);
            return stop(Reason::InvalidManifest, message);
        }
        let id = previous.map_or_else(|| Arc::new(document.id.clone()), |previous| Arc::clone(&previous.id));
        let limiter = match previous {
            Some(previous) if previous.limits == document.limits => Arc::clone(&previous.limiter),
            _ => Arc::new(Limiter::new(&rates(&document.limits))),
        };
        let (series, totals) = match previous {
            Some(previous) => (Arc::clone(&previous.series), Arc::clone(&previous.totals)),
            None => {
                let none = Arc::new(Toolset::default());
                (Arc::new(ExpositionSeries::new(&id, gateway.options.tool_series, &none)), Arc::default())
            }
        };
        let part =
            |part: &BundlePart| Part { path: document.id_of(part).to_string().into(), prefix: part.prefix.clone() };
        let server_info = encode::server_info(&document.id.name, env!("CARGO_PKG_VERSION"));
        Ok(Self {
            digest: digest(document),
            access: document.access.clone(),
            limits: document.limits.clone(),
            list_ttl_ms: document.list_ttl_ms,
            parts: document.parts.iter().map(part).collect(),
            share: gateway.shares.of(&id),
            id,
            limiter,
            series,
            totals,
            server_meta: encode::server_meta(&server_info),
            server_info,
        })
    }

    /// Returns whether it was loaded from this document.
    pub(crate) fn is_of(&self, document: &BundleDocument) -> bool {
        self.digest == digest(document)
    }

    /// Returns whether both list the same, as far as the bundle decides that.
    pub(crate) fn lists_as(&self, other: &Self) -> bool {
        self.parts == other.parts && self.access == other.access
    }

    /// Authenticates a request by the key that it presents. Returns the caller's name, if callers have names.
    ///
    /// # Errors
    /// [`AuthError`] if the request is not authenticated.
    pub(crate) fn admit(
        &self,
        store: &dyn Credentials,
        presented: impl FnOnce() -> Option<KeyDigest>,
    ) -> Result<Option<Arc<str>>, AuthError> {
        access::admit(self.access.as_ref(), &self.id.namespace, store, presented)
    }
}

/// Logs which tools of a part its bundles do not publish because their names are those of other parts. Of pinned tools,
/// documents say so.
pub(crate) fn note_taken(gateway: &Gateway, path: &str) {
    for slot in gateway.registry.bundles_of(path) {
        let state = slot.state();
        let Some(bundle) = state.bundle() else { continue };
        let view = View::new(gateway, bundle, Sender::Parent);
        for (number, part) in bundle.parts.iter().enumerate().filter(|(_, part)| *part.path == *path) {
            let taken = view.taken(number);
            if !taken.is_empty() {
                let (count, first) = (taken.len(), &taken[..taken.len().min(MOST_NAMED)]);
                tracing::warn!(
                    bundle = %bundle.id, part = %part.path, count, tools = ?first,
                    "the server of a part lists tools whose names other parts have; give the part a prefix of its own"
                );
            }
        }
    }
}

fn digest(document: &BundleDocument) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(document).expect("documents serialise")).into()
}

/// Returns the limits as a limiter takes them.
fn rates(limits: &BundleLimits) -> CallLimits {
    CallLimits {
        requests_per_second: limits.requests_per_second,
        burst: limits.burst,
        concurrent: limits.concurrent,
        ..CallLimits::default()
    }
}

//! What a request addresses: an exposition, or a bundle as the sender of the request sees it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tamis_config::ExpositionId;
use tamis_engine::Enforcement;

use crate::bundle::{Found, View};
use crate::exposition::{Content, Exposition, Page};
use crate::metrics::ExpositionSeries;
use crate::shares::Share;

/// What a request addresses.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// An exposition that publishes a service.
    Exposition(Arc<Exposition>),
    /// A bundle.
    Bundle(Arc<View>),
}

impl Target {
    /// Returns the name of the address.
    pub(crate) fn id(&self) -> &Arc<ExpositionId> {
        match self {
            Self::Exposition(exposition) => &exposition.id,
            Self::Bundle(view) => &view.bundle.id,
        }
    }

    /// Returns the counters of requests that do not become a call.
    pub(crate) fn series(&self) -> &ExpositionSeries {
        match self {
            Self::Exposition(exposition) => &exposition.series,
            Self::Bundle(view) => &view.bundle.series,
        }
    }

    /// Returns the share of the gateway's memory and streams.
    pub(crate) fn share(&self) -> &Arc<Share> {
        match self {
            Self::Exposition(exposition) => &exposition.share,
            Self::Bundle(view) => &view.bundle.share,
        }
    }

    /// Returns how long it may take to read a request.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(match self {
            Self::Exposition(exposition) => exposition.limits.timeout_ms,
            Self::Bundle(view) => {
                view.bundle.limits.timeout_ms.unwrap_or(tamis_config::CallLimits::default().timeout_ms)
            }
        })
    }

    /// Returns the member of a modern `_meta` that names the server.
    pub(crate) fn server_meta(&self) -> &Arc<str> {
        match self {
            Self::Exposition(exposition) => &exposition.service.server_meta,
            Self::Bundle(view) => &view.bundle.server_meta,
        }
    }

    /// Returns the name and the version of the server, as a JSON object.
    pub(crate) fn server_info(&self) -> &str {
        match self {
            Self::Exposition(exposition) => &exposition.service.server_info,
            Self::Bundle(view) => &view.bundle.server_info,
        }
    }

    /// Returns the description of the tools as a whole, for models.
    pub(crate) fn instructions(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Exposition(exposition) => exposition.service.document.description.as_deref().map(Cow::Borrowed),
            Self::Bundle(view) => view.instructions().map(Cow::Owned),
        }
    }

    /// Returns whether answers may differ between callers.
    pub(crate) fn is_private(&self) -> bool {
        match self {
            Self::Exposition(exposition) => exposition.is_private(),
            Self::Bundle(view) => view.is_private(),
        }
    }

    /// Returns for how many milliseconds clients may keep lists.
    pub(crate) fn list_ttl_ms(&self) -> u64 {
        match self {
            Self::Exposition(exposition) => exposition.list_ttl_ms,
            Self::Bundle(view) => view.bundle.list_ttl_ms,
        }
    }

    /// Returns whether any of the prompts and resources that the sender of the request may use are so.
    pub(crate) fn has_content(&self, is: impl Fn(&Content) -> bool) -> bool {
        match self {
            Self::Exposition(exposition) => exposition.content().is_some_and(is),
            Self::Bundle(view) => view.admitted().any(|(_, part)| part.content().is_some_and(&is)),
        }
    }

    /// Returns the exposition, if its server may announce something to single callers: an MCP server at an address, under
    /// `Advisory`. None through a bundle.
    pub(crate) fn announcing(&self) -> Option<&Arc<Exposition>> {
        let Self::Exposition(exposition) = self else { return None };
        Some(exposition).filter(|exposition| sends(exposition) && exposition.service.upstream.is_watched())
    }

    /// Returns whether calls may pass on log messages: those of an MCP server, under `Advisory`.
    pub(crate) fn sends_logs(&self) -> bool {
        match self {
            Self::Exposition(exposition) => sends(exposition),
            Self::Bundle(view) => view.admitted().any(|(_, part)| sends(part)),
        }
    }

    /// Returns whether a header may have to repeat an argument of a tool.
    pub(crate) fn has_param_headers(&self) -> bool {
        match self {
            Self::Exposition(exposition) => exposition.service.has_param_headers(),
            Self::Bundle(view) => view.has_param_headers(),
        }
    }

    /// Returns the page of `tools/list` at `cursor`, or the first page without one. Returns none for a cursor that names no
    /// tool.
    pub(crate) fn list(&self, cursor: Option<&str>) -> Option<Page<'_>> {
        match self {
            Self::Exposition(exposition) => exposition.list(cursor),
            Self::Bundle(view) => view.list(cursor),
        }
    }

    /// Returns the tool that a name stands for to the sender of the request.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        match self {
            Self::Exposition(exposition) => {
                let tool = exposition.tools().get_index_of(name)?;
                Some(Found { exposition: Arc::clone(exposition), bundle: None, tool, caller: None })
            }
            Self::Bundle(view) => view.find(name),
        }
    }
}

/// Returns whether what a server sends next to its answers passes.
fn sends(exposition: &Exposition) -> bool {
    exposition.enforcement == Enforcement::Advisory && exposition.service.upstream.is_mcp()
}

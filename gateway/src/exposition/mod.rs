//! A loaded exposition: the programs of its tools, its list and its limits. Immutable: a reload creates another one,
//! and a call in flight keeps the one that it started with.

mod list;
mod schema;

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tamis_config::carrier::Unreadable;
use tamis_config::{Access, Audit, CallLimits, ExpositionDocument, ExpositionId, ServiceTool, reads};
use tamis_engine::{CompileOptions, Enforcement, Limits, Program, ToolFilter};

use crate::access::{AuthError, KeyDigest};
use crate::expressions::Expressions;
use crate::gateway::Gateway;
use crate::limiter::Limiter;
use crate::mcp::arguments::Reserved;
use crate::metrics::{ExpositionSeries, ToolSeries};
use crate::options::GatewayLimits;
use crate::paging;
use crate::registry::Programs;
use crate::service::Service;
use crate::shares::Share;
use crate::upstream::{CredentialScope, Credentials, Handles};

pub(crate) use list::ToolList;

/// One exposition.
#[derive(Debug)]
pub(crate) struct Exposition {
    /// Its name.
    pub(crate) id: Arc<ExpositionId>,
    /// SHA-256 of its document's JSON. The document itself is not kept: its filters would be most of the memory.
    pub(crate) digest: [u8; 32],
    /// The enforcement of every tool.
    pub(crate) enforcement: Enforcement,
    /// Who may call.
    pub(crate) access: Option<Access>,
    /// The handles of its service's credentials.
    handles: Handles,
    /// Limits on calls.
    pub(crate) limits: CallLimits,
    /// The content of an audit record.
    pub(crate) audit: Audit,
    /// The service that it publishes.
    pub(crate) service: Arc<Service>,
    /// The published tools, in the order in which they are listed.
    pub(crate) tools: IndexMap<String, Tool>,
    /// The regular expressions of its filters.
    pub(crate) expressions: Expressions,
    /// Its share of the gateway's memory, calls and streams.
    pub(crate) share: Arc<Share>,
    /// Limits the rate and the number of calls.
    pub(crate) limiter: Arc<Limiter>,
    /// Its counters.
    pub(crate) series: Arc<ExpositionSeries>,
    /// Equal for two versions with the same list.
    pub(crate) list_digest: [u8; 32],
    /// Built when it is first requested, since it would be most of an exposition's memory.
    list: OnceLock<ToolList>,
}

/// One published tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The filter. If none is declared, it changes nothing.
    pub(crate) program: Arc<Program>,
    /// Whether a filter applies. Its report then goes into `_meta`.
    pub(crate) filtered: bool,
    /// Inputs that the gateway handles itself.
    pub(crate) reserved: Reserved,
    /// Its counters.
    pub(crate) series: Arc<ToolSeries>,
}

impl Exposition {
    /// Compiles a document. The gateway's ceilings apply, whatever the document says. Unchanged counters and limits are
    /// taken over from `previous`.
    ///
    /// # Errors
    /// Names the tool and the field.
    pub(crate) fn load(
        document: &Arc<ExpositionDocument>,
        service: &Arc<Service>,
        previous: Option<&Self>,
        gateway: &Gateway,
        programs: &mut Programs,
    ) -> Result<Self, String> {
        if !reads(document.format_version) {
            return Err(Unreadable::TooNew(document.format_version).to_string());
        }
        let limits = ceilings(&document.limits, &gateway.options.limits);
        let id = previous.map_or_else(|| Arc::new(document.id.clone()), |previous| Arc::clone(&previous.id));
        let mut tools = IndexMap::with_capacity(document.tools.len());
        let mut expressions = Expressions::default();
        // To Prometheus, an empty label is an absent one.
        let shared = (!gateway.options.tool_series).then(|| {
            let kept = previous.and_then(|p| p.tools.values().next()).map(|tool| Arc::clone(&tool.series));
            kept.unwrap_or_else(|| Arc::new(ToolSeries::new(&id, "")))
        });
        for name in document.tools.keys() {
            let kept = || previous.and_then(|p| p.tools.get(name)).map(|tool| Arc::clone(&tool.series));
            let series = shared.clone().or_else(kept).unwrap_or_else(|| Arc::new(ToolSeries::new(&id, name)));
            let tool = Tool::load(document, &limits, service, name, series, programs)?;
            expressions.add(&tool.program);
            let most = gateway.options.limits.namespace_expressions;
            if expressions.bytes() > most {
                return Err(format!("tool {name}: {}", too_large("exposition", most)));
            }
            tools.insert(name.clone(), tool);
        }
        let limiter = match previous {
            Some(previous) if previous.limits == limits => Arc::clone(&previous.limiter),
            _ => Arc::new(Limiter::new(&limits)),
        };
        let series = match previous {
            Some(previous) => Arc::clone(&previous.series),
            None => Arc::new(ExpositionSeries::new(&id)),
        };
        let list_digest = list::digest(service, &tools);
        let handles = Handles::new(&document.credentials)?;
        Ok(Self {
            id,
            digest: digest(document),
            enforcement: document.enforcement,
            access: document.access.clone(),
            handles,
            limits,
            audit: document.audit,
            service: Arc::clone(service),
            tools,
            expressions,
            share: gateway.shares.of(&document.id),
            limiter,
            series,
            list_digest,
            list: OnceLock::new(),
        })
    }

    /// Returns whether it was loaded from this document.
    pub(crate) fn is_of(&self, document: &ExpositionDocument) -> bool {
        self.digest == digest(document)
    }

    /// Returns the credentials of its service.
    pub(crate) fn credentials<'a>(&'a self, store: &'a dyn Credentials) -> CredentialScope<'a> {
        CredentialScope { store, namespace: &self.id.namespace, handles: &self.handles }
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
        match &self.access {
            None | Some(Access::Anonymous) => Ok(None),
            Some(Access::ApiKeys { secret, handle }) => {
                let callers =
                    store.callers(&self.id.namespace, secret, handle.as_ref()).ok_or(AuthError::CallersUnknown)?;
                let name = presented().and_then(|key| callers.find(&key).cloned());
                name.map(Some).ok_or(AuthError::Unauthorized)
            }
        }
    }

    /// Returns the list for `tools/list`.
    pub(crate) fn list(&self) -> &ToolList {
        self.list.get_or_init(|| ToolList::build(self))
    }
}

/// Returns the error for regular expressions of `whose` filters that take more than `most` bytes, with the remedy.
pub(crate) fn too_large(whose: &str, most: usize) -> String {
    format!(
        "the regular expressions of the {whose}'s filters take more than {} KiB once compiled: use smaller counted \
         repetitions, and ASCII classes, such as [0-9] instead of \\d",
        most >> 10
    )
}

/// Returns the limits of a document, reduced to the gateway's ceilings. The compile step refuses limits above them, but
/// the document may come from another version.
fn ceilings(limits: &CallLimits, gateway: &GatewayLimits) -> CallLimits {
    let longest = u64::try_from(gateway.max_timeout.as_millis()).unwrap_or(u64::MAX);
    CallLimits {
        timeout_ms: limits.timeout_ms.min(longest),
        max_response_bytes: limits.max_response_bytes.min(gateway.max_response_bytes),
        ..limits.clone()
    }
}

fn digest(document: &ExpositionDocument) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(document).expect("documents serialise")).into()
}

/// Returns bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
    }
    text
}

impl Tool {
    fn load(
        document: &ExpositionDocument,
        call_limits: &CallLimits,
        service: &Service,
        name: &str,
        series: Arc<ToolSeries>,
        programs: &mut Programs,
    ) -> Result<Self, String> {
        let published = &document.tools[name];
        let declared = service.document.tools.get(name).ok_or_else(|| format!("tool {name} is not in the service"))?;
        let enforced = document.enforcement == Enforcement::Enforced;
        if enforced && published.filter.is_none() {
            return Err(format!(
                "tool {name} has no filter; an Enforced exposition needs one for each tool, such as passthrough"
            ));
        }
        let options = CompileOptions {
            enforcement: document.enforcement,
            response_type: declared.response_type,
            limits: Limits {
                max_input_bytes: usize::try_from(call_limits.max_response_bytes).unwrap_or(usize::MAX),
                ..Limits::default()
            },
            strict_patch: false,
        };
        let none = ToolFilter::default();
        let filter = published.filter.as_deref().unwrap_or(&none);
        let program = programs.get(filter, &options).map_err(|error| format!("tool {name}: {error}"))?;
        let filtered = !published.is_unfiltered();
        let arguments = &service.contracts[name].arguments;
        Ok(Self {
            program,
            filtered,
            reserved: Reserved::new(filtered, !enforced, |name| arguments.iter().any(|a| a == name)),
            series,
        })
    }

    /// Returns the schema of the structured content of every answer, if there is one.
    fn output_schema(&self, declared: &ServiceTool) -> Option<Value> {
        let pages = declared.pagination.as_ref().map(|pagination| paging::schema(pagination.kind));
        if self.filtered { self.program.output_schema(pages.as_ref()) } else { None }
    }
}

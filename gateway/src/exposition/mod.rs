//! A loaded exposition: the programs of its tools, its list and its limits. Immutable: a reload creates another one,
//! and a call in flight keeps the one that it started with.

mod content;
mod cost;
mod list;
mod schema;
mod toolset;
mod uri;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use indexmap::IndexMap;
use sha2::{Digest as _, Sha256};
use tamis_config::acks::{FollowedTools, NAMED_TOOLS, UpstreamReport};
use tamis_config::carrier::Unreadable;
use tamis_config::{
    Access, Audit, CallLimits, ExpositionDocument, ExpositionId, OutputLimits, TokenSettings, matches_pattern, reads,
};
use tamis_engine::{Budget, Call, Enforcement, Factor, Report, TokenCounter, Tokenizer, Tokens};
use tamis_tokens::{TokenizerName, Vocabulary};

use crate::access::{self, AuthError, KeyDigest};
use crate::gateway::Gateway;
use crate::limiter::Limiter;
use crate::metrics::{CallSizes, ExpositionSeries, ToolSeries};
use crate::options::GatewayLimits;
use crate::registry::Shared;
use crate::service::Service;
use crate::shares::Share;
use crate::upstream::{CredentialScope, Credentials, Handles, Listed, Withheld};
use crate::watch::{self, Lease, Watch};

pub(crate) use content::{Content, ContentList, DocumentMethod, Found, ServerMethod};
pub use cost::ListedTools;
pub(crate) use list::{PAGE, Page, ToolList};
pub(crate) use toolset::{Tool, Toolset};

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
    /// Milliseconds for which clients may keep lists.
    pub(crate) list_ttl_ms: u64,
    /// The content of an audit record.
    pub(crate) audit: Audit,
    /// Counts tokens. Loaded only if an answer may need it: a gateway that counts none holds no vocabulary.
    tokenizer: Arc<dyn Tokenizer>,
    /// Counts tokens for a bundle that limits them, where `tokenizer` does not. Filled by [`Self::load_vocabulary`].
    exact: OnceLock<Arc<dyn Tokenizer>>,
    /// What counts are multiplied by.
    factor: Factor,
    /// What its tokens are counted with, also where it counts none; none for `estimate`.
    vocabulary: Option<Vocabulary>,
    /// The service that it publishes.
    pub(crate) service: Arc<Service>,
    /// The published tools, shared with the expositions that publish the same.
    pub(crate) set: Arc<Toolset>,
    /// Its share of the gateway's memory, calls and streams.
    pub(crate) share: Arc<Share>,
    /// Limits the rate and the number of calls.
    pub(crate) limiter: Arc<Limiter>,
    /// Its counters.
    pub(crate) series: Arc<ExpositionSeries>,
    /// The counters of each tool, in the order of the tools. Found in `series` by the first calls, since most expositions and
    /// tools are idle.
    tool_series: OnceLock<Box<[OnceLock<Arc<ToolSeries>>]>>,
    /// Its document, if it publishes what a server lists.
    pub(crate) followed: Option<Arc<ExpositionDocument>>,
    /// Keeps the watch of its MCP server going; none for any other service.
    pub(crate) watch: Option<Arc<Lease>>,
    /// The published tools that are withheld; none if there are none.
    withheld: ArcSwapOption<BTreeMap<String, Withheld>>,
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
        shared: &mut Shared,
    ) -> Result<Self, String> {
        if !reads(document.format_version) {
            return Err(Unreadable::TooNew(document.format_version).to_string());
        }
        let handles = Handles::new(&document.credentials)?;
        let watch = gateway.watches.of(service, &document.id, &handles);
        let whole = document;
        let followed = document.follow.as_ref().map(|_| Arc::clone(document));
        let (document, service) = match (&document.follow, &watch) {
            (None, _) if service.upstream.follows() => return Err(UNFOLLOWED.to_owned()),
            (None, _) => (Arc::clone(document), Arc::clone(service)),
            (Some(_), _) if document.enforcement == Enforcement::Enforced => return Err(NOT_PINNED.to_owned()),
            (Some(follow), Some(watch)) if service.upstream.follows() => {
                let service = watch.derived().map_or_else(|| Arc::clone(service), |derived| derived.service);
                (Arc::new(watch::effective(document, follow, &service.document)), service)
            }
            (Some(_), _) => return Err(UNFOLLOWED.to_owned()),
        };
        let (document, service) = (&document, &service);
        let limits = ceilings(&document.limits, &gateway.options.limits);
        let id = previous.map_or_else(|| Arc::new(document.id.clone()), |previous| Arc::clone(&previous.id));
        let most_expressions = gateway.options.limits.namespace_expressions;
        let Shared { toolsets, programs, .. } = shared;
        let set = toolsets.get(Toolset::digest(document, &limits, service), || {
            Toolset::load(document, &limits, service, most_expressions, programs)
        })?;
        let limiter = match previous {
            Some(previous) if previous.limits == limits => Arc::clone(&previous.limiter),
            _ => Arc::new(Limiter::new(&limits)),
        };
        let series = match previous {
            Some(previous) => Arc::clone(&previous.series),
            None => Arc::new(ExpositionSeries::new(&id, gateway.options.tool_series, &set)),
        };
        let TokenSettings { tokenizer, factor: _ } = document.tokens;
        let counts = set.counts_tokens() || limits.output.tokens.is_some();
        let vocabulary = tokenizer.vocabulary();
        let tokenizer = tamis_tokens::tokenizer(if counts { tokenizer } else { TokenizerName::Estimate });
        let factor = document.tokens.factor().ok_or("tokens.factor: is not between 0.01 and 100")?;
        let share = gateway.shares.of(&id);
        let exposition = Self {
            id,
            digest: digest(whole),
            enforcement: document.enforcement,
            access: document.access.clone(),
            followed,
            watch,
            handles,
            limits,
            list_ttl_ms: document.list_ttl_ms,
            audit: document.audit,
            tokenizer,
            exact: OnceLock::new(),
            factor,
            vocabulary,
            service: Arc::clone(service),
            set,
            share,
            limiter,
            series,
            tool_series: OnceLock::new(),
            withheld: ArcSwapOption::empty(),
        };
        exposition.update_withheld(gateway.options.credentials.as_ref());
        Ok(exposition)
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
        access::admit(self.access.as_ref(), &self.id.namespace, store, presented)
    }

    /// Authenticates a request that came through a bundle, as [`Self::admit`] does. The bundle has admitted its sender, which is
    /// all that an exposition without an address of its own asks for.
    ///
    /// # Errors
    /// [`AuthError`] if the request is not authenticated.
    pub(crate) fn admit_in_bundle(
        &self,
        store: &dyn Credentials,
        presented: impl FnOnce() -> Option<KeyDigest>,
    ) -> Result<Option<Arc<str>>, AuthError> {
        match self.admit(store, presented) {
            Err(AuthError::BundleOnly) => Ok(None),
            admitted => admitted,
        }
    }

    /// Returns whether the exposition has no address of its own.
    pub(crate) fn is_bundle_only(&self) -> bool {
        self.access == Some(Access::BundleOnly)
    }

    /// Returns the published tools, in the order in which they are listed.
    pub(crate) fn tools(&self) -> &IndexMap<String, Tool> {
        &self.set.tools
    }

    /// Returns the prompts and resources, if there are any.
    pub(crate) fn content(&self) -> Option<&Content> {
        self.set.content()
    }

    /// Returns whether answers may differ between callers.
    pub(crate) fn is_private(&self) -> bool {
        self.access.as_ref().is_some_and(Access::authenticates)
    }

    /// Returns the name of a tool or of another call, by its number: tools come first.
    pub(crate) fn call_name(&self, number: usize) -> Option<&str> {
        match self.tools().get_index(number) {
            Some((name, _)) => Some(name),
            None => self.content()?.call_names().nth(number - self.tools().len()),
        }
    }

    /// Returns the names of the tools and of the resource templates: everything that sends requests with the service's
    /// credential.
    pub(crate) fn callables(&self) -> impl Iterator<Item = &String> {
        self.tools().keys().chain(self.content().into_iter().flat_map(Content::template_names))
    }

    /// Returns a tool, by its position among the tools.
    ///
    /// # Panics
    /// There is no tool at that position.
    pub(crate) fn tool(&self, tool: usize) -> &Tool {
        &self.tools()[tool]
    }

    /// Returns the counters of a tool or of another call, by its number.
    ///
    /// # Panics
    /// There is no call of that number.
    pub(crate) fn tool_series(&self, tool: usize) -> &Arc<ToolSeries> {
        let others = || self.content().map_or(0, |content| content.call_names().count());
        let all =
            self.tool_series.get_or_init(|| (0..self.tools().len() + others()).map(|_| OnceLock::new()).collect());
        all[tool].get_or_init(|| self.series.tool(self.call_name(tool).unwrap_or_default()))
    }

    /// Loads what counts tokens, for a bundle that limits them.
    pub(crate) fn load_vocabulary(&self) -> &Arc<dyn Tokenizer> {
        let name = self.vocabulary.map_or(TokenizerName::Estimate, Vocabulary::name);
        self.exact.get_or_init(|| tamis_tokens::tokenizer(name))
    }

    /// Returns what counts the tokens of an answer within `limit`.
    fn counter(&self, limit: OutputLimits) -> TokenCounter<'_> {
        // A limit of its own has loaded the tokenizer already.
        let tokenizer = if limit.tokens.is_some() { self.load_vocabulary() } else { &self.tokenizer };
        TokenCounter { tokenizer: &**tokenizer, factor: self.factor }
    }

    /// Returns the options of a call to a tool: what the caller asks for, and what the exposition adds. `limit`: the largest
    /// answer.
    pub(crate) fn call<'a>(
        &'a self,
        tool: &'a Tool,
        asked: Call<'static>,
        pagination: Option<&'a str>,
        limit: OutputLimits,
    ) -> Call<'a> {
        Call {
            budget: asked.budget.tightest(limit.budget()),
            counter: self.counter(limit),
            pagination,
            inputs: tool.reserved.pages(),
            ..asked
        }
    }

    /// Returns whether a text is within the limit on answers. Text of the upstream in an error is held to it too.
    pub(crate) fn allows(&self, text: &str, limit: OutputLimits) -> bool {
        let Budget { bytes, tokens } = limit.budget();
        let counter = self.counter(limit);
        bytes.is_none_or(|most| text.len() <= most.0)
            && tokens.is_none_or(|most| counter.count(text, most, &mut |_| true).is_some_and(|counted| counted <= most))
    }

    /// Returns whether an answer is within the limit on answers, and within what its caller asked for, if `more` is added.
    pub(crate) fn allows_with(&self, answer: &str, more: &str, limit: OutputLimits, asked: Budget) -> bool {
        let Budget { bytes, tokens } = limit.budget().tightest(asked);
        let counter = self.counter(limit);
        let within = |most| {
            let mut left = most;
            for text in [answer, more] {
                match counter.count(text, left, &mut |_| true) {
                    Some(Tokens(counted)) if counted <= left.0 => left = Tokens(left.0 - counted),
                    _ => return false,
                }
            }
            true
        };
        bytes.is_none_or(|most| answer.len() + more.len() <= most.0) && tokens.is_none_or(within)
    }

    /// Returns the sizes by which a call's saved tokens are estimated. No vocabulary is loaded for it: one that is not
    /// there is not used.
    pub(crate) fn sizes(&self, report: &Report) -> CallSizes {
        CallSizes {
            input: report.original_bytes,
            output: report.output_bytes,
            counted: report.tokens.map(|tokens| tokens.counted.0),
            vocabulary: self.vocabulary.filter(|vocabulary| vocabulary.is_loaded()),
            factor: self.factor,
        }
    }

    /// Returns the page of `tools/list` at `cursor`, or the first page without one. Returns none for a cursor that names no
    /// tool.
    pub(crate) fn list(&self, cursor: Option<&str>) -> Option<Page<'_>> {
        let list = self.set.list(&self.service);
        match self.withheld() {
            None => list.page(cursor),
            Some(withheld) => list.page_without(cursor, |name| withheld.contains_key(name)),
        }
    }

    /// Returns the entries of `tools/list`, those of withheld tools too.
    pub(crate) fn entries(&self) -> &ToolList {
        self.set.list(&self.service)
    }

    /// Returns the published tools that are withheld, and why; none if there are none.
    pub(crate) fn withheld(&self) -> Option<Arc<BTreeMap<String, Withheld>>> {
        self.withheld.load_full()
    }

    /// Returns what is known of the MCP server that the exposition publishes; none for any other service.
    pub(crate) fn upstream_report(&self) -> Option<UpstreamReport> {
        let watch = self.watch.as_ref()?;
        let report = watch::report(watch.reach(), self.withheld().as_deref());
        Some(UpstreamReport { followed: self.followed_tools(), ..report })
    }

    /// Returns whether it publishes this service, or what the followed server of this service lists.
    pub(crate) fn is_of_server(&self, service: &Arc<Service>) -> bool {
        Arc::ptr_eq(&self.service, service) || self.watch.as_ref().is_some_and(|own| Arc::ptr_eq(&own.service, service))
    }

    /// Returns whether this watch is that of its server.
    pub(crate) fn is_watched_by(&self, watch: &Arc<Watch>) -> bool {
        self.watch.as_ref().is_some_and(|own| own.is(watch))
    }

    /// Returns the list that it follows; none for pinned tools, and before the server was reached.
    pub(crate) fn listed(&self) -> Option<Arc<Listed>> {
        self.followed.as_ref()?;
        Some(self.watch.as_ref()?.derived()?.listed)
    }

    /// Returns what it publishes of what its server lists; none for pinned tools.
    fn followed_tools(&self) -> Option<FollowedTools> {
        let document = self.followed.as_ref()?;
        let follow = document.follow.as_ref()?;
        let names = document.tools.keys().chain(follow.include.iter().flatten()).chain(&follow.exclude);
        let (listed, unmatched) = match self.listed() {
            Some(listed) => {
                let is_unmatched = |name: &&String| !listed.tools.keys().any(|tool| matches_pattern(name, tool));
                let unmatched: BTreeSet<&String> = names.filter(is_unmatched).collect();
                (listed, unmatched)
            }
            // Before the server was reached, no name has been compared.
            None => Default::default(),
        };
        Some(FollowedTools {
            tools: self.tools().len(),
            unfiltered: self.tools().values().filter(|tool| !tool.filtered).count(),
            left_out: listed.invalid + listed.ended.map_or(0, |(_, excess)| excess),
            unmatched: unmatched.into_iter().take(NAMED_TOOLS).cloned().collect(),
        })
    }

    /// Takes over from the upstream which tools are withheld. Returns whether those of the list have changed.
    pub(crate) fn update_withheld(&self, store: &dyn Credentials) -> bool {
        let all = self.service.upstream.withheld(self.credentials(store));
        let published = all.into_iter().filter(|(name, _)| self.set.contains(name));
        let now: BTreeMap<String, Withheld> = published.map(|(name, why)| (name.to_owned(), why)).collect();
        let now = (!now.is_empty()).then(|| Arc::new(now));
        let before = self.withheld.swap(now.clone());
        let names = |withheld: Option<&Arc<BTreeMap<String, Withheld>>>| {
            withheld.map(|withheld| withheld.keys().cloned().collect::<Vec<_>>())
        };
        names(before.as_ref()) != names(now.as_ref())
    }
}

/// Why a followed server is not published: the last check, after those of the compile step.
const NOT_PINNED: &str = "the tools of a followed MCP server are not published under Enforced; pin them";
const UNFOLLOWED: &str = "the exposition and its service differ in whether the MCP server is followed";

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

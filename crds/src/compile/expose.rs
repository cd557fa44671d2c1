//! Compiles expositions: their service, filter sets, enforcement and access, or the reason why they are stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamis_config::{
    Audit, CallLimits, Digest, ExpositionDocument, ExpositionId, FORMAT_VERSION, OutputLimits, Reason, ServiceDocument,
    Snapshot, Source, Stopped, TokenSettings,
};
use tamis_engine::{Enforcement, ReservedInput, ResponseType, ToolKind};

use super::filters::{Conditions, FilterVerdict, Sets};
use super::groups::{Groups, Placement};
use super::plan::Plans;
use super::service::{Service, Services};
use super::unusable::Unusables;
use super::{
    Compilation, CompileEnv, Degraded, access, bundle, command, content, credentials, duplicate_names, egress, grpc,
    mcp, size, stale,
};
use crate::origin::FieldPath;
use crate::plain::plain;
use crate::resources::{
    AuditMode, ExpositionSpec, GatewayGroupSpec, LimitsSpec, ListsSpec, OutputLimitsSpec, Published, ServiceRef,
    TokensSpec, ToolsFiltersSpec,
};
use crate::{Diagnostic, ObjectName, Resource, Unusable, tighten};

/// The reason why an exposition is stopped.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) reason: Reason,
    path: FieldPath,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl Stop {
    pub(super) fn new(reason: Reason, path: FieldPath, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason, path, message: plain(&message.into()), remedy: plain(&remedy.into()) }
    }
}

impl Stop {
    /// Converts the reason for callers and conditions.
    pub(super) fn stopped(self) -> Stopped {
        let message = format!("{}; {}", self.message, self.remedy);
        Stopped { reason: self.reason, message }
    }
}

/// The context in which expositions are compiled.
pub(super) struct Context<'a, 'r> {
    pub(super) env: &'a CompileEnv<'a>,
    pub(super) groups: &'a Groups<'r>,
    pub(super) services: &'a Services<'r>,
    pub(super) unusable: &'a Unusables<'r>,
    /// Whether files are broken: they are only searched for more errors, and missing references may be in them.
    pub(super) incomplete: bool,
}

/// Compiles every exposition into the compilation's snapshot.
pub(super) fn all<'r>(
    expositions: &'r [Arc<Resource<ExpositionSpec>>],
    context: &Context<'_, 'r>,
    sets: &mut Sets<'r>,
    plans: &mut Plans<'r>,
    compilation: &mut Compilation,
) {
    duplicate_names("Exposition", expositions, &mut compilation.diagnostics);
    for resource in expositions {
        let Published::Service(wanted) = resource.spec.published() else { continue };
        let id = id_of(&resource.name);
        if is_taken(compilation, &id) {
            continue;
        }
        let previous = Previous::of(context.env, &id)
            // The filters of another service were written for other outputs.
            .filter(|p| p.service.name == wanted.name && p.service.version == wanted.version);
        let served = previous.map(|previous| previous.document);
        let Some(Placed { group, floor }) = place(resource, context, served, compilation) else { continue };
        let mut exposer = Exposer {
            resource,
            wanted,
            context,
            previous,
            sets: &mut *sets,
            plans: &mut *plans,
            diagnostics: &mut compilation.diagnostics,
            degraded: Vec::new(),
            open: Vec::new(),
        };
        // While the group cannot be read, what runs keeps running.
        let is_served = floor.is_some_and(|_| {
            previous.is_some_and(|previous| matches!(previous.service.source, Source::Program(_) | Source::Command(_)))
        });
        match exposer.expose(&id, group, is_served) {
            Ok((document, service)) => {
                let degraded = exposer.degraded;
                if !degraded.is_empty() {
                    compilation.degraded.insert(id.clone(), degraded);
                }
                compilation.snapshot.services.insert(document.service.clone(), service);
                let document = Arc::new(document);
                let document = floor.map_or(Arc::clone(&document), |floor| tighten(floor, &document, &|_| false));
                compilation.snapshot.expositions.insert(id, document);
            }
            Err(stop) => stopped(compilation, context, resource, id, stop),
        }
    }
    bundle::all(expositions, context, compilation);
    stale::all(context, sets, compilation);
}

/// A gateway group.
pub(super) type Group<'r> = Option<&'r Arc<Resource<GatewayGroupSpec>>>;

/// Where an exposition is served.
pub(super) struct Placed<'r, 'p, D> {
    /// Its group, if it has one.
    pub(super) group: Group<'r>,
    /// The served version, if the group cannot be read: nothing below it may be served.
    pub(super) floor: Option<&'p Arc<D>>,
}

/// Decides where an exposition is served, and notes it in the compilation. Returns `None` if that already says all there is to
/// say about the exposition. `served`: the version that is served now.
pub(super) fn place<'r, 'p, D>(
    resource: &'r Resource<ExpositionSpec>,
    context: &Context<'_, 'r>,
    served: Option<&'p Arc<D>>,
    compilation: &mut Compilation,
) -> Option<Placed<'r, 'p, D>> {
    let id = id_of(&resource.name);
    let (group, floor) = match context.groups.of(resource, context.env) {
        Ok(Placement::In(group)) => (Some(group), None),
        Ok(Placement::Nowhere) => (None, None),
        Ok(Placement::Foreign) => {
            compilation.foreign.insert(id);
            return None;
        }
        Ok(Placement::Unreadable(Unusable { name: Some(group), .. })) if context.env.cluster.is_some() => {
            compilation.held.insert(id, group.clone());
            return None;
        }
        // `tamis serve`: the requirements of the group are unknown, but the served version met them.
        Ok(Placement::Unreadable(group)) => match served {
            Some(served) => (None, Some(served)),
            None => {
                let message = format!("{} cannot be read and may define the GatewayGroup", group.file);
                let path = FieldPath::spec(["gatewayGroup"]);
                let stop = Stop::new(Reason::InvalidManifest, path, message, "fix its errors");
                stopped(compilation, context, resource, id, stop);
                return None;
            }
        },
        Err(stop) => {
            stopped(compilation, context, resource, id, stop);
            return None;
        }
    };
    if let (Some(group), Some(_)) = (group, &context.env.cluster) {
        compilation.placements.insert(id, group.name.clone());
    }
    Some(Placed { group, floor })
}

pub(super) fn id_of(name: &ObjectName) -> ExpositionId {
    ExpositionId { namespace: name.namespace.clone(), name: name.name.clone() }
}

pub(super) fn is_taken(compilation: &Compilation, id: &ExpositionId) -> bool {
    let Snapshot { expositions, bundles, stopped, services: _ } = &compilation.snapshot;
    expositions.contains_key(id)
        || bundles.contains_key(id)
        || stopped.contains_key(id)
        || compilation.foreign.contains(id)
        || compilation.held.contains_key(id)
}

pub(super) fn stopped(
    compilation: &mut Compilation,
    context: &Context<'_, '_>,
    resource: &Resource<ExpositionSpec>,
    id: ExpositionId,
    stop: Stop,
) {
    let diagnostic = resource.origin.error(&stop.path, stop.message, stop.remedy).because(stop.reason);
    let message = diagnostic.statement();
    if !(context.incomplete && stop.reason.is_absence()) {
        compilation.diagnostics.push(diagnostic);
    }
    compilation.snapshot.stopped.insert(id, Stopped { reason: stop.reason, message });
}

/// Compiles a filter that is already served, to judge it.
pub(super) fn judge(filter: &tamis_engine::ToolFilter, conditions: Conditions) -> FilterVerdict {
    FilterVerdict::of(&tamis_engine::compile(filter, &conditions.options()))
}

/// Returns the conditions under which an exposition with these `inputs` publishes a tool.
pub(super) fn conditions(
    tool: &str,
    enforcement: Enforcement,
    response_type: Option<ResponseType>,
    inputs: Option<&[ReservedInput]>,
) -> Conditions {
    let format_input = inputs.is_some_and(|inputs| inputs.contains(&ReservedInput::Format));
    Conditions { enforcement, response_type, tool: ToolKind::of(tool), format_input }
}

/// The version of an exposition that is served now.
#[derive(Clone, Copy)]
pub(super) struct Previous<'a> {
    pub(super) document: &'a Arc<ExpositionDocument>,
    pub(super) service: &'a Arc<ServiceDocument>,
}

impl<'a> Previous<'a> {
    pub(super) fn of(env: &CompileEnv<'a>, id: &ExpositionId) -> Option<Self> {
        let snapshot = env.previous?;
        let document = snapshot.expositions.get(id)?;
        Some(Self { document, service: snapshot.services.get(&document.service)? })
    }
}

/// The state of compiling one exposition.
pub(super) struct Exposer<'a, 'r> {
    pub(super) resource: &'r Arc<Resource<ExpositionSpec>>,
    /// The service to publish.
    pub(super) wanted: &'r ServiceRef,
    pub(super) context: &'a Context<'a, 'r>,
    pub(super) previous: Option<Previous<'a>>,
    pub(super) sets: &'a mut Sets<'r>,
    plans: &'a mut Plans<'r>,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
    pub(super) degraded: Vec<Degraded>,
    /// Published tools whose filter is not an allow-list, each with the filter's set.
    pub(super) open: Vec<(String, String)>,
}

/// The plan of an exposition.
enum Planned<'r> {
    None,
    Named(&'r str, &'r crate::resources::ConfigurationPlanSpec),
    /// The plan has errors: their description, and the plan if it can be read.
    Failed(String, Option<&'r crate::resources::ConfigurationPlanSpec>),
}

/// The filter sets of an exposition.
pub(super) struct Chosen<'r> {
    /// The sets, Enforced ones first.
    pub(super) sets: Vec<&'r Arc<Resource<ToolsFiltersSpec>>>,
    /// A document that may hold another set, and cannot be read.
    pub(super) unreadable: Option<(Reason, String)>,
    /// `filters: []`.
    pub(super) none: bool,
    /// No set was named: the unnamed sets apply, and at least one filter is required.
    pub(super) by_default: bool,
}

impl<'a, 'r> Exposer<'a, 'r> {
    fn expose(
        &mut self,
        id: &ExpositionId,
        group: Option<&'r Arc<Resource<GatewayGroupSpec>>>,
        is_served: bool,
    ) -> Result<(ExpositionDocument, Arc<ServiceDocument>), Stop> {
        let spec = &self.resource.spec;
        let Context { env, .. } = *self.context;
        let service = self.service_of(&id.namespace)?;
        let plan = self.plan_of(&id.namespace)?;
        let chosen = self.chosen_sets(&plan)?;
        let enforcement = self.enforcement(&chosen)?;
        let access = access::access(self.resource, env)?;
        let planned = match &plan {
            Planned::Named(_, plan) | Planned::Failed(_, Some(plan)) => plan.call_timeout_ms(),
            _ => None,
        };
        let limits = limits(spec.limits.as_ref(), planned);
        Groups::floors(group, spec, access.as_ref(), enforcement, env)?;
        Groups::ceilings(group, spec, &limits)?;
        let (digest, document) = self.document(service, &plan)?;
        let field = match &plan {
            Planned::Named(_, plan) if plan.endpoint.is_some() || plan.auth.is_some() => "configurationPlan",
            _ => "service",
        };
        let path = FieldPath::spec([field]);
        mcp::check_program(&document, group.map(|group| &group.spec), is_served, &path)?;
        if let Planned::Named(_, plan) = &plan {
            command::check_plan(&document, plan, &FieldPath::spec(["configurationPlan"]))?;
            mcp::check_plan(&document, plan, &FieldPath::spec(["configurationPlan"]))?;
            grpc::check_plan(&document, plan, &FieldPath::spec(["configurationPlan"]))?;
        }
        if let (Some(group), Some(_)) = (group, &env.cluster) {
            egress::check(&document, &id.namespace, group, &path)?;
        }
        let (tools, follow) = match document.followed() {
            Some(_) => {
                let (tools, follow) = self.followed_tools(&document, &chosen, enforcement)?;
                (tools, Some(follow))
            }
            None => (self.tools(service, &document, &chosen, enforcement)?, None),
        };
        Groups::allow_lists(group, enforcement, &self.open)?;
        let content = content::published(self.resource, &document, enforcement, self.diagnostics)?;
        let callables = || tools.keys().chain(&content.templates);
        credentials::check_headers(&document, callables(), &path)?;
        let credentials = match &env.cluster {
            Some(cluster) => credentials::resolve(cluster, &id.namespace, &document, callables(), &path)?,
            None => BTreeMap::new(),
        };
        let exposition = ExpositionDocument {
            // Lowered below.
            format_version: FORMAT_VERSION,
            id: id.clone(),
            service: digest,
            enforcement,
            tools,
            credentials,
            access,
            limits,
            audit: match spec.audit.unwrap_or_default().mode {
                AuditMode::Digest => Audit::Digest,
                AuditMode::Full => Audit::Full,
            },
            tokens: tokens(spec.tokens),
            inputs: spec.output.as_ref().and_then(|output| output.inputs.clone()),
            list_ttl_ms: list_ttl_ms(spec),
            follow,
            content,
        };
        let exposition = exposition.at_lowest_version();
        if let Some(message) = env.cluster.and_then(|_| size::exposition(&exposition)) {
            let remedy = "publish fewer tools, or shorten their filters";
            return Err(Stop::new(Reason::TooLarge, FieldPath::spec(["filters"]), message, remedy));
        }
        Ok((exposition, document))
    }

    /// Returns the service, or `None` if its manifest cannot be read.
    fn service_of(&self, namespace: &str) -> Result<Option<&'a Service<'r>>, Stop> {
        let (wanted, context) = (self.wanted, self.context);
        match context.services.find(namespace, wanted) {
            Ok(service) => Ok(Some(service)),
            Err(_) if context.unusable.manifest(namespace, wanted).is_some() => Ok(None),
            Err((message, remedy)) => {
                Err(Stop::new(Reason::ServiceNotFound, FieldPath::spec(["service"]), message, remedy))
            }
        }
    }

    fn plan_of(&self, namespace: &str) -> Result<Planned<'r>, Stop> {
        let Some(wanted) = &self.resource.spec.configuration_plan else { return Ok(Planned::None) };
        match self.plans.find(namespace, &wanted.name) {
            Ok(plan) if plan.failed => {
                let culprit = format!("ConfigurationPlan {} has errors", plan.resource.name);
                Ok(Planned::Failed(culprit, Some(&plan.resource.spec)))
            }
            Ok(plan) => Ok(Planned::Named(&wanted.name, &plan.resource.spec)),
            Err((message, remedy)) => match self.context.unusable.plan(namespace, &wanted.name) {
                Some(unusable) => Ok(Planned::Failed(format!("{} cannot be read", unusable.file), None)),
                None => Err(Stop::new(Reason::PlanNotFound, FieldPath::spec(["configurationPlan"]), message, remedy)),
            },
        }
    }

    /// Returns the filter sets: Enforced ones first, otherwise in the order of the exposition or of their names.
    fn chosen_sets(&self, plan: &Planned<'r>) -> Result<Chosen<'r>, Stop> {
        let spec = &self.resource.spec;
        let namespace = self.resource.name.namespace.as_str();
        let unusable = self.context.unusable;
        let (names, of_plan) = match (&spec.filters, plan) {
            (Some(names), _) => (Some(names), false),
            (None, Planned::Named(_, plan) | Planned::Failed(_, Some(plan))) => (plan.filters.as_ref(), true),
            (None, Planned::Failed(culprit, None)) => {
                return Ok(Chosen {
                    sets: Vec::new(),
                    unreadable: Some((Reason::InvalidManifest, culprit.clone())),
                    none: false,
                    by_default: false,
                });
            }
            (None, Planned::None) => (None, false),
        };
        let Some(names) = names else {
            let broken = unusable.default_set(namespace, self.wanted);
            let mut sets = self.sets.unnamed(namespace, self.wanted);
            sets.sort_by_key(|set| set.spec.enforcement != Enforcement::Enforced);
            let unreadable = broken.map(unreadable_set);
            return Ok(Chosen { sets, unreadable, none: false, by_default: true });
        };
        let mut chosen = Chosen { sets: Vec::new(), unreadable: None, none: names.is_empty(), by_default: false };
        for (index, name) in names.iter().enumerate() {
            let path = match of_plan {
                true => FieldPath::spec(["configurationPlan"]),
                false => FieldPath::spec(["filters"]).index(index),
            };
            if names[..index].contains(name) {
                return Err(Stop::new(
                    Reason::Conflict,
                    path,
                    format!("`{name}` occurs twice"),
                    "remove the duplicate",
                ));
            }
            match self.sets.named(namespace, self.wanted, name) {
                Ok(set) => chosen.sets.push(set),
                Err((message, remedy)) => match unusable.named_set(namespace, self.wanted, name) {
                    Some(broken) => chosen.unreadable = Some(unreadable_set(broken)),
                    None => return Err(Stop::new(Reason::FilterSetNotFound, path, message, remedy)),
                },
            }
        }
        chosen.sets.sort_by_key(|set| set.spec.enforcement != Enforcement::Enforced);
        Ok(chosen)
    }

    /// Returns the strictest enforcement of the exposition, its sets and, if a set cannot be read, the served version.
    fn enforcement(&mut self, chosen: &Chosen<'r>) -> Result<Enforcement, Stop> {
        let enforcements = chosen.sets.iter().map(|set| set.spec.enforcement);
        let today = enforcements.fold(self.resource.spec.enforcement, Ord::max);
        match (&chosen.unreadable, self.previous) {
            (None, _) => Ok(today),
            (Some(_), Some(previous)) => {
                self.degraded.push(Degraded::PreviousFilters);
                Ok(today.max(previous.document.enforcement))
            }
            (Some((reason, culprit)), None) => {
                let field = if *reason == Reason::InvalidFilter { "filters" } else { "configurationPlan" };
                let message = format!("{culprit} and may determine the filters");
                Err(Stop::new(*reason, FieldPath::spec([field]), message, "fix its errors"))
            }
        }
    }

    /// Returns the service's document as modified by the plan, or the last good one if either has errors.
    fn document(
        &mut self,
        service: Option<&Service<'r>>,
        plan: &Planned<'r>,
    ) -> Result<(Digest, Arc<ServiceDocument>), Stop> {
        let wanted = self.wanted;
        let namespace = self.resource.name.namespace.as_str();
        let field = FieldPath::spec(["service"]);
        let stop = |reason, message, remedy: String| Stop::new(reason, field, message, remedy);
        let failed = match (service.map(|service| (&service.document, service)), plan) {
            (Some((Ok(document), _)), Planned::None) => return Ok(document.clone()),
            (Some((Ok(document), _)), Planned::Named(name, _)) => {
                return Ok(self.plans.derive((namespace, name), document));
            }
            (Some((Ok(_), _)), Planned::Failed(culprit, _)) => {
                let field = FieldPath::spec(["configurationPlan"]);
                Stop::new(Reason::InvalidManifest, field, culprit.clone(), "fix its errors")
            }
            (Some((Err(reason), service)), _) => {
                let message = match reason {
                    Reason::TooLarge => format!("the manifest of {} {} is too large", wanted.name, wanted.version),
                    _ => format!("the manifest of {} {} has errors", wanted.name, wanted.version),
                };
                stop(*reason, message, format!("fix the errors in {}", service.resource.origin.file()))
            }
            (None, _) => {
                let unusable = self.context.unusable.manifest(namespace, wanted);
                let file = unusable.map_or("the manifest", |unusable| &unusable.file);
                let message = format!("the manifest of {} {} cannot be read", wanted.name, wanted.version);
                stop(Reason::InvalidManifest, message, format!("fix the errors in {file}"))
            }
        };
        let previous = self.previous.ok_or(failed)?;
        self.degraded.push(Degraded::PreviousService);
        Ok((previous.document.service.clone(), Arc::clone(previous.service)))
    }
}

fn unreadable_set(broken: &Unusable) -> (Reason, String) {
    (Reason::InvalidFilter, format!("{} cannot be read", broken.file))
}

/// Returns how long clients may keep lists, in milliseconds.
pub(super) fn list_ttl_ms(spec: &ExpositionSpec) -> u64 {
    spec.lists.as_ref().and_then(ListsSpec::ttl_ms).unwrap_or_default()
}

/// Returns the limits of calls. A value that does not parse was rejected earlier; its default is safe. `planned`: the timeout
/// from the plan.
fn limits(spec: Option<&LimitsSpec>, planned: Option<u64>) -> CallLimits {
    let default = CallLimits::default();
    let timeout_ms = spec.and_then(LimitsSpec::timeout_ms).or(planned).unwrap_or(default.timeout_ms);
    let Some(spec) = spec else { return CallLimits { timeout_ms, ..default } };
    CallLimits {
        requests_per_second: spec.requests_per_second,
        burst: spec.burst,
        concurrent: spec.concurrent,
        timeout_ms,
        max_response_bytes: spec
            .max_response_bytes
            .as_ref()
            .and_then(crate::resources::Quantity::bytes)
            .unwrap_or(default.max_response_bytes),
        output: spec
            .output
            .map_or_else(OutputLimits::default, |OutputLimitsSpec { bytes, tokens }| OutputLimits { bytes, tokens }),
    }
}

/// Returns how tokens are counted. A factor out of range was rejected earlier.
fn tokens(spec: Option<TokensSpec>) -> TokenSettings {
    let spec = spec.unwrap_or_default();
    let default = TokenSettings::default();
    TokenSettings {
        tokenizer: spec.tokenizer.unwrap_or(default.tokenizer),
        factor: spec.factor().unwrap_or(default.factor),
    }
}

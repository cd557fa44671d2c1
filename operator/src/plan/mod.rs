//! Plans what the API should hold: dereference, validate, compile. Pure, and for one service at a time, because
//! expositions share services. `tamis serve` runs the same compile step.

mod bundle;
mod findings;
mod hold;
mod ownership;
mod pause;
mod previous;
mod shared_findings;
#[cfg(test)]
mod tests;
mod unpacked;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tamis_config::carrier::encode_exposition;
use tamis_config::{
    BundleDocument, Digest, ExpositionDocument, ExpositionId, ExpositionPayload, GatewayConfigSpec, Reason,
    ServiceDocument, Snapshot, StopDocument, names,
};
use tamis_crds::cluster::{Cluster, ConfigMapState, ConfigMaps, Namespaces, PartState, Parts, SecretState, Secrets};
use tamis_crds::resources::{GatewayGroupSpec, Resources};
use tamis_crds::{Compilation, CompileEnv, Conversions, ObjectName, Part, compile};

use crate::object::{Kind, ObjectKey};
pub(crate) use findings::{findings, merged, uses};
pub(crate) use ownership::owns_status_of;
pub(crate) use shared_findings::{Findings, Revised, SharedFindings};

use crate::cluster_state::{ClusterState, Object, ServiceKey};
use crate::verdict::Verdict;

/// The document of an exposition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// The group whose gateways serve the exposition.
    pub(crate) group: ObjectName,
    /// What to write.
    pub(crate) spec: GatewayConfigSpec,
}

/// The plan for one exposition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Planned {
    /// Write this document, and delete any other.
    Document(Box<Document>),
    /// Delete every document.
    Nothing,
    /// Leave what is there: it belongs to another operator, or its group cannot be read.
    Untouched,
}

/// The plan for some expositions of one service.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The plan by exposition.
    pub(crate) expositions: BTreeMap<ObjectName, Planned>,
    /// Service documents that the expositions name.
    pub(crate) services: BTreeMap<Digest, Arc<ServiceDocument>>,
    /// Verdicts on the expositions and on their ConfigurationPlans.
    pub(crate) verdicts: BTreeMap<ObjectKey, Verdict>,
    /// Findings that the expositions caused about the service's own objects.
    pub(crate) said: Findings,
    /// Expositions of another operator's groups, which get no status.
    pub(crate) foreign: BTreeSet<ObjectName>,
    /// Expositions to plan again even if nothing changes, and when.
    pub(crate) wake: Option<(Instant, BTreeSet<ObjectName>)>,
    /// Secrets that the compilation looked up.
    pub(crate) secrets: BTreeSet<ObjectName>,
    /// The number of tools that each set filters, by exposition.
    pub(crate) sets: BTreeMap<ObjectName, Vec<(String, usize)>>,
}

/// Settings that do not change while the operator runs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) default_group: Option<ObjectName>,
    pub(crate) controller_name: String,
}

/// The memory of earlier plans: since when an exposition has been about to publish something unfiltered, and the
/// service documents of the last good plans.
#[derive(Debug)]
pub(crate) struct Memory {
    bare_since: HashMap<ObjectName, Instant>,
    /// Since when the state of a part of each bundle has not been known.
    pending_since: HashMap<ObjectName, Instant>,
    published: bundle::Published,
    pub(crate) documents: HashMap<Digest, Arc<ServiceDocument>>,
    unpacked: unpacked::Unpacked,
    /// What the documents of APIs became.
    pub(crate) conversions: Arc<Conversions>,
}

/// The bytes of [`Memory::conversions`].
const CONVERSION_BYTES: usize = 32 << 20;

impl Default for Memory {
    fn default() -> Self {
        Self {
            bare_since: HashMap::new(),
            pending_since: HashMap::new(),
            published: bundle::Published::default(),
            documents: HashMap::new(),
            unpacked: unpacked::Unpacked::default(),
            conversions: Arc::new(Conversions::new(CONVERSION_BYTES)),
        }
    }
}

/// The verdicts on a service's own objects.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Verdicts on the manifests, the CustomTools, Prompts and Resources, and some of the filter sets.
    pub(crate) verdicts: BTreeMap<ObjectKey, Verdict>,
    /// The last filter set of this turn, if there are more.
    pub(crate) next: Option<ObjectName>,
}

/// The most bytes of filter sets, as JSON, that one turn compiles. It compiles the sets of at least one exposition.
pub(crate) const TURN_BYTES: usize = 1 << 20;

impl Memory {
    /// Forgets a deleted exposition.
    pub(crate) fn forget(&mut self, exposition: &ObjectName) {
        self.bare_since.remove(exposition);
        self.pending_since.remove(exposition);
        self.published.forget(exposition);
    }
}

/// Judges a service's own objects: the manifests, the CustomTools, Prompts and Resources, and as many of the filter sets
/// after `after` as one turn compiles.
pub(crate) fn own(
    world: &ClusterState,
    memory: &mut Memory,
    settings: &Settings,
    key: &ServiceKey,
    after: Option<&ObjectName>,
) -> Own {
    let Some(members) = world.members(key) else { return Own::default() };
    let after = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
    let mut bytes = 0;
    let mut sets = BTreeSet::new();
    let mut next = None;
    for name in members.filters.range((after, std::ops::Bound::Unbounded)) {
        bytes += world.get(Kind::ToolsFilters, name).map_or(0, |object| object.bytes);
        if !sets.is_empty() && bytes > TURN_BYTES {
            next = sets.last().cloned();
            break;
        }
        sets.insert(name.clone());
    }
    let resources = resources(world, memory, key, &BTreeSet::new(), |set| sets.contains(&set.key.name));
    let view = View { world, asked: RefCell::default(), parts: HashMap::new() };
    let env = CompileEnv {
        cluster: Some(view.cluster(settings)),
        part: Part::Objects(&sets),
        conversions: Some(&memory.conversions),
        ..CompileEnv::default()
    };
    let compilation = compile(&resources, &env);
    let mut own = Own { next, ..Own::default() };
    findings::judge_own(world, members, &sets, &compilation, &mut own);
    own
}

/// Returns the cost of planning an exposition: the bytes of the filter sets that it may use.
pub(crate) fn weight(world: &ClusterState, key: &ServiceKey, exposition: &ObjectName) -> usize {
    let Some(members) = world.members(key) else { return 0 };
    let uses = uses_set(world, exposition);
    let sets = members.filters.iter().filter_map(|name| world.get(Kind::ToolsFilters, name));
    sets.filter(|set| uses(set)).map(|set| set.bytes).sum()
}

/// Returns whether an exposition may use a filter set of its service.
fn uses_set<'w>(world: &'w ClusterState, exposition: &ObjectName) -> impl Fn(&Object) -> bool + use<'w> {
    let object = world.get(Kind::Exposition, exposition);
    let spec = object.and_then(|object| object.resources.expositions.first()).map(|resource| &resource.spec);
    let plan = spec.and_then(|spec| spec.configuration_plan.as_ref()).map(|plan| {
        let name = ObjectName { namespace: exposition.namespace.clone(), name: plan.name.clone() };
        world.get(Kind::ConfigurationPlan, &name).and_then(|plan| plan.resources.plans.first())
    });
    // `None` stands for any set: an exposition or a plan that cannot be read may use the sets that it used before.
    let names: Option<Option<&Vec<String>>> = match (spec, plan) {
        (None, _) => None,
        (Some(spec), _) if spec.filters.is_some() => Some(spec.filters.as_ref()),
        (Some(_), Some(plan)) => plan.map(|plan| plan.spec.filters.as_ref()),
        (Some(_), None) => Some(None),
    };
    move |set: &Object| {
        let Some(names) = names else { return true };
        let name = set.resources.filters.first().and_then(|set| set.spec.name.as_ref());
        match (names, name) {
            (None, name) => name.is_none(),
            (Some(names), Some(name)) => names.contains(name),
            (Some(_), None) => false,
        }
    }
}

/// Plans some expositions of a service.
pub(crate) fn service(
    world: &mut ClusterState,
    memory: &mut Memory,
    settings: &Settings,
    key: &ServiceKey,
    chosen: &BTreeSet<ObjectName>,
    now: Instant,
) -> Plan {
    let there = |members: &crate::cluster_state::Members| chosen.intersection(&members.expositions).cloned().collect();
    let chosen: BTreeSet<ObjectName> = world.members(key).map(there).unwrap_or_default();
    let used: Vec<_> = chosen.iter().map(|exposition| uses_set(world, exposition)).collect();
    let resources = resources(world, memory, key, &chosen, |set| used.iter().any(|uses| uses(set)));
    drop(used);
    let previous = previous::snapshot(world, memory, &chosen);
    let conversions = Arc::clone(&memory.conversions);
    let view = View { world, asked: RefCell::default(), parts: bundle::parts(world, memory, &chosen) };
    let env = CompileEnv {
        previous: Some(&previous),
        cluster: Some(view.cluster(settings)),
        part: Part::Expositions,
        conversions: Some(&conversions),
        ..CompileEnv::default()
    };
    let mut compilation = compile(&resources, &env);
    let mut plan = Plan { secrets: view.asked.into_inner(), ..Plan::default() };
    ownership::leave_to_others(world, settings, &chosen, &mut compilation);
    plan.wake = hold::hold(world, memory, key, &chosen, &previous, &mut compilation, now);
    let view = View { world, asked: RefCell::default(), parts: HashMap::new() };
    let env = CompileEnv {
        previous: Some(&previous),
        cluster: Some(view.cluster(settings)),
        part: Part::Expositions,
        conversions: Some(&conversions),
        ..CompileEnv::default()
    };
    pause::hold_back(world, &chosen, &resources, &env, &mut compilation);
    plan.secrets.extend(view.asked.into_inner());
    for name in &chosen {
        let planned = document(world, name, &previous, &compilation);
        plan.expositions.insert(name.clone(), planned);
    }
    findings::judge(world, settings, &chosen, &compilation, &mut plan);
    bundle::judge(memory, &chosen, &compilation, &mut plan, now);
    pause::judge(world, &chosen, &compilation, &mut plan);
    plan.foreign = chosen.iter().filter(|name| compilation.foreign.contains(&id(name))).cloned().collect();
    plan.services = std::mem::take(&mut compilation.snapshot.services);
    for (digest, document) in &plan.services {
        memory.documents.insert(digest.clone(), Arc::clone(document));
    }
    plan
}

fn id(name: &ObjectName) -> ExpositionId {
    ExpositionId { namespace: name.namespace.clone(), name: name.name.clone() }
}

/// Returns the resources to compile: the chosen expositions and everything that may affect them, the older of two
/// first. A large filter set that is not `needed` is reduced to the service that it binds to.
fn resources(
    world: &ClusterState,
    memory: &mut Memory,
    key: &ServiceKey,
    chosen: &BTreeSet<ObjectName>,
    needed: impl Fn(&Object) -> bool,
) -> Resources {
    let mut resources = Resources::default();
    let mut add = |objects: Vec<&Arc<Object>>| {
        let mut objects = objects;
        objects.sort_by(|a, b| a.age().cmp(&b.age()));
        for object in objects {
            if object.is_packed() && (object.key.kind != Kind::ToolsFilters || needed(object)) {
                resources.extend(&memory.unpacked.whole(object));
            } else {
                resources.extend(&object.resources);
            }
        }
    };
    let named = |kind: Kind, names: &BTreeSet<ObjectName>| -> Vec<&Arc<Object>> {
        names.iter().filter_map(|name| world.get(kind, name)).collect()
    };
    add(world.all(Kind::GatewayGroup).filter(|group| !group.is_unusable()).collect());
    let Some(members) = world.members(key) else { return resources };
    add(named(Kind::ServiceManifest, &members.manifests));
    add(named(Kind::ToolsFilters, &members.filters));
    add(named(Kind::CustomTools, &members.tools));
    add(named(Kind::Prompts, &members.prompts));
    add(named(Kind::Resources, &members.resources));
    let expositions = named(Kind::Exposition, chosen);
    let plans: BTreeSet<ObjectName> = expositions
        .iter()
        .filter_map(|object| object.resources.expositions.first()?.spec.configuration_plan.as_ref())
        .map(|plan| ObjectName { namespace: key.namespace.clone(), name: plan.name.clone() })
        .collect();
    add(named(Kind::ConfigurationPlan, &plans));
    add(expositions);
    // An unreadable object affects its own namespace; an unreadable group, other namespaces too.
    let near =
        |object: &&Arc<Object>| object.key.name.namespace == key.namespace || object.key.kind == Kind::GatewayGroup;
    add(world.unusable().filter(near).collect());
    resources
}

/// The compiler's view of the cluster.
struct View<'a> {
    world: &'a ClusterState,
    asked: RefCell<BTreeSet<ObjectName>>,
    /// The parts of the bundles that are compiled.
    parts: HashMap<ObjectName, PartState>,
}

impl View<'_> {
    fn cluster<'a>(&'a self, settings: &'a Settings) -> Cluster<'a> {
        Cluster {
            default_group: settings.default_group.as_ref(),
            controller_name: &settings.controller_name,
            namespaces: self,
            secrets: self,
            config_maps: self,
            parts: self,
        }
    }
}

impl Secrets for View<'_> {
    fn find(&self, namespace: &str, name: &str) -> SecretState<'_> {
        let name = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
        let state = self.world.secrets.state(&name);
        self.asked.borrow_mut().insert(name);
        state
    }
}

impl ConfigMaps for View<'_> {
    fn find(&self, name: &ObjectName) -> ConfigMapState {
        self.world.config_maps.state(name)
    }
}

impl Parts for View<'_> {
    fn find(&self, name: &ObjectName) -> PartState {
        self.parts.get(name).cloned().unwrap_or(PartState::Missing)
    }
}

impl Namespaces for View<'_> {
    fn labels(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        Some(&self.world.namespace(namespace)?.labels)
    }

    fn may_read(&self, namespace: &str) -> bool {
        self.world.may_read_namespace(namespace)
    }
}

/// Decides what to write for one exposition.
fn document(world: &ClusterState, name: &ObjectName, previous: &Snapshot, compilation: &Compilation) -> Planned {
    let id = id(name);
    let Some(object) = world.get(Kind::Exposition, name).filter(|object| !object.deleting) else {
        return Planned::Nothing;
    };
    if untouched(compilation, &id) {
        return Planned::Untouched;
    }
    if pause::is_withheld(world, compilation, name) {
        return Planned::Nothing;
    }
    let Snapshot { services: _, expositions, bundles, stopped } = &compilation.snapshot;
    let payload = match (expositions.get(&id), bundles.get(&id), stopped.get(&id)) {
        (Some(document), _, _) => ExpositionPayload::Serve(ExpositionDocument::clone(document)),
        (None, Some(document), _) => ExpositionPayload::Bundle(BundleDocument::clone(document)),
        (None, None, Some(stopped)) => stop(&id, stopped.reason, &stopped.message),
        // Callers see this message, so it leaves out the findings, which are for the author of the object.
        (None, None, None) => stop(&id, Reason::InvalidManifest, &format!("{} cannot be read; fix it", object.key)),
    };
    let placed = compilation.placements.get(&id).cloned();
    // An exposition that may no longer use its group answers 503 there, with the reason; one that was never served is
    // not written.
    let there = || {
        let group = world.configs.of_exposition(&id).into_iter().find(|config| config.is_managed)?.group()?;
        world.get(Kind::GatewayGroup, &group).map(|_| group)
    };
    let served = previous.expositions.contains_key(&id)
        || previous.bundles.contains_key(&id)
        || previous.stopped.contains_key(&id);
    let Some(group) = placed.or_else(|| there().filter(|_| served)) else { return Planned::Nothing };
    match encode_exposition(&group.name, &payload) {
        Ok(spec) => Planned::Document(Box::new(Document { group, spec })),
        Err(message) => {
            let payload =
                stop(&id, Reason::TooLarge, &format!("spec.filters: {message}, use fewer or smaller filters"));
            match encode_exposition(&group.name, &payload) {
                Ok(spec) => Planned::Document(Box::new(Document { group, spec })),
                Err(_) => Planned::Untouched,
            }
        }
    }
}

/// Returns whether the exposition is another operator's, or its group cannot be read.
fn untouched(compilation: &Compilation, id: &ExpositionId) -> bool {
    compilation.foreign.contains(id) || compilation.held.contains_key(id)
}

fn stop(id: &ExpositionId, reason: Reason, message: &str) -> ExpositionPayload {
    ExpositionPayload::Stop(StopDocument::new(id.clone(), reason, message.to_owned()))
}

/// Returns the URL of a group, or of an exposition at it: the external address if the group has one, else that of its
/// Service.
pub(crate) fn url(group: &ObjectName, spec: &GatewayGroupSpec, exposition: Option<&ObjectName>) -> String {
    let listener = spec.listener.clone().unwrap_or_default();
    let (scheme, own) = if listener.tls.is_some() { ("https", 443) } else { ("http", 80) };
    let base = match (&listener.external_url, &listener.hostname) {
        (Some(url), _) => url.trim_end_matches('/').to_owned(),
        (None, Some(host)) => format!("{scheme}://{host}"),
        (None, None) => {
            let service = names::group_object(&group.name);
            let port = Some(listener.service_port()).filter(|port| *port != own);
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{scheme}://{service}.{}.svc{port}", group.namespace)
        }
    };
    exposition.map_or_else(|| base.clone(), |name| format!("{base}/mcp/{}/{}", name.namespace, name.name))
}

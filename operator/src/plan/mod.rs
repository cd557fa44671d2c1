//! From what is known to what should be: dereference, validate, compile. Pure, for one service at a time, since that is
//! what expositions share; the compile step is the one that `tamis serve` runs.

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
    Digest, ExpositionDocument, ExpositionId, ExpositionPayload, FORMAT_VERSION, GatewayConfigSpec, Reason,
    ServiceDocument, Snapshot, StopDocument, names,
};
use tamis_crds::cluster::{Cluster, Namespaces, SecretState, Secrets};
use tamis_crds::resources::{GatewayGroupSpec, Resources};
use tamis_crds::{Compilation, CompileEnv, ObjectName, Part, compile};

use crate::object::{Kind, ObjectKey};
pub(crate) use findings::{findings, merged, uses};
pub(crate) use ownership::owns_status_of;
pub(crate) use shared_findings::{Findings, Revised, SharedFindings};

use crate::cluster_state::{ClusterState, Object, ServiceKey};
use crate::verdict::Verdict;

/// What an exposition should be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// The group whose gateways serve it.
    pub(crate) group: ObjectName,
    /// What to write.
    pub(crate) spec: GatewayConfigSpec,
}

/// What was planned for one exposition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Planned {
    /// This document, and no other anywhere.
    Document(Box<Document>),
    /// No document anywhere.
    Nothing,
    /// What is there stays: it is not ours, or cannot be judged.
    Untouched,
}

/// What should be, for some expositions of one service.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// By exposition.
    pub(crate) expositions: BTreeMap<ObjectName, Planned>,
    /// Service documents that the expositions name.
    pub(crate) services: BTreeMap<Digest, Arc<ServiceDocument>>,
    /// What is thought of the expositions and of their ConfigurationPlans.
    pub(crate) verdicts: BTreeMap<ObjectKey, Verdict>,
    /// What they have led to saying of the service's own objects.
    pub(crate) said: Findings,
    /// Expositions of another operator's groups: nothing is said of them.
    pub(crate) foreign: BTreeSet<ObjectName>,
    /// Expositions to look at again although nothing changes, and when.
    pub(crate) wake: Option<(Instant, BTreeSet<ObjectName>)>,
    /// Secrets that were asked for.
    pub(crate) secrets: BTreeSet<ObjectName>,
    /// Tools of each exposition by the set that filters them.
    pub(crate) sets: BTreeMap<ObjectName, Vec<(String, usize)>>,
}

/// What does not change while the operator runs.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) default_group: Option<ObjectName>,
    pub(crate) controller_name: String,
}

/// Remembers what planning alone cannot know: since when an exposition has been about to publish something unfiltered, and
/// the service documents of the last good plans.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    bare_since: HashMap<ObjectName, Instant>,
    pub(crate) documents: HashMap<Digest, Arc<ServiceDocument>>,
    unpacked: unpacked::Unpacked,
}

/// What is thought of a service's own objects.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Of the manifests, the CustomTools and some of the filter sets.
    pub(crate) verdicts: BTreeMap<ObjectKey, Verdict>,
    /// The last filter set that was looked at, where there are more.
    pub(crate) next: Option<ObjectName>,
}

/// Bytes of filter sets, as JSON, that are compiled in one turn, but at least those of one exposition.
pub(crate) const TURN_BYTES: usize = 1 << 20;

impl Memory {
    /// Forgets expositions that are gone.
    pub(crate) fn forget(&mut self, exposition: &ObjectName) {
        self.bare_since.remove(exposition);
    }
}

/// Judges a service's own objects: the manifests, the CustomTools, and the filter sets that follow `after`, as many as one
/// turn takes.
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
    let view = View { world, asked: RefCell::default() };
    let env = CompileEnv { cluster: Some(view.cluster(settings)), part: Part::Objects(&sets), ..CompileEnv::default() };
    let compilation = compile(&resources, &env);
    let mut own = Own { next, ..Own::default() };
    findings::judge_own(world, members, &sets, &compilation, &mut own);
    own
}

/// What planning an exposition costs: bytes of the filter sets that it may use.
pub(crate) fn weight(world: &ClusterState, key: &ServiceKey, exposition: &ObjectName) -> usize {
    let Some(members) = world.members(key) else { return 0 };
    let uses = uses_set(world, exposition);
    let sets = members.filters.iter().filter_map(|name| world.get(Kind::ToolsFilters, name));
    sets.filter(|set| uses(set)).map(|set| set.bytes).sum()
}

/// Whether an exposition may use a filter set of its service.
fn uses_set<'w>(world: &'w ClusterState, exposition: &ObjectName) -> impl Fn(&Object) -> bool + use<'w> {
    let object = world.get(Kind::Exposition, exposition);
    let spec = object.and_then(|object| object.resources.expositions.first()).map(|resource| &resource.spec);
    let plan = spec.and_then(|spec| spec.configuration_plan.as_ref()).map(|plan| {
        let name = ObjectName { namespace: exposition.namespace.clone(), name: plan.name.clone() };
        world.get(Kind::ConfigurationPlan, &name).and_then(|plan| plan.resources.plans.first())
    });
    // None: any set; an exposition or a plan that cannot be read may use what it used before.
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
    let view = View { world, asked: RefCell::default() };
    let env = CompileEnv {
        previous: Some(&previous),
        cluster: Some(view.cluster(settings)),
        part: Part::Expositions,
        ..CompileEnv::default()
    };
    let mut compilation = compile(&resources, &env);
    let mut plan = Plan { secrets: view.asked.into_inner(), ..Plan::default() };
    ownership::leave_to_others(world, settings, &chosen, &mut compilation);
    plan.wake = hold::hold(world, memory, key, &chosen, &previous, &mut compilation, now);
    let view = View { world, asked: RefCell::default() };
    let env = CompileEnv {
        previous: Some(&previous),
        cluster: Some(view.cluster(settings)),
        part: Part::Expositions,
        ..CompileEnv::default()
    };
    pause::hold_back(world, &chosen, &resources, &env, &mut compilation);
    plan.secrets.extend(view.asked.into_inner());
    for name in &chosen {
        let planned = document(world, name, &previous, &compilation);
        plan.expositions.insert(name.clone(), planned);
    }
    findings::judge(world, settings, &chosen, &compilation, &mut plan);
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

/// What compiling is given: the chosen expositions, and what could have a say in them. The older of two comes first. Of
/// filter sets that are not `needed`, and large, only what they bind to.
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
    let expositions = named(Kind::Exposition, chosen);
    let plans: BTreeSet<ObjectName> = expositions
        .iter()
        .filter_map(|object| object.resources.expositions.first()?.spec.configuration_plan.as_ref())
        .map(|plan| ObjectName { namespace: key.namespace.clone(), name: plan.name.clone() })
        .collect();
    add(named(Kind::ConfigurationPlan, &plans));
    add(expositions);
    // What cannot be read has a say in its own namespace; a group beyond it.
    let near =
        |object: &&Arc<Object>| object.key.name.namespace == key.namespace || object.key.kind == Kind::GatewayGroup;
    add(world.unusable().filter(near).collect());
    resources
}

/// What compiling sees of the cluster.
struct View<'a> {
    world: &'a ClusterState,
    asked: RefCell<BTreeSet<ObjectName>>,
}

impl View<'_> {
    fn cluster<'a>(&'a self, settings: &'a Settings) -> Cluster<'a> {
        Cluster {
            default_group: settings.default_group.as_ref(),
            controller_name: &settings.controller_name,
            namespaces: self,
            secrets: self,
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

impl Namespaces for View<'_> {
    fn labels(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        Some(&self.world.namespace(namespace)?.labels)
    }

    fn may_read(&self, namespace: &str) -> bool {
        self.world.may_read_namespace(namespace)
    }
}

/// What to write for one exposition.
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
    let payload = match (compilation.snapshot.expositions.get(&id), compilation.snapshot.stopped.get(&id)) {
        (Some(document), _) => ExpositionPayload::Serve(ExpositionDocument::clone(document)),
        (None, Some(stopped)) => stop(&id, stopped.reason, &stopped.message),
        // Callers see it: what is wrong with the object is said to its author only.
        (None, None) => stop(&id, Reason::InvalidManifest, &format!("{} cannot be read; fix it", object.key)),
    };
    let placed = compilation.placements.get(&id).cloned();
    // One that its group takes no longer goes on to answer, with the reason; one that was never there is not written.
    let there = || {
        let group = world.configs.of_exposition(&id).into_iter().find(|config| config.is_managed)?.group()?;
        world.get(Kind::GatewayGroup, &group).map(|_| group)
    };
    let served = previous.expositions.contains_key(&id) || previous.stopped.contains_key(&id);
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

/// Whether it is another operator's, or its group cannot be read.
fn untouched(compilation: &Compilation, id: &ExpositionId) -> bool {
    compilation.foreign.contains(id) || compilation.held.contains_key(id)
}

fn stop(id: &ExpositionId, reason: Reason, message: &str) -> ExpositionPayload {
    ExpositionPayload::Stop(StopDocument {
        format_version: FORMAT_VERSION,
        id: id.clone(),
        reason,
        message: message.to_owned(),
    })
}

/// The URL of an exposition at its group: the address that something in front of it has, or its Service's.
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

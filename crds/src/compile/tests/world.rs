//! A small cluster to compile: objects of the API, Secrets and namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tamis_config::{ExpositionId, Snapshot};

use crate::cluster::{
    Cluster, ConfigMapState, ConfigMaps, DEFAULT_CONTROLLER_NAME, Namespaces, PartState, Parts, SecretFacts,
    SecretRole, SecretState, Secrets,
};
use crate::{Compilation, CompileEnv, ObjectName, Part, Resources, compile, read_object};

/// What can be changed before compiling.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// Kind and name to spec, all in namespace `team-a`, in the order of their age.
    objects: Vec<(&'static str, String, String)>,
    /// By `namespace/name`; what is not here is missing.
    pub(super) secrets: BTreeMap<String, Secret>,
    /// By `namespace/name`; what is not here is missing.
    pub(super) config_maps: BTreeMap<String, ConfigMapState>,
    pub(super) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// Expositions that are compiled apart, by `namespace/name`.
    pub(super) parts: BTreeMap<String, PartState>,
    pub(super) default_group: Option<ObjectName>,
    pub(super) controller_name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Secret {
    Unlabelled,
    Forbidden,
    Found(SecretFacts),
}

pub(super) const NAMESPACE: &str = "team-a";

/// A Secret that takes part.
pub(super) fn secret(role: SecretRole, keys: &[&str], uses: &[&str], version: &str) -> Secret {
    Secret::Found(SecretFacts {
        role,
        keys: keys.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>(),
        uses: uses.iter().map(|line| line.parse().expect("is a use")).collect(),
        invalid_uses: Vec::new(),
        version: version.to_owned(),
    })
}

impl World {
    /// A service with a default set, an exposition of it with callers' keys, a group and all Secrets.
    pub(super) fn good() -> Self {
        let mut world = Self {
            objects: Vec::new(),
            secrets: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            parts: BTreeMap::new(),
            default_group: None,
            controller_name: DEFAULT_CONTROLLER_NAME.to_owned(),
        };
        world.put("GatewayGroup", "default", "replicas: 1");
        world.put(
            "ServiceManifest",
            "s",
            "version: '1', http: {baseUrl: 'https://api.example.com', auth: {type: bearer, secretRef: {name: api, key: \
             token}}, actions: {get: {path: '/things/{id}', args: {id: {type: string, required: true}, size: {type: \
             integer}}, request: {query: {size: '{size}'}, headers: {X-Team: a, Accept: text/plain}}}, list: {path: /things, \
             response: {type: array}}}}",
        );
        world.put("ToolsFilters", "base", "service: {name: s, version: '1'}, filters: {get: {retain: [/a]}}");
        world.put(
            "Exposition",
            "e",
            "service: {name: s, version: '1'}, access: {apiKeys: {secretRef: {name: partners}}}",
        );
        world.put_secret("api", secret(SecretRole::Upstream, &["token"], &["api.example.com bearer"], "u1.1"));
        world.put_secret("partners", secret(SecretRole::Callers, &["acme"], &[], "c1.1"));
        world
    }

    /// Adds or replaces an object; `spec` is flow YAML without its braces.
    pub(super) fn put(&mut self, kind: &'static str, name: &str, spec: &str) {
        let new = (kind, name.to_owned(), spec.to_owned());
        match self.objects.iter_mut().find(|(k, n, _)| *k == kind && n == name) {
            Some(old) => *old = new,
            None => self.objects.push(new),
        }
    }

    pub(super) fn remove(&mut self, kind: &str) {
        self.objects.retain(|(k, _, _)| *k != kind);
    }

    /// Replaces text in the spec of every object of a kind; it has to be there.
    pub(super) fn edit(&mut self, kind: &str, from: &str, to: &str) {
        let mut found = false;
        for (_, _, spec) in self.objects.iter_mut().filter(|(k, _, _)| *k == kind) {
            found |= spec.contains(from);
            *spec = spec.replace(from, to);
        }
        assert!(found, "no {kind} has `{from}`");
    }

    /// Adds to the spec of every object of a kind.
    pub(super) fn add(&mut self, kind: &str, more: &str) {
        for (_, _, spec) in self.objects.iter_mut().filter(|(k, _, _)| *k == kind) {
            *spec = if spec.is_empty() { more.to_owned() } else { format!("{spec}, {more}") };
        }
    }

    pub(super) fn put_secret(&mut self, name: &str, secret: Secret) {
        self.secrets.insert(format!("{NAMESPACE}/{name}"), secret);
    }

    fn resources(&self) -> Resources {
        let mut resources = Resources::default();
        for (kind, name, spec) in &self.objects {
            let (namespace, name) = name.split_once('/').unwrap_or((NAMESPACE, name));
            let text = format!(
                "apiVersion: tamis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}, uid: x, \
                 resourceVersion: '1'}}\nspec: {{{spec}}}\n"
            );
            let documents =
                crate::yaml::parse(&"a.yaml".into(), text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
            resources.extend(&read_object(&crate::read::tests::plain(&documents[0])).resources);
        }
        resources
    }

    /// Compiles, and then keeps from the paused expositions what is new.
    pub(super) fn compile_paused(&self, previous: Option<&Snapshot>, paused: &BTreeSet<ExpositionId>) -> Compilation {
        let mut compilation = self.compile(previous);
        let cluster = Cluster {
            default_group: self.default_group.as_ref(),
            controller_name: &self.controller_name,
            namespaces: self,
            secrets: self,
            config_maps: self,
            parts: self,
        };
        let env = CompileEnv { previous, cluster: Some(cluster), ..CompileEnv::default() };
        crate::pause(&mut compilation, &self.resources(), &env, paused);
        compilation
    }

    pub(super) fn compile(&self, previous: Option<&Snapshot>) -> Compilation {
        self.compile_with(previous, Part::All)
    }

    /// Compiles a part.
    pub(super) fn compile_part(&self, part: Part<'_>) -> Compilation {
        self.compile_with(None, part)
    }

    fn compile_with(&self, previous: Option<&Snapshot>, part: Part<'_>) -> Compilation {
        let cluster = Cluster {
            default_group: self.default_group.as_ref(),
            controller_name: &self.controller_name,
            namespaces: self,
            secrets: self,
            config_maps: self,
            parts: self,
        };
        let env = CompileEnv { previous, cluster: Some(cluster), part, ..CompileEnv::default() };
        compile(&self.resources(), &env)
    }
}

impl Namespaces for World {
    fn labels(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.namespaces.get(namespace)
    }
}

impl Parts for World {
    fn find(&self, name: &ObjectName) -> PartState {
        self.parts.get(&name.to_string()).cloned().unwrap_or(PartState::Missing)
    }
}

impl ConfigMaps for World {
    fn find(&self, name: &ObjectName) -> ConfigMapState {
        self.config_maps.get(&name.to_string()).cloned().unwrap_or(ConfigMapState::Missing)
    }
}

impl Secrets for World {
    fn find(&self, namespace: &str, name: &str) -> SecretState<'_> {
        match self.secrets.get(&format!("{namespace}/{name}")) {
            None => SecretState::Missing,
            Some(Secret::Unlabelled) => SecretState::Unlabelled,
            Some(Secret::Forbidden) => SecretState::Forbidden,
            Some(Secret::Found(facts)) => SecretState::Found(facts),
        }
    }
}

pub(super) fn id() -> ExpositionId {
    ExpositionId { namespace: NAMESPACE.into(), name: "e".into() }
}

/// The exposition's document and service.
pub(super) fn served(
    compilation: &Compilation,
) -> (Arc<tamis_config::ExpositionDocument>, Arc<tamis_config::ServiceDocument>) {
    let document = compilation.snapshot.expositions.get(&id()).unwrap_or_else(|| panic!("{compilation:#?}"));
    (Arc::clone(document), Arc::clone(&compilation.snapshot.services[&document.service]))
}

/// What became of the exposition, in the words of `docs/keep-or-stop.md`.
pub(super) fn outcome(compilation: &Compilation) -> String {
    let id = id();
    if let Some(stopped) = compilation.snapshot.stopped.get(&id) {
        assert!(!stopped.message.is_empty() && !stopped.message.contains(":1:"), "{stopped:?}");
        return format!("stop `{}`", stopped.reason);
    }
    if compilation.foreign.contains(&id) || compilation.held.contains_key(&id) {
        return "unchanged".to_owned();
    }
    match (compilation.snapshot.expositions.get(&id), compilation.degraded.get(&id)) {
        (None, _) => "unchanged".to_owned(),
        (Some(_), None) => "new".to_owned(),
        (Some(_), Some(degraded)) => {
            let said: Vec<String> = degraded.iter().map(ToString::to_string).collect();
            said.join("; ")
        }
    }
}

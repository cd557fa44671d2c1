//! Gateway groups: their operator, the namespaces that they admit, and their floors.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tamis_config::{Access, BundleLimits, CallLimits, Reason};
use tamis_engine::Enforcement;

use super::expose::Stop;
use super::tools::MANIFEST;
use super::unusable::Unusables;
use super::{CompileEnv, duplicate_names};
use crate::cluster::{Cluster, DEFAULT_CONTROLLER_NAME};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{AuditMode, AuditSink, ExpositionSpec, FloorsSpec, GatewayGroupSpec, NamespacesFrom};
use crate::{Diagnostic, ObjectName, Resource, Unusable};

type Group = Arc<Resource<GatewayGroupSpec>>;

/// All groups by namespace and name.
pub(super) struct Groups<'r> {
    all: &'r [Group],
    by_name: HashMap<(&'r str, &'r str), &'r Group>,
    /// In a cluster: groups whose namespace has an older group.
    second: BTreeSet<&'r ObjectName>,
    unusable: &'r Unusables<'r>,
}

/// The group of an exposition.
#[derive(Debug, Clone, Copy)]
pub(super) enum Placement<'r> {
    /// No group: `tamis serve` needs none.
    Nowhere,
    /// This group.
    In(&'r Group),
    /// A group of another operator.
    Foreign,
    /// A group that cannot be read.
    Unreadable(&'r Unusable),
}

impl<'r> Groups<'r> {
    pub(super) fn new(
        all: &'r [Group],
        unusable: &'r Unusables<'r>,
        env: &CompileEnv<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        duplicate_names("GatewayGroup", all, diagnostics);
        let mut by_name = HashMap::new();
        let mut first: HashMap<&str, &Group> = HashMap::new();
        let mut second = BTreeSet::new();
        for group in all {
            by_name.entry((group.name.namespace.as_str(), group.name.name.as_str())).or_insert(group);
            let Some(cluster) = &env.cluster else { continue };
            if group.spec.enables_programs() && is_ours(group, cluster) {
                let message = "true has no meaning in a cluster, since only `tamis serve` runs programs";
                let path = FieldPath::spec(["commands", "enabled"]);
                diagnostics.push(group.origin.error(&path, message, "write false").because(Reason::UnsupportedSource));
            }
            let older = *first.entry(&group.name.namespace).or_insert(group);
            if older.name != group.name && is_ours(group, cluster) {
                second.insert(&group.name);
                let message = format!("the namespace already has the older GatewayGroup {}", older.name);
                let path = FieldPath::default().key("metadata").key("namespace");
                let remedy = "move this group to another namespace";
                diagnostics.push(group.origin.error(&path, message, remedy).because(Reason::Conflict));
            }
        }
        Self { all, by_name, second, unusable }
    }

    /// Returns the only group, if there is exactly one.
    pub(super) fn sole(&self) -> Option<Group> {
        match self.all {
            [group] => Some(Arc::clone(group)),
            _ => None,
        }
    }

    /// Returns the group of an exposition. An exposition that names none uses `default` of its namespace, then the cluster's
    /// default group, or the only group under `tamis serve`.
    pub(super) fn of(
        &self,
        exposition: &'r Resource<ExpositionSpec>,
        env: &CompileEnv<'_>,
    ) -> Result<Placement<'r>, Stop> {
        let namespace = exposition.name.namespace.as_str();
        let path = FieldPath::spec(["gatewayGroup"]);
        if let Some(wanted) = &exposition.spec.gateway_group {
            let wanted_namespace = wanted.namespace.as_deref().unwrap_or(namespace);
            if let Some(found) = self.find(wanted_namespace, &wanted.name) {
                return self.permitted(found, exposition, env);
            }
            let message = format!("GatewayGroup {wanted_namespace}/{} does not exist", wanted.name);
            // Do not suggest groups of other namespaces to the author.
            let own = self.all.iter().filter(|g| g.name.namespace == namespace && wanted_namespace == namespace);
            let names = own.map(|g| g.name.name.as_str());
            let remedy = match did_you_mean(&wanted.name, names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "create it, or remove the field".to_owned(),
            };
            return Err(Stop::new(Reason::GatewayGroupNotFound, path, message, remedy));
        }
        if let Some(own) = self.find(namespace, "default") {
            return self.permitted(own, exposition, env);
        }
        let Some(cluster) = &env.cluster else {
            return Ok(match (self.all, self.unusable.groups().next()) {
                (_, Some(group)) => Placement::Unreadable(group),
                ([group], None) => Placement::In(group),
                _ => Placement::Nowhere,
            });
        };
        let default = cluster.default_group;
        match default.and_then(|group| self.find(&group.namespace, &group.name)) {
            Some(found) => self.permitted(found, exposition, env),
            None => {
                let message = match default {
                    Some(group) => format!("names no group, and the default group {group} does not exist"),
                    None => "names no group, and there is no default group".to_owned(),
                };
                let remedy = format!("name a GatewayGroup, or create one named `default` in namespace {namespace}");
                Err(Stop::new(Reason::GatewayGroupNotFound, path, message, remedy))
            }
        }
    }

    fn find(&self, namespace: &str, name: &str) -> Option<Placement<'r>> {
        if let Some(group) = self.by_name.get(&(namespace, name)) {
            return Some(Placement::In(group));
        }
        self.unusable.group(namespace, name).map(Placement::Unreadable)
    }

    /// Checks that a group belongs to this operator, is the oldest of its namespace, and admits the exposition.
    fn permitted(
        &self,
        placement: Placement<'r>,
        exposition: &Resource<ExpositionSpec>,
        env: &CompileEnv<'_>,
    ) -> Result<Placement<'r>, Stop> {
        let Placement::In(group) = placement else { return Ok(placement) };
        if env.cluster.as_ref().is_some_and(|cluster| !is_ours(group, cluster)) {
            return Ok(Placement::Foreign);
        }
        let path = FieldPath::spec(["gatewayGroup"]);
        if self.second.contains(&group.name) {
            let message =
                format!("GatewayGroup {} is not the oldest of its namespace, so it serves nothing", group.name);
            return Err(Stop::new(Reason::Conflict, path, message, "name the oldest group of that namespace"));
        }
        let namespace = exposition.name.namespace.as_str();
        let refused = |remedy: &str| {
            let message = format!("GatewayGroup {} does not allow expositions of namespace {namespace}", group.name);
            Err(Stop::new(Reason::RefNotPermitted, path.clone(), message, remedy))
        };
        let allowed = group.spec.allowed_namespaces.as_ref();
        match (allowed.map_or(NamespacesFrom::Same, |a| a.from), &env.cluster) {
            (NamespacesFrom::All, _) => Ok(placement),
            (NamespacesFrom::Same, _) if group.name.namespace == namespace => Ok(placement),
            (NamespacesFrom::Same, _) => {
                refused("set `allowedNamespaces: {from: All}` in the group, or use another group")
            }
            (NamespacesFrom::Selector, None) => {
                refused("set `allowedNamespaces: {from: All}` or `Same`: namespaces have labels in a cluster only")
            }
            (NamespacesFrom::Selector, Some(cluster)) => {
                let wanted = allowed.and_then(|allowed| allowed.selector.as_ref());
                let there = cluster.namespaces.labels(namespace);
                let matches = wanted.zip(there).is_some_and(|(wanted, there)| {
                    wanted.match_labels.iter().all(|(key, value)| there.get(key) == Some(value))
                });
                if matches {
                    Ok(placement)
                } else if !cluster.namespaces.may_read(namespace) {
                    let message = format!(
                        "GatewayGroup {} selects namespaces by label, and the operator is not allowed to read the labels of {namespace}",
                        group.name
                    );
                    let remedy = "allow it to `get` the namespace (docs/rbac.md), or set `from: Same` or `All`";
                    Err(Stop::new(Reason::RefNotPermitted, path, message, remedy))
                } else {
                    refused("add the labels of the group's selector to the namespace, or use another group")
                }
            }
        }
    }

    /// Checks that an exposition stays within the ceilings of its group, or the default ceilings without a group.
    pub(super) fn ceilings(
        group: Option<&Group>,
        exposition: &ExpositionSpec,
        limits: &CallLimits,
    ) -> Result<(), Stop> {
        let none = GatewayGroupSpec::default();
        let spec = group.map_or(&none, |group| &group.spec);
        let whose =
            group.map_or("without a GatewayGroup".to_owned(), |group| format!("in GatewayGroup {}", group.name));
        let above = |path, what: &str, ceiling: String, field: &str| {
            let message = format!("{what} must be at most {ceiling} {whose}");
            let remedy = format!("lower it, or raise `{field}` in the GatewayGroup");
            Err(Stop::new(Reason::BelowGroupFloor, path, message, remedy))
        };
        let ceiling = spec.response_ceiling();
        if limits.max_response_bytes > ceiling {
            let path = FieldPath::spec(["limits", "maxResponseBytes"]);
            return above(path, "`maxResponseBytes`", format!("{ceiling} bytes"), "maxResponseBytes");
        }
        let ceiling = spec.timeout_ceiling_ms();
        if limits.timeout_ms > ceiling {
            let own = exposition.limits.as_ref().is_some_and(|limits| limits.timeout.is_some());
            let path =
                if own { FieldPath::spec(["limits", "timeout"]) } else { FieldPath::spec(["configurationPlan"]) };
            return above(path, "the timeout of a call", format!("{ceiling}ms"), "maxTimeout");
        }
        Ok(())
    }

    /// Checks that an exposition meets the floors of its group.
    pub(super) fn floors(
        group: Option<&Group>,
        exposition: &ExpositionSpec,
        access: Option<&Access>,
        enforcement: Enforcement,
        env: &CompileEnv<'_>,
    ) -> Result<(), Stop> {
        let full = exposition.audit.is_some_and(|audit| audit.mode == AuditMode::Full);
        let file = group.and_then(|g| g.spec.audit).is_some_and(|audit| audit.sink == AuditSink::File);
        if full && !file && !env.full_audit {
            let message = "mode Full requires a sink for full outputs";
            let remedy = match env.cluster {
                Some(_) => "set `audit: {sink: File}` in the GatewayGroup",
                None => {
                    "pass `--audit-dir DIR` to `tamis serve`; in a cluster set `audit: {sink: File}` in the GatewayGroup"
                }
            };
            return Err(Stop::new(Reason::Conflict, FieldPath::spec(["audit", "mode"]), message, remedy));
        }
        let Some((group, floors)) = group.and_then(|g| Some((g, g.spec.require?))) else { return Ok(()) };
        // `allow_lists` concerns compiled filters: see `Groups::allow_lists`.
        let FloorsSpec { access: authenticated, enforced, allow_lists: _, audit } = floors;
        let below = |path, what: &str, remedy: &str| {
            let message = format!("GatewayGroup {} requires {what}", group.name);
            Err(Stop::new(Reason::BelowGroupFloor, path, message, remedy))
        };
        if enforced && enforcement != Enforcement::Enforced {
            return below(FieldPath::spec(["enforcement"]), "`enforcement: Enforced`", "set it");
        }
        if authenticated {
            Self::access_floor(Some(group), access)?;
        }
        if audit == Some(AuditMode::Full) && !full {
            return below(FieldPath::spec(["audit"]), "full audit records", "set `audit: {mode: Full}`");
        }
        Ok(())
    }

    /// Checks that the callers of an exposition authenticate, if its group requires that. An exposition that is called
    /// through bundles only has their callers, and a bundle belongs to the same group.
    pub(super) fn access_floor(group: Option<&Group>, access: Option<&Access>) -> Result<(), Stop> {
        let requires = |group: &&Group| group.spec.require.is_some_and(|floors| floors.access);
        let Some(group) = group.filter(requires) else { return Ok(()) };
        match access {
            Some(Access::ApiKeys { .. } | Access::BundleOnly) => Ok(()),
            None | Some(Access::Anonymous) => {
                let message = format!("GatewayGroup {} requires authenticated callers", group.name);
                let remedy = "set `apiKeys` instead of `anonymous`";
                Err(Stop::new(Reason::BelowGroupFloor, FieldPath::spec(["access"]), message, remedy))
            }
        }
    }

    /// Checks that the limits that a bundle sets stay within the ceilings of its group.
    pub(super) fn bundle_ceilings(
        group: Option<&Group>,
        exposition: &ExpositionSpec,
        limits: &BundleLimits,
    ) -> Result<(), Stop> {
        let limits = CallLimits {
            timeout_ms: limits.timeout_ms.unwrap_or_default(),
            max_response_bytes: limits.max_response_bytes.unwrap_or_default(),
            ..CallLimits::default()
        };
        Self::ceilings(group, exposition, &limits)
    }

    /// Checks that all filters of an `Enforced` exposition are allow-lists, if its group requires that. `open`: published tools
    /// whose filter is not an allow-list, each with the filter's set.
    pub(super) fn allow_lists(
        group: Option<&Group>,
        enforcement: Enforcement,
        open: &[(String, String)],
    ) -> Result<(), Stop> {
        let requires = |group: &&Group| group.spec.require.is_some_and(|floors| floors.allow_lists);
        let (Some(group), Enforcement::Enforced, Some((tool, set))) =
            (group.filter(requires), enforcement, open.first())
        else {
            return Ok(());
        };
        let whose = if set == MANIFEST { "the manifest".to_owned() } else { format!("set {set}") };
        let more = match open.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let message = format!(
            "GatewayGroup {} requires allow-lists, but the filter of `{tool}` in {whose} passes data that it does not name{more}",
            group.name
        );
        let remedy = "name the data that may pass with `select`, `retain` or, for text, `text.keep`, without globs and without `passthrough`";
        Err(Stop::new(Reason::BelowGroupFloor, FieldPath::spec(["filters"]), message, remedy))
    }
}

fn is_ours(group: &Group, cluster: &Cluster<'_>) -> bool {
    group.spec.controller_name.as_deref().unwrap_or(DEFAULT_CONTROLLER_NAME) == cluster.controller_name
}

//! Gateway groups and the floors they set.

use std::collections::HashMap;
use std::sync::Arc;

use tamis_engine::Enforcement;

use super::expose::Stop;
use super::{CompileEnv, duplicate_names};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{AuditMode, AuditSink, ExpositionSpec, GatewayGroupSpec, NamespacesFrom};
use crate::{Diagnostic, Resource};

type Group = Arc<Resource<GatewayGroupSpec>>;

/// All groups by namespace and name.
pub(super) struct Groups<'r> {
    all: &'r [Group],
    by_name: HashMap<(&'r str, &'r str), &'r Group>,
}

impl<'r> Groups<'r> {
    pub(super) fn new(all: &'r [Group], diagnostics: &mut Vec<Diagnostic>) -> Self {
        duplicate_names("GatewayGroup", all, diagnostics);
        let mut by_name = HashMap::new();
        for group in all {
            by_name.entry((group.name.namespace.as_str(), group.name.name.as_str())).or_insert(group);
        }
        Self { all, by_name }
    }

    /// The one group, where there is one.
    pub(super) fn sole(&self) -> Option<Group> {
        match self.all {
            [group] => Some(Arc::clone(group)),
            _ => None,
        }
    }

    /// The group of an exposition: the one it names, `default` of its namespace, or the only one there is.
    pub(super) fn of(&self, exposition: &Resource<ExpositionSpec>) -> Result<Option<&'r Group>, Stop> {
        let namespace = exposition.name.namespace.as_str();
        let Some(wanted) = &exposition.spec.gateway_group else {
            let own = self.by_name.get(&(namespace, "default")).copied();
            return Ok(own.or(match self.all {
                [group] => Some(group),
                _ => None,
            }));
        };
        let path = FieldPath::spec(["gatewayGroup"]);
        let wanted_namespace = wanted.namespace.as_deref().unwrap_or(namespace);
        let Some(group) = self.by_name.get(&(wanted_namespace, wanted.name.as_str())).copied() else {
            let message = format!("there is no GatewayGroup {wanted_namespace}/{}", wanted.name);
            let names = self.all.iter().map(|g| g.name.name.as_str());
            let remedy = match did_you_mean(&wanted.name, names) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "add it, or remove the field".to_owned(),
            };
            return Err(Stop::new("GatewayGroupNotFound", path, message, remedy));
        };
        let allowed = group.spec.allowed_namespaces.as_ref().map_or(NamespacesFrom::Same, |a| a.from);
        if allowed == NamespacesFrom::Same && group.name.namespace != namespace {
            let message = format!("GatewayGroup {} takes no exposition of namespace {namespace}", group.name);
            let remedy = "write `allowedNamespaces: {from: All}` into the group, or use another";
            return Err(Stop::new("RefNotPermitted", path, message, remedy));
        }
        Ok(Some(group))
    }

    /// Whether an exposition stays above its group's floors.
    pub(super) fn floors(
        group: Option<&Group>,
        exposition: &ExpositionSpec,
        enforcement: Enforcement,
        env: &CompileEnv<'_>,
    ) -> Result<(), Stop> {
        let full = exposition.audit.is_some_and(|audit| audit.mode == AuditMode::Full);
        let file = group.and_then(|g| g.spec.audit).is_some_and(|audit| audit.sink == AuditSink::File);
        if full && !file && !env.full_audit {
            let message = "Full needs a place for whole outputs";
            let remedy = "write `audit: {sink: File}` into the GatewayGroup";
            return Err(Stop::new("Conflict", FieldPath::spec(["audit", "mode"]), message, remedy));
        }
        let Some((group, floors)) = group.and_then(|g| Some((g, g.spec.require?))) else { return Ok(()) };
        let below = |path, what: &str, remedy: &str| {
            Err(Stop::new("BelowGroupFloor", path, format!("GatewayGroup {} requires {what}", group.name), remedy))
        };
        if floors.enforced && enforcement != Enforcement::Enforced {
            return below(FieldPath::spec(["enforcement"]), "Enforced", "write `enforcement: Enforced`");
        }
        let anonymous = exposition.access.as_ref().is_none_or(|access| access.api_keys.is_none());
        if floors.access && anonymous {
            let remedy = "say who may call; `anonymous` is not enough";
            return below(FieldPath::spec(["access"]), "authenticated callers", remedy);
        }
        if floors.audit == Some(AuditMode::Full) && !full {
            return below(FieldPath::spec(["audit"]), "a full audit", "write `audit: {mode: Full}`");
        }
        Ok(())
    }
}

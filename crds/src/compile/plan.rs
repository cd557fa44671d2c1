//! Compiles ConfigurationPlans: the same service with another way to its upstream.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{Auth, Call, Digest, GrpcSource, HttpCall, HttpSource, McpSource, ServiceDocument, Source};

use super::service::{QUERY, base_url};
use super::template::placeholders;
use super::{auth, duplicate_names};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{ConfigurationPlanSpec, PlanHeadersSpec};
use crate::sink::DiagnosticSink;
use crate::{Diagnostic, ObjectName, Resource};

/// A plan, and whether it is valid.
pub(super) struct Plan<'r> {
    pub(super) resource: &'r Arc<Resource<ConfigurationPlanSpec>>,
    auth: Option<Auth>,
    /// Whether the plan has errors.
    pub(super) failed: bool,
}

/// All plans by namespace and name, and the services derived from them.
pub(super) struct Plans<'r> {
    by_name: HashMap<(&'r str, &'r str), Plan<'r>>,
    derived: HashMap<(Digest, &'r str, &'r str), (Digest, Arc<ServiceDocument>)>,
}

impl<'r> Plans<'r> {
    pub(super) fn new(all: &'r [Arc<Resource<ConfigurationPlanSpec>>], diagnostics: &mut Vec<Diagnostic>) -> Self {
        duplicate_names("ConfigurationPlan", all, diagnostics);
        let mut by_name = HashMap::new();
        for resource in all {
            let mut sink = DiagnosticSink::new(&resource.origin, diagnostics);
            let auth = check(&resource.spec, &mut sink);
            let plan = Plan { resource, auth, failed: sink.failed };
            by_name.entry((resource.name.namespace.as_str(), resource.name.name.as_str())).or_insert(plan);
        }
        Self { by_name, derived: HashMap::new() }
    }

    /// Returns the plan that an exposition of `namespace` names, or the message and remedy if it does not exist.
    pub(super) fn find<'p>(&'p self, namespace: &'p str, name: &'p str) -> Result<&'p Plan<'r>, (String, String)> {
        self.by_name.get(&(namespace, name)).ok_or_else(|| {
            let here = self.by_name.keys().filter(|(of, _)| *of == namespace).map(|(_, name)| *name);
            let message = format!("ConfigurationPlan {namespace}/{name} does not exist");
            let remedy = match did_you_mean(name, here) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "create it, or remove the field".to_owned(),
            };
            (message, remedy)
        })
    }

    /// Returns the service as modified by a plan, shared by all expositions of both.
    pub(super) fn derive(
        &mut self,
        (namespace, name): (&str, &str),
        service: &(Digest, Arc<ServiceDocument>),
    ) -> (Digest, Arc<ServiceDocument>) {
        let Some(plan) = self.by_name.get(&(namespace, name)) else { return service.clone() };
        let ObjectName { namespace, name } = &plan.resource.name;
        self.derived
            .entry((service.0.clone(), namespace, name))
            .or_insert_with(|| {
                let mut document = ServiceDocument::clone(&service.1);
                plan.apply(&mut document);
                (document.digest(), Arc::new(document))
            })
            .clone()
    }
}

impl Plan<'_> {
    fn apply(&self, document: &mut ServiceDocument) {
        let spec = &self.resource.spec;
        match &mut document.source {
            Source::Http(HttpSource { base_url, auth })
            | Source::Mcp(McpSource { url: base_url, auth, .. })
            | Source::Grpc(GrpcSource { endpoint: base_url, auth, .. }) => {
                if let Some(endpoint) = &spec.endpoint {
                    base_url.clone_from(endpoint);
                }
                if self.auth.is_some() {
                    auth.clone_from(&self.auth);
                }
            }
            // Has none of both. A plan with either stops the exposition.
            Source::Program(_) | Source::Command(_) => {}
        }
        if let (
            Source::Mcp(McpSource { headers: own, .. }) | Source::Grpc(GrpcSource { headers: own, .. }),
            Some(headers),
        ) = (&mut document.source, &spec.headers)
        {
            merge(own, headers);
        }
        let templates = document.content.templates.values_mut().map(|template| &mut template.read);
        for tool in document.tools.values_mut().chain(templates) {
            match &mut tool.call {
                Call::Http(call) => {
                    let HttpCall { auth, request, .. } = &mut **call;
                    if self.auth.is_some() {
                        *auth = None;
                    }
                    if let Some(headers) = &spec.headers {
                        merge(&mut request.headers, headers);
                    }
                }
                // The wrapped tool of an alias is changed itself.
                Call::Alias(_) => {}
                // Has nothing of its own: the headers are those of the source, and a program gets none.
                Call::Mcp(_) | Call::Grpc(_) | Call::Command(_) => {}
            }
        }
    }
}

/// Header names are compared without regard to case.
fn merge(headers: &mut IndexMap<String, String>, PlanHeadersSpec { set, remove, .. }: &PlanHeadersSpec) {
    let goes = |name: &str| set.keys().chain(remove).any(|other| other.eq_ignore_ascii_case(name));
    headers.retain(|name, _| !goes(name));
    headers.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
}

fn check(spec: &ConfigurationPlanSpec, sink: &mut DiagnosticSink<'_>) -> Option<Auth> {
    if let Some(endpoint) = &spec.endpoint {
        base_url(endpoint, &FieldPath::spec(["endpoint"]), QUERY, sink);
    }
    if let Some(headers) = &spec.headers {
        check_headers(headers, &FieldPath::spec(["headers"]), sink);
    }
    spec.auth.as_ref().map(|spec| auth::compile(spec, &FieldPath::spec(["auth"]), sink))
}

fn check_headers(headers: &PlanHeadersSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in &headers.set {
        let at = at.key("set").key(name);
        header(name, &at, sink);
        auth::header_text(value, &at, sink);
        if placeholders(value).next().is_some() {
            // In a request's templates the placeholder would stand for an argument of the caller.
            sink.error(&at, "has a placeholder, but the value is fixed", "write it without the braces");
        }
        if seen.contains(&name.to_ascii_lowercase()) {
            sink.error(&at, "occurs twice, with different case", "remove one of them");
        }
        seen.push(name.to_ascii_lowercase());
    }
    for (index, name) in headers.remove.iter().enumerate() {
        let at = at.key("remove").index(index);
        header(name, &at, sink);
        if seen.contains(&name.to_ascii_lowercase()) {
            sink.error(&at, "is both set and removed", "keep one of the two");
        }
    }
}

fn header(name: &str, at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    if name.eq_ignore_ascii_case("authorization") {
        sink.error(at, "documents must not contain credentials", "use `auth` with a secretRef");
    } else {
        auth::header_name(name, at, sink);
    }
}

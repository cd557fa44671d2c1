//! Compiles CustomTools: aliases of a service's tools.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use tamis_config::{Alias, Call, Reason, ServiceDocument, ServiceTool};
use tamis_engine::JsonText;
use tamis_schema::Patterns;

use super::service::{Services, tool_name};
use super::size::{self, MAX_SERVICE_BYTES};
use super::source::graphql::RELATION;
use super::template::{placeholders, strings};
use super::unusable::Unusables;
use super::{duplicate_names, schema, template};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{CustomToolSpec, CustomToolsSpec, ServiceRef};
use crate::sink::DiagnosticSink;
use crate::{Diagnostic, Resource};

type Custom = Arc<Resource<CustomToolsSpec>>;

/// All CustomTools by service.
pub(super) struct CustomToolsIndex<'r> {
    all: &'r [Custom],
    by_service: BTreeMap<(&'r str, &'r str, &'r str), Vec<&'r Custom>>,
}

impl<'r> CustomToolsIndex<'r> {
    pub(super) fn new(all: &'r [Custom], diagnostics: &mut Vec<Diagnostic>) -> Self {
        duplicate_names("CustomTools", all, diagnostics);
        let mut by_service: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for custom in all {
            let ServiceRef { name, version } = &custom.spec.service;
            by_service
                .entry((custom.name.namespace.as_str(), name.as_str(), version.as_str()))
                .or_default()
                .push(custom);
        }
        Self { all, by_service }
    }

    /// Adds the tools of one service to its document, except those with errors. Returns whether any tool was left out.
    pub(super) fn add_to(
        &self,
        document: &mut ServiceDocument,
        key: (&str, &str, &str),
        manifest: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> bool {
        let mut lost = false;
        let Some(customs) = self.by_service.get(&key) else { return false };
        if document.followed().is_some() {
            for custom in customs {
                let message = "the service follows its MCP server (`mcp.follow`), so its tools are not known";
                let remedy = "pin the tools with `tamis import mcp` and remove `follow`, or remove the CustomTools";
                let error = custom.origin.error(&FieldPath::spec(["service"]), message, remedy);
                diagnostics.push(error.because(Reason::InvalidManifest));
            }
            return false;
        }
        let mut patterns = Patterns::default();
        let own: Vec<String> = document.tools.keys().cloned().collect();
        let mut taken: BTreeMap<String, String> = own.into_iter().map(|tool| (tool, manifest.to_owned())).collect();
        let mut bases = Bases::default();
        let mut room = MAX_SERVICE_BYTES.saturating_sub(size::length(document));
        for custom in customs {
            let mut refused = 0_usize;
            for (alias, spec) in &custom.spec.custom_tools {
                let at = FieldPath::spec(["customTools", alias]);
                let mut sink = DiagnosticSink::new(&custom.origin, diagnostics);
                if let Some(other) = taken.get(alias) {
                    let message = format!("a tool of this name is already defined in {other}");
                    sink.because(Reason::Conflict).error(&at, message, "choose another name");
                    lost |= !document.tools.contains_key(alias);
                    continue;
                }
                taken.insert(alias.clone(), custom.origin.place());
                let Some(base) = bases.find(document, spec, &at, &mut sink) else {
                    lost = true;
                    continue;
                };
                // Check the length before copying anything.
                let bytes = base.bytes + alias.len() + size::length(spec);
                if bytes > room {
                    (lost, refused) = (true, refused + 1);
                    continue;
                }
                let tool = tool(document, base, spec, alias, (&at, &mut patterns), &mut sink).filter(|_| !sink.failed);
                lost |= tool.is_none();
                if let Some(tool) = tool {
                    room -= bytes;
                    document.tools.insert(alias.clone(), tool);
                }
            }
            if refused > 0 {
                let message = format!(
                    "{refused} tools exceed the limit: the tools of a service, with all that aliases repeat, may have {} MiB",
                    MAX_SERVICE_BYTES >> 20
                );
                let remedy = "define fewer tools, or shorten the descriptions of the tools that they wrap";
                let error = custom.origin.error(&FieldPath::spec(["customTools"]), message, remedy);
                diagnostics.push(error.because(Reason::TooLarge));
            }
        }
        lost
    }

    /// Checks that the services of CustomTools exist.
    pub(super) fn references(&self, services: &Services<'_>, unusable: &Unusables<'_>, out: &mut Vec<Diagnostic>) {
        for custom in self.all {
            let (namespace, service) = (&custom.name.namespace, &custom.spec.service);
            if let Err((message, remedy)) = services.find(namespace, service)
                && unusable.manifest(namespace, service).is_none()
            {
                let error = custom.origin.error(&FieldPath::spec(["service"]), message, remedy);
                out.push(error.because(Reason::ServiceNotFound));
            }
        }
    }
}

/// The properties of a wrapped tool, computed once for all of its aliases.
struct Base {
    /// Length of its JSON without its call, which an alias does not repeat.
    bytes: usize,
    takes: Vec<String>,
    required: Vec<String>,
}

/// Number of unknown tools with a suggested name: comparing names costs more than reading them.
const HINTS: usize = 20;

/// The wrapped tools.
#[derive(Default)]
struct Bases {
    found: HashMap<String, Base>,
    unknown: usize,
}

impl Bases {
    /// Returns the wrapped tool, or `None` if the manifest does not have it.
    fn find(
        &mut self,
        document: &ServiceDocument,
        spec: &CustomToolSpec,
        at: &FieldPath,
        sink: &mut DiagnosticSink<'_>,
    ) -> Option<&Base> {
        let Some(made_of) = document.tools.get(&spec.tool).filter(|tool| tool.alias().is_none()) else {
            self.unknown += 1;
            let manifest = document.tools.iter().filter(|(_, tool)| tool.alias().is_none());
            let manifest = manifest.filter(|_| self.unknown <= HINTS);
            let remedy = match did_you_mean(&spec.tool, manifest.map(|(name, _)| name.as_str())) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "name a tool of the ServiceManifest".to_owned(),
            };
            let message = format!("service {} has no tool `{}`", document.name, spec.tool);
            sink.because(Reason::ToolNotFound).error(&at.key("tool"), message, remedy);
            return None;
        };
        Some(self.found.entry(spec.tool.clone()).or_insert_with(|| Base {
            bytes: size::length(made_of) - size::length(&made_of.call),
            takes: members(&made_of.input_schema, "properties"),
            required: required(&made_of.input_schema),
        }))
    }
}

/// Returns the alias, or `None` if its input schema cannot be used.
fn tool(
    document: &ServiceDocument,
    base: &Base,
    spec: &CustomToolSpec,
    alias: &str,
    (at, patterns): (&FieldPath, &mut Patterns),
    sink: &mut DiagnosticSink<'_>,
) -> Option<ServiceTool> {
    tool_name(alias, at, sink);
    let made_of = document.tools.get(&spec.tool)?;
    let input = match &spec.input {
        Some(input) => {
            if !check_input(input, &at.key("input"), patterns, sink) {
                return None;
            }
            input
        }
        None => &made_of.input_schema,
    };
    let mut takes = base.takes.clone();
    let mut given = members(input, "properties");
    // Where the gateway fetches pages, the caller sets the page parameter, whatever the schemas name.
    let paging = made_of.pagination.as_ref().map(|pages| pages.kind.argument());
    takes.extend(paging.map(str::to_owned));
    given.extend(paging.map(str::to_owned));
    let arguments = spec.arguments.as_ref().map(|arguments| without_dollars(arguments, &given));
    match &arguments {
        Some(arguments) => check_arguments(arguments, spec, (&takes, &given), &at.key("arguments"), sink),
        None => {
            let input = at.key("input").key("properties");
            for name in given.iter().filter(|name| !takes.contains(name)) {
                let message = format!("tool `{}` has no such argument", spec.tool);
                sink.error(
                    &input.key(name),
                    message,
                    "map it to an argument of the tool with `arguments`, or remove it",
                );
            }
        }
    }
    for name in &base.required {
        let there = spec.arguments.as_ref().map_or_else(|| given.contains(name), |map| map.contains_key(name));
        if !there {
            let message = format!("tool `{}` requires the argument `{name}`", spec.tool);
            sink.error(&at.key("arguments"), message, "give it a value");
        }
    }
    Some(ServiceTool {
        title: spec.title.clone().or_else(|| made_of.title.clone()),
        description: spec.description.clone().or_else(|| made_of.description.clone()),
        input_schema: input.clone(),
        output_schema: made_of.output_schema.clone(),
        response_type: made_of.response_type,
        risk: made_of.risk,
        pagination: made_of.pagination.clone(),
        call: Call::Alias(Alias { tool: spec.tool.clone(), arguments }),
    })
}

/// Returns the arguments with `{name}` in place of reShapr's `${name}`. A brace that begins a placeholder is inside a
/// string, since a name contains no quotation mark.
fn without_dollars(arguments: &IndexMap<String, JsonText>, given: &[String]) -> IndexMap<String, JsonText> {
    let each = |(name, value): (&String, &JsonText)| {
        let text = template::without_dollars(value.as_str(), |name| given.iter().any(|given| given == name));
        (name.clone(), JsonText::parse(text).unwrap_or_else(|_| value.clone()))
    };
    arguments.iter().map(each).collect()
}

/// Returns whether the input is the schema of an object, by which the gateway can validate arguments.
fn check_input(input: &JsonText, at: &FieldPath, patterns: &mut Patterns, sink: &mut DiagnosticSink<'_>) -> bool {
    if !schema::check_object(input, at, patterns, sink) {
        return false;
    }
    for name in members(input, "properties").iter().filter(|name| name.starts_with('_')) {
        let at = at.key("properties").key(name);
        sink.error(&at, "names that begin with `_` are reserved", "rename the argument");
    }
    true
}

/// Checks that the wrapped tool accepts every argument, and that placeholders name arguments of the alias.
fn check_arguments(
    arguments: &IndexMap<String, JsonText>,
    spec: &CustomToolSpec,
    (takes, given): (&[String], &[String]),
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) {
    for (name, template) in arguments {
        let at = at.key(name);
        if !takes.contains(name) {
            let remedy = match did_you_mean(name, takes.iter().map(String::as_str)) {
                _ if name.starts_with(RELATION) => "translate it with `tamis import graphql --custom-tools`".to_owned(),
                Some(known) => format!("did you mean `{known}`?"),
                None => "remove it".to_owned(),
            };
            sink.error(&at, format!("tool `{}` has no such argument", spec.tool), remedy);
        }
        let value: Value = serde_json::from_str(template.as_str()).unwrap_or_default();
        strings(&value, &at, &mut |at, text| {
            for place in placeholders(text).filter(|place| !given.iter().any(|given| given == place)) {
                let remedy = match did_you_mean(place, given.iter().map(String::as_str)) {
                    Some(known) => format!("did you mean `{{{known}}}`?"),
                    None => "declare it in `input`, or write a space after the brace to keep it as text".to_owned(),
                };
                sink.error(at, format!("there is no argument `{place}`"), remedy);
            }
        });
    }
}

fn members(schema: &JsonText, of: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema.as_str()).unwrap_or_default();
    let members = schema.get(of).and_then(Value::as_object);
    members.into_iter().flat_map(|members| members.keys().cloned()).collect()
}

/// Returns the required arguments.
fn required(schema: &JsonText) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema.as_str()).unwrap_or_default();
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

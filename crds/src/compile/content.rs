//! Compiles Prompts and Resources: what a service offers beside its tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{
    NamePatterns, PromptArgument, PromptMessage, PublishedContent, Reason, ServiceDocument, ServicePrompt, Source,
};
use tamis_engine::Enforcement;

use super::expose::Stop;
use super::selection::{Selected, Words};
use super::service::Services;
use super::size::{self, MAX_SERVICE_BYTES};
use super::template::{is_name, placeholders, without_dollars};
use super::unusable::Unusables;
use super::{duplicate_names, resources};
use crate::diagnostic::did_you_mean;
use crate::origin::FieldPath;
use crate::resources::{
    ContentSelection, ExpositionSpec, PromptMessageSpec, PromptResultSpec, PromptSpec, PromptsSpec, ResourcesSpec,
    ServiceRef,
};
use crate::sink::DiagnosticSink;
use crate::{Diagnostic, Resource};

/// The most prompts, and the most resources and templates, of one document.
pub(crate) const MAX_CONTENT: usize = 1000;
/// The most arguments, and the most messages, of a prompt.
pub(crate) const MAX_PROMPT_PARTS: usize = 64;
/// The most bytes of the messages of a prompt.
pub(crate) const MAX_PROMPT_BYTES: usize = 256 << 10;
/// The most values of an argument or a variable, and the most bytes of each.
pub(crate) const MAX_VALUES: (usize, usize) = (256, 256);

/// The service that a document binds to, for the index.
type Key<'r> = (&'r str, &'r str, &'r str);

/// All Prompts and Resources by service. Of two documents with a prompt or a resource of one name, the first one holds:
/// in a cluster that is the oldest.
pub(super) struct ContentIndex<'r> {
    prompts: &'r [Arc<Resource<PromptsSpec>>],
    resources: &'r [Arc<Resource<ResourcesSpec>>],
    by_service: BTreeMap<Key<'r>, Bound<'r>>,
}

/// The documents of one service.
#[derive(Default)]
struct Bound<'r> {
    prompts: Vec<&'r Resource<PromptsSpec>>,
    resources: Vec<&'r Resource<ResourcesSpec>>,
}

impl<'r> ContentIndex<'r> {
    pub(super) fn new(
        prompts: &'r [Arc<Resource<PromptsSpec>>],
        resources: &'r [Arc<Resource<ResourcesSpec>>],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        duplicate_names("Prompts", prompts, diagnostics);
        duplicate_names("Resources", resources, diagnostics);
        let mut by_service: BTreeMap<Key<'r>, Bound<'r>> = BTreeMap::new();
        for resource in prompts {
            by_service.entry(key(&resource.name.namespace, &resource.spec.service)).or_default().prompts.push(resource);
        }
        for resource in resources {
            let key = key(&resource.name.namespace, &resource.spec.service);
            by_service.entry(key).or_default().resources.push(resource);
        }
        Self { prompts, resources, by_service }
    }

    /// Adds the prompts and resources of one service to its document, except those with errors.
    pub(super) fn add_to(&self, document: &mut ServiceDocument, key: Key<'_>, diagnostics: &mut Vec<Diagnostic>) {
        let Some(Bound { prompts, resources }) = self.by_service.get(&key) else { return };
        let mut adding =
            Adding { room: MAX_SERVICE_BYTES.saturating_sub(size::length(document)), taken: BTreeMap::new() };
        for bound in prompts {
            let at = FieldPath::spec(["prompts"]);
            let compile = |name: &str, spec: &PromptSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>| {
                prompt(name, spec, at, sink)
            };
            let to = &mut document.content.prompts;
            adding.add((bound, &bound.spec.prompts), to, &at, compile, diagnostics);
        }
        adding.taken.clear();
        for bound in resources {
            let at = FieldPath::spec(["resources"]);
            let to = &mut document.content.resources;
            adding.add((bound, &bound.spec.resources), to, &at, resources::resource, diagnostics);
            let at = FieldPath::spec(["resourceTemplates"]);
            if let (Source::Mcp(_) | Source::Program(_), Some((template, _))) =
                (&document.source, bound.spec.resource_templates.first())
            {
                let message = "a template is read by HTTP, and the service is an MCP server";
                let remedy = "remove it; `resources` of an Exposition selects the server's own templates";
                diagnostics.push(bound.origin.error(&at.key(template), message, remedy));
                continue;
            }
            if let (Source::Command(_), Some((template, _))) = (&document.source, bound.spec.resource_templates.first())
            {
                let message = "a template is read by HTTP, and the service is a program";
                diagnostics.push(bound.origin.error(&at.key(template), message, "remove it"));
                continue;
            }
            let to = &mut document.content.templates;
            adding.add((bound, &bound.spec.resource_templates), to, &at, resources::template, diagnostics);
        }
    }

    /// Checks that the services of Prompts and Resources exist.
    pub(super) fn references(&self, services: &Services<'_>, unusable: &Unusables<'_>, out: &mut Vec<Diagnostic>) {
        let prompts = self.prompts.iter().map(|r| (&r.name.namespace, &r.spec.service, &r.origin));
        let resources = self.resources.iter().map(|r| (&r.name.namespace, &r.spec.service, &r.origin));
        for (namespace, service, origin) in prompts.chain(resources) {
            if let Err((message, remedy)) = services.find(namespace, service)
                && unusable.manifest(namespace, service).is_none()
            {
                let error = origin.error(&FieldPath::spec(["service"]), message, remedy);
                out.push(error.because(Reason::ServiceNotFound));
            }
        }
    }
}

fn key<'r>(namespace: &'r str, service: &'r ServiceRef) -> Key<'r> {
    (namespace, &service.name, &service.version)
}

/// The state of adding the documents of one service.
struct Adding {
    /// Bytes that are left of the service's document.
    room: usize,
    /// The place of each name that is taken.
    taken: BTreeMap<String, String>,
}

impl Adding {
    /// Adds the entries of one document to the service's.
    fn add<S: serde::Serialize, B, T>(
        &mut self,
        (bound, entries): (&Resource<B>, &IndexMap<String, S>),
        to: &mut IndexMap<String, T>,
        at: &FieldPath,
        compile: impl Fn(&str, &S, &FieldPath, &mut DiagnosticSink<'_>) -> T,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let mut refused = 0_usize;
        for (name, spec) in entries {
            let at = at.key(name);
            let mut sink = DiagnosticSink::new(&bound.origin, diagnostics);
            if let Some(other) = self.taken.get(name) {
                let message = format!("is already defined in {other}");
                sink.because(Reason::Conflict).error(&at, message, "choose another name, or remove one of them");
                continue;
            }
            self.taken.insert(name.clone(), bound.origin.place());
            // A placeholder takes no more in the document than here, so the length of the specification is enough.
            let bytes = name.len() + size::length(spec);
            if bytes > self.room {
                refused += 1;
                continue;
            }
            let compiled = compile(name, spec, &at, &mut sink);
            if !sink.failed {
                self.room -= bytes;
                to.insert(name.clone(), compiled);
            }
        }
        if refused > 0 {
            let message = format!(
                "{refused} entries exceed the limit: the tools, prompts and resources of a service may have {} MiB",
                MAX_SERVICE_BYTES >> 20
            );
            let error = bound.origin.error(at, message, "remove some of them, or shorten their texts");
            diagnostics.push(error.because(Reason::TooLarge));
        }
    }
}

/// Checks a prompt and converts it for the gateway. Errors leave the result unspecified, because it is not published then.
fn prompt(name: &str, spec: &PromptSpec, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> ServicePrompt {
    let PromptSpec { title, description, arguments: declared, result } = spec;
    if !is_short_line(name) {
        sink.error(at, "is not a valid name of a prompt", "use one line of 1 to 128 characters");
    }
    if declared.len() > MAX_PROMPT_PARTS {
        let message = format!("has {} entries, more than the limit of {MAX_PROMPT_PARTS}", declared.len());
        sink.error(&at.key("arguments"), message, "remove some of them");
    }
    let mut arguments = IndexMap::new();
    for (index, argument) in declared.iter().enumerate() {
        let at = at.key("arguments").index(index);
        if !is_name(&argument.name) {
            sink.error(&at.key("name"), "is not a valid argument name", "use 1 to 64 of A-Z a-z 0-9 _ - .");
        }
        let values = argument.values.clone().unwrap_or_default();
        if argument.values.is_some() {
            check_values(&values, &at.key("enum"), sink);
        }
        if let Some(default) = argument.default.as_ref().filter(|_| !values.is_empty())
            && !values.contains(default)
        {
            sink.error(&at.key("default"), "is not one of `enum`", "choose one of them");
        }
        if argument.required && argument.default.is_some() {
            let remedy = "remove `default` or `required`";
            sink.warning(&at.key("default"), "is never used because the argument is required", remedy);
        }
        let compiled = PromptArgument {
            description: argument.description.clone(),
            required: argument.required,
            default: argument.default.clone(),
            values,
        };
        if arguments.insert(argument.name.clone(), compiled).is_some() {
            sink.error(&at.key("name"), format!("argument `{}` occurs twice", argument.name), "remove one of them");
        }
    }
    let at = at.key("result");
    let mut messages = Vec::new();
    match result {
        PromptResultSpec::Text(text) => {
            let text = message(text, &arguments, &at, sink);
            messages.push(PromptMessage { role: Default::default(), text });
        }
        PromptResultSpec::Messages(all) => {
            for (index, PromptMessageSpec { role, text }) in all.iter().enumerate() {
                let text = message(text, &arguments, &at.index(index).key("text"), sink);
                messages.push(PromptMessage { role: *role, text });
            }
        }
    }
    if messages.is_empty() || messages.len() > MAX_PROMPT_PARTS {
        let message = format!("has {} messages", messages.len());
        sink.error(&at, message, format!("write 1 to {MAX_PROMPT_PARTS} messages"));
    }
    let bytes: usize = messages.iter().map(|message| message.text.len()).sum();
    if bytes > MAX_PROMPT_BYTES {
        let message = format!("has {bytes} bytes, more than the limit of {MAX_PROMPT_BYTES}");
        sink.because(Reason::TooLarge).error(&at, message, "shorten it, or move parts of it into resources");
    }
    let used: BTreeSet<&str> = messages.iter().flat_map(|message| placeholders(&message.text)).collect();
    for name in arguments.keys().filter(|name| !used.contains(name.as_str())) {
        sink.warning(&at, format!("has no `{{{name}}}`, so the argument has no effect"), "use it, or remove it");
    }
    ServicePrompt { title: title.clone(), description: description.clone(), arguments, messages }
}

/// Returns the text of a message, with `{name}` for reShapr's `${name}`. A name in braces that is no argument is text: a
/// prompt may show an example with braces.
fn message(
    text: &str,
    arguments: &IndexMap<String, PromptArgument>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> String {
    let text = without_dollars(text, |name| arguments.contains_key(name));
    for name in placeholders(&text).filter(|name| !arguments.contains_key(*name) && is_name(name)) {
        let known = did_you_mean(name, arguments.keys().map(String::as_str));
        let remedy = match known {
            Some(known) => format!("did you mean `{{{known}}}`?"),
            None => "declare it in `arguments`, or write a space after the brace to keep it as text".to_owned(),
        };
        sink.warning(at, format!("there is no argument `{name}`, so `{{{name}}}` is text"), remedy);
    }
    text
}

/// Returns whether a text is one line of 1 to 128 bytes, as names of prompts and resources are.
pub(super) fn is_short_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 128 && !text.chars().any(char::is_control)
}

/// Checks the allowed values of an argument or of a variable.
pub(super) fn check_values(values: &[String], at: &FieldPath, sink: &mut DiagnosticSink<'_>) {
    let (most, longest) = MAX_VALUES;
    if values.is_empty() || values.len() > most {
        sink.error(at, format!("has {} values", values.len()), format!("list 1 to {most} values, or remove it"));
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if value.len() > longest {
            sink.error(&at.index(index), format!("is longer than {longest} bytes"), "shorten it");
        }
        if !seen.insert(value) {
            sink.error(&at.index(index), "occurs twice", "remove one of them");
        }
    }
}

/// Returns what an exposition publishes of a service beside tools. `found` collects the warnings.
///
/// # Errors
/// `include` or `exclude` names something that the service does not have.
pub(super) fn published(
    resource: &Resource<ExpositionSpec>,
    document: &ServiceDocument,
    enforcement: Enforcement,
    found: &mut Vec<Diagnostic>,
) -> Result<PublishedContent, Stop> {
    let content = &document.content;
    let is_server = matches!(document.source, Source::Mcp(_) | Source::Program(_));
    let spec = &resource.spec;
    let prompts = patterns(spec.prompts.as_ref());
    let resources = patterns(spec.resources.as_ref());
    let uris: Vec<&str> = content.resources.keys().chain(content.templates.keys()).map(String::as_str).collect();
    let names: Vec<&str> = content.prompts.keys().map(String::as_str).collect();
    // What an MCP server has is not known here.
    if !is_server {
        check(resource, "prompts", spec.prompts.as_ref(), &names, found)?;
        check(resource, "resources", spec.resources.as_ref(), &uris, found)?;
    }
    let chosen = |names: &mut dyn Iterator<Item = &String>, patterns: &NamePatterns| {
        names.filter(|name| patterns.selects(name)).cloned().collect::<Vec<_>>()
    };
    // Texts of the documents are written by who writes the filters. What a server or a template returns has no filter.
    let enforced = enforcement == Enforcement::Enforced;
    let server = |patterns: &NamePatterns| (is_server && !enforced).then(|| patterns.clone());
    let mut published = PublishedContent {
        prompts: chosen(&mut content.prompts.keys(), &prompts),
        resources: chosen(&mut content.resources.keys(), &resources),
        templates: chosen(&mut content.templates.keys(), &resources),
        server_prompts: server(&prompts),
        server_resources: server(&resources),
    };
    if enforced {
        if let Some(template) = published.templates.first() {
            let message =
                format!("{} resource templates are not published, such as {template}", published.templates.len());
            let remedy = "no filter applies to what they read: offer a tool with a filter instead, or exclude them";
            found.push(resource.origin.warning(&FieldPath::spec(["resources"]), message, remedy));
        }
        for (field, selection) in [("prompts", &spec.prompts), ("resources", &spec.resources)] {
            let selects =
                |selection: &ContentSelection| selection.include.as_ref().is_none_or(|names| !names.is_empty());
            if is_server && selection.as_ref().is_some_and(selects) {
                let message = format!("{field} of an MCP server are not published under Enforced");
                let remedy = "no filter applies to them: remove the field, or write them into Prompts or Resources";
                found.push(resource.origin.warning(&FieldPath::spec([field]), message, remedy));
            }
        }
        published.enforce();
    }
    Ok(published)
}

fn patterns(selection: Option<&ContentSelection>) -> NamePatterns {
    let ContentSelection { include, exclude } = selection.cloned().unwrap_or_default();
    NamePatterns { include, exclude }
}

/// Checks that names exist.
fn check(
    resource: &Resource<ExpositionSpec>,
    field: &str,
    selection: Option<&ContentSelection>,
    names: &[&str],
    found: &mut Vec<Diagnostic>,
) -> Result<(), Stop> {
    let Some(ContentSelection { include, exclude }) = selection else { return Ok(()) };
    let at = FieldPath::spec([field]);
    let selected = Selected { include: include.as_deref(), exclude, origin: &resource.origin, at };
    let words = Words {
        unknown: &|name| format!("the service has no `{name}` among its {field}"),
        remedy: "remove it, or add it to the Prompts or Resources of the service",
        unmatched: ("matches nothing", "compare it with the Prompts and Resources of the service"),
    };
    selected.check(names, &[], &words, found)
}

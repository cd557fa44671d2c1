//! The published prompts and resources of an exposition: their lists, and where a URI leads.

use std::collections::HashSet;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::{
    ExpositionDocument, NamePatterns, PromptArgument, PublishedContent, ResourceInfo, ServicePrompt, ServiceResource,
    ServiceTemplate,
};
use tamis_engine::{Enforcement, JsonText};

use super::list::{Page, ToolList};
use super::uri::{Matched, UriTemplate, selects, selects_template};
use crate::registry::ListKind;
use crate::service::Service;

/// The prompts and resources of an exposition.
#[derive(Debug)]
pub(crate) struct Content {
    /// What is published, by name.
    published: PublishedContent,
    /// The names of the published prompts, and the URIs of the published resources and templates.
    prompts: HashSet<Box<str>>,
    resources: HashSet<Box<str>>,
    template_texts: HashSet<Box<str>>,
    /// The parsed templates, in the order of `published.templates`.
    templates: Vec<UriTemplate>,
    /// Equal for two sets with the same list of prompts.
    pub(super) prompts_digest: [u8; 32],
    /// Equal for two sets with the same lists of resources and templates.
    pub(super) resources_digest: [u8; 32],
    /// Whether an argument or a variable has values that can be offered.
    completes: bool,
    lists: OnceLock<Lists>,
}

/// The lists, built when one is first requested.
#[derive(Debug)]
struct Lists {
    prompts: ToolList,
    resources: ToolList,
    templates: ToolList,
}

/// A list of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentList {
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

impl ContentList {
    /// Returns the member of the result that holds the entries.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the method that lists a server's entries.
    pub(crate) fn method(self) -> ServerMethod {
        match self {
            Self::Prompts => ServerMethod::ListPrompts,
            Self::Resources => ServerMethod::ListResources,
            Self::Templates => ServerMethod::ListTemplates,
        }
    }
}

/// A request that is passed on to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerMethod {
    /// `prompts/list`.
    ListPrompts,
    /// `prompts/get`.
    GetPrompt,
    /// `resources/list`.
    ListResources,
    /// `resources/templates/list`.
    ListTemplates,
    /// `resources/read`.
    ReadResource,
    /// `completion/complete`.
    Complete,
}

impl ServerMethod {
    /// Every method.
    const ALL: [Self; 6] = [
        Self::ListPrompts,
        Self::GetPrompt,
        Self::ListResources,
        Self::ListTemplates,
        Self::ReadResource,
        Self::Complete,
    ];

    /// Returns the list that the method reads, if it reads one.
    pub(crate) fn list(self) -> Option<ContentList> {
        match self {
            Self::ListPrompts => Some(ContentList::Prompts),
            Self::ListResources => Some(ContentList::Resources),
            Self::ListTemplates => Some(ContentList::Templates),
            Self::GetPrompt | Self::ReadResource | Self::Complete => None,
        }
    }

    /// Returns the method of the protocol.
    pub(crate) fn as_str(self) -> &'static str {
        &self.label()["server:".len()..]
    }

    /// Returns the name in metrics and audit records. It has a colon, as no tool has.
    fn label(self) -> &'static str {
        match self {
            Self::ListPrompts => "server:prompts/list",
            Self::GetPrompt => "server:prompts/get",
            Self::ListResources => "server:resources/list",
            Self::ListTemplates => "server:resources/templates/list",
            Self::ReadResource => "server:resources/read",
            Self::Complete => "server:completion/complete",
        }
    }
}

/// A request that is answered from the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentMethod {
    /// `prompts/get`.
    GetPrompt,
    /// `resources/read`.
    ReadResource,
}

impl DocumentMethod {
    /// The names in metrics and audit records. They have a colon, as no tool has.
    const LABELS: [&str; 2] = ["documents:prompts/get", "documents:resources/read"];
}

/// A resource that was found by its URI.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its content is in the documents.
    Own,
    /// It is read from the service by the template of this number, with these values of its variables.
    Template(usize, Vec<(String, String)>),
}

impl Content {
    /// Loads the content of a document; none if there is none.
    ///
    /// # Errors
    /// Names what the service does not have, or what `Enforced` forbids.
    pub(super) fn load(document: &ExpositionDocument, service: &Service) -> Result<Option<Self>, String> {
        let published = &document.content;
        if published.is_empty() {
            return Ok(None);
        }
        let own = &service.document.content;
        let enforced = document.enforcement == Enforcement::Enforced;
        let unfiltered = !published.templates.is_empty()
            || published.server_prompts.is_some()
            || published.server_resources.is_some();
        if enforced && unfiltered {
            return Err(
                "content: an Enforced exposition publishes no resource template and nothing of a server".to_owned()
            );
        }
        let missing = |what: &str, name: &str| format!("content: {what} {name} is not in the service");
        let mut prompts_digest = Sha256::new();
        for name in &published.prompts {
            let prompt = own.prompts.get(name).ok_or_else(|| missing("prompt", name))?;
            prompts_digest.update(describe_prompt(name, prompt).to_string());
        }
        let mut resources_digest = Sha256::new();
        for uri in &published.resources {
            let resource = own.resources.get(uri).ok_or_else(|| missing("resource", uri))?;
            resources_digest.update(describe_resource(uri, resource).to_string());
        }
        for template in &published.templates {
            let found = own.templates.get(template).ok_or_else(|| missing("resource template", template))?;
            resources_digest.update(describe_template(template, found).to_string());
        }
        for (digest, patterns) in
            [(&mut prompts_digest, &published.server_prompts), (&mut resources_digest, &published.server_resources)]
        {
            digest.update(serde_json::to_vec(patterns).expect("documents serialise"));
        }
        let offers = |argument: &PromptArgument| !argument.values.is_empty() || argument.default.is_some();
        let completes = published.server_prompts.is_some()
            || published.server_resources.is_some()
            || published.prompts.iter().any(|name| own.prompts[name].arguments.values().any(offers))
            || published.templates.iter().any(|template| !own.templates[template].values.is_empty());
        let set = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        Ok(Some(Self {
            prompts: set(&published.prompts),
            resources: set(&published.resources),
            template_texts: set(&published.templates),
            templates: published.templates.iter().map(|template| UriTemplate::parse(template)).collect(),
            published: published.clone(),
            prompts_digest: prompts_digest.finalize().into(),
            resources_digest: resources_digest.finalize().into(),
            completes,
            lists: OnceLock::new(),
        }))
    }

    /// Returns whether `wanted` publishes all of this.
    pub(crate) fn is_within(&self, wanted: &PublishedContent) -> bool {
        let mut common = self.published.clone();
        common.retain_common(wanted);
        common == self.published
    }

    /// Returns whether there are prompts, or may be.
    pub(crate) fn has_prompts(&self) -> bool {
        !self.published.prompts.is_empty() || self.published.server_prompts.is_some()
    }

    /// Returns whether there are resources or templates, or may be.
    pub(crate) fn has_resources(&self) -> bool {
        let PublishedContent { prompts: _, resources, templates, server_prompts: _, server_resources } =
            &self.published;
        !resources.is_empty() || !templates.is_empty() || server_resources.is_some()
    }

    /// Returns whether values can be offered for an argument.
    pub(crate) fn completes(&self) -> bool {
        self.completes
    }

    /// Returns which prompts of the server are passed on.
    pub(crate) fn server_prompts(&self) -> Option<&NamePatterns> {
        self.published.server_prompts.as_ref()
    }

    /// Returns which resources of the server are passed on.
    pub(crate) fn server_resources(&self) -> Option<&NamePatterns> {
        self.published.server_resources.as_ref()
    }

    /// Returns whether a resource of the server is passed on.
    pub(crate) fn passes_resource(&self, uri: &str) -> bool {
        self.server_resources().is_some_and(|patterns| selects(patterns, uri))
    }

    /// Returns whether a resource template of the server is passed on, by its text.
    pub(crate) fn passes_template(&self, template: &str) -> bool {
        self.server_resources().is_some_and(|patterns| selects_template(patterns, template))
    }

    /// Returns the URI templates.
    pub(super) fn template_names(&self) -> impl Iterator<Item = &String> {
        self.published.templates.iter()
    }

    /// Returns whether something of a server is passed on.
    fn passes_any(&self) -> bool {
        self.published.server_prompts.is_some() || self.published.server_resources.is_some()
    }

    /// Returns the names of what is called beside tools, for metrics and audit records: templates, then methods of the server, then
    /// what is answered from the documents.
    pub(super) fn call_names<'c>(&'c self) -> impl Iterator<Item = &'c str> {
        let passes = self.passes_any();
        let methods = ServerMethod::ALL.iter().filter(move |_| passes);
        let methods = methods.map(|method| -> &'c str { method.label() });
        let has_own = !self.prompts.is_empty() || !self.resources.is_empty();
        let own = DocumentMethod::LABELS.into_iter().filter(move |_| has_own);
        self.published.templates.iter().map(String::as_str).chain(methods).chain(own)
    }

    /// Returns the number of a request that is answered from the documents, among [`Self::call_names`].
    pub(crate) fn document_number(&self, method: DocumentMethod) -> usize {
        let methods = if self.passes_any() { ServerMethod::ALL.len() } else { 0 };
        self.templates.len() + methods + method as usize
    }

    /// Returns whether something of this name is called beside tools.
    pub(super) fn calls(&self, name: &str) -> bool {
        self.call_names().any(|own| own == name)
    }

    /// Returns the number of a method of the server among [`Self::call_names`].
    pub(crate) fn method_number(&self, method: ServerMethod) -> usize {
        self.templates.len() + method as usize
    }

    /// Returns a template by its number among [`Self::call_names`].
    pub(crate) fn template(&self, number: usize) -> Option<&str> {
        self.published.templates.get(number).map(String::as_str)
    }

    /// Returns a prompt of the documents.
    pub(crate) fn prompt<'s>(&self, service: &'s Service, name: &str) -> Option<&'s ServicePrompt> {
        service.document.content.prompts.get(name).filter(|_| self.prompts.contains(name))
    }

    /// Returns whether the documents have the entry of a list with this name: a prompt, the URI of a resource, or a URI template.
    pub(crate) fn has(&self, list: ContentList, name: &str) -> bool {
        match list {
            ContentList::Prompts => self.prompts.contains(name),
            ContentList::Resources => self.resources.contains(name),
            ContentList::Templates => self.template_texts.contains(name),
        }
    }

    /// Returns whether a resource of this URI is read by a template of the documents.
    pub(crate) fn has_template_of(&self, uri: &str) -> bool {
        self.templates.iter().any(|template| template.matches(uri).is_some())
    }

    /// Returns whether entries of the server's list are passed on.
    pub(crate) fn passes(&self, list: ListKind) -> bool {
        match list {
            ListKind::Tools => false,
            ListKind::Prompts => self.server_prompts().is_some(),
            ListKind::Resources => self.server_resources().is_some(),
        }
    }

    /// Returns which entries of the server's list are passed on.
    pub(crate) fn of_server(&self, list: ContentList) -> Option<&NamePatterns> {
        match list {
            ContentList::Prompts => self.server_prompts(),
            ContentList::Resources | ContentList::Templates => self.server_resources(),
        }
    }

    /// Returns the number of a template, by its text.
    pub(crate) fn template_number(&self, template: &str) -> Option<usize> {
        self.published.templates.iter().position(|own| own == template)
    }

    /// Returns the published template with this number, as the service has it.
    pub(crate) fn service_template<'s>(&self, service: &'s Service, number: usize) -> Option<&'s ServiceTemplate> {
        service.document.content.templates.get(self.template(number)?)
    }

    /// Returns the resource of a URI. A resource comes before templates, and a template whose values are single segments
    /// before one whose value would have to span several: that one is refused when it is read, with its reason.
    pub(crate) fn find(&self, service: &Service, uri: &str) -> Option<Found> {
        if self.resources.contains(uri) {
            return Some(Found::Own);
        }
        // A template reads nothing that the exposition leaves out.
        if service.document.content.resources.contains_key(uri) {
            return None;
        }
        let mut spanning = None;
        for (number, template) in self.templates.iter().enumerate() {
            match template.matches(uri) {
                Some(Matched { values, spans: false }) => return Some(Found::Template(number, values)),
                Some(Matched { values, spans: true }) => drop(spanning.get_or_insert((number, values))),
                None => {}
            }
        }
        spanning.map(|(number, values)| Found::Template(number, values))
    }

    /// Returns a page of a list of the documents' content, as `ToolList::page` does.
    pub(crate) fn page(&self, service: &Service, list: ContentList, cursor: Option<&str>) -> Option<Page<'_>> {
        self.list(service, list).page(cursor)
    }

    /// Returns a list of the documents' content.
    pub(crate) fn list(&self, service: &Service, list: ContentList) -> &ToolList {
        let lists = self.lists.get_or_init(|| self.build(service));
        match list {
            ContentList::Prompts => &lists.prompts,
            ContentList::Resources => &lists.resources,
            ContentList::Templates => &lists.templates,
        }
    }

    fn build(&self, service: &Service) -> Lists {
        let PublishedContent { prompts, resources, templates, server_prompts: _, server_resources: _ } =
            &self.published;
        let own = &service.document.content;
        let entries = |names: &[String], describe: &dyn Fn(&str) -> Option<Value>| {
            ToolList::of(names.iter().filter_map(|name| Some((name.clone(), describe(name)?))).collect())
        };
        Lists {
            prompts: entries(prompts, &|name| Some(describe_prompt(name, own.prompts.get(name)?))),
            resources: entries(resources, &|uri| Some(describe_resource(uri, own.resources.get(uri)?))),
            templates: entries(templates, &|uri| Some(describe_template(uri, own.templates.get(uri)?))),
        }
    }

    /// Returns whether a template has a variable.
    pub(crate) fn has_variable(&self, number: usize, variable: &str) -> bool {
        self.templates.get(number).is_some_and(|template| template.variables().any(|own| own == variable))
    }
}

/// Returns a prompt as it is listed.
fn describe_prompt(name: &str, prompt: &ServicePrompt) -> Value {
    let mut entry = json!({"name": name});
    put(&mut entry, "title", prompt.title.as_ref());
    put(&mut entry, "description", prompt.description.as_ref());
    if !prompt.arguments.is_empty() {
        let arguments = prompt.arguments.iter().map(|(name, argument)| {
            let mut entry = json!({"name": name});
            put(&mut entry, "description", argument.description.as_ref());
            entry["required"] = argument.required.into();
            entry
        });
        entry["arguments"] = arguments.collect();
    }
    entry
}

fn describe_resource(uri: &str, resource: &ServiceResource) -> Value {
    describe_info(json!({"uri": uri}), &resource.info)
}

fn describe_template(template: &str, found: &ServiceTemplate) -> Value {
    describe_info(json!({"uriTemplate": template}), &found.info)
}

fn describe_info(mut entry: Value, info: &ResourceInfo) -> Value {
    let ResourceInfo { name, title, description, mime_type, annotations, icons } = info;
    entry["name"] = name.as_str().into();
    put(&mut entry, "title", title.as_ref());
    put(&mut entry, "description", description.as_ref());
    put(&mut entry, "mimeType", mime_type.as_ref());
    for (member, json) in [("annotations", annotations), ("icons", icons)] {
        if let Some(value) = json.as_ref().map(JsonText::as_str).and_then(|text| serde_json::from_str(text).ok()) {
            let value: Value = value;
            entry[member] = value;
        }
    }
    entry
}

fn put(entry: &mut Value, member: &str, text: Option<&String>) {
    let members: Option<&mut Map<String, Value>> = entry.as_object_mut();
    if let (Some(members), Some(text)) = (members, text) {
        members.insert(member.to_owned(), text.as_str().into());
    }
}

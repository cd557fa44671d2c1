//! The published tools of an exposition. Expositions often publish the same tools of the same service with equal filters,
//! so they share one set. A set is immutable: a change to one exposition gives that exposition another set.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tamis_config::{CallLimits, ExpositionDocument, ServiceTool};
use tamis_engine::{
    CompileOptions, Enforcement, Limits, Program, ReservedInput, ReservedInputs, ToolFilter, ToolKind, json,
};

use super::content::Content;
use super::list::{self, ToolList};
use super::too_large;
use crate::expressions::Expressions;
use crate::mcp::arguments::Reserved;
use crate::paging;
use crate::registry::{ListKind, Programs};
use crate::service::Service;

/// The published tools of an exposition, and what follows from them.
#[derive(Debug, Default)]
pub(crate) struct Toolset {
    /// The tools, in the order in which they are listed.
    pub(super) tools: IndexMap<String, Tool>,
    /// The regular expressions of the filters.
    pub(crate) expressions: Expressions,
    /// Equal for two sets with the same list of tools.
    list_digest: [u8; 32],
    /// Prompts and resources; none if there are none, as in most sets.
    content: Option<Box<Content>>,
    /// Built when it is first requested, since it would be most of a set's memory.
    list: OnceLock<ToolList>,
}

/// The inputs for pages. A page is a further call of the tool, so one that changes something upstream has none of them.
const PAGES: [ReservedInput; 3] = [ReservedInput::Chunk, ReservedInput::Offset, ReservedInput::Limit];

/// Returns the reserved inputs of a tool. `named` are those that the exposition names; without them, a filtered tool has
/// the defaults and what its filter adds, and with a `budget` pages too.
fn inputs(named: Option<&[ReservedInput]>, filtered: bool, budget: bool, added: ReservedInputs) -> ReservedInputs {
    let inputs = match named {
        Some(named) => named.iter().copied().collect(),
        None => {
            let pages = PAGES.into_iter().filter(|_| budget);
            let defaults = [ReservedInput::OutputMode, ReservedInput::Budget].into_iter().filter(|_| filtered);
            defaults.chain(pages).collect::<ReservedInputs>().union(added)
        }
    };
    // An unfiltered tool has one output mode.
    if filtered { inputs } else { inputs.without(ReservedInput::OutputMode) }
}

/// One published tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The filter. If none is declared, it changes nothing.
    pub(crate) program: Arc<Program>,
    /// Whether a filter applies. Its report then goes into `_meta`.
    pub(crate) filtered: bool,
    /// The query of a GraphQL tool, as a JSON string, in place of the service's.
    pub(crate) query: Option<Box<str>>,
    /// How many elements of the upstream's list the filter can read; none if it may read all.
    pub(crate) most_messages: Option<usize>,
    /// Inputs that the gateway handles itself.
    pub(crate) reserved: Reserved,
    /// Whether every answer is the output as it came: there is no filter, no limit on answers, and no input that asks for
    /// less.
    pub(super) is_verbatim: bool,
}

impl Toolset {
    /// Returns a digest of all that a set is made of: of two expositions with the same digest, one can use the set of the
    /// other.
    pub(super) fn digest(document: &ExpositionDocument, limits: &CallLimits, service: &Service) -> [u8; 32] {
        let filters: Vec<(&str, Option<&ToolFilter>)> =
            document.tools.iter().map(|(name, tool)| (name.as_str(), tool.filter.as_deref())).collect();
        let inputs = (&document.inputs, limits.output, &document.content);
        let queries: Vec<Option<&str>> =
            document.tools.values().map(|tool| tool.query.as_ref().map(|query| query.as_str())).collect();
        let parts = (&service.digest, document.enforcement, limits.max_response_bytes, filters, inputs, queries);
        Sha256::digest(serde_json::to_vec(&parts).expect("documents serialise")).into()
    }

    /// Compiles the tools of a document. Reads nothing of the document that [`Toolset::digest`] does not cover.
    ///
    /// # Errors
    /// Names the tool and the field.
    pub(super) fn load(
        document: &ExpositionDocument,
        limits: &CallLimits,
        service: &Service,
        most_expressions: usize,
        programs: &mut Programs,
    ) -> Result<Self, String> {
        let mut tools = IndexMap::with_capacity(document.tools.len());
        let mut expressions = Expressions::default();
        for name in document.tools.keys() {
            let declared = service.document.tools.get(name);
            let declared = declared.ok_or_else(|| format!("tool {name} is not in the service"))?;
            let arguments = &service.contracts[name].arguments;
            let tool = Tool::load(document, limits, (declared, arguments), name, programs)?;
            expressions.add(&tool.program);
            if expressions.bytes() > most_expressions {
                return Err(format!("tool {name}: {}", too_large("exposition", most_expressions)));
            }
            tools.insert(name.clone(), tool);
        }
        let list_digest = list::digest(service, &tools);
        let content = Content::load(document, service)?.map(Box::new);
        Ok(Self { tools, expressions, list_digest, content, list: OnceLock::new() })
    }

    /// Returns whether an answer may need its tokens counted.
    pub(super) fn counts_tokens(&self) -> bool {
        self.tools.values().any(|tool| tool.program.counts_tokens() || tool.reserved.counts_tokens())
    }

    /// Returns whether something of this name is published that can be called: a tool or a resource template, or a method
    /// that is passed on to the server.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tools.contains_key(name) || self.content().is_some_and(|content| content.calls(name))
    }

    /// Returns the prompts and resources, if there are any.
    pub(crate) fn content(&self) -> Option<&Content> {
        self.content.as_deref()
    }

    /// Returns a digest that is equal for two sets with the same list of a kind.
    pub(crate) fn list_digest(&self, list: ListKind) -> [u8; 32] {
        match (list, self.content()) {
            (ListKind::Tools, _) => self.list_digest,
            (ListKind::Prompts, content) => content.map(|content| content.prompts_digest).unwrap_or_default(),
            (ListKind::Resources, content) => content.map(|content| content.resources_digest).unwrap_or_default(),
        }
    }

    /// Returns the list for `tools/list`. `service` is the one that the set was loaded with.
    pub(super) fn list(&self, service: &Service) -> &ToolList {
        self.list.get_or_init(|| ToolList::build(service, &self.tools))
    }
}

impl Tool {
    /// Compiles a tool. `arguments` are the names of those that it declares.
    pub(super) fn load(
        document: &ExpositionDocument,
        call_limits: &CallLimits,
        (declared, arguments): (&ServiceTool, &[String]),
        name: &str,
        programs: &mut Programs,
    ) -> Result<Self, String> {
        let published = &document.tools[name];
        let enforced = document.enforcement == Enforcement::Enforced;
        if enforced && published.filter.is_none() {
            return Err(format!(
                "tool {name} has no filter; an Enforced exposition needs one for each tool, such as passthrough"
            ));
        }
        let options = CompileOptions {
            enforcement: document.enforcement,
            response_type: declared.response_type,
            limits: Limits {
                max_input_bytes: usize::try_from(call_limits.max_response_bytes).unwrap_or(usize::MAX),
                ..Limits::default()
            },
            strict_patch: false,
            tool: ToolKind::of(name),
            format_input: document.inputs.as_ref().is_some_and(|inputs| inputs.contains(&ReservedInput::Format)),
            declares_output: declared_output(declared).is_some_and(|schema| Program::reads_output_schema(&schema)),
        };
        let none = ToolFilter::default();
        let filter = published.filter.as_deref().unwrap_or(&none);
        let program = programs.get(filter, &options).map_err(|error| format!("tool {name}: {error}"))?;
        let filtered = !published.is_unfiltered();
        let budget = program.has_budget() || !call_limits.output.is_none();
        let inputs = inputs(document.inputs.as_deref(), filtered, budget, program.inputs());
        let inputs =
            if declared.risk.mutating { PAGES.into_iter().fold(inputs, ReservedInputs::without) } else { inputs };
        let is_verbatim = !filtered && call_limits.output.is_none() && inputs == ReservedInputs::default();
        Ok(Self {
            program,
            filtered,
            query: published.query.as_deref().map(|query| json::encode(query).into()),
            most_messages: published.filter.as_deref().and_then(most_elements),
            is_verbatim,
            reserved: Reserved::new(inputs, !enforced, |name| arguments.iter().any(|a| a == name)),
        })
    }

    /// Returns the schema of the structured content of every answer, if there is one.
    pub(super) fn output_schema(&self, declared: &ServiceTool) -> Option<Value> {
        let pages = declared.pagination.as_ref().map(|pagination| paging::schema(pagination.kind));
        let schema = declared_output(declared);
        if self.is_verbatim {
            // Structured content is an object, and a schema of anything else describes no answer.
            return schema.filter(|schema| schema.get("type") == Some(&Value::from("object")));
        }
        self.program.output_schema(pages.as_ref(), schema.as_ref())
    }
}

/// Returns how many elements of a list a filter reads: `maxItems`, if nothing else of the filter looks at the list before it is cut.
fn most_elements(filter: &ToolFilter) -> Option<usize> {
    let ToolFilter::Single(spec) = filter else { return None };
    let is_whole = spec.root.as_deref().is_none_or(str::is_empty)
        && spec.test.is_none()
        && !spec.passthrough
        && spec.retain.is_none()
        && spec.patches.is_none();
    let most = spec.max_items.filter(|most| is_whole && *most > 0)?;
    usize::try_from(most).ok()
}

/// Returns the schema that the source declares for a tool's output.
fn declared_output(declared: &ServiceTool) -> Option<Value> {
    // The compile step has parsed it.
    declared.output_schema.as_ref().and_then(|schema| serde_json::from_str(schema.as_str()).ok())
}

#[cfg(test)]
impl Toolset {
    /// Returns a set of unfiltered tools.
    pub(crate) fn named<const N: usize>(names: [&str; N]) -> Self {
        let program = tamis_engine::compile(&ToolFilter::default(), &CompileOptions::default()).program;
        let program = Arc::new(program.expect("it compiles"));
        let tool = |name: &str| {
            let reserved = Reserved::new(ReservedInputs::default(), true, |_| false);
            (
                name.to_owned(),
                Tool {
                    program: Arc::clone(&program),
                    filtered: false,
                    query: None,
                    most_messages: None,
                    reserved,
                    is_verbatim: true,
                },
            )
        };
        Self { tools: names.into_iter().map(tool).collect(), ..Self::default() }
    }
}

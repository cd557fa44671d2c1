//! The lowest format version that expresses a document (decision 0035).
//!
//! Version 2 added what decides the size and the form of an answer: the fields of a filter's `output` other than
//! `format: json`, `notice` and `budget.bytes`, and of an exposition `tokens`, `inputs` and `limits.output`.
//!
//! Version 3 added MCP servers as the source of a service.
//!
//! Version 4 added bundles, expositions that are called through bundles only, MCP servers whose tools are published as they
//! are listed (`follow`), headers of MCP servers, prompts and resources, how long clients may keep lists, programs as the source of a
//! service, MCP servers or not, and what requests of OpenAPI operations need: cookies, forms, multipart and other bodies than JSON,
//! separators in paths, objects in paths and headers, and the styles `space`, `pipe`, `deep` and `json`. It added GraphQL requests, the
//! queries of expositions, and gRPC servers.
//!
//! Everything is destructured: a field does not compile until it is placed in a version here.

use tamis_engine::{BudgetSpec, FilterSpec, FormatSpec, OutputSpec, ToolFilter};

use crate::{
    Access, ArgumentStyle, Call, CallLimits, ExpositionDocument, ExpositionTool, HttpCall, McpSource, RequestTemplate,
    ServiceContent, ServiceDocument, ServiceTool, Source, TokenSettings,
};

/// The first version: that of every document that stops an exposition, and of every other document that needs no later
/// one.
pub const FIRST_VERSION: u32 = 1;

/// Returns the lowest version that expresses `document`, whatever version it carries.
#[must_use]
pub fn lowest_service_version(document: &ServiceDocument) -> u32 {
    let ServiceDocument { format_version: _, name: _, version: _, description: _, source, tools, content } = document;
    let ServiceContent { prompts: _, resources: _, templates: _ } = content;
    if !content.is_empty() {
        return 4;
    }
    let source = match source {
        Source::Http(_) => FIRST_VERSION,
        Source::Mcp(McpSource { url: _, auth: _, follow, headers }) => 3 + u32::from(*follow || !headers.is_empty()),
        Source::Grpc(_) | Source::Program(_) | Source::Command(_) => 4,
    };
    tools.values().map(tool_version).fold(source, u32::max)
}

fn tool_version(tool: &ServiceTool) -> u32 {
    let ServiceTool {
        title: _,
        description: _,
        input_schema: _,
        output_schema: _,
        response_type: _,
        risk: _,
        pagination: _,
        call,
    } = tool;
    match call {
        Call::Http(call) => {
            let HttpCall {
                method: _,
                path: _,
                defaults: _,
                request,
                extract: _,
                auth: _,
                retry: _,
                error_mapping: _,
                graphql,
            } = &**call;
            if graphql.is_some() { 4 } else { request_version(request) }
        }
        Call::Alias(_) => FIRST_VERSION,
        Call::Mcp(_) => 3,
        Call::Grpc(_) | Call::Command(_) => 4,
    }
}

fn request_version(request: &RequestTemplate) -> u32 {
    let RequestTemplate {
        path_params: _,
        query: _,
        headers: _,
        cookies,
        body: _,
        form,
        form_styles: _,
        parts,
        content,
        styles,
        separators,
        objects,
    } = request;
    let is_new = |style: &ArgumentStyle| match style {
        ArgumentStyle::Repeat | ArgumentStyle::Comma => false,
        ArgumentStyle::Space | ArgumentStyle::Pipe => true,
        ArgumentStyle::Deep | ArgumentStyle::Nested | ArgumentStyle::Json => true,
    };
    let is_plain = form.is_empty() && parts.is_empty() && content.is_none() && cookies.is_empty();
    if is_plain && separators.is_empty() && objects.is_empty() && !styles.values().any(is_new) {
        FIRST_VERSION
    } else {
        4
    }
}

/// Returns the lowest version that expresses `document`, whatever version it carries.
#[must_use]
pub fn lowest_version(document: &ExpositionDocument) -> u32 {
    let ExpositionDocument {
        format_version: _,
        id: _,
        service: _,
        enforcement: _,
        tools,
        credentials: _,
        access,
        limits,
        audit: _,
        tokens,
        inputs,
        list_ttl_ms,
        follow,
        content,
    } = document;
    let CallLimits {
        requests_per_second: _,
        burst: _,
        concurrent: _,
        timeout_ms: _,
        max_response_bytes: _,
        output: answers,
    } = limits;
    let access = match access {
        None | Some(Access::Anonymous | Access::ApiKeys { .. }) => FIRST_VERSION,
        Some(Access::BundleOnly) => 4,
    };
    let follow = if follow.is_some() { 4 } else { FIRST_VERSION };
    let content = if content.is_empty() && *list_ttl_ms == 0 { FIRST_VERSION } else { 4 };
    let own = *tokens != TokenSettings::default() || inputs.is_some() || !answers.is_none();
    let second = if own || tools.values().any(tool_is_second) { 2 } else { FIRST_VERSION };
    let second = if tools.values().any(|tool| tool.query.is_some()) { 4 } else { second };
    second.max(access).max(follow).max(content)
}

/// Returns whether a published tool uses a field of version 2.
fn tool_is_second(tool: &ExpositionTool) -> bool {
    let ExpositionTool { filter, filter_set: _, query: _ } = tool;
    match filter.as_deref() {
        None => false,
        Some(ToolFilter::Single(filter)) => filter_is_second(filter),
        Some(ToolFilter::Branches(branches)) => branches.iter().any(filter_is_second),
    }
}

fn filter_is_second(filter: &FilterSpec) -> bool {
    let FilterSpec {
        test: _,
        otherwise: _,
        passthrough: _,
        retain: _,
        patches: _,
        root: _,
        max_items: _,
        select: _,
        exclude: _,
        drop_nulls: _,
        drop_empty: _,
        text: _,
        output,
        compact: _,
    } = filter;
    output.as_deref().is_some_and(output_is_second)
}

fn output_is_second(output: &OutputSpec) -> bool {
    let OutputSpec { preset, format, structured, notice: _, inputs, budget, strategy, algorithm, levels, chunks, toon } =
        output;
    let format = match format {
        None => false,
        Some(FormatSpec::One(name)) => name != "json",
        Some(FormatSpec::Of(_)) => true,
    };
    let tokens = budget.as_ref().is_some_and(|BudgetSpec { bytes: _, tokens }| tokens.is_some());
    format
        || tokens
        || preset.is_some()
        || structured.is_some()
        || !inputs.is_empty()
        || strategy.is_some()
        || algorithm.is_some()
        || levels.is_some()
        || chunks.is_some()
        || toon.is_some()
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;

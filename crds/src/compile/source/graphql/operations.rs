//! Tools from operations that the user writes.

use apollo_compiler::ast::OperationType;
use apollo_compiler::collections::IndexSet;
use apollo_compiler::executable::{Operation, Selection, SelectionSet};
use apollo_compiler::schema::Name;
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Node, Schema};
use indexmap::IndexMap;
use tamis_engine::ResponseType;
use tamis_schema::Patterns;

use super::super::DocumentAt;
use super::super::names::{bounded, tool_name};
use super::expansion;
use super::input::{Input, Inputs};
use super::output::{Shape, object, output};
use super::text::Text;
use super::{Converted, MAX_TEXT, Parts, line, parser, tool};
use crate::Diagnostic;

/// Converts the operations of a document.
///
/// # Errors
/// The mistakes in it.
pub(super) fn convert(
    schema: &Valid<Schema>,
    document: DocumentAt<'_>,
) -> Result<IndexMap<String, Converted>, Vec<Diagnostic>> {
    let text = Text::operations(document).map_err(|finding| vec![finding])?;
    let remedy = "correct the operation, or compare it with the schema";
    text.check_nesting().map_err(|finding| vec![finding])?;
    let parsed = parser().parse_executable(schema, text.text.clone(), "operations");
    let parsed = parsed.map_err(|found| text.mistakes(&found.errors, remedy))?;
    expansion::check(&parsed, &text)?;
    let parsed = parsed.validate(schema).map_err(|found| text.mistakes(&found.errors, remedy))?;
    let (mut tools, mut findings) = (IndexMap::new(), Vec::new());
    if let Some(anonymous) = &parsed.operations.anonymous {
        let at = line(anonymous.line_column_range(&parsed.sources));
        findings.push(text.error(at, "the operation has no name", "name it: the tool is called after it"));
    }
    if parsed.operations.is_empty() {
        findings.push(text.error(None, "has no operation", "write a query or a mutation with a name"));
    }
    let mut patterns = Patterns::default();
    for (name, operation) in &parsed.operations.named {
        let at = line(name.line_column_range(&parsed.sources));
        let tool = tool_name(Some(name), "", "");
        match convert_one(schema, &parsed, &text, operation, &mut patterns) {
            Ok(converted) => {
                if tools.insert(tool.clone(), converted).is_some() {
                    findings.push(text.error(
                        at,
                        format!("two operations become the tool `{tool}`"),
                        "rename one of them",
                    ));
                }
            }
            Err(reason) => {
                findings.push(text.error(at, format!("the operation `{name}` {reason}"), "correct it, or remove it"));
            }
        }
    }
    if findings.is_empty() { Ok(tools) } else { Err(findings) }
}

fn convert_one(
    schema: &Valid<Schema>,
    document: &ExecutableDocument,
    text: &Text<'_>,
    operation: &Node<Operation>,
    patterns: &mut Patterns,
) -> Result<Converted, String> {
    if operation.operation_type == OperationType::Subscription {
        return Err("is a subscription, which is not supported".to_owned());
    }
    let mut inputs = Inputs::new(schema);
    for variable in &operation.variables {
        if variable.name.starts_with('_') {
            return Err(format!("has the variable `${}`, and names that begin with `_` are reserved", variable.name));
        }
        let default = variable.default_value.as_deref();
        let description = described(document, operation, &variable.name);
        inputs.add(&Input { name: &variable.name, ty: &variable.ty, description, default })?;
    }
    let mut query = operation.serialize().no_indent().to_string();
    let mut used = IndexSet::default();
    spreads(document, &operation.selection_set, &mut used);
    for fragment in used.iter().filter_map(|name| document.fragments.get(*name)) {
        query.push(' ');
        query.push_str(&fragment.serialize().no_indent().to_string());
    }
    let mut roots: IndexMap<&Name, _> = IndexMap::new();
    for field in operation.root_fields(document) {
        roots.entry(field.response_key()).or_insert(field);
    }
    let shape = Shape::of_operation(document, &operation.selection_set);
    let (field, response_type, output_schema, documented) =
        if let [(key, field)] = &roots.iter().collect::<Vec<_>>()[..] {
            let shape = shape.member(key);
            let (response_type, output_schema) = output(field.ty(), &shape);
            let documented = field.definition.description.as_deref().map(str::to_owned);
            (Some(key.to_string()), response_type, output_schema, documented)
        } else {
            (None, Some(ResponseType::Object), object(&shape), None)
        };
    let kind = operation.operation_type;
    let name = operation.name.as_deref().unwrap_or_default();
    let description = comment(text, operation).or(documented).unwrap_or_else(|| format!("{} {name}", kind.name()));
    let description = Some(bounded(&description, MAX_TEXT));
    let parts = Parts { description, kind, query, field, response_type, output_schema };
    let tool = tool(parts, inputs, patterns)?;
    Ok(Converted { operation: format!("{} {name}", kind.name()), tool, omitted: Vec::new() })
}

/// Returns the description of the first argument that a variable is given to.
fn described<'d>(document: &'d ExecutableDocument, operation: &'d Operation, variable: &str) -> Option<&'d str> {
    operation.all_fields(document).find_map(|field| {
        let given =
            field.arguments.iter().find(|given| given.value.as_variable().is_some_and(|name| name == variable))?;
        let argument = field.definition.argument_by_name(&given.name)?;
        argument.description.as_deref()
    })
}

/// Collects the fragments that a selection needs.
fn spreads<'d>(document: &'d ExecutableDocument, set: &'d SelectionSet, used: &mut IndexSet<&'d Name>) {
    for selection in &set.selections {
        match selection {
            Selection::Field(field) => spreads(document, &field.selection_set, used),
            Selection::InlineFragment(fragment) => spreads(document, &fragment.selection_set, used),
            Selection::FragmentSpread(spread) => {
                if used.insert(&spread.fragment_name)
                    && let Some(fragment) = document.fragments.get(&spread.fragment_name)
                {
                    spreads(document, &fragment.selection_set, used);
                }
            }
        }
    }
}

/// Returns the comment right above an operation, which describes the tool.
fn comment(text: &Text<'_>, operation: &Node<Operation>) -> Option<String> {
    let before = text.text.get(..operation.location()?.offset())?;
    let mut lines: Vec<&str> = Vec::new();
    // The last line is that of the operation itself.
    for line in before.rsplit('\n').skip(1) {
        match line.trim().strip_prefix('#') {
            Some(comment) => lines.push(comment.trim()),
            None => break,
        }
    }
    lines.reverse();
    let comment = lines.join(" ");
    (!comment.trim().is_empty()).then(|| comment.trim().to_owned())
}

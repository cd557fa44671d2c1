//! Tools from fields of the root types.

use std::collections::HashMap;
use std::fmt::Write as _;

use apollo_compiler::Schema;
use apollo_compiler::ast::{OperationType, Type};
use apollo_compiler::schema::FieldDefinition;
use apollo_compiler::validation::Valid;
use tamis_config::matches_pattern;
use tamis_engine::Reads;
use tamis_schema::Patterns;

use super::super::names::{bounded, tool_name};
use super::input::{Input, Inputs};
use super::output::{Shape, output};
use super::selection::{Selector, Types};
use super::text::Text;
use super::{Conversion, Converted, LeftOut, MAX_SERVICE_TOOLS, MAX_TEXT, Parts, REPORTED, line, size, tool};

/// `fields` of a manifest.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Selection<'s> {
    /// Whether fields become tools at all.
    pub(crate) any: bool,
    /// Patterns; `None` selects all fields of the query type.
    pub(crate) include: Option<&'s [String]>,
    /// Patterns.
    pub(crate) exclude: &'s [String],
}

/// A field of a root type.
struct Field<'s> {
    kind: OperationType,
    /// The name of the root type in the schema.
    ty: &'s str,
    definition: &'s FieldDefinition,
}

impl Field<'_> {
    /// Returns the root type by its role, and the name.
    fn key(&self) -> String {
        let role = match self.kind {
            OperationType::Query => "Query",
            OperationType::Mutation => "Mutation",
            OperationType::Subscription => "Subscription",
        };
        format!("{role}.{}", self.definition.name)
    }

    /// Returns whether a pattern means the field.
    fn is_meant_by(&self, pattern: &str) -> bool {
        let name = &*self.definition.name;
        // A change is made only where someone has named it.
        let by_name = self.kind == OperationType::Query || !pattern.contains(['*', '?']);
        (by_name && matches_pattern(pattern, name))
            || (pattern.contains('.')
                && (matches_pattern(pattern, &self.key()) || matches_pattern(pattern, &format!("{}.{name}", self.ty))))
    }
}

impl Selection<'_> {
    fn selects(&self, field: &Field<'_>) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| field.is_meant_by(pattern));
        let by_default = field.kind == OperationType::Query;
        self.any && self.include.map_or(by_default, any) && !any(self.exclude)
    }
}

/// Converts the selected fields. `queries` gets the type and the beginning of the query of each tool.
pub(super) fn convert(
    schema: &Valid<Schema>,
    text: &Text<'_>,
    selection: Selection<'_>,
    conversion: &mut Conversion,
    queries: &mut HashMap<String, (Type, String)>,
    bytes: &mut usize,
) {
    let types = Types::new(schema);
    let mut patterns = Patterns::default();
    let all = fields(schema);
    for field in &all {
        conversion.names.extend([
            field.definition.name.to_string(),
            field.key(),
            format!("{}.{}", field.ty, field.definition.name),
        ]);
    }
    conversion.names.sort();
    conversion.names.dedup();
    let selected = all.iter().filter(|field| selection.selects(field)).count();
    if selected > MAX_SERVICE_TOOLS {
        let message = format!("{selected} fields are selected, more than the limit of {MAX_SERVICE_TOOLS}");
        conversion.findings.push(text.error(None, message, "select fewer with `fields.include`"));
        return;
    }
    let mut left_out = Vec::new();
    for field in all {
        if !selection.selects(&field) {
            conversion.unselected += usize::from(field.kind != OperationType::Subscription);
            continue;
        }
        let name = tool_name(Some(&field.definition.name), "", "");
        if let Some(other) = conversion.tools.get(&name) {
            left_out.push((field, format!("would have the name `{name}`, as {}", other.operation)));
            continue;
        }
        match convert_one(&types, &field, &mut patterns) {
            Ok((converted, query)) => {
                *bytes += size(&converted.tool);
                queries.insert(name.clone(), query);
                conversion.tools.insert(name, converted);
            }
            Err(reason) => left_out.push((field, reason)),
        }
    }
    for (field, reason) in left_out.iter().take(REPORTED) {
        let at = line(field.definition.name.line_column_range(&schema.sources));
        let message = format!("the field `{}` is left out: it {reason}", field.key());
        conversion.findings.push(text.warning(at, message, "exclude it in `fields.exclude`, or write an operation"));
    }
    if left_out.len() > REPORTED {
        let message = format!("{} more fields are left out", left_out.len() - REPORTED);
        conversion.findings.push(text.warning(None, message, "`tamis import graphql` lists them with the reasons"));
    }
    conversion.left_out =
        left_out.into_iter().map(|(field, reason)| LeftOut { operation: field.key(), reason }).collect();
}

/// Returns the fields of the root types, in the order of the schema.
fn fields(schema: &Schema) -> Vec<Field<'_>> {
    let roots = [OperationType::Query, OperationType::Mutation, OperationType::Subscription];
    let roots = roots.into_iter().filter_map(|kind| {
        let ty = schema.root_operation(kind)?;
        Some((kind, schema.get_object(ty)?))
    });
    roots
        .flat_map(|(kind, object)| {
            object.fields.values().map(move |definition| Field { kind, ty: &object.name, definition })
        })
        .collect()
}

fn convert_one(
    types: &Types<'_>,
    field: &Field<'_>,
    patterns: &mut Patterns,
) -> Result<(Converted, (Type, String)), String> {
    let Field { kind, ty: _, definition } = field;
    if *kind == OperationType::Subscription {
        return Err("is a subscription, which is not supported".to_owned());
    }
    let name = &definition.name;
    let mut omitted = Vec::new();
    let mut inputs = Inputs::new(types.schema);
    let (mut variables, mut arguments) = (String::new(), String::new());
    for argument in &definition.arguments {
        let own = &*argument.name;
        if own.starts_with('_') {
            if argument.is_required() {
                return Err(format!("needs the argument `{own}`, and names that begin with `_` are reserved"));
            }
            omitted.push(format!("argument `{own}`, since names that begin with `_` are reserved"));
            continue;
        }
        let separator = if variables.is_empty() { "" } else { "," };
        // A variable with a default would send the default of today. One that may be absent leaves it to the server.
        let ty = if argument.default_value.is_some() {
            argument.ty.as_ref().clone().nullable()
        } else {
            argument.ty.as_ref().clone()
        };
        let _ = write!(variables, "{separator}${own}:{ty}");
        let _ = write!(arguments, "{separator}{own}:${own}");
        inputs.add(&Input {
            name: own,
            ty: &argument.ty,
            description: argument.description.as_deref(),
            default: argument.default_value.as_deref(),
        })?;
    }
    let bracketed = |text: String| if text.is_empty() { text } else { format!("({text})") };
    let head = format!("{} {name}{}{{{name}{}", kind.name(), bracketed(variables), bracketed(arguments));
    let mut selector = Selector::new(types);
    let selected = selector.select(&definition.ty, &Reads::All);
    omitted.append(&mut selector.omitted);
    let mut query = head.clone();
    let mut shape = Shape::default();
    if let Some(selected) = &selected {
        selected.write(&mut query);
        shape = Shape::of(selected);
    }
    query.push('}');
    let (response_type, output_schema) = output(&definition.ty, &shape);
    let description = definition.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let description = description.map_or_else(|| field.key(), str::to_owned);
    let is_deprecated = definition.directives.has("deprecated");
    let description = if is_deprecated { format!("Deprecated. {description}") } else { description };
    let parts = Parts {
        description: Some(bounded(&description, MAX_TEXT)),
        kind: *kind,
        query,
        field: Some(name.to_string()),
        response_type,
        output_schema,
    };
    let tool = tool(parts, inputs, patterns)?;
    Ok((Converted { operation: field.key(), tool, omitted }, (definition.ty.clone(), head)))
}

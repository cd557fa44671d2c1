//! reShapr's CustomTools of a GraphQL service as operations: its arguments `__relation_NAME` say which fields are returned in addition,
//! and with which arguments. Source: reShapr's "CustomTools specification".

use std::fmt::Write as _;
use std::sync::Arc;

use apollo_compiler::Schema;
use apollo_compiler::ast::{Document, OperationType, Type};
use apollo_compiler::schema::{ExtendedType, FieldDefinition, InputValueDefinition, Name};
use indexmap::IndexMap;
use serde_json::value::RawValue;
use tamis_engine::Reads;

use super::super::DocumentAt;
use super::super::names::quoted;
use super::selection::{Picked, Selected, Selector, Types};
use super::text::{MAX_OPERATIONS, Text};
use super::{MAX_NESTING, parse};
use crate::Diagnostic;
use crate::compile::template::{placeholders, without_dollars};
use crate::diagnostic::did_you_mean;
use crate::origin::{FieldPath, Origin};
use crate::read::api;
use crate::resources::{CustomToolSpec, CustomToolsSpec, Resource};

/// The beginning of an argument that says what is returned in addition.
pub(crate) const RELATION: &str = "__relation_";
/// The most relations of one tool.
pub(super) const MAX_RELATIONS: usize = 100;

/// Custom tools as operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphQlOperations {
    /// A document with one operation for each tool, described by a comment.
    pub text: String,
    /// The titles, by tool: operations have none.
    pub titles: Vec<(String, String)>,
}

/// Translates the tools of reShapr's CustomTools into operations on a schema. `schema`: its file, which is only a name, and its
/// content.
///
/// An operation asks for what the field returns without a filter, and for each `__relation_NAME` of the arguments for the field NAME
/// with these arguments, and what that returns. A placeholder becomes a variable with the type of the argument that it is given to.
///
/// # Errors
/// The mistakes in the schema or in the tools: a name that the schema does not have, or a value that GraphQL cannot express.
pub fn graphql_operations(
    (file, bytes): (&str, &[u8]),
    tools: &[Arc<Resource<CustomToolsSpec>>],
) -> Result<GraphQlOperations, Vec<Diagnostic>> {
    let file: Arc<str> = file.into();
    let node = api::tree_of(&file, bytes).map_err(|finding| vec![*finding])?;
    let text = Text::schema(DocumentAt { file: &file, field: "", node: &node }).map_err(|finding| vec![finding])?;
    let (schema, _) = parse(&text)?;
    let types = Types::new(&schema);
    let (mut made, mut findings) = (GraphQlOperations::default(), Vec::new());
    for document in tools {
        let at = FieldPath::spec(["customTools"]);
        for (name, spec) in &document.spec.custom_tools {
            let at = at.key(name);
            match operation(&types, name, spec, &at) {
                Ok(text) => {
                    let separator = if made.text.is_empty() { "" } else { "\n" };
                    made.text.extend([separator, &text]);
                }
                Err(problem) => findings.push(problem.report(&document.origin)),
            }
            if let Some(title) = &spec.title {
                made.titles.push((name.clone(), title.clone()));
            }
            if made.text.len() > MAX_OPERATIONS {
                let message = format!("the operations have more than {MAX_OPERATIONS} bytes");
                findings.push(document.origin.error(&at, message, "import fewer tools at a time"));
                return Err(findings);
            }
        }
    }
    if findings.is_empty() { Ok(made) } else { Err(findings) }
}

/// What is wrong, and where.
struct Problem {
    at: FieldPath,
    message: String,
    remedy: String,
}

impl Problem {
    fn new(at: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { at: at.clone(), message: message.into(), remedy: remedy.into() }
    }

    /// Says which name is not there, and which one is close. `what`: what it would name, and `place`: where it would be.
    fn unknown<'n>(
        at: &FieldPath,
        (what, name, place): (&str, &str, &str),
        known: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        let remedy = match did_you_mean(name, known) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "compare it with the schema".to_owned(),
        };
        Self::new(at, format!("there is no {what} `{name}`{place}"), remedy)
    }

    fn report(self, origin: &Origin) -> Diagnostic {
        origin.error(&self.at, self.message, self.remedy)
    }
}

/// Returns the text of one operation, with its comment.
fn operation(types: &Types<'_>, alias: &str, spec: &CustomToolSpec, at: &FieldPath) -> Result<String, Problem> {
    if Name::new(alias).is_err() || alias.starts_with("__") {
        let message = "is no name of an operation";
        return Err(Problem::new(at, message, "use letters, digits and `_`, and begin with a letter"));
    }
    let roots = [OperationType::Query, OperationType::Mutation];
    let root = |kind| Some((kind, types.schema.get_object(types.schema.root_operation(kind)?)?));
    let mut found =
        roots.into_iter().filter_map(root).filter_map(|(kind, of)| Some((kind, of.fields.get(&*spec.tool)?)));
    let Some((kind, field)) = found.next() else {
        let known = roots.into_iter().filter_map(root).flat_map(|(_, of)| of.fields.keys().map(Name::as_str));
        let place = " in the query type or the mutation type";
        return Err(Problem::unknown(&at.key("tool"), ("field", &spec.tool, place), known));
    };
    let mut tool = Translation::new(types, spec);
    let at = at.key("arguments");
    // Without `arguments`, a tool passes its own ones on.
    let passed: Vec<(String, String)> =
        tool.given.keys().map(|name| (name.clone(), quoted(&format!("{{{name}}}")))).collect();
    let arguments: Vec<_> = match &spec.arguments {
        Some(arguments) => arguments.iter().map(|(name, value)| (&**name, value.as_str())).collect(),
        None => passed.iter().map(|(name, value)| (&**name, &**value)).collect(),
    };
    let picked = tool.field(field, &arguments, &at, 0)?;
    if let Some(name) = tool.given.keys().find(|name| !tool.variables.contains_key(*name)) {
        let at = FieldPath::spec(["customTools"]).key(alias).key("input").key("properties").key(name);
        return Err(Problem::new(&at, "is not used in `arguments`", "use it as `${NAME}`, or remove it"));
    }
    let variables: Vec<String> = tool.variables.iter().map(|(name, ty)| format!("${name}: {ty}")).collect();
    let variables = if variables.is_empty() { String::new() } else { format!("({})", variables.join(", ")) };
    let mut query = format!("{} {alias}{variables}", kind.name());
    Selected { fields: IndexMap::from([(field.name.clone(), picked)]), ..Selected::default() }.write(&mut query);
    let document = Document::parse(query, "operation");
    let document = document.map_err(|_| Problem::new(&at, "cannot be written as an operation", "write it yourself"))?;
    let mut text = String::new();
    for line in spec.description.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty()) {
        let _ = writeln!(text, "# {}", line.trim());
    }
    let _ = writeln!(text, "{}", document.to_string().trim_end());
    Ok(text)
}

/// One tool while it is translated.
struct Translation<'t, 's> {
    types: &'t Types<'s>,
    /// The arguments of the tool: whether each one is required, and its default.
    given: IndexMap<String, (bool, Option<Box<RawValue>>)>,
    /// The variables with their types and defaults.
    variables: IndexMap<String, String>,
    relations: usize,
}

impl<'t, 's> Translation<'t, 's> {
    fn new(types: &'t Types<'s>, spec: &CustomToolSpec) -> Self {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Input {
            properties: IndexMap<String, Property>,
            required: Vec<String>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Property {
            default: Option<Box<RawValue>>,
        }
        let input: Input =
            spec.input.as_ref().and_then(|input| serde_json::from_str(input.as_str()).ok()).unwrap_or_default();
        let Input { properties, required } = input;
        let each = |(name, property): (String, Property)| {
            let is_required = required.contains(&name);
            (name, (is_required, property.default))
        };
        let given = properties.into_iter().map(each).collect();
        Self { types, given, variables: IndexMap::new(), relations: 0 }
    }

    /// Returns what is asked for of a field, with its arguments.
    fn field(
        &mut self,
        field: &FieldDefinition,
        arguments: &[(&str, &str)],
        at: &FieldPath,
        depth: usize,
    ) -> Result<Picked, Problem> {
        let mut of = Selector::new(self.types).select(&field.ty, &Reads::All);
        let mut written = Vec::new();
        for (name, value) in arguments {
            let at = at.key(name);
            if let Some(relation) = name.strip_prefix(RELATION) {
                let (name, picked) = self.relation(field, relation, value, &at, depth)?;
                let selected = of.get_or_insert_default();
                // An answer has one field of a name.
                selected.fragments.values_mut().for_each(|fields| drop(fields.shift_remove(&name)));
                selected.fields.insert(name, picked);
                continue;
            }
            let Some(argument) = field.argument_by_name(name) else {
                let place = format!(" of the field `{}`", field.name);
                let known = field.arguments.iter().map(|argument| argument.name.as_str());
                return Err(Problem::unknown(&at, ("argument", name, &place), known));
            };
            written.push(format!("{name}: {}", self.argument(argument, value, &at)?));
        }
        for argument in field.arguments.iter().filter(|argument| argument.is_required()) {
            if !arguments.iter().any(|(name, _)| *name == argument.name.as_str()) {
                let message = format!("the field `{}` needs the argument `{}`", field.name, argument.name);
                return Err(Problem::new(at, message, "give it a value"));
            }
        }
        let arguments = if written.is_empty() { String::new() } else { format!("({})", written.join(", ")) };
        Ok(Picked { ty: field.ty.clone(), arguments, of })
    }

    fn relation(
        &mut self,
        of: &FieldDefinition,
        name: &str,
        value: &str,
        at: &FieldPath,
        depth: usize,
    ) -> Result<(Name, Picked), Problem> {
        self.relations += 1;
        if self.relations > MAX_RELATIONS || depth > MAX_NESTING {
            let message = format!("the tool has more than {MAX_RELATIONS} relations");
            return Err(Problem::new(at, message, "ask for fewer"));
        }
        let ty = of.ty.inner_named_type();
        let Some((key, field)) = self.types.fields(ty).and_then(|fields| fields.get_key_value(name)) else {
            let place = format!(" of the type `{ty}`");
            let known = self.types.fields(ty).into_iter().flat_map(|fields| fields.keys().map(Name::as_str));
            return Err(Problem::unknown(at, ("field", name, &place), known));
        };
        let arguments: IndexMap<String, &RawValue> = match value {
            "null" | "true" => IndexMap::new(),
            _ => serde_json::from_str(value)
                .map_err(|_| Problem::new(at, "has to be the arguments of the field", "write `{}` for none"))?,
        };
        let arguments: Vec<_> = arguments.iter().map(|(name, value)| (&**name, value.get())).collect();
        Ok((key.clone(), self.field(field, &arguments, at, depth + 1)?))
    }

    fn argument(&mut self, of: &InputValueDefinition, value: &str, at: &FieldPath) -> Result<String, Problem> {
        // An argument with a default may be absent, so that its variable may be too.
        let ty = if of.default_value.is_some() { of.ty.as_ref().clone().nullable() } else { of.ty.as_ref().clone() };
        self.literal(&ty, value, at)
    }

    /// Returns a value as GraphQL writes it where this type is expected.
    fn literal(&mut self, ty: &Type, value: &str, at: &FieldPath) -> Result<String, Problem> {
        let unusable = |_| Problem::new(at, "is no value that JSON can express", "correct it");
        let schema: &Schema = self.types.schema;
        let named = ty.inner_named_type();
        match value.as_bytes().first() {
            Some(b'{') => {
                let members: IndexMap<String, &RawValue> = serde_json::from_str(value).map_err(unusable)?;
                let any = any();
                let mut written = Vec::new();
                for (name, value) in members {
                    let at = at.key(&name);
                    if Name::new(&name).is_err() {
                        return Err(Problem::new(&at, "is no name of GraphQL", "give the whole value as an argument"));
                    }
                    let ty = match schema.types.get(named) {
                        Some(ExtendedType::InputObject(object)) => match object.fields.get(&*name) {
                            Some(field) => &*field.ty,
                            None => {
                                let place = format!(" of the type `{named}`");
                                let known = object.fields.keys().map(Name::as_str);
                                return Err(Problem::unknown(&at, ("field", &name, &place), known));
                            }
                        },
                        _ => &any,
                    };
                    written.push(format!("{name}: {}", self.literal(ty, value.get(), &at)?));
                }
                Ok(format!("{{{}}}", written.join(", ")))
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(value).map_err(unusable)?;
                let item = if ty.is_list() { ty.item_type() } else { ty };
                let each =
                    items.iter().enumerate().map(|(index, value)| self.literal(item, value.get(), &at.index(index)));
                Ok(format!("[{}]", each.collect::<Result<Vec<_>, _>>()?.join(", ")))
            }
            Some(b'"') => {
                let text: String = serde_json::from_str(value).map_err(unusable)?;
                let text = without_dollars(&text, |name| self.given.contains_key(name));
                if let Some(name) = placeholders(&text).find(|name| self.given.contains_key(*name)) {
                    if text != format!("{{{name}}}") {
                        let message = format!("has the placeholder `{name}` in a text, which GraphQL has not");
                        return Err(Problem::new(at, message, "make the whole value the placeholder"));
                    }
                    return self.variable(name, ty, at);
                }
                if let Some(name) = placeholders(&text).next().filter(|name| text == format!("${{{name}}}")) {
                    let known = self.given.keys().map(String::as_str);
                    return Err(Problem::unknown(at, ("argument", name, ""), known));
                }
                let is_enum = matches!(schema.types.get(named), Some(ExtendedType::Enum(_)));
                Ok(if is_enum && Name::new(&text).is_ok() { text } else { quoted(&text) })
            }
            _ => Ok(value.to_owned()),
        }
    }

    fn variable(&mut self, name: &str, ty: &Type, at: &FieldPath) -> Result<String, Problem> {
        if Name::new(name).is_err() || name.starts_with('_') {
            let message = format!("the argument `{name}` cannot be the name of a variable");
            return Err(Problem::new(at, message, "use letters, digits and `_`, and begin with a letter"));
        }
        let (is_required, default) = self.given.get(name).cloned().unwrap_or_default();
        let mut written = if is_required { ty.clone().non_null() } else { ty.clone() }.to_string();
        if let Some(default) = default.filter(|_| !is_required) {
            let default = self.literal(ty, default.get(), at)?;
            let _ = write!(written, " = {default}");
        }
        // Where two places of different types take one variable, the operation is refused when it is checked against the schema.
        self.variables.entry(name.to_owned()).or_insert(written);
        Ok(format!("${name}"))
    }
}

/// A type about which nothing is known.
fn any() -> Type {
    Type::Named(Name::new_static_unchecked("String"))
}

//! JSON Schemas of arguments.

use apollo_compiler::Schema;
use apollo_compiler::ast::{Type, Value};
use apollo_compiler::schema::{ExtendedType, InputObjectType};
use indexmap::IndexMap;

use super::super::names::{bounded, quoted};

/// Bytes of the schemas of a tool's input.
const MAX_INPUT: usize = 256 << 10;
/// Bytes of a description.
const MAX_TEXT: usize = 1024;

/// The arguments of a tool while it is made, with the definitions of the input objects that they refer to.
pub(super) struct Inputs<'s> {
    schema: &'s Schema,
    properties: IndexMap<String, String>,
    required: Vec<String>,
    /// Input objects by name; an empty text for one that is not written yet.
    definitions: IndexMap<String, String>,
    bytes: usize,
}

/// An argument, a variable, or a member of an input object.
pub(super) struct Input<'s> {
    pub(super) name: &'s str,
    pub(super) ty: &'s Type,
    pub(super) description: Option<&'s str>,
    pub(super) default: Option<&'s Value>,
}

impl<'s> Inputs<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, properties: IndexMap::new(), required: Vec::new(), definitions: IndexMap::new(), bytes: 0 }
    }

    /// Adds an argument.
    ///
    /// # Errors
    /// The reason why the tool cannot be made, as the end of a sentence about it.
    pub(super) fn add(&mut self, input: &Input<'_>) -> Result<(), String> {
        if input.ty.is_non_null() && input.default.is_none() {
            self.required.push(input.name.to_owned());
        }
        let schema = self.value(input, true)?;
        self.properties.insert(input.name.to_owned(), schema);
        Ok(())
    }

    /// Returns the names of the arguments.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.keys().map(String::as_str)
    }

    /// Returns the schema of all arguments.
    ///
    /// # Errors
    /// As [`Inputs::add`].
    pub(super) fn finish(mut self) -> Result<String, String> {
        let schema = self.schema;
        // An input object adds those that it refers to at the end.
        let mut written = 0;
        while let Some((name, _)) = self.definitions.get_index(written) {
            if let Some(ExtendedType::InputObject(object)) = schema.types.get(name.as_str()) {
                let text = self.object(object)?;
                self.definitions[written] = text;
            }
            written += 1;
        }
        let mut text = object_text(&self.properties, &self.required);
        if !self.definitions.is_empty() {
            let definitions: Vec<String> =
                self.definitions.iter().map(|(name, schema)| format!("{}:{{{schema}}}", quoted(name))).collect();
            text.push_str(&format!(",\"$defs\":{{{}}}", definitions.join(",")));
        }
        Ok(format!("{{{text}}}"))
    }

    fn object(&mut self, object: &InputObjectType) -> Result<String, String> {
        let is_one = object.directives.has("oneOf");
        let (mut properties, mut required) = (IndexMap::new(), Vec::new());
        for (name, member) in &object.fields {
            let input = Input {
                name,
                ty: &member.ty,
                description: member.description.as_deref(),
                default: member.default_value.as_deref(),
            };
            if input.ty.is_non_null() && input.default.is_none() {
                required.push(name.to_string());
            }
            properties.insert(name.to_string(), self.value(&input, !is_one)?);
        }
        let mut text = object_text(&properties, &required);
        if is_one {
            text.push_str(",\"minProperties\":1,\"maxProperties\":1");
        }
        if let Some(description) = object.description.as_deref().filter(|text| !text.trim().is_empty()) {
            text.push_str(&format!(",\"description\":{}", quoted(&bounded(description, MAX_TEXT))));
        }
        Ok(text)
    }

    fn value(&mut self, input: &Input<'_>, may_be_null: bool) -> Result<String, String> {
        let mut text = self.ty(input.ty, may_be_null);
        let own = input.description.map(str::trim).filter(|text| !text.is_empty());
        let scalar = match self.schema.types.get(input.ty.inner_named_type()) {
            Some(ExtendedType::Scalar(scalar)) if !is_built_in(&scalar.name) => Some(&scalar.name),
            _ => None,
        };
        let description = match (own, scalar) {
            (Some(own), Some(scalar)) => Some(format!("{own} ({scalar})")),
            (Some(own), None) => Some(own.to_owned()),
            (None, Some(scalar)) => Some(scalar.to_string()),
            (None, None) => None,
        };
        if let Some(description) = description {
            push(&mut text, "description", &quoted(&bounded(&description, MAX_TEXT)));
        }
        if let Some(default) = input.default.and_then(json) {
            push(&mut text, "default", &default);
        }
        self.bytes += text.len() + input.name.len();
        if self.bytes > MAX_INPUT {
            return Err(format!("has schemas of more than {} KiB", MAX_INPUT >> 10));
        }
        Ok(format!("{{{text}}}"))
    }

    /// Returns the members of a type's schema. `may_be_null`: whether a nullable type accepts null.
    fn ty(&mut self, ty: &Type, may_be_null: bool) -> String {
        let accepts_null = may_be_null && !ty.is_non_null();
        let null = if accepts_null { ",\"null\"" } else { "" };
        let one = |name: &str| {
            if accepts_null { format!("\"type\":[\"{name}\",\"null\"]") } else { format!("\"type\":\"{name}\"") }
        };
        if let Type::List(item) | Type::NonNullList(item) = ty {
            // The parser bounds the depth of types.
            return format!("{},\"items\":{{{}}}", one("array"), self.ty(item, true));
        }
        let name = ty.inner_named_type();
        match (name.as_str(), self.schema.types.get(name)) {
            // 32 bits, as GraphQL has them.
            ("Int", _) => format!("{},\"minimum\":-2147483648,\"maximum\":2147483647", one("integer")),
            ("Float", _) => one("number"),
            ("String", _) => one("string"),
            ("Boolean", _) => one("boolean"),
            ("ID", _) => format!("\"type\":[\"string\",\"integer\"{null}]"),
            (_, Some(ExtendedType::Enum(of))) => {
                let mut values: Vec<String> = of.values.keys().map(|value| quoted(value)).collect();
                if accepts_null {
                    values.push("null".to_owned());
                }
                format!("\"enum\":[{}]", values.join(","))
            }
            (_, Some(ExtendedType::InputObject(_))) => {
                self.definitions.entry(name.to_string()).or_default();
                let reference = format!("\"$ref\":{}", quoted(&format!("#/$defs/{name}")));
                if accepts_null { format!("\"anyOf\":[{{{reference}}},{{\"type\":\"null\"}}]") } else { reference }
            }
            // A custom scalar is whatever its server says.
            _ if accepts_null || ty.is_named() && !ty.is_non_null() => String::new(),
            _ => "\"not\":{\"type\":\"null\"}".to_owned(),
        }
    }
}

fn push(text: &mut String, key: &str, value: &str) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(&format!("{}:{value}", quoted(key)));
}

fn object_text(properties: &IndexMap<String, String>, required: &[String]) -> String {
    let members: Vec<String> = properties.iter().map(|(name, schema)| format!("{}:{schema}", quoted(name))).collect();
    let mut text = format!("\"type\":\"object\",\"properties\":{{{}}}", members.join(","));
    if !required.is_empty() {
        let names: Vec<String> = required.iter().map(|name| quoted(name)).collect();
        text.push_str(&format!(",\"required\":[{}]", names.join(",")));
    }
    text.push_str(",\"additionalProperties\":false");
    text
}

fn is_built_in(name: &str) -> bool {
    matches!(name, "Int" | "Float" | "String" | "Boolean" | "ID")
}

/// Returns a constant as JSON, with its digits. `None` for a variable.
pub(super) fn json(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "null".to_owned(),
        Value::Enum(name) => quoted(name),
        Value::String(text) => quoted(text),
        Value::Float(number) => number.as_str().to_owned(),
        Value::Int(number) => number.as_str().to_owned(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Variable(_) => return None,
        Value::List(items) => {
            let items = items.iter().map(|item| json(item)).collect::<Option<Vec<_>>>()?;
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| Some(format!("{}:{}", quoted(name), json(value)?)))
                .collect::<Option<Vec<_>>>()?;
            format!("{{{}}}", members.join(","))
        }
    })
}

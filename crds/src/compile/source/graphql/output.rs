//! JSON Schemas of answers.

use apollo_compiler::ExecutableDocument;
use apollo_compiler::ast::Type;
use apollo_compiler::executable::{Selection, SelectionSet};
use indexmap::IndexMap;
use tamis_engine::{JsonText, ResponseType};

use super::super::names::quoted;
use super::selection::{Picked, Selected};

/// Bytes of an output schema: every conversation pays for it.
const MAX_OUTPUT: usize = 32 << 10;

/// The members that an object may have. Those of several types are in one place, since a filter may remove any of them.
#[derive(Debug, Default)]
pub(super) struct Shape(IndexMap<String, Member>);

#[derive(Debug)]
struct Member {
    /// None if fields of several types have the name.
    ty: Option<Type>,
    of: Shape,
}

impl Shape {
    pub(super) fn of(selected: &Selected) -> Self {
        let mut shape = Self::default();
        if selected.names_type {
            shape.add("__typename", &Type::NonNullNamed(apollo_compiler::name!("String")));
        }
        for fields in std::iter::once(&selected.fields).chain(selected.fragments.values()) {
            for (name, Picked { ty, of, .. }) in fields {
                let member = shape.add(name, ty);
                if let Some(of) = of {
                    member.of.merge(Self::of(of));
                }
            }
        }
        shape
    }

    /// Returns the members of a selection that the user wrote.
    pub(super) fn of_operation(document: &ExecutableDocument, set: &SelectionSet) -> Self {
        let mut shape = Self::default();
        shape.add_set(document, set);
        shape
    }

    /// Returns the shape of one member.
    pub(super) fn member(mut self, name: &str) -> Self {
        self.0.shift_remove(name).map_or_else(Self::default, |member| member.of)
    }

    fn add_set(&mut self, document: &ExecutableDocument, set: &SelectionSet) {
        for selection in &set.selections {
            match selection {
                Selection::Field(field) => {
                    let member = self.add(field.response_key(), field.ty());
                    member.of.add_set(document, &field.selection_set);
                }
                Selection::InlineFragment(fragment) => self.add_set(document, &fragment.selection_set),
                // The document is valid, so that fragments have no cycles.
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = spread.fragment_def(document) {
                        self.add_set(document, &fragment.selection_set);
                    }
                }
            }
        }
    }

    fn add(&mut self, name: &str, ty: &Type) -> &mut Member {
        let new = || Member { ty: Some(ty.clone()), of: Self::default() };
        let member = self.0.entry(name.to_owned()).or_insert_with(new);
        if member.ty.as_ref() != Some(ty) {
            member.ty = None;
        }
        member
    }

    fn merge(&mut self, other: Self) {
        for (name, Member { ty, of }) in other.0 {
            match self.0.get_mut(&name) {
                Some(member) => {
                    if member.ty != ty {
                        member.ty = None;
                    }
                    member.of.merge(of);
                }
                None => {
                    self.0.insert(name, Member { ty, of });
                }
            }
        }
    }

    /// Writes the properties. Stops when there are more bytes than a schema may have.
    fn write(&self, out: &mut String) {
        out.push_str("\"properties\":{");
        for (index, (name, Member { ty, of })) in self.0.iter().enumerate() {
            if out.len() > MAX_OUTPUT {
                return;
            }
            out.push_str(if index > 0 { "," } else { "" });
            out.push_str(&quoted(name));
            out.push_str(":{");
            if let Some(ty) = ty {
                write(ty, of, out);
            }
            out.push('}');
        }
        out.push('}');
    }
}

fn write(ty: &Type, of: &Shape, out: &mut String) {
    let is_null = !ty.is_non_null();
    let one = |name: &str| {
        if is_null { format!("\"type\":[\"{name}\",\"null\"]") } else { format!("\"type\":\"{name}\"") }
    };
    if let Type::List(item) | Type::NonNullList(item) = ty {
        out.push_str(&one("array"));
        out.push_str(",\"items\":{");
        write(item, of, out);
        out.push('}');
        return;
    }
    if !of.0.is_empty() {
        out.push_str(&one("object"));
        out.push(',');
        of.write(out);
        return;
    }
    match ty.inner_named_type().as_str() {
        "Int" => out.push_str(&one("integer")),
        "Float" => out.push_str(&one("number")),
        "String" | "ID" => out.push_str(&one("string")),
        "Boolean" => out.push_str(&one("boolean")),
        // Enums grow, and a custom scalar is whatever its server says.
        _ => {}
    }
}

/// Returns the shape of an output of a type, and its schema. Only an object has one, and one that is not too large.
pub(super) fn output(ty: &Type, shape: &Shape) -> (Option<ResponseType>, Option<JsonText>) {
    if ty.is_list() {
        return (Some(ResponseType::Array), None);
    }
    if shape.0.is_empty() {
        return (None, None);
    }
    (Some(ResponseType::Object), object(shape))
}

/// Returns the schema of an object.
pub(super) fn object(shape: &Shape) -> Option<JsonText> {
    let mut text = "{\"type\":\"object\",".to_owned();
    shape.write(&mut text);
    text.push('}');
    (text.len() <= MAX_OUTPUT).then(|| JsonText::parse(text).ok())?
}

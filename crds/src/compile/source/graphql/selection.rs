//! What a query asks for: by default scalars to a depth of 2, and with a filter what it reads.

use apollo_compiler::Schema;
use apollo_compiler::ast::Type;
use apollo_compiler::collections::{HashMap, IndexMap as SchemaMap};
use apollo_compiler::schema::{Component, ExtendedType, FieldDefinition, Implementers, Name};
use indexmap::IndexMap;
use tamis_engine::Reads;

/// Levels of objects whose scalars are asked for if no filter says otherwise.
const DEPTH: usize = 2;
/// The most object types of an interface or union whose own fields are asked for if no filter says otherwise.
const MAX_TYPES: usize = 16;
/// The most object types that are searched for a field that a filter reads.
const MAX_SEARCHED: usize = 1000;
/// The most fields of a query.
const MAX_FIELDS: usize = 1000;
/// Levels of a query. Servers refuse deeper ones, and a filter's paths may be longer.
const MAX_DEPTH: usize = 32;

/// The selection of an object, interface or union.
#[derive(Debug, Default, Clone)]
pub(super) struct Selected {
    /// Whether `__typename` is asked for.
    pub(super) names_type: bool,
    /// The fields by name.
    pub(super) fields: IndexMap<Name, Picked>,
    /// The fields of some of the types that the value may have.
    pub(super) fragments: IndexMap<Name, IndexMap<Name, Picked>>,
}

/// A field of a selection.
#[derive(Debug, Clone)]
pub(super) struct Picked {
    pub(super) ty: Type,
    /// Its arguments with their brackets, if it is asked for with some.
    pub(super) arguments: String,
    /// What is asked for of it; none of a scalar or an enum.
    pub(super) of: Option<Selected>,
}

impl Selected {
    fn is_empty(&self) -> bool {
        !self.names_type && self.fields.is_empty() && self.fragments.is_empty()
    }

    /// Writes the selection with its braces.
    pub(super) fn write(&self, out: &mut String) {
        out.push('{');
        if self.names_type || (self.fields.is_empty() && self.fragments.is_empty()) {
            out.push_str("__typename ");
        }
        write_fields(&self.fields, out);
        for (ty, fields) in &self.fragments {
            out.push_str(&format!("... on {ty}{{"));
            write_fields(fields, out);
            close(out);
        }
        close(out);
    }
}

fn write_fields(fields: &IndexMap<Name, Picked>, out: &mut String) {
    for (name, picked) in fields {
        out.push_str(name);
        out.push_str(&picked.arguments);
        match &picked.of {
            Some(of) => of.write(out),
            None => out.push(' '),
        }
    }
}

fn close(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('}');
}

/// A schema, and what takes long to find out about it.
#[derive(Debug)]
pub(super) struct Types<'s> {
    pub(super) schema: &'s Schema,
    implementers: HashMap<Name, Implementers>,
}

impl<'s> Types<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, implementers: schema.implementers_map() }
    }

    pub(super) fn fields(&self, ty: &str) -> Option<&'s SchemaMap<Name, Component<FieldDefinition>>> {
        match self.schema.types.get(ty)? {
            ExtendedType::Object(object) => Some(&object.fields),
            ExtendedType::Interface(interface) => Some(&interface.fields),
            _ => None,
        }
    }

    /// Returns the object types that a value of an interface or union may have; none for another type.
    fn possible(&self, ty: &str) -> Option<Vec<&Name>> {
        match self.schema.types.get(ty)? {
            ExtendedType::Interface(_) => {
                Some(self.implementers.get(ty).map(|of| of.objects.iter().collect()).unwrap_or_default())
            }
            ExtendedType::Union(of) => Some(of.members.iter().map(|member| &member.name).collect()),
            _ => None,
        }
    }

    /// Returns whether a value of a type may have a field of this name.
    pub(super) fn has_field(&self, ty: &str, name: &str) -> bool {
        let own = |ty: &str| self.fields(ty).is_some_and(|fields| fields.contains_key(name));
        own(ty) || self.possible(ty).into_iter().flatten().any(|ty| own(ty))
    }

    /// Returns whether a type is a scalar or an enum.
    pub(super) fn is_leaf(&self, ty: &str) -> bool {
        self.schema.types.get(ty).is_none_or(ExtendedType::is_leaf)
    }
}

/// Builds the selection of one query.
pub(super) struct Selector<'t, 's> {
    types: &'t Types<'s>,
    left: usize,
    /// Fields that are left out although they are asked for, with the reason.
    pub(super) omitted: Vec<String>,
}

impl<'t, 's> Selector<'t, 's> {
    pub(super) fn new(types: &'t Types<'s>) -> Self {
        Self { types, left: MAX_FIELDS, omitted: Vec::new() }
    }

    /// Returns what is asked for of a value of a type; none if it is a scalar or an enum.
    pub(super) fn select(&mut self, ty: &Type, reads: &Reads) -> Option<Selected> {
        let name = ty.inner_named_type();
        (!self.types.is_leaf(name)).then(|| self.composite(name, &elements(ty, reads.clone()), 0))
    }

    fn composite(&mut self, ty: &str, reads: &Reads, depth: usize) -> Selected {
        let possible = self.types.possible(ty);
        let mut selected = Selected { names_type: possible.is_some(), ..Selected::default() };
        match reads {
            Reads::All => self.whole(ty, possible, DEPTH.saturating_sub(depth).max(1), &mut selected),
            Reads::Parts(_) => self.named(ty, possible, reads, depth, &mut selected),
        }
        selected
    }

    /// Selects scalars to a depth.
    fn whole(&mut self, ty: &str, possible: Option<Vec<&Name>>, depth: usize, selected: &mut Selected) {
        let mut types = HashMap::default();
        if let Some(fields) = self.types.fields(ty) {
            selected.fields = self.scalars(ty, fields, depth, &mut types);
        }
        let possible = possible.filter(|possible| possible.len() <= MAX_TYPES).unwrap_or_default();
        for object in possible {
            let Some(fields) = self.types.fields(object) else { continue };
            let mut own = self.scalars(object, fields, depth, &mut types);
            own.retain(|name, _| !selected.fields.contains_key(name));
            if !own.is_empty() {
                selected.fragments.insert(object.clone(), own);
            }
        }
    }

    fn scalars(
        &mut self,
        ty: &str,
        fields: &SchemaMap<Name, Component<FieldDefinition>>,
        depth: usize,
        types: &mut HashMap<Name, Type>,
    ) -> IndexMap<Name, Picked> {
        let mut picked = IndexMap::new();
        for (name, field) in fields {
            if self.left == 0 {
                // A schema may have many more fields than there is room for.
                self.omit_rest();
                break;
            }
            let of = field.ty.inner_named_type();
            let is_leaf = self.types.is_leaf(of);
            if !is_leaf && depth <= 1 {
                continue;
            }
            if !self.may_select(ty, field) || !agrees(types, field) {
                continue;
            }
            let of = if is_leaf {
                None
            } else {
                let possible = self.types.possible(of);
                let mut inner = Selected { names_type: possible.is_some(), ..Selected::default() };
                self.whole(of, possible, depth - 1, &mut inner);
                // Nothing of it is a scalar.
                if inner.is_empty() {
                    continue;
                }
                Some(inner)
            };
            picked.insert(name.clone(), Picked { ty: field.ty.clone(), arguments: String::new(), of });
        }
        picked
    }

    /// Selects members by name.
    fn named(&mut self, ty: &str, possible: Option<Vec<&Name>>, reads: &Reads, depth: usize, selected: &mut Selected) {
        if depth >= MAX_DEPTH {
            return;
        }
        let mut types = HashMap::default();
        selected.names_type |= reads.member("__typename").is_some();
        for (name, field) in self.read(ty, reads) {
            if let Some(picked) = self.member(ty, field, reads, depth, &mut types) {
                selected.fields.insert(name.clone(), picked);
            }
        }
        for object in possible.into_iter().flatten().take(MAX_SEARCHED) {
            for (name, field) in self.read(object, reads) {
                if selected.fields.contains_key(name) {
                    continue;
                }
                if let Some(picked) = self.member(object, field, reads, depth, &mut types) {
                    selected.fragments.entry(object.clone()).or_default().insert(name.clone(), picked);
                }
            }
        }
    }

    /// Returns the fields of a type that are read, in the order of the schema.
    fn read(&self, ty: &str, reads: &Reads) -> Vec<(&'s Name, &'s FieldDefinition)> {
        let Some(fields) = self.types.fields(ty) else { return Vec::new() };
        let of = |(name, field): (&'s Name, &'s Component<FieldDefinition>)| (name, &***field);
        if reads.has_every_member() {
            return fields.iter().map(of).collect();
        }
        let mut read: Vec<usize> = reads.names().filter_map(|name| fields.get_index_of(name)).collect();
        read.sort_unstable();
        read.into_iter().filter_map(|index| fields.get_index(index)).map(of).collect()
    }

    fn member(
        &mut self,
        ty: &str,
        field: &FieldDefinition,
        reads: &Reads,
        depth: usize,
        types: &mut HashMap<Name, Type>,
    ) -> Option<Picked> {
        if !self.may_select(ty, field) || !agrees(types, field) {
            return None;
        }
        let reads = elements(&field.ty, reads.member(&field.name)?);
        let of = field.ty.inner_named_type();
        let of = (!self.types.is_leaf(of)).then(|| self.composite(of, &reads, depth + 1));
        Some(Picked { ty: field.ty.clone(), arguments: String::new(), of })
    }

    /// Returns whether a field can be asked for without arguments, and whether there is room for it.
    fn may_select(&mut self, ty: &str, field: &FieldDefinition) -> bool {
        if let Some(argument) = field.arguments.iter().find(|argument| argument.is_required()) {
            self.omit(format!("field `{ty}.{}`, which needs the argument `{}`", field.name, argument.name));
            return false;
        }
        if self.left == 0 {
            self.omit_rest();
            return false;
        }
        self.left -= 1;
        true
    }

    fn omit_rest(&mut self) {
        self.omit(format!("the fields after the first {MAX_FIELDS}"));
    }

    fn omit(&mut self, what: String) {
        if !self.omitted.contains(&what) {
            self.omitted.push(what);
        }
    }
}

/// Returns what is read of the elements of a list, or of a value that is no list.
fn elements(ty: &Type, mut reads: Reads) -> Reads {
    let mut ty = ty;
    while let Type::List(item) | Type::NonNullList(item) = ty {
        reads = reads.element();
        ty = item;
    }
    reads
}

/// Returns whether a field has the type that the fields of this name have in other fragments: an answer has one field of a name.
fn agrees(types: &mut HashMap<Name, Type>, field: &FieldDefinition) -> bool {
    types.entry(field.name.clone()).or_insert_with(|| field.ty.clone()) == &field.ty
}

//! A schema without what the tools that were made of it do not need.

use std::collections::{BTreeMap, BTreeSet};

use apollo_compiler::ast::{DirectiveList as AstDirectives, FieldDefinition, Type};
use apollo_compiler::collections::HashMap;
use apollo_compiler::executable::{Selection, SelectionSet};
use apollo_compiler::schema::{DirectiveList, ExtendedType, Implementers, Name};
use apollo_compiler::{ExecutableDocument, Schema};

/// The directives that say something about what is kept.
const DIRECTIVES: [&str; 3] = ["deprecated", "specifiedBy", "oneOf"];

/// What is kept of a schema.
struct Kept<'s> {
    schema: &'s Schema,
    implementers: HashMap<Name, Implementers>,
    /// Levels below the fields of the root types that are kept.
    depth: usize,
    /// The level at which each object, interface and union was reached.
    levels: BTreeMap<Name, usize>,
    /// The fields of each object and interface.
    fields: BTreeMap<Name, BTreeSet<Name>>,
    /// Scalars, enums and input objects.
    others: BTreeSet<Name>,
}

/// Returns the schema with only these fields of the root types, and what they lead to within `depth` levels, as text. `operations`:
/// everything that they ask for is kept.
pub(super) fn prune(
    schema: &Schema,
    roots: &[(Name, Name)],
    operations: Option<&ExecutableDocument>,
    depth: usize,
) -> String {
    let mut kept = Kept {
        schema,
        implementers: schema.implementers_map(),
        depth,
        levels: BTreeMap::new(),
        fields: BTreeMap::new(),
        others: BTreeSet::new(),
    };
    for (ty, field) in roots {
        kept.field(ty, field, 1);
    }
    for operation in operations.iter().flat_map(|document| document.operations.iter()) {
        if let Some(document) = operations {
            kept.selection(document, &operation.selection_set);
        }
    }
    kept.root();
    kept.interfaces();
    kept.write()
}

impl Kept<'_> {
    fn definition(&self, ty: &str, field: &str) -> Option<FieldDefinition> {
        let fields = match self.schema.types.get(ty)? {
            ExtendedType::Object(object) => &object.fields,
            ExtendedType::Interface(interface) => &interface.fields,
            _ => return None,
        };
        fields.get(field).map(|field| (***field).clone())
    }

    /// Keeps a field, and what its arguments and its value need.
    fn field(&mut self, ty: &Name, field: &Name, level: usize) {
        let Some(definition) = self.definition(ty, field) else { return };
        self.fields.entry(ty.clone()).or_default().insert(field.clone());
        for argument in &definition.arguments {
            self.input(&argument.ty);
        }
        self.value(definition.ty.inner_named_type(), level);
    }

    /// Keeps a type of arguments.
    fn input(&mut self, ty: &Type) {
        let name = ty.inner_named_type();
        if !self.others.insert(name.clone()) {
            return;
        }
        if let Some(ExtendedType::InputObject(object)) = self.schema.types.get(name) {
            for member in object.fields.values() {
                self.input(&member.ty);
            }
        }
    }

    /// Keeps a type of values that was reached at a level.
    fn value(&mut self, name: &Name, level: usize) {
        let Some(ty) = self.schema.types.get(name) else { return };
        if ty.is_leaf() {
            self.others.insert(name.clone());
            return;
        }
        if self.levels.get(name).is_some_and(|known| *known <= level) {
            return;
        }
        self.levels.insert(name.clone(), level);
        let (fields, members) = match ty {
            ExtendedType::Object(object) => (Some(&object.fields), Vec::new()),
            ExtendedType::Interface(interface) => {
                let objects = self.implementers.get(name).map(|of| of.objects.iter().cloned().collect());
                (Some(&interface.fields), objects.unwrap_or_default())
            }
            ExtendedType::Union(of) => (None, of.members.iter().map(|member| member.name.clone()).collect()),
            _ => return,
        };
        for member in members {
            self.value(&member, level);
        }
        let Some(fields) = fields else { return };
        let is_leaf = |field: &FieldDefinition| {
            self.schema.types.get(field.ty.inner_named_type()).is_none_or(ExtendedType::is_leaf)
        };
        // An object of objects alone, as connections are, is no level of its own.
        let has_scalars = fields.values().any(|field| is_leaf(field));
        let next = if has_scalars { level + 1 } else { level };
        let names: Vec<Name> = fields
            .iter()
            .filter(|(_, field)| is_leaf(field) || next <= self.depth)
            .map(|(name, _)| name.clone())
            .collect();
        for field in names {
            self.field(name, &field, next);
        }
    }

    /// Keeps what an operation asks for.
    fn selection(&mut self, document: &ExecutableDocument, set: &SelectionSet) {
        if !self.is_root(&set.ty) {
            self.value(&set.ty, self.depth);
        }
        for selection in &set.selections {
            match selection {
                Selection::Field(field) => {
                    self.field(&set.ty, &field.name, self.depth);
                    self.selection(document, &field.selection_set);
                }
                Selection::InlineFragment(fragment) => self.selection(document, &fragment.selection_set),
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = spread.fragment_def(document) {
                        self.selection(document, &fragment.selection_set);
                    }
                }
            }
        }
    }

    fn is_root(&self, ty: &Name) -> bool {
        self.schema.schema_definition.iter_root_operations().any(|(_, root)| root.name == *ty)
    }

    /// Keeps the query type, which every schema has, with a field.
    fn root(&mut self) {
        let Some(query) = self.schema.schema_definition.query.as_ref().map(|query| query.name.clone()) else { return };
        if self.fields.get(&query).is_none_or(BTreeSet::is_empty)
            && let Some(ExtendedType::Object(object)) = self.schema.types.get(&query)
            && let Some(first) = object.fields.keys().next()
        {
            self.field(&query, first, self.depth);
        }
    }

    /// Keeps the fields that interfaces demand of the objects that have them.
    fn interfaces(&mut self) {
        loop {
            let mut missing = Vec::new();
            for (name, fields) in &self.fields {
                let Some(ExtendedType::Interface(_)) = self.schema.types.get(name) else { continue };
                let Some(of) = self.implementers.get(name) else { continue };
                for implementer in of.iter().filter(|implementer| self.fields.contains_key(*implementer)) {
                    let own = &self.fields[implementer];
                    missing.extend(fields.difference(own).map(|field| (implementer.clone(), field.clone())));
                }
            }
            if missing.is_empty() {
                return;
            }
            for (ty, field) in missing {
                self.field(&ty, &field, self.depth);
            }
        }
    }

    fn write(&self) -> String {
        let mut schema = self.schema.clone();
        let is_kept = |name: &Name| {
            self.fields.contains_key(name) || self.levels.contains_key(name) || self.others.contains(name)
        };
        let definition = schema.schema_definition.make_mut();
        definition.directives = DirectiveList::default();
        definition.subscription = None;
        for root in [&mut definition.query, &mut definition.mutation] {
            root.take_if(|root| !self.fields.contains_key(&root.name));
        }
        schema.directive_definitions.retain(|name, _| DIRECTIVES.contains(&name.as_str()));
        schema.types.retain(|name, ty| ty.is_built_in() || is_kept(name));
        for (name, ty) in &mut schema.types {
            if ty.is_built_in() {
                continue;
            }
            let fields = self.fields.get(name);
            match ty {
                ExtendedType::Scalar(of) => retain(&mut of.make_mut().directives),
                ExtendedType::Object(of) => {
                    let of = of.make_mut();
                    retain(&mut of.directives);
                    of.implements_interfaces.retain(|interface| self.fields.contains_key(&interface.name));
                    of.fields.retain(|field, _| fields.is_some_and(|fields| fields.contains(field)));
                    of.fields.values_mut().for_each(|field| plain(field.make_mut()));
                }
                ExtendedType::Interface(of) => {
                    let of = of.make_mut();
                    retain(&mut of.directives);
                    of.implements_interfaces.retain(|interface| self.fields.contains_key(&interface.name));
                    of.fields.retain(|field, _| fields.is_some_and(|fields| fields.contains(field)));
                    of.fields.values_mut().for_each(|field| plain(field.make_mut()));
                }
                ExtendedType::Union(of) => {
                    let of = of.make_mut();
                    retain(&mut of.directives);
                    of.members.retain(|member| is_kept(&member.name));
                }
                ExtendedType::Enum(of) => {
                    let of = of.make_mut();
                    retain(&mut of.directives);
                    of.values.values_mut().for_each(|value| retain_ast(&mut value.make_mut().directives));
                }
                ExtendedType::InputObject(of) => {
                    let of = of.make_mut();
                    retain(&mut of.directives);
                    of.fields.values_mut().for_each(|field| retain_ast(&mut field.make_mut().directives));
                }
            }
        }
        schema.to_string()
    }
}

fn plain(field: &mut FieldDefinition) {
    retain_ast(&mut field.directives);
    for argument in &mut field.arguments {
        retain_ast(&mut argument.make_mut().directives);
    }
}

fn retain(directives: &mut DirectiveList) {
    directives.0.retain(|directive| DIRECTIVES.contains(&directive.name.as_str()));
}

fn retain_ast(directives: &mut AstDirectives) {
    directives.0.retain(|directive| DIRECTIVES.contains(&directive.name.as_str()));
}

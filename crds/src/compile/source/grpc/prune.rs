//! The part of descriptors that some methods need.

use std::collections::{BTreeSet, HashMap};

use prost::Message as _;
use prost_reflect::{DescriptorPool, EnumDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use prost_types::{
    DescriptorProto, FieldOptions, FileDescriptorProto, FileDescriptorSet, FileOptions, MessageOptions,
    MethodDescriptorProto,
};

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The full names of messages and enums, those around them included.
    types: BTreeSet<String>,
    /// The full names of methods.
    methods: BTreeSet<String>,
    /// The files of types, by the full name of the type.
    files: HashMap<String, String>,
}

impl Kept {
    /// Collects what methods need.
    pub(super) fn new(pool: &DescriptorPool, methods: &[MethodDescriptor]) -> Self {
        let mut kept = Self::default();
        let mut open = Vec::new();
        for method in methods {
            kept.methods.insert(method.full_name().to_owned());
            open.extend([method.input(), method.output()]);
        }
        let mut has_any = false;
        while let Some(message) = open.pop() {
            if !kept.message(&message) {
                continue;
            }
            for field in message.fields() {
                match field.kind() {
                    Kind::Message(message) => open.push(message),
                    Kind::Enum(ty) => kept.enumeration(&ty),
                    _ => {}
                }
            }
            // What is inside of one is not known, so that each type of the documents may be.
            if message.full_name() == "google.protobuf.Any" && !has_any {
                has_any = true;
                let is_own =
                    |message: &MessageDescriptor| !message.parent_file().name().starts_with("google/protobuf/");
                open.extend(pool.all_messages().filter(is_own));
            }
        }
        kept
    }

    /// Returns whether a type is kept.
    pub(super) fn has(&self, full: &str) -> bool {
        self.types.contains(full)
    }

    /// Returns whether a message is kept, or something in it.
    pub(super) fn has_within(&self, full: &str) -> bool {
        let inner = format!("{full}.");
        self.has(full) || self.types.range(inner.clone()..).next().is_some_and(|name| name.starts_with(&inner))
    }

    fn message(&mut self, message: &MessageDescriptor) -> bool {
        let file = message.parent_file().name().to_owned();
        self.files.insert(message.full_name().to_owned(), file);
        let is_new = self.types.insert(message.full_name().to_owned());
        if let (true, Some(parent)) = (is_new, message.parent_message()) {
            self.around(&parent);
        }
        is_new
    }

    fn enumeration(&mut self, ty: &EnumDescriptor) {
        self.files.insert(ty.full_name().to_owned(), ty.parent_file().name().to_owned());
        if let (true, Some(parent)) = (self.types.insert(ty.full_name().to_owned()), ty.parent_message()) {
            self.around(&parent);
        }
    }

    /// Notes that something in a message is kept. Its own fields are not, unless it is kept itself.
    fn around(&mut self, message: &MessageDescriptor) {
        self.files.entry(message.full_name().to_owned()).or_insert_with(|| message.parent_file().name().to_owned());
        if let Some(parent) = message.parent_message() {
            self.around(&parent);
        }
    }

    /// Returns the pruned files, in the order of the pool, in which imports come first. Without comments and options that do not
    /// change what is sent.
    pub(super) fn files(&self, pool: &DescriptorPool) -> Vec<FileDescriptorProto> {
        let mut files = Vec::new();
        for file in pool.files() {
            let proto = file.file_descriptor_proto();
            let package = proto.package();
            let message_type: Vec<_> =
                proto.message_type.iter().filter_map(|message| self.nested(message, package)).collect();
            let enum_type: Vec<_> =
                proto.enum_type.iter().filter(|ty| self.types.contains(&joined(package, ty.name()))).cloned().collect();
            let mut service = proto.service.clone();
            for one in &mut service {
                let full = joined(package, one.name());
                one.method.retain(|method| self.methods.contains(&joined(&full, method.name())));
                one.options = None;
                for MethodDescriptorProto { options, .. } in &mut one.method {
                    *options = None;
                }
            }
            service.retain(|service| !service.method.is_empty());
            if message_type.is_empty() && enum_type.is_empty() && service.is_empty() {
                continue;
            }
            let mut pruned = FileDescriptorProto {
                name: proto.name.clone(),
                package: proto.package.clone(),
                syntax: proto.syntax.clone(),
                message_type,
                enum_type,
                service,
                options: None::<FileOptions>,
                ..FileDescriptorProto::default()
            };
            pruned.enum_type.iter_mut().for_each(strip_enum);
            pruned.dependency = self.dependencies(&pruned).into_iter().collect();
            files.push(pruned);
        }
        files
    }

    /// Returns a message with what is kept in it; none if nothing is.
    fn nested(&self, message: &DescriptorProto, scope: &str) -> Option<DescriptorProto> {
        let full = joined(scope, message.name());
        let nested_type: Vec<_> = message.nested_type.iter().filter_map(|inner| self.nested(inner, &full)).collect();
        let mut enum_type: Vec<_> =
            message.enum_type.iter().filter(|ty| self.types.contains(&joined(&full, ty.name()))).cloned().collect();
        enum_type.iter_mut().for_each(strip_enum);
        let is_kept = self.types.contains(&full);
        if !is_kept && nested_type.is_empty() && enum_type.is_empty() {
            return None;
        }
        let is_entry = message.options.as_ref().is_some_and(MessageOptions::map_entry);
        let options = is_entry.then(|| MessageOptions { map_entry: Some(true), ..MessageOptions::default() });
        let mut pruned = DescriptorProto {
            name: message.name.clone(),
            nested_type,
            enum_type,
            options,
            ..DescriptorProto::default()
        };
        if is_kept {
            pruned.field.clone_from(&message.field);
            pruned.oneof_decl.clone_from(&message.oneof_decl);
            for field in &mut pruned.field {
                let packed = field.options.as_ref().and_then(|options| options.packed);
                field.options = packed.map(|packed| FieldOptions { packed: Some(packed), ..FieldOptions::default() });
            }
            pruned.oneof_decl.iter_mut().for_each(|oneof| oneof.options = None);
        }
        Some(pruned)
    }

    /// Returns the other files that a pruned file needs.
    fn dependencies(&self, file: &FileDescriptorProto) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<&DescriptorProto> = file.message_type.iter().collect();
        let mut need = |name: &str| {
            if let Some(other) = self.files.get(name.trim_start_matches('.')).filter(|other| *other != file.name()) {
                needed.insert(other.clone());
            }
        };
        while let Some(message) = open.pop() {
            open.extend(&message.nested_type);
            message.field.iter().for_each(|field| need(field.type_name()));
        }
        for method in file.service.iter().flat_map(|service| &service.method) {
            need(method.input_type());
            need(method.output_type());
        }
        needed
    }
}

fn strip_enum(ty: &mut prost_types::EnumDescriptorProto) {
    // Two names of one number are an error without it.
    let alias = ty.options.as_ref().and_then(|options| options.allow_alias);
    ty.options = alias.map(|alias| prost_types::EnumOptions { allow_alias: Some(alias), ..Default::default() });
    ty.value.iter_mut().for_each(|value| value.options = None);
}

pub(super) fn joined(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// Returns the bytes of a set of the files that methods need.
pub(super) fn encode(pool: &DescriptorPool, methods: &[MethodDescriptor]) -> Vec<u8> {
    FileDescriptorSet { file: Kept::new(pool, methods).files(pool) }.encode_to_vec()
}

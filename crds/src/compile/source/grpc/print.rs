//! Writes the part of descriptors that tools need as .proto texts, with comments.

use std::collections::HashSet;
use std::fmt::Write as _;

use prost_reflect::MethodDescriptor;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
};

use super::comments::Comments;
use super::pool::Descriptors;
use super::prune::{Kept, joined};

/// A .proto text, and the path by which others import it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtoText {
    /// The path.
    pub path: String,
    /// The text.
    pub text: String,
}

/// Returns the texts, imports first. The comments are those of the documents; options are left out, apart from what says whether a
/// call changes something.
///
/// # Errors
/// What cannot be written, as the end of a sentence about a file.
pub(super) fn texts(descriptors: &Descriptors<'_>, methods: &[MethodDescriptor]) -> Result<Vec<ProtoText>, String> {
    let pool = &descriptors.pool;
    let kept = Kept::new(pool, methods);
    let mut comments = Comments::default();
    let mut texts = Vec::new();
    for pruned in kept.files(pool) {
        // They are known everywhere.
        if pruned.name().starts_with("google/protobuf/") {
            continue;
        }
        if !is_path(pruned.name()) {
            let name = crate::read::excerpt(pruned.name());
            return Err(format!("has the name `{name}`, which is no path of a .proto file in a folder or below"));
        }
        let file = pool.get_file_by_name(pruned.name()).ok_or("is not there")?;
        let whole = file.file_descriptor_proto();
        let mut printer = Printer {
            kept: &kept,
            methods,
            descriptors,
            comments: &mut comments,
            file: &file,
            nested: nested_names(whole),
            package: whole.package(),
            is_proto2: false,
            out: String::new(),
        };
        printer.file(whole, &pruned)?;
        texts.push(ProtoText { path: pruned.name().to_owned(), text: printer.out });
    }
    Ok(texts)
}

/// Returns whether the name of a file is a path in a folder or below, and can be written into a text as it is. A descriptor set may be
/// anyone's.
fn is_path(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | ':' | '\\');
    name.len() <= MAX_PATH && name.ends_with(".proto") && name.chars().all(is_plain) && crate::read::api::is_below(name)
}

/// Bytes of the path of a file.
const MAX_PATH: usize = 1_024;

/// Returns the names of the types that are in messages: a short name could mean one of them.
fn nested_names(file: &FileDescriptorProto) -> HashSet<&str> {
    let mut names = HashSet::new();
    let mut open: Vec<&DescriptorProto> = file.message_type.iter().collect();
    while let Some(message) = open.pop() {
        names.extend(message.nested_type.iter().map(DescriptorProto::name));
        names.extend(message.enum_type.iter().map(EnumDescriptorProto::name));
        open.extend(&message.nested_type);
    }
    names
}

struct Printer<'p> {
    kept: &'p Kept,
    methods: &'p [MethodDescriptor],
    descriptors: &'p Descriptors<'p>,
    comments: &'p mut Comments,
    file: &'p prost_reflect::FileDescriptor,
    nested: HashSet<&'p str>,
    package: &'p str,
    is_proto2: bool,
    out: String,
}

/// Returns a number as a part of the path of a descriptor.
fn part(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

impl Printer<'_> {
    fn file(&mut self, whole: &FileDescriptorProto, pruned: &FileDescriptorProto) -> Result<(), String> {
        let syntax = if whole.syntax().is_empty() { "proto2" } else { whole.syntax() };
        if !matches!(syntax, "proto2" | "proto3") {
            return Err(format!("is written in {syntax}, which cannot be pruned"));
        }
        self.is_proto2 = syntax == "proto2";
        let _ = writeln!(self.out, "syntax = \"{syntax}\";");
        if !whole.package().is_empty() {
            let _ = writeln!(self.out, "\npackage {};", whole.package());
        }
        let mut dependencies: Vec<_> = pruned.dependency.iter().collect();
        dependencies.sort();
        if !dependencies.is_empty() {
            self.out.push('\n');
        }
        for dependency in dependencies {
            let _ = writeln!(self.out, "import \"{dependency}\";");
        }
        for (index, service) in whole.service.iter().enumerate() {
            self.service(service, &[6, part(index)]);
        }
        for (index, message) in whole.message_type.iter().enumerate() {
            self.message(message, whole.package(), &[4, part(index)], 0)?;
        }
        for (index, ty) in whole.enum_type.iter().enumerate() {
            self.enumeration(ty, whole.package(), &[5, part(index)], 0);
        }
        Ok(())
    }

    fn line(&mut self, level: usize, text: &str) {
        self.out.push_str(&"  ".repeat(level));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn comment(&mut self, path: &[i32], level: usize) {
        let Some(comment) = self.comments.of(self.file, path).map(str::to_owned) else { return };
        for paragraph in comment.split('\n') {
            // In lines that are read without scrolling.
            let mut line = "//".to_owned();
            for word in paragraph.split(' ') {
                // A word that would be read as a mark stays where it is.
                let is_mark = word.starts_with(['-', '*']);
                if line.len() > 2 && line.len() + word.len() > 96 && !is_mark {
                    self.line(level, &line);
                    "//".clone_into(&mut line);
                }
                if !word.is_empty() {
                    line.push(' ');
                    line.push_str(word);
                }
            }
            self.line(level, &line);
        }
    }

    fn service(&mut self, service: &ServiceDescriptorProto, path: &[i32]) {
        let full = joined(self.package, service.name());
        let methods: Vec<(usize, MethodDescriptor)> = service
            .method
            .iter()
            .enumerate()
            .filter_map(|(index, method)| {
                let name = joined(&full, method.name());
                Some((index, self.methods.iter().find(|method| method.full_name() == name)?.clone()))
            })
            .collect();
        if methods.is_empty() {
            return;
        }
        self.out.push('\n');
        self.comment(path, 0);
        self.line(0, &format!("service {} {{", service.name()));
        for (index, method) in methods {
            self.comment(&[path, &[2, part(index)]].concat(), 1);
            let stream = if method.is_server_streaming() { "stream " } else { "" };
            let (input, output) = (self.name(method.input().full_name()), self.name(method.output().full_name()));
            let head = format!("rpc {}({input}) returns ({stream}{output})", method.name());
            let risk = self.descriptors.risk(&method);
            let options = method.method_descriptor_proto().options.as_ref();
            let mut lines = Vec::new();
            if options.is_some_and(prost_types::MethodOptions::deprecated) {
                lines.push("option deprecated = true;");
            }
            if !risk.mutating {
                lines.push("option idempotency_level = NO_SIDE_EFFECTS;");
            } else if risk.idempotent {
                lines.push("option idempotency_level = IDEMPOTENT;");
            }
            if lines.is_empty() {
                self.line(1, &format!("{head};"));
                continue;
            }
            self.line(1, &format!("{head} {{"));
            lines.iter().for_each(|line| self.line(2, line));
            self.line(1, "}");
        }
        self.line(0, "}");
    }

    /// Returns the shortest name of a type that means it everywhere in the file.
    fn name(&self, full: &str) -> String {
        let full = full.trim_start_matches('.');
        let own = full.strip_prefix(self.package).and_then(|rest| match self.package {
            "" => Some(rest),
            _ => rest.strip_prefix('.'),
        });
        match own {
            Some(own) if !self.nested.contains(own.split('.').next().unwrap_or_default()) => own.to_owned(),
            _ => format!(".{full}"),
        }
    }

    fn message(&mut self, message: &DescriptorProto, scope: &str, path: &[i32], level: usize) -> Result<(), String> {
        let full = joined(scope, message.name());
        if !self.kept.has_within(&full) {
            return Ok(());
        }
        if level == 0 {
            self.out.push('\n');
        }
        self.comment(path, level);
        self.line(level, &format!("message {} {{", message.name()));
        for (index, ty) in message.enum_type.iter().enumerate() {
            self.enumeration(ty, &full, &[path, &[4, part(index)]].concat(), level + 1);
        }
        for (index, inner) in message.nested_type.iter().enumerate() {
            // Those of maps are written with their fields.
            if !inner.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry) {
                self.message(inner, &full, &[path, &[3, part(index)]].concat(), level + 1)?;
            }
        }
        if self.kept.has(&full) {
            let mut open = None;
            for (index, field) in message.field.iter().enumerate() {
                let oneof = field.oneof_index.filter(|_| !field.proto3_optional());
                if oneof != open {
                    if open.is_some() {
                        self.line(level + 1, "}");
                    }
                    if let Some(oneof) = oneof {
                        let name = usize::try_from(oneof).ok().and_then(|index| message.oneof_decl.get(index));
                        let name = name.map(prost_types::OneofDescriptorProto::name).unwrap_or_default();
                        self.line(level + 1, &format!("oneof {name} {{"));
                    }
                    open = oneof;
                }
                let inner = level + 1 + usize::from(open.is_some());
                self.comment(&[path, &[2, part(index)]].concat(), inner);
                let text = self.field(message, field, open.is_some())?;
                self.line(inner, &text);
            }
            if open.is_some() {
                self.line(level + 1, "}");
            }
        }
        self.line(level, "}");
        Ok(())
    }

    fn field(&self, message: &DescriptorProto, field: &FieldDescriptorProto, in_oneof: bool) -> Result<String, String> {
        let entry = message.nested_type.iter().find(|inner| {
            inner.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry)
                && field.type_name().ends_with(&format!(".{}", inner.name()))
        });
        let ty = match entry.map(|entry| &entry.field[..]) {
            Some([key, value]) => format!("map<{}, {}>", self.ty(key)?, self.ty(value)?),
            _ => self.ty(field)?,
        };
        let label = match field.label() {
            _ if entry.is_some() || in_oneof => "",
            Label::Repeated => "repeated ",
            Label::Required => "required ",
            Label::Optional if self.is_proto2 || field.proto3_optional() => "optional ",
            Label::Optional => "",
        };
        let mut options = Vec::new();
        if let Some(packed) = field.options.as_ref().and_then(|options| options.packed) {
            options.push(format!("packed = {packed}"));
        }
        if field.json_name.as_deref().is_some_and(|name| name != camel_case(field.name())) {
            options.push(format!("json_name = {}", super::super::names::quoted(field.json_name())));
        }
        let options = if options.is_empty() { String::new() } else { format!(" [{}]", options.join(", ")) };
        Ok(format!("{label}{ty} {} = {}{options};", field.name(), field.number()))
    }

    fn ty(&self, field: &FieldDescriptorProto) -> Result<String, String> {
        Ok(match field.r#type() {
            Type::Double => "double",
            Type::Float => "float",
            Type::Int64 => "int64",
            Type::Uint64 => "uint64",
            Type::Int32 => "int32",
            Type::Fixed64 => "fixed64",
            Type::Fixed32 => "fixed32",
            Type::Bool => "bool",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Uint32 => "uint32",
            Type::Sfixed32 => "sfixed32",
            Type::Sfixed64 => "sfixed64",
            Type::Sint32 => "sint32",
            Type::Sint64 => "sint64",
            Type::Message | Type::Enum => return Ok(self.name(field.type_name())),
            Type::Group => return Err(format!("has the group `{}`, which cannot be pruned", field.name())),
        }
        .to_owned())
    }

    fn enumeration(&mut self, ty: &EnumDescriptorProto, scope: &str, path: &[i32], level: usize) {
        if !self.kept.has(&joined(scope, ty.name())) {
            return;
        }
        if level == 0 {
            self.out.push('\n');
        }
        self.comment(path, level);
        self.line(level, &format!("enum {} {{", ty.name()));
        if ty.options.as_ref().is_some_and(prost_types::EnumOptions::allow_alias) {
            self.line(level + 1, "option allow_alias = true;");
        }
        for (index, value) in ty.value.iter().enumerate() {
            self.comment(&[path, &[2, part(index)]].concat(), level + 1);
            self.line(level + 1, &format!("{} = {};", value.name(), value.number()));
        }
        self.line(level, "}");
    }
}

/// Returns the JSON name that a field has without an option.
fn camel_case(name: &str) -> String {
    let mut text = String::new();
    let mut is_upper = false;
    for c in name.chars() {
        match c {
            '_' => is_upper = true,
            c if std::mem::take(&mut is_upper) => text.push(c.to_ascii_uppercase()),
            c => text.push(c),
        }
    }
    text
}

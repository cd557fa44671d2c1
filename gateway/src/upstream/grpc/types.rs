//! The types of messages, prepared for writing their JSON.

use std::collections::HashMap;

use prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

/// The types of a service. A message is named by its number.
#[derive(Debug, Default)]
pub(super) struct Types {
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
    numbers: HashMap<Box<str>, usize>,
}

/// The type of a message.
#[derive(Debug)]
pub(super) struct Message {
    /// Its own JSON form, if it has one.
    pub(super) special: Option<Special>,
    /// In the order in which they are written.
    pub(super) fields: Box<[Field]>,
    /// The places of the fields, by their numbers.
    places: Box<[(u32, usize)]>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// The JSON name in quotes, with a colon.
    pub(super) key: Box<str>,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// The number of the oneof that it belongs to.
    pub(super) oneof: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value. With presence, it is written only if it is there.
    Single {
        presence: bool,
    },
    List,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    Message(usize),
    Enum(usize),
}

/// The names of the values of an enum.
#[derive(Debug)]
pub(super) struct Enum {
    pub(super) is_null: bool,
    /// In quotes.
    pub(super) names: HashMap<i32, Box<str>>,
}

/// A message with a JSON form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Any,
    Timestamp,
    Duration,
    FieldMask,
    /// The value of the only field: wrappers, `Struct` and `ListValue`.
    Only,
    /// The value of the field that is there.
    Value,
}

impl Special {
    fn of(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("google.protobuf.")? {
            "Any" => Self::Any,
            "Timestamp" => Self::Timestamp,
            "Duration" => Self::Duration,
            "FieldMask" => Self::FieldMask,
            "Struct" | "ListValue" | "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
            | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" => Self::Only,
            "Value" => Self::Value,
            _ => return None,
        })
    }
}

impl Types {
    pub(super) fn new(pool: &DescriptorPool) -> Self {
        let all: Vec<MessageDescriptor> = pool.all_messages().collect();
        let enums: Vec<_> = pool.all_enums().collect();
        let numbers: HashMap<Box<str>, usize> =
            all.iter().enumerate().map(|(number, message)| (message.full_name().into(), number)).collect();
        let places: HashMap<&str, usize> =
            enums.iter().enumerate().map(|(number, ty)| (ty.full_name(), number)).collect();
        let kind = |field: &FieldDescriptor| kind(field, &numbers, &places);
        let messages = all.iter().map(|message| Message::new(message, &kind)).collect();
        let enums = enums
            .iter()
            .map(|ty| {
                let mut names = HashMap::new();
                for value in ty.values() {
                    // The first name of a number is the one that is written.
                    names.entry(value.number()).or_insert_with(|| quoted(value.name()));
                }
                Enum { is_null: ty.full_name() == "google.protobuf.NullValue", names }
            })
            .collect();
        Self { messages, enums, numbers }
    }

    /// Returns the number of a message.
    pub(super) fn number(&self, full_name: &str) -> Option<usize> {
        self.numbers.get(full_name).copied()
    }
}

impl Message {
    fn new(message: &MessageDescriptor, kind: &impl Fn(&FieldDescriptor) -> Kind) -> Self {
        let oneofs: Vec<String> = message.oneofs().map(|oneof| oneof.full_name().to_owned()).collect();
        let field = |field: &FieldDescriptor| Field {
            key: format!("{}:", quoted(field.json_name())).into(),
            kind: kind(field),
            shape: match () {
                () if field.is_map() => Shape::Map,
                () if field.is_list() => Shape::List,
                () => Shape::Single { presence: field.supports_presence() },
            },
            oneof: field.containing_oneof().and_then(|own| oneofs.iter().position(|name| name == own.full_name())),
        };
        let all: Vec<FieldDescriptor> = message.fields().collect();
        let mut places: Vec<(u32, usize)> =
            all.iter().enumerate().map(|(place, field)| (field.number(), place)).collect();
        places.sort_unstable();
        Self {
            special: Special::of(message.full_name()),
            fields: all.iter().map(field).collect(),
            places: places.into(),
        }
    }

    /// Returns the place of the field with a number.
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        let found = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.places[found].1)
    }
}

fn kind(field: &FieldDescriptor, messages: &HashMap<Box<str>, usize>, enums: &HashMap<&str, usize>) -> Kind {
    use prost_reflect::Kind as Of;
    match field.kind() {
        Of::Double => Kind::Double,
        Of::Float => Kind::Float,
        Of::Int32 => Kind::Int32,
        Of::Int64 => Kind::Int64,
        Of::Uint32 => Kind::Uint32,
        Of::Uint64 => Kind::Uint64,
        Of::Sint32 => Kind::Sint32,
        Of::Sint64 => Kind::Sint64,
        Of::Fixed32 => Kind::Fixed32,
        Of::Fixed64 => Kind::Fixed64,
        Of::Sfixed32 => Kind::Sfixed32,
        Of::Sfixed64 => Kind::Sfixed64,
        Of::Bool => Kind::Bool,
        Of::String => Kind::String,
        Of::Bytes => Kind::Bytes,
        // The pool has every type that one of its messages names.
        Of::Message(message) => Kind::Message(messages.get(message.full_name()).copied().unwrap_or_default()),
        Of::Enum(ty) => Kind::Enum(enums.get(ty.full_name()).copied().unwrap_or_default()),
    }
}

fn quoted(text: &str) -> Box<str> {
    tamis_engine::json::encode(text).into()
}

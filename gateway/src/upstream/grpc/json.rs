//! Writes the canonical JSON of a message from its wire format. Values that are not there are written with their default, unless
//! the field has presence.
//!
//! There is no tree in between: an upstream would choose how large it is. The memory that is used stays below a limit, and the
//! depth is limited, also that of messages in `Any`.

use std::io::Write as _;

use base64::display::Base64Display;
use base64::prelude::BASE64_STANDARD;

use super::known;
use super::records::{Data, Malformed, Records};
use super::types::{Field, Kind, Message, Shape, Special, Types};

/// Levels of messages.
const MAX_DEPTH: usize = 60;

/// Why no JSON was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotWritten {
    /// The message is not one of its type.
    Malformed(Malformed),
    /// More memory is needed than there is room for.
    Full,
}

impl From<Malformed> for NotWritten {
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

/// Writes the JSON of a message of type `message` behind `out`. `room`: bytes that `out` may have, and the work in addition.
///
/// # Errors
/// [`NotWritten`]. `out` is then of no use.
pub(super) fn write(
    types: &Types,
    message: usize,
    bytes: &[u8],
    out: &mut Vec<u8>,
    room: usize,
) -> Result<(), NotWritten> {
    let mut writer = Writer { types, out: std::mem::take(out), room, used: 0 };
    let written = writer.message(message, &[bytes], 0);
    *out = writer.out;
    written
}

/// Writes the JSON of an `Any`, as [`write`] does.
///
/// # Errors
/// [`NotWritten`].
pub(super) fn write_any(types: &Types, bytes: &[u8], out: &mut Vec<u8>, room: usize) -> Result<(), NotWritten> {
    let mut writer = Writer { types, out: std::mem::take(out), room, used: 0 };
    let written = writer.any(&[bytes], 0);
    *out = writer.out;
    written
}

struct Writer<'t> {
    types: &'t Types,
    out: Vec<u8>,
    room: usize,
    /// Bytes of lists of records.
    used: usize,
}

/// A record of a field.
#[derive(Debug, Clone, Copy)]
struct Record<'b> {
    /// The place of the field.
    field: usize,
    data: Data<'b>,
}

impl<'t> Writer<'t> {
    /// Writes a message. `parts`: its bytes, which may be in several pieces, as the format allows.
    fn message(&mut self, number: usize, parts: &[&[u8]], depth: usize) -> Result<(), NotWritten> {
        if depth > MAX_DEPTH {
            return Err(NotWritten::Malformed("is nested too deeply"));
        }
        let types = self.types;
        let message = types.messages.get(number).ok_or("has a type that is not known")?;
        match message.special {
            Some(Special::Any) => return self.any(parts, depth),
            Some(Special::Timestamp) => return Ok(known::timestamp(&mut self.out, pair(parts)?)?),
            Some(Special::Duration) => return Ok(known::duration(&mut self.out, pair(parts)?)?),
            Some(Special::FieldMask) => return Ok(known::field_mask(&mut self.out, parts)?),
            Some(Special::Only | Special::Value) | None => {}
        }
        let before = self.used;
        let records = self.records(message, parts)?;
        match message.special {
            Some(Special::Only) => {
                let field = message.fields.first().ok_or("has a type without its field")?;
                self.field(field, &records, depth)?;
            }
            Some(Special::Value) => match records.last() {
                Some(last) => {
                    let field = last.field;
                    let own: Vec<_> = records.iter().filter(|record| record.field == field).copied().collect();
                    self.field(&message.fields[field], &own, depth)?;
                }
                None => self.out.extend_from_slice(b"null"),
            },
            Some(_) | None => {
                self.out.push(b'{');
                let mut is_first = true;
                self.members(message, &records, depth, &mut is_first)?;
                self.out.push(b'}');
            }
        }
        self.used = before;
        self.check()
    }

    /// Returns the records of known fields: by field, those of a field in their order. Of a oneof, the field that was set last
    /// counts. `Value` is a oneof of all its fields.
    fn records<'b>(&mut self, message: &Message, parts: &[&'b [u8]]) -> Result<Vec<Record<'b>>, NotWritten> {
        let mut records: Vec<Record<'b>> = Vec::new();
        for part in parts {
            let mut reader = Records(part);
            while let Some((number, data)) = reader.next()? {
                let Some(field) = message.place(number) else { continue };
                if records.len() == records.capacity() {
                    let more = records.len().max(4);
                    self.used += more * size_of::<Record<'_>>();
                    self.check()?;
                    records.reserve_exact(more);
                }
                records.push(Record { field, data });
            }
        }
        if message.fields.iter().any(|field| field.oneof.is_some()) {
            self.oneofs(message, &mut records);
        }
        // In the order of the fields; stable.
        if message.special != Some(Special::Value) {
            records.sort_by_key(|record| record.field);
        }
        Ok(records)
    }

    /// Removes the records that a later field of the same oneof replaces.
    fn oneofs(&self, message: &Message, records: &mut Vec<Record<'_>>) {
        let mut winners: Vec<(usize, usize, bool)> = Vec::new();
        let mut kept: Vec<bool> = vec![true; records.len()];
        for (index, record) in records.iter().enumerate().rev() {
            let Some(oneof) = message.fields[record.field].oneof else { continue };
            match winners.iter_mut().find(|(known, ..)| *known == oneof) {
                None => winners.push((oneof, record.field, false)),
                // What came before another field was set is gone.
                Some((_, winner, is_over)) => {
                    *is_over |= *winner != record.field;
                    kept[index] = !*is_over;
                }
            }
        }
        let mut kept = kept.into_iter();
        records.retain(|_| kept.next().unwrap_or(true));
    }

    /// Writes the members of a message, without braces.
    fn members(
        &mut self,
        message: &Message,
        records: &[Record<'_>],
        depth: usize,
        is_first: &mut bool,
    ) -> Result<(), NotWritten> {
        let mut rest = records;
        for (place, field) in message.fields.iter().enumerate() {
            let end = rest.iter().position(|record| record.field != place).unwrap_or(rest.len());
            let (own, later) = rest.split_at(end);
            rest = later;
            if own.is_empty() && field.shape == (Shape::Single { presence: true }) {
                continue;
            }
            if !std::mem::take(is_first) {
                self.out.push(b',');
            }
            self.out.extend_from_slice(field.key.as_bytes());
            self.field(field, own, depth)?;
            self.check()?;
        }
        Ok(())
    }

    /// Writes the value of a field.
    fn field(&mut self, field: &Field, records: &[Record<'_>], depth: usize) -> Result<(), NotWritten> {
        match field.shape {
            Shape::Single { .. } => match field.kind {
                Kind::Message(number) => {
                    let parts = bytes_of(records)?;
                    self.message(number, &parts, depth + 1)
                }
                kind => match records.last() {
                    Some(record) => self.scalar(kind, record.data),
                    None => self.default(kind),
                },
            },
            Shape::List => {
                self.out.push(b'[');
                let mut is_first = true;
                for record in records {
                    self.elements(field.kind, record.data, depth, &mut is_first)?;
                }
                self.out.push(b']');
                Ok(())
            }
            Shape::Map => self.map(field, records, depth),
        }
    }

    /// Writes the elements of a list that one record holds: several if they are packed.
    fn elements(&mut self, kind: Kind, data: Data<'_>, depth: usize, is_first: &mut bool) -> Result<(), NotWritten> {
        let mut next = |writer: &mut Self| {
            if !std::mem::take(is_first) {
                writer.out.push(b',');
            }
            writer.check()
        };
        match (kind, data) {
            (Kind::Message(number), Data::Bytes(bytes)) => {
                next(self)?;
                self.message(number, &[bytes], depth + 1)
            }
            (Kind::String | Kind::Bytes, _) => {
                next(self)?;
                self.scalar(kind, data)
            }
            (_, Data::Bytes(packed)) => {
                let mut packed = Records(packed);
                while !packed.0.is_empty() {
                    let data = match kind {
                        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Data::Fixed64(packed.fixed64()?),
                        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Data::Fixed32(packed.fixed32()?),
                        _ => Data::Varint(packed.varint()?),
                    };
                    next(self)?;
                    self.scalar(kind, data)?;
                }
                Ok(())
            }
            _ => {
                next(self)?;
                self.scalar(kind, data)
            }
        }
    }

    /// Writes a map, by its keys. Of two entries with one key, the last one counts.
    fn map(&mut self, field: &Field, records: &[Record<'_>], depth: usize) -> Result<(), NotWritten> {
        let Kind::Message(number) = field.kind else { return Err("has a map without entries".into()) };
        let types = self.types;
        let entry = types.messages.get(number).ok_or("has a type that is not known")?;
        let own = |number| entry.place(number).map(|place| &entry.fields[place]);
        let (Some(key), Some(value)) = (own(1), own(2)) else { return Err("has a map without entries".into()) };
        let before = self.used;
        self.used += records.len() * (size_of::<(Key<'_>, usize, &[u8])>());
        self.check()?;
        let mut entries: Vec<(Key<'_>, usize, &[u8])> = Vec::with_capacity(records.len());
        for (index, record) in records.iter().enumerate() {
            let Data::Bytes(bytes) = record.data else { return Err(OTHER_TYPE.into()) };
            entries.push((Key::read(key.kind, bytes)?, index, bytes));
        }
        entries.sort_unstable();
        self.out.push(b'{');
        let mut is_first = true;
        for (index, (key, _, bytes)) in entries.iter().enumerate() {
            if entries.get(index + 1).is_some_and(|(next, ..)| next == key) {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match key {
                Key::Number(number) => write!(self.out, "\"{number}\"").map_err(|_| NotWritten::Full)?,
                Key::Bool(value) => write!(self.out, "\"{value}\"").map_err(|_| NotWritten::Full)?,
                Key::Text(text) => self.string(text)?,
            }
            self.out.push(b':');
            let mut values = Vec::new();
            let mut reader = Records(bytes);
            while let Some((number, data)) = reader.next()? {
                if number == 2 {
                    values.push(Record { field: 0, data });
                }
            }
            self.field(value, &values, depth)?;
            self.check()?;
        }
        self.out.push(b'}');
        self.used = before;
        Ok(())
    }

    /// Writes an `Any`. One whose type is not known gets its bytes as `value`.
    fn any(&mut self, parts: &[&[u8]], depth: usize) -> Result<(), NotWritten> {
        let (mut url, mut value): (&[u8], &[u8]) = (&[], &[]);
        for part in parts {
            let mut reader = Records(part);
            while let Some((number, data)) = reader.next()? {
                match (number, data) {
                    (1, Data::Bytes(bytes)) => url = bytes,
                    (2, Data::Bytes(bytes)) => value = bytes,
                    (1 | 2, _) => return Err(OTHER_TYPE.into()),
                    _ => {}
                }
            }
        }
        let url = text(url)?;
        self.out.push(b'{');
        if url.is_empty() && value.is_empty() {
            self.out.push(b'}');
            return Ok(());
        }
        self.out.extend_from_slice(b"\"@type\":");
        self.string(url)?;
        let types = self.types;
        let name = url.rsplit('/').next().unwrap_or_default();
        let inner = types.number(name);
        match inner.map(|number| (number, &types.messages[number])) {
            Some((number, Message { special: Some(_), .. })) => {
                self.out.extend_from_slice(b",\"value\":");
                self.message(number, &[value], depth + 1)?;
            }
            Some((_, inner)) => {
                if depth >= MAX_DEPTH {
                    return Err(NotWritten::Malformed("is nested too deeply"));
                }
                let before = self.used;
                let records = self.records(inner, &[value])?;
                self.members(inner, &records, depth + 1, &mut false)?;
                self.used = before;
            }
            None => {
                self.out.extend_from_slice(b",\"value\":");
                self.base64(value)?;
            }
        }
        self.out.push(b'}');
        self.check()
    }

    fn scalar(&mut self, kind: Kind, data: Data<'_>) -> Result<(), NotWritten> {
        let full = |_| NotWritten::Full;
        // Numbers of 32 bits may arrive with more: the lower ones count.
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as the format has it")]
        match (kind, data) {
            (Kind::Double, Data::Fixed64(bits)) => known::double(&mut self.out, f64::from_bits(bits)),
            (Kind::Float, Data::Fixed32(bits)) => known::float(&mut self.out, f32::from_bits(bits)),
            (Kind::Int32, Data::Varint(value)) => write!(self.out, "{}", value as i32).map_err(full)?,
            (Kind::Int64, Data::Varint(value)) => write!(self.out, "\"{}\"", value as i64).map_err(full)?,
            (Kind::Uint32, Data::Varint(value)) => write!(self.out, "{}", value as u32).map_err(full)?,
            (Kind::Uint64, Data::Varint(value)) => write!(self.out, "\"{value}\"").map_err(full)?,
            (Kind::Sint32, Data::Varint(value)) => {
                write!(self.out, "{}", zigzag(u64::from(value as u32)) as i32).map_err(full)?;
            }
            (Kind::Sint64, Data::Varint(value)) => write!(self.out, "\"{}\"", zigzag(value)).map_err(full)?,
            (Kind::Fixed32, Data::Fixed32(value)) => write!(self.out, "{value}").map_err(full)?,
            (Kind::Sfixed32, Data::Fixed32(value)) => write!(self.out, "{}", value as i32).map_err(full)?,
            (Kind::Fixed64, Data::Fixed64(value)) => write!(self.out, "\"{value}\"").map_err(full)?,
            (Kind::Sfixed64, Data::Fixed64(value)) => write!(self.out, "\"{}\"", value as i64).map_err(full)?,
            (Kind::Bool, Data::Varint(value)) => write!(self.out, "{}", value != 0).map_err(full)?,
            (Kind::String, Data::Bytes(bytes)) => self.string(text(bytes)?)?,
            (Kind::Bytes, Data::Bytes(bytes)) => self.base64(bytes)?,
            (Kind::Enum(number), Data::Varint(value)) => self.enumeration(number, value as i32)?,
            _ => return Err(OTHER_TYPE.into()),
        }
        Ok(())
    }

    fn default(&mut self, kind: Kind) -> Result<(), NotWritten> {
        self.out.extend_from_slice(match kind {
            Kind::Double | Kind::Float => b"0.0".as_slice(),
            Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Fixed32 | Kind::Sfixed32 => b"0",
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => b"\"0\"",
            Kind::Bool => b"false",
            Kind::String | Kind::Bytes => b"\"\"",
            Kind::Enum(number) => return self.enumeration(number, 0),
            Kind::Message(_) => b"null",
        });
        Ok(())
    }

    fn enumeration(&mut self, number: usize, value: i32) -> Result<(), NotWritten> {
        let ty = self.types.enums.get(number).ok_or("has a type that is not known")?;
        match ty.names.get(&value) {
            _ if ty.is_null => self.out.extend_from_slice(b"null"),
            Some(name) => self.out.extend_from_slice(name.as_bytes()),
            // A value that the server knows and the descriptors do not.
            None => write!(self.out, "{value}").map_err(|_| NotWritten::Full)?,
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), NotWritten> {
        // Each byte becomes six at most.
        if self.out.len() + self.used + text.len() > self.room {
            return Err(NotWritten::Full);
        }
        serde_json::to_writer(&mut self.out, text).map_err(|_| NotWritten::Full)?;
        self.check()
    }

    fn base64(&mut self, bytes: &[u8]) -> Result<(), NotWritten> {
        if self.out.len() + self.used + bytes.len() > self.room {
            return Err(NotWritten::Full);
        }
        write!(self.out, "\"{}\"", Base64Display::new(bytes, &BASE64_STANDARD)).map_err(|_| NotWritten::Full)?;
        self.check()
    }

    fn check(&self) -> Result<(), NotWritten> {
        if self.out.len() + self.used > self.room { Err(NotWritten::Full) } else { Ok(()) }
    }
}

const OTHER_TYPE: Malformed = "has a field of another type than its descriptors say";

/// The key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'b> {
    Number(i128),
    Bool(bool),
    Text(&'b str),
}

impl<'b> Key<'b> {
    /// Reads the key of an entry.
    fn read(kind: Kind, entry: &'b [u8]) -> Result<Self, NotWritten> {
        let mut key = None;
        let mut reader = Records(entry);
        while let Some((number, data)) = reader.next()? {
            if number == 1 {
                key = Some(data);
            }
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as the format has it")]
        Ok(match (kind, key) {
            (Kind::String, None) => Self::Text(""),
            (Kind::Bool, None) => Self::Bool(false),
            (_, None) => Self::Number(0),
            (Kind::String, Some(Data::Bytes(bytes))) => Self::Text(text(bytes)?),
            (Kind::Bool, Some(Data::Varint(value))) => Self::Bool(value != 0),
            (Kind::Int32, Some(Data::Varint(value))) => Self::Number((value as i32).into()),
            (Kind::Int64, Some(Data::Varint(value))) => Self::Number((value as i64).into()),
            (Kind::Uint32, Some(Data::Varint(value))) => Self::Number((value as u32).into()),
            (Kind::Uint64, Some(Data::Varint(value))) => Self::Number(value.into()),
            (Kind::Sint32, Some(Data::Varint(value))) => Self::Number((zigzag(u64::from(value as u32)) as i32).into()),
            (Kind::Sint64, Some(Data::Varint(value))) => Self::Number(zigzag(value).into()),
            (Kind::Fixed32, Some(Data::Fixed32(value))) => Self::Number(value.into()),
            (Kind::Sfixed32, Some(Data::Fixed32(value))) => Self::Number((value as i32).into()),
            (Kind::Fixed64, Some(Data::Fixed64(value))) => Self::Number(value.into()),
            (Kind::Sfixed64, Some(Data::Fixed64(value))) => Self::Number((value as i64).into()),
            _ => return Err(OTHER_TYPE.into()),
        })
    }
}

/// Returns the bytes of records, in their order: a message may come in several pieces.
fn bytes_of<'b>(records: &[Record<'b>]) -> Result<smallvec::SmallVec<[&'b [u8]; 1]>, NotWritten> {
    let bytes = |record: &Record<'b>| match record.data {
        Data::Bytes(bytes) => Ok(bytes),
        _ => Err(OTHER_TYPE.into()),
    };
    records.iter().map(bytes).collect()
}

/// Returns the numbers of the fields 1 and 2: of a timestamp or a duration.
fn pair(parts: &[&[u8]]) -> Result<(i64, i32), Malformed> {
    let (mut seconds, mut nanos) = (0, 0);
    for part in parts {
        let mut reader = Records(part);
        while let Some((number, data)) = reader.next()? {
            #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as the format has it")]
            match (number, data) {
                (1, Data::Varint(value)) => seconds = value as i64,
                (2, Data::Varint(value)) => nanos = value as i32,
                (1 | 2, _) => return Err(OTHER_TYPE),
                _ => {}
            }
        }
    }
    Ok((seconds, nanos))
}

#[expect(clippy::cast_possible_wrap, reason = "as the format has it")]
fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| "has a text that is not UTF-8")
}

//! Bodies that are not JSON: forms, parts, text and bytes.

use tamis_config::{ArgumentStyle, ContentKind, ContentTemplate};
use tamis_engine::ResponseType;

use super::body::{ObjectMembers, WHOLE, is_json, members, plain, valid};
use super::document::{At, Document, Halt};
use super::operation::{Arguments, Request, is_deep, shape};
use super::schema::Writer;
use crate::compile::source::names::{bounded, quoted};
use crate::read::excerpt;

const FORM: &str = "application/x-www-form-urlencoded";
const PARTS: &str = "multipart/form-data";
const BYTES: &str = "application/octet-stream";
/// Media types of text, in addition to `text/*`, `+xml` and `+yaml`.
const TEXT: [&str; 8] = [
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/x-ndjson",
    "application/jsonl",
    "application/graphql",
    "application/javascript",
    "application/sql",
];

/// Adds a body of the first of its media types that a request can express: a form, parts, text, bytes.
///
/// # Errors
/// For a mistake, and for a body that a request cannot express.
pub(super) fn add<'n>(
    document: &Document<'n>,
    content: &[(&'n str, At<'n>)],
    is_required: bool,
    writer: &mut Writer<'_, 'n>,
    arguments: &mut Arguments,
    request: &mut Request,
) -> Result<(), Halt> {
    let of = |media_type: &str| content.iter().find(|(media, _)| plain(media) == media_type);
    if let Some((_, at)) = of(FORM) {
        for (name, schema, required) in form(document, at, is_required)? {
            // Read-only fields are not sent.
            if writer.is_hidden(&schema) {
                continue;
            }
            let encoding = at.get("encoding").and_then(|encoding| encoding.get(name));
            let style = form_style(document, name, &schema, encoding.as_ref())?;
            let written = writer.schema(&schema, None)?;
            let argument = arguments.add(name, WHOLE, written, required && is_required)?;
            request.form.insert(name.to_owned(), format!("{{{argument}}}"));
            if style != ArgumentStyle::Repeat {
                request.form_styles.insert(name.to_owned(), style);
            }
        }
        return Ok(());
    }
    if let Some((_, at)) = of(PARTS) {
        let fields = described(document, at).ok_or_else(|| unsupported("of parts of any names"))?;
        for (name, schema, required) in fields {
            // Read-only fields are not sent.
            if writer.is_hidden(&schema) {
                continue;
            }
            let encoding = at.get("encoding").and_then(|encoding| encoding.get(name));
            let part = part(document, name, &schema, encoding.as_ref())?;
            let written = part.schema(document, &schema, writer)?;
            let Part { kind, media_type, is_list: _ } = part;
            let argument = arguments.add(name, WHOLE, written, required && is_required)?;
            request.parts.insert(name.to_owned(), ContentTemplate { argument, kind, media_type });
        }
        return Ok(());
    }
    let usable = |(media, at): &(&'n str, At<'n>)| {
        whole(document, media, at.get("schema").as_ref()).map(|kind| (*media, kind, at.clone()))
    };
    // Text first: a model reads and writes it.
    let mut all: Vec<_> = content.iter().filter_map(usable).collect();
    all.sort_by_key(|(_, kind, _)| *kind == ContentKind::Bytes);
    let Some((media, kind, at)) = all.into_iter().next() else {
        let kinds: Vec<String> = content.iter().map(|(media, _)| excerpt(media)).collect();
        let none = kinds.is_empty();
        return Err(unsupported(&if none {
            "of no media type".to_owned()
        } else {
            format!("of {}", kinds.join(", "))
        }));
    };
    let schema = at.get("schema");
    let written = match (kind, &schema) {
        (ContentKind::Bytes, schema) => bytes(schema.as_ref().and_then(|schema| schema.text_of("description"))),
        (_, Some(schema)) => writer.schema(schema, None)?,
        (_, None) => "{\"type\":\"string\"}".to_owned(),
    };
    let argument = arguments.add(WHOLE, kind_word(kind), written, is_required)?;
    request.content = Some(ContentTemplate { argument, kind, media_type: Some(valid(media)?.to_owned()) });
    Ok(())
}

// Without its body, the operation would be another one.
fn unsupported(what: &str) -> Halt {
    Halt::LeftOut(format!("has a body {what}"))
}

fn kind_word(kind: ContentKind) -> &'static str {
    match kind {
        ContentKind::Text => "text",
        ContentKind::Json => "json",
        ContentKind::Bytes => "bytes",
    }
}

/// Returns the schema of an argument that holds bytes.
fn bytes(description: Option<&str>) -> String {
    let description = match description {
        Some(text) => format!("\"description\":{},", quoted(&bounded(text, 1024))),
        None => String::new(),
    };
    format!("{{{description}\"type\":\"string\",\"contentEncoding\":\"base64\"}}")
}

/// Returns the fields that a media type describes; `None` if there may be others.
fn described<'n>(document: &Document<'n>, media: &At<'n>) -> Option<ObjectMembers<'n>> {
    let members = media.get("schema").and_then(|schema| members(document, &schema))?;
    (!members.is_empty()).then_some(members)
}

/// Returns the fields of a form.
///
/// # Errors
/// For a form that a request cannot express.
fn form<'n>(document: &Document<'n>, media: &At<'n>, is_required: bool) -> Result<ObjectMembers<'n>, Halt> {
    let all = media.get("schema").and_then(|schema| members(document, &schema));
    // A form without fields is no body.
    all.filter(|members| !is_required || !members.is_empty()).ok_or_else(|| unsupported("that is a form of any fields"))
}

/// Decides how a field of a form is written (OpenAPI 3.1, 4.8.15.1.2). `deepObject` means for lists, and for what is in objects, what
/// the APIs that declare it so do: each key and each index in brackets.
fn form_style<'n>(
    document: &Document<'n>,
    name: &str,
    schema: &At<'n>,
    encoding: Option<&At<'n>>,
) -> Result<ArgumentStyle, Halt> {
    let name = excerpt(name);
    let is_list = shape(document, schema) == Some(ResponseType::Array);
    let is_deep = is_deep(document, schema);
    let of = |key: &str| encoding.and_then(|encoding| encoding.text_of(key));
    let has_style =
        ["style", "explode", "allowReserved"].iter().any(|key| encoding.is_some_and(|at| at.get(key).is_some()));
    if let (false, Some(media_type)) = (has_style, of("contentType")) {
        return match (is_json(media_type), is_list || is_deep) {
            (true, true) => Ok(ArgumentStyle::Json),
            (_, false) => Ok(ArgumentStyle::Repeat),
            (false, true) => {
                Err(unsupported(&format!("that is a form whose field `{name}` is written as {}", excerpt(media_type))))
            }
        };
    }
    let explode = encoding.is_none_or(|at| at.get("explode").is_none() || at.flag("explode"));
    match of("style").unwrap_or("form") {
        "deepObject" => Ok(ArgumentStyle::Nested),
        _ if is_deep => Err(unsupported(&format!(
            "that is a form whose field `{name}` is an object, or a list of objects or lists"
        ))),
        "form" | "spaceDelimited" | "pipeDelimited" if !is_list => Ok(ArgumentStyle::Repeat),
        "form" if explode => Ok(ArgumentStyle::Repeat),
        "form" => Ok(ArgumentStyle::Comma),
        "spaceDelimited" => Ok(if explode { ArgumentStyle::Repeat } else { ArgumentStyle::Space }),
        "pipeDelimited" => Ok(if explode { ArgumentStyle::Repeat } else { ArgumentStyle::Pipe }),
        style => Err(unsupported(&format!("that is a form whose field `{name}` has the style `{}`", excerpt(style)))),
    }
}

/// How a field of a multipart body is written.
struct Part {
    kind: ContentKind,
    media_type: Option<String>,
    /// Whether each element of a list is a part.
    is_list: bool,
}

impl Part {
    fn schema<'n>(
        &self,
        document: &Document<'n>,
        schema: &At<'n>,
        writer: &mut Writer<'_, 'n>,
    ) -> Result<String, Halt> {
        if self.kind != ContentKind::Bytes {
            return writer.schema(schema, None);
        }
        let resolved = document.resolve(schema)?;
        let one = bytes(resolved.text_of("description"));
        Ok(if self.is_list { format!("{{\"type\":\"array\",\"items\":{one}}}") } else { one })
    }
}

/// Decides how a field of a multipart body is written (OpenAPI 3.1, 4.8.14.4 and 4.8.15).
fn part<'n>(document: &Document<'n>, name: &str, schema: &At<'n>, encoding: Option<&At<'n>>) -> Result<Part, Halt> {
    let name = excerpt(name);
    if let Some(encoding) = encoding {
        if ["style", "explode", "allowReserved"].into_iter().any(|key| encoding.get(key).is_some()) {
            return Err(unsupported(&format!("whose part `{name}` has a style")));
        }
        let headers = encoding.get("headers");
        if headers.iter().flat_map(At::members).any(|(_, header)| header.flag("required")) {
            return Err(unsupported(&format!("whose part `{name}` requires headers")));
        }
    }
    // A list of types, or a range, says what the server accepts and not what the part is.
    let given = encoding.and_then(|encoding| encoding.text_of("contentType"));
    let given = given.map(str::trim).filter(|text| !text.contains([',', '*'])).map(valid).transpose()?;
    let kind = shape(document, schema);
    let element = match kind {
        Some(ResponseType::Array) => document.resolve(schema)?.get("items"),
        _ => None,
    };
    let is_list = element.is_some();
    let one = element.as_ref().unwrap_or(schema);
    if let Some(own) = is_bytes(document, one)? {
        let media_type = given.map_or_else(|| own.unwrap_or(BYTES).to_owned(), str::to_owned);
        return Ok(Part { kind: ContentKind::Bytes, media_type: Some(valid(&media_type)?.to_owned()), is_list });
    }
    if is_scalar(document, one)? {
        return Ok(Part { kind: ContentKind::Text, media_type: given.map(str::to_owned), is_list });
    }
    match given {
        Some(other) if !is_json(other) => {
            Err(unsupported(&format!("whose part `{name}` is not text and is written as {}", excerpt(other))))
        }
        _ => {
            let media_type = Some(given.unwrap_or("application/json").to_owned());
            Ok(Part { kind: ContentKind::Json, media_type, is_list: false })
        }
    }
}

/// Returns whether a schema describes bytes, with the media type that it names.
fn is_bytes<'n>(document: &Document<'n>, schema: &At<'n>) -> Result<Option<Option<&'n str>>, Halt> {
    let at = document.resolve(schema)?;
    let media_type = at.text_of("contentMediaType");
    let is_untyped = at.get("type").is_none() && at.get("contentEncoding").is_none();
    // From 3.1 on, a schema without any type, or with a media type alone, describes bytes.
    let describes_nothing = at.members().all(|(key, _)| matches!(key, "title" | "description" | "contentMediaType"));
    let is = at.text_of("format") == Some("binary") || (is_untyped && (media_type.is_some() || describes_nothing));
    Ok(is.then_some(media_type))
}

/// Returns whether a schema describes a string, number or boolean.
fn is_scalar<'n>(document: &Document<'n>, schema: &At<'n>) -> Result<bool, Halt> {
    let at = document.resolve(schema)?;
    let Some(types) = at.get("type") else { return Ok(at.get("enum").is_some() || at.get("format").is_some()) };
    let is = |at: &At<'n>| matches!(at.text(), Some("string" | "number" | "integer" | "boolean" | "null"));
    Ok(is(&types) || (types.items().next().is_some() && types.items().all(|at| is(&at))))
}

/// Returns how a body of a media type is the value of one argument; `None` if it is not.
fn whole<'n>(document: &Document<'n>, media: &str, schema: Option<&At<'n>>) -> Option<ContentKind> {
    let media = plain(media);
    if media.contains('*') || !media.contains('/') || media.starts_with("multipart/") || media == FORM {
        return None;
    }
    let is_text = media.starts_with("text/") || media.ends_with("+xml") || media.ends_with("+yaml");
    let kind = if is_text || TEXT.contains(&&*media) { ContentKind::Text } else { ContentKind::Bytes };
    let Some(schema) = schema else { return Some(kind) };
    let is_one = is_bytes(document, schema).ok()?.is_some() || is_scalar(document, schema).ok()?;
    is_one.then_some(kind)
}

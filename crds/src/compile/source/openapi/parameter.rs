//! Parameters of operations: path, query, header and cookie, in every style that a request can express.

use indexmap::IndexMap;
use tamis_config::{ArgumentStyle, Auth, AuthKind, CookieStyle, CookieTemplate, MemberStyle};
use tamis_engine::ResponseType;

use super::super::names::argument_name;
use super::document::{At, Document, Halt};
use super::operation::{Arguments, Operation, Request, is_deep, is_nested, shape};
use super::schema::Writer;
use crate::compile::auth::{is_request_header, is_token};
use crate::compile::credentials::ACCOUNT_HEADERS;
use crate::compile::template::{literal, placeholders};
use crate::read::excerpt;

/// The most parameters of one operation.
const MAX_PARAMETERS: usize = 256;
/// Headers that a parameter never sets (OpenAPI 3.1, 4.8.12.1).
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// A parameter, with the defaults of its place.
struct Parameter<'n> {
    name: &'n str,
    place: Place,
    at: At<'n>,
    schema: Option<At<'n>>,
    is_required: bool,
    style: &'n str,
    explode: bool,
    /// Whether the value is written as JSON (`content`).
    is_json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

impl Place {
    fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// Adds the parameters of an operation to its arguments and its request.
///
/// # Errors
/// For a mistake, and for a required parameter that a request cannot express.
pub(super) fn add_all<'n>(
    document: &Document<'n>,
    operation: &Operation<'n>,
    auth: Option<&Auth>,
    writer: &mut Writer<'_, 'n>,
    arguments: &mut Arguments,
    request: &mut Request,
) -> Result<(), Halt> {
    let mut all: IndexMap<(Place, &'n str), Parameter<'n>> = IndexMap::new();
    for owner in [&operation.item, &operation.at] {
        let Some(list) = owner.get("parameters") else { continue };
        for at in list.items() {
            if all.len() >= MAX_PARAMETERS {
                return Err(Halt::LeftOut(format!("has more than {MAX_PARAMETERS} parameters")));
            }
            let parameter = read(document, &document.resolve(&at)?)?;
            // A parameter of the operation replaces that of its path, in its place.
            all.insert((parameter.place, parameter.name), parameter);
        }
    }
    check_path(document, operation)?;
    let in_path: Vec<&str> = placeholders(operation.path).collect();
    if let Some(name) = in_path.iter().find(|name| !all.contains_key(&(Place::Path, **name))) {
        let message = format!("the path has `{{{}}}`, and no parameter of the path declares it", excerpt(name));
        let remedy = "add the parameter with `in: path`, or correct its name";
        return Err(document.mistake(&operation.at, message, remedy));
    }
    let twice = in_path.iter().enumerate().any(|(index, name)| in_path[..index].contains(name));
    if twice {
        return Err(Halt::LeftOut("has a path with one parameter in two places".to_owned()));
    }
    // In this order, so that a parameter of the path keeps its name.
    for place in [Place::Path, Place::Query, Place::Header, Place::Cookie] {
        for parameter in all.values().filter(|parameter| parameter.place == place) {
            if place == Place::Path && !in_path.contains(&parameter.name) {
                continue;
            }
            match add(document, parameter, auth, writer, arguments, request) {
                Err(Halt::LeftOut(reason)) if !parameter.is_required => {
                    request.omitted.push(format!("{} `{}`, which {reason}", place.word(), excerpt(parameter.name)));
                }
                Err(Halt::LeftOut(reason)) => {
                    let name = excerpt(parameter.name);
                    return Err(Halt::LeftOut(format!("requires {} `{name}`, which {reason}", place.word())));
                }
                other => other?,
            }
        }
    }
    Ok(())
}

/// Checks what a request's path may hold beside its parameters.
fn check_path<'n>(document: &Document<'n>, operation: &Operation<'n>) -> Result<(), Halt> {
    let fixed = literal(operation.path);
    if fixed.contains(['?', '#', '{', '}', '\\']) || fixed.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Halt::LeftOut(
            "has a path with a character that no path can have: ? # { } \\ or a space".to_owned(),
        ));
    }
    let wrong = if !operation.path.starts_with('/') {
        "does not begin with /"
    } else if operation.path.split('/').any(|segment| matches!(segment, "." | "..")) {
        "has a segment `.` or `..`"
    } else {
        return Ok(());
    };
    Err(document.mistake(&operation.item, wrong, "correct the path"))
}

fn read<'n>(document: &Document<'n>, at: &At<'n>) -> Result<Parameter<'n>, Halt> {
    if !at.is_map() {
        let message = format!("expected a parameter, found {}", at.node.describe());
        return Err(document.mistake(at, message, "write name, in and schema"));
    }
    let Some(name) = at.text_of("name").filter(|name| !name.is_empty()) else {
        return Err(document.mistake(at, "the parameter has no name", "add `name`"));
    };
    let place = match at.text_of("in") {
        Some("path") => Place::Path,
        Some("query") => Place::Query,
        Some("header") => Place::Header,
        Some("cookie") => Place::Cookie,
        Some("querystring") => return Err(Halt::LeftOut("has a parameter for the whole query".to_owned())),
        Some("body" | "formData") => {
            let remedy = "describe the body in `requestBody`; parameters of the body are Swagger 2.0";
            return Err(document.mistake(at, "a parameter cannot be in the body", remedy));
        }
        other => {
            let at = at.get("in").unwrap_or_else(|| at.clone());
            let message = format!("`{}` is not a place of parameters", excerpt(other.unwrap_or_default()));
            return Err(document.mistake(&at, message, "write one of path, query, header, cookie"));
        }
    };
    let content = at.get("content").and_then(|content| content.members().next());
    let is_json = content.is_some();
    let schema = match content {
        Some((media_type, media)) => {
            if !super::body::is_json(media_type) && at.flag("required") {
                return Err(Halt::LeftOut(format!("requires `{}` as {}", excerpt(name), excerpt(media_type))));
            }
            media.get("schema")
        }
        None => at.get("schema"),
    };
    let style = at.text_of("style").unwrap_or(match place {
        Place::Path | Place::Header => "simple",
        Place::Query | Place::Cookie => "form",
    });
    let explode = if at.get("explode").is_some() { at.flag("explode") } else { matches!(style, "form" | "cookie") };
    Ok(Parameter {
        name,
        place,
        schema,
        is_required: place == Place::Path || at.flag("required"),
        style,
        explode,
        is_json,
        at: at.clone(),
    })
}

fn add<'n>(
    document: &Document<'n>,
    parameter: &Parameter<'n>,
    auth: Option<&Auth>,
    writer: &mut Writer<'_, 'n>,
    arguments: &mut Arguments,
    request: &mut Request,
) -> Result<(), Halt> {
    let name = parameter.name;
    let form = parameter.schema.as_ref().and_then(|schema| shape(document, schema));
    if parameter.place == Place::Header {
        let lower = name.to_ascii_lowercase();
        if IGNORED_HEADERS.contains(&lower.as_str()) {
            return Ok(());
        }
        if ACCOUNT_HEADERS.contains(&lower.as_str()) || !is_request_header(name) {
            return Err(Halt::LeftOut("is managed by the gateway".to_owned()));
        }
        let is_secret = |auth: &&Auth| {
            auth.kind == AuthKind::Header && auth.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name))
        };
        if auth.filter(is_secret).is_some() {
            return Ok(());
        }
    }
    if parameter.place == Place::Query
        && let Some(Auth { kind: AuthKind::Query, name: Some(secret), .. }) = auth
    {
        if secret == name {
            return Ok(());
        }
        if secret.starts_with(&format!("{name}[")) {
            return Err(Halt::LeftOut("could set the parameter of the credential".to_owned()));
        }
    }
    if parameter.place == Place::Cookie {
        if auth.is_some_and(|auth| auth.kind != AuthKind::None) {
            return Err(Halt::LeftOut("cannot be sent in addition to `auth`".to_owned()));
        }
        if !is_token(name) {
            return Err(Halt::LeftOut("has a name that no cookie can have".to_owned()));
        }
    }
    let written = Written::of(document, parameter, form)?;
    let mut schema = match &parameter.schema {
        Some(schema) => writer.schema(schema, parameter.at.text_of("description"))?,
        None => "{}".to_owned(),
    };
    if parameter.schema.is_none()
        && let Some(text) = parameter.at.text_of("description")
    {
        schema =
            format!("{{\"description\":{}}}", super::super::names::quoted(&super::super::names::bounded(text, 1024)));
    }
    if let Written::Members(members) = &written {
        return add_members(document, parameter, members, writer, arguments, request);
    }
    let argument = arguments.add(name, parameter.place.word(), schema, parameter.is_required)?;
    let template = format!("{{{argument}}}");
    match written {
        Written::Path { before, separator, members } => {
            request.objects.extend(members.map(|style| (argument.clone(), style)));
            request.path = request.path.replacen(&format!("{{{name}}}"), &format!("{before}{{{name}}}"), 1);
            if let Some(separator) = separator {
                request.separators.insert(argument, separator);
            }
            request.path_params.insert(name.to_owned(), template);
        }
        Written::Query(style, members) => {
            request.objects.extend(members.map(|style| (argument, style)));
            request.query.insert(name.to_owned(), template);
            if style != ArgumentStyle::Repeat {
                request.styles.insert(name.to_owned(), style);
            }
        }
        Written::Header(members) => {
            request.objects.extend(members.map(|style| (argument, style)));
            request.headers.insert(name.to_owned(), template);
        }
        Written::Cookie(style) => {
            request.cookies.insert(name.to_owned(), CookieTemplate { argument, style });
        }
        Written::Members(_) => {}
    }
    Ok(())
}

/// How a parameter is written.
enum Written<'n> {
    Path {
        before: String,
        separator: Option<String>,
        members: Option<MemberStyle>,
    },
    Query(ArgumentStyle, Option<MemberStyle>),
    Header(Option<MemberStyle>),
    Cookie(CookieStyle),
    /// Each member of an object is a parameter of the query.
    Members(Vec<(&'n str, At<'n>, bool)>),
}

impl<'n> Written<'n> {
    fn of(document: &Document<'n>, parameter: &Parameter<'n>, form: Option<ResponseType>) -> Result<Self, Halt> {
        let unsupported = |what: &str| Err(Halt::LeftOut(format!("is {what}")));
        let (is_list, is_object) = (form == Some(ResponseType::Array), form == Some(ResponseType::Object));
        let Parameter { name, place, style, explode, is_json, .. } = parameter;
        if *is_json {
            return match place {
                Place::Query => Ok(Self::Query(ArgumentStyle::Json, None)),
                Place::Path | Place::Header | Place::Cookie => unsupported("written as JSON outside the query"),
            };
        }
        let members = is_object.then_some(if *explode { MemberStyle::Pairs } else { MemberStyle::Elements });
        if is_object
            && *style != "deepObject"
            && parameter.has_member(document, |schema| shape(document, schema).is_some())
        {
            return unsupported("an object that holds objects or lists");
        }
        let is_many = is_list || is_object;
        if *style != "deepObject" && parameter.schema.as_ref().is_some_and(|schema| is_nested(document, schema)) {
            return unsupported("a list of objects or lists");
        }
        match (place, *style) {
            (Place::Header, "simple") => Ok(Self::Header(members)),
            (Place::Cookie, _) if is_object => unsupported("an object in a cookie"),
            (Place::Cookie, "form") if !is_list || !explode => Ok(Self::Cookie(CookieStyle::Form)),
            (Place::Cookie, "form") => unsupported("a list in style form with explode, which no cookie can hold"),
            (Place::Cookie, "cookie") if !is_list || *explode => Ok(Self::Cookie(CookieStyle::Cookie)),
            (Place::Path, "simple") => Ok(Self::path("", is_many.then_some(","), members)),
            (Place::Path, "label") => Ok(Self::path(".", is_many.then_some(if *explode { "." } else { "," }), members)),
            (Place::Path, "matrix") if is_object && *explode => {
                unsupported("an object in style matrix with explode, whose members would be parameters of their own")
            }
            (Place::Path, "matrix") => {
                let named = argument_name(name);
                if named != **name {
                    return unsupported("in style matrix, with a name of other characters than A-Z a-z 0-9 _ - .");
                }
                let each = format!(";{name}=");
                let separator = if *explode { each.as_str() } else { "," };
                Ok(Self::path(&each, is_many.then_some(separator), members))
            }
            (Place::Query, "form") if is_object && *explode => match parameter.members(document) {
                Some(members) => Ok(Self::Members(members)),
                None => unsupported("an object of any members in style form"),
            },
            (Place::Query, "spaceDelimited" | "pipeDelimited") if is_object && *explode => {
                unsupported("an object in a style of lists with explode")
            }
            (Place::Query, "form" | "spaceDelimited" | "pipeDelimited") if !is_many || (is_list && *explode) => {
                Ok(Self::Query(ArgumentStyle::Repeat, None))
            }
            (Place::Query, "form") => Ok(Self::Query(ArgumentStyle::Comma, members)),
            (Place::Query, "spaceDelimited") => Ok(Self::Query(ArgumentStyle::Space, members)),
            (Place::Query, "pipeDelimited") => Ok(Self::Query(ArgumentStyle::Pipe, members)),
            (Place::Query, "deepObject")
                if is_object && !parameter.has_member(document, |schema| is_deep(document, schema)) =>
            {
                Ok(Self::Query(ArgumentStyle::Deep, None))
            }
            (Place::Query, "deepObject") => Ok(Self::Query(ArgumentStyle::Nested, None)),
            (_, style) => {
                unsupported(&format!("in the style `{}` that its place or its schema does not allow", excerpt(style)))
            }
        }
    }

    fn path(before: &str, separator: Option<&str>, members: Option<MemberStyle>) -> Self {
        Self::Path { before: before.to_owned(), separator: separator.map(str::to_owned), members }
    }
}

impl<'n> Parameter<'n> {
    /// Returns whether any member of an object is known to be of a kind.
    fn has_member(&self, document: &Document<'n>, is_of_kind: impl Fn(&At<'n>) -> bool) -> bool {
        let before = document.findings();
        let resolved = self.schema.as_ref().and_then(|schema| document.resolve(schema).ok());
        document.forget(before);
        let properties = resolved.and_then(|resolved| resolved.get("properties"));
        properties.iter().flat_map(At::members).any(|(_, schema)| is_of_kind(&schema))
    }

    /// Returns the members of an object that has no others.
    fn members(&self, document: &Document<'n>) -> Option<Vec<(&'n str, At<'n>, bool)>> {
        let schema = self.schema.as_ref()?;
        super::body::members(document, schema).filter(|members| !members.is_empty())
    }
}

fn add_members<'n>(
    document: &Document<'n>,
    parameter: &Parameter<'n>,
    members: &[(&'n str, At<'n>, bool)],
    writer: &mut Writer<'_, 'n>,
    arguments: &mut Arguments,
    request: &mut Request,
) -> Result<(), Halt> {
    for (name, schema, _) in members {
        if shape(document, schema) == Some(ResponseType::Object) {
            return Err(Halt::LeftOut("is an object that holds objects, in style form".to_owned()));
        }
        if request.query.contains_key(*name) || arguments.is_taken(name) {
            return Err(Halt::LeftOut(format!("has a member `{}` that is a parameter already", excerpt(name))));
        }
    }
    for (name, schema, is_required) in members {
        let written = writer.schema(schema, None)?;
        let argument = arguments.add(name, "query", written, *is_required && parameter.is_required)?;
        request.query.insert((*name).to_owned(), format!("{{{argument}}}"));
    }
    Ok(())
}

//! The templates of an HTTP request: where the arguments of a call go.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

/// How a list or an object is written into a query. Every style but `repeat` and `comma` needs format version 4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgumentStyle {
    /// `a=1&a=2`.
    #[default]
    Repeat,
    /// `a=1,2`.
    Comma,
    /// `a=1%202`: OpenAPI's `spaceDelimited`.
    Space,
    /// `a=1%7C2`: OpenAPI's `pipeDelimited`.
    Pipe,
    /// The members of an object, `a[k]=1&a[l]=2`: OpenAPI's `deepObject`.
    Deep,
    /// All of a value, `a[k][l]=1&a[m][0]=2`: what `deepObject` means for lists and for objects in objects, which OpenAPI leaves open.
    Nested,
    /// The JSON text of the value, of any type.
    Json,
}

/// Templates of a request. `{name}` stands for an argument. A query parameter or header whose template is exactly one
/// absent optional argument is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestTemplate {
    /// Values of the path's `{name}`; each fills one segment, percent-encoded.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub path_params: IndexMap<String, String>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub query: IndexMap<String, String>,
    /// Headers.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// Cookies by name. Not together with a header `Cookie`, nor with authentication.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub cookies: IndexMap<String, CookieTemplate>,
    /// A JSON body. A request has at most one of `body`, `form`, `parts` and `content`, and with authentication of kind `body` none
    /// but `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyTemplate>,
    /// The fields of an `application/x-www-form-urlencoded` body, which follow the rules of query parameters.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub form: IndexMap<String, String>,
    /// Style by field of a form, where it is not `repeat`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub form_styles: IndexMap<String, ArgumentStyle>,
    /// The parts of a `multipart/form-data` body, by field.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub parts: IndexMap<String, ContentTemplate>,
    /// A body that is the value of one argument, as text or bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentTemplate>,
    /// Style by query parameter, where it is not `repeat`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub styles: IndexMap<String, ArgumentStyle>,
    /// The text between the elements of a list in the path, by argument. Without an entry the elements are joined by
    /// percent-encoded commas.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub separators: IndexMap<String, String>,
    /// How the members of an object are written that a path, a header, or a query parameter of style `comma`, `space` or `pipe` holds, by
    /// argument.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub objects: IndexMap<String, MemberStyle>,
}

/// How the members of an object are written as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberStyle {
    /// Names and values in turn: `k,1,l,2`, as OpenAPI writes objects without `explode`.
    Elements,
    /// `k=1,l=2`, as OpenAPI writes objects with `explode`.
    Pairs,
}

/// A cookie whose value is that of one argument. Without the argument, there is no cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CookieTemplate {
    /// The argument.
    pub argument: String,
    /// How its value is written.
    #[serde(default, skip_serializing_if = "CookieStyle::is_form")]
    pub style: CookieStyle,
}

/// How a value is written into a cookie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CookieStyle {
    /// Percent-encoded, and the elements of a list with commas between them: OpenAPI's `form`.
    #[default]
    Form,
    /// As it is, and each element of a list as a cookie of the same name: OpenAPI's `cookie`. A character that no cookie may hold (RFC
    /// 6265, 4.1.1) is an error.
    Cookie,
}

impl CookieStyle {
    fn is_form(&self) -> bool {
        *self == Self::Form
    }
}

/// Content that is the value of one argument: a body, or a part of one. Without the argument, there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContentTemplate {
    /// The argument. Each element of a list is a part of its own, unless it is written as JSON.
    pub argument: String,
    /// How its value is written.
    #[serde(rename = "type")]
    pub kind: ContentKind,
    /// The media type. A part without one is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// How the value of an argument is written into content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentKind {
    /// The text of a string, number or boolean.
    Text,
    /// The JSON text of the value.
    Json,
    /// The bytes that a string holds in Base64 (RFC 4648, 4).
    Bytes,
}

/// A JSON body whose strings are templates. A string that is exactly `{name}` becomes the argument's own JSON value; a
/// member whose template is an absent optional argument is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BodyTemplate(pub JsonText);

//! Makes a request from the templates of a tool and the arguments of a call. The only credential that a request holds here
//! is one in the body.
//!
//! An argument fills its placeholder and nothing else: it cannot change the host, or add a path segment, a query parameter
//! or a header line.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use indexmap::IndexMap;
use tamis_config::{HttpCall, RequestTemplate, ServiceTool};
use tamis_engine::JsonText;
use url::Url;

use super::body::Body;
use super::content::{Content, Parts};
use super::graphql;
use super::headers::Headers;
use super::path::Path;
use super::query::{Form, Query};
use crate::upstream::auth::AuthPlan;
use crate::upstream::json_template::quoted;
use crate::upstream::origin::{Origin, Target};
use crate::upstream::template::{Values, check_length, invalid_argument, is_paging, properties};
use crate::upstream::{Arguments, InvalidService, Secret, UpstreamError};

/// Bytes of a URL. HTTP's own types accept no longer one.
pub(in crate::upstream) const MAX_URL: usize = 60_000;

/// The templates of one tool's request, parsed once.
#[derive(Debug)]
pub(super) struct RequestPlan {
    pub(super) method: Method,
    /// The path as the manifest has it, for traces.
    pub(super) template: Box<str>,
    defaults: IndexMap<String, JsonText>,
    origin: Arc<Origin>,
    /// The path of the base URL, without a final slash.
    prefix: Box<str>,
    path: Path,
    query: Query,
    headers: Headers,
    payload: Payload,
}

/// What makes the body of a request.
#[derive(Debug)]
enum Payload {
    None,
    Json(Body),
    /// The variables, and the query as a JSON string.
    GraphQl(Body, Box<str>),
    Form(Form),
    Parts(Parts),
    Content(Content),
}

/// A request without its authentication. It has no `Debug`, since its body may hold a credential.
pub(super) struct Rendered<'a> {
    pub(super) target: Target,
    pub(super) headers: Cow<'a, HeaderMap>,
    pub(super) body: Option<Bytes>,
}

impl RequestPlan {
    /// Parses the templates of a tool's call.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn new(
        field: &str,
        (base, origin): (&Url, &Arc<Origin>),
        (tool, call): (&ServiceTool, &HttpCall),
        auth: Option<&AuthPlan>,
    ) -> Result<Self, InvalidService> {
        let properties = properties(tool);
        let known =
            |name: &str| properties.contains_key(name) || call.defaults.contains_key(name) || is_paging(tool, name);
        let method = Method::from_bytes(call.method.to_ascii_uppercase().as_bytes())
            .ok()
            .filter(|m| !matches!(*m, Method::CONNECT | Method::TRACE))
            .ok_or_else(|| InvalidService::new(format!("{field}.method"), format!("cannot be `{}`", call.method)))?;
        let (path, inline) = call.path.split_once('?').unwrap_or((&call.path, ""));
        if let Some((name, _)) = call.request.objects.iter().find(|(name, _)| !known(name)) {
            let message = format!("`{{{name}}}` is not an argument of the tool");
            return Err(InvalidService::new(format!("{field}.request.objects"), message));
        }
        let payload = Payload::parse(field, call, auth, &known)?;
        Ok(Self {
            method,
            template: path.into(),
            defaults: call.defaults.clone(),
            origin: Arc::clone(origin),
            // A GraphQL endpoint is the whole path, and some servers know it only with its slash.
            prefix: match &call.graphql {
                Some(_) => base.path().into(),
                None => base.path().trim_end_matches('/').into(),
            },
            path: Path::parse(field, path, call, &known)?,
            query: Query::parse(field, inline, (tool, call), auth.and_then(AuthPlan::query_parameter), &known)?,
            headers: Headers::parse(field, (tool, call), payload.media_type(), origin, &known)?,
            payload,
        })
    }

    /// Makes the request for the arguments of a call. `query`: the query of a GraphQL request in place of its own, as a JSON
    /// string.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for an argument that does not fit its placeholder.
    pub(super) fn render(
        &self,
        arguments: &Arguments,
        secret: Option<&Secret>,
        query: Option<&str>,
    ) -> Result<Rendered<'_>, UpstreamError> {
        let values = Values::new(arguments, &self.defaults);
        let mut text = String::with_capacity(self.prefix.len() + 128);
        text.push_str(&self.prefix);
        self.path.write(&values, &mut text)?;
        if text.is_empty() {
            text.push('/');
        }
        self.query.write(&values, &mut text)?;
        check_length(self.origin.len() + text.len(), "path or query", MAX_URL)?;
        let invalid = || invalid_argument("path", "does not give a valid URL");
        let target = Target::new(&self.origin, text).ok_or_else(invalid)?;
        let (media_type, body) = self.payload.write(&values, secret, query)?;
        Ok(Rendered { target, headers: self.headers.render(&values, media_type)?, body })
    }

    /// Returns the value of a paging parameter, from arguments and defaults, and whether the caller gave it.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for a value that is not text.
    pub(super) fn paging(&self, arguments: &Arguments, name: &str) -> Result<(Option<String>, bool), UpstreamError> {
        self.query.paging(&Values::new(arguments, &self.defaults), name)
    }
}

impl Payload {
    fn parse(
        field: &str,
        call: &HttpCall,
        auth: Option<&AuthPlan>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, InvalidService> {
        let RequestTemplate { body, form, form_styles, parts, content, .. } = &call.request;
        let at = |name: &str| format!("{field}.request.{name}");
        let json = body.as_ref().map(|body| body.0.as_str());
        let body = Body::parse(&at("body"), json, auth.and_then(AuthPlan::body_member), known)?;
        let form = Form::parse(&at("form"), form, form_styles, known)?;
        let parts = Parts::parse(&at("parts"), parts, known)?;
        let content = content.as_ref().map(|content| Content::parse(&at("content"), content, known)).transpose()?;
        let others = [("form", form.is_some()), ("parts", parts.is_some()), ("content", content.is_some())];
        let mut given = others.into_iter().filter(|(_, is_given)| *is_given);
        if let (Some((name, _)), true) = (given.next(), body.is_some() || given.next().is_some()) {
            let message = "cannot be combined with another body, nor with authentication of type body";
            return Err(InvalidService::new(at(name), message));
        }
        Ok(match (body, form, parts, content) {
            (Some(body), ..) => match &call.graphql {
                None => Self::Json(body),
                Some(graphql) if body.is_object() => Self::GraphQl(body, quoted(&graphql.query)),
                Some(_) => return Err(InvalidService::new(at("body"), "must be an object with the variables")),
            },
            _ if call.graphql.is_some() => {
                return Err(InvalidService::new(at("body"), "must be an object with the variables"));
            }
            (None, Some(form), ..) => Self::Form(form),
            (None, None, Some(parts), _) => Self::Parts(parts),
            (None, None, None, Some(content)) => Self::Content(content),
            (None, None, None, None) => Self::None,
        })
    }

    /// Returns the media type, if it is the same for every call.
    fn media_type(&self) -> Option<HeaderValue> {
        match self {
            Self::Json(_) | Self::GraphQl(..) => Some(HeaderValue::from_static("application/json")),
            Self::Form(_) => Some(HeaderValue::from_static("application/x-www-form-urlencoded")),
            Self::Content(content) => content.media_type().cloned(),
            Self::Parts(_) | Self::None => None,
        }
    }

    /// Writes the body. Also returns its media type where that varies.
    fn write(
        &self,
        values: &Values<'_>,
        secret: Option<&Secret>,
        query: Option<&str>,
    ) -> Result<(Option<HeaderValue>, Option<Bytes>), UpstreamError> {
        let secret = secret.map(Secret::expose);
        Ok(match self {
            Self::None => (None, None),
            Self::Json(body) => (None, body.write(values, secret)?.map(Bytes::from)),
            Self::GraphQl(body, own) => {
                let body = body.write(values, secret)?;
                (None, body.map(|body| graphql::with_query(query.unwrap_or(own), &body).into()))
            }
            Self::Form(form) => (None, Some(Bytes::from(form.write(values)?))),
            Self::Parts(parts) => {
                let (media_type, body) = parts.write(values)?;
                (Some(media_type), Some(body.into()))
            }
            Self::Content(content) => (None, content.body(values)?.map(Bytes::from)),
        })
    }
}

#[cfg(test)]
#[path = "tests/render.rs"]
mod tests;

//! Makes a request from the templates of a tool and the arguments of a call. The only credential that a request holds here
//! is one in the body.
//!
//! An argument fills its placeholder and nothing else: it cannot change the host, or add a path segment, a query parameter
//! or a header line.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use indexmap::IndexMap;
use tamis_config::{HttpCall, ServiceTool};
use tamis_engine::JsonText;
use url::Url;

use super::body::Body;
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
    body: Option<Body>,
    form: Option<Form>,
    /// The query of a GraphQL request, as a JSON string.
    query_text: Option<Box<str>>,
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
        let json = call.request.body.as_ref().map(|b| b.0.as_str());
        let body = Body::parse(&format!("{field}.request.body"), json, auth.and_then(AuthPlan::body_member), &known)?;
        let form = Form::parse(&format!("{field}.request.form"), &call.request.form, &known)?;
        if form.is_some() && body.is_some() {
            let message = "cannot be combined with `body`, nor with authentication of type body";
            return Err(InvalidService::new(format!("{field}.request.form"), message));
        }
        let query_text = call.graphql.as_ref().map(|graphql| quoted(&graphql.query));
        if query_text.is_some() && body.as_ref().is_none_or(|body| !body.is_object()) {
            return Err(InvalidService::new(format!("{field}.request.body"), "must be an object with the variables"));
        }
        let media_type = match (&body, &form) {
            (Some(_), _) => Some("application/json"),
            (None, Some(_)) => Some("application/x-www-form-urlencoded"),
            (None, None) => None,
        };
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
            headers: Headers::parse(field, (tool, call), media_type, origin, &known)?,
            body,
            form,
            query_text,
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
        let body = match (&self.body, &self.form) {
            (Some(body), _) => {
                let body = body.write(&values, secret.map(Secret::expose))?;
                match &self.query_text {
                    None => body.map(Bytes::from),
                    Some(own) => body.map(|body| graphql::with_query(query.unwrap_or(own), &body).into()),
                }
            }
            (None, Some(form)) => Some(Bytes::from(form.write(&values)?)),
            (None, None) => None,
        };
        Ok(Rendered { target, headers: self.headers.render(&values)?, body })
    }

    /// Returns the value of a paging parameter, from arguments and defaults, and whether the caller gave it.
    ///
    /// # Errors
    /// [`UpstreamError::Argument`] for a value that is not text.
    pub(super) fn paging(&self, arguments: &Arguments, name: &str) -> Result<(Option<String>, bool), UpstreamError> {
        self.query.paging(&Values::new(arguments, &self.defaults), name)
    }
}

#[cfg(test)]
#[path = "tests/render.rs"]
mod tests;

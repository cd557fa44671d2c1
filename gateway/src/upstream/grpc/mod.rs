//! Calls of gRPC servers: arguments become a message, and messages become JSON, by the descriptors of the service document.

mod call;
mod frames;
mod json;
mod known;
mod records;
mod request;
mod status;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use tamis_config::{Call, GrpcCall, GrpcSource, Retry, ServiceDocument};

use self::call::Exchange;
use self::types::Types;
use super::auth::{AuthPlan, Authentication};
use super::origin::{Origin, Target, server_url};
use super::{Answer, Arguments, CallContext, Client, InvalidService, Output, UpstreamError};
use crate::memory::Exhausted;

/// The methods of a gRPC server, prepared once.
#[derive(Debug)]
pub(super) struct GrpcService {
    client: Arc<Client>,
    auth: Option<AuthPlan>,
    headers: http::HeaderMap,
    types: Arc<Types>,
    methods: IndexMap<String, Method>,
}

/// A method, ready to be called.
#[derive(Debug)]
struct Method {
    target: Target,
    input: MessageDescriptor,
    /// The number of the type of the answer.
    output: usize,
    streams: bool,
    /// Dotted path of the output in an answer; `None` for all of it.
    extract: Option<Box<str>>,
    idempotent: bool,
    retry: Option<Retry>,
    errors: IndexMap<u16, String>,
}

impl GrpcService {
    /// Prepares every call.
    ///
    /// # Errors
    /// Names the first field that cannot be used.
    pub(super) fn new(
        source: &GrpcSource,
        document: &ServiceDocument,
        client: Arc<Client>,
    ) -> Result<Self, InvalidService> {
        let GrpcSource { endpoint, auth, headers, descriptors } = source;
        let origin = origin(endpoint)?;
        let invalid = |message: &str| InvalidService::new("source.grpc.descriptors", message);
        let descriptors = BASE64_STANDARD.decode(descriptors).map_err(|_| invalid("is not base64"))?;
        let pool = DescriptorPool::decode(descriptors.as_slice()).map_err(|_| invalid("is not a descriptor set"))?;
        let types = Types::new(&pool);
        let auth = auth.as_ref().map(|auth| AuthPlan::new("source.grpc.auth", auth)).transpose()?.flatten();
        let mut methods = IndexMap::new();
        for (name, tool) in &document.tools {
            let field = format!("tools.{name}.call");
            match &tool.call {
                Call::Grpc(call) => {
                    let method = Method::new(&field, call, (&origin, &pool, &types), tool.risk.idempotent)?;
                    methods.insert(name.clone(), method);
                }
                // Resolved before a call.
                Call::Alias(_) => {}
                Call::Http(_) | Call::Mcp(_) | Call::Command(_) => {
                    return Err(InvalidService::new(field, "must be `grpc`: the service is a gRPC server"));
                }
            }
        }
        let headers = request::headers(&origin, headers)?;
        Ok(Self { client, auth, headers, types: Arc::new(types), methods })
    }

    /// Calls a method.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Arguments,
        context: CallContext<'_>,
    ) -> Result<Answer, UpstreamError> {
        let method = self.methods.get(tool).ok_or_else(|| UpstreamError::UnknownTool(tool.to_owned()))?;
        let begun = Instant::now();
        let authentication = Authentication::of(self.auth.as_ref(), context.credentials)?;
        authentication.check(&method.target)?;
        // The values of a message take many times the bytes of their text.
        let object = arguments.object();
        let need = 32 * object.len() as u64;
        context.memory.take(need).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: false })?;
        let body = frames::framed(&request::encode(&method.input, arguments)?);
        context.memory.release(need.saturating_sub(body.len() as u64));
        let mut exchange =
            Exchange { service: self, method, authentication: &authentication, context, body, requests: 0, cut: None };
        let output = exchange.answer().await?;
        Ok(Answer {
            output: Output::Json(output),
            media: Vec::new(),
            meta: None,
            errors: None,
            pagination: None,
            cut: exchange.cut,
            status: 200,
            requests: exchange.requests,
            elapsed: begun.elapsed(),
        })
    }
}

impl Method {
    fn new(
        field: &str,
        call: &GrpcCall,
        (origin, pool, types): (&Arc<Origin>, &DescriptorPool, &Types),
        idempotent: bool,
    ) -> Result<Self, InvalidService> {
        let GrpcCall { path, streams, extract, retry, error_mapping } = call;
        let invalid = |message: &str| InvalidService::new(format!("{field}.grpc.path"), message);
        let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let (service, name) = parts.ok_or_else(|| invalid("is not /SERVICE/METHOD"))?;
        let found = pool.get_service_by_name(service).and_then(|service| service.methods().find(|m| m.name() == name));
        let method = found.ok_or_else(|| invalid("is not a method of the descriptors"))?;
        if method.is_client_streaming() || method.is_server_streaming() != *streams {
            return Err(invalid("is a method that streams otherwise than the call"));
        }
        let output = types.number(method.output().full_name());
        Ok(Self {
            target: Target::new(origin, path.clone()).ok_or_else(|| invalid("is not a path"))?,
            input: method.input(),
            output: output.ok_or_else(|| invalid("has an answer without a type"))?,
            streams: *streams,
            extract: extract.as_deref().filter(|path| !path.is_empty()).map(Into::into),
            idempotent,
            retry: retry.clone(),
            errors: error_mapping.clone(),
        })
    }
}

/// Parses scheme, host and port.
fn origin(endpoint: &str) -> Result<Arc<Origin>, InvalidService> {
    const FIELD: &str = "source.grpc.endpoint";
    let invalid = |message: &str| InvalidService::new(FIELD, message);
    let url = server_url(FIELD, endpoint, "https://HOST")?;
    if url.query().is_some() || url.fragment().is_some() || url.path() != "/" {
        return Err(invalid("must not hold a path, a query or a fragment"));
    }
    Origin::of(&url).map(Arc::new).ok_or_else(|| invalid("has a host or a port that no request can have"))
}

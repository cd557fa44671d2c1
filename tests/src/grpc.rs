//! A gRPC server made with tonic: the methods of a .proto text, answered by a function from JSON to JSON.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::extract::Request;
use axum::response::Response;
use axum::{Router, body::Body};
use futures_util::stream::{self, Stream, StreamExt as _};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, ReflectMessage as _};
use serde_json::Value;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};

/// What a method answers: messages, as JSON, and the status at their end. A stream without an end goes on until it is dropped.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The messages.
    pub messages: Vec<Value>,
    /// The status at the end.
    pub status: Result<(), Status>,
    /// Whether the stream ends after the messages.
    pub ends: bool,
}

impl Reply {
    /// One message.
    #[must_use]
    pub fn of(message: Value) -> Self {
        Self { messages: vec![message], status: Ok(()), ends: true }
    }

    /// An error without messages.
    #[must_use]
    pub fn failed(status: Status) -> Self {
        Self { messages: Vec::new(), status: Err(status), ends: true }
    }
}

/// A request that the server has got.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The path: `/package.Service/Method`.
    pub path: String,
    /// The message, as JSON.
    pub message: Value,
    /// The metadata.
    pub metadata: MetadataMap,
}

/// A server on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct GrpcServer {
    address: std::net::SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl GrpcServer {
    /// Starts a server for the methods of a .proto text that imports only well-known types.
    ///
    /// # Errors
    /// The text is not valid, or no port is free.
    pub async fn start(proto: &str, answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Result<Self> {
        let pool = pool(proto)?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler = Handler { pool, answer: Arc::new(answer), seen: Arc::clone(&seen) };
        let app = Router::new().fallback(move |request: Request| {
            let handler = handler.clone();
            async move { handler.serve(request).await }
        });
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, seen, serving })
    }

    /// Returns the endpoint, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Compiles a .proto text.
fn pool(proto: &str) -> Result<DescriptorPool> {
    let file = protox_parse::parse("test.proto", proto)?;
    let mut pool = DescriptorPool::global();
    pool.add_file_descriptor_proto(file)?;
    Ok(pool)
}

type Answering = dyn Fn(&str, &Value) -> Reply + Send + Sync;

#[derive(Clone)]
struct Handler {
    pool: DescriptorPool,
    answer: Arc<Answering>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Handler {
    async fn serve(self, request: Request) -> Response {
        let path = request.uri().path().to_owned();
        let Ok(method) = find(&self.pool, &path) else {
            return Status::unimplemented("no such method").into_http();
        };
        let codec = Dynamic { input: method.input() };
        let mut grpc = Grpc::new(codec).send_compressed(CompressionEncoding::Gzip);
        let service = Method { handler: self, method: method.clone(), path };
        if method.is_server_streaming() {
            grpc.server_streaming(service, request).await.map(Body::new)
        } else {
            grpc.unary(service, request).await.map(Body::new)
        }
    }
}

fn find(pool: &DescriptorPool, path: &str) -> Result<MethodDescriptor> {
    let (service, name) = path.trim_start_matches('/').split_once('/').context("a path of gRPC")?;
    let service = pool.get_service_by_name(service).context("a service")?;
    service.methods().find(|method| method.name() == name).context("a method")
}

struct Method {
    handler: Handler,
    method: MethodDescriptor,
    path: String,
}

impl Method {
    fn reply(&self, request: tonic::Request<DynamicMessage>) -> Reply {
        let (metadata, _, message) = request.into_parts();
        let message = serde_json::to_value(&message).unwrap_or_default();
        let seen = Seen { path: self.path.clone(), message: message.clone(), metadata };
        self.handler.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        (self.handler.answer)(self.method.name(), &message)
    }

    fn message(&self, json: &Value) -> Result<DynamicMessage, Status> {
        let message = DynamicMessage::deserialize(self.method.output(), json);
        message.map_err(|error| Status::internal(error.to_string()))
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = Result<tonic::Response<T>, Status>> + Send>>;
type Messages = Pin<Box<dyn Stream<Item = Result<DynamicMessage, Status>> + Send>>;

impl UnaryService<DynamicMessage> for Method {
    type Response = DynamicMessage;
    type Future = Boxed<DynamicMessage>;

    fn call(&mut self, request: tonic::Request<DynamicMessage>) -> Self::Future {
        let reply = self.reply(request);
        let message = match (reply.messages.first(), reply.status) {
            (Some(message), Ok(())) => self.message(message),
            (_, Err(status)) => Err(status),
            (None, Ok(())) => Err(Status::internal("no message")),
        };
        Box::pin(async move { message.map(tonic::Response::new) })
    }
}

impl ServerStreamingService<DynamicMessage> for Method {
    type Response = DynamicMessage;
    type ResponseStream = Messages;
    type Future = Boxed<Messages>;

    fn call(&mut self, request: tonic::Request<DynamicMessage>) -> Self::Future {
        let Reply { messages, status, ends } = self.reply(request);
        let mut all: Vec<_> = messages.iter().map(|message| self.message(message)).collect();
        all.extend(status.err().map(Err));
        let all = stream::iter(all);
        let all: Messages = if ends { Box::pin(all) } else { Box::pin(all.chain(stream::pending())) };
        Box::pin(async move { Ok(tonic::Response::new(all)) })
    }
}

/// Messages by descriptor.
struct Dynamic {
    input: MessageDescriptor,
}

impl Codec for Dynamic {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = DynamicEncoder;
    type Decoder = DynamicDecoder;

    fn encoder(&mut self) -> DynamicEncoder {
        DynamicEncoder
    }

    fn decoder(&mut self) -> DynamicDecoder {
        DynamicDecoder(self.input.clone())
    }
}

struct DynamicEncoder;

impl Encoder for DynamicEncoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        debug_assert!(!item.descriptor().full_name().is_empty());
        item.encode(to).map_err(|error| Status::internal(error.to_string()))
    }
}

struct DynamicDecoder(MessageDescriptor);

impl Decoder for DynamicDecoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.0.clone(), from);
        message.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

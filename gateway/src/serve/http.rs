//! One HTTP request: routed, then answered by its kind of endpoint.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::{Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::endpoint::{self, Endpoint};
use super::incoming::RequestBody;
use super::respond::{plain, recycle};
use super::{Body, admission, index, mcp, request_body};
use crate::gateway::Gateway;
use crate::metrics::Rejection;

/// Answers one request.
pub(super) async fn handle(
    gateway: &Arc<Gateway>,
    request: Request<RequestBody>,
    peer: IpAddr,
    shutdown: &CancellationToken,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let endpoint = endpoint::route(&parts.method, parts.uri.path());
    // A browser reports the status alone, whatever the endpoint.
    if !admission::allows_origin(gateway, &parts, peer) {
        return plain(StatusCode::FORBIDDEN, "this Origin may not call");
    }
    let response = match endpoint {
        Endpoint::List => index::answer(gateway, &parts, peer),
        Endpoint::Mcp(name) => mcp::answer(gateway, name, &parts, body, peer, shutdown).await,
        Endpoint::Unknown => {
            admission::reject(gateway, Rejection::Unknown, &parts, peer, None);
            request_body::discard(&parts.headers, body).await;
            plain(StatusCode::NOT_FOUND, "no endpoint at this path; MCP clients call /mcp/NAMESPACE/EXPOSITION\n")
        }
    };
    recycle(parts.headers);
    response
}

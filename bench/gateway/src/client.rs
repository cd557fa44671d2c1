//! The load generator's connections: hyper's own, without a pool, on the thread that uses them.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body as _;
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::spawn_local;

use crate::call::Call;
use crate::servers::Local;

/// The protocol of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) enum Protocol {
    /// HTTP/1.1: one call at a time on a connection.
    Http1,
    /// HTTP/2 without TLS, known to both sides in advance: many calls at a time.
    Http2,
}

/// What makes calls, one at a time. Several senders may share an HTTP/2 connection.
pub(crate) enum Sender {
    Http1 { sender: http1::SendRequest<Full<Bytes>>, from: Ipv4Addr, port: u16 },
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// Opens a connection of HTTP/1.1 from an address of this machine.
    pub(crate) async fn http1_from(from: Ipv4Addr, port: u16) -> Result<Self> {
        Ok(Self::Http1 { sender: handshake(from, port).await?, from, port })
    }

    /// Opens what makes `count` calls at the same time: connections, or streams of one connection.
    pub(crate) async fn open(port: u16, protocol: Protocol, count: usize) -> Result<Vec<Self>> {
        match protocol {
            Protocol::Http1 => {
                let mut senders = Vec::with_capacity(count);
                for _ in 0..count {
                    senders.push(Self::http1_from(Ipv4Addr::LOCALHOST, port).await?);
                }
                Ok(senders)
            }
            Protocol::Http2 => {
                let (sender, connection) =
                    http2::handshake(Local, TokioIo::new(connect(Ipv4Addr::LOCALHOST, port).await?)).await?;
                spawn_local(connection);
                Ok((0..count).map(|_| Self::Http2(sender.clone())).collect())
            }
        }
    }

    /// Returns whether the server has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Http1 { sender, .. } => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    /// Makes a call and returns the length of the answer. Fails unless the status is a success.
    pub(crate) async fn call(&mut self, request: Request<Full<Bytes>>) -> Result<usize> {
        let mut response = self.send(request).await?;
        ensure!(response.status().is_success(), "answered {}", response.status());
        let mut length = 0;
        while !response.body().is_end_stream() {
            let Some(frame) = response.body_mut().frame().await else { break };
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<hyper::Response<hyper::body::Incoming>> {
        Ok(match self {
            Self::Http1 { sender, from, port } => {
                // Some servers close connections that were idle for seconds. A client opens another one.
                if sender.ready().await.is_err() {
                    *sender = handshake(*from, *port).await?;
                    sender.ready().await?;
                }
                sender.send_request(request).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }
}

async fn handshake(from: Ipv4Addr, port: u16) -> Result<http1::SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(connect(from, port).await?)).await?;
    spawn_local(connection);
    Ok(sender)
}

async fn connect(from: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes one call of HTTP/1.1 on a connection of its own and returns the status and the body.
pub(crate) async fn once(port: u16, call: &Call) -> Result<(StatusCode, Bytes)> {
    once_over(Protocol::Http1, port, call).await
}

/// Makes one call on a connection of its own and returns the status and the body.
pub(crate) async fn once_over(protocol: Protocol, port: u16, call: &Call) -> Result<(StatusCode, Bytes)> {
    let mut sender = Sender::open(port, protocol, 1).await?.remove(0);
    let (head, body) = sender.send(call.request(port, protocol)?).await?.into_parts();
    Ok((head.status, body.collect().await?.to_bytes()))
}

//! Published servers that tests call.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::process::{Child, Command};

use crate::{Port, node, root, tool};

/// What the environment of [`Everything`] holds, and no caller may see.
pub const SECRET: &str = "hush-6b1f";

/// `server-everything`, over HTTP on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Everything {
    _process: Child,
    port: Port,
    path: &'static str,
}

impl Everything {
    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// It is not installed, or does not listen within a minute.
    pub async fn start() -> Result<Self> {
        Self::start_as("streamableHttp", "/mcp").await
    }

    /// Starts it with the transport of 2024-11-05 only.
    ///
    /// # Errors
    /// As [`Everything::start`].
    pub async fn start_with_events() -> Result<Self> {
        Self::start_as("sse", "/sse").await
    }

    async fn start_as(mode: &str, path: &'static str) -> Result<Self> {
        tool("servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js")?;
        let port = Port::reserve()?;
        let mut command = Command::new(root().join("tests/servers/bin/mcp-server-everything"));
        command.arg(mode).env("PORT", port.number().to_string()).env("SAMPLE_TOKEN", SECRET).stderr(Stdio::null());
        Ok(Self { _process: started(command, &port).await?, port, path })
    }

    /// Returns the number of its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the address of its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port(), self.path)
    }
}

/// A server on the official Go SDK (`tests/servers/go`), over HTTP on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Orders {
    _process: Child,
    port: Port,
}

impl Orders {
    /// Starts it with or without sessions, and waits until it listens.
    ///
    /// # Errors
    /// It is not installed, or does not listen within a minute.
    pub async fn start(stateless: bool) -> Result<Self> {
        let port = Port::reserve()?;
        let mut command = Command::new(tool("go-server/mcp-server-orders")?);
        command.arg(format!("-address=127.0.0.1:{}", port.number())).arg(format!("-stateless={stateless}"));
        command.stderr(Stdio::null());
        Ok(Self { _process: started(command, &port).await?, port })
    }

    /// Returns the address of its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port.number())
    }
}

/// `graphql-yoga` over GitHub's schema, on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Yoga {
    _process: Child,
    port: Port,
}

impl Yoga {
    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// It is not installed, or does not listen within a minute.
    pub async fn start() -> Result<Self> {
        let folder = root().join("tests/graphql");
        let package = folder.join("node_modules/graphql-yoga");
        ensure!(package.exists(), "{} is not installed: run `cargo xtask tools`", package.display());
        let port = Port::reserve()?;
        let mut command = Command::new(node()?);
        command.arg(folder.join("server.mjs")).env("PORT", port.number().to_string());
        Ok(Self { _process: started(command, &port).await?, port })
    }

    /// Returns the number of its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the address of its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/graphql", self.port())
    }

    /// Returns the requests that it has received: `method`, `url`, `authorization` and `body` of each.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn seen(&self) -> Result<Vec<serde_json::Value>> {
        let url = format!("http://127.0.0.1:{}/seen", self.port());
        Ok(reqwest::get(url).await?.json().await?)
    }
}

/// A GraphQL API on strawberry, on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Strawberry {
    _process: Child,
    port: Port,
}

impl Strawberry {
    /// The token that callers need.
    pub const TOKEN: &str = "t0ken-51cd";

    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// It is not installed, or does not listen within a minute.
    pub async fn start() -> Result<Self> {
        let port = Port::reserve()?;
        let mut command = Command::new(tool("strawberry/bin/python")?);
        command.arg(root().join("tests/graphql/orders.py"));
        command.env("PORT", port.number().to_string()).env("TOKEN", Self::TOKEN);
        Ok(Self { _process: started(command, &port).await?, port })
    }

    /// Returns the address of its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/graphql", self.port.number())
    }
}

/// A gRPC server on grpcio with reflection, on loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Grpcio {
    _process: Child,
    port: Port,
}

impl Grpcio {
    /// The token that callers need.
    pub const TOKEN: &str = "t0ken-83aa";

    /// Starts it with a version of reflection, `v1` or `v1alpha`, and waits until it listens.
    ///
    /// # Errors
    /// It is not installed, or does not listen within a minute.
    pub async fn start(version: &str) -> Result<Self> {
        let port = Port::reserve()?;
        let mut command = Command::new(tool("grpcio/bin/python")?);
        command.arg(root().join("tests/grpc/orders.py"));
        command.env("PORT", port.number().to_string()).env("TOKEN", Self::TOKEN).env("VERSION", version);
        Ok(Self { _process: started(command, &port).await?, port })
    }

    /// Returns the endpoint.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }
}

/// Starts a server, and waits until it listens on a port, for a minute at most.
async fn started(mut command: Command, port: &Port) -> Result<Child> {
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn()?;
    let until = Instant::now() + Duration::from_secs(60);
    while tokio::net::TcpStream::connect(("127.0.0.1", port.number())).await.is_err() {
        ensure!(Instant::now() < until, "the server does not listen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(process)
}

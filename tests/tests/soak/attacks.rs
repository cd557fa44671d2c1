//! Connections that each exhaust a resource in their own way.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What each attack does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attack {
    /// Arguments that do not match the schema.
    Arguments,
    /// Filters over much data with many operations and paths.
    Filters,
    /// A pattern that is slow on one long line.
    Patterns,
    /// Large bodies for addresses at which nothing is served.
    UnknownPaths,
    /// Large answers that are not read.
    SlowReaders,
    /// Large answers that cannot take the fast path.
    Trees,
    /// Streams of notifications.
    Streams,
    /// Connections that say nothing.
    Idle,
    /// Calls that take their time.
    Pending,
}

impl Attack {
    pub(crate) const ALL: [Self; 9] = [
        Self::Arguments,
        Self::Filters,
        Self::Patterns,
        Self::UnknownPaths,
        Self::SlowReaders,
        Self::Trees,
        Self::Streams,
        Self::Idle,
        Self::Pending,
    ];

    /// Connections at once.
    fn connections(self) -> usize {
        match self {
            Self::Arguments | Self::Filters | Self::Trees => 4,
            Self::Patterns => 2,
            Self::UnknownPaths | Self::SlowReaders | Self::Streams | Self::Pending => 8,
            Self::Idle => 12,
        }
    }

    fn request(self, bombs: &Bombs) -> Vec<u8> {
        let path = "/mcp/attackers/attacked";
        let call = |tool: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#)
        };
        match self {
            Self::Arguments => http(path, &bombs.arguments, None),
            Self::Filters => http(path, &call("wide"), None),
            Self::Patterns => http(path, &call("digits"), None),
            Self::UnknownPaths => http("/mcp/nobody/here", &" ".repeat(64 << 10), Some(4 << 20)),
            Self::SlowReaders => http(path, &call("large"), None),
            Self::Trees => http(path, &call("twice"), None),
            Self::Pending => http(path, &call("slow"), None),
            Self::Streams => {
                format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n").into_bytes()
            }
            Self::Idle => Vec::new(),
        }
    }

    /// How long the connection is kept after the beginning of an answer, nothing more being read.
    fn kept(self) -> Duration {
        match self {
            Self::SlowReaders | Self::Streams => Duration::from_secs(5),
            _ => Duration::ZERO,
        }
    }
}

struct Bombs {
    arguments: String,
}

fn http(path: &str, body: &str, stated: Option<usize>) -> Vec<u8> {
    let length = stated.unwrap_or(body.len());
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What became of the requests of one attack, by status; 0 where there was no answer, or none yet.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts(BTreeMap<u16, usize>);

impl Counts {
    pub(crate) fn made(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<_> = self.0.iter().map(|(status, count)| format!("{count} of {status}")).collect();
        f.write_str(&each.join(", "))
    }
}

/// All attacks under way.
pub(crate) struct Attackers {
    stop: CancellationToken,
    tasks: Vec<(Attack, JoinHandle<Counts>)>,
}

impl Attackers {
    pub(crate) fn start(url: &str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let list = "1,".repeat(976_000);
        let arguments = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"take","arguments":{{"ss":[{list}1]}}}}}}"#
        );
        let bombs = Arc::new(Bombs { arguments });
        let stop = CancellationToken::new();
        let mut tasks = Vec::new();
        for attack in Attack::ALL {
            for _ in 0..attack.connections() {
                tasks.push((attack, tokio::spawn(repeat(attack, address.clone(), Arc::clone(&bombs), stop.clone()))));
            }
        }
        Self { stop, tasks }
    }

    pub(crate) async fn stop(self) -> BTreeMap<Attack, Counts> {
        self.stop.cancel();
        let mut all: BTreeMap<Attack, Counts> = BTreeMap::new();
        for (attack, task) in self.tasks {
            for (status, count) in task.await.unwrap_or_default().0 {
                *all.entry(attack).or_default().0.entry(status).or_default() += count;
            }
        }
        all
    }
}

async fn repeat(attack: Attack, address: String, bombs: Arc<Bombs>, stop: CancellationToken) -> Counts {
    let mut counts = Counts::default();
    let request = attack.request(&bombs);
    loop {
        let status = tokio::select! {
            status = once(attack, &address, &request) => status.unwrap_or(0),
            () = stop.cancelled() => {
                // One that was under way has been tried too: an idle connection takes 20 s.
                *counts.0.entry(0).or_default() += 1;
                return counts;
            }
        };
        *counts.0.entry(status).or_default() += 1;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
            () = stop.cancelled() => return counts,
        }
    }
}

/// One connection; the status of its answer.
async fn once(attack: Attack, address: &str, request: &[u8]) -> Result<u16> {
    let socket = TcpSocket::new_v4()?;
    if attack == Attack::SlowReaders {
        socket.set_recv_buffer_size(4 << 10)?;
    }
    let stream = socket.connect(address.parse()?).await?;
    let (mut reading, mut writing) = stream.into_split();
    // The answer may come before all has been sent.
    let sending = async {
        let _ = writing.write_all(request).await;
        std::future::pending::<()>().await;
    };
    let answer = async {
        let mut first = [0; 12];
        match tokio::time::timeout(Duration::from_secs(20), reading.read_exact(&mut first)).await {
            Ok(Ok(_)) => std::str::from_utf8(&first[9..]).ok().and_then(|status| status.parse().ok()).unwrap_or(0),
            // An idle connection that was kept open, or one that was closed.
            _ => 0,
        }
    };
    let status = tokio::select! {
        status = answer => status,
        () = sending => 0,
    };
    tokio::time::sleep(attack.kept()).await;
    if attack.kept().is_zero() && status != 0 {
        let mut rest = [0; 16 << 10];
        // Not to its end: HTTP/1.1 keeps the connection.
        let _ = tokio::time::timeout(Duration::from_secs(1), reading.read(&mut rest)).await;
    }
    Ok(status)
}

/// An API with answers of all sizes.
pub(crate) struct Upstream {
    pub(crate) url: String,
    server: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Upstream {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let item = r#"{"id":12345,"name":"a name","note":"some text that takes room","list":[1,2,3]}"#;
        let list = |bytes: usize| vec![item; bytes / (item.len() + 1)].join(",");
        let members: Vec<_> = (0..20_000).map(|i| format!(r#""k{i}":{{"value":{i},"text":"abcdefghij"}}"#)).collect();
        let router = Router::new()
            .route("/small", json(r#"{"id":1,"name":"small"}"#.to_owned()))
            .route("/large", json(format!("[{}]", list(4 << 20))))
            .route("/twice", json(format!(r#"{{"a":1,"items":[{}],"a":2}}"#, list(8 << 20))))
            .route("/wide", json(format!("{{{}}}", members.join(","))))
            .route("/digits", text("01".repeat(60_000)))
            .route("/slow", get(|| async { tokio::time::sleep(Duration::from_secs(10)).await }))
            .route("/take", post(|| async { "{}" }));
        let server = tokio::spawn(async move {
            // Only an error of the listener ends this, and then the calls fail.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, server })
    }
}

fn json(body: String) -> axum::routing::MethodRouter {
    answer("application/json", body)
}

fn text(body: String) -> axum::routing::MethodRouter {
    answer("text/plain", body)
}

fn answer(kind: &'static str, body: String) -> axum::routing::MethodRouter {
    let body = axum::body::Bytes::from(body);
    get(move || async move { ([(CONTENT_TYPE, kind)], body).into_response() })
}

//! The binary under test, an upstream for it, and a client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ServiceExt as _, serve_client};

pub(crate) type Client = RunningService<RoleClient, ()>;

/// An upstream that answers `{"x": 1, "y": 2}`, under `/slow` half a second later. Gives its port.
pub(crate) fn start_upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    if head.windows(5).any(|w| w == b"/slow") {
        thread::sleep(Duration::from_millis(500));
    }
    let body = r#"{"x": 1, "y": 2}"#;
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close");
    write!(stream, "{head}\r\n\r\n{body}").ok()
}

/// One service, and exposition `a` that retains `pointer` of its answers.
pub(crate) fn documents(dir: &Path, upstream: u16, pointer: &str) {
    let manifest = format!(
        r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {{name: s}}
spec:
  version: "1"
  http:
    baseUrl: http://127.0.0.1:{upstream}
    actions:
      get: {{method: GET, path: /fast, description: Quick, response: {{type: object}}}}
      slow: {{method: GET, path: /slow, description: Slow, response: {{type: object}}}}
"#
    );
    std::fs::write(dir.join("s.yaml"), manifest).expect("writes");
    std::fs::write(dir.join("a.yaml"), audience(pointer)).expect("writes");
}

/// The filter set and the exposition, on one line each.
pub(crate) fn audience(pointer: &str) -> String {
    format!(
        r#"{{apiVersion: tamis.dev/v1alpha1, kind: ToolsFilters, metadata: {{name: a}}, spec: {{name: a, service: {{name: s, version: "1"}}, filters: {{get: {{retain: ["{pointer}"]}}}}}}}}
---
{{apiVersion: tamis.dev/v1alpha1, kind: Exposition, metadata: {{name: a}}, spec: {{service: {{name: s, version: "1"}}, filters: [a]}}}}
"#
    )
}

/// `tamis serve`, killed when dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    said: Arc<Mutex<String>>,
    urls: Vec<String>,
}

impl Served {
    /// Starts it on free ports and waits until it has said where.
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tamis"))
            .arg("serve")
            .arg(dir)
            .args(["--admin", "127.0.0.1:0"])
            .args(if arguments.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] })
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stderr.take().expect("is piped")).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let mut urls = Vec::new();
        for line in lines.by_ref().map_while(Result::ok) {
            said.lock().expect("is whole").push_str(&format!("{line}\n"));
            urls.extend(line.split_whitespace().next().filter(|word| word.starts_with("http")).map(str::to_owned));
            if line.contains("/metrics") {
                break;
            }
        }
        let more = Arc::clone(&said);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                more.lock().expect("is whole").push_str(&format!("{line}\n"));
            }
        });
        assert!(!urls.is_empty(), "it does not serve: {}", said.lock().expect("is whole"));
        Self { child, said, urls }
    }

    /// The URL of an exposition.
    pub(crate) fn url(&self, name: &str) -> String {
        let ending = format!("/{name}");
        self.urls.iter().find(|url| url.ends_with(&ending)).cloned().unwrap_or_else(|| panic!("{name}: {}", self.log()))
    }

    /// A path of the admin port.
    pub(crate) async fn admin(&self, path: &str) -> String {
        let metrics = self.urls.last().expect("the admin URL is the last");
        let url = metrics.replace("/metrics", path);
        reqwest::get(url).await.expect("answers").text().await.expect("is text")
    }

    /// All that it has said.
    pub(crate) fn log(&self) -> String {
        self.said.lock().expect("is whole").clone()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("runs");
        assert!(status.success());
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("is a child") {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it still runs: {}", self.log());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A real MCP client.
pub(crate) async fn connect(url: &str) -> Client {
    ().serve(StreamableHttpClientTransport::from_uri(url.to_owned())).await.expect("connects")
}

/// The same over a process's standard input and output.
pub(crate) async fn connect_stdio(command: tokio::process::Command) -> Client {
    let transport = rmcp::transport::TokioChildProcess::new(command).expect("starts");
    serve_client((), transport).await.expect("connects")
}

/// The text of a call's result, or what went wrong.
pub(crate) async fn text_of(client: &Client, tool: &'static str) -> String {
    let call = client.call_tool(CallToolRequestParams::new(tool));
    match tokio::time::timeout(Duration::from_secs(20), call).await {
        Ok(Ok(result)) => result.content.iter().filter_map(|c| c.as_text()).map(|t| t.text.as_str()).collect(),
        Ok(Err(error)) => format!("{error}"),
        Err(_) => "no answer".to_owned(),
    }
}

//! The allocations of a tool call over HTTP/1.1, each with its reason: the gateway's and those of its libraries.
//!
//! A gateway serves on its own thread and calls an upstream over loopback. The client and the upstream run on other threads
//! and write prepared bytes, so that every counted allocation belongs to the gateway. A heap profiler counts allocations by
//! their call stacks, and [`reasons`] assigns each stack to a reason. `docs/allocations.md` has the resulting table:
//! `TAMIS_UPDATE=1 cargo test -p tamis-bench --test allocations` writes it. `TAMIS_STACKS=1` prints the stacks as well.

mod peers;
mod profile;
mod reasons;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tamis_config::{ExpositionDocument, ExpositionId, FORMAT_VERSION, ServiceDocument, Snapshot};
use tamis_gateway::upstream::LocalCredentials;
use tamis_gateway::{Gateway, Options};
use tokio_util::sync::CancellationToken;

use peers::{Client, Upstream};
use profile::Site;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Calls before the counted ones, to open connections and fill tables.
const WARM: usize = 50;
/// Counted calls. A site with fewer than one allocation in two calls is not one of a call, but of a table or a timer.
const COUNTED: usize = 100;

/// A kind of call.
struct Scenario {
    name: &'static str,
    /// Approximate bytes of the upstream's answer. It arrives in one read, so that the count does not depend on timing.
    size: usize,
    /// The tool's filter; none for the whole answer.
    filter: Option<Value>,
    era: Era,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Modern,
    Legacy,
}

fn scenarios() -> Vec<Scenario> {
    let select = || {
        let fields = json!({"number": "number", "title": "title", "by": "user.login", "assignee": "assignee"});
        Some(json!({"root": "", "select": fields, "dropNulls": true}))
    };
    let retain = json!({"root": "", "retain": ["/number", "/title", "/user/login"]});
    vec![
        Scenario { name: "select, 4 kB", size: 4_000, filter: select(), era: Era::Modern },
        Scenario { name: "select, 1 kB", size: 1_000, filter: select(), era: Era::Modern },
        Scenario { name: "retain, 4 kB", size: 4_000, filter: Some(retain), era: Era::Modern },
        Scenario { name: "no filter, 4 kB", size: 4_000, filter: None, era: Era::Modern },
        Scenario { name: "select, 4 kB, legacy era", size: 4_000, filter: select(), era: Era::Legacy },
    ]
}

fn id() -> ExpositionId {
    ExpositionId { namespace: "default".to_owned(), name: "issues".to_owned() }
}

/// Returns a JSON list of about `size` bytes: short issues, as the benchmark of the gateway has them.
fn issues(size: usize) -> Vec<u8> {
    let mut out = String::from("[");
    for number in 1.. {
        let (id, comments) = (1_000_000 + number, number % 7);
        write!(
            out,
            r#"{{"id":{id},"number":{number},"title":"Crash when opening file {number}","state":"open","locked":false,"comments":{comments},"user":{{"login":"octocat","id":583231,"type":"User"}},"body":"It crashes on start, every time I open it.","assignee":null}}"#,
        )
        .expect("memory");
        if out.len() + 125 >= size {
            break;
        }
        out.push(',');
    }
    out.push(']');
    out.into_bytes()
}

fn documents(url: &str, filter: Option<&Value>) -> Snapshot {
    let service = json!({
        "formatVersion": FORMAT_VERSION, "name": "issues", "version": "1",
        "source": {"http": {"baseUrl": url}},
        "tools": {"list": {
            "inputSchema": {"type": "object", "properties": {"state": {"type": "string"}}},
            "call": {"http": {"method": "GET", "path": "/issues", "request": {"query": {"state": "{state}"}}}},
        }},
    });
    let service: ServiceDocument = serde_json::from_str(&service.to_string()).expect("a service");
    let (tool, enforcement) = match filter {
        Some(filter) => (json!({"filter": filter}), "Enforced"),
        None => (json!({}), "Advisory"),
    };
    let exposition = json!({
        "formatVersion": FORMAT_VERSION, "id": id(), "service": service.digest(), "enforcement": enforcement,
        "tools": {"list": tool}, "access": "anonymous",
    });
    let exposition: ExpositionDocument = serde_json::from_str(&exposition.to_string()).expect("an exposition");
    Snapshot {
        services: [(service.digest(), Arc::new(service))].into(),
        expositions: [(id(), Arc::new(exposition))].into(),
        ..Snapshot::default()
    }
}

/// The HTTP request of a call.
fn request(era: Era) -> Vec<u8> {
    let mut params = json!({"name": "list", "arguments": {"state": "open"}});
    if era == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = match era {
        Era::Modern => "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: list\r\n",
        Era::Legacy => "mcp-protocol-version: 2025-06-18\r\n",
    };
    format!(
        "POST /mcp/default/issues HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// What a call costs.
struct Counted {
    sites: Vec<Site>,
    answer: usize,
}

fn count(scenario: &Scenario) -> Counted {
    let upstream = Upstream::start(&issues(scenario.size));
    let gateway = Gateway::new(Options::new(Arc::new(LocalCredentials::new(None)))).expect("a gateway");
    let report = gateway.apply(&documents(&upstream.url, scenario.filter.as_ref()));
    assert!(report.failed.is_empty(), "{report:?}");
    let (listener, address) = peers::listener();
    let shutdown = CancellationToken::new();
    let server = std::thread::spawn({
        let shutdown = shutdown.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                gateway.serve(listener, shutdown).await;
            });
        }
    });
    let request = request(scenario.era);
    let mut client = Client::connect(address);
    let mut answer = 0;
    for _ in 0..WARM {
        answer = client.call(&request);
    }
    let text = String::from_utf8_lossy(client.answer()).into_owned();
    assert!(text.contains("result") && text.contains("isError\":false"), "{text}");
    let sites = profile::sites(COUNTED, || {
        for _ in 0..COUNTED {
            client.call(&request);
        }
    });
    drop(client);
    shutdown.cancel();
    server.join().expect("the gateway ends");
    Counted { sites, answer }
}

#[test]
fn every_allocation_of_a_call_has_its_reason() {
    let mut page = String::new();
    for (at, scenario) in scenarios().iter().enumerate() {
        let Counted { sites, answer } = count(scenario);
        if std::env::var_os("TAMIS_STACKS").is_some() {
            println!("== {}", scenario.name);
            sites.iter().for_each(|site| println!("{site}"));
        }
        if at == 0 {
            page.push_str(&reasons::table(&sites));
            writeln!(page, "\n| call | bytes of the answer over HTTP | allocations |\n|---|---:|---:|")
                .expect("memory");
        }
        let total: usize = sites.iter().map(|site| site.calls).sum();
        writeln!(page, "| {} | {answer} | {total} |", scenario.name).expect("memory");
    }
    compare(&page);
}

const BEGIN: &str = "<!-- begin: written by the test `allocations` -->\n";
const END: &str = "<!-- end -->";

/// Compares the generated part of the page with what was counted, or writes it.
fn compare(found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/allocations.md");
    let page = fs::read_to_string(&file).expect("the page is there");
    let (head, rest) = page.split_once(BEGIN).expect("the page has the part");
    let (recorded, tail) = rest.split_once(END).expect("the part ends");
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        fs::write(&file, format!("{head}{BEGIN}{found}{END}{tail}")).expect("is written");
        return;
    }
    assert!(
        recorded == found,
        "counts differ; if they should, run TAMIS_UPDATE=1 cargo test -p tamis-bench --test allocations and say why in the \
         commit\n--- recorded\n{recorded}\n--- found\n{found}"
    );
}

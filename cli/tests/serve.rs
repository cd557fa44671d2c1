//! `tamis serve`, through the real binary: what it says, what it follows, how it ends.

#[path = "serve/access.rs"]
mod access;
#[path = "serve/first_hour.rs"]
mod first_hour;
mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{Served, audience, connect, connect_stdio, documents, start_upstream, text_of};

const LONG: Duration = Duration::from_secs(10);
const X: &str = r#"{"x":1}"#;
const Y: &str = r#"{"y":2}"#;

/// Waits until a condition holds.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < LONG, "{what} never happens");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamis")).args(arguments).env_remove("RUST_LOG").output().expect("runs")
}

/// Saves a file in one step: no reload sees it empty or in part.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("yaml.swp");
    fs::write(&beside, text).expect("writes");
    fs::rename(&beside, path).expect("renames");
}

/// A save that leaves a file's length and time as they were: a rescan does not see it, so what shows it is the system's
/// notification. How long after a notification the folder is read is a table of `debounce.rs`.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_save_is_served_on_its_notification_without_a_rescan() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    // Long ago: the times of young files are not trusted, and such files are read once more.
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    let save = |name: &str, content: &str| {
        let mut file = fs::File::create(dir.path().join(name)).expect("opens");
        file.write_all(content.as_bytes()).expect("writes");
        file.set_modified(old).expect("sets the time");
    };
    for name in ["s.yaml", "a.yaml"] {
        save(name, &fs::read_to_string(dir.path().join(name)).expect("reads"));
    }
    let served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    assert_eq!(text_of(&client, "get").await, X);
    for (pointer, expected) in [("/y", Y), ("/x", X), ("/y", Y)] {
        save("a.yaml", &audience(pointer));
        until("the change", async || text_of(&client, "get").await == expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_edit_keeps_what_was_served_and_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &["--log-format", "human"]);
    let client = connect(&served.url("a")).await;
    let path = dir.path().join("a.yaml");
    for broken in ["kind: [", "", &audience("/y")[..200]] {
        replace(&path, broken);
        until("the error", async || served.admin("/config").await.contains("a.yaml")).await;
        assert_eq!(text_of(&client, "get").await, X, "{broken:?}");
        replace(&path, &audience("/x"));
        until("the recovery", async || !served.admin("/config").await.contains("a.yaml")).await;
    }
    assert!(served.admin("/metrics").await.contains("tamis_config_reloads_total{result=\"failed\"} 3"));
    let log = served.log();
    assert!(log.contains("a.yaml:2:1: error: not YAML"), "{log}");
    fs::write(&path, audience("/y")).expect("saves");
    until("the change", async || text_of(&client, "get").await == Y).await;
    fs::remove_file(&path).expect("deletes");
    until("the removal", async || !served.admin("/config").await.contains("default")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_order_is_served_beside_a_broken_file() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    fs::write(dir.path().join("broken.yaml"), "kind: [").expect("writes");
    let served = Served::start(dir.path(), &[]);
    assert!(served.log().contains("broken.yaml:2:1: error: not YAML"), "{}", served.log());
    assert_eq!(text_of(&connect(&served.url("a")).await, "get").await, X);
}

#[test]
fn nothing_to_serve_is_an_error_that_says_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("is text");
    let table: &[(&str, &[&str])] = &[
        ("", &["has no Exposition", "tamis demo"]),
        ("kind: [", &["a.yaml:2:1: error: not YAML"]),
        (&audience("/x"), &["a.yaml:3:", "no exposition", "can be served"]),
    ];
    for (content, expected) in table {
        if content.is_empty() {
            let _ = fs::remove_file(dir.path().join("a.yaml"));
        } else {
            fs::write(dir.path().join("a.yaml"), content).expect("writes");
        }
        let output = run(&["serve", path, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        for part in *expected {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    }
    let output = run(&["serve", "/no/such/folder"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/folder"));
}

#[test]
fn a_port_in_use_is_named_with_the_option_that_helps() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    let taken = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = taken.local_addr().expect("an address").to_string();
    let path = dir.path().to_str().expect("is text");
    for (option, other) in [("--listen", "--admin"), ("--admin", "--listen")] {
        let output = run(&["serve", path, option, &address, other, "127.0.0.1:0"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains(&address) && message.contains(option), "{message}");
    }
}

#[test]
fn beyond_loopback_nothing_is_open_to_everyone() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    let path = dir.path().to_str().expect("is text");
    let output = run(&["serve", path, "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("default/a") && message.contains("--insecure-public"), "{message}");
    let output = run(&["serve", path, "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--admin"));
    let served = Served::start(dir.path(), &["--insecure-public"]);
    assert!(served.url("a").starts_with("http://"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_first_signal_lets_calls_end() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    for signal in ["-TERM", "-INT"] {
        let mut served = Served::start(dir.path(), &[]);
        let client = connect(&served.url("a")).await;
        let call = tokio::spawn(async move { text_of(&client, "slow").await });
        until("the call", async || served.admin("/metrics").await.contains("tamis_")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        served.signal(signal);
        assert_eq!(call.await.expect("ends"), r#"{"x":1,"y":2}"#, "{}", served.log());
        assert_eq!(served.ended().await.code(), Some(0), "{}", served.log());
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_second_signal_does_not_wait() {
    let dir = tempfile::tempdir().expect("a folder");
    // Accepts and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("binds");
    documents(dir.path(), silent.local_addr().expect("an address").port(), "/x");
    let mut served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    let call = tokio::spawn(async move { text_of(&client, "slow").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    served.signal("-TERM");
    until("the first signal", async || served.log().contains("stopping")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(served.child.try_wait().expect("is a child").is_none(), "it waits for the call");
    served.signal("-TERM");
    assert_eq!(served.ended().await.code(), Some(130));
    call.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_exposition_is_served_over_stdio() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    for name in [None, Some("a"), Some("default/a")] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tamis"));
        command.arg("serve").arg(dir.path()).arg("--stdio");
        if let Some(name) = name {
            command.args(["--exposition", name]);
        }
        let client = connect_stdio(command).await;
        assert_eq!(text_of(&client, "get").await, X, "{name:?}");
        client.cancel().await.expect("ends");
    }
    let path = dir.path().to_str().expect("is text");
    let output = run(&["serve", path, "--stdio", "--exposition", "other"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("default/other"));
}

#[cfg(unix)]
#[test]
fn a_signal_ends_stdio_although_its_input_stays_open() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tamis"))
        .args(["serve", "--stdio"])
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let input = child.stdin.as_mut().expect("is piped");
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#).expect("writes");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("is piped")).read_line(&mut line).expect("answers");
    assert!(line.starts_with('{'), "{line}");
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("runs");
    assert!(status.success());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("is a child") {
            break status;
        }
        if start.elapsed() > LONG {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
}

/// A default set, and an exposition that names none.
const DEFAULT_SET: &str = r#"{apiVersion: tamis.dev/v1alpha1, kind: ToolsFilters, metadata: {name: f}, spec: {service: {name: s, version: "1"}, filters: {get: {retain: [/x]}, slow: {retain: [/x]}}}}"#;
const UNNAMED: &str = r#"{apiVersion: tamis.dev/v1alpha1, kind: Exposition, metadata: {name: a}, spec: {service: {name: s, version: "1"}}}"#;
const BOTH: &str = r#"{"x":1,"y":2}"#;

fn group(spec: &str) -> String {
    format!("{{apiVersion: tamis.dev/v1alpha1, kind: GatewayGroup, metadata: {{name: default}}, spec: {{{spec}}}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_save_is_quick() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    let mut times = Vec::new();
    for edit in 0..50 {
        let (pointer, expected) = if edit % 2 == 0 { ("/y", Y) } else { ("/x", X) };
        fs::write(dir.path().join("a.yaml"), audience(pointer)).expect("saves");
        let saved = Instant::now();
        until("the change", async || text_of(&client, "get").await == expected).await;
        times.push(saved.elapsed());
    }
    times.sort();
    println!("from a save to the first call that shows it: p50 {:?}, p99 {:?}", times[25], times[49]);
    // Other programs share the machine.
    assert!(times[49] < Duration::from_secs(2), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_a_file_is_saved_the_last_word_is_served() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    let path = dir.path().join("a.yaml");
    let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
    let beside = |text: &str| replace(&path, text);
    let in_two_steps = |text: &str| {
        drop(fs::File::create(&path).expect("truncates"));
        pause(20);
        fs::write(&path, text).expect("writes");
    };
    let anew = |text: &str| {
        fs::remove_file(&path).expect("deletes");
        fs::write(&path, text).expect("writes");
    };
    let slowly = |text: &str| {
        let mut file = fs::File::create(&path).expect("truncates");
        let (half, rest) = text.as_bytes().split_at(text.len() / 2);
        file.write_all(half).expect("writes");
        pause(300);
        file.write_all(rest).expect("writes");
    };
    let folder_anew = |text: &str| {
        let aside = tempfile::tempdir().expect("a folder");
        for name in ["a.yaml", "s.yaml"] {
            fs::copy(dir.path().join(name), aside.path().join(name)).expect("copies");
        }
        fs::remove_dir_all(dir.path()).expect("removes");
        pause(50);
        fs::create_dir(dir.path()).expect("creates");
        fs::copy(aside.path().join("s.yaml"), dir.path().join("s.yaml")).expect("copies");
        fs::write(&path, text).expect("writes");
    };
    type Save<'a> = &'a dyn Fn(&str);
    let ways: [(&str, Save<'_>); 5] = [
        ("beside, and renamed", &beside),
        ("truncated, then written", &in_two_steps),
        ("deleted, then created", &anew),
        ("half of it open for a while", &slowly),
        ("the folder removed and made anew", &folder_anew),
    ];
    for (what, save) in ways {
        for (pointer, expected) in [("/y", Y), ("/x", X)] {
            save(&audience(pointer));
            until(what, async || text_of(&client, "get").await == expected).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_edits_end_with_the_last() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    for edit in 0..500 {
        let text = match edit % 5 {
            0 => audience("/x"),
            1 => "kind: [".to_owned(),
            2 => String::new(),
            3 => audience("/x")[..150].to_owned(),
            _ => audience("/y"),
        };
        fs::write(dir.path().join("a.yaml"), text).expect("saves");
        if edit % 50 == 0 {
            let seen = text_of(&client, "get").await;
            assert!([X, Y].contains(&seen.as_str()), "{seen}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    until("the last edit", async || text_of(&client, "get").await == Y).await;
    until("the recovery", async || !served.admin("/config").await.contains("a.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_set_that_goes_and_comes_back_leaves_no_gap() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    fs::write(dir.path().join("a.yaml"), UNNAMED).expect("writes");
    let set = dir.path().join("f.yaml");
    fs::write(&set, DEFAULT_SET).expect("writes");
    // Another one stays: without any the exposition would stop.
    let other = DEFAULT_SET.replace("{name: f}", "{name: g}").replace("get: {retain: [/x]}, ", "");
    fs::write(dir.path().join("g.yaml"), other).expect("writes");
    let served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    assert_eq!(text_of(&client, "get").await, X);
    fs::remove_file(&set).expect("deletes");
    let gone = Instant::now();
    until("the reason", async || served.log().contains("waits until the folder is quiet")).await;
    while gone.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(text_of(&client, "get").await, X, "after {:?}", gone.elapsed());
    }
    fs::write(&set, DEFAULT_SET.replace("/x", "/y")).expect("writes");
    until("the new set", async || text_of(&client, "get").await == Y).await;
    fs::remove_file(&set).expect("deletes");
    let gone = Instant::now();
    until("what loosens, at last", async || text_of(&client, "get").await == BOTH).await;
    assert!(gone.elapsed() >= Duration::from_secs(5), "{:?}", gone.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_group_is_honoured() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let path = dir.path().join("g.yaml");
    fs::write(&path, group("replicas: 2, metrics: {detail: Exposition}, egress: {deny: [127.0.0.2]}")).expect("writes");
    let served = Served::start(dir.path(), &["--log-format", "human"]);
    assert!(served.log().contains("spec.replicas has no effect"), "{}", served.log());
    assert!(served.log().contains("/mcp/default/a  2 tools, 1 unfiltered  Advisory"), "{}", served.log());
    let client = connect(&served.url("a")).await;
    assert_eq!(text_of(&client, "get").await, X);
    assert_eq!(text_of(&client, "slow").await, BOTH);
    let metrics = served.admin("/metrics").await;
    assert!(metrics.contains(r#"tamis_tool_calls_total{exposition="a",namespace="default",outcome="ok",tool=""} 2"#));
    assert!(!metrics.contains(r#"tool="get""#), "{metrics}");
    // Fewer tools, the same series.
    fs::write(dir.path().join("a.yaml"), audience("/y")).expect("saves");
    until("the change", async || text_of(&client, "get").await == Y).await;
    assert!(!served.admin("/metrics").await.contains(r#"tool="get""#));
    // A floor holds as soon as it is saved; egress needs a restart, which is said.
    fs::write(&path, group("require: {enforced: true}, egress: {deny: [127.0.0.1]}, metrics: {detail: Exposition}"))
        .expect("saves");
    until("the floor", async || served.admin("/config").await.contains("BelowGroupFloor")).await;
    until("the advice", async || served.log().contains("egress changed, restart")).await;

    fs::write(&path, group("egress: {deny: [127.0.0.1]}")).expect("saves");
    let served = Served::start(dir.path(), &[]);
    let refused = text_of(&connect(&served.url("a")).await, "get").await;
    assert!(refused.contains("egress"), "{refused}");

    let output_of = |group_spec: &str, more: &[&str]| {
        fs::write(&path, group(group_spec)).expect("saves");
        let root = dir.path().to_str().expect("is text");
        let arguments = [&["serve", root, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], more].concat();
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = output_of("audit: {sink: File}", &[]);
    assert!(said.contains("spec.audit.sink") && said.contains("--audit-dir"), "{said}");
    let said = output_of("require: {access: true}", &[]);
    assert!(said.contains("spec.access") && said.contains("authenticated callers"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_later_expositions_need_access_too() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let open = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("saves");
    let said_access = audience("/x").replace("filters: [a]", "filters: [a], access: {anonymous: true}");
    open("a.yaml", &said_access);
    // Not a real interface beyond loopback: 0.0.0.0 is reached through loopback here.
    let served = Served::start(dir.path(), &["--listen", "0.0.0.0:0"]);
    let url = served.url("a").replace("0.0.0.0", "127.0.0.1");
    assert_eq!(text_of(&connect(&url).await, "get").await, X);
    let later = said_access.replace("name: a", "name: b").replace("[a]", "[b]");
    open("b.yaml", &later.replace(", access: {anonymous: true}", ""));
    until("the refusal", async || served.admin("/config").await.contains("AccessRequired")).await;
    let answer = reqwest::Client::new().post(url.replace("/a", "/b")).body("{}").send().await.expect("answers");
    assert_eq!(answer.status().as_u16(), 503);
    open("b.yaml", &later);
    until("the access", async || !served.admin("/config").await.contains("AccessRequired")).await;
    assert_eq!(text_of(&connect(&url.replace("/a", "/b")).await, "get").await, X);
    // What loses its access closes at once.
    open("a.yaml", &audience("/x"));
    until("the closing", async || {
        reqwest::Client::new().post(&url).body("{}").send().await.expect("answers").status().as_u16() == 503
    })
    .await;
}

#[test]
fn a_wrong_name_for_stdio_is_answered_with_the_right_ones() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    fs::write(dir.path().join("c.yaml"), UNNAMED.replace("name: a", "name: c").replace("\"1\"", "\"2\""))
        .expect("writes");
    let path = dir.path().to_str().expect("is text");
    let table = [("b", "one of: default/a"), ("team/a", "one of: default/a"), ("c", "ServiceNotFound")];
    for (name, expected) in table {
        let output = run(&["serve", path, "--stdio", "--exposition", name]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
        assert!(said.contains(expected), "{name}: {said}");
    }
    let output = run(&["serve", path, "--stdio", "--exposition", "a/b/c"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_number_of_workers_is_a_number_from_1_to_1024() {
    for bad in ["0", "1025", "-1", "two", "", "1.5", "18446744073709551616"] {
        for command in [&["serve", "."][..], &["gateway", "--group", "g", "--namespace", "n"]] {
            let output = run(&[command, &[&format!("--workers={bad}")]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let expected = format!("error: invalid value '{bad}' for '--workers <N>': must be a number from 1 to 1024");
            assert!(output.status.code() == Some(2) && said.contains(&expected), "{bad}: {said}");
        }
    }
    let output = run(&["serve", ".", "--stdio", "--workers", "2"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("'--stdio' cannot be used with '--workers <N>'"),
        "{said}"
    );
}

//! `tamis serve`, through the real binary: what it says, what it follows, how it ends.

mod support;

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_file_shows_within_a_tenth_of_a_second() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &[]);
    let client = connect(&served.url("a")).await;
    assert_eq!(text_of(&client, "get").await, X);
    // Other programs share the machine: the best of a few says what this one does.
    let mut best = Duration::MAX;
    for (pointer, expected) in [("/y", Y), ("/x", X), ("/y", Y), ("/x", X), ("/y", Y)] {
        fs::write(dir.path().join("a.yaml"), audience(pointer)).expect("saves");
        let saved = Instant::now();
        until("the change", async || text_of(&client, "get").await == expected).await;
        best = best.min(saved.elapsed());
    }
    assert!(best < Duration::from_millis(100), "{best:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_edit_keeps_what_was_served_and_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &["--log-format", "human"]);
    let client = connect(&served.url("a")).await;
    let path = dir.path().join("a.yaml");
    for broken in ["kind: [", "", &audience("/y")[..200]] {
        fs::write(&path, broken).expect("saves");
        until("the error", async || served.admin("/config").await.contains("a.yaml")).await;
        assert_eq!(text_of(&client, "get").await, X, "{broken:?}");
        fs::write(&path, audience("/x")).expect("mends");
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
        ("", &["holds no Exposition", "tamis demo"]),
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

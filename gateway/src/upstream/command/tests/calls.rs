//! Programs that do what programs do, and what they should not: shell scripts. Limits are those of the real binary's own tests: here
//! a stand-in executes the program without them.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tamis_config::Source;

use super::*;
use crate::programs::testing::{runs, until};
use crate::upstream::http::tests::support::{TOKEN, arguments, context, given, room, within};
use crate::upstream::{CallBounds, ClientOptions, Output, Upstream};

/// Executes what comes after the limits.
const LIMITER: [&str; 4] = ["sh", "-c", "shift 4; exec \"$@\"", "limiter"];

fn client(limiter: &[&str]) -> Arc<Client> {
    let limiter = limiter.iter().map(OsString::from).collect();
    let options = ClientOptions { programs: true, limiter, ..ClientOptions::default() };
    Arc::new(Client::new(options, NonZero::<usize>::MIN).unwrap())
}

struct Fixture {
    folder: tempfile::TempDir,
    client: Arc<Client>,
    upstream: Upstream,
}

/// A document whose tool `run` is a shell script with the argument `a` as `$1`. `source` and `call` are merged over what is usual.
fn document(script: &str, source: &Value, call: &Value) -> Arc<ServiceDocument> {
    let mut all_source = json!({"executable": "sh", "limits": {
        "timeoutMs": 10_000, "outputBytes": 1 << 20, "processes": 64, "memoryBytes": 1 << 30,
    }});
    let mut all_call = json!({
        "words": ["-c", script, "sh"], "arguments": {"a": {"style": "positional"}}, "successCodes": [0],
    });
    for (into, from) in [(&mut all_source, source), (&mut all_call, call)] {
        into.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
    }
    let tool = json!({"inputSchema": {"type": "object"}, "call": {"command": all_call}});
    let document = json!({
        "formatVersion": 4, "name": "test", "version": "1", "source": {"command": all_source}, "tools": {"run": tool},
    });
    Arc::new(serde_json::from_str(&document.to_string()).unwrap())
}

impl Fixture {
    fn new(script: &str) -> Self {
        Self::with(script, &json!({}), &json!({}))
    }

    /// The script runs in a folder of its own.
    fn with(script: &str, source: &Value, call: &Value) -> Self {
        let (folder, client) = (tempfile::tempdir().unwrap(), client(&LIMITER));
        let mut all = json!({"workingDir": folder.path()});
        all.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let upstream = Upstream::new(&document(script, &all, call), Arc::clone(&client)).unwrap();
        Self { folder, client, upstream }
    }

    async fn call(&self, json: &str) -> Result<Answer, UpstreamError> {
        self.call_within(json, within(Duration::from_secs(20), 1 << 20)).await
    }

    async fn call_within(&self, json: &str, bounds: CallBounds) -> Result<Answer, UpstreamError> {
        self.upstream.call("run", &arguments(json), context(bounds, given(), &mut room())).await
    }

    async fn text(&self, json: &str) -> String {
        shown(&self.call(json).await.unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

fn shown(answer: &Answer) -> String {
    String::from_utf8(answer.output.bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_program_gets_words_an_environment_by_list_and_no_input() {
    let script = r#"printf '{"a":"%s","n":1.10,"input":"%s","set":"%s","secret":%s,"cwd":"%s"}' "$1" "$(cat)" "$SET" ${#SECRET} "$PWD""#;
    let source = json!({"envInject": {"SET": "fixed"}, "secretEnv": {"SECRET": {"name": "s", "key": "k"}}});
    let fixture = Fixture::with(script, &source, &json!({}));
    let answer = fixture.call(r#"{"a":"$(id) * 'x'"}"#).await.unwrap();
    let folder = fixture.folder.path().display();
    let expected =
        format!(r#"{{"a":"$(id) * 'x'","n":1.10,"input":"","set":"fixed","secret":{},"cwd":"{folder}"}}"#, TOKEN.len());
    assert_eq!(answer.output, Output::Json(expected.into()));
    assert_eq!((answer.status, answer.requests), (200, 1));
    let names = Fixture::new("env | sed 's/=.*//' | sort");
    let names = names.text("{}").await;
    let passed = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHLVL", "TMPDIR", "USER", "OLDPWD", "_"];
    assert!(names.lines().all(|name| passed.contains(&name) || name.starts_with("LC_")), "{names}");
    let missing = Fixture::with("true", &json!({"secretEnv": {"S": {"name": "absent", "key": "k"}}}), &json!({}));
    assert!(matches!(missing.call("{}").await, Err(UpstreamError::Credential(_))));
}

#[tokio::test]
async fn an_exit_code_is_success_another_attempt_or_an_error() {
    let script = "echo x >> ran; echo out; echo because >&2; exit $1";
    let call = json!({
        "successCodes": [0, 1], "errorMapping": {"4": "log in first"},
        "retry": {"maxAttempts": 3, "backoffMs": 1, "retryOn": [7]},
    });
    let fixture = Fixture::with(script, &json!({}), &call);
    for code in ["0", "1"] {
        assert_eq!(fixture.text(&format!(r#"{{"a":"{code}"}}"#)).await, "out\n", "{code}");
    }
    for (code, expected, mapped, attempts) in [
        ("2", "the program exited with code 2", None, 1),
        ("4", "the program exited with code 4", Some("log in first"), 1),
        ("7", "the program exited with code 7", None, 3),
    ] {
        std::fs::write(fixture.path("ran"), "").unwrap();
        let error = fixture.call(&format!(r#"{{"a":"{code}"}}"#)).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(error.sent() && error.category() == "exit");
        let UpstreamError::Exit { mapped: text, body, .. } = error else { panic!("an exit") };
        assert_eq!((text.as_deref(), &*body), (mapped, &b"because\n"[..]));
        assert_eq!(fixture.file("ran").lines().count(), attempts, "{code}");
    }
    let killed = Fixture::new("kill -9 $$");
    assert_eq!(killed.call("{}").await.unwrap_err().to_string(), "the program was ended by signal 9");
    let gone = Fixture::with("true", &json!({"workingDir": "/nonexistent"}), &json!({}));
    let error = gone.call("{}").await.unwrap_err();
    assert_eq!((error.category(), error.sent()), ("program_not_started", false));
}

#[tokio::test]
async fn a_run_that_exceeds_a_bound_ends_with_its_children() {
    // A child that ignores SIGTERM, and the script that waits for it.
    let stubborn = "(trap '' TERM; exec sleep 60) & echo $! > child; ";
    let endless = "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done";
    let small = json!({"limits": {"timeoutMs": 10_000, "outputBytes": 4096, "processes": 64, "memoryBytes": 1 << 30}});
    let short = json!({"timeoutMs": 300});
    for (what, script, source, call, bounds, category) in [
        ("output", endless.to_owned(), small.clone(), json!({}), (20_000, 1 << 20), "too_large"),
        ("output of the exposition", endless.to_owned(), json!({}), json!({}), (20_000, 1000), "too_large"),
        ("errors", format!("{{ {endless}; }} >&2"), small, json!({}), (20_000, 1 << 20), "too_large"),
        ("time", "wait".to_owned(), json!({}), short, (20_000, 1 << 20), "timeout"),
        ("time of the exposition", "wait".to_owned(), json!({}), json!({}), (300, 1 << 20), "timeout"),
    ] {
        let fixture = Fixture::with(&format!("{stubborn}{script}"), &source, &call);
        let error = fixture.call_within("{}", within(Duration::from_millis(bounds.0), bounds.1)).await.unwrap_err();
        assert_eq!((error.category(), error.sent()), (category, true), "{what}");
        until("the child has written its number", || fixture.file("child").ends_with('\n')).await;
        let child = fixture.file("child");
        until(what, || !runs(&child)).await;
        fixture.client.programs().unwrap().end().await;
        assert_eq!(fixture.call("{}").await.unwrap_err().category(), "program_not_started", "{what}");
    }
}

#[tokio::test]
async fn a_caller_that_leaves_ends_the_program() {
    let fixture = Fixture::new("echo $$ > pid; sleep 60");
    let call = fixture.call("{}");
    tokio::select! {
        _ = call => panic!("it sleeps"),
        () = until("it runs", || fixture.file("pid").ends_with('\n')) => {}
    }
    let pid = fixture.file("pid");
    until("it has ended", || !runs(&pid)).await;
}

#[tokio::test]
async fn children_that_outlive_the_program_do_not_hold_its_answer() {
    // In the group: killed. Out of it: left alone, and its output is not waited for.
    for (script, is_killed) in
        [("sleep 60 & echo $! > child; echo done", true), ("setsid sleep 5 & echo $! > child; echo done", false)]
    {
        let fixture = Fixture::new(script);
        let begun = Instant::now();
        assert_eq!(fixture.text("{}").await, "done\n");
        assert!(begun.elapsed() < Duration::from_secs(4), "{script}: {:?}", begun.elapsed());
        if is_killed {
            let child = fixture.file("child");
            until("it is killed", || !runs(&child)).await;
        }
    }
}

#[tokio::test]
async fn programs_at_once_are_counted_until_they_have_ended() {
    let script = "echo begin >> log; sleep 0.2; echo end >> log";
    let folder = tempfile::tempdir().unwrap();
    let document = document(script, &json!({"workingDir": folder.path()}), &json!({}));
    let Source::Command(source) = &document.source else { panic!("a program") };
    let mut service = CommandService::new(source, &document, &client(&LIMITER)).unwrap();
    service.places = Arc::new(Semaphore::new(1));
    let call = async || {
        let bounds = within(Duration::from_secs(20), 1 << 20);
        service.call("run", &arguments("{}"), context(bounds, given(), &mut room())).await.unwrap();
    };
    tokio::join!(call(), call(), call());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log, "begin\nend\n".repeat(3));
}

#[tokio::test]
async fn a_credential_comes_back_in_no_output() {
    let source = json!({"secretEnv": {"SECRET": {"name": "s", "key": "k"}}});
    let fixture = Fixture::with("printf '{\"a\":\"%s\"}' \"$SECRET\"", &source, &json!({}));
    assert_eq!(fixture.call("{}").await.unwrap_err().category(), "credential_returned");
    let fixture = Fixture::with("echo $SECRET >&2; exit 3", &source, &json!({}));
    let error = fixture.call("{}").await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.body().map(Bytes::len)), ("the program exited with code 3", Some(0)));
}

#[tokio::test]
async fn large_outputs_and_the_end_of_long_errors_are_kept() {
    let fixture = Fixture::new("i=0; while [ $i -lt 3000 ]; do echo \"{\\\"line\\\": $i.50}\"; i=$((i+1)); done");
    let all = fixture.text("{}").await;
    assert!(all.starts_with("[{\"line\": 0.50},") && all.ends_with(",{\"line\": 2999.50}]"), "{} bytes", all.len());
    let fixture = Fixture::new("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1");
    let error = fixture.call("{}").await.unwrap_err();
    let body = error.body().unwrap();
    assert!(body.len() <= 8 << 10 && body.ends_with(b"line 1999\n"), "{} bytes", body.len());
}

/// The document that the compile step makes of a script (`crds/tests/data/osascript.json`), with a stand-in for `osascript`.
#[tokio::test]
async fn a_script_is_called_as_osascript_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("osascript");
    let script = "#!/bin/sh\nprintf '[%s][%s][%s][%s][%s]' \"$#\" \"$1\" \"$2\" \"$3\" \"$4\" >> \"$0.log\"\ncat >> \"$0.log\"\necho '{\"ok\":true}'\n";
    std::fs::write(&stand_in, script).unwrap();
    std::fs::set_permissions(&stand_in, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let compiled = include_str!("../../../../../crds/tests/data/osascript.json");
    let compiled = compiled.replace("/usr/bin/osascript", stand_in.to_str().unwrap());
    let document: Arc<ServiceDocument> = Arc::new(serde_json::from_str(&compiled).unwrap());
    let upstream = Upstream::new(&document, client(&LIMITER)).unwrap();
    let bounds = within(Duration::from_secs(20), 1 << 20);
    let given_arguments = arguments(r#"{"folder":"--x\n'\"$(id)","ids":[1.10]}"#);
    let answer = upstream.call("list-notes", &given_arguments, context(bounds, given(), &mut room())).await.unwrap();
    assert_eq!(shown(&answer), "{\"ok\":true}\n");
    let log = std::fs::read_to_string(folder.path().join("osascript.log")).unwrap();
    let source = "JSON.stringify({ok: true})";
    let input = r#"{"folder":"--x\n'\"$(id)","ids":[1.10],"limit":20}"#;
    assert_eq!(log, format!("[4][-l][JavaScript][-e][{source}]{input}"));
}

#[test]
fn a_service_that_cannot_run_is_not_loaded() {
    let document = document("true", &json!({}), &json!({}));
    let refused =
        |client: Arc<Client>, document: &Arc<ServiceDocument>| Upstream::new(document, client).unwrap_err().to_string();
    let plain = Arc::new(Client::new(ClientOptions::default(), NonZero::<usize>::MIN).unwrap());
    for client in [plain, client(&[])] {
        let expected = "source.command: this gateway runs no programs; only `tamis serve` does";
        assert_eq!(refused(client, &document), expected);
    }
    for missing in ["tamis-no-such-program", "/nonexistent/program", "/etc/passwd", "./sh"] {
        let document = super::tests::document("true", &json!({"executable": missing}), &json!({}));
        let error = refused(client(&LIMITER), &document);
        assert!(error.starts_with("source.command.executable: ") && error.contains("install it"), "{error}");
    }
    let mut other = ServiceDocument::clone(&document);
    let http = json!({"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}});
    other.tools.insert("get".to_owned(), serde_json::from_str(&http.to_string()).unwrap());
    let expected = "tools.get.call: must be `command`: the service is a program";
    assert_eq!(refused(client(&LIMITER), &Arc::new(other)), expected);
    assert!(Path::new("/bin/sh").exists());
}

//! `tamis serve` with services of programs: a real Git repository, hostile arguments, and the limits that the real binary sets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::documents::{Folder, copy_folder};
use tamis_tests::{CLIENTS, Client, Era, Gateway, Options, Rpc, binary, root, until};

const GROUP: &str = "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {name: default}\nspec: {commands: {enabled: true}}\n";

/// A credential of the gateway.
const TOKEN: &str = "t0ken-4c1d9a77";

fn git(folder: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]);
    let output = command.args(arguments).current_dir(folder).env("HOME", folder).output().context("git")?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// `examples/programs`, for a repository of two commits.
fn example() -> Result<(Folder, Folder)> {
    let (repository, folder) = (Folder::new()?, Folder::new()?);
    git(repository.path(), &["init", "-q"])?;
    for (number, text) in ["first", "second"].into_iter().enumerate() {
        repository.write("notes.txt", &format!("{text}\n"))?;
        git(repository.path(), &["add", "."])?;
        git(repository.path(), &["commit", "-qm", &format!("Commit {number}, \"quoted\"")])?;
    }
    let place = format!("executable: git\n    workingDir: {}", repository.path().display());
    copy_folder(&root().join("examples/programs"), folder.path(), &|text| text.replace("executable: git", &place))?;
    Ok((repository, folder))
}

fn exposition(name: &str, service: &str, more: &str) -> String {
    format!(
        "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{service: {{name: {service}, \
         version: 1.0.0}}{more}}}\n"
    )
}

/// Writes a program.
fn program(folder: &Folder, name: &str, script: &str) -> Result<String> {
    let path = folder.path().join(name);
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path.to_str().context("the path is not UTF-8")?.to_owned())
}

/// Returns the text of a tool result, and whether it is an error.
async fn said(rpc: &Rpc, tool: &str, arguments: &Value) -> Result<(bool, String)> {
    let message = rpc.call(tool, arguments).await?.message()?;
    let result = &message["result"];
    let text = result["content"][0]["text"].as_str().with_context(|| format!("{tool}: {message}"))?;
    Ok((result["isError"] == true, text.to_owned()))
}

fn runs(process: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[tokio::test]
async fn the_example_is_filtered_audited_and_counted() -> Result<()> {
    let (repository, folder) = example()?;
    let gateway = Gateway::start(folder.path()).await?;
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("git-internal")).await.context(said.clone())?;
        let tools = client.list().await?;
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["log", "status", "show-file"], "{said}");
        assert_eq!(tools[0]["annotations"]["readOnlyHint"], true, "{said}: {}", tools[0]);
        let result = client.result("log", json!({})).await?;
        let list: Vec<Value> = serde_json::from_str(result["content"][0]["text"].as_str().context("no text")?)?;
        let subjects: Vec<_> = list.iter().map(|commit| &commit["subject"]).collect();
        assert_eq!(subjects, ["Commit-1-quoted", "Commit-0-quoted"], "{said}");
        let result = client.result("show-file", json!({"object": "HEAD~1:notes.txt"})).await?;
        assert_eq!(result["content"][0]["text"], "first\n", "{said}");
        let mut client = Client::connect(sdk, era, &gateway.target("git-partner")).await.context(said.clone())?;
        let result = client.result("log", json!({"max_count": 1})).await?;
        let list: Vec<Value> = serde_json::from_str(result["content"][0]["text"].as_str().context("no text")?)?;
        let members = list[0].as_object().context("an object")?;
        assert!(list.len() == 1 && members.keys().eq(["commit", "subject"]), "{said}: {result}");
    }
    let rpc = |name: &str| Rpc::new(&gateway.endpoint(name), Era::Modern);
    let (internal, partner) = (rpc("git-internal")?, rpc("git-partner")?);
    repository.write("new.txt", "x")?;
    let (_, status) = said(&internal, "status", &json!({})).await?;
    assert_eq!(status, "## main\n?? new.txt\n");
    // An error has the end of standard error, but not under enforcement.
    let absent = json!({"revision": "no-such-revision"});
    let mapped = "The program exited with code 128: The folder is not a repository, or has no such revision";
    let (is_error, text) = said(&internal, "log", &absent).await?;
    assert!(is_error && text.starts_with(mapped) && text.contains("no-such-revision"), "{text}");
    assert_eq!(said(&partner, "log", &absent).await?, (true, mapped.to_owned()));
    // What is wrong is said before anything is started.
    let ran = gateway.metric("tamis_upstream_request_duration_seconds_count", &["code=\"200\""]).await?;
    for (arguments, expected) in [
        (json!({"max_count": "1"}), "`max_count`: is not of type integer"),
        (json!({"other": 1}), "other"),
        (json!({"author": ["a"]}), "`author`: is not of type string"),
    ] {
        let (is_error, text) = said(&internal, "log", &arguments).await?;
        assert!(is_error && text.starts_with("Invalid arguments: ") && text.contains(expected), "{text}");
    }
    let counted = async |code: &str| {
        let label = format!("code=\"{code}\"");
        gateway.metric("tamis_upstream_request_duration_seconds_count", &[&label]).await
    };
    assert_eq!((counted("200").await?, counted("exit").await?), (ran, 2.0));
    let errors = gateway.metric("tamis_tool_calls_total", &["outcome=\"upstream_error\"", "tool=\"log\""]).await?;
    assert_eq!(errors, 2.0);
    let log = gateway.log();
    assert!(log.contains("tool=\"show-file\"") && !log.contains("no-such-revision"), "{log}");
    Ok(())
}

/// A program that says what it was given: the number of its arguments, and each in hexadecimal.
const ECHO: &str = r#"#!/bin/sh
printf '{"count":%d,"words":[' $#
for word; do
    printf '%s"%s"' "$comma" "$(printf %s "$word" | od -An -v -tx1 | tr -d ' \n')"
    comma=,
done
printf ']}'
"#;

#[tokio::test]
async fn whatever_an_argument_says_program_and_places_stay() -> Result<()> {
    let folder = Folder::new()?;
    let echo = program(&folder, "echo", ECHO)?;
    let action = |more: &str| {
        format!(
            "{{command: [fixed], args: {{a: {{type: string, style: positional}}, b: {{type: string}}, c: {{type: string, style: \
             joined}}, last: {{type: string, style: positional}}}}{more}}}"
        )
    };
    let manifest = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: echo}}\nspec:\n  version: 1.0.0\n  command:\n    \
         executable: {echo}\n    actions:\n      plain: {}\n      guarded: {}\n",
        action(""),
        action(", endOfOptions: --")
    );
    folder.write("all.yaml", &[&manifest, "---\n", GROUP, &exposition("echo", "echo", ", filters: []")].concat())?;
    let gateway = Gateway::start(folder.path()).await?;
    let rpc = Rpc::new(&gateway.endpoint("echo"), Era::Modern)?;
    let hex = |word: &str| word.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let long = "x".repeat(100_000);
    let hostile = [
        "-",
        "--",
        "-rf",
        "--output=/etc/passwd",
        "--json",
        "=x",
        "a=b",
        "a\nb",
        "\n-x",
        "",
        " ",
        "; id",
        "$(id)",
        "`id`",
        "$HOME",
        "*",
        "?",
        "[a-z]",
        "~",
        "'",
        "\"",
        "\\",
        "| cat",
        "&",
        "> out",
        "\u{202e}",
        "@/etc/passwd",
        "%s%n",
        "\u{1b}[0m",
        &long,
    ];
    for value in hostile {
        let refused = |name: &str| {
            (
                true,
                format!(
                    "Invalid arguments: argument `{name}` begins with `-`, so that the program would read it as an option"
                ),
            )
        };
        for (tool, argument, words) in [
            ("plain", "a", vec!["fixed", value, "--json"]),
            ("plain", "b", vec!["fixed", "--b", value, "--json"]),
            ("plain", "c", vec!["fixed", &*format!("--c={value}"), "--json"]),
            ("guarded", "a", vec!["fixed", "--json", "--", value]),
        ] {
            let got = said(&rpc, tool, &json!({argument: value})).await?;
            if value.starts_with('-') && tool == "plain" && argument != "c" {
                assert_eq!(got, refused(argument));
                continue;
            }
            let words: Vec<String> = words.into_iter().map(hex).collect();
            let expected = json!({"count": words.len(), "words": words}).to_string();
            assert_eq!(got, (false, expected), "{tool} {argument} {}", value.escape_debug());
        }
    }
    let zero = (true, "Invalid arguments: argument `a` contains a zero byte, which no program can be given".to_owned());
    assert_eq!(said(&rpc, "guarded", &json!({"a": "x\u{0}y"})).await?, zero);
    let (is_error, text) = said(&rpc, "plain", &json!({"last": "x"})).await?;
    assert!(is_error && text.contains("`last` is only possible together with `a`"), "{text}");
    let (is_error, text) = said(&rpc, "plain", &json!({"a": "x".repeat(131_072)})).await?;
    assert!(is_error && text.contains("`a` is longer than 131071 bytes"), "{text}");
    let files: Vec<_> = fs::read_dir(folder.path())?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    assert_eq!(files.len(), 2, "no shell wrote a file: {files:?}");
    Ok(())
}

/// Runs a shell script within limits, as the gateway does.
fn limited(limits: (u64, u64, u64), script: &str) -> Result<Output> {
    limited_by(&mut Command::new(binary("tamis")?), limits, script)
}

fn limited_by(tamis: &mut Command, (memory, processes, cpu): (u64, u64, u64), script: &str) -> Result<Output> {
    tamis.arg("run-limited");
    tamis.args([memory, processes, cpu, std::process::id().into()].map(|number| number.to_string()));
    tamis.args(["/bin/sh", "-c", script]).current_dir("/").output().context("tamis run-limited")
}

#[test]
fn limits_hold_from_the_first_instruction() -> Result<()> {
    let (memory, cpu) = (64 << 20, 7);
    let output = limited((memory, 64, cpu), "cat /proc/self/limits")?;
    let limits = String::from_utf8(output.stdout)?;
    let line = |name: &str| {
        let line =
            limits.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("{name}: {limits}"))?;
        Ok::<_, anyhow::Error>(line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(line("Max data size")?[..2], ["67108864", "67108864"]);
    assert_eq!(line("Max cpu time")?[..2], ["7", "7"]);
    assert_eq!(line("Max core file size")?[..2], ["0", "0"]);
    assert_eq!(line("Max open files")?[0], "1024");
    let processes: u64 = line("Max processes")?[0].parse()?;
    assert!((65..100_000).contains(&processes), "{processes}");

    // Each limit is reached.
    let grow = "x=x; while :; do x=$x$x; done";
    let output = limited((memory, 64, 60), grow)?;
    assert!(!output.status.success(), "memory: {output:?}");
    let output = limited((memory, 64, 1), "while :; do :; done")?;
    assert!(matches!(output.status.signal(), Some(9 | 24)), "processor time: {output:?}");
    // The smallest memory that a manifest can have is enough to start.
    assert!(limited((16 << 20, 64, 60), "true")?.status.success());
    Ok(())
}

/// The limit on processes does not hold for root, so this runs as another user then.
#[test]
fn processes_are_limited() -> Result<()> {
    let is_root = String::from_utf8(Command::new("id").arg("-u").output()?.stdout)?.trim() == "0";
    // Another user may not reach a binary in a folder of root's.
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir()?;
    let copy = folder.path().join("tamis");
    if is_root {
        fs::copy(binary("tamis")?, &copy)?;
    }
    let run = |processes: u64| {
        let mut tamis = Command::new(if is_root { copy.clone() } else { binary("tamis")? });
        if is_root {
            tamis.uid(64_999).gid(64_999);
        }
        let many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 2 & done; wait; echo all";
        limited_by(&mut tamis, (256 << 20, processes, 60), many)
    };
    let output = run(4)?;
    assert!(!String::from_utf8_lossy(&output.stdout).contains("all"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).to_lowercase().contains("fork"), "{output:?}");
    let output = run(40)?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all\n", "{output:?}");
    Ok(())
}

#[test]
fn nothing_is_executed_for_another_process_or_without_limits() -> Result<()> {
    for arguments in [
        &["run-limited"][..],
        &["run-limited", "1", "2", "3"],
        // The gateway that asked for it has ended.
        &["run-limited", "1000000000", "64", "60", "1", "/bin/sh", "-c", "echo ran"],
        &["run-limited", "/bin/sh", "-c", "echo ran"],
    ] {
        let output = Command::new(binary("tamis")?).args(arguments).output()?;
        assert_eq!((output.status.code(), output.stdout.len()), (Some(127), 0), "{arguments:?}: {output:?}");
    }
    let output = limited((1 << 30, 64, 60), "exit 3")?;
    assert_eq!(output.status.code(), Some(3));
    let help = Command::new(binary("tamis")?).arg("--help").output()?;
    assert!(!String::from_utf8_lossy(&help.stdout).contains("run-limited"));
    Ok(())
}

#[tokio::test]
async fn programs_end_with_their_gateway_and_with_their_permission() -> Result<()> {
    let (folder, data) = (Folder::new()?, Folder::new()?);
    let marks = data.path().display();
    let sleeper = program(&data, "sleeper", &format!("#!/bin/sh\necho $$ > {marks}/$1\nsleep 300\n"))?;
    let manifest = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: sleeper}}\nspec:\n  version: 1.0.0\n  command:\n    \
         executable: {sleeper}\n    jsonFlag: none\n    actions: {{sleep: {{args: {{mark: {{type: string, style: positional}}}}}}}}\n"
    );
    folder.write(
        "manifest.yaml",
        &[&manifest[..], &exposition("sleeper", "sleeper", ", filters: [], limits: {timeout: 5m}")].concat(),
    )?;
    folder.write("group.yaml", GROUP)?;
    let gateway = Gateway::start(folder.path()).await?;
    let started = async |mark: &str, gateway: &Gateway| -> Result<String> {
        let rpc = Rpc::new(&gateway.endpoint("sleeper"), Era::Modern)?;
        let arguments = json!({"mark": mark});
        // The caller waits until its time is up, or until the test ends.
        tokio::spawn(async move { rpc.call("sleep", &arguments).await });
        let path = data.path().join(mark);
        until("it runs", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))).await?;
        Ok(fs::read_to_string(&path)?)
    };
    let killed = started("killed", &gateway).await?;
    assert!(runs(&killed));
    // SIGKILL: the gateway can do nothing any more.
    drop(gateway);
    until("it has ended with the gateway that was killed", || !runs(&killed)).await?;

    let mut gateway = Gateway::start(folder.path()).await?;
    let ended = started("ended", &gateway).await?;
    gateway.terminate()?;
    // Two signals at once would be one.
    until("stopping", || gateway.log().contains("stopping")).await?;
    // The call is waited for, so the second signal ends it.
    gateway.terminate()?;
    gateway.ended(Duration::from_secs(30)).await?;
    until("it has ended with the gateway", || !runs(&ended)).await?;

    // Without permission nothing is served, and nothing starts.
    folder.replace("group.yaml", &GROUP.replace("true", "false"))?;
    let output =
        Command::new(binary("tamis")?).arg("serve").arg(folder.path()).args(["--listen", "127.0.0.1:0"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("programs are not enabled"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_program_that_is_not_there_stops_its_exposition_only() -> Result<()> {
    let folder = Folder::new()?;
    let manifest = |name: &str, executable: &str| {
        format!(
            "---\napiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {name}}}\nspec:\n  version: 1.0.0\n  command: \
             {{executable: {executable}, jsonFlag: none, actions: {{run: {{response: {{type: text}}}}}}}}\n"
        )
    };
    let parts = [
        GROUP.to_owned(),
        manifest("there", "env"),
        manifest("absent", "tamis-no-such-program"),
        exposition("there", "there", ", filters: []"),
        exposition("absent", "absent", ", filters: []"),
    ];
    folder.write("all.yaml", &parts.concat())?;
    let gateway = Gateway::start(folder.path()).await?;
    let there = Rpc::new(&gateway.endpoint("there"), Era::Modern)?;
    assert!(there.call("run", &json!({})).await?.text_block()?.contains("PATH="));
    let absent = Rpc::new(&gateway.endpoint("absent"), Era::Modern)?;
    assert_eq!(absent.call("run", &json!({})).await?.status, 503);
    let log = gateway.log();
    assert!(log.contains("tamis-no-such-program") && log.contains("install it"), "{log}");
    Ok(())
}

#[tokio::test]
async fn kimbaps_manifests_are_served_and_imported() -> Result<()> {
    let folder = Folder::new()?;
    let hub = program(
        &folder,
        "hub",
        r#"#!/bin/sh
words=$(printf %s "$*" | tr '"' "'")
printf '{"id":1,"words":"%s","secret":%d}\n{"id":2}\n' "$words" ${#KIMBAP_CREDENTIAL_HUB_API_TOKEN}
"#,
    )?;
    let manifest = fs::read_to_string(root().join("crds/src/read/kimbap_command.yaml"))?;
    let manifest = manifest.replace("executable: hub", &format!("executable: {hub}"));
    let manifest = manifest.replace("/srv/repo", folder.path().to_str().context("the path is not UTF-8")?);
    let manifest = manifest
        .replace("type: array, filter: {select: {id: id}, max_items: 5}, compact: {item: \"#{{.id}}\"}", "type: array");
    folder.write("hub.yaml", &manifest)?;
    folder.write("more.yaml", &[GROUP, &exposition("hub", "hub", ", filters: []")].concat())?;
    let credential = ("TAMIS_SECRET_HUB_API_TOKEN".to_owned(), TOKEN.to_owned());
    let options = Options { environment: vec![credential], ..Options::default() };
    let words = "issue list --all acme --state open --with-comments --draft true --labels ['a','-b']";
    let arguments = json!({"repo_name": "acme", "with_comments": true, "draft": true, "labels": ["a", "-b"]});
    let expected = json!([{"id": 1, "words": words, "secret": TOKEN.len()}, {"id": 2}]);
    let gateway = Gateway::with(folder.path(), &options).await?;
    let rpc = Rpc::new(&gateway.endpoint("hub"), Era::Modern)?;
    let text = rpc.call("list-issues", &arguments).await?.text_block()?;
    assert_eq!(serde_json::from_str::<Value>(&text)?, expected, "{text}");
    drop(gateway);

    // The imported document is the same service.
    let tamis = |arguments: &[&str]| {
        Command::new(binary("tamis")?).args(arguments).current_dir(folder.path()).output().context("tamis")
    };
    let output = tamis(&["import", "kimbap", "hub.yaml"])?;
    let imported = String::from_utf8(output.stdout)?;
    assert!(output.status.success() && imported.contains("executable:"), "{}", String::from_utf8_lossy(&output.stderr));
    folder.write("hub.yaml", &imported)?;
    let output = tamis(&["validate", "."])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let gateway = Gateway::with(folder.path(), &options).await?;
    let rpc = Rpc::new(&gateway.endpoint("hub"), Era::Modern)?;
    let text = rpc.call("list-issues", &arguments).await?.text_block()?;
    assert_eq!(serde_json::from_str::<Value>(&text)?, expected, "{text}");

    // A manifest of scripts is converted on every system; it is served on macOS only.
    let scripts = root().join("crds/src/read/kimbap_applescript.yaml");
    let output = tamis(&["import", "kimbap", scripts.to_str().context("the path is not UTF-8")?])?;
    let imported = String::from_utf8(output.stdout)?;
    assert!(
        output.status.success() && imported.contains("appleScript:"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    if !cfg!(target_os = "macos") {
        folder.write("notes.yaml", &imported)?;
        let output = tamis(&["validate", "notes.yaml"])?;
        let text = [output.stdout, output.stderr].concat();
        assert!(!output.status.success() && String::from_utf8_lossy(&text).contains("runs on macOS only"));
    }
    Ok(())
}

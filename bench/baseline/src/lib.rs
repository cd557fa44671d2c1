//! The operations of the benchmark, written in the usual way with `serde_json::Value`.

use std::io::{BufRead, Write};

use rustix::time::{ClockId, clock_gettime};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// What the operations on one document name.
struct Names {
    /// `select`: output key, then the path. `retain` keeps the same paths.
    select: &'static [(&'static str, &'static [&'static str])],
    /// `exclude`, in each element, and `remove`, in the first one.
    remove: &'static [&'static str],
}

const ISSUES: Names = Names {
    select: &[
        ("number", &["number"]),
        ("title", &["title"]),
        ("state", &["state"]),
        ("author", &["user", "login"]),
        ("url", &["html_url"]),
        ("closed_at", &["closed_at"]),
    ],
    remove: &["user", "reactions", "repository_url", "labels_url"],
};

const ITEMS: Names = Names {
    select: &[
        ("number", &["number"]),
        ("title", &["title"]),
        ("author", &["user", "login"]),
        ("assignee", &["assignee"]),
    ],
    remove: &["user", "body", "locked", "assignee"],
};

/// `retain` before the operations of `patch`.
const PATCHED: [&[&str]; 4] = [&["number"], &["title"], &["user", "login"], &["assignee"]];

/// Runs one operation over `input` and returns the output. Operations on items begin with `items-`.
///
/// # Panics
/// If `input` is not a JSON list, or `op` is unknown.
pub fn run(op: &str, input: &[u8]) -> Vec<u8> {
    let (names, op) = match op.strip_prefix("items-") {
        Some(op) => (&ITEMS, op),
        None => (&ISSUES, op),
    };
    match op {
        "ignored" => {
            serde_json::from_slice::<IgnoredAny>(input).expect("JSON");
            Vec::new()
        }
        "parse" => {
            std::hint::black_box(parse(input));
            Vec::new()
        }
        "select" => write(&parse(input).into_iter().map(|item| select(names, item)).collect()),
        "retain" => {
            let paths: Vec<_> = names.select.iter().map(|(_, path)| *path).collect();
            write(&parse(input).into_iter().map(|item| project(item, &paths)).collect())
        }
        "remove" => {
            let mut document = parse(input);
            // A JSON Patch addresses elements by index. Like the engine's filter, this one changes only the first
            // element.
            for name in names.remove {
                if let Some(Value::Object(item)) = document.first_mut() {
                    item.remove(*name);
                }
            }
            write(&document)
        }
        "patch" => {
            let document = parse(input).into_iter().map(|item| project(item, &PATCHED)).collect();
            let mut document = Value::Array(document);
            assert_eq!(document.pointer("/0/number"), Some(&Value::from(1)));
            *document.pointer_mut("/0/title").expect("a title") = Value::from("redacted");
            if let Some(Value::Object(item)) = document.pointer_mut("/0") {
                item.remove("user");
            }
            serde_json::to_vec(&document).expect("values serialize")
        }
        "exclude" => {
            let mut document = parse(input);
            for item in document.iter_mut().filter_map(Value::as_object_mut) {
                for name in names.remove {
                    item.remove(*name);
                }
            }
            write(&document)
        }
        _ => panic!("no such operation: {op}"),
    }
}

fn parse(input: &[u8]) -> Vec<Value> {
    serde_json::from_slice(input).expect("a JSON list")
}

fn write(document: &Vec<Value>) -> Vec<u8> {
    serde_json::to_vec(document).expect("values serialize")
}

/// The fields, one of them nested; nulls dropped.
fn select(names: &Names, mut item: Value) -> Value {
    let mut out = Map::new();
    for (key, path) in names.select {
        let found = path.iter().try_fold(&mut item, |at, name| at.get_mut(name));
        if let Some(value) = found
            && !value.is_null()
        {
            out.insert((*key).into(), value.take());
        }
    }
    Value::Object(out)
}

/// Fields under their own names, including nulls.
fn project(mut item: Value, paths: &[&[&str]]) -> Value {
    let mut out = Map::new();
    for path in paths {
        let Some(value) = path.iter().try_fold(&mut item, |at, name| at.get_mut(name)) else { continue };
        let value = value.take();
        match path {
            [name] => drop(out.insert((*name).into(), value)),
            [outer, inner] => {
                let nested = Map::from_iter([((*inner).into(), value)]);
                out.insert((*outer).into(), Value::Object(nested));
            }
            _ => unreachable!("paths are one or two long"),
        }
    }
    Value::Object(out)
}

/// Returns the processor time of this thread in nanoseconds.
#[must_use]
pub fn thread_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Answers lines of `operation iterations` on standard input, over the file named by the first argument, with
/// `nanoseconds bytes-of-output`: the processor time of all iterations, and the size of one output.
///
/// # Panics
/// On any error: this is a child process of the benchmark.
pub fn serve() {
    let input = std::fs::read(std::env::args().nth(1).expect("a file name")).expect("a readable file");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let (op, iterations) = line.split_once(' ').expect("operation and count");
        let mut bytes = 0;
        let start = thread_nanos();
        for _ in 0..iterations.parse::<u32>().expect("a count") {
            bytes = std::hint::black_box(run(op, std::hint::black_box(&input))).len();
        }
        println!("{} {bytes}", thread_nanos() - start);
        std::io::stdout().flush().expect("standard output");
    }
}

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as LibraryTime};

use super::*;

const TIME: &str = "2026-11-23T07:26:56.116540Z";

/// A subscriber's clock that stands still.
struct Fixed;

impl FormatTime for Fixed {
    fn format_time(&self, out: &mut Writer<'_>) -> std::fmt::Result {
        out.write_str(TIME)
    }
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PLAIN: Line<'_> = Line {
    namespace: "team-a",
    exposition: "github-partner",
    bundle: None,
    tool: "list-issues",
    caller: "key:alice@10.1.2.3",
    verdict: "ok",
    failed_stage: None,
    upstream_status: 200,
    output_bytes: 61_570,
    result_bytes: 147,
    result_hmac: "7d0c0000000000000000000000000000000000000000000000000000000000ff",
    hmac_key: "51a08c2e",
    took: Duration::from_micros(41_802),
    trace_id: None,
    file: "",
};

fn lines() -> Vec<Line<'static>> {
    let mut lines = vec![
        PLAIN,
        Line { failed_stage: Some("root"), verdict: "filter_failed", ..PLAIN },
        Line { trace_id: Some("0af7651916cd43dd8448eb211c80319c"), file: "20261123T072656-1-a", ..PLAIN },
        Line { result_hmac: "", hmac_key: "", upstream_status: 0, output_bytes: 0, result_bytes: 0, ..PLAIN },
        Line { took: Duration::MAX, output_bytes: usize::MAX, upstream_status: u16::MAX, ..PLAIN },
        Line { caller: "anonymous@2001:db8::1", ..PLAIN },
        Line { bundle: Some("everything"), ..PLAIN },
    ];
    for odd in [
        "",
        "a b",
        "\"quoted\"",
        "back\\slash",
        "tab\tline\nend\r",
        "\u{1}\u{7f}\u{1b}[31m",
        "é\u{301}日本\u{200b}🦀",
        "'",
    ] {
        lines.push(Line {
            namespace: odd,
            exposition: odd,
            bundle: Some(odd),
            tool: odd,
            file: odd,
            trace_id: Some(odd),
            ..PLAIN
        });
    }
    lines
}

/// The bytes that the subscriber of the command line writes.
fn written(line: &Line<'_>, is_json: bool) -> String {
    let out = Written::default();
    let writer = out.clone();
    let builder = tracing_subscriber::fmt().with_ansi(false).with_timer(Fixed).with_writer(move || writer.clone());
    if is_json {
        let subscriber = builder.json().flatten_event(true).with_current_span(false).finish();
        tracing::subscriber::with_default(subscriber, || line.event());
    } else {
        tracing::subscriber::with_default(builder.with_target(false).finish(), || line.event());
    }
    let bytes = out.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn lines_have_the_bytes_that_the_library_writes() {
    for line in lines() {
        let (mut json, mut text) = (Vec::new(), Vec::new());
        line.json(TIME, &mut json);
        line.text(TIME, &mut text);
        assert_eq!(String::from_utf8(json).unwrap(), written(&line, true));
        assert_eq!(String::from_utf8(text).unwrap(), written(&line, false));
    }
}

#[test]
fn a_line_is_one_line() {
    for line in lines() {
        let (mut json, mut text) = (Vec::new(), Vec::new());
        line.json(TIME, &mut json);
        line.text(TIME, &mut text);
        for line in [json, text] {
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        }
    }
}

#[test]
fn times_are_those_of_the_library() {
    let mut clock = Clock::default();
    for _ in 0..100 {
        let mut library = String::new();
        LibraryTime.format_time(&mut Writer::new(&mut library)).unwrap();
        let time: jiff::Timestamp = library.parse().unwrap();
        assert_eq!(clock.text(SystemTime::from(time)), library);
    }
    for (micros, expected) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (999_999, "1970-01-01T00:00:00.999999Z"),
        (1_000_000, "1970-01-01T00:00:01.000000Z"),
        (999_999, "1970-01-01T00:00:00.999999Z"),
        (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
        (253_402_127_999_000_000, "9999-12-29T23:59:59.000000Z"),
    ] {
        assert_eq!(clock.text(UNIX_EPOCH + Duration::from_micros(micros)), expected);
    }
    assert_eq!(clock.text(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000000Z");
}

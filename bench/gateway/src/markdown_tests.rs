use super::{grouped, percent};
use crate::call::Era;
use crate::client::Protocol;
use crate::documents::Sets;
use crate::memory::{Expositions, Held, Idle};
use crate::plan::Target;
use crate::report::{Machine, Measured, MeasuredRow, Peers, Report};
use crate::stall::Stall;
use crate::stats::{Basis, Latency};

fn row(target: Target, per_core: f64, p50_us: f64) -> MeasuredRow {
    MeasuredRow {
        target,
        era: target.has_eras().then_some(Era::Legacy),
        name: target.name().to_owned(),
        answer_bytes: 4087,
        calls_per_second: per_core / 2.0,
        per_core,
        idle: (target != Target::Upstream).then_some(0.114),
        others: 0.0,
        offered_per_second: Some(8000.0),
        latency: Some(latency(p50_us)),
    }
}

fn latency(p50_us: f64) -> Latency {
    Latency { p50_us, p99_us: p50_us * 3.0, p999_us: p50_us * 5.0, max_us: p50_us * 9.0 }
}

fn measured() -> Measured {
    Measured {
        case: "4 kB".to_owned(),
        kb: 4,
        protocol: Protocol::Http1,
        concurrency: 16,
        basis: Basis::Processor,
        rows: vec![
            row(Target::Upstream, 200_000.0, 30.0),
            row(Target::Proxy, 32_000.0, 90.0),
            row(Target::PerCoreProxy, 48_000.0, 60.0),
            row(Target::Select, 36_000.0, 75.0),
        ],
    }
}

fn report() -> Report {
    Report {
        machine: Machine {
            processor: "Some CPU".to_owned(),
            cores: "everything shares core 0".to_owned(),
            tamis: "tamis 0.1.0".to_owned(),
            build: "0123abc, profile dist".to_owned(),
            load_before: "0.10".to_owned(),
            load_after: "1.20".to_owned(),
        },
        rounds: 3,
        seconds: 1.0,
        cases: vec![measured()],
        peers: Some(Ok(Peers { versions: vec!["fastmcp 4.1.2".to_owned()], measured: measured() })),
        expositions: [
            (Sets::Shared, 1, None),
            (Sets::Shared, 10_000, Some(19_300.0)),
            (Sets::Different, 1, None),
            (Sets::Different, 1_000, Some(31_000.0)),
        ]
        .map(|(sets, count, each)| Expositions { sets, count, resident: 16_000_000, each, ready_seconds: 0.5 })
        .into(),
        stall: Some(Ok(Stall {
            connections: 16,
            held: 8,
            before: latency(100.0),
            during: latency(110.0),
            reported: 1,
        })),
        held: Some(Ok(Held { calls: 1_000, seconds: 30, each: 39_960.0 })),
        idle: Some(Ok(Idle { connections: 10_000, each_unused: 2_000.0, each_used: 5_960.0 })),
    }
}

#[test]
fn shares_and_additions_refer_to_the_proxies_of_the_same_case() {
    let text = Report { peers: None, ..report() }.markdown();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("tamis, `select`")).collect();
    assert_eq!(
        lines,
        [
            "|  | tamis, `select` | 4,087 B | 18,000 | 11 % | 36,000 | processor | 112 % | 75 % |",
            "|  | tamis, `select` | 8,000 | 75 us | 225 us | 375 us | 675 us | 15 us | 45 us |",
        ]
    );
    let upstream = text.lines().find(|line| line.contains("upstream")).expect("is listed");
    assert_eq!(upstream, "| 4 kB | upstream | 4,087 B | 100,000 |  | 200,000 | processor |  |  |");
    let old = text.lines().find(|line| line.contains("| bare proxy |")).expect("is listed");
    assert!(old.ends_with("|  | 67 % |"), "{old}");
}

#[test]
fn the_summary_names_what_was_measured() {
    let text = report().markdown();
    assert!(text.starts_with("tamis 0.1.0 (0123abc, profile dist), Some CPU: everything"), "{text}");
    for line in [
        "| `select`, 4 kB, of the bare proxy | 110 % | 112 % |",
        "| `select`, 4 kB, of the per-core proxy | 80 % | 75 % |",
        "| `select`, 64 kB, of the per-core proxy | 60 % | - |",
        "| `select`, 4 kB, added p50 / p99 over the per-core proxy | 15 / 60 us | 15 / 45 us |",
        "| an exposition of 20 tools, one shared set / all sets different | 10 / 40 kB | 19.3 kB / 31.0 kB |",
        "| an idle connection after one call | 6 kB | 6.0 kB |",
        "| a call of an MCP server in flight, with progress | 40 kB | 40.0 kB |",
        "| calls of the other worker while one is held up | unchanged, 1 reported | \
         p99 330 us, before 300 us; 1 reported |",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let empty = Report { cases: Vec::new(), expositions: Vec::new(), idle: None, held: None, stall: None, ..report() };
    assert!(!empty.markdown().contains("| measure |"));
}

#[test]
fn tables_have_as_many_cells_in_each_row() {
    let text = report().markdown();
    let tables: Vec<&str> = text.split("\n\n").filter(|paragraph| paragraph.starts_with('|')).collect();
    assert_eq!(tables.len(), 9);
    for table in tables {
        let cells: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(cells.len() > 2 && cells.iter().all(|&count| count == cells[0]), "{table}");
    }
}

#[test]
fn what_was_not_measured_is_named() {
    let mut report = report();
    let text = report.markdown();
    assert!(text.contains("| 10,000 | one shared set | 16.0 MB | 19.3 kB | 0.50 s |"), "{text}");
    assert!(text.contains("Published gateways: fastmcp 4.1.2."), "{text}");
    assert!(text.contains("| 10,000 | 2.0 kB | 6.0 kB |"), "{text}");
    assert!(text.contains("8 of 16 connections waited with it; the gateway reported 1."), "{text}");
    assert!(text.contains("| during | 110 us | 330 us | 990 us |"), "{text}");
    report.stall = Some(Err("no permission".to_owned()));
    report.peers = Some(Err("cannot run python".to_owned()));
    report.idle = Some(Err("the limit is 1024".to_owned()));
    report.held = Some(Err("a call ended early".to_owned()));
    report.expositions.clear();
    let text = report.markdown();
    assert!(text.contains("Published gateways were not measured: cannot run python."), "{text}");
    assert!(text.contains("held up were not measured: no permission."), "{text}");
    assert!(text.contains("Calls in flight were not measured: a call ended early."), "{text}");
    assert!(text.contains("not measured: the limit is 1024.") && !text.contains("further exposition"), "{text}");
}

#[test]
fn json_holds_every_figure_of_the_tables() {
    let json = serde_json::to_value(report()).expect("is JSON");
    assert_eq!(json["cases"][0]["rows"][3]["latency"]["p99_us"], 225.0);
    assert_eq!(json["cases"][0]["rows"][3]["target"], "select");
    assert_eq!(json["cases"][0]["basis"], "processor");
}

#[test]
fn small_shares_have_a_decimal() {
    for (share, text) in [(0.0021, "0.2 %"), (0.0999, "10.0 %"), (0.1, "10 %"), (1.124, "112 %")] {
        assert_eq!(percent(share), text);
    }
}

#[test]
fn digits_are_grouped() {
    for (value, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1_234_567.8, "1,234,568")] {
        assert_eq!(grouped(value), text);
    }
}

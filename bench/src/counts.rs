//! Counts that do not depend on the machine: allocations and bytes of each filter and of a call, reads and writes of a
//! call. They are compared with `bench/counts.txt`; `TAMIS_UPDATE=1 cargo test -p tamis-bench` writes the file.
//!
//! Allocated bytes stand for copied bytes: every copy goes to memory that was allocated for it.

mod call;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use allocation_counter::AllocationInfo;

use crate::{operations, payload};

/// One size at which the document dominates, and one at which the fixed cost of a call shows.
const SIZES: [usize; 2] = [2_000, 200_000];

/// Returns the allocations of an operation on this thread when it is repeated. The first run also fills tables that are
/// kept.
fn allocated(mut run: impl FnMut()) -> AllocationInfo {
    run();
    allocation_counter::measure(run)
}

fn row(out: &mut String, name: &str, info: &AllocationInfo, output: usize) {
    let AllocationInfo { count_total, bytes_total, bytes_max, count_current: _, count_max: _, bytes_current: _ } = info;
    writeln!(out, "{name:<20}{count_total:>12}{bytes_total:>12}{bytes_max:>12}{output:>12}").expect("memory");
}

/// The committed table.
fn table() -> String {
    let mut out = format!("{:<20}{:>12}{:>12}{:>12}{:>12}\n", "", "allocations", "bytes", "peak", "output");
    for size in SIZES {
        let input = payload::issues(size);
        writeln!(out, "\n{} bytes of issues", input.len()).expect("memory");
        for operation in operations::of(payload::Document::Issues).expect("the filters compile") {
            let info = allocated(|| drop(std::hint::black_box(operation.run(&input))));
            row(&mut out, operation.name, &info, operation.run(&input).len());
        }
        let text = String::from_utf8(input).expect("text");
        let mut quoted = Vec::new();
        let info = allocated(|| {
            quoted = Vec::new();
            tamis_engine::json::write_string(&text, &mut quoted);
        });
        row(&mut out, "as a JSON string", &info, quoted.len());
    }
    out
}

#[test]
fn counts_match_the_recorded_ones() {
    let found = table() + &call::table();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt");
    if std::env::var_os("TAMIS_UPDATE").is_some() {
        fs::write(&file, found).expect("is written");
        return;
    }
    let recorded = fs::read_to_string(&file).expect("counts.txt is there");
    assert!(
        recorded == found,
        "counts differ; if they should, run TAMIS_UPDATE=1 cargo test -p tamis-bench and say why in the commit\n\
         --- recorded\n{recorded}\n--- found\n{found}"
    );
}

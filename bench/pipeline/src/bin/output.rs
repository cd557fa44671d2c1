//! Prints what an operation gives: `output FILE OPERATION`.

use std::io::Write;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (file, op) = (arguments.next().expect("a file name"), arguments.next().expect("an operation"));
    let input = std::fs::read(file).expect("a readable file");
    std::io::stdout().write_all(&tamis_bench_pipeline::run(&op, &input)).expect("standard output");
}

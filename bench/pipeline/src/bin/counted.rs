//! Counts the allocations of one operation: `counted FILE OPERATION` prints `allocations peak-bytes`.

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (file, op) = (arguments.next().expect("a file name"), arguments.next().expect("an operation"));
    let input = std::fs::read(file).expect("a readable file");
    let info = allocation_counter::measure(|| {
        std::hint::black_box(tamis_bench_pipeline::run(&op, &input));
    });
    println!("{} {}", info.count_total, info.bytes_max);
}

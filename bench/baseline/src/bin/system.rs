//! `serde_json::Value` with the system's allocator.

fn main() {
    tamis_bench_baseline::serve();
}

//! The pipeline with the system's allocator.

fn main() {
    tamis_bench_pipeline::serve();
}

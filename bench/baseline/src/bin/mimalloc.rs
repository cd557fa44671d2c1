//! `serde_json::Value` with mimalloc.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    tamis_bench_baseline::serve();
}

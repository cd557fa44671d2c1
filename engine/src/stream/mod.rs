//! The fast path.
#![allow(dead_code)]

mod distinct;
mod emit;
mod keys;
mod prune;
mod scan;
mod select;
mod simd;

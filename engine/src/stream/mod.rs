//! The fast path.
#![allow(dead_code)]

mod scan;
mod simd;

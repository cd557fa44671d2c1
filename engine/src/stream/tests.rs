//! The fast path beside the other one.

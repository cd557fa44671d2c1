//! `tamis serve`.

mod debounce;
mod follow;

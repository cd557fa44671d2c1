//! Prompts and resources, as published clients of both eras see them.

mod own;
mod passed;
mod wire;

//! Prompts and resources, as published clients of both eras see them.

mod bundled;
mod own;
mod passed;
mod wire;

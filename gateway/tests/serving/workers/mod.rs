//! What holds however many workers serve, and what a worker that is held up may not do to the others.

mod attacks;
mod balance;
mod drain;
mod fairness;
mod limits;
mod reload;
mod stall;

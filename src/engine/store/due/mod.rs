//! What waits for its time in feeds, and whose turn it is.

mod aside;
mod claim;
pub mod index;
pub mod queue;
mod rewind;
mod run;
mod scheduled;
mod show;
pub(crate) mod turns;

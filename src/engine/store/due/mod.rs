//! What waits for its time: which feeds have something due (`index`), and each feed's queue (`queue`).

pub mod index;
mod methods;
pub mod queue;
pub(crate) mod turns;

//! Fan-out: each change of a feed is encoded once per node and reaches every watcher in order.
//!
//! A watched feed (`feeds`) has a replica task that follows the store and writes a [`board`]: the
//! list and a ring of the last frames. A watcher is a cursor into that ring ([`session`]), so a slow
//! one costs no more memory than a fast one. A [`worker`] per thread wakes that thread's watchers.
//! Nothing here knows sockets.

pub mod batch;
pub mod board;
pub mod bounds;
mod feeds;
pub mod frame;
mod local;
pub mod moment;
mod presence;
mod replica;
pub mod session;
pub mod wake;
mod watching;
mod wheel;
pub mod worker;

pub use board::Shown;
pub use feeds::{Judge, Lease, Live, Watched};
pub use frame::KEEPALIVE_MS;

//! Watching: live sockets and event streams, from the handshake to the last byte.
//!
//! A request comes in at `endpoints`, is agreed on in `handshake`, and becomes a [`connection`], whose
//! transport (`protocol` or `sse`) spells what `live` owes it. [`sockets`] serves connections that left the
//! HTTP server; `body` those that it must keep.

mod body;
pub mod command;
pub mod connection;
mod deflate;
mod encoding;
mod endpoints;
mod handshake;
pub mod incoming;
mod messages;
pub mod outgoing;
mod protocol;
pub mod sockets;
mod sse;
pub mod tally;
mod watcher;
mod worker;

pub use endpoints::configure;
#[cfg(test)]
pub(in crate::http) use watcher::Watcher;
pub(in crate::http) use watcher::short_mark;
pub use worker::{WatcherThreads, start_watcher_threads};

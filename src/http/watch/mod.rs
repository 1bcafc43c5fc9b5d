//! Watching: live sockets and event streams, from the handshake to the last byte.
//!
//! A WebSocket is received and agreed on by a thread of [`sockets`] (`reception`), which then serves it; what the
//! HTTP server must serve (event streams, and connections that asked for something else before) comes in at
//! `endpoints` and goes out as a `body`. Either way `handshake` agrees on it, a `newcomer` gets its place and becomes a
//! [`connection`], whose transport (`protocol` or `sse`) spells what `live` owes it.

mod body;
pub mod command;
pub mod connection;
mod deflate;
mod encoding;
pub(super) mod endpoints;
pub(super) mod handshake;
pub mod incoming;
mod messages;
mod newcomer;
pub mod outgoing;
mod pass;
mod protocol;
mod reception;
pub mod sockets;
mod sse;
pub mod tally;
mod watcher;
mod worker;

#[cfg(test)]
pub(in crate::http) use watcher::Watcher;
pub(in crate::http) use watcher::short_mark;
pub use worker::{Reception, WatcherThreads, start_watcher_threads};

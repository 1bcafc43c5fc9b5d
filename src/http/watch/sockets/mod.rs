//! Sockets taken over from the HTTP server after their handshake: a few threads serve them all, each
//! with one poll, one read buffer and one timing wheel. A connection has no task, no timer, no queue
//! and no buffer of its own: what it costs is its state and, at times, the rest of one shared frame.

mod event_loop;
mod handler;
mod handover;
mod pace;
mod socket;
pub mod take_over;
mod threads;

pub use handler::{Output, SocketHandler, SocketWorker};
pub use threads::SocketThreads;

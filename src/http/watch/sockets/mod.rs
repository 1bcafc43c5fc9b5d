//! From accept to close on one thread. A few threads accept connections, read their heads, and keep those that
//! turn out to be watchers of ours; everything else goes, with the bytes that were read, to the HTTP server.
//! Each has one poll, one read buffer and one timing wheel. A watcher has no task, no timer, no queue and no
//! buffer of its own: what it costs is its state and, at times, the rest of one shared frame.

mod arriving;
mod event_loop;
mod handler;
mod handover;
mod line;
mod listening;
mod pace;
mod seat;
mod socket;
mod threads;

pub use handler::{Carried, Entrance, Judgement, Output, SocketHandler, SocketWorker, Visitor};
pub use handover::{HandoverCount, PassedOn, Queues};
pub use threads::SocketThreads;

//! Connections from clients: how many, how many from one address, and how long each may take for what.
//!
//! The HTTP server has timers for a connection's first request only. Here every open connection is
//! registered ([`Inbound::accept`]) with what it is about and since when: the bytes that pass show when a
//! head begins and ends ([`stream`]), the middleware says when a request was answered ([`attend`]), and a
//! sweep cuts what takes too long ([`Inbound::keep_sweeping`]).
//!
//! Descriptors are bounded, so connections are. When as many are open as may be, the ones that wait for
//! nothing but their client make room, the oldest first: a producer or a health check always gets in, however
//! many watchers, idlers and slow clients there are. Watchers never have all of them: their places are fewer.

pub mod attend;
mod counts;
pub(super) mod framing;
mod phase;
mod register;
pub mod stream;

pub use counts::{Counts, counted};
pub use phase::Times;
pub use register::{
    Bounds, Inbound, InboundSettings, Peer, RefusalPermit, UnderWay, UnsentPermit, WatcherSeat, refusal,
};

//! Feeds in Redis, shared by any number of nodes: one server, one with sentinels, or a cluster.
//!
//! Every change of a feed is one run of one script (`lua/`, `scripts`) on keys of one slot (`keys`);
//! gifts that arrive together go together (`batcher`). `net` is the way to the servers: who has which slot, shared
//! connections for commands, one for subscriptions. A script is run by `runner`, or in `rounds` where something in
//! another slot has to be ready first. Redis can lose what it acknowledged (a failover, an eviction, FLUSHALL):
//! `known` is how that is found out, and a new epoch is how watchers are told.

mod batcher;
mod blocks;
mod counting;
mod damaged;
mod drops;
mod due;
mod engine;
mod feeds;
mod keys;
mod known;
mod moderation;
mod net;
mod operations;
mod options;
mod place;
mod presence;
mod rehoming;
mod reports;
mod requests;
mod reviews;
mod rounds;
mod runner;
pub mod scripts;
mod sources;
mod tags;
mod totals;
mod turns;
mod viewers;
mod walks;
mod wire;

pub use engine::RedisEngine;
pub use keys::{PARTS_MAX, owner as owner_of_key};
pub use options::RedisOptions;

//! The store: feeds as keys and scripts, wherever those are. `place` is the one file that knows whether that is Redis
//! (`engine::redis`) or this process ([`super::embedded`]).
//!
//! Every change of a feed is one run of one script (`lua/`, `scripts`) on keys of one slot (`keys`);
//! gifts that arrive together go together (`batcher`). A script is run by `runner`, or by `writer` where something in
//! another slot has to be prepared first. Redis can lose what it acknowledged (a failover, an eviction, FLUSHALL):
//! `known` is how that is found out, and a new epoch is how watchers are told.

mod batcher;
mod blocks;
mod damaged;
mod drops;
mod due;
mod feeds;
mod handle;
mod known_rankings;
mod methods;
mod moderation;
mod parts;
mod place;
mod presence;
mod rehoming;
mod relocation;
mod reports;
mod requests;
mod reviews;

mod runner;
mod sources;
mod totals;
mod turns;
mod viewers;
mod walks;
mod writer;

pub use crate::engine::protocol::keys::{PARTS_MAX, list_fits, owner as owner_of_key};
pub use crate::engine::protocol::options::StoreOptions;
pub use handle::Store;
#[cfg(any(test, feature = "faults"))]
pub use handle::test_store;
pub use relocation::{MoveProgress, Moved, move_folder};

//! The store: feeds as keys and scripts, wherever those are. `place` is the one file that knows whether that is Redis
//! (`engine::redis`) or this process ([`super::embedded`]).
//!
//! Every change of a feed is one run of one script (`lua/`, `scripts`) on keys of one slot (`keys`);
//! gifts that arrive together go together (`batcher`). A script is run by `runner`, or in `rounds` where something in
//! another slot has to be ready first. Redis can lose what it acknowledged (a failover, an eviction, FLUSHALL):
//! `known` is how that is found out, and a new epoch is how watchers are told.

mod batcher;
mod blocks;
mod damaged;
mod drops;
mod due;
pub(in crate::engine) mod faults;
mod feeds;
mod handle;
mod keys;
pub(in crate::engine) mod known;
mod known_rankings;
mod methods;
mod moderation;
pub(in crate::engine) mod options;
mod parts;
mod place;
mod presence;
mod rehoming;
mod relocation;
mod reports;
mod requests;
mod reviews;
mod rounds;
mod runner;
pub mod scripts;
pub(in crate::engine) mod slots;
mod sources;
pub(in crate::engine) mod tags;
pub(in crate::engine) mod topics;
mod totals;
mod turns;
mod viewers;
mod walks;
pub(in crate::engine) mod wire;

pub use handle::Store;
#[cfg(any(test, feature = "faults"))]
pub use handle::test_store;
pub use keys::{PARTS_MAX, list_fits, owner as owner_of_key};
pub use options::StoreOptions;
pub use relocation::{MoveProgress, Moved, move_folder};

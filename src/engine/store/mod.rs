//! The store: feeds as keys and scripts, wherever those are. `backend` is the one file that knows whether that is Redis
//! (`engine::redis`) or this process ([`super::embedded`]).
//!
//! Every change of a feed is one run of one script (`lua/`) on keys of one slot;
//! gifts that arrive together go together (`feed::batcher`). A script is run by `runner`, or by `writer` where something in
//! another slot has to be prepared first. Redis can lose what it acknowledged (a failover, an eviction, FLUSHALL):
//! `protocol::known` finds that out, and a new epoch announces it to watchers.

mod backend;
mod damaged;
mod drops;
mod due;
mod feed;
mod handle;
mod nodes;
mod parts;
mod rehoming;
mod relocation;
mod reports;
mod review;
mod runner;
mod sources;
mod totals;
mod viewers;
mod writer;

pub use crate::engine::protocol::keys::{PARTS_MAX, list_fits, owner as owner_of_key};
pub use crate::engine::protocol::options::StoreOptions;
pub use handle::Store;
#[cfg(any(test, feature = "faults"))]
pub use handle::test_store;
pub use relocation::{MoveProgress, Moved, move_folder};

//! What is done with a feed: gifts in, changes out, rows and gifts taken back. Rows whose time has passed are removed before
//! any operation looks at the list.

pub(crate) mod batcher;
mod changes;
mod control;
mod follow;
pub(crate) mod lists;
pub(crate) mod names;
mod policy;
mod publish;
mod retract;
pub(crate) mod retract_gift;
mod retract_user;
mod snapshot;
mod summaries;
mod walk_turn;

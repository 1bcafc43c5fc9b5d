//! Gifts that wait for a host's decision, and users whose gifts are not shown.
//!
//! [`Store::publish`](crate::engine::Store::publish) keeps a gift of a blocked user from being shown, and has one wait that must be
//! reviewed (`lua/feed/screening.lua`). What waits is in the feed's due queue: when its time has
//! come, [`Store::run_due`](crate::engine::Store::run_due) does what the policy's default says. Nothing of it is in lists, changes or
//! snapshots before it is decided.

mod block_change;
pub(crate) mod blocks;
mod decide;
pub(crate) mod reviews;

//! Every case of the [`tipcast::engine::Store`] contract, run on every engine: each case is written
//! once, against a fresh feed and a virtual clock, and [`crate::support::case::Case`] compares
//! subscription, history, list and heads after every call of every case.

mod capacity;
mod combos;
mod concurrency;
mod dedup;
mod drops;
mod empty_feeds;
mod expiry;
mod history;
mod idempotency;
mod long_keys;
mod moderation;
mod money;
mod presence;
mod recorded;
mod reports;
mod requests;
mod review;
mod review_clock;
mod scheduled;
mod sources;
mod subscriptions;
mod viewers;

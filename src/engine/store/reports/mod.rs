//! Reports: ledgers of feeds and their readers, in Redis (`lua/ledger/stored.lua` says how they are stored).

pub mod attach;
pub mod groups;
pub mod hooks;
pub mod index;
pub mod jobs;
mod methods;
pub mod signing;
mod stored;

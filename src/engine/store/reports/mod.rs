//! Ledgers of feeds, those who read them, and webhooks.
//!
//! - Every gift that is accepted, merged or suppressed and no test, and every sale of a drop, is an entry of
//!   its feed's ledger, once, in the very step in which that happens. Entries are numbered without holes.
//! - A ledger keeps its newest `ledger_max` entries, and everything that any reader has not acknowledged, up to
//!   the bounds of [`ReportLimits`](crate::engine::ReportLimits). It does not expire with an idle feed.
//! - A reader's dead letters and what is sent again are kept beside the ledger: trimming does not touch them.

pub mod attach;
mod attempts;
mod entry;
mod gift;
pub mod groups;
pub mod hooks;
pub mod index;
mod job;
mod read;
mod readers;
mod replay;
mod seek;
mod settle;
pub mod signing;
mod signing_key;
mod stored;
mod take;
mod view;
mod webhook;

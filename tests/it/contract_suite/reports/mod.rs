//! Reports: what enters a feed's ledger, and who reads it, how far and how often.

pub mod deltas;
mod failing;
pub mod groups;
pub mod hooks;
pub mod jobs;
mod keeping;
pub mod leases;
pub mod ledger;
pub mod letters;
mod random;
mod sums;

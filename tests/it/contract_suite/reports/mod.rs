//! Reports: what enters a feed's ledger, and who reads it, how far and how often.

mod deltas;
mod failing;
pub mod groups;
pub mod hooks;
pub mod jobs;
mod keeping;
pub mod leases;
mod ledger;
pub mod letters;
mod random;
mod sums;

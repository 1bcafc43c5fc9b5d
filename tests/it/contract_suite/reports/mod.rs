//! Reports: what enters a feed's ledger, and who reads it, how far and how often.

mod failing;
mod groups;
mod hooks;
mod jobs;
mod keeping;
mod leases;
mod ledger;
mod letters;
mod random;

//! The producer API over real HTTP (contract section 1).

mod answers;
mod batches;
mod fields;
mod policies;
mod reading;
mod refusals;
mod routes;
mod texts;

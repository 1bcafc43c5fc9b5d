//! Drops, claims and holds (contract section 5), beyond the cases of the contract suite.

mod against_the_model;
mod api;
mod buyers;
mod survival;

//! Drops, claims and holds.

mod methods;
pub(crate) mod stock;

//! Gifts that wait for a host, and blocks.

pub(crate) mod blocks;
mod methods;
pub(crate) mod reviews;

//! What a store and its scripts have agreed on.

pub mod records;

//! Viewers: whose tokens are revoked, how many watch, and which signed requests came.

pub(crate) mod presence;
mod requests;
mod revocations;

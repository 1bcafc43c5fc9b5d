//! What a store remembers of viewers: whose tokens were revoked.
//!
//! Revoked viewers, of all feeds together. Each is remembered until no token that it concerns lives.

use crate::domain::Millis;

/// Viewers that may be revoked at a time; one more is [`super::StoreError::Overloaded`].
pub const REVOKED_MAX: u64 = 1_000_000;

/// A viewer whose tokens are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Who.
    pub sub: Box<str>,
    /// Tokens that were issued before this are refused.
    pub before: Millis,
    /// From then on no such token lives, and the store may forget it.
    pub until: Millis,
}

/// How far somebody has read the revocations of a store. The default is: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedAt {
    /// Another one when the store has lost what it knew.
    pub life: String,
    /// The number of the last one that was read.
    pub seq: u64,
}

/// Some revocations, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedPage {
    /// Those that follow; empty at the end.
    pub revoked: Vec<Revocation>,
    /// After them.
    pub at: RevokedAt,
}

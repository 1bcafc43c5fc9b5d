//! Which signed requests were accepted, so that a captured one is not accepted for something else.

/// How long a store remembers a signed request, in milliseconds. A captured request is good from five minutes before its
/// time to five minutes after it; the rest is for clocks of nodes that differ.
pub const REQUEST_KEPT_MS: u64 = 900_000;

/// What a store knew of a signed request when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestUse {
    /// Nothing: it is remembered from now on.
    First,
    /// It came for the same target before, this number of milliseconds ago.
    Again(u64),
    /// It came for another target before.
    Elsewhere,
}

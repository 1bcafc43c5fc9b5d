//! What somebody connects to servers for.

/// What somebody connects for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve feeds.
    Serve,
    /// To move feeds in, where nothing is yet; or to go on with that where it was interrupted.
    MoveIn {
        /// To go on.
        resumed: bool,
    },
}

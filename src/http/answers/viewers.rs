//! Answers about viewers.

use serde::Serialize;

/// From when on a viewer's tokens are refused.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RevokedViewer {
    /// Tokens with an `iat` before this are.
    #[cfg_attr(test, schema(format = DateTime))]
    pub before: String,
}

//! Answers about viewers.

use serde::Serialize;
use utoipa::ToSchema;

/// From when on a viewer's tokens are refused.
#[derive(Debug, Serialize, ToSchema)]
pub struct RevokedViewer {
    /// Tokens with an `iat` before this are.
    #[schema(format = DateTime)]
    pub before: String,
}

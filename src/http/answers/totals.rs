//! What is answered about sessions and goals.

use serde::Serialize;

use crate::domain::Millis;

/// A session that began.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SessionResult {
    #[cfg_attr(test, schema(min_length = 1, max_length = 64, example = "friday-7"))]
    pub id: String,
    /// When it began.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub since: Millis,
}

/// A goal that is gone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DeletedGoal {
    #[cfg_attr(test, schema(pattern = "^[A-Za-z0-9_.-]{1,64}$", example = "mic"))]
    pub goal: String,
    pub deleted: bool,
}

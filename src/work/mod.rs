//! What the gateway does without being asked: loops around a step that a test can call by itself.

mod backoff;
pub mod due;
pub mod reports;
pub mod walks;

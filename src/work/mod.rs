//! What the gateway does without being asked: loops around a step that a test can call by itself.

pub mod due;
pub mod reports;
mod trouble;
pub mod walks;

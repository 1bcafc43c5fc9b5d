//! What strangers send, and the parsers that read it.

pub mod nasty;
pub mod targets;

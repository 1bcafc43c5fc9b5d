//! Feeds: publishing, reading, comparing, listening, taking back.

pub(crate) mod batcher;
pub(crate) mod lists;
mod methods;
pub(crate) mod moderation;
pub(crate) mod walks;

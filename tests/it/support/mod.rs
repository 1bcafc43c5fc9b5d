//! What the tests are written with.

pub mod redis_server;

//! What the tests are written with.

#[macro_use]
pub mod case;
pub mod gifts;
pub mod model;
pub mod replica;
pub mod stores;

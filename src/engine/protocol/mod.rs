//! What a store and its scripts have agreed on: how calls are made, how keys are spelled, what replies and records mean, and what
//! can go wrong. It is below everything that runs scripts, and below everything that has them run.

pub(crate) mod address;
pub(crate) mod faults;
pub(crate) mod keys;
pub(crate) mod known;
pub(crate) mod options;
pub mod owner;
pub mod records;
pub mod scripts;
pub(crate) mod slots;
pub(crate) mod tags;
pub(crate) mod topics;
pub(crate) mod wire;
pub mod words;

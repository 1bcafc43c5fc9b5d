//! Tipcast: a live gift feed gateway.
//!
//! Backends POST gifts; every watcher of the feed has the latest rows and each change, in order,
//! exactly once. Reading order: [`domain`] (the words), [`engine`] (where feeds live), [`live`]
//! (fan-out to watchers), [`work`] (what happens without being asked), [`auth`] (who may), [`http`] (the API), [`app`] (how it is put together). A test keeps the
//! imports between these layers to the table in docs/ARCHITECTURE.md.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod app;
pub mod auth;
pub mod config;
pub mod console;
pub mod domain;
pub mod engine;
pub mod http;
pub mod live;
pub mod metrics;
pub mod outbound;
pub(crate) mod random;
pub mod sources;
pub mod spelling;
pub mod supervise;
pub mod tools;
pub mod traces;
pub mod work;

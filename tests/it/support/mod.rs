//! What the tests are written with.

#[macro_use]
pub mod app;
#[macro_use]
pub mod case;
pub mod api;
pub mod claims;
pub mod cluster;
pub mod collector;
pub mod damage;
pub mod dice;
pub mod fold;
pub mod gifts;
pub mod many;
pub mod model;
pub mod nginx;
pub mod process;
pub mod proxy;
pub mod readers;
pub mod receiver;
pub mod redis_server;
pub mod replica;
pub mod schema;
pub mod severed;
pub mod sse;
pub mod stores;
pub mod subject;
pub mod tls;
pub mod valkey;
pub mod watcher;

pub use app::TestApp;

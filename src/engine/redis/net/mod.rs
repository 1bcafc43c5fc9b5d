//! The way to Redis: addresses, connections, who has which slot, subscriptions. What is sent over it is for others.

pub mod address;
pub mod backoff;
pub mod connection;
pub mod dial;
pub mod discovery;
pub mod eviction;
pub mod faults;
pub mod fence;
pub mod layout;
pub mod shard;
pub mod slots;
pub mod store;
pub mod subscriber;
pub mod tls;
pub mod topics;
pub mod topology;
pub mod witness;

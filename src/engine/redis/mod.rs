//! The way to Redis, one server or many: addresses, connections, who has which slot, subscriptions. What is sent over it is the
//! store's.

pub mod connection;
pub mod dial;
pub mod discovery;
pub mod eviction;
pub mod fence;
pub mod form;
pub mod layout;
pub mod purpose;
pub mod scan;
pub mod shard;
pub mod shards;
pub mod subscriber;
pub mod tls;
pub mod topology;
pub mod witness;

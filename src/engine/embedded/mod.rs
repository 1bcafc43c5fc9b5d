//! The data of a store inside this process: what the commands of the scripts in `lua/` do, as Redis does them.
//!
//! All data is in memory. A command answers as Redis would, and says beside that what it changed, twice: as **effects**, which say
//! what a key or an element is afterwards and may be applied more than once, for the log; and as an **undo list**, which
//! takes everything back from the end, for a script that failed and for a commit that did. Nothing here reads a clock,
//! waits, or knows what a feed is.

pub mod changes;
pub mod command;
pub mod content;
mod disk;
pub mod effect;
mod element;
mod events;
pub mod fields;
mod file;
pub mod files;
mod frame;
mod group;
pub mod hashes;
pub mod host;
mod json;
pub mod keyspace;
pub mod lists;
mod moving;
pub mod numbers;
mod packing;
pub mod ranked;
mod reading;
pub mod recover;
pub mod replay;
pub mod reply;
mod salvage;
mod steady;
mod store;
pub mod stored;
pub mod strings;
mod tables;
mod wal;
mod weight;
mod worker;
pub mod zsets;

pub use crate::engine::protocol::owner::{Owner, Owners};
pub use crate::engine::protocol::scripts::Room;
pub use crate::engine::protocol::words::Words;
pub use changes::Changes;
pub use content::FolderContent;
pub use effect::Effect;
pub use events::PublishHook;
pub use group::{Answer, CallRefusal};
pub use host::{ScriptError, ScriptHost, ScriptRun, ScriptText};
pub use keyspace::Keyspace;
pub use replay::Replay;
pub use reply::Reply;
pub use store::{EmbeddedOptions, EmbeddedStore};

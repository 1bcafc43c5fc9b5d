//! The data of a store inside this process: what the commands of the scripts in `lua/` do, as Redis does them.
//!
//! All data is in memory. A command answers as Redis would, and says beside that what it changed, twice: as **effects**, which say
//! what a key or an element is afterwards and may be applied more than once, for the log; and as an **undo list**, which
//! takes everything back from the end, for a script that failed and for a commit that did. Nothing here reads a clock,
//! waits, or knows what a feed is.

pub mod changes;
pub mod command;
pub mod effect;
pub mod fields;
pub mod hashes;
pub mod host;
pub mod keyspace;
pub mod lists;
pub mod numbers;
mod packing;
pub mod ranked;
pub mod reply;
pub mod stored;
pub mod strings;
pub mod zsets;

pub use changes::Changes;
pub use effect::Effect;
pub use host::{ScriptError, ScriptHost, ScriptRun};
pub use keyspace::Keyspace;
pub use reply::Reply;

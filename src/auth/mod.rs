//! Who may do what: rights, keys, signed requests, viewer tokens, revocations, and the audit log.
//!
//! Everything here is judged without I/O and with `now` as an argument. What must be fetched or followed
//! (key sets, revocations) is fetched by loops of its own (`keyset`), beside the path of requests.

pub mod audit;
mod crypto;
pub mod hash;
pub mod keys;
pub mod keyset;
pub mod revoked;
pub mod rights;
pub mod signed;
pub mod token;

pub use hash::{KeyHash, fresh as fresh_key};
pub use keys::{Key, Keys};
pub use revoked::Revoked;
pub use rights::{Right, Rights, Scope};
pub use token::{BadToken, TokenRules, Verifier, Viewer};

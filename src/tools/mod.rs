//! Clients of a running gateway that ship with it. They see of Tipcast what any producer sees:
//! its HTTP API, and the words of [`crate::domain`]. [`rehearse`] is the other way round: a gateway for clients to try.

use std::fmt::Display;

pub mod bench;
pub mod demo;
mod dice;
mod gateway;
pub mod healthcheck;
pub mod listen;
pub mod rehearse;
pub mod source;
pub mod trigger;

/// The message for a gateway that cannot be reached: which address, why, and what to do.
fn unreachable_gateway(address: &impl Display, why: &impl Display) -> String {
    format!(
        "{address} does not answer ({why}). Start a gateway with `tipcast` (in its sources: `cargo run --release`), or \
         name one that runs with --url"
    )
}

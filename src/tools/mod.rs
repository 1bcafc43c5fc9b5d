//! Clients of a running gateway that ship with it. They see of Tipcast what any producer sees:
//! its HTTP API, and the words of [`crate::domain`].

use std::fmt::Display;
use std::io;

pub mod demo;
mod dice;
mod gateway;
pub mod healthcheck;
pub mod listen;
pub mod source;
pub mod trigger;

/// Waits for SIGINT or SIGTERM. A command that sets something up in a feed removes it after either of them.
async fn stop_signal() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// The message for a gateway that cannot be reached: which address, why, and what to do.
fn unreachable_gateway(address: &impl Display, why: &impl Display) -> String {
    format!(
        "{address} does not answer ({why}). Start a gateway with `tipcast` (in its sources: `cargo run --release`), or \
         name one that runs with --url"
    )
}

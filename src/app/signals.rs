//! Being asked to stop by the operating system.

use std::io;

/// Done when the process gets SIGTERM or SIGINT. A second SIGINT or SIGTERM ends the process at once.
#[cfg(unix)]
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            tracing::warn!("asked twice: leaving at once");
            std::process::exit(1);
        });
    })
}

/// Done when the process gets Ctrl-C.
#[cfg(not(unix))]
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

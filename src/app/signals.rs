//! Being asked to stop by the operating system.

use std::io;

use tokio::sync::mpsc;

use crate::config::{Config, ConfigError};

/// Signals this close together are one asking: who stops a process and its group, as `timeout` and shells
/// do, sends two.
#[cfg(unix)]
const ONE_ASKING: std::time::Duration = std::time::Duration::from_millis(200);

/// Done when the process gets SIGTERM or SIGINT. Being asked again later ends the process at once.
#[cfg(unix)]
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        let first = std::time::Instant::now();
        tokio::spawn(async move {
            loop {
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
                if first.elapsed() >= ONE_ASKING {
                    break;
                }
            }
            tracing::warn!("asked twice: leaving at once");
            super::logs::flush();
            std::process::exit(1);
        });
    })
}

/// Brings what `read` gives each time the process gets SIGHUP; a configuration that cannot be read is
/// logged and has no effect.
#[cfg(unix)]
pub fn asked_to_reload(
    read: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) -> io::Result<mpsc::Receiver<Config>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())?;
    let (bring, brought) = mpsc::channel(1);
    let read = std::sync::Arc::new(read);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let read = read.clone();
            // Files and host names are looked up.
            let config = tokio::task::spawn_blocking(move || read()).await;
            match config {
                Ok(Ok(config)) => {
                    if bring.send(config).await.is_err() {
                        return;
                    }
                }
                Ok(Err(why)) => tracing::error!(
                    "the configuration was read again and not taken; what was stays in force: {why}"
                ),
                Err(error) => tracing::error!(
                    %error,
                    "reading the configuration again panicked; what was stays in force. Please report it"
                ),
            }
        }
    });
    Ok(brought)
}

/// There is no SIGHUP here.
#[cfg(not(unix))]
pub fn asked_to_reload(
    _: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) -> io::Result<mpsc::Receiver<Config>> {
    Ok(mpsc::channel(1).1)
}

/// Done when the process gets Ctrl-C.
#[cfg(not(unix))]
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

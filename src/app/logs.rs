//! Where log lines go: stderr, for people or for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, Log, LogFormat};

/// Starts logging as `log` says, panics included. For the whole process, once.
pub fn start(log: &Log) -> Result<(), ConfigError> {
    let filter = filter(log)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, "a defect: {said}");
    }));
    Ok(())
}

/// `[log] level` as a filter. Its mistakes are the configuration's, so `check-config` looks here too.
pub fn filter(log: &Log) -> Result<EnvFilter, ConfigError> {
    let quiet = format!("{},actix_server=warn", log.level);
    EnvFilter::try_new(quiet).map_err(|e| ConfigError(format!("[log] level: {e}")))
}

//! Where log lines go: stderr, for people or for machines.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{ConfigError, Log, LogFormat};

/// Starts logging as `log` says, panics included. For the whole process, once.
pub fn start(log: &Log) -> Result<(), ConfigError> {
    let (filter, handle) = reload::Layer::new(filter(log)?);
    let _ = LEVEL.set(handle);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let filtered = tracing_subscriber::registry().with(filter);
    match log.format {
        LogFormat::Text => filtered.with(lines.with_ansi(std::io::stderr().is_terminal())).init(),
        LogFormat::Json => filtered.with(lines.json().flatten_event(true)).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload();
        let said = said.downcast_ref::<&str>().copied().or(said.downcast_ref::<String>().map(String::as_str));
        let said = said.unwrap_or("no message");
        tracing::error!(place, "a defect: {said}");
    }));
    Ok(())
}

/// The filter in force, when logging was started here.
static LEVEL: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// Lets `[log] level` be another from here on. Nothing happens where logging was not started.
pub fn set_level(log: &Log) -> Result<(), ConfigError> {
    let filter = filter(log)?;
    let Some(handle) = LEVEL.get() else { return Ok(()) };
    handle.reload(filter).map_err(|e| ConfigError(format!("[log] level: {e}")))
}

/// `[log] level` as a filter. Its mistakes are the configuration's, so `check-config` looks here too.
///
/// Unless asked for, actix is quiet: it calls a stranger's garbage an error of ours.
pub fn filter(log: &Log) -> Result<EnvFilter, ConfigError> {
    EnvFilter::try_new(format!("actix_http=off,{}", log.level))
        .map_err(|e| ConfigError(format!("[log] level: {e}")))
}

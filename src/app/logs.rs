//! Where log lines go: stderr, for people or for machines. They are written by a thread of their own ([`LineWriter`]),
//! so that no thread waits for their reader.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{ConfigError, Log, LogFormat};
use crate::console;
use crate::metrics::LOG_DROPPED;
use crate::supervise::lines::LineWriter;

/// How long the end of the process waits for the last lines.
const FLUSH_TIME: Duration = Duration::from_millis(500);

static WRITER: OnceLock<LineWriter> = OnceLock::new();

/// Starts logging as `log` says, panics included. For the whole process, once.
pub fn start(log: &Log) -> Result<(), ConfigError> {
    let (filter, handle) = reload::Layer::new(filter(log)?);
    let _ = LEVEL.set(handle);
    let writer = open_writer().map_err(|e| ConfigError(format!("the log cannot be written: {e}")))?;
    let writer = WRITER.get_or_init(|| writer);
    // By default the layer prints its own errors with `eprintln!`, which panics if stderr cannot be written.
    let lines = tracing_subscriber::fmt::layer().with_writer(move || writer).log_internal_errors(false);
    let filtered = tracing_subscriber::registry().with(filter);
    match log.format {
        LogFormat::Text => filtered.with(lines.with_ansi(io::stderr().is_terminal())).init(),
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

fn open_writer() -> io::Result<LineWriter> {
    let report = |lost, error: Option<&io::Error>| {
        let error = error.map(tracing::field::display);
        tracing::warn!(
            lost,
            error,
            "log lines were lost: standard error was not read in time, or refused them"
        );
    };
    let writer = LineWriter::start("log", LOG_DROPPED.clone(), Box::new(report), || ())?;
    writer.set_target(Some(console::stderr()))?;
    Ok(writer)
}

/// Waits until what was logged is written, for a moment only: nobody may be reading it. To be called before the
/// process ends.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(FLUSH_TIME);
    }
}

/// The filter in force, when logging was started here.
static LEVEL: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Lets `[log] level` be another from here on. Nothing happens where logging was not started.
pub fn set_level(log: &Log) -> Result<(), ConfigError> {
    let filter = filter(log)?;
    let Some(handle) = LEVEL.get() else { return Ok(()) };
    handle.reload(filter).map_err(|e| ConfigError(format!("[log] level: {e}")))
}

/// `[log] level` as a filter. Its mistakes are the configuration's, so `check-config` looks here too.
///
/// Unless asked for, actix is quiet: it calls a stranger's garbage an error of ours.
pub fn filter(log: &Log) -> Result<Targets, ConfigError> {
    let wrong = |why: &dyn Display| ConfigError(format!("[log] level: {why}"));
    // Read by the filter as a module without a name, and as one of that name.
    if log.level.split(',').any(|part| part.trim_start().starts_with('=') || part.contains('[')) {
        return Err(wrong(&"a part is neither a level nor module=level, as in info,tipcast::live=debug"));
    }
    format!("actix_http=off,{}", log.level).parse().map_err(|e: ParseError| wrong(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(level: &str) -> Log {
        let (format, audit, otlp_url) = (LogFormat::Text, String::new(), String::new());
        Log { format, level: level.to_owned(), audit, otlp_url, otlp_sample_percent: 100 }
    }

    fn enabled(level: &str, module: &str, at: tracing::Level) -> bool {
        filter(&of(level)).unwrap().would_enable(module, &at)
    }

    #[test]
    fn a_level_holds_for_all_modules_but_those_that_have_their_own_and_actix_is_quiet() {
        use tracing::Level;
        let level = "info,tipcast::live=debug,hyper=off";
        for (module, at, shown) in [
            ("tipcast", Level::INFO, true),
            ("tipcast", Level::DEBUG, false),
            ("tipcast::live::ring", Level::DEBUG, true),
            ("hyper::client", Level::ERROR, false),
            ("actix_http::h1", Level::ERROR, false),
        ] {
            assert_eq!(enabled(level, module, at), shown, "{module} {at}");
        }
        assert!(enabled("WARN,actix_http=error", "actix_http", Level::ERROR));
        for wrong in ["info,,=", "=debug", "info,tipcast=loud", "a=b=c", "[span]=debug", "tipcast[x]=info"] {
            assert!(filter(&of(wrong)).is_err(), "{wrong}");
        }
    }
}

//! `tipcast-bench`: loads a running gateway and counts what arrives.
//!
//! One thread and one epoll for all watchers and producers, since it shares the machine with what it
//! measures. Frames are not parsed: their start says which ops they hold, and every gift carries a mark
//! that is counted ([`Dialect`]). One watcher of each of the first feeds is read in full and folded, and
//! compared with the server's list in the end. The same core measures other servers, through dialects
//! of their own (`benches/peers`).

mod control;
mod crowd;
mod dialect;
mod gateway;
mod histogram;
mod ledger;
mod measure;
mod options;
mod process;
mod producers;
mod progress;
mod report;
mod run;
mod storm;
mod watcher;
mod wire;

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use clap::Parser;

pub use dialect::{Answer, Dialect, Greeting, MARK, MARK_DIGITS, Meaning, START, Sample, http_answer, mark};
pub use gateway::Tipcast;
pub use measure::{KeptOpen, measure};
pub use options::{LoadOptions, Target, TargetOptions, Until};
pub use report::Report;
pub use wire::Encryption;

/// Load a running gateway on this machine, and count what its watchers get.
#[derive(Clone, Debug, Parser)]
#[command(name = "tipcast-bench", version)]
pub struct BenchOptions {
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    load: LoadOptions,
    /// What the feeds' names begin with; their policies are replaced.
    #[arg(long, value_name = "NAME", default_value = "bench", value_parser = name)]
    feed: String,
    /// The feeds' flush_ms; the server's own when not said.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=1_000))]
    flush_ms: Option<u64>,
    /// A producer key, where the gateway asks for one. Also taken from the variable TIPCAST_KEY, which
    /// other users of this machine cannot see.
    #[arg(long)]
    key: Option<String>,
    /// A viewer's token that watchers show; the feeds are made private then.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

/// Why a run ended without a report.
#[derive(Debug)]
pub enum BenchError {
    /// An option that cannot be.
    Usage(String),
    /// A socket, or a file for the report.
    Io(io::Error),
    /// The server does not do what it should.
    Server(String),
    /// The run ended, and something was lost, repeated, out of order, refused or closed.
    Unclean,
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Usage(why) | BenchError::Server(why) => f.write_str(why),
            BenchError::Io(error) => write!(f, "the load cannot go on: {error}"),
            BenchError::Unclean => f.write_str("something was lost, repeated, refused or closed: see above"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<io::Error> for BenchError {
    fn from(error: io::Error) -> Self {
        BenchError::Io(error)
    }
}

/// How long a gateway may take to accept the first connection.
const REACHED_WITHIN: Duration = Duration::from_secs(3);

/// Loads a gateway as the options say, and prints what was found.
pub fn run(options: BenchOptions) -> Result<(), BenchError> {
    let target = options.target.resolve()?;
    let key = options.key.clone().or_else(|| std::env::var("TIPCAST_KEY").ok());
    let below = options.target.url.path();
    if let Err(why) = TcpStream::connect_timeout(&target.address, REACHED_WITHIN) {
        return Err(BenchError::Server(format!(
            "{} does not answer ({why}). Start a gateway with `tipcast` (in its sources: `cargo run --release`), or name one that \
             runs with --url",
            options.target.url
        )));
    }
    let gateway = Tipcast::new(&target, below, &options.feed, key.as_deref())
        .flushing(options.flush_ms)
        .private(options.token.as_deref());
    run_against(&options.load, &target, &gateway)
}

/// The same, against any server.
pub fn run_against(options: &LoadOptions, target: &Target, dialect: &dyn Dialect) -> Result<(), BenchError> {
    let (report, kept) = measure(options, target, dialect)?;
    write_report(&report, options.json.as_deref())?;
    if options.keep_open {
        eprintln!("the watchers stay until this is stopped");
        return kept.wait();
    }
    if report.is_clean() { Ok(()) } else { Err(BenchError::Unclean) }
}

fn write_report(report: &Report, json: Option<&Path>) -> Result<(), BenchError> {
    use io::Write;
    let text = format!("{:#}\n", report.to_json());
    let mut out = io::stdout();
    match json {
        Some(path) if path == Path::new("-") => out.write_all(text.as_bytes())?,
        Some(path) => {
            std::fs::write(path, text)
                .map_err(|e| BenchError::Usage(format!("cannot write {}: {e}", path.display())))?;
            out.write_all(report.to_table().as_bytes())?;
        }
        None => out.write_all(report.to_table().as_bytes())?,
    }
    Ok(())
}

/// Room for a number after it in a feed's 64 characters.
fn name(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match (1..=50).contains(&text.len()) && text.chars().all(legal) {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 50 of A-Z a-z 0-9 _ - .".into()),
    }
}

//! `tipcast-rehearse`: plays a gateway that has bad days, and says what a client did wrong.
//!
//! A scenario is a list of acts (`scenarios.rs`): what the gateway does, and what the client must have done then. The
//! client is a program that is started once for each scenario. It finds the gateway in the variable `TIPCAST_URL`
//! and its feed in `TIPCAST_FEED`, leaves totals out where `TIPCAST_WITHOUT` is `totals`, and prints a line of JSON each time its list has changed:
//! `{"position":"e1:3","rows":["e1-3","e1-2"]}`, the rows newest first, with `@rev` where a row's `rev` is not 1, as
//! in docs/protocol/vectors.

mod client;
mod line;
mod play;
mod scenarios;

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use client::Client;
use play::Play;
use scenarios::{Needs, Scenario};

/// Play a gateway that has bad days, and say what a client did wrong; exit code 0 if nothing.
#[derive(Debug, Parser)]
#[command(name = "tipcast-rehearse", version)]
struct RehearseOptions {
    /// Play only these scenarios, with commas between.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Say which scenarios there are, and play none.
    #[arg(long)]
    list: bool,
    /// The client does not learn how a handshake was answered, as in a browser: it may ask again where another
    /// would stop, and need not know of Retry-After.
    #[arg(long)]
    browser: bool,
    /// The client knows no tokens.
    #[arg(long)]
    no_tokens: bool,
    /// The client cannot leave totals out.
    #[arg(long)]
    no_without: bool,
    /// How late the client may be, in milliseconds: more on a machine that is busy.
    #[arg(long, value_name = "MS", default_value_t = 2_500)]
    slack_ms: u64,
    /// The client's program and its arguments.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Why a rehearsal ended without applause.
#[derive(Debug)]
enum RehearseError {
    /// The command line makes no sense.
    Usage(String),
    /// The client did so much wrong.
    Failed(usize),
    /// It could not be played.
    Stage(io::Error),
}

impl std::fmt::Display for RehearseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RehearseError::Usage(why) => f.write_str(why),
            RehearseError::Failed(1) => f.write_str("the client failed in one scenario"),
            RehearseError::Failed(count) => write!(f, "the client failed in {count} scenarios"),
            RehearseError::Stage(error) => write!(f, "the rehearsal could not be played: {error}"),
        }
    }
}

impl From<io::Error> for RehearseError {
    fn from(error: io::Error) -> Self {
        RehearseError::Stage(error)
    }
}

fn main() -> ExitCode {
    match run(&RehearseOptions::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tipcast-rehearse: {error}");
            ExitCode::from(if matches!(error, RehearseError::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// Plays, and prints a line for each scenario: `ok`, or `FAILED` with the act and what the client did instead.
///
/// Takes a minute or two: some acts are about silence and back-off.
fn run(options: &RehearseOptions) -> Result<(), RehearseError> {
    let all = scenarios::all();
    if let Some(unknown) = options.only.iter().find(|name| all.iter().all(|it| it.name != **name)) {
        let names: Vec<_> = all.iter().map(|it| it.name).collect();
        return Err(RehearseError::Usage(format!("there is no scenario {unknown}: {}", names.join(", "))));
    }
    let chosen = |it: &&Scenario| options.only.is_empty() || options.only.iter().any(|name| name == it.name);
    if options.list {
        all.iter().filter(chosen).for_each(|it| say(&format!("{:<18} {}", it.name, it.about)));
        return Ok(());
    }
    if options.command.is_empty() {
        let why = "which client? Give its command: tipcast-rehearse -- node client.mjs";
        return Err(RehearseError::Usage(why.into()));
    }
    let slack = Duration::from_millis(options.slack_ms);
    let (mut failed, mut played) = (0, 0);
    for scenario in all.iter().filter(chosen) {
        let left_out = match scenario.needs {
            Needs::Nothing => None,
            Needs::Answers => options.browser.then_some("a browser hides such answers from a client"),
            Needs::Tokens => options.no_tokens.then_some("the client knows no tokens"),
            Needs::Without => options.no_without.then_some("the client cannot leave totals out"),
        };
        if let Some(why) = left_out {
            say(&format!("skipped {:<18} {why}", scenario.name));
            continue;
        }
        played += 1;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("http://{}", listener.local_addr()?);
        let without = scenario.needs == Needs::Without;
        let client = Client::start(&options.command, &url, scenario.name, without)?;
        match Play::new(scenario.name, without, listener, client, slack)?.through(&scenario.acts) {
            Ok(()) => say(&format!("ok      {:<18} {}", scenario.name, scenario.about)),
            Err(fault) => {
                failed += 1;
                say(&format!("FAILED  {:<18} {}\n        {fault}", scenario.name, scenario.about));
            }
        }
    }
    say(&format!("{played} played, {failed} failed"));
    if failed == 0 { Ok(()) } else { Err(RehearseError::Failed(failed)) }
}

/// Prints a line. The exit code says the result too, so it goes on if nobody reads.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

//! `tipcast demo`: plays a realistic show against a running gateway until stopped.
//!
//! [`Show`] is what is sent, pure and by seed; end-to-end tests take it as their input.
//! [`run`] sends it.

mod cast;
mod send;
mod show;
mod stage;
mod words;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use reqwest::StatusCode;

use super::gateway::{Gateway, GatewayOptions};
use super::stop_signal;
use crate::domain::{FeedId, Millis};

use send::ShowSender;
pub use show::Show;
use stage::Stage;

/// The options of `tipcast demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoOptions {
    /// The gateway to play against.
    #[command(flatten)]
    pub gateway: GatewayOptions,
    /// The feed to play into.
    #[arg(long, default_value = "demo")]
    pub feed: FeedId,
    /// Gifts per second, on average; bursts are faster.
    #[arg(long, value_name = "PER_SECOND", default_value = "5", value_parser = rate)]
    pub rate: f64,
    /// Which show: the same seed plays the same one.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Some viewers try things with their names and messages: markup, control characters, texts that run backwards.
    #[arg(long)]
    pub hostile: bool,
    /// You are the host: nothing of what waits is decided for you.
    #[arg(long)]
    pub host: bool,
    /// Send gifts and nothing else. Otherwise the feed's policy is changed, so that a session is counted, with leaders
    /// and a goal, and gifts with a message wait for a host; now and then a gift is refunded.
    #[arg(long, conflicts_with = "host")]
    pub gifts_only: bool,
}

/// Why a demo ended before it was stopped.
#[derive(Debug)]
pub enum DemoError {
    /// The HTTP client or the signal handler could not be set up, or nobody reads the output.
    Io(io::Error),
    /// Nothing answers at the address when the demo begins; says which, and what to do.
    Unreachable(String),
    /// The gateway refuses every gift for a reason that does not pass; holds its status and words.
    Refused(StatusCode, String),
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Io(error) => write!(f, "the demo cannot go on: {error}"),
            DemoError::Unreachable(why) => f.write_str(why),
            DemoError::Refused(status, words) => write!(f, "the gateway refuses the demo: {status} {words}"),
        }
    }
}

impl std::error::Error for DemoError {}

impl From<io::Error> for DemoError {
    fn from(error: io::Error) -> Self {
        DemoError::Io(error)
    }
}

/// Plays until SIGINT or SIGTERM, through restarts and refusals that pass. Only a gateway that does not answer at the very
/// beginning ends it: most likely none was started. Ids begin with the time of the
/// start, so that a second run of the same seed shows again instead of repeating known ids.
///
/// Boxed in this crate, so that the program that awaits it need not compile it.
pub fn run(options: DemoOptions) -> Pin<Box<dyn Future<Output = Result<(), DemoError>>>> {
    Box::pin(play(options))
}

async fn play(options: DemoOptions) -> Result<(), DemoError> {
    let name = format!("s{}-{:x}", options.seed, Millis::now().0);
    let gateway = Gateway::new(&options.gateway, &options.feed)?;
    gateway.reach().await.map_err(DemoError::Unreachable)?;
    let mut stage = Stage::new(&options, gateway.clone());
    let mut sender = ShowSender::new(gateway, io::stdout());
    sender.greet(&options)?;
    let played = tokio::select! {
        never = perform(&options, &name, &mut stage, &mut sender) => never,
        signal = stop_signal() => signal.map_err(DemoError::Io),
    };
    sender.sum_up()?;
    stage.strike().await;
    played
}

/// Ends only with an error.
async fn perform(
    options: &DemoOptions,
    name: &str,
    stage: &mut Stage,
    sender: &mut ShowSender<io::Stdout>,
) -> Result<(), DemoError> {
    let mut set = false;
    if !options.gifts_only {
        match stage.set(options, name).await {
            Ok(said) => {
                set = true;
                sender.have_refunds(&said)?;
            }
            // A key that may only send gifts plays those; what else is wrong, sending them says.
            Err((status, why)) => {
                sender.say(&format!("gifts only, the stage cannot be set: {status} {why}"))?
            }
        }
    }
    let decides = stage.reviews() && !options.host;
    let show = Show::named(options.seed, name, options.hostile);
    tokio::select! {
        never = sender.play(show, options.rate) => never,
        () = stage.attend(decides), if set => Ok(()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    if !(0.01..=10_000.0).contains(&rate) {
        return Err("must be 0.01 to 10000 gifts per second".into());
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::domain::{Gift, json};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoOptions,
    }

    #[test]
    fn every_gift_of_a_show_keeps_to_the_contract() {
        for seed in [0, 1, 2, 42, u64::MAX] {
            for gift in Show::new(seed).take(5_000) {
                let body = gift.to_string();
                assert!(body.len() <= 8 * 1024, "{body}");
                let raw = json::syntax(body.as_bytes()).unwrap();
                let parsed = Gift::parse(raw, None).unwrap_or_else(|e| panic!("{e:?}: {body}"));
                assert_eq!(parsed.id.as_str(), gift["id"].as_str().unwrap());
            }
        }
    }

    #[test]
    fn the_longest_ids_of_a_run_are_ids() {
        let name = format!("s{}-{:x}", u64::MAX, Millis::MAX.0);
        assert!(name.len() <= 40);
        let gift = Show::named(u64::MAX, &name, true).nth(1_000).unwrap();
        assert!(gift["id"].as_str().unwrap().len() <= 64);
    }

    #[test]
    fn options_have_their_defaults_and_wrong_ones_are_refused() {
        let demo = Line::try_parse_from(["demo"]).unwrap().demo;
        assert_eq!((demo.gateway.url.as_str(), demo.feed.as_str()), ("http://127.0.0.1:8080/", "demo"));
        assert_eq!((demo.rate, demo.seed), (5.0, 1));
        for bad in
            [["--url", "ftp://x"], ["--url", "x"], ["--feed", "a/b"], ["--rate", "0"], ["--rate", "NaN"]]
        {
            assert!(Line::try_parse_from(["demo"].iter().chain(&bad)).is_err(), "{bad:?}");
        }
    }
}

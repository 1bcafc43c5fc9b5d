//! The options of a run, and which of them cannot be.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use url::Url;

use crate::BenchError;
use crate::wire::Encryption;

/// How a full-speed run decides that there is room for another gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// A gift is in flight until its producer has the answer.
    Answered,
    /// A gift is in flight until every watcher that reads has it.
    Delivered,
}

/// The load.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// Feeds; watchers and gifts are spread evenly over them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub feeds: u32,
    /// Watchers.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub watchers: u32,
    /// Connections that gifts are sent on; as many as --in-flight needs, or 64, when not said.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub producers: Option<u32>,
    /// Gifts per second, all feeds together; 0 is as fast as --in-flight lets them.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 100.0, value_parser = rate)]
    pub rate: f64,
    /// At --rate 0: how many gifts may be in flight.
    #[arg(long, value_name = "GIFTS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub in_flight: u32,
    /// At --rate 0: until when a gift is in flight.
    #[arg(long, value_enum, default_value_t = Until::Answered)]
    pub until: Until,
    /// Gifts per request, through the batch endpoint when more than one.
    #[arg(long, value_name = "GIFTS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub batch: u32,
    /// How long gifts are sent.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// How long they are sent before anything is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub warm_up: f64,
    /// This part of the watchers stops reading while gifts are sent, reads again at the end, and must then
    /// come to the newest list.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub stall: f64,
    /// Only connect the watchers: connects/s, the server's CPU for each, its memory for each.
    #[arg(long)]
    pub idle: bool,
    /// Send gifts first, and then let all watchers come at once: how long until all are there, what their
    /// gifts' times are meanwhile, and how often the server read its store for them.
    #[arg(long, conflicts_with_all = ["idle", "stall"])]
    pub storm: bool,
    /// Handshakes under way at the same time.
    #[arg(long, value_name = "HANDSHAKES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connecting: u32,
    /// Let sockets fill for so long before looking again, in microseconds. On one machine the server pays
    /// for waking the load, as it would not pay for watchers elsewhere; times become coarser by as much.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub nap: u64,
    /// A process of the server (several times for several), to measure its CPU and memory; Linux only.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Connect from this many addresses, 127.0.0.2 and on: one address has 28 000 ports to connect from.
    #[arg(long, value_name = "ADDRESSES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=250))]
    pub source_addresses: u32,
    /// Leave the watchers connected at the end, until stopped.
    #[arg(long)]
    pub keep_open: bool,
    /// Write the report as JSON into this file; - is the output, in place of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The server to load.
#[derive(Args, Clone, Debug)]
pub struct TargetOptions {
    /// The server, http or https; by default on this machine only.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub url: Url,
    /// Load a server that is not on this machine. Loading one that is not yours is an attack.
    #[arg(long)]
    pub i_own_this_host: bool,
    /// For https: the PEM file of the server's certificate, or of those who vouch for it.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// For https: connections resume the TLS sessions of earlier ones, as who comes back does; the first --connecting
    /// cannot.
    #[arg(long)]
    pub resume: bool,
}

/// A server that may be loaded.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is.
    pub address: SocketAddr,
    /// The `Host` it is asked as.
    pub host: String,
    /// How it is spoken to, if not in the clear.
    pub encryption: Option<Encryption>,
}

/// How many of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub feeds: usize,
    pub producers: usize,
}

impl LoadOptions {
    pub(crate) fn shape(&self) -> Shape {
        let needed = match self.rate > 0.0 {
            true => 64,
            false => self.in_flight.div_ceil(self.batch).min(4_096),
        };
        Shape { feeds: self.feeds as usize, producers: self.producers.unwrap_or(needed) as usize }
    }

    pub(crate) fn run(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }

    /// Whether watcher `n` is one of those that stall: spread evenly.
    pub(crate) fn stalls(&self, n: u32) -> bool {
        let before = |n: u32| (f64::from(n) * self.stall) as u64;
        before(n + 1) > before(n)
    }
}

impl TargetOptions {
    /// Finds it, if it may be loaded.
    pub fn resolve(&self) -> Result<Target, BenchError> {
        let refuse = |why: &str| Err(BenchError::Usage(format!("{}: {why}", self.url)));
        let Some(host) = self.url.host_str() else { return refuse("has no host") };
        let port = self.url.port_or_known_default().unwrap_or(80);
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let encryption = match (self.url.scheme(), &self.ca) {
            ("http", _) => None,
            ("https", Some(trusted)) => Some(Encryption::new(name, trusted, self.resume)?),
            ("https", None) => return refuse("name the PEM file of its certificate with --ca"),
            _ => return refuse("must be an http:// or https:// address"),
        };
        let found: Vec<SocketAddr> = match (name, port).to_socket_addrs() {
            Ok(found) => found.collect(),
            Err(error) => return refuse(&format!("cannot be found: {error}")),
        };
        // IPv4 first: the source addresses are.
        let Some(address) = found.iter().find(|a| a.is_ipv4()).or(found.first()) else {
            return refuse("has no address");
        };
        if !address.ip().is_loopback() && !self.i_own_this_host {
            return refuse("is not this machine. If it is yours to load, say so with --i-own-this-host");
        }
        Ok(Target { address: *address, host: format!("{host}:{port}"), encryption })
    }
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1e7).ok_or_else(|| "must be 0 to 10000000 gifts per second".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.0, 86_400.0).ok_or_else(|| "must be 0 to 86400 seconds".into())
}

fn share(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1.0).ok_or_else(|| "must be a part between 0 and 1, such as 0.5".into())
}

fn within(text: &str, least: f64, most: f64) -> Option<f64> {
    text.parse().ok().filter(|n| (least..=most).contains(n))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadOptions,
        #[command(flatten)]
        target: TargetOptions,
    }

    fn line(args: &[&str]) -> Result<Line, clap::Error> {
        Line::try_parse_from(["bench"].iter().chain(args))
    }

    #[test]
    fn only_this_machine_is_loaded_unless_it_is_said_whose_it_is() {
        let at = |args: &[&str]| line(args).unwrap().target.resolve();
        for here in ["http://127.0.0.1:9", "http://127.8.8.8", "http://[::1]:8080/below", "http://localhost"]
        {
            assert!(at(&["--url", here]).is_ok(), "{here}");
        }
        let away = ["--url", "http://192.0.2.7:8080"];
        let refused = at(&away).unwrap_err().to_string();
        assert!(refused.contains("--i-own-this-host"), "{refused}");
        assert!(at(&[&away[..], &["--i-own-this-host"]].concat()).is_ok());
        assert!(at(&["--url", "https://127.0.0.1"]).is_err());
    }

    #[test]
    fn numbers_that_make_no_load_are_refused() {
        for bad in
            [["--feeds", "0"], ["--rate", "NaN"], ["--stall", "1.5"], ["--batch", "129"], ["--seconds", "-1"]]
        {
            assert!(line(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_share_that_stalls_is_spread_evenly() {
        let load = line(&["--stall", "0.25"]).unwrap().load;
        let stalled: Vec<u32> = (0..12).filter(|n| load.stalls(*n)).collect();
        assert_eq!(stalled, [3, 7, 11]);
        let none = line(&[]).unwrap().load;
        assert!((0..1_000).all(|n| !none.stalls(n)));
    }

    #[test]
    fn there_are_as_many_producers_as_the_flight_needs() {
        let shape = |args: &[&str]| line(args).unwrap().load.shape().producers;
        assert_eq!(shape(&[]), 64);
        assert_eq!(shape(&["--rate", "0", "--in-flight", "256"]), 256);
        assert_eq!(shape(&["--rate", "0", "--in-flight", "256", "--batch", "64"]), 4);
        assert_eq!(shape(&["--producers", "3"]), 3);
    }
}

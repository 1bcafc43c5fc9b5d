//! What a run found, as a table and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::histogram::millis;
use crate::ledger::{Counts, Times};
use crate::options::LoadOptions;
use crate::process::Usage;

/// Opening the watchers.
#[derive(Debug)]
pub(crate) struct Connected {
    /// Whether the server's processes are known.
    pub known: bool,
    pub watchers: u64,
    pub took: Duration,
    pub before: Usage,
    pub after: Usage,
    /// CPU of the load itself.
    pub own: Duration,
}

/// Sending and hearing.
#[derive(Debug)]
pub(crate) struct Measured {
    pub sending: Duration,
    /// From the first gift to the last delivery.
    pub took: Duration,
    pub cpu: Duration,
    pub own: Duration,
    pub rss: u64,
    /// Of the server's memory since the watchers were there, in bytes, before those that stall read again.
    pub grew: i64,
    pub gifts: u64,
    pub taken: u64,
    pub refused: u64,
    pub requests: u64,
    /// In the measured time, without those that stall.
    pub delivered: u64,
    pub frames: u64,
    pub bytes: u64,
    /// Of the whole run, as are `counts`.
    pub expected: u64,
    pub counts: Counts,
    pub times: Times,
    pub stalled: Option<Stalled>,
    pub ended: u64,
    pub late: Duration,
    pub longest: Duration,
    pub said: Vec<String>,
}

/// Reading again after a stall.
#[derive(Debug)]
pub(crate) struct Stalled {
    pub watchers: u64,
    pub converged: u64,
    pub took: Duration,
    pub folded: u64,
}

/// What a storm found.
#[derive(Debug)]
pub(crate) struct Stormed {
    /// From the first watcher's connection to the last watcher's list.
    pub connected: Connected,
    /// Gifts that were sent meanwhile.
    pub gifts: u64,
    /// Of those gifts.
    pub times: Times,
    /// How often the server read lists from its store meanwhile, if it says so.
    pub store_reads: Option<u64>,
    /// How much later than due a gift was sent, at most.
    pub late: Duration,
    /// Of the whole run, which goes on for a while when all are there.
    pub counts: Counts,
    pub refused: u64,
    pub ended: u64,
    pub said: Vec<String>,
}

/// What a run found.
#[derive(Debug)]
pub struct Report {
    json: Value,
    clean: bool,
}

impl Report {
    pub(crate) fn idle(options: &LoadOptions, connected: Connected, cpu: Duration, ended: u64) -> Report {
        let mut json = json!({ "load": load(options), "connect": connect(&connected) });
        json["watchers_ended"] = ended.into();
        if connected.known {
            let share = cpu.as_secs_f64() / options.seconds.max(0.001);
            json["idle"] = json!({ "seconds": options.seconds, "server_cpu_share": round(share, 4) });
        }
        Report { json, clean: ended == 0 }
    }

    pub(crate) fn storm(options: &LoadOptions, run: Stormed) -> Report {
        let mut json = json!({
            "load": load(options),
            "connect": connect(&run.connected),
            "storm": {
                "all_live_ms": millis(run.connected.took), "store_reads": run.store_reads,
                "gifts": run.gifts, "latest_ms": millis(run.late),
            },
            "deliveries": run.counts.to_json(),
            "gifts": { "refused": run.refused },
            "latency_ms": {
                "watcher": run.times.to_watcher.to_json(),
                "answer": run.times.to_answer.to_json(),
            },
            "watchers_ended": run.ended,
            "said": run.said,
        });
        // Gifts are in it: what a watcher takes is measured by --idle.
        json["connect"]["server_bytes_each"] = Value::Null;
        Report { json, clean: run.counts.clean() && run.ended == 0 && run.refused == 0 }
    }

    pub(crate) fn loaded(options: &LoadOptions, connected: Connected, run: Measured) -> Report {
        let took = run.took.as_secs_f64().max(1e-9);
        let mut deliveries = run.counts.to_json();
        deliveries["expected"] = run.expected.into();
        deliveries["measured"] = run.delivered.into();
        deliveries["per_second"] = round(run.delivered as f64 / took, 0).into();
        deliveries["per_frame"] = round(run.delivered as f64 / run.frames.max(1) as f64, 2).into();
        deliveries["bytes_each"] = round(run.bytes as f64 / run.delivered.max(1) as f64, 0).into();
        let stands = run.stalled.as_ref().is_none_or(|stalled| stalled.converged == stalled.watchers);
        let clean = run.counts.clean() && run.ended == 0 && stands && run.refused == 0;
        let mut json = json!({
            "load": load(options),
            "connect": connect(&connected),
            "gifts": {
                "sent": run.gifts, "accepted": run.taken, "refused": run.refused, "requests": run.requests,
                "per_second": round(run.gifts as f64 / run.sending.as_secs_f64().max(1e-9), 1),
                "latest_ms": millis(run.late),
            },
            "deliveries": deliveries,
            "latency_ms": {
                "watcher": run.times.to_watcher.to_json(),
                "last_watcher": run.times.to_last.to_json(),
                "answer": run.times.to_answer.to_json(),
            },
            "seconds": round(took, 3),
            "watchers_ended": run.ended,
            "said": run.said,
            "itself": {
                "cpu_seconds": run.own.as_secs_f64(), "cpu_share": round(run.own.as_secs_f64() / took, 3),
                "longest_turn_ms": millis(run.longest),
            },
        });
        if connected.known {
            let cpu = run.cpu.as_secs_f64();
            json["server"] = json!({
                "cpu_seconds": cpu, "cpu_share": round(cpu / took, 3), "rss": run.rss, "rss_grew": run.grew,
                "cpu_seconds_per_million_deliveries":
                    (run.delivered > 0).then(|| round(cpu / run.delivered as f64 * 1e6, 4)),
                "cpu_us_per_gift": (run.taken > 0).then(|| round(cpu / run.taken as f64 * 1e6, 2)),
            });
        }
        if let Some(stalled) = &run.stalled {
            json["stalled"] = json!({
                "watchers": stalled.watchers, "converged": stalled.converged,
                "converged_in_ms": millis(stalled.took), "folded": stalled.folded,
                "server_bytes_each": connected.known.then(|| run.grew / stalled.watchers.max(1) as i64),
            });
        }
        Report { json, clean }
    }

    /// Every figure.
    pub fn to_json(&self) -> &Value {
        &self.json
    }

    /// True when nothing was lost, repeated, out of order, refused or ended.
    pub fn is_clean(&self) -> bool {
        self.clean
    }

    /// For people.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        let at = |path: &str| self.json.pointer(path).filter(|value| !value.is_null());
        let mut line = |name: &str, parts: &[(&str, &str, &str)]| {
            let mut words = vec![];
            for (before, path, after) in parts {
                let Some(value) = at(path) else { continue };
                words.push(format!("{before}{}{after}", spelt(value)));
            }
            if !words.is_empty() {
                let _ = writeln!(out, "{name:<22} {}", words.join(", "));
            }
        };
        line(
            "watchers",
            &[
                ("", "/connect/watchers", ""),
                ("", "/connect/per_second", " connects/s"),
                ("server ", "/connect/server_cpu_us_each", " µs CPU each"),
                ("", "/connect/server_bytes_each", " bytes of memory each"),
            ],
        );
        line(
            "storm",
            &[
                ("all there after ", "/storm/all_live_ms", " ms"),
                ("", "/storm/gifts", " gifts meanwhile"),
                ("", "/storm/store_reads", " reads of the store"),
            ],
        );
        line("idle", &[("server ", "/idle/server_cpu_share", " of a core")]);
        line(
            "gifts",
            &[
                ("", "/gifts/sent", " sent"),
                ("", "/gifts/accepted", " accepted"),
                ("", "/gifts/refused", " refused"),
                ("", "/gifts/per_second", "/s"),
            ],
        );
        line(
            "deliveries",
            &[
                ("", "/deliveries/measured", " measured"),
                ("", "/deliveries/per_second", "/s"),
                ("", "/deliveries/per_frame", " in a frame"),
            ],
        );
        line(
            "of all",
            &[
                ("", "/deliveries/expected", " expected"),
                ("", "/deliveries/received", " received"),
                ("", "/deliveries/folded", " folded"),
                ("", "/deliveries/lost", " lost"),
                ("", "/deliveries/repeated", " repeated"),
                ("", "/deliveries/out_of_order", " out of order"),
                ("", "/deliveries/malformed", " malformed"),
            ],
        );
        for (name, key) in [
            ("to a watcher", "watcher"),
            ("to the last watcher", "last_watcher"),
            ("to the answer", "answer"),
        ] {
            let path = |p: &str| format!("/latency_ms/{key}/{p}");
            let (p50, p90, p99, max) = (path("p50"), path("p90"), path("p99"), path("max"));
            line(name, &[("p50 ", &p50, ""), ("p90 ", &p90, ""), ("p99 ", &p99, ""), ("max ", &max, " ms")]);
        }
        line(
            "stalled",
            &[
                ("", "/stalled/watchers", " watchers"),
                ("", "/stalled/converged", " at the newest list"),
                ("within ", "/stalled/converged_in_ms", " ms"),
                ("", "/stalled/server_bytes_each", " bytes of memory each"),
            ],
        );
        line(
            "server",
            &[
                ("", "/server/cpu_seconds_per_million_deliveries", " CPU-s per million deliveries"),
                ("", "/server/cpu_us_per_gift", " µs CPU per gift"),
                ("", "/server/cpu_share", " cores"),
            ],
        );
        line(
            "this load",
            &[("", "/itself/cpu_share", " cores"), ("longest turn ", "/itself/longest_turn_ms", " ms")],
        );
        for wrong in self.json["said"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = writeln!(out, "! {wrong}");
        }
        if self.json["watchers_ended"].as_u64().is_some_and(|n| n > 0) {
            let _ = writeln!(out, "! {} watchers were closed by the server", self.json["watchers_ended"]);
        }
        out
    }
}

fn load(options: &LoadOptions) -> Value {
    json!({
        "feeds": options.feeds, "watchers": options.watchers, "producers": options.shape().producers,
        "rate": options.rate, "in_flight": options.in_flight,
        "until": format!("{:?}", options.until).to_lowercase(),
        "batch": options.batch, "seconds": options.seconds, "warm_up": options.warm_up,
        "stall": options.stall, "idle": options.idle, "storm": options.storm, "nap_us": options.nap,
    })
}

fn connect(connected: &Connected) -> Value {
    let Connected { known, watchers, took, before, after, own } = connected;
    let each = (*watchers).max(1) as f64;
    let mut json = json!({
        "watchers": watchers, "seconds": round(took.as_secs_f64(), 3),
        "per_second": round(*watchers as f64 / took.as_secs_f64().max(1e-9), 0),
        "own_cpu_us_each": round(own.as_secs_f64() / each * 1e6, 1),
    });
    if *known && *watchers > 0 {
        let cpu = (after.cpu - before.cpu).as_secs_f64();
        json["server_cpu_us_each"] = round(cpu / each * 1e6, 1).into();
        json["server_rss_before"] = before.rss.into();
        json["server_rss"] = after.rss.into();
        json["server_bytes_each"] = round((after.rss as f64 - before.rss as f64) / each, 0).into();
    }
    json
}

fn round(n: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    (n * scale).round() / scale
}

/// Whole numbers in groups of three, others as they are.
fn spelt(value: &Value) -> String {
    let whole = value.as_i64().or_else(|| value.as_f64().filter(|n| n.fract() == 0.0).map(|n| n as i64));
    let Some(whole) = whole else { return value.to_string() };
    let digits = whole.unsigned_abs().to_string();
    let mut out = String::from(if whole < 0 { "-" } else { "" });
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_spelt_in_groups() {
        let spelt = |value: Value| super::spelt(&value);
        assert_eq!(spelt(json!(1_234_567)), "1 234 567");
        assert_eq!(spelt(json!(-1000.0)), "-1 000");
        assert_eq!((spelt(json!(12)), spelt(json!(0.25))), ("12".into(), "0.25".into()));
    }
}

//! What the operating system says of this process, read when somebody asks. Linux only; elsewhere
//! these metrics are absent.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Ticks in a second of `/proc/self/stat`: USER_HZ, 100 on every platform that Rust has a Linux for.
const TICKS: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut tell = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(seconds) = cpu_seconds() {
            let help = "Processor time that this process used, in user and kernel mode";
            tell("tipcast_process_cpu_seconds", help, &ConstCounter::new(seconds))?;
        }
        if let Some(bytes) = resident_bytes() {
            let help = "Memory of this process that is in RAM";
            tell("tipcast_process_resident_memory_bytes", help, &ConstGauge::new(bytes))?;
        }
        if let Some(count) = open_fds() {
            let help = "File descriptors in use: a connection is one";
            tell("tipcast_process_open_fds", help, &ConstGauge::new(count))?;
        }
        if let Some(count) = max_fds() {
            let help = "File descriptors that this process may use";
            tell("tipcast_process_max_fds", help, &ConstGauge::new(count))?;
        }
        Ok(())
    }
}

pub(super) fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may hold anything; the state is the first field after it, utime the 12th.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}

pub(super) fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()? * 1024)
}

fn open_fds() -> Option<i64> {
    // Linux 6.2 and newer say the number; before, they are counted one by one.
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok(),
        known => i64::try_from(known).ok(),
    }
}

fn max_fds() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_all_of_it() {
        assert!(cpu_seconds().unwrap() >= 0.0);
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(open_fds().unwrap() >= 3 && max_fds().unwrap() >= open_fds().unwrap());
    }
}

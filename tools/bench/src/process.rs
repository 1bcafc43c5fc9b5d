//! What the server's processes use, as the kernel counts it.

use std::fmt;
use std::time::Duration;

/// The processes that are the server; empty if they are unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(Vec<u32>);

/// One look at them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time of all threads, also of those that ended.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub rss: u64,
}

/// Clock ticks of `/proc` in a second: fixed at 100 for every architecture that Rust has.
const TICKS: u64 = 100;

/// Why a process cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen(String);

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Processes {
    /// Looks at each once.
    pub fn find(pids: &[u32]) -> Result<Processes, Unseen> {
        if !cfg!(target_os = "linux") && !pids.is_empty() {
            return Err(Unseen("--pid reads /proc, which only Linux has; leave it out".into()));
        }
        let found = Processes(pids.to_vec());
        found.look()?;
        Ok(found)
    }

    /// False when nobody said which they are.
    pub fn known(&self) -> bool {
        !self.0.is_empty()
    }

    /// What all of them use together.
    pub fn look(&self) -> Result<Usage, Unseen> {
        let mut all = Usage::default();
        for pid in &self.0 {
            let read = |file: &str| {
                let path = format!("/proc/{pid}/{file}");
                std::fs::read_to_string(&path)
                    .map_err(|e| Unseen(format!("there is no process {pid} to look at ({path}: {e})")))
            };
            all.cpu += cpu_of(&read("stat")?).unwrap_or_default();
            all.rss += rss_of(&read("status")?).unwrap_or_default();
        }
        Ok(all)
    }
}

/// CPU time of this process; zero where there is no `/proc`.
pub(crate) fn own_cpu() -> Duration {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_of(&stat)).unwrap_or_default()
}

/// Fields 14 and 15 of `/proc/PID/stat`; the name before them may hold anything, also spaces.
fn cpu_of(stat: &str) -> Option<Duration> {
    let after = stat.rsplit_once(')')?.1;
    let mut fields = after.split_ascii_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS))
}

fn rss_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let stat = "12 (a ) name) S 1 12 12 0 -1 4194304 1 0 0 0 150 25 0 0 20 0 3 0 1 1 1 1";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(rss_of("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n"), Some(2 << 20));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_is_not_there_is_named() {
        let unseen = Processes::find(&[u32::MAX]).unwrap_err().to_string();
        assert!(unseen.contains("4294967295"), "{unseen}");
        let here = Processes::find(&[std::process::id()]).unwrap();
        assert!(here.known() && here.look().unwrap().rss > 1 << 20);
    }
}

//! A line on the terminal while a run goes on; nothing where nobody looks.

use std::io::{IsTerminal, Write};

const WIDTH: usize = 30;

/// A line on standard error that is written over.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal() }
    }

    /// `share` is 0 to 1. A terminal that is gone is no reason to stop.
    pub fn tell(&self, share: f64, words: &str) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K{} {words}", bar(share));
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(share: f64) -> String {
    let full = ((share.clamp(0.0, 1.0) * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}]", "#".repeat(full), ".".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_as_wide_whatever_the_share() {
        for share in [0.0, 0.5, 1.0, 7.0, f64::NAN] {
            assert_eq!(bar(share).len(), 32, "{share}");
        }
    }
}

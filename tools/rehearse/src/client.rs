//! The client: a program, and what it prints.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// Lines of the client that wait to be looked at; a client that prints more waits itself.
const LINES: usize = 1024;

/// The list of a client, as it prints it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Shown {
    pub position: Option<String>,
    pub rows: Vec<String>,
}

/// A client that runs until this is dropped.
pub struct Client {
    child: Child,
    lines: Receiver<String>,
    /// What it printed last.
    last: Option<Shown>,
}

impl Client {
    /// Starts it for one scenario; with `without` it is to leave totals out.
    pub fn start(command: &[String], url: &str, feed: &str, without: bool) -> io::Result<Client> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("TIPCAST_URL", url)
            .env("TIPCAST_FEED", feed)
            .env("TIPCAST_WITHOUT", if without { "totals" } else { "" })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("{program} does not start: {e}")))?;
        let (sender, lines) = sync_channel(LINES);
        if let Some(out) = child.stdout.take() {
            // Ends with the client's output.
            std::thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(Result::ok);
                lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
            });
        }
        Ok(Client { child, lines, last: None })
    }

    /// Whether its process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits until it shows this; else says what it shows.
    pub fn wait_for(&mut self, wanted: &Shown, within: Duration) -> Result<(), String> {
        let until = Instant::now() + within;
        loop {
            if self.last.as_ref() == Some(wanted) {
                return Ok(());
            }
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // Other lines are its own business.
                Ok(line) => self.last = serde_json::from_str(&line).ok().or(self.last.take()),
                Err(RecvTimeoutError::Disconnected) => return Err("the client has ended".into()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(match &self.last {
                        Some(Shown { position, rows }) => format!("it shows {rows:?} at {position:?}"),
                        None => "it has printed no list".into(),
                    });
                }
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

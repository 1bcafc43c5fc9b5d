//! Plays the acts of a scenario, one after the other, and stops at the first that the client got wrong.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::client::{Client, Shown};
use crate::line::{Heard, Line, Request};
use crate::scenarios::{Act, Since};

/// How long a client may take to start.
const STARTING: Duration = Duration::from_secs(20);

/// How often somebody who waits looks whether a client has come.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A scenario under way.
pub struct Play {
    feed: &'static str,
    /// The client is to leave totals out.
    without: bool,
    listener: TcpListener,
    client: Client,
    /// How late the client may be.
    slack: Duration,
    line: Option<Line>,
    /// When the last connection ended, or was refused; none before the first.
    ended: Option<Instant>,
    /// When a connection came for the first time.
    first: Option<Instant>,
    /// The token that was shown last.
    token: Option<String>,
}

impl Play {
    pub fn new(
        feed: &'static str,
        without: bool,
        listener: TcpListener,
        client: Client,
        slack: Duration,
    ) -> io::Result<Play> {
        listener.set_nonblocking(true)?;
        Ok(Play { feed, without, listener, client, slack, line: None, ended: None, first: None, token: None })
    }

    /// Plays them all; else says in which act the client did what.
    pub fn through(mut self, acts: &[Act]) -> Result<(), String> {
        for (number, act) in acts.iter().enumerate() {
            self.play(act).map_err(|fault| format!("act {}, {}: {fault}", number + 1, act.about()))?;
        }
        Ok(())
    }

    fn play(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Connects { since, least_ms, most_ms } => {
                let request = self.comes(*least_ms, *most_ms)?;
                let offered = request.since().map(str::to_owned);
                let wanted = match since {
                    Since::Nothing => None,
                    Since::At(at) => Some(*at),
                };
                if offered.as_deref() != wanted {
                    return Err(format!("it offered the position {offered:?}, and should {wanted:?}"));
                }
                self.token = request.token();
                self.line = Some(request.accept().map_err(|e| e.to_string())?);
                Ok(())
            }
            Act::ConnectsWithNewToken { most_ms } => {
                let before = self.token.clone();
                let request = self.comes(0, *most_ms)?;
                self.token = request.token();
                if self.token.is_none() || self.token == before {
                    return Err("it showed no new token".into());
                }
                self.line = Some(request.accept().map_err(|e| e.to_string())?);
                Ok(())
            }
            Act::IsRefused { status, retry_after, least_ms, most_ms } => {
                let request = self.comes(*least_ms, *most_ms)?;
                self.token = request.token();
                request.refuse(*status, *retry_after);
                self.ended = Some(Instant::now());
                Ok(())
            }
            Act::IsKeptWaiting { most_ms } => {
                self.line = Some(self.comes(0, 1_000)?.ignore());
                self.leaves(Duration::from_millis(*most_ms))
            }
            Act::Sends(text) => self.speak(|line| line.send(text, 0)),
            Act::SendsInPieces(text) => self.speak(|line| line.send(text, 1_000)),
            Act::SendsFragments(text) => self.speak(|line| line.send_fragments(text)),
            Act::SendsHalfAndCuts(text) => {
                self.speak(|line| line.send_half(text))?;
                self.end(Line::cut);
                Ok(())
            }
            Act::Pings => self.pings(),
            Act::Shows { position, rows } => {
                let position = position.map(str::to_owned);
                let rows = rows.iter().map(ToString::to_string).collect();
                let wanted = Shown { position, rows };
                let shown = self.client.wait_for(&wanted, Duration::from_secs(3) + self.slack);
                shown.map_err(|fault| {
                    format!("it should show {:?} at {:?}; {fault}", wanted.rows, wanted.position)
                })
            }
            Act::Leaves { most_ms } => self.leaves(Duration::from_millis(*most_ms)),
            Act::Stays { ms } => self.stays(Duration::from_millis(*ms)),
            Act::RenewsToken { most_ms } => self.renews(Duration::from_millis(*most_ms)),
            Act::Closes(code) => {
                self.end(|line| line.close(*code));
                Ok(())
            }
            Act::Cuts => {
                self.end(Line::cut);
                Ok(())
            }
            Act::StaysAway { ms } => match self.arrival(Duration::from_millis(*ms))? {
                None => Ok(()),
                Some(_) => Err("it connected all the same".into()),
            },
            Act::TookAtLeast { ms } => {
                let took = self.first.map_or(0, |first| first.elapsed().as_millis() as u64);
                if took >= *ms { Ok(()) } else { Err(format!("all that took it {took} ms: it hammers")) }
            }
        }
    }

    /// The client's next request, not before `least` and at most `most` ms after the last connection ended.
    fn comes(&mut self, least: u64, most: u64) -> Result<Request, String> {
        let since = self.ended.unwrap_or_else(Instant::now);
        let most = Duration::from_millis(most) + if self.ended.is_some() { self.slack } else { STARTING };
        loop {
            let left = (since + most).saturating_duration_since(Instant::now());
            let Some(socket) = self.arrival(left)? else {
                let none = match self.client.has_ended() {
                    true => "the client ended without a connection".to_owned(),
                    false => format!("no connection in {} ms", most.as_millis()),
                };
                return Err(match (self.first, self.listener.local_addr()) {
                    (None, Ok(address)) => format!(
                        "{none} at http://{address}, where this command plays the gateway (no other is needed): the \
                         client must connect to the address in its variable TIPCAST_URL"
                    ),
                    _ => none,
                });
            };
            let Ok(request) = Request::read(socket) else { continue };
            if !request.is_for(self.feed) {
                if request.path().ends_with("/ws") || request.path().ends_with("/sse") {
                    return Err(format!("it asked for {}", request.path()));
                }
                // A look at the list, or at an icon: nobody's fault.
                request.refuse(404, None);
                continue;
            }
            let after = since.elapsed().as_millis() as u64;
            self.first.get_or_insert_with(Instant::now);
            if self.ended.is_some() && after < least {
                return Err(format!("it came after {after} ms, and not before {least} was right"));
            }
            if self.without && !request.is_without_totals() {
                return Err("it did not ask to leave totals out (?without=totals)".into());
            }
            return Ok(request);
        }
    }

    fn arrival(&mut self, within: Duration) -> Result<Option<TcpStream>, String> {
        let until = Instant::now() + within;
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => return Ok(Some(socket)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.to_string()),
            }
            // A client that fails at its start is not waited for.
            if Instant::now() >= until || (self.first.is_none() && self.client.has_ended()) {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn speak(&mut self, say: impl FnOnce(&mut Line) -> io::Result<()>) -> Result<(), String> {
        let line = self.line.as_mut().ok_or("there is no connection")?;
        say(line).map_err(|e| format!("it took no more: {e}"))
    }

    fn end(&mut self, how: impl FnOnce(Line)) {
        // A client may come back while the close is still under way.
        self.ended = Some(Instant::now());
        if let Some(line) = self.line.take() {
            how(line);
        }
    }

    fn hear(&mut self, within: Duration) -> Result<Heard, String> {
        Ok(self.line.as_mut().ok_or("there is no connection")?.hear(within))
    }

    fn leaves(&mut self, within: Duration) -> Result<(), String> {
        let until = Instant::now() + within + self.slack;
        while Instant::now() < until {
            if self.hear(until.saturating_duration_since(Instant::now()))? == Heard::Ended {
                self.end(drop);
                return Ok(());
            }
        }
        Err(format!("it was still there after {} ms", (within + self.slack).as_millis()))
    }

    fn stays(&mut self, at_least: Duration) -> Result<(), String> {
        let until = Instant::now() + at_least;
        while Instant::now() < until {
            if self.hear(until.saturating_duration_since(Instant::now()))? == Heard::Ended {
                return Err("it left".into());
            }
        }
        match self.arrival(Duration::ZERO)? {
            None => Ok(()),
            Some(_) => Err("it opened a second connection while the first one stood".into()),
        }
    }

    fn pings(&mut self) -> Result<(), String> {
        let mut asked = false;
        self.speak(|line| {
            asked = line.ping()?;
            Ok(())
        })?;
        let until = Instant::now() + self.slack;
        while asked && Instant::now() < until {
            match self.hear(until.saturating_duration_since(Instant::now()))? {
                Heard::Pong => return Ok(()),
                Heard::Ended => return Err("it left".into()),
                Heard::Text(_) | Heard::Nothing => {}
            }
        }
        if asked { Err("it did not answer the ping".into()) } else { Ok(()) }
    }

    fn renews(&mut self, within: Duration) -> Result<(), String> {
        let until = Instant::now() + within + self.slack;
        while Instant::now() < until {
            match self.hear(until.saturating_duration_since(Instant::now()))? {
                Heard::Ended => return Err("it left".into()),
                Heard::Pong | Heard::Nothing => {}
                Heard::Text(text) => {
                    let frame: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                    let token = frame["token"].as_str().map(str::to_owned);
                    if frame["type"] != "auth" || token.is_none() {
                        return Err(format!("it sent {text}"));
                    }
                    if token == self.token {
                        return Err("it sent the old token again".into());
                    }
                    self.token = token;
                    return Ok(());
                }
            }
        }
        Err("it sent no new token".into())
    }
}

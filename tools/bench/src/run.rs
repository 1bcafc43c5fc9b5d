//! The phases of a run, in one thread: connect, send and hear, wait for the last, read again.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

use crate::BenchError;
use crate::crowd::{Crowd, STALL_TIMEOUT};
use crate::dialect::Dialect;
use crate::ledger::{FeedLog, Ledger, Times};
use crate::options::{LoadOptions, Shape, Target, Until};
use crate::process::{Processes, Usage, own_cpu};
use crate::producers::Producers;
use crate::progress::Progress;
use crate::report::{Connected, Measured, Stalled};
use crate::watcher::HEADROOM;

/// What one read takes at most.
const BUFFER: usize = 256 * 1024;

/// How often the terminal gets a line.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// How long watchers rest before the server's memory is looked at.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// At most this much of a rate is made up for after a pause of the load.
const CATCH_UP: Duration = Duration::from_millis(100);

/// The one thread's state: its sockets, and the books.
pub(crate) struct Load<'a> {
    pub(crate) dialect: &'a dyn Dialect,
    target: Target,
    pub(crate) server: Processes,
    pub(crate) poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    pub(crate) crowd: Crowd,
    pub(crate) producers: Option<Producers>,
    pub(crate) ledger: Ledger,
    began: Instant,
    pub(crate) progress: Progress,
    told: Instant,
    nap: Duration,
    /// The longest time between two looks at the sockets.
    longest: Duration,
}

impl<'a> Load<'a> {
    pub(crate) fn new(
        options: &LoadOptions,
        target: &Target,
        dialect: &'a dyn Dialect,
        server: Processes,
        stands: &[u64],
    ) -> Result<Load<'a>, BenchError> {
        let now = Instant::now();
        Ok(Load {
            dialect,
            target: target.clone(),
            server,
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; HEADROOM + BUFFER],
            crowd: Crowd::new(options, target, dialect.samples()),
            producers: None,
            ledger: Ledger {
                feeds: stands.iter().map(|seq| FeedLog::at(*seq)).collect(),
                ..Ledger::default()
            },
            began: now,
            progress: Progress::new(),
            told: now,
            nap: Duration::from_micros(options.nap),
            longest: Duration::ZERO,
        })
    }

    pub(crate) fn look(&self) -> Result<Usage, BenchError> {
        self.server.look().map_err(|e| BenchError::Server(e.to_string()))
    }

    /// Waits at most `most` for sockets, and handles those that stir.
    pub(crate) fn turn(&mut self, most: Duration) -> Result<(), BenchError> {
        match self.poll.poll(&mut self.events, Some(most)) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let woke = Instant::now();
        let began = self.began;
        // Never 0, which stands for unknown.
        let now = move || began.elapsed().as_nanos() as u64 + 1;
        let watchers = self.crowd.all.len();
        for event in &self.events {
            let n = event.token().0;
            if n < watchers {
                let closed = event.is_read_closed();
                self.crowd.stir(n, closed, &mut self.buffer, self.dialect, &mut self.ledger, &now)?;
            } else if let Some(producers) = &mut self.producers {
                producers.stir(n - watchers, self.dialect, &mut self.ledger, &mut self.buffer, &now)?;
            }
        }
        self.longest = self.longest.max(woke.elapsed());
        if !self.nap.is_zero() && !self.events.is_empty() {
            std::thread::sleep(self.nap);
        }
        Ok(())
    }

    pub(crate) fn hear_for(&mut self, time: Duration) -> Result<(), BenchError> {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.turn(left.min(Duration::from_millis(50)))?;
        }
        Ok(())
    }

    pub(crate) fn connect(&mut self, options: &LoadOptions) -> Result<Connected, BenchError> {
        let before = self.look()?;
        let own = own_cpu();
        let began = Instant::now();
        let (mut moved, mut last) = (began, 0);
        while !self.crowd.complete() {
            self.crowd.connect_more(options.connecting as usize, self.poll.registry(), self.dialect)?;
            self.turn(Duration::from_millis(50))?;
            if self.crowd.live != last {
                (moved, last) = (Instant::now(), self.crowd.live);
            } else if moved.elapsed() > STALL_TIMEOUT {
                let (live, all) = (last, self.crowd.all.len());
                return Err(BenchError::Server(format!("only {live} of {all} watchers could be opened")));
            }
            if self.told.elapsed() > TELL_EVERY {
                self.told = Instant::now();
                let share = self.crowd.live as f64 / self.crowd.all.len() as f64;
                self.progress.tell(share, &format!("{} watchers", self.crowd.live));
            }
        }
        let took = began.elapsed();
        let own = own_cpu() - own;
        self.hear_for(SETTLE_TIME)?;
        let after = self.look()?;
        Ok(Connected {
            known: self.server.known(),
            watchers: self.crowd.live as u64,
            took,
            before,
            after,
            own,
        })
    }

    pub(crate) fn let_producers_in(&mut self, shape: Shape) -> Result<(), BenchError> {
        let mut at = self.target.clone();
        if let Some(address) = self.dialect.producers_at() {
            (at.address, at.encryption) = (address, None);
        }
        let base = self.crowd.all.len();
        self.producers = Some(Producers::connect(&at, shape, base, self.poll.registry(), self.dialect)?);
        let waiting = Instant::now();
        while self.producers.as_ref().is_some_and(|producers| !producers.ready()) {
            self.turn(Duration::from_millis(50))?;
            if waiting.elapsed() > STALL_TIMEOUT {
                return Err(BenchError::Server("it does not let producers in".into()));
            }
        }
        Ok(())
    }

    pub(crate) fn send(
        &mut self,
        options: &LoadOptions,
        shape: Shape,
        stands: &[u64],
    ) -> Result<Measured, BenchError> {
        self.let_producers_in(shape)?;
        self.crowd.stall(self.poll.registry())?;
        let reached = self.look()?;

        let mut pace = Pace::new(options);
        self.pump(&mut pace, options, options.warm_up(), "warming up")?;
        self.ledger.times = Times::default();
        self.longest = Duration::ZERO;
        let (before, own, from) = (self.look()?, own_cpu(), Instant::now());
        let (earlier, arrived) = (self.sent(), self.ledger.counts);
        pace.late = Duration::ZERO;
        self.pump(&mut pace, options, options.run(), "gifts")?;
        let sending = from.elapsed();
        self.answers()?;
        let ends = self.ends(stands)?;
        let settled = self.wait_for(&ends, false)?;
        let took = settled.duration_since(from);
        let (after, own) = (self.look()?, own_cpu() - own);
        let sent = self.sent();
        let counts = self.ledger.counts;

        let stalled = match self.crowd.stalled() {
            0 => None,
            watchers => Some(self.converge(&ends, watchers)?),
        };
        let expected = ends.iter().zip(stands).zip(self.crowd.of_feeds(shape.feeds));
        let expected = expected.map(|((end, start), watchers)| (end - start) * watchers).sum();
        let mut all = self.ledger.counts;
        all.lost += self.crowd.missing(&ends);
        for wrong in self.crowd.compare(self.dialect) {
            all.malformed += 1;
            self.ledger.say(wrong);
        }
        let gifts = sent.gifts - earlier.gifts;
        let wanted = options.rate * sending.as_secs_f64();
        if (gifts as f64) < wanted * 0.97 {
            let late = "the rate was not reached: the server answers too late for this many --producers";
            self.ledger.say(late.to_owned());
        }
        let refusal = self.producers.as_ref().and_then(|producers| producers.refusal.clone());
        Ok(Measured {
            sending,
            took,
            cpu: after.cpu - before.cpu,
            own,
            rss: after.rss,
            grew: after.rss as i64 - reached.rss as i64,
            gifts,
            taken: sent.taken - earlier.taken,
            refused: sent.refused,
            requests: sent.requests - earlier.requests,
            delivered: counts.received - arrived.received,
            frames: counts.frames - arrived.frames,
            bytes: counts.bytes - arrived.bytes,
            expected,
            counts: all,
            times: std::mem::take(&mut self.ledger.times),
            stalled,
            ended: self.crowd.ended,
            late: pace.late,
            longest: self.longest,
            said: self.crowd.first_end.iter().chain(&refusal).chain(&self.ledger.said).cloned().collect(),
        })
    }

    pub(crate) fn sent(&self) -> super::producers::Sent {
        self.producers.as_ref().map(|producers| producers.sent).unwrap_or_default()
    }

    /// Sends and hears for so long.
    pub(crate) fn pump(
        &mut self,
        pace: &mut Pace,
        options: &LoadOptions,
        time: Duration,
        what: &str,
    ) -> Result<(), BenchError> {
        let from = Instant::now();
        loop {
            let spent = from.elapsed();
            if spent >= time {
                return Ok(());
            }
            self.send_due(pace)?;
            let wait = pace.wait().min(time - spent).min(Duration::from_millis(50));
            self.turn(wait)?;
            if self.told.elapsed() > TELL_EVERY {
                self.told = Instant::now();
                let share = spent.as_secs_f64() / options.run().max(time).as_secs_f64();
                let received = self.ledger.counts.received;
                let refused = self.sent().refused;
                let more = if refused > 0 { format!(", {refused} refused") } else { String::new() };
                self.progress.tell(share, &format!("{what}: {received} deliveries{more}"));
            }
        }
    }

    pub(crate) fn send_due(&mut self, pace: &mut Pace) -> Result<(), BenchError> {
        let Some(producers) = &mut self.producers else { return Ok(()) };
        loop {
            let room = match (pace.every, pace.until) {
                (Some(_), _) => pace.due(),
                (None, Until::Answered) => pace.most.saturating_sub(producers.sent.unanswered) >= pace.batch,
                (None, Until::Delivered) => {
                    let settled: u64 = self.ledger.feeds.iter().map(|feed| feed.settled).sum();
                    let sent = producers.sent.gifts - producers.sent.refused;
                    pace.most.saturating_sub(sent.saturating_sub(settled)) >= pace.batch
                }
            };
            if !room {
                return Ok(());
            }
            let now = self.began.elapsed().as_nanos() as u64 + 1;
            if !producers.send(pace.batch, self.dialect, &mut self.ledger, now)? {
                return Ok(());
            }
            pace.sent();
        }
    }

    /// Waits for the answers of what was sent.
    pub(crate) fn answers(&mut self) -> Result<(), BenchError> {
        let from = Instant::now();
        while self.sent().unanswered > 0 && from.elapsed() < STALL_TIMEOUT {
            self.turn(Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// Where each feed ends.
    fn ends(&self, stands: &[u64]) -> Result<Vec<u64>, BenchError> {
        let taken = self.producers.as_ref().map(|p| p.taken.clone()).unwrap_or_default();
        let end = |(feed, start): (usize, &u64)| match self.dialect.stands_at(feed) {
            Some(asked) => asked,
            None => Ok(start + taken[feed]),
        };
        stands.iter().enumerate().map(end).collect()
    }

    /// Waits until all watchers (or only those that do not stall) are there, or nothing comes any more;
    /// gives when the last op came.
    pub(crate) fn wait_for(&mut self, ends: &[u64], stalled: bool) -> Result<Instant, BenchError> {
        let mut last = Instant::now();
        let mut received = self.ledger.counts;
        while self.crowd.behind(ends, |watcher| watcher.stalled == stalled) > 0 {
            self.turn(Duration::from_millis(5))?;
            if self.ledger.counts != received {
                (last, received) = (Instant::now(), self.ledger.counts);
            } else if last.elapsed() > STALL_TIMEOUT {
                break;
            }
        }
        Ok(last)
    }

    /// Those that stalled read again.
    fn converge(&mut self, ends: &[u64], watchers: u64) -> Result<Stalled, BenchError> {
        let from = Instant::now();
        let folded = self.ledger.counts.folded;
        self.crowd.resume(self.poll.registry())?;
        let last = self.wait_for(ends, true)?;
        let behind = self.crowd.behind(ends, |watcher| watcher.stalled);
        Ok(Stalled {
            watchers,
            converged: watchers - behind,
            took: last.duration_since(from),
            folded: self.ledger.counts.folded - folded,
        })
    }
}

/// When the next request is due.
pub(crate) struct Pace {
    /// Between requests; none at full speed.
    every: Option<Duration>,
    next: Instant,
    most: u64,
    until: Until,
    batch: u64,
    /// How much later than due a request went out, at most.
    pub(crate) late: Duration,
}

impl Pace {
    pub(crate) fn new(options: &LoadOptions) -> Pace {
        let batch = u64::from(options.batch);
        let every =
            (options.rate > 0.0).then(|| Duration::from_secs_f64(f64::from(options.batch) / options.rate));
        let most = u64::from(options.in_flight).max(batch);
        Pace { every, next: Instant::now(), most, until: options.until, batch, late: Duration::ZERO }
    }

    fn due(&mut self) -> bool {
        let now = Instant::now();
        if let Some(oldest) = now.checked_sub(CATCH_UP) {
            self.next = self.next.max(oldest);
        }
        self.late = self.late.max(now.saturating_duration_since(self.next));
        now >= self.next
    }

    fn sent(&mut self) {
        self.next += self.every.unwrap_or_default();
    }

    pub(crate) fn wait(&self) -> Duration {
        match self.every {
            Some(_) => self.next.saturating_duration_since(Instant::now()),
            None => Duration::from_millis(50),
        }
    }
}

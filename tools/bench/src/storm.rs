//! A connect storm: gifts flow, and then all watchers come at once, as they do when a gateway was started
//! again.

use std::time::{Duration, Instant};

use crate::BenchError;
use crate::crowd::STALL_TIMEOUT;
use crate::ledger::{FeedLog, Times};
use crate::options::{LoadOptions, Shape};
use crate::process::own_cpu;
use crate::report::{Connected, Stormed};
use crate::run::{Load, Pace};

/// Watchers that are opened between two looks at the sockets, so that gifts go out in time.
const AT_A_TIME: usize = 128;

impl Load<'_> {
    /// Sends gifts, lets all watchers come, and sends on, to see that each gets everything from its list on.
    pub(crate) fn storm(
        &mut self,
        options: &LoadOptions,
        shape: Shape,
        stands: &[u64],
    ) -> Result<Stormed, BenchError> {
        self.let_producers_in(shape)?;
        let mut pace = Pace::new(options);
        self.pump(&mut pace, options, options.warm_up(), "warming up")?;
        self.ledger.times = Times::default();
        pace.late = Duration::ZERO;
        let reads = self.dialect.store_reads();
        let sent = self.sent().gifts;
        let connected = self.all_at_once(options, &mut pace)?;
        let gifts = self.sent().gifts - sent;
        let times = std::mem::take(&mut self.ledger.times);
        let late = pace.late;
        let store_reads = self.dialect.store_reads().zip(reads).map(|(after, before)| after - before);
        self.ledger.feeds.iter_mut().for_each(FeedLog::forget);
        self.pump(&mut pace, options, options.run(), "gifts")?;
        self.answers()?;
        let ends = self.ends_after_storm(stands)?;
        self.wait_for(&ends, false)?;
        let mut counts = self.ledger.counts;
        counts.lost += self.crowd.missing(&ends);
        for wrong in self.crowd.compare(self.dialect) {
            counts.malformed += 1;
            self.ledger.say(wrong);
        }
        let refusal = self.producers.as_ref().and_then(|producers| producers.refusal.clone());
        Ok(Stormed {
            connected,
            gifts,
            times,
            store_reads,
            late,
            counts,
            refused: self.sent().refused,
            ended: self.crowd.ended,
            said: self.crowd.first_end.iter().chain(&refusal).chain(&self.ledger.said).cloned().collect(),
        })
    }

    fn all_at_once(&mut self, options: &LoadOptions, pace: &mut Pace) -> Result<Connected, BenchError> {
        let (before, own, began) = (self.look()?, own_cpu(), Instant::now());
        let (mut moved, mut last) = (began, 0);
        while !self.crowd.complete() {
            self.send_due(pace)?;
            let most = (self.crowd.under_way + AT_A_TIME).min(options.connecting as usize);
            self.crowd.connect_more(most, self.poll.registry(), self.dialect)?;
            let wait = if self.crowd.under_way == most { Duration::ZERO } else { pace.wait() };
            self.turn(wait.min(Duration::from_millis(20)))?;
            if self.crowd.live != last {
                (moved, last) = (Instant::now(), self.crowd.live);
            } else if moved.elapsed() > STALL_TIMEOUT {
                let all = self.crowd.all.len();
                return Err(BenchError::Server(format!("only {last} of {all} watchers came back")));
            }
        }
        let took = began.elapsed();
        let (after, own) = (self.look()?, own_cpu() - own);
        let (known, watchers) = (self.server.known(), self.crowd.live as u64);
        Ok(Connected { known, watchers, took, before, after, own })
    }

    /// Where feeds end. Of a server that does not number, watchers stand nowhere and are never behind.
    fn ends_after_storm(&self, stands: &[u64]) -> Result<Vec<u64>, BenchError> {
        (0..stands.len()).map(|feed| self.dialect.stands_at(feed).unwrap_or(Ok(0))).collect()
    }
}

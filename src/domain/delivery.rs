//! How a webhook gets through a feed's ledger: which batch is next, and what an answer means. Pure; the
//! loop around it is `work::reports`.
//!
//! One batch of a feed and webhook is under way at a time, so order is kept. A batch is fixed, and kept in the
//! store, before it is sent the first time: any node that sends it again sends the same. A batch that is refused is
//! halved until the entry that is refused alone is found; up to the end of what was refused ([`Suspect`])
//! batches stay that small.

use serde::{Deserialize, Serialize};

use super::{Cursor, Delivery, Entry, HookSpec, Millis};

/// The pauses after the first, second, … time that a delivery failed; the last one again and again.
const PAUSES_MS: [u64; 8] = [5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000];

/// The pause before a batch that was refused is sent a second time.
const REFUSED_PAUSE_MS: u64 = 5_000;

/// The least pause that an endpoint can ask for: one that says 0 is not hammered.
const LEAST_PAUSE_MS: u64 = 1_000;

/// A batch under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Its name, the same for every attempt: `webhook-id`.
    pub id: String,
    /// Its first entry.
    pub first: u64,
    /// How many entries it has.
    pub len: usize,
    /// True when its entries are sent again after they were dead.
    pub again: bool,
    /// In how many batches each of its entries has been, this one included: their `attempt`.
    pub round: u64,
    /// How often it was sent, or was about to be.
    pub tries: u64,
    /// How often it was refused.
    pub refused: u64,
    /// When it was made, in milliseconds since 1970.
    pub since: i64,
    /// It is not sent before. While it is being sent: when the node that sends it has given up for certain, so that
    /// nobody else sends it meanwhile.
    pub not_before: i64,
    /// How long before that this was decided. More than that is left only where the clock was set back since.
    pub pause_ms: u64,
    /// A node is sending it.
    #[serde(default)]
    pub is_held: bool,
}

impl Batch {
    /// It is not sent within `ms` milliseconds from `now`.
    fn wait(&mut self, ms: u64, now: Millis) {
        (self.not_before, self.pause_ms, self.is_held) = (now.plus(ms).0, ms, false);
    }

    /// One more attempt begins: for `hold_ms` nobody else sends it.
    fn attempt(&mut self, hold_ms: u64, now: Millis) {
        self.wait(hold_ms, now);
        self.tries += 1;
        self.is_held = true;
    }
}

/// Entries among which at least one is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// Whether they are among those that are sent again.
    pub again: bool,
    /// The last of them.
    pub until: u64,
    /// Batches up to there have at most this number of entries.
    pub len: usize,
    /// The round of the batches made of them.
    pub round: u64,
}

/// How far a webhook has come in a feed, beside what it has acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is under way.
    pub batch: Option<Batch>,
    /// What is being taken apart.
    pub suspect: Option<Suspect>,
}

/// What there is to send: see `engine::Work`.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a> {
    /// Entries of the ledger.
    pub entries: &'a [Entry],
    /// Entries that are sent again.
    pub again: &'a [Entry],
}

impl<'a> Queues<'a> {
    fn side(self, again: bool) -> &'a [Entry] {
        if again { self.again } else { self.entries }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing is there.
    Nothing,
    /// Nothing for this number of milliseconds.
    Wait(u64),
    /// This number of entries at the front is too old to be sent at all: they are done with.
    Drop {
        /// Of those that are sent again, or of the ledger.
        again: bool,
        /// How many.
        len: usize,
    },
    /// Entries at the front are of types that this webhook is not sent: they are done with.
    Pass {
        /// Of those that are sent again, or of the ledger.
        again: bool,
        /// How many.
        len: usize,
    },
    /// The batch that `Progress` now has under way is to be sent; keep the progress first.
    Send,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// 2xx.
    Accepted,
    /// 410: nothing is to be sent there any more.
    Gone,
    /// 413.
    TooLarge,
    /// Any other 4xx.
    Refused(String),
    /// It may work later. With how long to wait, in milliseconds, when the endpoint said so.
    Failed(String, Option<u64>),
}

/// What an answer changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The batch's entries are done with.
    pub done: bool,
    /// They are dead letters, for this reason.
    pub dead: Option<String>,
}

/// How a failing delivery is treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// How long a batch is tried before it is dead, in milliseconds.
    pub give_up_ms: u64,
    /// Within ±0.2: this one's part of the jitter.
    pub jitter: f64,
}

impl Progress {
    /// Reads what [`Progress::to_line`] wrote. What cannot be read is a new beginning: a batch that was under
    /// way is then sent again under another name, which is allowed and better than standing still.
    pub fn read(line: &str) -> Progress {
        serde_json::from_str(line).unwrap_or_default()
    }

    /// As stores keep it.
    pub fn to_line(&self) -> String {
        if *self == Progress::default() {
            return String::new();
        }
        serde_json::json!(self).to_string()
    }

    /// The entries of the batch under way.
    pub fn batch_of<'a>(&self, queues: Queues<'a>) -> &'a [Entry] {
        match &self.batch {
            Some(batch) => {
                let side = queues.side(batch.again);
                &side[..batch.len.min(side.len())]
            }
            None => &[],
        }
    }

    /// How often the batch under way was sent, if it has the entry of this cursor, which is the `again`th (from 0) of those
    /// that are sent again, or none of them.
    pub fn tries_of(&self, cursor: Cursor, again: Option<usize>) -> Option<u64> {
        let batch = self.batch.as_ref().filter(|batch| batch.again == again.is_some())?;
        let at = again.or_else(|| usize::try_from(cursor.0.checked_sub(batch.first)?).ok())?;
        (at < batch.len).then_some(batch.tries)
    }

    /// Ends a pause after a failure that was decided before `asked_at`, when somebody asked for the webhook to send at once.
    pub fn end_pause(&mut self, asked_at: Millis) {
        if let Some(batch) = self.batch.as_mut().filter(|batch| !batch.is_held) {
            let decided_at = batch.not_before.saturating_sub_unsigned(batch.pause_ms);
            if decided_at <= asked_at.0 {
                batch.not_before = decided_at;
            }
        }
    }

    /// Decides what is next; `id` names a batch that is new. A batch that is to be sent is the caller's for
    /// `hold_ms`, once the progress is kept.
    pub fn next(
        &mut self,
        queues: Queues<'_>,
        spec: &HookSpec,
        (now, hold_ms): (Millis, u64),
        id: &str,
    ) -> Next {
        if let Some(batch) = &self.batch {
            let side = queues.side(batch.again);
            let whole = side.len() >= batch.len && side.first().map(|it| it.cursor.0) == Some(batch.first);
            if !whole || !side[..batch.len].iter().any(|it| spec.wants(it)) {
                // Its front was cut from the ledger, or forgotten, or other types are wanted since: what is left is
                // another batch.
                self.batch = None;
            } else {
                let left = Millis(batch.not_before).since(now);
                if left > 0 && left <= batch.pause_ms {
                    return Next::Wait(left);
                }
            }
        }
        let again = match &self.batch {
            Some(batch) => batch.again,
            None => !queues.again.is_empty(),
        };
        let side = queues.side(again);
        let too_old = side.iter().take_while(|it| is_too_old(it, spec, now)).count();
        if too_old > 0 {
            self.batch = None;
            return Next::Drop { again, len: too_old };
        }
        if let Some(batch) = &mut self.batch {
            batch.attempt(hold_ms, now);
            return Next::Send;
        }
        let unwanted = side.iter().take_while(|it| !spec.wants(it)).count();
        if unwanted > 0 {
            return Next::Pass { again, len: unwanted };
        }
        let Some(oldest) = side.first() else { return Next::Nothing };
        let first = oldest.cursor;
        let suspect = self.suspect.take().filter(|it| it.again != again || first.0 <= it.until);
        let most = spec.batch_max as usize;
        let (len, round) = match suspect.as_ref().filter(|it| it.again == again) {
            Some(it) => {
                let among = side.iter().take_while(|entry| entry.cursor.0 <= it.until).count();
                (among.min(it.len.max(1)).min(most), it.round)
            }
            None => {
                let len = side.len().min(most);
                // One of a time that is still to come is from before the clock was set back.
                let age = if oldest.at > now { spec.batch_ms } else { now.since(oldest.at) };
                if !again && len < most && age < spec.batch_ms {
                    self.suspect = suspect;
                    return Next::Wait(spec.batch_ms - age);
                }
                (len, 1 + u64::from(again))
            }
        };
        self.suspect = suspect;
        let id = id.to_owned();
        let (first, since) = (first.0, now.0);
        let (tries, refused, not_before, pause_ms, is_held) = (0, 0, now.0, 0, false);
        let mut batch =
            Batch { id, first, len, again, round, tries, refused, since, not_before, pause_ms, is_held };
        batch.attempt(hold_ms, now);
        self.batch = Some(batch);
        Next::Send
    }

    /// Takes in what became of the attempt to send `sent`, the entries of the batch under way. `now` is
    /// when the answer came.
    pub fn settle(&mut self, sent: &[Entry], verdict: &Verdict, patience: Patience, now: Millis) -> Settled {
        let Some(batch) = &mut self.batch else { return Settled::default() };
        let (first, last) = match (sent.first(), sent.last()) {
            (Some(first), Some(last)) => (first.cursor, last.cursor),
            _ => (Cursor(batch.first), Cursor(batch.first)),
        };
        debug_assert_eq!(first.0, batch.first);
        match verdict {
            Verdict::Accepted => self.done(last, None),
            Verdict::Gone => {
                batch.wait(0, now);
                Settled::default()
            }
            Verdict::TooLarge if batch.len > 1 => self.halve(last),
            Verdict::TooLarge => self.refused(last, "the endpoint answered 413: too large", now),
            Verdict::Refused(why) => self.refused(last, why, now),
            Verdict::Failed(why, asked) => {
                let tried_for = now.0.saturating_sub(batch.since).max(0) as u64;
                if tried_for >= patience.give_up_ms {
                    let why = format!("tried {} times; the last time: {why}", batch.tries);
                    return self.done(last, Some(why));
                }
                let pause = asked.map(|ms| ms.max(LEAST_PAUSE_MS)).unwrap_or_else(|| {
                    let pause = PAUSES_MS[(batch.tries.max(1) as usize - 1).min(PAUSES_MS.len() - 1)];
                    (pause as f64 * (1.0 + patience.jitter.clamp(-0.2, 0.2))) as u64
                });
                // The last attempt is at the end of the time, not hours before.
                batch.wait(pause.min(patience.give_up_ms - tried_for), now);
                Settled::default()
            }
        }
    }

    fn refused(&mut self, last: Cursor, why: &str, now: Millis) -> Settled {
        let Some(batch) = &mut self.batch else { return Settled::default() };
        batch.refused += 1;
        if batch.refused == 1 {
            batch.wait(REFUSED_PAUSE_MS, now);
            return Settled::default();
        }
        match batch.len {
            0 | 1 => self.done(last, Some(why.to_owned())),
            _ => self.halve(last),
        }
    }

    fn halve(&mut self, last: Cursor) -> Settled {
        let Some(batch) = self.batch.take() else { return Settled::default() };
        let known = self.suspect.take().filter(|it| it.again == batch.again);
        let until = known.map_or(last.0, |it| it.until.max(last.0));
        let (again, len, round) = (batch.again, batch.len.div_ceil(2), batch.round + 1);
        self.suspect = Some(Suspect { again, until, len, round });
        Settled::default()
    }

    fn done(&mut self, last: Cursor, dead: Option<String>) -> Settled {
        let again = self.batch.take().is_some_and(|batch| batch.again);
        self.suspect = self.suspect.take().filter(|it| it.again != again || last.0 < it.until);
        Settled { done: true, dead }
    }
}

fn is_too_old(entry: &Entry, spec: &HookSpec, now: Millis) -> bool {
    spec.delivery == Delivery::BestEffort && spec.max_age_ms > 0 && now.since(entry.at) > spec.max_age_ms
}

#[cfg(test)]
mod tests;

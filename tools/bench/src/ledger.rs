//! What was sent, what arrived where and when: the books of a run.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::histogram::Histogram;

/// Gifts of one feed whose last watcher is waited for; beyond, the oldest are no longer timed.
const UNDER_WAY_MOST: usize = 1 << 20;

/// Faults that are shown in words; the rest are only counted.
const SAID_MOST: usize = 5;

/// What watchers got, in ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came, once and in order.
    pub received: u64,
    /// Left out by a snapshot that moved its watcher on.
    pub folded: u64,
    /// Never came although later ones did.
    pub lost: u64,
    /// Came again.
    pub repeated: u64,
    /// Came after later ones.
    pub out_of_order: u64,
    /// Frames that do not say what they should.
    pub malformed: u64,
    /// Text and binary frames.
    pub frames: u64,
    /// Bytes read from sockets.
    pub bytes: u64,
}

impl Counts {
    /// True when nothing arrived that should not have.
    pub fn clean(&self) -> bool {
        self.lost + self.repeated + self.out_of_order + self.malformed == 0
    }

    /// As the report has it.
    pub fn to_json(self) -> Value {
        json!({
            "received": self.received, "folded": self.folded, "lost": self.lost,
            "repeated": self.repeated, "out_of_order": self.out_of_order,
            "malformed": self.malformed, "frames": self.frames, "bytes": self.bytes,
        })
    }
}

/// The position of a watcher in its feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramePosition {
    /// The newest seq it has.
    pub seq: u64,
    /// Ops that it was counted to have lost, and that might still come late.
    holes: u64,
}

impl FramePosition {
    /// Stands at `seq`, with everything before it.
    pub fn at(seq: u64) -> FramePosition {
        FramePosition { seq, holes: 0 }
    }

    /// Takes ops `first..=last` and counts them.
    #[inline]
    pub fn take(&mut self, first: u64, last: u64, counts: &mut Counts) {
        if first == self.seq + 1 && last >= first {
            counts.received += last - self.seq;
            self.seq = last;
            return;
        }
        self.take_wrong(first, last, counts);
    }

    #[cold]
    fn take_wrong(&mut self, first: u64, last: u64, counts: &mut Counts) {
        for seq in first..=last {
            if seq > self.seq {
                let missing = seq - self.seq - 1;
                counts.lost += missing;
                self.holes += missing;
                counts.received += 1;
                self.seq = seq;
            } else if self.holes > 0 {
                // Which of the missing it is does not matter: it came, and it came too late.
                self.holes -= 1;
                counts.lost -= 1;
                counts.received += 1;
                counts.out_of_order += 1;
            } else {
                counts.repeated += 1;
            }
        }
    }

    /// A list as of `seq` replaces everything: ops up to it are folded. True if it is not older.
    pub fn skip_to(&mut self, seq: u64, counts: &mut Counts) -> bool {
        let Some(skipped) = seq.checked_sub(self.seq) else {
            counts.repeated += 1;
            return false;
        };
        counts.folded += skipped;
        self.seq = seq;
        true
    }
}

/// One change on its way to the watchers of its feed.
#[derive(Clone, Copy, Debug, Default)]
struct Passage {
    /// Nanoseconds of the run; 0 while nobody knows.
    sent: u64,
    last: u64,
    seen: u32,
    folded: bool,
}

/// One feed's gifts.
#[derive(Debug, Default)]
pub struct FeedLog {
    /// When each gift was sent, by its mark from 1 on.
    sent: Vec<u64>,
    /// The changes from `base` on that not every watcher has.
    passages: VecDeque<Passage>,
    base: u64,
    /// The newest seq whose gift is known.
    known: u64,
    /// Watchers whose times count.
    pub watching: u32,
    /// For servers that do not number: the seq of each mark from 1 on, in the order in which marks were
    /// first seen. 0 is not yet.
    numbered: Vec<u64>,
    /// Changes that every counted watcher has, since the start.
    pub settled: u64,
}

impl FeedLog {
    /// A feed that stands at `seq`.
    pub fn at(seq: u64) -> FeedLog {
        FeedLog { base: seq + 1, known: seq, ..FeedLog::default() }
    }

    /// The mark of the next gift, which is sent `now`.
    pub fn send(&mut self, now: u64) -> u64 {
        self.sent.push(now);
        self.sent.len() as u64
    }

    /// How many gifts were sent.
    pub fn sent(&self) -> u64 {
        self.sent.len() as u64
    }

    /// The newest seq that anybody has seen.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Change `seq` shows the gift of this mark; 0 for one of somebody else's.
    pub fn know(&mut self, seq: u64, mark: u64) {
        if seq < self.base {
            return;
        }
        let at = (seq - self.base) as usize;
        if at >= UNDER_WAY_MOST {
            return;
        }
        if self.passages.len() <= at {
            self.passages.resize(at + 1, Passage::default());
        }
        let sent = (mark as usize).checked_sub(1).and_then(|n| self.sent.get(n));
        self.passages[at].sent = sent.copied().unwrap_or(0);
        self.known = self.known.max(seq);
    }

    /// The seq of a mark, for servers that do not number: the order in which marks are first seen.
    /// None for a mark that was never sent.
    pub fn number(&mut self, mark: u64) -> Option<u64> {
        let at = (mark as usize).checked_sub(1).filter(|at| *at < self.sent.len())?;
        if self.numbered.len() < self.sent.len() {
            self.numbered.resize(self.sent.len(), 0);
        }
        if self.numbered[at] == 0 {
            let seq = self.known + 1;
            self.numbered[at] = seq;
            self.know(seq, mark);
        }
        Some(self.numbered[at])
    }

    /// A watcher that is not timed yet never is: for gifts that came while watchers did, nobody can say who was
    /// the last.
    pub fn forget(&mut self) {
        self.base = self.known + 1;
        self.passages.clear();
    }

    /// A counted watcher got `first..=last` at `now`.
    #[inline]
    pub fn arrive(&mut self, first: u64, last: u64, now: u64, times: &mut Times) {
        for seq in first.max(self.base)..=last {
            let Some(passage) = self.passages.get_mut((seq - self.base) as usize) else { break };
            passage.seen += 1;
            passage.last = now;
            if passage.sent > 0 {
                times.to_watcher.record(now.saturating_sub(passage.sent));
            }
        }
        self.settle(times);
    }

    /// A counted watcher was moved past `first..=last` by a list.
    pub fn fold(&mut self, first: u64, last: u64, times: &mut Times) {
        if last >= self.base {
            let most = ((last - self.base) as usize + 1).min(UNDER_WAY_MOST);
            if self.passages.len() < most {
                self.passages.resize(most, Passage::default());
            }
        }
        for seq in first.max(self.base)..=last {
            let Some(passage) = self.passages.get_mut((seq - self.base) as usize) else { break };
            passage.seen += 1;
            passage.folded = true;
        }
        self.settle(times);
    }

    #[inline]
    fn settle(&mut self, times: &mut Times) {
        while let Some(front) = self.passages.front() {
            let all = front.seen >= self.watching;
            if !all && self.passages.len() < UNDER_WAY_MOST {
                return;
            }
            if all && !front.folded && front.sent > 0 {
                times.to_last.record(front.last.saturating_sub(front.sent));
            }
            self.passages.pop_front();
            self.base += 1;
            self.settled += 1;
        }
    }
}

/// The times of a run, from the moment before sending.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// To each watcher.
    pub to_watcher: Histogram,
    /// To the last watcher of each gift.
    pub to_last: Histogram,
    /// To the producer's answer.
    pub to_answer: Histogram,
}

/// The books.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By feed.
    pub feeds: Vec<FeedLog>,
    /// All watchers together.
    pub counts: Counts,
    /// All watchers that are not stalled.
    pub times: Times,
    /// The first things that were wrong, in words.
    pub said: Vec<String>,
}

impl Ledger {
    /// Keeps a few words about what is wrong.
    pub fn say(&mut self, wrong: String) {
        if self.said.len() < SAID_MOST {
            self.said.push(wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(moves: &[(u64, u64)]) -> Counts {
        let (mut place, mut counts) = (FramePosition::at(10), Counts::default());
        moves.iter().for_each(|(first, last)| place.take(*first, *last, &mut counts));
        counts
    }

    #[test]
    fn ops_in_order_are_received_and_nothing_else() {
        let counts = after(&[(11, 11), (12, 20), (21, 21)]);
        assert_eq!(counts, Counts { received: 11, ..Counts::default() });
        assert!(counts.clean());
    }

    #[test]
    fn a_hole_is_a_loss_and_what_fills_it_late_is_out_of_order() {
        let hole = after(&[(11, 11), (14, 14)]);
        assert_eq!((hole.received, hole.lost, hole.clean()), (2, 2, false));
        let filled = after(&[(11, 11), (14, 14), (12, 12)]);
        assert_eq!((filled.received, filled.lost, filled.out_of_order), (3, 1, 1));
    }

    #[test]
    fn an_op_that_comes_again_is_repeated() {
        let counts = after(&[(11, 13), (12, 14)]);
        assert_eq!((counts.received, counts.repeated, counts.lost), (4, 2, 0));
        assert!(!counts.clean());
        assert_eq!(after(&[(10, 10)]).repeated, 1);
    }

    #[test]
    fn a_list_folds_what_it_skips_and_an_older_one_is_a_fault() {
        let (mut place, mut counts) = (FramePosition::at(10), Counts::default());
        assert!(place.skip_to(15, &mut counts));
        place.take(16, 16, &mut counts);
        assert_eq!((counts.folded, counts.received, counts.clean()), (5, 1, true));
        assert!(!place.skip_to(12, &mut counts));
        assert!(!counts.clean());
    }

    #[test]
    fn a_gift_is_settled_when_its_last_watcher_has_it() {
        let (mut feed, mut times) = (FeedLog::at(100), Times::default());
        feed.watching = 2;
        let mark = feed.send(1_000);
        feed.know(101, mark);
        feed.arrive(101, 101, 3_000, &mut times);
        assert_eq!((feed.settled, times.to_last.count()), (0, 0));
        feed.arrive(101, 101, 9_000, &mut times);
        assert_eq!((feed.settled, times.to_last.count(), times.to_watcher.count()), (1, 1, 2));
        assert_eq!(times.to_last.quantile(1.0).as_nanos(), 8_000);
    }

    #[test]
    fn a_folded_gift_is_settled_and_not_timed() {
        let (mut feed, mut times) = (FeedLog::at(0), Times::default());
        feed.watching = 2;
        let mark = feed.send(1_000);
        feed.know(1, mark);
        feed.arrive(1, 1, 3_000, &mut times);
        feed.fold(1, 4, &mut times);
        assert_eq!((feed.settled, times.to_last.count()), (1, 0));
        // The other watcher gets them one by one.
        (2..=4).for_each(|seq| feed.arrive(seq, seq, 4_000, &mut times));
        assert_eq!(feed.settled, 4);
    }

    #[test]
    fn marks_of_a_server_that_does_not_number_are_numbered_as_they_are_first_seen() {
        let mut feed = FeedLog::at(0);
        (0..3).for_each(|_| _ = feed.send(5));
        assert_eq!([3, 1, 3, 2].map(|mark| feed.number(mark)), [Some(1), Some(2), Some(1), Some(3)]);
        assert_eq!((feed.number(4), feed.number(0)), (None, None));
    }
}

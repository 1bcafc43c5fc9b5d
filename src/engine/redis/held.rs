//! What a feed holds, as far as plain gifts change it, and what it holds after some: the texts that `lua/ready_publish.lua`
//! writes. They are those that `lua/plain_write.lua` makes, byte for byte; a test compares them.

use super::known::Mark;
use super::wire;
use crate::domain::json::push_number;
use crate::domain::{EntryStatus, Epoch, Gift, Millis, Position, Row, RowId, Tag};
use crate::engine::record::{push_entry, push_row};

/// A list whose text is longer is not remembered: so much is kept for each of many feeds.
const LIST_BYTES: usize = 4_096;

/// How much longer than its time what expires is kept by the store.
pub(super) const GRACE: u64 = 60_000;

/// What a policy says of plain gifts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    pub history: u64,
    pub idempotency_window_ms: u64,
    /// 0 where no lock is taken.
    pub dedup_window_ms: u64,
    /// Entries of the ledger that are kept though nobody reads.
    pub ledger_max: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    epoch: Epoch,
    seq: u64,
    tag: Tag,
    covered: u64,
    count: u64,
    born: String,
    pub capacity: u64,
    /// The list's text.
    list: String,
    pub policy: String,
    reports: Reports,
    /// How many entries the ledger has.
    entries: u64,
}

/// The text of `reports`, where no webhook rests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reports {
    text: String,
    limit: u64,
    hooks: u64,
    readers: u64,
    /// `START` and `BASE`; none in what older versions wrote, where nobody reads.
    numbers: Option<(u64, u64)>,
}

impl Reports {
    fn read(text: &str) -> Option<Reports> {
        let mut parts = text.split(' ');
        let (limit, hooks, rests) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
        let readers = number(parts.next()?)?;
        let numbers = parts.next().and_then(number).zip(parts.next().and_then(number));
        let whole = rests == "-" && (numbers.is_some() || readers == 0);
        whole.then(|| Reports { text: text.to_owned(), limit, hooks, readers, numbers })
    }

    /// After so many more entries; `entries` is how many there are then. None when that is more than may be reckoned.
    fn after(&self, more: u64, entries: u64, ledger_max: u64) -> Option<(Reports, u64)> {
        let Reports { limit, hooks, readers, .. } = *self;
        if entries <= limit && readers == 0 {
            return Some((self.clone(), entries));
        }
        let (start, base) = self.numbers?;
        let mut next = self.clone();
        let mut left = entries;
        if entries > limit {
            if readers > 0 || ledger_max == 0 || entries - more > limit {
                return None;
            }
            next.limit = ledger_max + (ledger_max / 32).min(256);
            next.numbers = Some((start, base + entries - ledger_max));
            left = ledger_max;
        }
        let (start, base) = next.numbers?;
        next.text = format!("{} {hooks} - {readers} {start} {base} {left}", next.limit);
        Some((next, left))
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// What is written of some gifts.
pub(super) struct Written {
    /// What the feed must hold.
    pub known_meta: String,
    pub known_reports: String,
    /// How long the ledger may be; and where it is to be cut, or somebody reads it, how many do and what stays.
    pub limit: u64,
    pub cut: Option<(u64, u64)>,
    /// How many changes the history must hold at least.
    pub keep: u64,
    /// And what it holds then.
    pub list: String,
    pub meta: String,
    pub message: String,
    pub id_px: u64,
    pub lock_px: Option<u64>,
    /// Of each gift: entry, change, answer, lock.
    pub gifts: Vec<[String; 4]>,
    /// Rows that leave it.
    pub gone: Vec<String>,
    /// The last change.
    pub mark: Mark,
}

impl Held {
    /// What `ready_look` answered; none where plain gifts are not all that there is to it.
    pub fn read(meta: &str, list: &str, policy: &str, reports: &str, entries: &str) -> Option<Held> {
        let [epoch, seq, tag, covered, count, "-", born, "0", capacity] =
            meta.split(' ').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let held = Held {
            epoch: epoch.parse().ok()?,
            seq: number(seq)?,
            tag: number(tag)?,
            covered: number(covered)?,
            count: number(count)?,
            born: born.to_owned(),
            capacity: number(capacity)?,
            list: list.to_owned(),
            policy: policy.to_owned(),
            reports: Reports::read(reports)?,
            entries: number(entries)?,
        };
        let lines = list.split('\n').filter(|line| !line.is_empty()).count() as u64;
        let whole = held.meta() == meta && lines == held.count && list.len() <= LIST_BYTES;
        whole.then_some(held)
    }

    /// The last change.
    pub fn mark(&self) -> Mark {
        Mark { at: Position { epoch: self.epoch.clone(), seq: self.seq }, tag: self.tag }
    }

    /// The version of the webhooks of all feeds that was brought here.
    pub fn hooks(&self) -> u64 {
        self.reports.hooks
    }

    fn meta(&self) -> String {
        let Held { epoch, seq, tag, covered, count, born, capacity, .. } = self;
        format!("{epoch} {seq} {tag} {covered} {count} - {born} 0 {capacity}")
    }

    /// Takes the gifts, which are plain, at this time; `tag` is their mark. None, and nothing is taken, where that is more
    /// than may be reckoned.
    pub fn take(&mut self, gifts: &[Gift], tag: Tag, now: Millis, lasting: &Lasting) -> Option<Written> {
        let more = gifts.len() as u64;
        let Reports { limit, readers, .. } = self.reports;
        let (reports, entries) = self.reports.after(more, self.entries + more, lasting.ledger_max)?;
        let known_meta = self.meta();
        let known_reports = match self.policy.as_str() {
            "" => self.reports.text.clone(),
            policy => format!("{}\n{policy}", self.reports.text),
        };
        let cut = (reports != self.reports).then_some((readers, lasting.ledger_max));
        let last = self.seq + more;
        let stays_from = more.saturating_sub(self.capacity);
        let (id_til, lock_til) =
            (now.0 as u64 + lasting.idempotency_window_ms, now.0 as u64 + lasting.dedup_window_ms);
        let mut message = format!("live {} {more}\n=\n", self.epoch);
        let mut written: Vec<[String; 4]> = Vec::with_capacity(gifts.len());
        let mut lines = Vec::new();
        for (at, gift) in (0..).zip(gifts) {
            let seq = self.seq + 1 + at;
            let id = RowId::of(&self.epoch, seq);
            let row = Row::start(id.clone(), seq, gift, now, 0);
            let mut row_text = String::with_capacity(384);
            push_row(&mut row_text, &row);
            let mut change = String::with_capacity(row_text.len() + 64);
            push_number(&mut change, seq as i64);
            let prev = if at == 0 { self.tag } else { tag };
            change.push_str(&format!(" {prev} {tag} add\n{row_text}"));
            message.push_str(&change);
            let mut entry = String::with_capacity(384);
            push_entry(&mut entry, gift, EntryStatus::Accepted, Some(seq), Some(&id), now);
            let answer = wire::accepted(id_til, gift, &self.epoch, seq, &id);
            let lock = match lasting.dedup_window_ms {
                0 => String::new(),
                _ => format!("{lock_til} {id} {}", self.born),
            };
            written.push([entry, change, answer, lock]);
            if at >= stays_from {
                lines.push(id.to_string());
            }
        }
        let gone = self.drop_last((self.count + more).saturating_sub(self.capacity).min(self.count));
        let stay = lines.len() as u64;
        lines.reverse();
        if self.count > 0 {
            lines.push(std::mem::take(&mut self.list));
        }
        self.list = lines.join("\n");
        self.count += stay;
        (self.seq, self.tag, self.reports, self.entries) = (last, tag, reports, entries);
        self.covered = self.covered.max(last.saturating_sub(lasting.history));
        Some(Written {
            known_meta,
            known_reports,
            limit,
            cut,
            keep: last - self.covered,
            list: self.list.clone(),
            meta: self.meta(),
            message,
            id_px: lasting.idempotency_window_ms + GRACE,
            lock_px: (lasting.dedup_window_ms > 0).then_some(lasting.dedup_window_ms + GRACE),
            gifts: written,
            gone,
            mark: self.mark(),
        })
    }

    /// Takes so many lines off the list's end: the ids of their rows.
    fn drop_last(&mut self, lines: u64) -> Vec<String> {
        let mut gone = Vec::new();
        for _ in 0..lines {
            let at = self.list.rfind('\n');
            let line = self.list.split_off(at.map_or(0, |at| at + 1));
            self.list.truncate(at.unwrap_or(0));
            gone.push(line.split(' ').next().unwrap_or_default().to_owned());
            self.count -= 1;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_all_plain_is_not_reckoned() {
        let held = |meta, list, reports| Held::read(meta, list, "", reports, "7");
        let reports = "10 0 - 0 0 0 7";
        let whole = held("e 3 9 0 2 - e 0 10", "e-3\ne-2 [\"a b\"]", reports).unwrap();
        assert_eq!(whole.mark().at.seq, 3);
        for (meta, list, reports) in [
            ("e 3 9 0 1 - e 0 10", "e-3\ne-2", reports),
            ("e 3 9 0 2 5 e 0 10", "e-3\ne-2", reports),
            ("e 3 9 0 2 - e 7 10", "e-3\ne-2", reports),
            ("e 03 9 0 2 - e 0 10", "e-3\ne-2", reports),
            ("e 3 9 0 2 - e 0", "e-3\ne-2", reports),
            ("e 3 9 0 2 - e 0 10", "e-3\ne-2", "10 0 w:a,1,2 0 0 0 7"),
            ("e 3 9 0 2 - e 0 10", "e-3\ne-2", "10 0 - 1 0"),
            ("e 3 9 0 2 - e 0 10", "e-3\ne-2", ""),
        ] {
            assert_eq!(held(meta, list, reports), None, "{meta:?} {list:?} {reports:?}");
        }
        let long = format!("e-3 {}\ne-2", "x".repeat(LIST_BYTES));
        assert_eq!(held("e 3 9 0 2 - e 0 10", &long, reports), None);
    }

    #[test]
    fn a_ledger_is_cut_once_it_is_longer_than_its_limit_and_never_where_somebody_reads() {
        let after = |text: &str, more, entries, max| {
            let (reports, left) = Reports::read(text)?.after(more, entries, max)?;
            Some((reports.text, left))
        };
        let text = |text: &str, left| Some((text.to_owned(), left));
        assert_eq!(after("66 4 - 0 0 5 9", 1, 66, 64), text("66 4 - 0 0 5 9", 66));
        assert_eq!(after("66 4 - 0 0 5 9", 1, 67, 64), text("66 4 - 0 0 8 64", 64));
        assert_eq!(after("66 4 - 0 0 5 9", 1, 68, 64), None, "it was too long before");
        assert_eq!(after("66 4 - 0 0 5 9", 1, 67, 0), None);
        assert_eq!(after("66 4 - 2 0 5 9", 1, 67, 64), None);
        assert_eq!(after("66 4 - 2 0 5 9", 1, 10, 64), text("66 4 - 2 0 5 10", 10));
        assert_eq!(after("66 4 - 0", 1, 10, 64), text("66 4 - 0", 10));
    }
}

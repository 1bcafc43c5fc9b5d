//! The oracle's reports: the contract's section 6 written down a second time, as plainly as possible.
//! Every reader has its own copies; a ledger keeps no entry more than it must.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tipcast::domain::delivery::Progress;
use tipcast::domain::story::EntryState;
use tipcast::domain::{
    Answer, Ask, Claim, Cursor, DeadLetter, Delta, DropId, Entry, EntryStatus, Gift, GroupId, GroupView,
    Handed, HoldId, Hook, HookId, Millis, Pay, Reader, Replay, Sale, Show, Start, Status, Taken,
};
use tipcast::engine::{READERS_MAX, ReportLimits, Save, Want, Work};

use super::Feed;
use super::moderation::Made;

mod store;

/// A feed's ledger and those who read it.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) entries: Vec<Entry>,
    next: u64,
    readers: BTreeMap<Reader, Reading>,
    pub(super) stirred: bool,
}

/// What a reader has.
#[derive(Clone, Default)]
struct Reading {
    /// The last number that it was handed, or is done with.
    handed: u64,
    /// The first number that it reads.
    began: u64,
    lost: u64,
    /// What it is still to get: from, to, how many.
    untold: Option<(u64, u64, u64)>,
    /// What was lost last, announced or not.
    gone: Option<(u64, u64)>,
    held: BTreeMap<u64, Held>,
    letters: Vec<DeadLetter>,
    again: BTreeMap<u64, Entry>,
    progress: String,
    batch_ms: u64,
    /// When it is looked at, and the token of the turn that is under way.
    job: Option<(Millis, String)>,
}

#[derive(Clone)]
struct Held {
    entry: Entry,
    until: Millis,
    attempts: u64,
    /// Beside the ledger: trimming does not touch it.
    replayed: bool,
}

impl Reading {
    fn unread<'a>(&self, entries: &'a [Entry]) -> Vec<&'a Entry> {
        entries.iter().filter(|entry| entry.cursor.0 > self.handed).collect()
    }

    /// `base` is the number of the ledger's first entry: letters from there on stay, of those before it the oldest make room.
    fn bury(&mut self, letter: DeadLetter, base: u64, limits: &ReportLimits) {
        self.letters.push(letter);
        let over = (self.letters.len() as u64).saturating_sub(limits.dead_max).min(16) as usize;
        let gone: Vec<u64> =
            self.letters[..over].iter().map(|it| it.entry.cursor.0).filter(|no| *no < base).collect();
        self.letters.retain(|letter| !gone.contains(&letter.entry.cursor.0));
        for no in gone {
            let (from, to, count) = self.untold.unwrap_or((no, no, 0));
            self.untold = Some((from.min(no), to.max(no), count + 1));
            self.gone = Some((from.min(no), to.max(no)));
            self.lost += 1;
        }
    }
}

impl Feed {
    pub(super) fn enter_gift(&mut self, gift: &Gift, answer: &Answer, now: Millis) {
        if gift.test {
            return;
        }
        let (status, seq) = match answer.status {
            Status::Accepted => (EntryStatus::Accepted, Some(answer.at.seq)),
            Status::Merged => (EntryStatus::Merged, Some(answer.at.seq)),
            Status::Suppressed => (EntryStatus::Suppressed, None),
            Status::Denied => (EntryStatus::Denied, None),
        };
        let mut event = json!({"id": gift.id.to_string(), "count": gift.count});
        event["user"] = serde_json::from_str(&gift.user.to_json()).unwrap();
        event["gift"] = serde_json::from_str(&gift.gift.to_json()).unwrap();
        if let Some(value) = &gift.value {
            event["value"] = json!({"amount": value.amount, "currency": value.currency});
        }
        if let Some(combo) = &gift.combo {
            event["combo"] = json!({"id": combo.id, "count": combo.count});
            if combo.end {
                event["combo"]["end"] = json!(true);
            }
        }
        let mut set = |field: &str, value: Option<Value>| {
            value.into_iter().for_each(|value| event[field] = value);
        };
        set("message", gift.message.clone().map(Value::from));
        set("tier", gift.tier.map(Value::from));
        set("occurred_at", gift.occurred_at.map(|at| json!(at.to_string())));
        set("meta", gift.meta.as_ref().map(|meta| serde_json::from_str(meta).unwrap()));
        match gift.show {
            Show::ByPolicy => {}
            Show::After(ms) => set("delay_ms", Some(json!(ms))),
            Show::At(at) => set("deliver_at", Some(json!(at.to_string()))),
        }
        let delta = self.brought[&gift.id].given.clone();
        self.enter((status, seq), answer.row.clone(), event, delta, now);
    }

    pub(super) fn enter_sale(
        &mut self,
        drop: &DropId,
        (claim, value): (&Claim, &Option<tipcast::domain::Value>),
        sale: &Sale,
        now: Millis,
    ) {
        let mut event = json!({"id": claim.id.sent().to_string(), "count": claim.count});
        event["user"] = serde_json::from_str(&claim.user.to_json()).unwrap();
        event["gift"] = serde_json::from_str(&self.gift_of(drop)).unwrap();
        if let Some(message) = &claim.message {
            event["message"] = json!(message);
        }
        let money = value.as_ref().map(|value| (value.amount as i64, value.currency.clone()));
        if let Some((amount, currency)) = &money {
            event["value"] = json!({"amount": amount, "currency": currency});
        }
        let delta = Delta { count: claim.count as i64, value: money };
        let who = json!({"id": event["id"], "user": event["user"], "gift": event["gift"]});
        let made = Made::Sale(drop.clone(), who, delta.clone());
        self.made.entry(sale.row.clone()).or_default().push(made);
        self.enter((EntryStatus::Sold, Some(sale.at.seq)), Some(sale.row.clone()), event, delta, now);
        let entry = self.ledger.entries.last_mut().unwrap();
        entry.drop = Some(drop.clone());
        entry.hold =
            (claim.pay == Pay::Later).then(|| HoldId { drop: drop.clone(), claim: claim.id.clone() });
    }

    pub(super) fn enter(
        &mut self,
        (status, seq): (EntryStatus, Option<u64>),
        row: Option<tipcast::domain::RowId>,
        event: Value,
        delta: Delta,
        at: Millis,
    ) {
        let ledger = &mut self.ledger;
        if ledger.next == 0 {
            ledger.next = Cursor::first(at).0;
            ledger.readers.values_mut().for_each(|reading| reading.handed = ledger.next - 1);
        }
        let cursor = Cursor(ledger.next);
        ledger.next += 1;
        ledger.stirred = true;
        let gift = event.to_string().into();
        let (delta, drop, hold, trace) = (Some(delta), None, None, None);
        ledger.entries.push(Entry {
            cursor,
            status,
            at,
            seq,
            row,
            gift,
            delta,
            reason: None,
            drop,
            hold,
            trace,
        });
        for (reader, reading) in &mut ledger.readers {
            if reading.job.is_none() && !matches!(reader, Reader::Group(_)) {
                reading.job = Some((at.plus(reading.batch_ms), String::new()));
            }
        }
    }
}

impl Ledger {
    pub(super) fn is_read(&self) -> bool {
        !self.readers.is_empty()
    }

    /// One too many is not let in.
    fn own_readers(&self) -> usize {
        self.readers.keys().filter(|reader| !matches!(reader, Reader::HookOfAll(_))).count()
    }

    /// A webhook of all feeds reads what came since it was made.
    pub(super) fn join(&mut self, hook: &HookId, spec: &Hook) {
        let reader = Reader::HookOfAll(hook.clone());
        if self.readers.contains_key(&reader) {
            return;
        }
        let since = self.entries.iter().find(|entry| entry.at.0 >= spec.since);
        let first = since.map_or(self.next, |entry| entry.cursor.0);
        let batch_ms = spec.spec.batch_ms;
        let job = since.map(|entry| (entry.at.plus(batch_ms), String::new()));
        let handed = first.saturating_sub(1);
        self.readers.insert(reader, Reading { handed, began: first, batch_ms, job, ..Reading::default() });
    }

    pub(super) fn trim(&mut self, limits: &ReportLimits) {
        let now = self.entries.last().map_or(Millis(0), |entry| entry.at);
        while self.entries.len() as u64 > limits.ledger_max {
            let oldest = self.entries[0].cursor.0;
            let wants = |reading: &Reading| {
                reading.handed < oldest || reading.held.get(&oldest).is_some_and(|held| !held.replayed)
            };
            let old = limits.max_age_ms > 0 && now.since(self.entries[0].at) > limits.max_age_ms;
            let too_many = self.entries.len() as u64 > limits.backlog_max;
            if self.readers.values().any(wants) && !old && !too_many {
                return;
            }
            for reading in self.readers.values_mut().filter(|reading| wants(reading)) {
                if reading.handed < oldest {
                    let (from, _, count) = reading.untold.unwrap_or((oldest, 0, 0));
                    reading.untold = Some((from, oldest, count + 1));
                    reading.gone = Some((from, oldest));
                }
                reading.held.remove(&oldest);
                reading.handed = reading.handed.max(oldest);
                reading.lost += 1;
            }
            self.entries.remove(0);
        }
    }

    fn take(&mut self, group: &GroupId, ask: Ask, now: Millis, limits: &ReportLimits) -> Option<Taken> {
        let reader = Reader::Group(group.clone());
        if !self.readers.contains_key(&reader) {
            if self.own_readers() >= READERS_MAX {
                return None;
            }
            let kept = (self.entries.len() as u64).min(limits.ledger_max);
            let first = if ask.from == Start::Start { self.next - kept } else { self.next };
            let handed = first.saturating_sub(1);
            self.readers.insert(reader.clone(), Reading { handed, began: first, ..Reading::default() });
        }
        let base = self.entries.first().map_or(self.next, |entry| entry.cursor.0);
        let reading = self.readers.get_mut(&reader).unwrap();
        reading.tell_lost(true, now);
        let mut entries = vec![];
        let until = now.plus(ask.lease_ms);
        for no in reading.held.keys().copied().collect::<Vec<_>>() {
            let held = reading.held.get_mut(&no).unwrap();
            if held.until > now || entries.len() == ask.max {
                continue;
            }
            if held.attempts >= limits.max_attempts {
                let (attempts, reason) = (held.attempts, "it was handed out too often".into());
                let letter = DeadLetter { died_at: now, reason, attempts, entry: held.entry.clone() };
                reading.held.remove(&no);
                reading.bury(letter, base, limits);
                continue;
            }
            (held.until, held.attempts) = (until, held.attempts + 1);
            entries.push(Handed { entry: held.entry.clone(), attempt: held.attempts });
        }
        for entry in reading.unread(&self.entries).into_iter().take(ask.max - entries.len()) {
            let held = Held { entry: entry.clone(), until, attempts: 1, replayed: false };
            reading.held.insert(entry.cursor.0, held);
            reading.handed = entry.cursor.0;
            entries.push(Handed { entry: entry.clone(), attempt: 1 });
        }
        let first = reading.held.values().map(|held| held.until).min();
        Some(Taken { entries, next_in_ms: first.map(|at| at.since(now)) })
    }

    fn view(&self, reading: &Reading, now: Millis) -> GroupView {
        let unread = reading.unread(&self.entries);
        let held = reading.held.values().map(|held| &held.entry);
        let oldest = held.chain(unread.iter().copied()).min_by_key(|entry| entry.cursor);
        GroupView {
            lag: unread.len() as u64,
            pending: reading.held.len() as u64,
            oldest_ms: oldest.map_or(0, |entry| now.since(entry.at)),
            dead: reading.letters.len() as u64,
            lost: reading.lost,
        }
    }

    fn work(&mut self, reader: &Reader, want: Want, now: Millis) -> Work {
        let reading = self.readers.get_mut(reader).unwrap();
        reading.tell_lost(false, now);
        let unread = reading.unread(&self.entries);
        if unread.is_empty() && reading.again.is_empty() {
            reading.job = None;
        }
        Work {
            progress: reading.progress.clone(),
            backlog: unread.len() as u64,
            entries: unread.into_iter().take(want.most).cloned().collect(),
            again: reading.again.values().take(want.most).cloned().collect(),
            now,
            look_ms: None,
        }
    }
}

impl Reading {
    fn state_of(&self, cursor: Cursor) -> Option<EntryState> {
        if let Some(letter) = self.letters.iter().find(|it| it.entry.cursor == cursor) {
            return Some(EntryState::Dead { attempts: letter.attempts, reason: letter.reason.clone() });
        }
        if cursor.0 < self.began {
            return None;
        }
        if let Some(held) = self.held.get(&cursor.0) {
            return Some(EntryState::Pending(held.attempts));
        }
        let again = self.again.keys().position(|no| *no == cursor.0);
        if again.is_none() && self.gone.is_some_and(|(from, to)| (from..=to).contains(&cursor.0)) {
            return Some(EntryState::Lost);
        }
        if again.is_none() && cursor.0 <= self.handed {
            return Some(EntryState::Acknowledged);
        }
        let tries = Progress::read(&self.progress).tries_of(cursor, again);
        Some(tries.map_or(EntryState::Waiting, EntryState::Pending))
    }

    fn tell_lost(&mut self, is_group: bool, now: Millis) {
        let Some((from, to, count)) = self.untold.take() else { return };
        let entry = Entry {
            cursor: Cursor(to),
            status: EntryStatus::Lost,
            at: now,
            seq: None,
            row: None,
            gift: json!({"from": from.to_string(), "to": to.to_string(), "count": count}).to_string().into(),
            delta: None,
            reason: None,
            drop: None,
            hold: None,
            trace: None,
        };
        match is_group {
            true => {
                let held = Held { entry, until: Millis(0), attempts: 0, replayed: true };
                drop(self.held.insert(to, held));
            }
            false => drop(self.again.insert(to, entry)),
        }
    }

    fn replay(&mut self, reader: &Reader, which: &Replay, now: Millis) -> u64 {
        self.tell_lost(matches!(reader, Reader::Group(_)), now);
        let wanted =
            |letter: &DeadLetter| !matches!(which, Replay::Only(all) if !all.contains(&letter.entry.cursor));
        let (back, stay): (Vec<_>, Vec<_>) = self.letters.drain(..).partition(wanted);
        self.letters = stay;
        for DeadLetter { entry, .. } in back.iter().cloned() {
            let no = entry.cursor.0;
            if let Reader::Group(_) = reader {
                self.held.insert(no, Held { entry, until: Millis(0), attempts: 0, replayed: true });
                continue;
            }
            self.again.insert(no, entry);
            match &mut self.job {
                Some((at, token)) if token.is_empty() => *at = now.min(*at),
                Some(_) => {}
                None => self.job = Some((now, String::new())),
            }
        }
        back.len() as u64
    }

    fn save(&mut self, entries: &[Entry], save: Save, now: Millis, limits: &ReportLimits) {
        let through = save.through.map_or(0, |through| through.0);
        let finished: Vec<Entry> =
            self.unread(entries).into_iter().filter(|entry| entry.cursor.0 <= through).cloned().collect();
        let sent: Vec<Entry> = save.again.iter().filter_map(|cursor| self.again.remove(&cursor.0)).collect();
        for death in save.dead {
            let found = finished.iter().chain(&sent).find(|entry| entry.cursor == death.cursor);
            if let Some(entry) = found.cloned() {
                let (attempts, reason) = (death.attempts, death.reason);
                let base = entries.first().map_or(u64::MAX, |entry| entry.cursor.0);
                self.bury(DeadLetter { died_at: now, reason, attempts, entry }, base, limits);
            }
        }
        if let Some(last) = finished.last() {
            self.handed = last.cursor.0;
        }
        self.progress = save.progress;
    }
}

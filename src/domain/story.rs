//! One gift's story: what is remembered of it, and what its feed's readers have done with it (contract section 6).

use std::fmt::Write;

use super::answer::GiftFate;
use super::json::push_string;
use super::{Cursor, Entry, EntryStatus, Gift, GiftId, Millis, Reader, RowId};

/// What a store remembers of a gift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiftMemory {
    /// What became of it.
    pub fate: GiftFate,
    /// Whether it was taken back, by its id or with its row.
    pub is_retracted: bool,
    /// How much of its value was refunded, in minor units.
    pub refunded: u64,
    /// When it was taken, cancelled, or began to wait; off where the feed's idempotency window was another since.
    pub at: Millis,
    /// The gift, while it waits.
    pub waiting: Option<Gift>,
    /// The number of its first entry. A test gift has no entry, nor has a gift that waits.
    pub first: Option<Cursor>,
}

impl GiftMemory {
    /// Whether these entries of the gift, the oldest first, are all there are: they add up to what is remembered.
    pub fn is_complete_with(&self, entries: &[Entry]) -> bool {
        let refunded = entries.iter().filter(|it| it.status == EntryStatus::Refunded);
        let amounts = refunded.filter_map(|it| Some(it.delta.as_ref()?.value.as_ref()?.0.unsigned_abs()));
        let is_taken = entries.iter().any(|it| it.status == EntryStatus::Retracted);
        let has_event =
            entries.iter().any(|it| !matches!(it.status, EntryStatus::Retracted | EntryStatus::Refunded));
        has_event && (is_taken || !self.is_retracted && amounts.sum::<u64>() >= self.refunded)
    }
}

/// What a reader of a ledger has done with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It was not handed the entry, or not sent it, yet; or not again.
    Waiting,
    /// The reader has the entry in hand, or is being sent it. How often that happened by now.
    Pending(u64),
    /// It is done with it.
    Acknowledged,
    /// The entry was cut before the reader was handed it.
    Lost,
    /// The entry was given up.
    Dead {
        /// How often it was handed out or sent.
        attempts: u64,
        /// Why.
        reason: String,
    },
}

/// A gift's story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiftStory {
    /// Its id.
    pub id: GiftId,
    /// What is remembered.
    pub memory: GiftMemory,
    /// Its entries, the oldest first.
    pub entries: Vec<Entry>,
    /// Readers, what each has done with the newest entry that is for it, and the last error of a webhook.
    pub readers: Vec<(Reader, EntryState, Option<String>)>,
}

impl GiftStory {
    /// Whether `entry` is one of the gift of this id. A sale's id is not a gift's.
    pub fn takes(id: &GiftId, entry: &Entry) -> bool {
        !matches!(entry.status, EntryStatus::Sold | EntryStatus::Goal | EntryStatus::Lost)
            && entry.drop.is_none()
            && entry.gift_id().as_deref() == Some(id.as_str())
    }

    fn status(&self) -> &'static str {
        let is_retracted = self.entries.iter().any(|entry| entry.status == EntryStatus::Retracted);
        match &self.memory.fate {
            GiftFate::Waits(_) => "scheduled",
            GiftFate::Cancelled(_) => "cancelled",
            GiftFate::InReview { .. } => "in_review",
            GiftFate::Taken(_) if is_retracted || self.memory.is_retracted => "retracted",
            GiftFate::Taken(answer) => answer.status.as_str(),
        }
    }

    /// As the API answers it.
    pub fn to_json(&self) -> String {
        let GiftStory { id, memory, entries, readers } = self;
        let mut out = format!("{{\"id\":\"{id}\",\"status\":\"{}\"", self.status());
        let event =
            entries.iter().find(|it| !matches!(it.status, EntryStatus::Retracted | EntryStatus::Refunded));
        if let Some(gift) = &memory.waiting {
            out.push_str(",\"gift\":");
            gift.push_json(&mut out);
        } else if let Some(entry) = event {
            let _ = write!(out, ",\"gift\":{}", entry.gift);
        }
        let mut deliver_at = None;
        match &memory.fate {
            GiftFate::Taken(answer) => {
                if let Some(row) = answer.row.as_ref().map(RowId::as_str) {
                    let _ = write!(out, ",\"row\":\"{row}\"");
                }
                if answer.tells_seq() {
                    let _ = write!(out, ",\"seq\":{}", answer.at.seq);
                }
            }
            GiftFate::Waits(it) | GiftFate::Cancelled(it) => deliver_at = Some(it.deliver_at),
            GiftFate::InReview { .. } => {}
        }
        let _ = write!(out, ",\"at\":\"{}\"", event.map_or(memory.at, |entry| entry.at));
        if let Some(at) = deliver_at {
            let _ = write!(out, ",\"deliver_at\":\"{at}\"");
        }
        out.push_str(",\"entries\":[");
        for (n, entry) in entries.iter().enumerate() {
            let (comma, kind) = (if n > 0 { "," } else { "" }, entry.status.kind());
            let _ = write!(
                out,
                "{comma}{{\"cursor\":\"{}\",\"type\":\"{kind}\",\"at\":\"{}\"",
                entry.cursor, entry.at
            );
            if let Some(delta) = &entry.delta {
                out.push_str(",\"delta\":");
                delta.push_json(&mut out);
            }
            out.push('}');
        }
        out.push_str("],\"readers\":[");
        for (n, (reader, state, error)) in readers.iter().enumerate() {
            let (kind, name) = match reader {
                Reader::Group(name) => ("group", name.as_str()),
                Reader::Hook(name) | Reader::HookOfAll(name) => ("webhook", name.as_str()),
            };
            let (state, attempts, reason) = match state {
                EntryState::Waiting => ("waiting", None, None),
                EntryState::Pending(attempts) => ("pending", Some(attempts), None),
                EntryState::Acknowledged => ("acknowledged", None, None),
                EntryState::Lost => ("lost", None, None),
                EntryState::Dead { attempts, reason } => ("dead", Some(attempts), Some(reason)),
            };
            let comma = if n > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{{\"kind\":\"{kind}\",\"name\":\"{name}\",\"state\":\"{state}\"");
            if let Some(attempts) = attempts {
                let _ = write!(out, ",\"attempts\":{attempts}");
            }
            if let Some(error) = reason.or(error.as_ref().filter(|_| state != "acknowledged")) {
                out.push_str(",\"last_error\":");
                push_string(&mut out, error);
            }
            out.push('}');
        }
        out.push_str("]}");
        out
    }
}

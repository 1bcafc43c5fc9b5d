//! The answer to a producer about one gift.

use super::{Decision, Fingerprint, GiftId, Millis, Position, RowId, Scheduled};

/// What became of a gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is a new row.
    Accepted,
    /// It joined a row.
    Merged,
    /// The dedup lock, or a block of its giver, kept it from being shown; it still counts in reports.
    Suppressed,
    /// A host did not let it be shown; it still counts in reports.
    Denied = 5,
}

impl Status {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Accepted => "accepted",
            Status::Merged => "merged",
            Status::Suppressed => "suppressed",
            Status::Denied => "denied",
        }
    }
}

/// The answer to one gift, kept for as long as its id is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of it.
    pub status: Status,
    /// The gift's id.
    pub id: GiftId,
    /// The feed's position right after. A merged frame that changed nothing has the position it met.
    pub at: Position,
    /// The row it made or joined, or the lock's row; none for what no row has to do with: a gift of a blocked user,
    /// and one that was denied.
    pub row: Option<RowId>,
    /// The row's count after a merge.
    pub count: Option<u64>,
}

impl Answer {
    /// Whether watchers saw a change, so that there is a position to answer with.
    pub fn tells_seq(&self) -> bool {
        matches!(self.status, Status::Accepted | Status::Merged)
    }
}

/// What a store says about one gift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was new.
    New(Answer),
    /// Its id came before with the same payload; this was the first answer.
    Duplicate(Answer),
    /// Its id came before with another payload. Nothing changed.
    IdReused(GiftId),
    /// It was new, and is shown later.
    Scheduled(Scheduled),
    /// Its id came before with the same payload, and has not been shown: it waits, or was cancelled.
    ScheduledBefore(Scheduled),
    /// It was new, and waits for a host's decision.
    InReview(GiftId),
    /// Its id came before with the same payload, and waits for a host's decision.
    InReviewBefore(GiftId),
    /// As many gifts of this feed wait for review as may. Nothing changed.
    TooManyInReview {
        /// The gift's id.
        id: GiftId,
        /// When the first of them is decided by time, in milliseconds from now.
        retry_in_ms: u64,
    },
    /// As many gifts of this feed wait as may. Nothing changed.
    TooManyScheduled {
        /// The gift's id.
        id: GiftId,
        /// When the first of them is due, in milliseconds from now.
        retry_in_ms: u64,
    },
}

impl Outcome {
    /// The id of the gift that it is about.
    pub fn id(&self) -> &GiftId {
        match self {
            Outcome::New(answer) | Outcome::Duplicate(answer) => &answer.id,
            Outcome::Scheduled(it) | Outcome::ScheduledBefore(it) => &it.id,
            Outcome::IdReused(id) | Outcome::InReview(id) | Outcome::InReviewBefore(id) => id,
            Outcome::TooManyScheduled { id, .. } | Outcome::TooManyInReview { id, .. } => id,
        }
    }
}

/// What is remembered of a gift's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Of the payload it came with.
    pub fingerprint: Fingerprint,
    /// What became of the gift.
    pub fate: GiftFate,
    /// What was decided about it, if it was in review.
    pub decided: Option<Decision>,
}

/// What became of a gift so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GiftFate {
    /// It was taken, at once or when its time had come; this is the answer to that.
    Taken(Answer),
    /// It waits. Such an id is never forgotten: its window begins when it is shown.
    Waits(Scheduled),
    /// It was cancelled while it waited.
    Cancelled(Scheduled),
    /// It waits for a host's decision, and for time's at the latest. Such an id is never forgotten either.
    InReview {
        /// The gift's id.
        id: GiftId,
        /// When the policy's default happens.
        expires_at: Millis,
    },
}

impl GiftFate {
    /// Whether nothing became of the gift yet. Such an id is never forgotten.
    pub fn waits(&self) -> bool {
        matches!(self, GiftFate::Waits(_) | GiftFate::InReview { .. })
    }
}

impl Remembered {
    /// The outcome for the id of this gift coming again with `fingerprint`.
    pub fn again(self, fingerprint: Fingerprint) -> Outcome {
        let same = self.fingerprint == fingerprint;
        match self.fate {
            GiftFate::Taken(answer) if same => Outcome::Duplicate(answer),
            GiftFate::Waits(it) | GiftFate::Cancelled(it) if same => Outcome::ScheduledBefore(it),
            GiftFate::InReview { id, .. } if same => Outcome::InReviewBefore(id),
            GiftFate::InReview { id, .. } => Outcome::IdReused(id),
            GiftFate::Taken(answer) => Outcome::IdReused(answer.id),
            GiftFate::Waits(it) | GiftFate::Cancelled(it) => Outcome::IdReused(it.id),
        }
    }
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reviewed {
    /// This is so now, or since the same was decided before: the gift's answer.
    Decided(Answer),
    /// It was approved or masked, and is shown when its own time has come.
    Later(Scheduled),
    /// Something else was decided before, or time has decided.
    Otherwise(Decision),
    /// No gift of this id was in review, or it is not remembered.
    Unknown,
}

/// What a call about a gift in review answers, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reviewing {
    /// The answer.
    pub outcome: Reviewed,
    /// What became of the gift by this very call, by the wish or by time; `None` if that was decided before.
    pub done: Option<GiftFate>,
}

impl Reviewing {
    /// About a gift that is not in review and not remembered.
    pub const UNKNOWN: Reviewing = Reviewing { outcome: Reviewed::Unknown, done: None };

    /// The answer to a decision `wish` about a gift about which `decided` was decided, `now`, by this call, or before.
    pub fn of(wish: Decision, decided: Decision, known: GiftFate, now: bool) -> Reviewing {
        Reviewing { done: now.then(|| known.clone()), outcome: Reviewed::again(wish, decided, known) }
    }
}

impl Reviewed {
    /// The answer to a decision `wish` about a gift about which `decided` was decided.
    fn again(wish: Decision, decided: Decision, known: GiftFate) -> Reviewed {
        match known {
            _ if wish != decided => Reviewed::Otherwise(decided),
            GiftFate::Taken(answer) => Reviewed::Decided(answer),
            GiftFate::Waits(it) | GiftFate::Cancelled(it) => Reviewed::Later(it),
            GiftFate::InReview { .. } => Reviewed::Unknown,
        }
    }
}

//! What a store says of due queues: what waits, whose turn it is, what was done.

use tokio::sync::broadcast;

use crate::domain::{Answer, DropView, DueKind, DuePlace, FeedId, Gift, Millis};

/// Entries of one feed that are handled in one step, at most: a longer script would hold up everybody
/// else's.
pub const DUE_BATCH: usize = 64;

/// How often an entry that cannot be handled is tried before it is dead.
pub const DUE_TRIES: u64 = 5;

/// Dead entries that are kept for each feed; the oldest make room.
pub const DEAD_KEPT: usize = 100;

/// Wake-ups that may wait for a slow reader. If more come, it looks for itself.
const MAX_QUEUED_WAKES: usize = 64;

/// How long an entry rests after it could not be handled for the `tries`th time: 1 s, 4 s, 16 s, 64 s.
pub fn rest_after(tries: u64) -> u64 {
    1_000 << (2 * tries.saturating_sub(1).min(8))
}

/// Gifts that wait, in the order in which they will be shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduledPage {
    /// At most as many as were asked for.
    pub gifts: Vec<ScheduledGift>,
    /// Where the page ends; `None` if it is the last.
    pub next: Option<DuePlace>,
}

/// A gift that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledGift {
    /// When it is due, and its place among those of the same time.
    pub place: DuePlace,
    /// The event as it was accepted.
    pub gift: Gift,
}

/// What became of the wish to cancel a scheduled gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unscheduled {
    /// It will not be shown; this is when it would have been.
    Cancelled(Millis),
    /// It was shown (or suppressed) already.
    Shown,
    /// No gift of this id waits: there never was one, it was cancelled before, or its id is forgotten.
    Unknown,
}

/// A feed whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueFeed {
    /// Which one.
    pub feed: FeedId,
    /// To be given back in [`DueDone`].
    pub token: String,
    /// True when somebody else had its turn and did not come back from it.
    pub reclaimed: bool,
}

/// A lease that is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDone {
    /// As it was in [`DueFeed`].
    pub feed: FeedId,
    /// As it was in [`DueFeed`].
    pub token: String,
    /// When the feed has something due again; `None` if nothing waits there.
    pub next: Option<Millis>,
}

/// The answer to [`crate::engine::Store::claim_due`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueTurn {
    /// Feeds with something due.
    pub feeds: Vec<DueFeed>,
    /// Milliseconds until the next feed is due; `None` if nothing waits anywhere.
    pub next_in_ms: Option<u64>,
    /// Feeds in which something waits.
    pub waiting: u64,
}

/// What one step of a feed's queue did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DueRun {
    /// In order.
    pub handled: Vec<DueHandled>,
    /// When the feed's next entry is due; `None` if nothing waits. A time that is not in the future means that there is more.
    pub next: Option<Millis>,
}

/// One entry that was due.
#[derive(Clone, Debug, PartialEq)]
pub struct DueHandled {
    /// How long after its time, in milliseconds.
    pub late_ms: u64,
    /// What became of it.
    pub fate: DueFate,
}

/// What became of an entry that was due.
#[derive(Clone, Debug, PartialEq)]
pub enum DueFate {
    /// The gift was taken like one that came now, or time decided about one in review.
    Shown(Answer),
    /// Time decided about a gift in review that is shown later, at its own time.
    PutOff,
    /// What was due of a drop was done ([`crate::engine::Store::tick_drop`]); the drop, if there is one.
    Struck(Option<Box<DropView>>),
    /// It cannot be handled; it is tried again later.
    SetAside,
    /// It could not be handled so often that it is given up.
    Dead(DeadDue),
}

/// An entry that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadDue {
    /// The letter of its kind: see [`DueKind::letter`].
    pub kind: char,
    /// Its id: a gift's, for a gift.
    pub id: String,
    /// When it was due, the last time.
    pub due: Millis,
    /// When it was given up.
    pub at: Millis,
    /// Why.
    pub reason: String,
}

impl DeadDue {
    /// The word for its kind.
    pub fn kind_word(&self) -> &'static str {
        match DueKind::of(self.kind) {
            Some(DueKind::Gift) => "gift",
            Some(DueKind::Drop) => "drop",
            Some(DueKind::Totals) => "totals",
            Some(DueKind::Review) => "review",
            None => "unknown",
        }
    }
}

/// Wakes when something comes into a queue that is due before everything else there. A hint: a wake-up
/// can get lost, so no sleep is long.
#[derive(Debug)]
pub struct Wakes {
    wakes: broadcast::Receiver<u64>,
}

impl Wakes {
    /// The sending side, which sends the milliseconds until something is due.
    pub fn sender() -> broadcast::Sender<u64> {
        broadcast::channel(MAX_QUEUED_WAKES).0
    }

    /// Over that.
    pub fn new(wakes: broadcast::Receiver<u64>) -> Wakes {
        Wakes { wakes }
    }

    /// In how many milliseconds something is due; 0 also when wake-ups may have been missed. Never
    /// returns once the store is gone. Cancel safe.
    pub async fn next(&mut self) -> u64 {
        match self.wakes.recv().await {
            Ok(in_ms) => in_ms,
            Err(broadcast::error::RecvError::Lagged(_)) => 0,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

use serde::Deserialize;

use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::{
    Answer, Decision, Epoch, Fingerprint, GiftId, Millis, Position, RowId, Scheduled, Status,
};

/// What became of a gift, by its id (`lua/feed/receipt.lua`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GiftReceipt {
    /// When the id is forgotten, by the steady time in milliseconds; none while the gift waits.
    pub until: Option<i64>,
    /// When it began to wait.
    pub since: Option<i64>,
    /// Of the payload, in hex.
    pub fingerprint: String,
    /// What became of it.
    pub status: ReceiptStatus,
    /// What was decided about it, if it was in review.
    pub decision: Option<Decision>,
    /// When it is to be shown; of one in review when time decides.
    pub due_at: Option<i64>,
    /// The row that shows it.
    pub row: Option<RowId>,
    /// The row's count where it joined one.
    pub count: Option<u64>,
    /// The feed's epoch when the gift was taken. Missing if the gift began its row: the row's id has epoch and seq.
    pub epoch: Option<Epoch>,
    /// The feed's last seq when the gift was taken; missing together with the epoch.
    pub seq: Option<u64>,
    /// How much of its value was refunded, in minor units.
    #[serde(default)]
    pub refunded: u64,
    /// Whether it was taken back.
    #[serde(default)]
    pub retracted: bool,
    /// Until when what it counted can be taken back.
    pub keep_until: Option<i64>,
    /// The number of its entry in the ledger.
    pub entry: Option<u64>,
}

impl GiftReceipt {
    /// The receipt as the domain has it, for the gift of this id. `None`: a member is missing that its status needs.
    pub fn remembered(&self, id: &GiftId) -> Option<Remembered> {
        let id = id.clone();
        let due_at = || self.due_at.map(Millis);
        let taken = |status| {
            let (at, row) = (self.position()?, self.row.clone());
            Some(GiftFate::Taken(Answer { status, id: id.clone(), at, row, count: self.count }))
        };
        let fate = match self.status {
            ReceiptStatus::Accepted => taken(Status::Accepted)?,
            ReceiptStatus::Merged => taken(Status::Merged)?,
            ReceiptStatus::Suppressed => taken(Status::Suppressed)?,
            ReceiptStatus::Denied => taken(Status::Denied)?,
            ReceiptStatus::Scheduled => GiftFate::Waits(Scheduled { id, deliver_at: due_at()? }),
            ReceiptStatus::Cancelled => GiftFate::Cancelled(Scheduled { id, deliver_at: due_at()? }),
            ReceiptStatus::InReview => GiftFate::InReview { id, expires_at: due_at()? },
        };
        Some(Remembered {
            fingerprint: Fingerprint::from_hex(&self.fingerprint)?,
            fate,
            decided: self.decision,
        })
    }

    /// Whether its id is still remembered. A gift that waits is never forgotten.
    pub fn is_kept(&self, steady: Millis) -> bool {
        self.until.is_none_or(|until| steady.0 < until)
    }

    /// Where the feed stood when the gift was taken.
    fn position(&self) -> Option<Position> {
        match (&self.epoch, self.seq, &self.row) {
            (Some(epoch), Some(seq), _) => Some(Position { epoch: epoch.clone(), seq }),
            (_, _, Some(row)) => {
                let (epoch, seq) = row.as_str().rsplit_once('-')?;
                Some(Position { epoch: epoch.parse().ok()?, seq: seq.parse().ok()? })
            }
            _ => None,
        }
    }
}

/// What became of a gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStatus {
    /// It began a row.
    Accepted,
    /// It joined one.
    Merged,
    /// No row shows it: a lock or a block kept it back.
    Suppressed,
    /// A host, or time, decided against it.
    Denied,
    /// It waits for its time.
    Scheduled,
    /// It was cancelled while it waited.
    Cancelled,
    /// It waits for a host's decision.
    InReview,
}

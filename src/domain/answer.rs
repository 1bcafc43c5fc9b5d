//! What a producer is told about one gift.

use super::{Epoch, Fingerprint, GiftId, Position, RowId};

/// What became of a gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is a new row.
    Accepted,
    /// It joined a row.
    Merged,
    /// The dedup lock kept it from being shown; it still counts in reports.
    Suppressed,
}

impl Status {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Accepted => "accepted",
            Status::Merged => "merged",
            Status::Suppressed => "suppressed",
        }
    }
}

/// The answer to one gift, kept for as long as its id is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of it.
    pub status: Status,
    /// Which gift.
    pub id: GiftId,
    /// The feed's position right after. A merged frame that changed nothing has the position it met.
    pub at: Position,
    /// The row it made or joined, or the lock's row.
    pub row: RowId,
    /// The row's count after a merge.
    pub count: Option<u64>,
}

impl Answer {
    /// The answer's members without the braces, so that a batch can put `index` in front.
    pub fn members(&self) -> String {
        let Answer { status, id, at: Position { epoch, seq }, row, count } = self;
        let status = status.as_str();
        match (status, count) {
            ("suppressed", _) => format!("\"status\":\"{status}\",\"id\":\"{id}\",\"row\":\"{row}\""),
            (_, None) => format!(
                "\"status\":\"{status}\",\"id\":\"{id}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"row\":\"{row}\""
            ),
            (_, Some(count)) => format!(
                "\"status\":\"{status}\",\"id\":\"{id}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"row\":\"{row}\",\"count\":{count}"
            ),
        }
    }
}

/// What an engine says about one gift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was new.
    New(Answer),
    /// Its id came before with the same payload; this was the first answer.
    Duplicate(Answer),
    /// Its id came before with another payload. Nothing changed.
    IdReused(GiftId),
    /// It asks to be shown later, which this server cannot do yet. Nothing changed.
    CannotSchedule(GiftId),
}

/// What is remembered of a gift's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Of the payload it came with.
    pub fingerprint: Fingerprint,
    /// What was answered.
    pub answer: Answer,
}

impl Remembered {
    /// The outcome for the same id coming again with `fingerprint`.
    pub fn again(self, fingerprint: Fingerprint) -> Outcome {
        if self.fingerprint == fingerprint {
            Outcome::Duplicate(self.answer)
        } else {
            Outcome::IdReused(self.answer.id)
        }
    }
}

/// The answer to a feed's epoch and seq; see [`Answer::at`].
pub(crate) fn position(epoch: &Epoch, seq: u64) -> Position {
    Position { epoch: epoch.clone(), seq }
}

//! The words of a gift feed as types: what a producer may say, what a feed holds,
//! how a gift changes it. Nothing here does I/O or reads a clock; `now` is always an argument.
//!
//! Reading order: [`ids`], [`currency`], [`gift`], [`row`], [`control`], [`change`], [`omit`], [`list`], [`policy`], [`moderate`],
//! [`due`], [`review`], [`block`]; then [`mod@drop`], [`claim`]; then [`report`], [`pull`], [`hook`], [`hook_spec`],
//! [`address`], [`delivery`], [`signature`], [`trace`], [`story`].

pub mod address;
pub mod answer;
pub mod attempt;
pub mod block;
pub mod change;
pub mod claim;
pub mod control;
pub mod currency;
pub mod delivery;
pub mod drop;
pub mod due;
pub mod event;
mod fingerprint;
pub mod gift;
pub mod hashing;
pub mod hook;
pub mod hook_spec;
pub mod ids;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod list;
pub mod moderate;
pub mod omit;
pub mod policy;
pub mod pull;
pub mod report;
pub mod review;
pub mod row;
pub mod signature;
pub mod source;
pub mod story;
pub mod tally;
pub mod text;
pub mod time;
pub mod trace;

pub use answer::{Answer, Outcome, Reviewed, Reviewing, Status};
pub use block::{Block, BlockScope, BlockWish, Blocked};
pub use change::{Change, Op, RemoveReason, Tag};
pub use claim::{
    Cancelled, Claim, ClaimAnswer, ClaimId, ClaimOutcome, ClaimRefused, ClaimState, ClaimStory, Claimed,
    Confirmed, Hold, HoldId, Pay, Sale,
};
pub use control::{Action, Control, Controls};
pub use drop::{Defined, DropSpec, DropView, Drops, Phase};
pub use due::{DueKind, DuePlace, Scheduled};
pub use fingerprint::Fingerprint;
pub use gift::{ComboMark, Gift, GiftKind, Person, Show, Value};
pub use hook::{Delivery, Hook, HookFault, HookKey, HookScope, HookSpec, HookState};
pub use ids::{DropId, Epoch, FeedId, GiftId, GoalId, GroupId, HookId, Position, RowId, SourceId};
pub use json::{Fault, Refused};
pub use list::{CannotFold, FeedList};
pub use moderate::GiftTakenBack;
pub use omit::Omit;
pub use policy::{Dedup, Policy, PolicyPatch, TellPresence, Visibility};
pub use pull::{Cursors, Pull, ReplayWish};
pub use report::{
    Ask, Cursor, DeadLetter, Delta, Entry, EntryStatus, GroupView, Handed, Job, Reader, Replay, Start, Taken,
};
pub use review::{Decision, InReview, ReviewDefault, ReviewMode};
pub use row::{Row, RowCombo, RowDrop};
pub use source::{Source, SourceNote, SourceOutcome, SourcePath, SourceTally};
pub use time::Millis;
pub use trace::{Trace, TraceParent, TraceState};

/// The largest integer that JSON readers everywhere hold exactly: 2^53 − 1.
/// Counts and amounts stop here instead of wrapping or losing digits.
pub const MAX_SAFE: u64 = (1 << 53) - 1;

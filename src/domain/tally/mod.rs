//! Totals, leaders and goals (contract section 8): what counts, in which periods, for whom.
//!
//! A period that is counted is an [`Instance`]: a run of it with a number that no other has. What a gift counted
//! carries the numbers of the instances that were open then ([`Counted`]), so it can be taken back exactly where it
//! was added, however many midnights later. Sums forget nothing ([`Sum`]) and are shown up to 2^53−1, so taking
//! something back gives what would be there without it, also above that.
//!
//! Reading order: [`period`], [`sum`], [`counted`], [`goal`], [`view`], [`state`], [`board`].

pub mod board;
pub mod counted;
pub mod goal;
mod instance;
pub mod period;
mod rules;
pub mod state;
pub mod sum;
pub mod view;

pub use board::{Board, Gifter};
pub use counted::{Counted, Segments};
pub use goal::{GoalSpec, GoalView, MAX_GOALS};
pub use instance::Instance;
pub use period::{Period, Periods, Zone};
pub use rules::Rules;
pub use state::{Session, State};
pub use sum::{Measure, Points, Sum};
pub use view::{Leader, LeadersAsk, LeadersView, PeriodView, TotalsView, push_told};

/// Announcements of totals, and of one goal, are at least this far apart, in milliseconds: never three in a second,
/// also with jitter.
pub const TELL_EVERY_MS: u64 = 600;

/// Users of one ranking; the lowest leave it beyond.
pub const MAX_RANKED: usize = 100_000;

/// Leaders in snapshots and announcements, of each measure.
pub const TOLD_LEADERS: usize = 10;

/// Currencies of which snapshots and announcements have leaders: those with the largest amounts.
pub const TOLD_CURRENCIES: usize = 4;

/// Currencies that are summed in one period; amounts of further ones are not.
pub const MAX_CURRENCIES: usize = 64;

/// A gift is remembered for this long, so that it can be taken back, where a period that it was counted in does not
/// end earlier: 35 days, in milliseconds.
pub const KEEP_MS: u64 = 35 * 86_400_000;

/// A clock that went back by no more than this does not open yesterday again.
pub const CLOCK_SLACK_MS: u64 = 3_600_000;

//! Totals, leaders and goals (contract section 8): what counts, in which periods, for which givers.
//!
//! The sums themselves are the scripts'; here is what is parsed and what is shown.
//!
//! Reading order: [`period`], [`measure`], [`goal`], [`view`], [`session`].

pub mod goal;
pub mod measure;
pub mod period;
mod rules;
pub mod session;
pub mod view;

pub use goal::{GoalSpec, GoalView, MAX_GOALS};
pub use measure::{Measure, Points};
pub use period::{Period, Periods, Zone};
pub use rules::Rules;
pub use session::Session;
pub use view::{Leader, LeadersAsk, LeadersView, PeriodView, TotalsView, push_told};

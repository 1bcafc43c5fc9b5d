//! What is stored as JSON and read by this process: a type for each record, with the names that `lua/` gives its
//! members. Unknown members are skipped, so that one can be added without a new form.

mod change;
mod drops;
mod entry;
mod meta;
mod receipt;
mod row;
mod totals;
mod waiting;

pub use change::{Announced, Message, read_announced, read_change, read_message};
pub use drops::{StoredClaim, drop_spec, read_announced_drop, read_drop_at_rest};
pub use entry::{entry_members, read_entry};
pub use meta::FeedMeta;
pub use receipt::{GiftReceipt, ReceiptStatus};
pub use row::{gift_body, read_row};
pub use totals::{goal_spec, read_goal, read_leaders, read_periods};
pub use waiting::WaitingGift;

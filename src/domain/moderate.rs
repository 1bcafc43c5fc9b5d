//! What a host does to a feed while a show runs: alerts are paused or muted, rows and gifts are taken back.

use super::json::push_string;

/// What became of the wish to take one gift back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GiftTakenBack {
    /// It is taken back, now or before; or it waited, and is cancelled.
    Done,
    /// Its id is not, or no longer, remembered.
    Unknown,
}

/// How a row's `user` begins for this user id: names are cleaned and pictures change, ids stay.
pub fn user_prefix(user: &str) -> String {
    let mut out = String::from("{\"id\":");
    push_string(&mut out, user);
    out.push(',');
    out
}

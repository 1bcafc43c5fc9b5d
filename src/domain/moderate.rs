//! What a host does to a feed while a show runs: alerts are paused or muted, rows and gifts are taken back.

use serde_json::value::RawValue;

use super::gift::display_text;
use super::json::{Object, Refused, push_string};
use super::{MAX_SAFE, RowId};

/// What became of the wish to take one gift back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GiftTakenBack {
    /// It is taken back, now or before; or it waited, and is cancelled.
    Done,
    /// Its id is not, or no longer, remembered.
    Unknown,
}

/// What became of the wish to refund a part of a gift's value, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GiftRefunded {
    /// It is refunded, now or before.
    Done {
        /// The gift is taken back: all of it was refunded, or it was taken back before.
        whole: bool,
        /// In minor units, so far.
        refunded: u64,
        /// The row that it had to do with.
        row: Option<RowId>,
    },
    /// It has no value.
    NoValue,
    /// Its value is less, which is this.
    Above(u64),
    /// It waits for its time, or for a host.
    Waits,
    /// Its id is not, or no longer, remembered.
    Unknown,
}

/// The body of a retraction, `{"reason"?}`, and of a refund, `{"refunded","reason"?}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakingBack {
    /// How much is refunded so far, in minor units; `None` for a retraction.
    pub refunded: Option<u64>,
    /// Why, at most 200 characters of text.
    pub reason: Option<String>,
}

impl TakingBack {
    /// Reads the body of a POST, of a refund or of a retraction.
    pub fn parse(raw: &RawValue, is_refund: bool) -> Result<TakingBack, Refused> {
        let mut faults = Vec::new();
        let read = Object::open(raw, &mut faults).and_then(|mut body| {
            let refunded = match is_refund {
                true => Some(body.need("refunded", &mut faults)?.integer(0, MAX_SAFE, &mut faults)?),
                false => None,
            };
            let reason = body.take("reason").and_then(|f| display_text(&f, 0, 200, &mut faults));
            body.close(&mut faults);
            Some(TakingBack { refunded, reason: reason.filter(|it| !it.is_empty()) })
        });
        read.filter(|_| faults.is_empty()).ok_or(Refused::Invalid(faults))
    }
}

/// How a row's `user` begins for this user id: names are cleaned and pictures change, ids stay.
pub fn user_prefix(user: &str) -> String {
    let mut out = String::from("{\"id\":");
    push_string(&mut out, user);
    out.push(',');
    out
}

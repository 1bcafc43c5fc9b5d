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

/// What became of the wish to refund a part of the value of a gift or a sale, or to take it back.
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
    /// It waits for its time, for a host, or to be paid.
    Waits,
    /// Its id is not, or no longer, remembered.
    Unknown,
}

/// What the body of a retraction or of a refund says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakingBack {
    /// How much is refunded so far, in minor units; `None` for a retraction.
    pub refunded: Option<u64>,
    /// Why, at most 200 characters of text.
    pub reason: Option<String>,
    /// Whether the units of a sale are free again.
    pub restock: bool,
}

/// Which members the body has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakingBackBody {
    /// `{"reason"?}`
    RetractGift,
    /// `{"reason"?,"restock"?}`
    RetractSale,
    /// `{"refunded","reason"?}`
    Refund,
}

impl TakingBack {
    /// Reads the body of a POST.
    pub fn parse(raw: &RawValue, members: TakingBackBody) -> Result<TakingBack, Refused> {
        let mut faults = Vec::new();
        let read = Object::open(raw, &mut faults).and_then(|mut body| {
            let refunded = match members == TakingBackBody::Refund {
                true => Some(body.need("refunded", &mut faults)?.integer(0, MAX_SAFE, &mut faults)?),
                false => None,
            };
            let reason = body.take("reason").and_then(|f| display_text(&f, 0, 200, &mut faults));
            let restock = match members {
                TakingBackBody::RetractSale => body.take("restock").map(|f| f.boolean(&mut faults)),
                _ => None,
            };
            body.close(&mut faults);
            let (reason, restock) = (reason.filter(|it| !it.is_empty()), restock.unwrap_or(Some(false))?);
            Some(TakingBack { refunded, reason, restock })
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

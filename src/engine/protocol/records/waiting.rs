use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::domain::Gift;

/// A gift that waits for its time (`later` in `lua/due/schedule.lua`) or for a host (`reviews` in `lua/feed/screening.lua`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingGift<'a> {
    /// The gift as it was given.
    #[serde(flatten)]
    pub gift: Cow<'a, Gift>,
    /// Whether a host decided that it is to be shown masked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
}

impl WaitingGift<'_> {
    /// As it is stored, in one line.
    pub fn text(gift: &Gift, masked: bool) -> String {
        serde_json::to_string(&WaitingGift { gift: Cow::Borrowed(gift), masked }).unwrap_or_default()
    }

    /// Reads what [`WaitingGift::text`] wrote; nothing of anything else.
    pub fn read(text: &str) -> Option<WaitingGift<'static>> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Trace, TraceParent, TraceState, json};

    #[test]
    fn a_gift_is_read_back_as_it_was_and_a_cut_one_is_none() {
        for body in [
            r#"{"id":"a:b","user":{"id":"u\n","name":"U\u2028"},"gift":{"id":"g","name":"\"G\""}}"#,
            r#"{"user":{"id":"u","name":"U","avatar":"https://a.example/u","anonymous":true},"gift":{"id":"g","name":"G","icon":"https://a.example/g"},"count":7,"value":{"amount":9007199254740991,"currency":"EUR"},"combo":{"id":"c 1","count":3,"end":true},"message":"hi\tthere","tier":0,"occurred_at":"1969-12-31T23:59:59.000Z","deliver_at":"2026-01-31T12:00:05.000Z","test":true,"meta":{"a b":[1e999]}}"#,
            r#"{"user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"},"delay_ms":604800000}"#,
        ] {
            let mut gift = Gift::parse(json::syntax(body.as_bytes()).unwrap(), None).unwrap();
            gift.trace = gift.test.then(|| Trace {
                step: TraceParent::root([7; 16], [8; 8]),
                state: TraceState::read(["a=1,b=x y"].into_iter()),
            });
            let text = WaitingGift::text(&gift, gift.test);
            assert_eq!(text.lines().count(), 1);
            let read = WaitingGift::read(&text).unwrap();
            assert_eq!((&*read.gift, read.masked), (&gift, gift.test));
            assert_eq!(WaitingGift::read(&text[..text.len() - 1]), None);
            let unknown = text.replacen('{', r#"{"since":1,"#, 1).replace("00-07", "what");
            assert_eq!(WaitingGift::read(&unknown).unwrap().gift.trace, None);
        }
        assert_eq!(WaitingGift::read(""), None);
    }
}

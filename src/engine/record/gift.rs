//! Gifts that wait, as lines of text.

use super::{Records, line};
use crate::domain::json::push_string;
use crate::domain::{ComboMark, Fingerprint, Gift, GiftKind, Millis, Person, Show, Value};

/// Appends `gift`: 18 lines, the first one its id.
///
/// Not as JSON to be parsed like a producer's: what was accepted once must not be refused by a rule
/// that is stricter later, and keeps the fingerprint that it had.
pub fn push_gift(out: &mut String, gift: &Gift) {
    line(out, &gift.id);
    line(out, gift.fingerprint);
    string(out, Some(&gift.user.id));
    string(out, Some(&gift.user.name));
    string(out, gift.user.avatar.as_deref());
    string(out, Some(&gift.gift.id));
    string(out, Some(&gift.gift.name));
    string(out, gift.gift.icon.as_deref());
    line(out, gift.count);
    match &gift.value {
        Some(value) => line(out, format_args!("{} {}", value.amount, value.currency)),
        None => line(out, ""),
    }
    match &gift.combo {
        Some(combo) => line(out, format_args!("{} {}", combo.count, u8::from(combo.end))),
        None => line(out, ""),
    }
    string(out, gift.combo.as_ref().map(|combo| &*combo.id));
    string(out, gift.message.as_deref());
    match gift.tier {
        Some(tier) => line(out, tier),
        None => line(out, ""),
    }
    match gift.occurred_at {
        Some(at) => line(out, at.0),
        None => line(out, ""),
    }
    match gift.show {
        Show::ByPolicy => line(out, ""),
        Show::After(ms) => line(out, format_args!("+{ms}")),
        Show::At(at) => line(out, at.0),
    }
    let marks = u8::from(gift.test) + 2 * u8::from(gift.user.anonymous);
    match &gift.trace {
        Some(trace) => line(out, format_args!("{marks} {trace}")),
        None => line(out, marks),
    }
    line(out, gift.meta.as_deref().unwrap_or(""));
}

fn string(out: &mut String, text: Option<&str>) {
    if let Some(text) = text {
        push_string(out, text);
    }
    out.push('\n');
}

impl Records<'_> {
    /// The next gift.
    pub fn gift(&mut self) -> Option<Gift> {
        let id = self.read()?;
        let fingerprint = Fingerprint::from_hex(self.lines.next()?)?;
        let mut user =
            Person { id: self.string()??, name: self.string()??, avatar: self.string()?, anonymous: false };
        let gift = GiftKind { id: self.string()??, name: self.string()??, icon: self.string()? };
        let count = self.read()?;
        let value = match self.lines.next()? {
            "" => None,
            text => {
                let (amount, currency) = text.split_once(' ')?;
                Some(Value { amount: amount.parse().ok()?, currency: currency.to_owned() })
            }
        };
        let mark = self.lines.next()?.split_once(' ');
        let combo = match (mark, self.string()?) {
            (Some((count, end)), Some(id)) => {
                Some(ComboMark { id, count: count.parse().ok()?, end: end == "1" })
            }
            _ => None,
        };
        let message = self.string()?;
        let tier = self.maybe()?;
        let occurred_at = self.maybe()?.map(Millis);
        let show = match self.lines.next()? {
            "" => Show::ByPolicy,
            text => match text.strip_prefix('+') {
                Some(ms) => Show::After(ms.parse().ok()?),
                None => Show::At(Millis(text.parse().ok()?)),
            },
        };
        let marks = self.lines.next()?;
        let (marks, trace) =
            marks.split_once(' ').map_or((marks, None), |(marks, trace)| (marks, Some(trace)));
        let marks = marks.parse::<u8>().ok()?;
        // A trace is nothing that a gift may be lost for.
        let trace = trace.and_then(|trace| trace.parse().ok());
        let test = marks & 1 == 1;
        user.anonymous = marks & 2 == 2;
        let meta = Some(self.lines.next()?).filter(|meta| !meta.is_empty()).map(str::to_owned);
        Some(Gift {
            id,
            user,
            gift,
            count,
            value,
            combo,
            message,
            tier,
            occurred_at,
            show,
            test,
            meta,
            fingerprint,
            trace,
        })
    }

    /// A line that holds a JSON string, or nothing.
    fn string(&mut self) -> Option<Option<String>> {
        match self.lines.next()? {
            "" => Some(None),
            text => serde_json::from_str(text).ok().map(Some),
        }
    }

    /// A line that holds a value, or nothing.
    fn maybe<T: std::str::FromStr>(&mut self) -> Option<Option<T>> {
        match self.lines.next()? {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        }
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
            let mut text = String::new();
            push_gift(&mut text, &gift);
            assert_eq!(text.lines().count(), 18);
            assert_eq!(Records::new(&text).gift(), Some(gift));
            let cut: Vec<&str> = text.lines().take(15).collect();
            assert_eq!(Records::new(&cut.join("\n")).gift(), None);
        }
        assert_eq!(Records::new("").gift(), None);
    }
}

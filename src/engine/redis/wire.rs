//! What goes to the scripts and what comes back, as texts: lines of fields, numbers in decimal.
//! `lua/feed_common.lua` says how rows and changes are laid out.

use std::str::{FromStr, Lines};
use std::sync::Arc;

use super::known::Mark;
use crate::domain::gift::Fingerprint;
use crate::domain::{
    Answer, Change, Dedup, Epoch, Gift, GiftId, Millis, Op, Outcome, Policy, PolicyPatch, Position, RemoveReason,
    Row, RowCombo, RowId, Show, Status, Value,
};

/// A text that our scripts would not have written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled(pub &'static str);

type Read<T> = Result<T, Garbled>;

fn parse<T: FromStr>(text: &str, what: &'static str) -> Read<T> {
    text.parse().map_err(|_| Garbled(what))
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Where a feed stands after a call: "EPOCH SEQ TAG NOW".
pub(super) fn read_header(text: &str) -> Read<(Mark, Millis)> {
    let mut parts = text.split(' ');
    let mut part = || parts.next().ok_or(Garbled("a header"));
    let at = Position { epoch: parse(part()?, "an epoch")?, seq: parse(part()?, "a seq")? };
    Ok((Mark { at, tag: parse(part()?, "a tag")? }, Millis(parse(part()?, "a time")?)))
}

/// The `meta` string of a feed, as far as heads need it.
pub(super) fn read_meta(text: &str) -> Read<Mark> {
    let mut parts = text.split(' ');
    let mut part = || parts.next().ok_or(Garbled("a feed's meta"));
    let at = Position { epoch: parse(part()?, "an epoch")?, seq: parse(part()?, "a seq")? };
    Ok(Mark { at, tag: parse(part()?, "a tag")? })
}

/// A row's 18 lines.
fn read_row(lines: &mut Lines<'_>) -> Read<Row> {
    let mut line = || lines.next().ok_or(Garbled("a row"));
    let id = parse(line()?, "a row id")?;
    let rev = parse(line()?, "a rev")?;
    let seq = parse(line()?, "a seq")?;
    let at = Millis(parse(line()?, "a time")?);
    let updated_at = Millis(parse(line()?, "a time")?);
    let expires_at = filled(line()?).map(|t| parse(t, "a time").map(Millis)).transpose()?;
    let count = parse(line()?, "a count")?;
    let amount = filled(line()?).map(|n| parse(n, "an amount")).transpose()?;
    let currency = line()?.to_owned();
    let ended = line()? == "1";
    let message = filled(line()?).map(Into::into);
    let tier = filled(line()?).map(|n| parse(n, "a tier")).transpose()?;
    let meta = filled(line()?).map(Into::into);
    let key: Option<Arc<str>> = filled(line()?).map(Into::into);
    let combo_id: Arc<str> = line()?.into();
    let test = line()? == "1";
    let (user, gift) = (line()?.into(), line()?.into());
    Ok(Row {
        id,
        rev,
        seq,
        at,
        updated_at,
        expires_at,
        count,
        value: amount.map(|amount| Value { amount, currency }),
        combo: key.map(|key| RowCombo { key, id: combo_id, ended }),
        test,
        user,
        gift,
        message,
        tier,
        meta,
    })
}

/// A row as a script hands it out.
pub(super) fn row(text: &str) -> Read<Arc<Row>> {
    read_row(&mut text.lines()).map(Arc::new)
}

fn read_change(epoch: &Epoch, lines: &mut Lines<'_>) -> Read<Change> {
    let head = lines.next().ok_or(Garbled("a change"))?;
    let mut parts = head.split(' ');
    let mut part = || parts.next().ok_or(Garbled("a change"));
    let seq = parse(part()?, "a seq")?;
    let prev = parse(part()?, "a tag")?;
    let tag = parse(part()?, "a tag")?;
    let op = match part()? {
        "add" => Op::Add(Arc::new(read_row(lines)?)),
        "update" => Op::Update(Arc::new(read_row(lines)?)),
        "remove" => {
            let row: RowId = parse(part()?, "a row id")?;
            let reason = match part()? {
                "expired" => RemoveReason::Expired,
                _ => RemoveReason::Retracted,
            };
            Op::Remove { row, reason }
        }
        "reset" => Op::Reset,
        _ => return Err(Garbled("a change")),
    };
    Ok(Change { epoch: epoch.clone(), seq, prev, tag, op })
}

/// A change as `hist` holds it.
pub(super) fn change(epoch: &Epoch, text: &str) -> Read<Change> {
    read_change(epoch, &mut text.lines())
}

/// What one call published.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The feed got another life, or lost its list.
    pub lost: bool,
    /// In order.
    pub changes: Vec<Change>,
    /// The overrides, when they were set.
    pub overrides: Option<PolicyPatch>,
}

/// "live|lost EPOCH N", the overrides or "=", N changes.
pub(super) fn read_message(text: &str) -> Read<Message> {
    let mut lines = text.lines();
    let head = lines.next().ok_or(Garbled("a message"))?;
    let mut parts = head.split(' ');
    let mut part = || parts.next().ok_or(Garbled("a message"));
    let lost = part()? == "lost";
    let epoch: Epoch = parse(part()?, "an epoch")?;
    let count: usize = parse(part()?, "a count")?;
    let overrides = match lines.next().ok_or(Garbled("a message"))? {
        "=" => None,
        text => Some(read_overrides(text)?),
    };
    let changes: Result<Vec<_>, _> = (0..count).map(|_| read_change(&epoch, &mut lines)).collect();
    Ok(Message { lost, changes: changes?, overrides })
}

/// A whole policy as the scripts read it.
pub(super) fn policy(policy: &Policy) -> String {
    let Policy { capacity, dedup, dedup_window_ms, row_ttl_ms, delay_ms, flush_ms, .. } = policy;
    let Policy { idempotency_window_ms, history, .. } = policy;
    let dedup = dedup.as_str();
    format!(
        "{capacity} {dedup} {dedup_window_ms} {row_ttl_ms} {delay_ms} {flush_ms} {idempotency_window_ms} {history}"
    )
}

/// Overrides as the scripts read and keep them.
pub(super) fn overrides(patch: &PolicyPatch) -> String {
    let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
    [
        number(patch.capacity),
        patch.dedup.map_or("-", Dedup::as_str).to_owned(),
        number(patch.dedup_window_ms),
        number(patch.row_ttl_ms),
        number(patch.delay_ms),
        number(patch.flush_ms),
        number(patch.idempotency_window_ms),
        number(patch.history),
    ]
    .join(" ")
}

/// See [`overrides`].
pub(super) fn read_overrides(text: &str) -> Read<PolicyPatch> {
    const WHAT: Garbled = Garbled("a policy");
    let parts: Vec<&str> = text.split(' ').collect();
    let [capacity, dedup, window, ttl, delay, flush, idempotency, history] = parts[..] else {
        return Err(WHAT);
    };
    let number = |text: &str| match text {
        "-" => Ok(None),
        n => n.parse().map(Some).map_err(|_| WHAT),
    };
    Ok(PolicyPatch {
        capacity: number(capacity)?,
        dedup: match dedup {
            "-" => None,
            "combine" => Some(Dedup::Combine),
            "drop" => Some(Dedup::Drop),
            "off" => Some(Dedup::Off),
            _ => return Err(WHAT),
        },
        dedup_window_ms: number(window)?,
        row_ttl_ms: number(ttl)?,
        delay_ms: number(delay)?,
        flush_ms: number(flush)?,
        idempotency_window_ms: number(idempotency)?,
        history: number(history)?,
    })
}

/// A gift's ARGV, 11 of them, in the order of `lua/feed_publish.lua`.
pub(super) fn gift_args(gift: &Gift) -> [String; 11] {
    // The row this gift would start has every text in the spelling that rows keep.
    let nobody = RowId::of(&Epoch::none(), 0);
    let row = Row::start(nobody, 0, gift, Millis(0), 0);
    let or_empty = |text: Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let count = gift.combo.as_ref().map_or(gift.count, |combo| combo.count.into());
    let (amount, currency) = gift.value.as_ref().map(|v| (v.amount.to_string(), v.currency.clone())).unzip();
    let (key, combo_id, ended) =
        row.combo.map_or((String::new(), String::new(), false), |c| (c.key.to_string(), c.id.to_string(), c.ended));
    let test = u8::from(gift.test);
    [
        gift.fingerprint.to_string(),
        match gift.show {
            Show::ByPolicy => String::new(),
            Show::After(0) => "-".to_owned(),
            Show::After(_) => "+".to_owned(),
            Show::At(at) => at.0.to_string(),
        },
        count.to_string(),
        amount.unwrap_or_default(),
        currency.unwrap_or_default(),
        key.clone(),
        u8::from(ended).to_string(),
        or_empty(row.message),
        gift.tier.map(|tier| tier.to_string()).unwrap_or_default(),
        or_empty(row.meta),
        format!("{key}\n{combo_id}\n{test}\n{}\n{}", row.user, row.gift),
    ]
}

/// What `feed_publish` says about one gift.
pub(super) fn outcome(text: &str, id: &GiftId, fingerprint: Fingerprint) -> Read<Outcome> {
    let kind = text.get(..1).ok_or(Garbled("an outcome"))?;
    if kind == "l" {
        return Ok(Outcome::CannotSchedule(id.clone()));
    }
    let mut parts = text[1..].split(' ').skip(1);
    let mut part = || parts.next().ok_or(Garbled("an outcome"));
    let first_payload = part()?;
    let status = match part()? {
        "a" => Status::Accepted,
        "m" => Status::Merged,
        "s" => Status::Suppressed,
        _ => return Err(Garbled("a status")),
    };
    let at = Position { epoch: parse(part()?, "an epoch")?, seq: parse(part()?, "a seq")? };
    let row = parse(part()?, "a row id")?;
    let count = match part()? {
        "-" => None,
        count => Some(parse(count, "a count")?),
    };
    let answer = Answer { status, id: id.clone(), at, row, count };
    match kind {
        "n" => Ok(Outcome::New(answer)),
        "d" if first_payload == fingerprint.to_string() => Ok(Outcome::Duplicate(answer)),
        "d" => Ok(Outcome::IdReused(id.clone())),
        _ => Err(Garbled("an outcome")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_survive_being_written_and_read() {
        let patch = PolicyPatch { capacity: Some(3), dedup: Some(Dedup::Off), ..PolicyPatch::default() };
        assert_eq!(overrides(&patch), "3 off - - - - - -");
        assert_eq!(read_overrides(&overrides(&patch)), Ok(patch));
        assert!(read_overrides("1 2 3").is_err());
    }

    #[test]
    fn a_message_is_read_line_by_line() {
        let row = "e-1\n1\n1\n5\n5\n\n2\n7\nEUR\n0\n\"hi\"\n\n\n\n\n1\n{\"id\":\"u\"}\n{\"id\":\"g\"}";
        let text = format!("lost e 2\n=\n1 0 9 add\n{row}\n2 9 9 remove e-1 expired");
        let message = read_message(&text).unwrap();
        assert!(message.lost && message.overrides.is_none() && message.changes.len() == 2);
        let Op::Add(row) = &message.changes[0].op else { panic!() };
        assert_eq!((row.count, row.message.as_deref(), row.test), (2, Some("\"hi\""), true));
        assert_eq!(row.value, Some(Value { amount: 7, currency: "EUR".into() }));
        assert!(matches!(&message.changes[1].op, Op::Remove { reason: RemoveReason::Expired, .. }));
        assert!(read_message("live e 1\n=\n1 0 9 add\nx").is_err());
    }
}

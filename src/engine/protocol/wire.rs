//! What goes to the scripts and what comes back, as texts.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use super::faults::Fault;
use super::known::Mark;
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::{
    Answer, Change, Controls, DropView, Epoch, Fingerprint, Gift, GiftId, Millis, Outcome, PolicyPatch,
    Position, Row, Show, Value, row,
};
use crate::engine::StoreError;
use crate::engine::protocol::records::{
    self, Announced, FeedMeta, GiftReceipt, Message, entry_members, gift_body,
};

/// A text that our scripts would not have written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub &'static str);

impl From<Corrupt> for Fault {
    fn from(Corrupt(what): Corrupt) -> Self {
        Fault::data(format!(
            "Redis holds {what} that Tipcast did not write; restore the feed's keys, or remove them, and give Tipcast \
             a database or a key prefix of its own"
        ))
    }
}

impl From<Corrupt> for StoreError {
    fn from(garbled: Corrupt) -> Self {
        Fault::from(garbled).into()
    }
}

type Read<T> = Result<T, Corrupt>;

fn parse<T: FromStr>(text: &str, what: &'static str) -> Read<T> {
    text.parse().map_err(|_| Corrupt(what))
}

/// How a script's answer begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    /// The feed's position.
    pub mark: Mark,
    /// The time that the script went by.
    pub now: Millis,
    /// How many entries of its ledger were cut that some reader was not done with.
    pub unread: u64,
    /// How many such entries were gone with the list.
    pub vanished: u64,
    /// Webhooks that dozed and now have something to send.
    pub dozed: Option<&'a str>,
}

/// "EPOCH SEQ TAG NOW"; and behind it, if entries were lost, " UNREAD" or " UNREAD,VANISHED", and behind
/// that " DOZED".
pub(crate) fn read_header(text: &str) -> Read<Header<'_>> {
    let mut parts = text.split(' ');
    let mut part = || parts.next().ok_or(Corrupt("a header"));
    let at = Position { epoch: parse(part()?, "an epoch")?, seq: parse(part()?, "a seq")? };
    let (tag, now) = (parse(part()?, "a tag")?, Millis(parse(part()?, "a time")?));
    let gone = parts.next().unwrap_or("0");
    let (unread, vanished) = gone.split_once(',').unwrap_or((gone, "0"));
    let (unread, vanished) = (parse(unread, "a count")?, parse(vanished, "a count")?);
    Ok(Header { mark: Mark { at, tag }, now, unread, vanished, dozed: parts.next() })
}

/// The `meta` string of a feed, as far as heads need it.
pub(crate) fn read_meta(text: &str) -> Read<Mark> {
    let meta: FeedMeta = serde_json::from_str(text).map_err(|_| Corrupt("a feed's meta"))?;
    let at = Position { epoch: meta.epoch, seq: meta.seq };
    Ok(Mark { at, tag: parse(&meta.tag, "a tag")? })
}

/// Whether overlays are paused or muted, as `control` has it.
pub(crate) fn controls(text: &str) -> Read<Controls> {
    match text {
        "" | "0 0" => Ok(Controls::default()),
        "1 0" => Ok(Controls { paused: true, muted: false }),
        "0 1" => Ok(Controls { paused: false, muted: true }),
        "1 1" => Ok(Controls { paused: true, muted: true }),
        _ => Err(Corrupt("the feed's control messages")),
    }
}

/// A row as a script hands it out.
pub(crate) fn read_row(text: &str) -> Read<Arc<Row>> {
    records::read_row(text).map(Arc::new).ok_or(Corrupt("a row"))
}

/// What watchers know of a drop, a period or a goal.
pub(crate) fn announced(text: &str) -> Read<Announced> {
    records::read_announced(text).ok_or(Corrupt("what was announced"))
}

/// A drop as scripts hand it out.
pub(crate) fn view(text: &str) -> Read<DropView> {
    records::read_announced_drop(text).ok_or(Corrupt("a drop"))
}

/// A change as `hist` holds it.
pub(crate) fn change(epoch: &Epoch, text: &str) -> Read<Change> {
    records::read_change(epoch, text).ok_or(Corrupt("a change"))
}

/// What one call published.
pub(crate) fn read_message(text: &str) -> Read<Message> {
    records::read_message(text).ok_or(Corrupt("a message"))
}

/// What is set of a feed's policy; an empty text is nothing.
pub(crate) fn read_overrides(text: &str) -> Read<PolicyPatch> {
    if text.is_empty() {
        return Ok(PolicyPatch::default());
    }
    serde_json::from_str(text).map_err(|_| Corrupt("a policy"))
}

/// What every script that takes gifts gets of one, as `lua/feed/gift.lua` explains it. One that is masked is shown and ranked
/// without its giver's name; its entry in the ledger has it.
pub(crate) fn gift_args(gift: &Gift, is_masked: bool) -> [(&'static str, String); 7] {
    let shown = if is_masked { Cow::Owned(gift.masked()) } else { Cow::Borrowed(gift) };
    let units = gift.combo.as_ref().map_or(gift.count, |combo| combo.count.into());
    let is_ranked = !is_masked && !gift.user.anonymous;
    [
        ("fingerprint", gift.fingerprint.to_string()),
        ("combo", row::combo_key(&shown).unwrap_or_default()),
        ("given", given_json(units, gift.value.as_ref())),
        ("body", gift_body(&shown)),
        ("entry", entry_members(gift)),
        ("ranked", if is_ranked { "1" } else { "0" }.to_owned()),
        ("user", gift.user.id.to_string()),
    ]
}

/// When a gift is to be shown, as `lua/feed/gift.lua` explains it.
pub(crate) fn show_arg(gift: &Gift) -> String {
    match gift.show {
        Show::ByPolicy => String::new(),
        Show::After(0) => "-".to_owned(),
        Show::After(ms) => format!("+{ms}"),
        Show::At(at) => at.0.to_string(),
    }
}

/// Units and money as receipts have them.
fn given_json(units: u64, value: Option<&Value>) -> String {
    let value =
        value.map(|Value { amount, currency }| format!(",\"amount\":{amount},\"currency\":\"{currency}\""));
    format!("{{\"units\":{units}{}}}", value.unwrap_or_default())
}

/// What `feed_publish` says about one gift.
pub(crate) fn outcome(text: &str, id: &GiftId, fingerprint: Fingerprint) -> Read<Outcome> {
    let kind = text.get(..1).ok_or(Corrupt("an outcome"))?;
    let rest = &text[1..];
    if kind == "F" {
        return Ok(Outcome::TooManyInReview { id: id.clone(), retry_in_ms: parse(rest, "a time")? });
    }
    if kind == "f" {
        return Ok(Outcome::TooManyScheduled { id: id.clone(), retry_in_ms: parse(rest, "a time")? });
    }
    let known = remembered(rest, id)?;
    match (kind, known.fate) {
        ("n", GiftFate::Taken(answer)) => Ok(Outcome::New(answer)),
        ("n", GiftFate::Waits(it)) => Ok(Outcome::Scheduled(it)),
        ("n", GiftFate::InReview { id, .. }) => Ok(Outcome::InReview(id)),
        ("d", fate) => Ok(Remembered { fate, ..known }.again(fingerprint)),
        _ => Err(Corrupt("an outcome")),
    }
}

/// What `feed_show` says about one gift: the answer, or `None` if it was not, or no longer, due.
pub(crate) fn shown(text: &str, id: &GiftId) -> Read<Option<Answer>> {
    if text == "x" {
        return Ok(None);
    }
    match remembered(text.strip_prefix('n').unwrap_or_default(), id)?.fate {
        GiftFate::Taken(answer) => Ok(Some(answer)),
        _ => Err(Corrupt("an outcome")),
    }
}

/// The receipt of an id; an empty text is nothing.
fn receipt(text: &str) -> Read<Option<GiftReceipt>> {
    if text.is_empty() {
        return Ok(None);
    }
    serde_json::from_str(text).map(Some).map_err(|_| Corrupt("what became of a gift"))
}

/// What is remembered of an id at `steady`; an empty text is nothing.
pub(crate) fn still_remembered(text: &str, id: &GiftId, steady: Millis) -> Read<Option<Remembered>> {
    let kept = receipt(text)?.filter(|it| it.is_kept(steady));
    kept.map(|it| remembered_of(&it, id)).transpose()
}

/// What an id remembers of its gift.
pub(crate) struct GiftMark {
    pub fate: GiftFate,
    /// When it was taken, cancelled, or began to wait.
    pub since: Millis,
    /// It was taken back by its id.
    pub is_retracted: bool,
    /// How much of its value was refunded before.
    pub refunded: u64,
    /// The number of its entry in the ledger.
    pub entry: Option<u64>,
}

/// What is remembered of a gift at `now`, as long as it can be taken back; `window` is the feed's idempotency window.
pub(crate) fn gift_mark(
    text: &str,
    id: &GiftId,
    (now, steady): (Millis, Millis),
    window: u64,
) -> Read<Option<GiftMark>> {
    let Some(it) = receipt(text)? else { return Ok(None) };
    if !it.is_kept(steady) && it.keep_until.is_none_or(|keep| now.0 >= keep) {
        return Ok(None);
    }
    // A window ends by the steady time; what waits came at a time on the wall.
    let taken = |until: i64| until.saturating_sub(window as i64).saturating_add(now.0 - steady.0);
    let since = Millis(it.since.or(it.until.map(taken)).unwrap_or_default());
    let fate = remembered_of(&it, id)?.fate;
    Ok(Some(GiftMark { fate, since, is_retracted: it.retracted, refunded: it.refunded, entry: it.entry }))
}

/// What is remembered of an id: see `lua/feed/receipt.lua`.
pub(crate) fn remembered(text: &str, id: &GiftId) -> Read<Remembered> {
    remembered_of(&receipt(text)?.ok_or(Corrupt("what became of a gift"))?, id)
}

fn remembered_of(it: &GiftReceipt, id: &GiftId) -> Read<Remembered> {
    it.remembered(id).ok_or(Corrupt("what became of a gift"))
}

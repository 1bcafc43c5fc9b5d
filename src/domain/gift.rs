//! One gift event, as a producer sends it (contract section 1).

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{self, Fault, Field, Item, Json, Object, Refused};
use super::{Fingerprint, GiftId, Millis, Trace, currency, text};

/// The longest delay of a scheduled gift: a week, in milliseconds.
pub const MAX_DELAY_MS: u64 = super::limits::DELAY_MS.1;

/// The person who sent a gift.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The producer's id of the user, 1–64 bytes, any content.
    pub id: String,
    /// What to show: cleaned text, never blank.
    pub name: String,
    /// An https URL of a picture.
    pub avatar: Option<String>,
    /// True for one who wants to be counted and never ranked.
    pub anonymous: bool,
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiftKind {
    /// The producer's id of the kind of gift, 1–64 bytes, any content.
    pub id: String,
    /// What to show: cleaned text, never blank.
    pub name: String,
    /// An https URL of a picture.
    pub icon: Option<String>,
}

/// What an event is worth, in minor units of a currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Minor units, 0…2^53−1.
    pub amount: u64,
    /// As [`currency::read`] spells it.
    pub currency: String,
}

/// An explicit combo: frames of one run of the same gift, with a cumulative count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComboMark {
    /// The run's id, 1–128 bytes, any content.
    pub id: String,
    /// How many so far in this run.
    pub count: u32,
    /// True when this frame closes the run.
    pub end: bool,
}

/// When to show a gift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Show {
    /// The feed's policy decides.
    ByPolicy,
    /// This long after it came, in milliseconds.
    After(u64),
    /// At this time; at once when it has passed.
    At(Millis),
}

/// A gift event that keeps every rule of the contract.
///
/// As serde writes it a gift is stored while it waits, and not as a producer's JSON: what was accepted once must not be refused
/// by a rule that is stricter later, and keeps the fingerprint that it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gift {
    /// The event's identity.
    pub id: GiftId,
    /// The person who sent it.
    pub user: Person,
    /// What was sent.
    pub gift: GiftKind,
    /// Units of this event, 1…1 000 000.
    pub count: u64,
    /// What the whole event is worth.
    pub value: Option<Value>,
    /// The explicit combo it belongs to.
    pub combo: Option<ComboMark>,
    /// Cleaned text, never empty.
    pub message: Option<String>,
    /// 0…9.
    pub tier: Option<u8>,
    /// When it happened at the producer's.
    pub occurred_at: Option<Millis>,
    /// When to show it.
    pub show: Show,
    /// Shown as a test, never counted.
    pub test: bool,
    /// The producer's own object as minified JSON, untouched otherwise.
    pub meta: Option<String>,
    /// What makes the same `id` with another payload a conflict. The id itself is not in it.
    pub fingerprint: Fingerprint,
    /// The step of a trace that brought it, where traces are recorded. No part of what was sent: a retry has another.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "super::trace::read_or_none"
    )]
    pub trace: Option<Trace>,
}

impl Gift {
    /// Reads one gift from a JSON value. Faults' pointers begin with it.
    ///
    /// `key` is the request's `Idempotency-Key`: the same thing as the body's `id`. With neither,
    /// the gift gets a fresh id.
    pub fn parse(raw: &RawValue, key: Option<&GiftId>) -> Result<Gift, Refused> {
        Gift::parse_body(raw.into(), key, None)
    }

    /// As [`Gift::parse`], of a whole body. `unnamed` is the id of a gift that gets none from body and key.
    pub fn parse_body(
        body: Json<'_>,
        key: Option<&GiftId>,
        unnamed: Option<GiftId>,
    ) -> Result<Gift, Refused> {
        let mut faults = Vec::new();
        let read = match &mut Object::open(body, &mut faults) {
            Some(body) => Self::read(body, key, unnamed, &mut faults),
            None => None,
        };
        Self::judged(read, faults)
    }

    /// Reads one gift of a batch. Faults' pointers begin with it. `unnamed` is its id if it names none.
    pub fn parse_item(item: Item<'_>, unnamed: Option<GiftId>) -> Result<Gift, Refused> {
        let mut faults = Vec::new();
        let read = match &mut item.object(&mut faults) {
            Some(body) => Self::read(body, None, unnamed, &mut faults),
            None => None,
        };
        Self::judged(read, faults)
    }

    fn judged(read: Option<Gift>, faults: Vec<Fault>) -> Result<Gift, Refused> {
        match read {
            Some(gift) if faults.is_empty() => Ok(gift),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(
        body: &mut Object<'_>,
        key: Option<&GiftId>,
        unnamed: Option<GiftId>,
        faults: &mut Vec<Fault>,
    ) -> Option<Gift> {
        let id = read_id(body, key, unnamed, faults);
        let user = body.need("user", faults).and_then(|f| read_person(&f, faults));
        let gift = body.need("gift", faults).and_then(|f| read_kind(&f, faults));
        let count = match body.take("count") {
            Some(f) => f.integer(1, 1_000_000, faults),
            None => Some(1),
        };
        let value = body.take("value").and_then(|f| read_value(&f, faults));
        let combo = body.take("combo").and_then(|f| read_combo(&f, faults));
        let message =
            body.take("message").and_then(|f| display_text(&f, 0, 200, faults)).filter(|m| !m.is_empty());
        let tier = body.take("tier").and_then(|f| f.integer(0, 9, faults)).map(|n| n as u8);
        let occurred_at = body.take("occurred_at").and_then(|f| read_time(&f, faults));
        let show = read_show(body, faults);
        let test = body.take("test").and_then(|f| f.boolean(faults)).unwrap_or(false);
        let meta = body.take("meta").and_then(|f| read_meta(&f, faults));
        body.close(faults);
        let mut gift = Gift {
            id: id?,
            user: user?,
            gift: gift?,
            count: count?,
            value,
            combo,
            message,
            tier,
            occurred_at,
            show,
            test,
            meta: meta.as_ref().map(|(text, _)| text.clone()),
            fingerprint: Fingerprint([0; 16]),
            trace: None,
        };
        gift.fingerprint = gift.digest(meta.map(|(_, canonical)| canonical));
        Some(gift)
    }

    /// Over a spelling in which every part is length-prefixed by JSON's own quoting, members of
    /// `meta` in sorted order, so two payloads meet only when they mean the same.
    fn digest(&self, meta: Option<String>) -> Fingerprint {
        let mut out = String::with_capacity(256);
        self.spell(&mut out, meta.as_deref());
        Fingerprint::of(&out)
    }

    /// One array, in which what is absent is `null`. Fingerprints are stored, so no byte of it may ever change.
    fn spell(&self, out: &mut String, meta: Option<&str>) {
        let Person { id, name, avatar, anonymous } = &self.user;
        out.push_str("[[");
        push_list(out, [Some(id), Some(name), avatar.as_ref()].map(|text| text.map(String::as_str)));
        // As it was before anybody could be anonymous, for those who are not.
        out.push_str(if *anonymous { ",true],[" } else { "],[" });
        let GiftKind { id, name, icon } = &self.gift;
        push_list(out, [Some(id), Some(name), icon.as_ref()].map(|text| text.map(String::as_str)));
        out.push_str("],");
        json::push_number(out, self.count as i64);
        match &self.value {
            Some(value) => {
                out.push_str(",[");
                json::push_number(out, value.amount as i64);
                out.push(',');
                json::push_string(out, &value.currency);
                out.push(']');
            }
            None => out.push_str(",null"),
        }
        match &self.combo {
            Some(combo) => {
                out.push_str(",[");
                json::push_string(out, &combo.id);
                out.push(',');
                json::push_number(out, combo.count.into());
                out.push_str(if combo.end { ",true]" } else { ",false]" });
            }
            None => out.push_str(",null"),
        }
        out.push(',');
        push_list(out, [self.message.as_deref()]);
        for number in [self.tier.map(i64::from), self.occurred_at.map(|at| at.0)] {
            out.push(',');
            match number {
                Some(number) => json::push_number(out, number),
                None => out.push_str("null"),
            }
        }
        let (kind, number) = match self.show {
            Show::ByPolicy => (",[0,", 0),
            Show::After(ms) => (",[1,", ms as i64),
            Show::At(at) => (",[2,", at.0),
        };
        out.push_str(kind);
        json::push_number(out, number);
        out.push_str(if self.test { "],true," } else { "],false," });
        push_list(out, [meta]);
        out.push(']');
    }
}

/// Strings with commas between them; one that is absent is `null`.
fn push_list<const N: usize>(out: &mut String, texts: [Option<&str>; N]) {
    for (at, text) in texts.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match text {
            Some(text) => json::push_string(out, text),
            None => out.push_str("null"),
        }
    }
}

impl Person {
    /// As rows carry it: `{"id","name","avatar"?,"anonymous"?}`.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(64);
        self.push_json(&mut out);
        out
    }

    /// Appends [`Person::to_json`].
    pub fn push_json(&self, out: &mut String) {
        push_named(out, &self.id, &self.name, "avatar", self.avatar.as_deref());
        if self.anonymous {
            out.pop();
            out.push_str(",\"anonymous\":true}");
        }
    }
}

impl GiftKind {
    /// As rows carry it: `{"id","name","icon"?}`.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(64);
        self.push_json(&mut out);
        out
    }

    /// Appends [`GiftKind::to_json`].
    pub fn push_json(&self, out: &mut String) {
        push_named(out, &self.id, &self.name, "icon", self.icon.as_deref());
    }
}

fn push_named(out: &mut String, id: &str, name: &str, picture: &str, url: Option<&str>) {
    out.push_str("{\"id\":");
    json::push_string(out, id);
    out.push_str(",\"name\":");
    json::push_string(out, name);
    if let Some(url) = url {
        out.push_str(",\"");
        out.push_str(picture);
        out.push_str("\":");
        json::push_string(out, url);
    }
    out.push('}');
}

fn read_id(
    body: &mut Object<'_>,
    key: Option<&GiftId>,
    unnamed: Option<GiftId>,
    faults: &mut Vec<Fault>,
) -> Option<GiftId> {
    let Some(field) = body.take("id") else {
        return Some(key.cloned().or(unnamed).unwrap_or_else(GiftId::mint));
    };
    read_given_id(&field, key, faults)
}

/// An id that is there, and is `key` when that is there too.
pub(super) fn read_given_id(
    field: &Field<'_>,
    key: Option<&GiftId>,
    faults: &mut Vec<Fault>,
) -> Option<GiftId> {
    let id: GiftId = match field.text(faults)?.parse() {
        Ok(id) => id,
        Err(rule) => {
            field.wrong(faults, rule.to_string());
            return None;
        }
    };
    if key.is_some_and(|key| *key != id) {
        field.wrong(faults, "differs from the Idempotency-Key header; they are the same thing, send one");
        return None;
    }
    Some(id)
}

/// A user.
pub(super) fn read_person(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Person> {
    let mut object = field.object(faults)?;
    let anonymous = object.take("anonymous").and_then(|f| f.boolean(faults)).unwrap_or(false);
    read_named(&mut object, "avatar", faults).map(|(id, name, avatar)| Person { id, name, avatar, anonymous })
}

/// A kind of gift.
pub(crate) fn read_kind(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<GiftKind> {
    let mut object = field.object(faults)?;
    read_named(&mut object, "icon", faults).map(|(id, name, icon)| GiftKind { id, name, icon })
}

/// `{id, name, <picture>?}`: a user or a kind of gift.
fn read_named(
    object: &mut Object<'_>,
    picture: &'static str,
    faults: &mut Vec<Fault>,
) -> Option<(String, String, Option<String>)> {
    let id = object.need("id", faults).and_then(|f| opaque_id(&f, 64, faults));
    let name = object.need("name", faults).and_then(|f| display_text(&f, 1, 64, faults));
    let url = object.take(picture).and_then(|f| read_url(&f, faults));
    object.close(faults);
    let (id, mut name) = (id?, name?);
    if text::is_blank(&name) {
        name = text::clean(&id);
    }
    // An id of nothing but hazards has no clean spelling either; show something a person can see.
    if text::is_blank(&name) {
        name = "?".to_owned();
    }
    Some((id, name, url))
}

fn opaque_id(field: &Field<'_>, most: usize, faults: &mut Vec<Fault>) -> Option<String> {
    let id = field.text(faults)?;
    if id.is_empty() || id.len() > most {
        field.wrong(faults, format!("must be 1 to {most} bytes long"));
        return None;
    }
    Some(id.into_owned())
}

/// Cleaning may shorten a text and NFC may lengthen it: either spelling inside the limit is fine.
pub(super) fn display_text(
    field: &Field<'_>,
    least: usize,
    most: usize,
    faults: &mut Vec<Fault>,
) -> Option<String> {
    let raw = field.text(faults)?;
    if field.is_plain() && (least..=most).contains(&raw.len()) {
        return Some(raw.into_owned());
    }
    // NFC makes at most four characters into one, so this much is too long however it is spelled, and is not normalised.
    if raw.len() > 4 * most && text::len_without_hazards(&raw) > 4 * most {
        field.wrong(faults, format!("must be {least} to {most} characters long"));
        return None;
    }
    let clean = text::clean(&raw);
    // No text has more characters than bytes.
    let too_long = raw.len() > most && clean.chars().count() > most && raw.chars().count() > most;
    if too_long || raw.chars().count() < least {
        field.wrong(faults, format!("must be {least} to {most} characters long"));
        return None;
    }
    Some(clean)
}

fn read_url(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<String> {
    let text = field.string(faults)?;
    let clean = text.len() <= 512 && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    let https = || url::Url::parse(&text).is_ok_and(|u| u.scheme() == "https" && u.has_host());
    if !(clean && https() && text.get(..8).is_some_and(|s| s.eq_ignore_ascii_case("https://"))) {
        field.wrong(faults, "must be an https URL of at most 512 bytes");
        return None;
    }
    Some(text)
}

/// Appends `,"value":{"amount","currency"}`, or nothing without a value.
pub(super) fn push_value(out: &mut String, value: Option<&Value>) {
    if let Some(Value { amount, currency }) = value {
        let _ = write!(out, ",\"value\":{{\"amount\":{amount},\"currency\":\"{currency}\"}}");
    }
}

pub(super) fn read_value(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Value> {
    let mut object = field.object(faults)?;
    let amount = object.need("amount", faults).and_then(|f| f.integer(0, super::MAX_SAFE, faults));
    let currency = object.need("currency", faults).and_then(|f| {
        let currency = currency::read(&f.string(faults)?);
        if currency.is_none() {
            f.wrong(faults, "must be 3 to 12 of A-Z a-z");
        }
        currency.map(|it| it.code)
    });
    object.close(faults);
    Some(Value { amount: amount?, currency: currency? })
}

fn read_combo(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<ComboMark> {
    let mut object = field.object(faults)?;
    let id = object.need("id", faults).and_then(|f| opaque_id(&f, 128, faults));
    let count = object.need("count", faults).and_then(|f| f.integer(0, u32::MAX.into(), faults));
    let end = object.take("end").and_then(|f| f.boolean(faults)).unwrap_or(false);
    object.close(faults);
    Some(ComboMark { id: id?, count: count? as u32, end })
}

pub(super) fn read_time(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Millis> {
    let at = Millis::parse(&field.text(faults)?);
    if at.is_none() {
        field.wrong(faults, "must be an RFC 3339 time such as 2026-01-31T12:00:00.000Z");
    }
    at
}

fn read_show(body: &mut Object<'_>, faults: &mut Vec<Fault>) -> Show {
    let at = body.take("deliver_at");
    let after = body.take("delay_ms");
    if let (Some(at), Some(_)) = (&at, &after) {
        at.wrong(faults, "cannot stand beside delay_ms; send one of the two");
    }
    if let Some(at) = at.and_then(|f| read_time(&f, faults)) {
        return Show::At(at);
    }
    match after.and_then(|f| f.integer(0, MAX_DELAY_MS, faults)) {
        Some(ms) => Show::After(ms),
        None => Show::ByPolicy,
    }
}

/// Levels of objects and arrays in `meta`, itself included: every reader of it recurses.
const META_DEPTH: usize = 32;

/// The minified text, and a spelling with sorted members for comparing.
fn read_meta(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<(String, String)> {
    let text = json::whole_surrogates(&json::minified(field.raw));
    if !text.starts_with('{') {
        field.wrong(faults, "must be an object");
        return None;
    }
    if text.len() > 1024 {
        field.wrong(faults, "must be at most 1024 bytes as JSON");
        return None;
    }
    if json::depth(&text) > META_DEPTH {
        field.wrong(faults, format!("must be nested at most {META_DEPTH} levels deep"));
        return None;
    }
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(parsed) => {
            let canonical = parsed.to_string();
            Some((text, canonical))
        }
        // A number that no float holds (1e999) is still JSON: pass it through, compare its text.
        Err(e) if e.to_string().starts_with("number out of range") => Some((text.clone(), text)),
        Err(e) => {
            field.wrong(faults, format!("cannot be passed through: {e}"));
            None
        }
    }
}

#[cfg(test)]
mod tests;

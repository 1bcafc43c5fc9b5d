//! From an event to a gift, as the JSON text that a producer would post.

use super::amount::Decimal;
use super::body::Node;
use super::preset::{EventRule, Place, Unit};
use super::{Headers, Owner, Refusal, Settings, condition};
use crate::domain::gift::GiftKind;
use crate::domain::hashing::{hmac_sha256, sha256};
use crate::domain::json::{self, push_string};
use crate::domain::{Gift, GiftId, Value, currency, text};

/// Characters of a name, and of a message, at most; longer ones are cut, never a reason to refuse money.
const NAME_MAX: usize = 64;
const MESSAGE_MAX: usize = 200;

/// Bytes of a user's id at most.
const USER_ID_MAX: usize = 64;

/// The name of a giver who is not to be named.
pub const ANONYMOUS_NAME: &str = "Anonymous";

/// A delivery as places are looked up in it.
struct Found<'a> {
    headers: &'a dyn Headers,
    root: Node<'a>,
}

impl Found<'_> {
    /// What the first of `places` that holds something holds: a text that is not blank, or a number.
    fn first(&self, places: &[Place]) -> Option<String> {
        places.iter().find_map(|place| self.at(place))
    }

    fn at(&self, place: &Place) -> Option<String> {
        let text = match place {
            Place::Body(pointer) => self.root.at(pointer)?.text()?,
            Place::Header(name) => self.headers.get(name)?.to_owned(),
            Place::Fixed(text) => text.clone(),
        };
        (!text.trim().is_empty()).then_some(text)
    }
}

/// The ids that the gift may have, the likeliest first: the source's name and the platform's id of the event, or, where that would be no
/// id, their hash. Neither meets the other, nor an id of another source: a name has no colon.
pub fn ids(
    rule: &EventRule,
    owner: Owner<'_>,
    headers: &dyn Headers,
    root: Node<'_>,
) -> Result<Vec<GiftId>, Refusal> {
    let found = Found { headers, root };
    let with: String =
        rule.map.id_with.iter().filter_map(|place| found.at(place)).map(|part| format!("\n{part}")).collect();
    let named = rule.map.id.iter().filter_map(|place| found.at(place));
    let ids = named.map(|event| id_of(owner, &(event + &with))).collect::<Result<Vec<_>, _>>()?;
    match ids.is_empty() {
        true => Err(Refusal::Unmapped(format!("there is no id at {}", spelled(&rule.map.id)))),
        false => Ok(ids),
    }
}

fn id_of(owner: Owner<'_>, event: &str) -> Result<GiftId, Refusal> {
    let plain = format!("{}:{event}", owner.source);
    if let Ok(id) = plain.parse() {
        return Ok(id);
    }
    let hashed = format!(":{}", hex(&sha256(plain)[..24]));
    hashed.parse().map_err(|rule| Refusal::Unmapped(format!("the id {rule}")))
}

/// The amount of an event in minor units, if its rule says where it is.
pub fn amount(
    settings: &Settings,
    rule: &EventRule,
    headers: &dyn Headers,
    root: Node<'_>,
) -> Result<Option<u64>, Refusal> {
    Ok(value(settings, rule, &Found { headers, root })?.map(|value| value.amount))
}

/// The gift of an event, as a post.
pub fn gift(
    settings: &Settings,
    rule: &EventRule,
    owner: Owner<'_>,
    headers: &dyn Headers,
    root: Node<'_>,
) -> Result<String, Refusal> {
    let found = Found { headers, root };
    let map = &rule.map;
    let id = ids(rule, owner, headers, root)?.swap_remove(0);
    let named = condition::all(&rule.named_when, root);
    let (user, name, anonymous) = user(settings, rule, owner, &found, &id, named);
    let value = value(settings, rule, &found)?;
    let message = found.first(&map.message).filter(|_| named && condition::all(&rule.message_when, root));

    let mut post = format!("{{\"id\":\"{id}\",\"user\":{{\"id\":");
    push_string(&mut post, &user);
    post.push_str(",\"name\":");
    push_string(&mut post, &name);
    // Counted, and never ranked: each is somebody else.
    post.push_str(if anonymous { ",\"anonymous\":true},\"gift\":" } else { "},\"gift\":" });
    GiftKind::push_json(&settings.default_gift, &mut post);
    if let Some(count) = found.first(&map.count) {
        let count = Decimal::parse(&count).and_then(|count| count.times_ten_to(0));
        let count = count.ok().filter(|count| (1..=1_000_000).contains(count));
        let Some(count) = count else {
            return Err(unmapped(&map.count, "is no count from 1 to 1000000"));
        };
        post.push_str(&format!(",\"count\":{count}"));
    }
    if let Some(Value { amount, currency }) = &value {
        post.push_str(&format!(",\"value\":{{\"amount\":{amount},\"currency\":\"{currency}\"}}"));
        if let Some(tier) = settings.tier_of(*amount) {
            post.push_str(&format!(",\"tier\":{tier}"));
        }
    }
    if let Some(message) = message.map(|message| cut(&message, MESSAGE_MAX)).filter(|m| !text::is_blank(m)) {
        post.push_str(",\"message\":");
        push_string(&mut post, &message);
    }
    post.push('}');
    Ok(post)
}

/// The post as the store takes it, by the rules that all producers have.
pub fn parse(post: &str) -> Result<Gift, Refusal> {
    let refused = |refused| match refused {
        json::Refused::Invalid(faults) => {
            let all: Vec<_> =
                faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.detail)).collect();
            Refusal::Unmapped(format!("the gift it would make is refused: {}", all.join("; ")))
        }
        json::Refused::Syntax(why) => Refusal::Unmapped(why),
    };
    Gift::parse(json::syntax(post.as_bytes()).map_err(refused)?, None).map_err(refused)
}

/// The giver's id and name, and whether it is nobody known.
fn user(
    settings: &Settings,
    rule: &EventRule,
    owner: Owner<'_>,
    found: &Found<'_>,
    gift: &GiftId,
    named: bool,
) -> (String, String, bool) {
    // Every anonymous gift has a giver of its own, or two strangers would become one row.
    let nobody =
        || (format!("anonymous:{}", salted(owner, "gift", gift.as_str())), ANONYMOUS_NAME.to_owned(), true);
    if !named {
        return nobody();
    }
    let name = found.first(&rule.map.user_name).filter(|name| !text::is_blank(&text::clean(name)));
    // Somebody's address in the place of a name is not shown.
    let shown = |name: &str| if is_address(name) { ANONYMOUS_NAME.to_owned() } else { cut(name, NAME_MAX) };
    let prefix = &settings.user_prefix;
    if let Some(id) = found.first(&rule.map.user_id) {
        let name = shown(name.as_deref().unwrap_or(&id));
        let plain = format!("{prefix}{id}");
        // An address in the place of an id is not kept.
        return match plain.len() <= USER_ID_MAX && !is_address(&id) {
            true => (plain, name, false),
            false => (format!("{prefix}{}", salted(owner, "user", &id)), name, false),
        };
    }
    let Some(name) = name else { return nobody() };
    let known = found.first(&rule.map.user_hash).unwrap_or_else(|| name.clone());
    let known = known.trim().to_lowercase();
    (format!("{prefix}{}", salted(owner, "user", &known)), shown(&name), false)
}

/// Whether a text looks like an e-mail address: something on both sides of an @, a dot behind it, no space.
fn is_address(text: &str) -> bool {
    let text = text.trim();
    let parts = text.split_once('@').filter(|(before, after)| !before.is_empty() && after.contains('.'));
    parts.is_some() && !text.contains(char::is_whitespace)
}

/// 128 bits of the HMAC-SHA256 of `text` with the source's salt, in hexadecimal.
fn salted(owner: Owner<'_>, purpose: &str, text: &str) -> String {
    let parts = [purpose.as_bytes(), b":", text.as_bytes()];
    hex(&hmac_sha256(owner.salt.as_bytes(), &parts)[..16])
}

/// What the gift is worth, in the currency's smallest units by ISO 4217; `None` if the event has no amount to
/// look for.
fn value(settings: &Settings, rule: &EventRule, found: &Found<'_>) -> Result<Option<Value>, Refusal> {
    let map = &rule.map;
    if map.amount.is_empty() {
        return Ok(None);
    }
    let Some(amount) = found.first(&map.amount) else {
        return match settings.amount_optional {
            true => Ok(None),
            false => Err(unmapped(&map.amount, "is no amount")),
        };
    };
    let currency = found.first(&map.currency).as_deref().map(str::trim_ascii).and_then(currency::read);
    let Some(currency) = currency else {
        return Err(unmapped(&map.currency, "is no currency: 3 to 12 letters"));
    };
    let iso = i64::from(currency.decimals);
    let places = match rule.amount {
        Unit::Decimal => iso,
        Unit::Micros => iso - 6,
        Unit::Minor => {
            let theirs = settings.decimals.get(&currency.code).copied().unwrap_or(currency.decimals);
            iso - i64::from(theirs)
        }
    };
    let exact = Decimal::parse(&amount).and_then(|amount| amount.times_ten_to(places));
    match exact {
        Ok(amount) => Ok(Some(Value { amount, currency: currency.code })),
        Err(fault) => Err(unmapped(&map.amount, format!("{fault} ({} has {iso} decimals)", currency.code))),
    }
}

fn unmapped(places: &[Place], what: impl std::fmt::Display) -> Refusal {
    Refusal::Unmapped(format!("what stands at {} {what}", spelled(places)))
}

/// Places as they are shown to a person.
fn spelled(places: &[Place]) -> String {
    let one = |place: &Place| match place {
        Place::Body(pointer) => pointer.clone(),
        Place::Header(name) => format!("the header {name}"),
        Place::Fixed(text) => format!("{text:?}"),
    };
    places.iter().map(one).collect::<Vec<_>>().join(" or ")
}

/// A text of at most `most` characters, cleaned.
fn cut(raw: &str, most: usize) -> String {
    text::cut(text::clean(raw).trim(), most)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

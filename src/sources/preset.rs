//! Presets: what is known of a platform, as data (`presets.toml`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::condition::Condition;
use super::verify::Scheme;

/// The file that holds and documents the presets.
pub const FILE: &str = include_str!("presets.toml");

static PRESETS: LazyLock<Result<Vec<Preset>, toml::de::Error>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        preset: Vec<Preset>,
    }
    toml::from_str::<File>(FILE).map(|file| file.preset)
});

/// All presets, in the file's order.
pub fn all() -> &'static [Preset] {
    // A test reads the file, so a release never has one that cannot be read.
    PRESETS.as_ref().map_or(&[], Vec::as_slice)
}

/// The preset of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    all().iter().find(|preset| preset.name == name)
}

/// A platform.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name in the API.
    pub name: String,
    /// Its name as people know it.
    pub title: String,
    /// Where its webhooks are set up and described.
    pub setup: String,
    /// What is copied from there, or to there.
    pub credential: String,
    /// The body is a form, with JSON in the field of this name.
    pub form_field: Option<String>,
    /// How it signs. Settings of `custom` bring their own.
    pub verify: Option<Scheme>,
    /// The prefix of its users' ids, so that those of two platforms never meet.
    #[serde(default)]
    pub user_prefix: String,
    /// Currencies of which it counts other minor units than ISO 4217: how many decimals it takes them to have.
    #[serde(default)]
    pub decimals: BTreeMap<String, u8>,
    /// Whether a source says itself which deliveries count and where the parts stand.
    #[serde(default)]
    pub open: bool,
    /// What it sends, the first that fits counts.
    #[serde(default)]
    pub event: Vec<EventRule>,
}

/// What an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Something to show.
    #[default]
    Gift,
    /// A gift that is taken back.
    Refund,
}

/// What a platform's number is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Smallest units of the currency, as the platform counts them.
    #[default]
    Minor,
    /// The currency itself, `3.00`.
    Decimal,
    /// Millionths of the currency.
    Micros,
}

/// One kind of event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRule {
    /// What it is called by the platform.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub what: What,
    /// It is this event when all of these hold.
    #[serde(default)]
    pub when: Vec<Condition>,
    /// The giver is named, and his message shown, only when all of these hold.
    #[serde(default)]
    pub named_when: Vec<Condition>,
    /// The message is shown only when all of these hold, too.
    #[serde(default)]
    pub message_when: Vec<Condition>,
    /// What the amount counts.
    #[serde(default)]
    pub amount: Unit,
    /// Where its parts stand.
    pub map: Map,
}

/// Where the parts of a gift stand: of several places the first that holds something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// What makes the event one of its own, the same in a retry and a refund. Only what the signature covers.
    pub id: Vec<Place>,
    /// Further parts of the id: all of these that hold something.
    #[serde(default)]
    pub id_with: Vec<Place>,
    /// The giver's id.
    #[serde(default)]
    pub user_id: Vec<Place>,
    /// What else differs from giver to giver; only its salted hash is kept.
    #[serde(default)]
    pub user_hash: Vec<Place>,
    /// The giver's name.
    #[serde(default)]
    pub user_name: Vec<Place>,
    /// The amount.
    #[serde(default)]
    pub amount: Vec<Place>,
    /// Its currency.
    #[serde(default)]
    pub currency: Vec<Place>,
    /// The message.
    #[serde(default)]
    pub message: Vec<Place>,
    /// How many of the gift.
    #[serde(default)]
    pub count: Vec<Place>,
}

/// A place of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Place {
    /// A JSON pointer into the body.
    Body(String),
    /// A header, in lower case; spelled `header:NAME`.
    Header(String),
    /// This very text; spelled without a leading `/`.
    Fixed(String),
}

impl Place {
    /// Whether a signature of this scheme covers it. What it does not cover, anybody who repeats a delivery can change.
    pub fn is_signed(&self, scheme: &Scheme) -> bool {
        match self {
            Place::Header(name) => scheme.signed_headers().contains(&name.as_str()),
            Place::Body(_) | Place::Fixed(_) => true,
        }
    }
}

impl From<String> for Place {
    fn from(text: String) -> Place {
        match text.strip_prefix("header:") {
            Some(name) => Place::Header(name.to_ascii_lowercase()),
            None if text.is_empty() || text.starts_with('/') => Place::Body(text),
            None => Place::Fixed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::body::is_pointer;

    #[test]
    fn the_file_is_read_and_every_pointer_in_it_is_one() {
        let presets = PRESETS.as_ref().unwrap();
        let names: Vec<_> = presets.iter().map(|preset| preset.name.as_str()).collect();
        assert_eq!(
            names,
            ["kofi", "stripe", "buymeacoffee", "github-sponsors", "twitch", "standard-webhooks", "custom"]
        );
        for preset in presets {
            assert_eq!(preset.verify.is_none(), preset.name == "custom");
            for rule in &preset.event {
                let Map { id, id_with, user_id, user_hash, user_name, amount, currency, message, count } =
                    &rule.map;
                let places = [id, id_with, user_id, user_hash, user_name, amount, currency, message, count];
                for place in places.into_iter().flatten() {
                    assert!(!matches!(place, Place::Body(pointer) if !is_pointer(pointer)), "{place:?}");
                    let signed = preset.verify.as_ref().is_some_and(|scheme| place.is_signed(scheme));
                    assert!(signed, "{}: the signature does not cover {place:?}", preset.name);
                }
                let conditions = rule.when.iter().chain(&rule.named_when).chain(&rule.message_when);
                assert!(conditions.clone().all(|condition| is_pointer(&condition.pointer)), "{rule:?}");
                assert!(!rule.map.id.is_empty() && (preset.open || !rule.when.is_empty()), "{rule:?}");
                assert_eq!(rule.map.amount.is_empty(), rule.map.currency.is_empty(), "{rule:?}");
            }
        }
    }
}

//! Tips that come from elsewhere: what a platform's webhook says, checked and read as a gift
//! (contract section 11).
//!
//! Nothing here does I/O or reads a clock. A platform is a [`preset`]: settings in one file,
//! `presets.toml`, which also documents them. A source's own [`settings`] choose a preset and add what
//! only its owner knows. [`receive`] is the whole way of one delivery: [`verify`] it, open the body
//! ([`body`]), find the event it is, and [`map`] it to a gift, where [`amount`] and [`crate::domain::currency`] read the
//! money. What goes into the gift is named in the map; everything else of a delivery, e-mail and street
//! addresses among it, is dropped here.

pub mod amount;
pub mod body;
pub mod map;
pub mod preset;
pub mod settings;
pub mod verify;

mod condition;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use settings::Settings;
pub use verify::Headers;

use crate::domain::json::push_string;
use crate::domain::{Gift, GiftId, Millis, SourceId};
use body::Node;
use preset::What;
use verify::Scheme;

/// The largest body of a delivery, in bytes.
pub const BODY_MAX: usize = 64 * 1024;

/// Whose delivery it is.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The source's name; part of its gifts' ids.
    pub source: &'a SourceId,
    /// Random text of this source, with which what identifies a person is hashed.
    pub salt: &'a str,
}

/// What a delivery is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A gift, and it as a producer would post it.
    Gift {
        /// Ready for the store.
        gift: Box<Gift>,
        /// The same as the JSON text of a post.
        post: String,
    },
    /// A payment was given back.
    Refund {
        /// The ids that its gift may have: a platform names one payment in several ways. At least one.
        ids: Vec<GiftId>,
        /// How much by now, in minor units; `None` for all of it.
        refunded: Option<u64>,
    },
    /// Nothing to show; says why.
    Ignored(String),
    /// The platform asks whether the address is ours: answer with this text.
    Challenge(String),
    /// The platform stopped sending; says why.
    Revoked(String),
}

impl Event {
    /// As it is shown when a sample is tried: JSON with `outcome` `gift`, `refund`, `ignored`, `challenge` or
    /// `revoked`, and what belongs to it.
    pub fn to_json(&self) -> String {
        let (outcome, member) = match self {
            Event::Gift { post, .. } => ("gift", format!("\"gift\":{post}")),
            Event::Refund { ids, refunded } => {
                let so_far = refunded.map(|amount| format!(",\"refunded\":{amount}")).unwrap_or_default();
                ("refund", format!("\"id\":\"{}\"{so_far}", ids.first().map_or("", GiftId::as_str)))
            }
            Event::Ignored(why) => ("ignored", quoted("detail", why)),
            Event::Challenge(text) => ("challenge", quoted("detail", text)),
            Event::Revoked(why) => ("revoked", quoted("detail", why)),
        };
        format!("{{\"outcome\":\"{outcome}\",{member}}}")
    }
}

/// A member of an object with a text.
fn quoted(name: &str, text: &str) -> String {
    let mut out = format!("\"{name}\":");
    push_string(&mut out, text);
    out
}

/// Why a delivery is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not show that it comes from the platform. Says what is missing or wrong, never the secret.
    Unverified(String),
    /// It is no body of the agreed form.
    Unreadable(String),
    /// It is the platform's, and cannot become a gift. Says which part of it and why.
    Unmapped(String),
}

impl Refusal {
    /// As [`Event::to_json`], with `outcome` `refused`.
    pub fn to_json(&self) -> String {
        format!("{{\"outcome\":\"refused\",{}}}", quoted("detail", self.detail()))
    }

    /// The sentence that says why.
    pub fn detail(&self) -> &str {
        match self {
            Refusal::Unverified(why) | Refusal::Unreadable(why) | Refusal::Unmapped(why) => why,
        }
    }
}

/// Reads a delivery, as its headers and the bytes of its body.
///
/// The signature is judged first, over the raw body; nothing of a body without a good one is looked at
/// (a token inside the body excepted, which has to be found).
pub fn receive(
    settings: &Settings,
    owner: Owner<'_>,
    headers: &dyn Headers,
    body: &[u8],
    now: Millis,
) -> Result<Event, Refusal> {
    verify::check(&settings.rules.verify, &settings.credential, headers, body, now)?;
    let text = body::open(&settings.rules.body, body)?;
    let root = Node::parse(&text)?;
    if let Scheme::BodyToken { pointer } = &settings.rules.verify {
        verify::check_token(pointer, &settings.credential, root)?;
    }
    if settings.rules.verify == Scheme::Twitch
        && let Some(event) = verify::twitch_handshake(headers, root)?
    {
        return Ok(event);
    }
    read(settings, owner, headers, root)
}

/// What a sample body would become. The same as [`receive`] without asking who sent it; what only a header
/// holds, such as the id of a delivery, is `sample`.
pub fn sample(settings: &Settings, owner: Owner<'_>, body: &[u8]) -> Result<Event, Refusal> {
    struct NoHeaders;
    impl Headers for NoHeaders {
        fn get(&self, _name: &str) -> Option<&str> {
            Some("sample")
        }
    }
    // A sample of a form is often at hand as the JSON of its field.
    let opened = match body.trim_ascii_start().starts_with(b"{") {
        true => body::open(&body::Form::Json, body)?,
        false => body::open(&settings.rules.body, body)?,
    };
    read(settings, owner, &NoHeaders, Node::parse(&opened)?)
}

/// The event that the body is: the first of the preset's whose conditions hold.
fn read(
    settings: &Settings,
    owner: Owner<'_>,
    headers: &dyn Headers,
    root: Node<'_>,
) -> Result<Event, Refusal> {
    let Some(rule) = settings.rules.events.iter().find(|rule| condition::all(&rule.when, root)) else {
        return Ok(Event::Ignored("no event that this source shows: \"when\" leaves it out".into()));
    };
    match rule.what {
        What::Gift => {
            let post = map::gift(settings, rule, owner, headers, root)?;
            let gift = map::parse(&post)?;
            Ok(Event::Gift { gift: Box::new(gift), post })
        }
        What::Refund => {
            let ids = map::ids(rule, owner, headers, root)?;
            Ok(Event::Refund { ids, refunded: map::amount(settings, rule, headers, root)? })
        }
    }
}

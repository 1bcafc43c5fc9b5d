//! How a source's deliveries are read: what its preset says, and what it says itself.

use super::{LIST_MAX, SourceRules, TEXT_MAX, below, short};
use crate::domain::json::{Fault, Field, Object, fault};
use crate::sources::body::{Form, is_pointer};
use crate::sources::condition::{Condition, Scalar};
use crate::sources::preset::{EventRule, Map, Place, Preset, Unit, What};
use crate::sources::verify::{Encoding, Scheme};

/// The preset's rules with what the source says itself; and whether it said where the amount is.
pub(super) fn read_rules(
    body: &mut Object<'_>,
    preset: Option<&'static Preset>,
    faults: &mut Vec<Fault>,
) -> Option<(SourceRules, bool)> {
    let open = preset.is_none_or(|preset| preset.open);
    let custom = preset.is_none_or(|preset| preset.verify.is_none());
    let verify = match allowed(body, "verify", custom, faults) {
        Some(field) => read_verify(&field, faults),
        None if custom => {
            faults.push(fault("/verify", "is required with \"preset\":\"custom\""));
            None
        }
        None => preset.and_then(|preset| preset.verify.clone()),
    };
    let form = allowed(body, "body", custom, faults).and_then(|f| {
        let text = f.string(faults)?;
        if text != "json" && text != "form" {
            f.wrong(faults, "must be \"json\" or \"form\"");
        }
        Some(text)
    });
    let form_field = allowed(body, "form_field", custom, faults).and_then(|f| short(&f, faults));
    let form = match (form.as_deref(), form_field) {
        (Some("form"), Some(name)) => Form::Field(name),
        (Some("form"), None) => {
            faults.push(fault(
                "/form_field",
                "is required with \"body\":\"form\": the field that holds the JSON",
            ));
            Form::Json
        }
        (None | Some("json"), Some(_)) => {
            faults.push(fault("/form_field", "goes with \"body\":\"form\" only"));
            Form::Json
        }
        (Some(_), _) => Form::Json,
        (None, None) => preset.map_or(Form::Json, super::form),
    };
    let when = allowed(body, "when", open, faults).map(|f| read_when(&f, "/when", faults));
    let unit = allowed(body, "amount", open, faults).and_then(|f| read_unit(&f, faults));
    let refund = allowed(body, "refund", open, faults).and_then(|f| read_refund(&f, faults));
    let map = body.take("map").map(|f| read_map(&f, faults));
    let amount_named = map.as_ref().and_then(Option::as_ref).is_some_and(|map| !map.amount.is_empty());
    let mut events = preset.map(|preset| preset.event.clone()).unwrap_or_default();
    if custom {
        if map.is_none() {
            faults.push(fault(
                "/map",
                "is required with \"preset\":\"custom\": where id, user_name, amount … stand",
            ));
        }
        events = vec![EventRule { name: "event".into(), ..EventRule::default() }];
    }
    for rule in events.iter_mut().filter(|rule| rule.what == What::Gift) {
        rule.when.extend(when.iter().flatten().flatten().cloned());
        rule.amount = unit.unwrap_or(rule.amount);
        if let Some(Some(own)) = &map {
            lay_over(&mut rule.map, own);
        }
    }
    if custom && map.is_some() && events.iter().any(|rule| rule.map.id.is_empty()) {
        faults.push(fault("/map/id", "is required: what is the same when the platform repeats itself"));
    }
    if let Some(scheme) = &verify {
        check_signed(map.as_ref().and_then(Option::as_ref), refund.as_ref(), scheme, faults);
    }
    // A refund may look like a payment otherwise.
    events.splice(0..0, refund);
    Some((SourceRules { verify: verify?, body: form, events }, amount_named))
}

/// A field that only some presets leave to the source.
fn allowed<'a>(
    body: &mut Object<'a>,
    name: &'static str,
    allowed: bool,
    faults: &mut Vec<Fault>,
) -> Option<Field<'a>> {
    let field = body.take(name)?;
    if !allowed {
        field.wrong(faults, "is the preset's to say; use \"preset\":\"custom\" to say it yourself");
    }
    allowed.then_some(field)
}

/// Refuses headers that the signature does not cover: who repeats a delivery with another one would have it count again.
fn check_signed(map: Option<&Map>, refund: Option<&EventRule>, scheme: &Scheme, faults: &mut Vec<Fault>) {
    let own = map.into_iter().flat_map(|map| {
        let Map { id, id_with: _, user_id, user_hash: _, user_name, amount, currency, message, count } = map;
        [
            ("/map/id", id),
            ("/map/user_id", user_id),
            ("/map/user_name", user_name),
            ("/map/amount", amount),
            ("/map/currency", currency),
            ("/map/message", message),
            ("/map/count", count),
        ]
    });
    for (pointer, places) in own.chain(refund.map(|rule| ("/refund/id", &rule.map.id))) {
        if places.iter().all(|place| place.is_signed(scheme)) {
            continue;
        }
        let or = match scheme.signed_headers() {
            [] => String::new(),
            names => format!(", or header:{}", names.join(" or header:")),
        };
        let why = "is a header that the signature does not cover, so a repeated delivery with another value would count \
                   again; name a place in the body";
        faults.push(fault(pointer, format!("{why}{or}")));
    }
}

/// What the source says itself goes before what its preset says.
fn lay_over(map: &mut Map, own: &Map) {
    let Map { id, id_with: _, user_id, user_hash: _, user_name, amount, currency, message, count } = own;
    if !id.is_empty() {
        map.id_with.clear();
    }
    for (to, from) in [
        (&mut map.id, id),
        (&mut map.user_id, user_id),
        (&mut map.user_name, user_name),
        (&mut map.amount, amount),
        (&mut map.currency, currency),
        (&mut map.message, message),
        (&mut map.count, count),
    ] {
        if !from.is_empty() {
            *to = from.clone();
        }
    }
}

fn read_verify(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Scheme> {
    let mut object = field.object(faults)?;
    let scheme = object.need("scheme", faults).and_then(|f| f.string(faults));
    let header = object.take("header");
    let encoding = object.take("encoding").and_then(|f| {
        let read = match f.string(faults)?.as_str() {
            "hex" => Some(Encoding::Hex),
            "base64" => Some(Encoding::Base64),
            _ => None,
        };
        if read.is_none() {
            f.wrong(faults, "must be \"hex\" or \"base64\"");
        }
        read
    });
    let prefix = object.take("prefix").and_then(|f| short(&f, faults));
    let pointer = object.take("pointer");
    let read = match scheme.as_deref() {
        Some("hmac-sha256") => {
            let Some(header) = header else {
                faults.push(fault("/verify/header", "is required: the header that holds the signature"));
                object.close(faults);
                return None;
            };
            let name = short(&header, faults)?;
            let legal =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
            if !legal {
                header.wrong(faults, "must be the name of a header, such as X-Signature");
            }
            Some(Scheme::Hmac {
                header: name.to_ascii_lowercase(),
                encoding: encoding.unwrap_or_default(),
                prefix: prefix.unwrap_or_default(),
            })
        }
        Some("body-token") => {
            let Some(pointer) = pointer else {
                faults.push(fault("/verify/pointer", "is required: where the token stands, a JSON pointer"));
                object.close(faults);
                return None;
            };
            Some(Scheme::BodyToken { pointer: read_pointer(&pointer, faults)? })
        }
        Some("standard-webhooks") => Some(Scheme::StandardWebhooks),
        Some(_) => {
            let detail = "must be \"hmac-sha256\", \"body-token\" or \"standard-webhooks\"";
            faults.push(fault("/verify/scheme", detail));
            None
        }
        None => None,
    };
    object.close(faults);
    read
}

fn read_unit(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Unit> {
    let unit = match field.string(faults)?.as_str() {
        "minor" => Some(Unit::Minor),
        "decimal" => Some(Unit::Decimal),
        "micros" => Some(Unit::Micros),
        _ => None,
    };
    if unit.is_none() {
        field.wrong(faults, "must be \"minor\", \"decimal\" or \"micros\"");
    }
    unit
}

fn read_when(field: &Field<'_>, pointer: &str, faults: &mut Vec<Fault>) -> Option<Vec<Condition>> {
    let mut conditions = Vec::new();
    for (at, item) in field.items(LIST_MAX, faults)?.into_iter().enumerate() {
        let mut inner = Vec::new();
        if let Some(mut object) = item.object(&mut inner) {
            let place = object.need("pointer", &mut inner).and_then(|f| read_pointer(&f, &mut inner));
            let equals = object.need("equals", &mut inner).and_then(|f| {
                let read = Scalar::read(f.raw).filter(|_| f.raw.len() <= TEXT_MAX);
                if read.is_none() {
                    f.wrong(&mut inner, "must be a string, a number, true, false or null");
                }
                read
            });
            object.close(&mut inner);
            if let (Some(pointer), equals @ Some(_)) = (place, equals) {
                conditions.push(Condition { pointer, equals, ..Condition::default() });
            }
        }
        below(faults, pointer, at, inner);
    }
    Some(conditions)
}

/// `{"when":[…],"id":"/pointer"}`: which deliveries take a gift back, and which gift.
fn read_refund(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<EventRule> {
    let mut object = field.object(faults)?;
    let when = object.need("when", faults).and_then(|f| read_when(&f, "/refund/when", faults));
    let id = object.need("id", faults).and_then(|f| read_place(&f, faults));
    object.close(faults);
    let map = Map { id: vec![id?], ..Map::default() };
    Some(EventRule { name: "refund".into(), what: What::Refund, when: when?, map, ..EventRule::default() })
}

fn read_map(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Map> {
    let mut object = field.object(faults)?;
    let mut one = |name: &'static str, faults: &mut Vec<Fault>| -> Vec<Place> {
        object.take(name).and_then(|f| read_place(&f, faults)).into_iter().collect()
    };
    let map = Map {
        id: one("id", faults),
        id_with: vec![],
        user_id: one("user_id", faults),
        user_hash: vec![],
        user_name: one("user_name", faults),
        amount: one("amount", faults),
        currency: one("currency", faults),
        message: one("message", faults),
        count: one("count", faults),
    };
    object.close(faults);
    Some(map)
}

fn read_pointer(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<String> {
    let text = short(field, faults)?;
    if !is_pointer(&text) {
        field.wrong(faults, "must be a JSON pointer such as /data/amount");
        return None;
    }
    Some(text)
}

/// A JSON pointer, `header:NAME`, or a currency's code as it is.
fn read_place(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Place> {
    let text = short(field, faults)?;
    let letters = (3..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic());
    if !(is_pointer(&text) || text.starts_with("header:") || letters) {
        field.wrong(
            faults,
            "must be a JSON pointer such as /data/amount, header:NAME, or a currency such as USD",
        );
        return None;
    }
    Some(Place::from(text))
}

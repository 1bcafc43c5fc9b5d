//! A source's own settings: the body of its PUT, which is also what the store keeps of it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::body::Form;
use super::preset::{self, EventRule, Preset};
use super::verify::Scheme;
use crate::domain::MAX_SAFE;
use crate::domain::gift::{self, GiftKind};
use crate::domain::hook_spec::secret_key;
use crate::domain::json::{self, Fault, Field, Object, Refused, fault};
use rules::read_rules;

mod rules;

/// Characters of a secret or token at most.
const CREDENTIAL_MAX: usize = 512;

/// Tiers, and conditions, of one source at most.
const LIST_MAX: usize = 32;

/// Characters of a JSON pointer, a header's name or a condition's text at most.
const TEXT_MAX: usize = 256;

/// How a source reads its deliveries.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The preset's name.
    pub preset: String,
    /// The secret or token. Never shown.
    pub(super) credential: String,
    /// What a gift of this source is.
    pub default_gift: GiftKind,
    /// From how many smallest units on a gift has which tier; ascending.
    pub tiers: Vec<(u64, u8)>,
    pub(super) rules: SourceRules,
    pub(super) user_prefix: String,
    pub(super) decimals: BTreeMap<String, u8>,
    /// An event without an amount is a gift without a value: nobody said where the amount is.
    pub(super) amount_optional: bool,
}

/// What a preset and the source's own settings come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceRules {
    pub verify: Scheme,
    pub body: Form,
    pub events: Vec<EventRule>,
}

impl std::fmt::Debug for Settings {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("preset", &self.preset).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the body of a PUT, or what the store kept of one.
    pub fn parse(raw: &RawValue) -> Result<Settings, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(settings) if faults.is_empty() => Ok(settings),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    /// Those of a preset with nothing of its own, for trying a sample.
    pub fn of_preset(name: &str) -> Option<Settings> {
        let preset = preset::named(name).filter(|preset| preset.verify.is_some())?;
        let gift = GiftKind { id: "tip".into(), name: "Tip".into(), icon: None };
        let rules =
            SourceRules { verify: preset.verify.clone()?, body: form(preset), events: preset.event.clone() };
        Some(Settings::with(preset, String::new(), gift, vec![], rules))
    }

    fn with(
        preset: &Preset,
        credential: String,
        default_gift: GiftKind,
        tiers: Vec<(u64, u8)>,
        rules: SourceRules,
    ) -> Settings {
        Settings {
            preset: preset.name.clone(),
            credential,
            default_gift,
            tiers,
            rules,
            user_prefix: preset.user_prefix.clone(),
            decimals: preset.decimals.clone(),
            amount_optional: preset.open,
        }
    }

    /// The tier of an amount; none below the first.
    pub fn tier_of(&self, amount: u64) -> Option<u8> {
        self.tiers.iter().take_while(|(from, _)| *from <= amount).last().map(|(_, tier)| *tier)
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<Settings> {
        let mut body = Object::open(raw, faults)?;
        let preset = body.need("preset", faults).and_then(|f| read_preset(&f, faults));
        let credential = read_credential(&mut body, preset, faults);
        let gift = body.need("default_gift", faults).and_then(|f| gift::read_kind(&f, faults));
        let tiers = body.take("tier").map_or(Some(vec![]), |f| read_tiers(&f, faults));
        let rules = read_rules(&mut body, preset, faults);
        body.close(faults);
        let (preset, (rules, amount_named)) = (preset?, rules?);
        let mut settings = Settings::with(preset, credential?, gift?, tiers?, rules);
        settings.amount_optional &= !amount_named;
        Some(settings)
    }
}

fn form(preset: &Preset) -> Form {
    preset.form_field.clone().map_or(Form::Json, Form::Field)
}

fn read_preset(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<&'static Preset> {
    let found = preset::named(&field.string(faults)?);
    if found.is_none() {
        let names: Vec<_> = preset::all().iter().map(|preset| preset.name.as_str()).collect();
        field.wrong(faults, format!("must be one of {}", names.join(", ")));
    }
    found
}

/// `secret` or `token`, whichever the platform calls it.
fn read_credential(
    body: &mut Object<'_>,
    preset: Option<&Preset>,
    faults: &mut Vec<Fault>,
) -> Option<String> {
    let (secret, token) = (body.take("secret"), body.take("token"));
    if let (Some(_), Some(token)) = (&secret, &token) {
        token.wrong(faults, "is the same thing as secret; send one of the two");
    }
    let Some(field) = secret.or(token) else {
        let what = preset.map_or("the secret or token", |preset| preset.credential.as_str());
        faults.push(fault("/secret", format!("is required (or token): {what}")));
        return None;
    };
    let text = field.string(faults)?;
    let legal = match preset.map(|preset| preset.name.as_str()) {
        Some("standard-webhooks") => secret_key(&text).is_some(),
        _ => (1..=CREDENTIAL_MAX).contains(&text.len()) && text.trim() == text,
    };
    if !legal {
        field.wrong(faults, "must be 1 to 512 bytes without white space around them; of standard-webhooks whsec_ and base64 of 24 to 64 bytes");
    }
    legal.then_some(text)
}

fn read_tiers(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Vec<(u64, u8)>> {
    let mut tiers = Vec::new();
    for (at, item) in field.items(LIST_MAX, faults)?.into_iter().enumerate() {
        let mut inner = Vec::new();
        if let Some(mut object) = item.object(&mut inner) {
            let from = object.need("from", &mut inner).and_then(|f| f.integer(0, MAX_SAFE, &mut inner));
            let tier = object.need("tier", &mut inner).and_then(|f| f.integer(0, 9, &mut inner));
            object.close(&mut inner);
            tiers.extend(from.zip(tier).map(|(from, tier)| (from, tier as u8)));
        }
        below(faults, "/tier", at, inner);
    }
    tiers.sort_unstable();
    Some(tiers)
}

fn short(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<String> {
    let text = field.string(faults)?;
    if text.len() > TEXT_MAX {
        field.wrong(faults, format!("must have at most {TEXT_MAX} bytes"));
        return None;
    }
    Some(text)
}

/// Faults of an item, with the place of the item.
fn below(faults: &mut Vec<Fault>, list: &str, at: usize, inner: Vec<Fault>) {
    faults
        .extend(inner.into_iter().map(|one| json::fault(&format!("{list}/{at}{}", one.pointer), one.detail)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::preset::{Place, Unit, What};
    use crate::sources::verify::Encoding;
    use serde_json::{Value, json};

    fn parse(body: &Value) -> Result<Settings, Refused> {
        Settings::parse(json::syntax(body.to_string().as_bytes()).unwrap())
    }

    fn pointers(body: &Value) -> Vec<String> {
        match parse(body).unwrap_err() {
            Refused::Invalid(faults) => faults.into_iter().map(|fault| fault.pointer).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn kofi() -> Value {
        json!({"preset": "kofi", "token": "t-1", "default_gift": {"id": "tip", "name": "Tip"}})
    }

    fn custom() -> Value {
        json!({
            "preset": "custom", "secret": "s-1", "default_gift": {"id": "tip", "name": "Tip"},
            "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "encoding": "base64", "prefix": "v1="},
            "body": "form", "form_field": "payload", "when": [{"pointer": "/kind", "equals": "tip"}],
            "map": {"id": "/id", "user_name": "/who", "amount": "/sum", "currency": "EUR"}, "amount": "micros",
            "refund": {"when": [{"pointer": "/kind", "equals": "refund"}], "id": "/of"},
        })
    }

    fn with(mut body: Value, name: &str, value: Value) -> Value {
        body[name] = value;
        body
    }

    #[test]
    fn a_preset_needs_a_token_and_a_gift_and_nothing_else() {
        let settings = parse(&kofi()).unwrap();
        assert_eq!((settings.preset.as_str(), settings.credential.as_str()), ("kofi", "t-1"));
        assert_eq!(settings.rules.body, Form::Field("data".into()));
        let mut tiers = kofi();
        tiers["tier"] = json!([{"from": 500, "tier": 2}, {"from": 100, "tier": 1}]);
        let settings = parse(&tiers).unwrap();
        let of = |amount| settings.tier_of(amount);
        assert_eq!((of(99), of(100), of(499), of(500)), (None, Some(1), Some(1), Some(2)));
        assert!(!format!("{settings:?}").contains("t-1"));
    }

    #[test]
    fn custom_says_everything_itself() {
        let SourceRules { verify, body, events } = parse(&custom()).unwrap().rules;
        let hmac = Scheme::Hmac { header: "x-sig".into(), encoding: Encoding::Base64, prefix: "v1=".into() };
        assert_eq!((verify, body), (hmac, Form::Field("payload".into())));
        assert_eq!((events[0].what, events[1].what), (What::Refund, What::Gift));
        assert_eq!(events[1].map.currency, [Place::Fixed("EUR".into())]);
        assert_eq!((events[1].amount, events[1].when.len()), (Unit::Micros, 1));
    }

    #[test]
    fn every_fault_is_named() {
        assert_eq!(pointers(&json!({})), ["/preset", "/secret", "/default_gift", "/verify", "/map"]);
        let mut both = kofi();
        both["secret"] = json!("x");
        assert_eq!(pointers(&both), ["/token"]);
        for (name, value, pointer) in [
            ("preset", json!("paypal"), "/preset"),
            ("token", json!(""), "/token"),
            ("token", json!(" x"), "/token"),
            ("default_gift", json!({"id": "x"}), "/default_gift/name"),
            ("tier", json!([{"from": 0, "tier": 1}, {"from": -1, "tier": 1}]), "/tier/1/from"),
            ("verify", json!({"scheme": "body-token"}), "/verify"),
            ("when", json!([]), "/when"),
            ("amount", json!("minor"), "/amount"),
            ("map", json!({"amount": "amount of it"}), "/map/amount"),
            ("map", json!({"email": "/email"}), "/map/email"),
            ("unknown", json!(1), "/unknown"),
        ] {
            let found = pointers(&with(kofi(), name, value.clone()));
            assert!(found.contains(&pointer.to_owned()), "{name} {value}: {found:?}");
        }
        for (name, value, pointer) in [
            ("verify", json!({"scheme": "md5"}), "/verify/scheme"),
            ("verify", json!({"scheme": "hmac-sha256"}), "/verify/header"),
            ("verify", json!({"scheme": "hmac-sha256", "header": "a b"}), "/verify/header"),
            ("verify", json!({"scheme": "body-token"}), "/verify/pointer"),
            ("verify", json!({"scheme": "hmac-sha256", "header": "a", "encoding": "x"}), "/verify/encoding"),
            ("body", json!("xml"), "/body"),
            ("body", json!("json"), "/form_field"),
            ("when", json!([{"pointer": "kind", "equals": 1}]), "/when/0/pointer"),
            ("when", json!([{"pointer": "/kind", "equals": {}}]), "/when/0/equals"),
            ("map", json!({"user_name": "/x"}), "/map/id"),
            ("amount", json!("cents"), "/amount"),
            ("refund", json!({"when": []}), "/refund/id"),
        ] {
            let found = pointers(&with(custom(), name, value.clone()));
            assert_eq!(found, [pointer], "{name} {value}");
        }
        let standard = json!({"preset": "standard-webhooks", "secret": "short", "default_gift": {"id": "a", "name": "b"}});
        assert_eq!(pointers(&standard), ["/secret"]);
    }

    #[test]
    fn only_headers_that_the_signature_covers_can_be_mapped() {
        let map = |id: &str| json!({"id": id, "user_name": "/who"});
        let of = |verify: Value, id: &str| with(with(custom(), "verify", verify), "map", map(id));
        let hmac = || json!({"scheme": "hmac-sha256", "header": "X-Sig"});
        let token = || json!({"scheme": "body-token", "pointer": "/token"});
        let standard = || json!({"scheme": "standard-webhooks"});
        for (verify, id) in
            [(hmac(), "header:X-Id"), (token(), "header:webhook-id"), (standard(), "header:X-Id")]
        {
            assert_eq!(pointers(&of(verify, id)), ["/map/id"], "{id}");
        }
        assert!(parse(&of(standard(), "header:Webhook-Id")).is_ok());
        let refund = json!({"when": [{"pointer": "/kind", "equals": "refund"}], "id": "header:X-Of"});
        assert_eq!(pointers(&with(custom(), "refund", refund)), ["/refund/id"]);
        let amount = json!({"id": "/id", "amount": "header:X-Sum"});
        assert_eq!(pointers(&with(custom(), "map", amount)), ["/map/amount"]);
    }

    #[test]
    fn a_sources_mapping_overrides_its_preset() {
        let own = with(kofi(), "map", json!({"user_name": "/nickname"}));
        let rules = parse(&own).unwrap().rules;
        assert_eq!(rules.events[0].map.user_name, [Place::Body("/nickname".into())]);
        assert_eq!(rules.events[0].map.id, [Place::Body("/message_id".into())]);
    }
}

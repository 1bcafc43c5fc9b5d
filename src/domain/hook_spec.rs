//! Reading the body of a webhook's PUT.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64_NOPAD;
use serde_json::value::RawValue;
use url::{Host, Url};

use super::hook::{Delivery, HookSpec};
use super::json::{Fault, Field, Object, Refused};
use super::ledger::ENTRY_TYPES;

/// What a secret begins with.
const PREFIX: &str = "whsec_";

/// Bytes of an address at most.
const URL_BYTES: usize = 2_048;

/// The longest `batch_ms`, in milliseconds.
const BATCH_MS: u64 = 60_000;

/// The longest `max_age_ms`, in milliseconds.
const MAX_AGE_MS: u64 = super::limits::WEEK_MS;

/// Headers of a webhook's own at most.
const HEADERS_MAX: usize = 8;

/// Bytes of their names and values together at most.
const HEADERS_BYTES: usize = 1_024;

/// Headers that no webhook sets, in small letters; `*` matches any ending. HTTP, the connection, Standard Webhooks and traces
/// use them.
const RESERVED: [&str; 17] = [
    "accept-encoding",
    "connection",
    "content-*",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-*",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "webhook-*",
];

/// The key of a secret; `None` if it is not `whsec_` and base64 of 24 to 64 bytes.
pub fn secret_key(secret: &str) -> Option<Vec<u8>> {
    let unpadded = secret.strip_prefix(PREFIX)?.trim_end_matches('=');
    let key = BASE64_NOPAD.decode(unpadded.as_bytes()).ok()?;
    (24..=64).contains(&key.len()).then_some(key)
}

impl HookSpec {
    /// Reads the body of a PUT. Where the address leads is not judged here.
    pub fn parse(raw: &RawValue) -> Result<HookSpec, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(spec) if faults.is_empty() => Ok(spec),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<HookSpec> {
        let mut body = Object::open(raw, faults)?;
        let url = body.need("url", faults).and_then(|f| read_url(&f, faults));
        let secret = body.need("secret", faults).and_then(|f| {
            let text = f.string(faults)?;
            let legal = secret_key(&text).is_some();
            if !legal {
                f.wrong(faults, "must be whsec_ and base64 of 24 to 64 random bytes");
            }
            legal.then_some(text)
        });
        let batch_max = match body.take("batch_max") {
            Some(f) => f.integer(1, 1_000, faults),
            None => Some(128),
        };
        let batch_ms = match body.take("batch_ms") {
            Some(f) => f.integer(0, BATCH_MS, faults),
            None => Some(1_000),
        };
        let age = body.take("max_age_ms");
        let max_age_ms = match &age {
            Some(f) => f.integer(0, MAX_AGE_MS, faults),
            None => Some(0),
        };
        let delivery = match body.take("delivery") {
            Some(f) => f.string(faults).and_then(|text| match text.as_str() {
                "at_least_once" => Some(Delivery::AtLeastOnce),
                "best_effort" => Some(Delivery::BestEffort),
                _ => {
                    f.wrong(faults, "must be \"at_least_once\" or \"best_effort\"");
                    None
                }
            }),
            None => Some(Delivery::AtLeastOnce),
        };
        if let (Some(f), Some(1..), Some(Delivery::AtLeastOnce)) = (&age, max_age_ms, delivery) {
            f.wrong(faults, "drops what is older, so it goes with \"delivery\":\"best_effort\" only");
        }
        let types = match body.take("types") {
            Some(f) => read_types(&f, faults),
            None => Some(Vec::new()),
        };
        let headers = match body.take("headers") {
            Some(f) => read_headers(&f, faults),
            None => Some(BTreeMap::new()),
        };
        body.close(faults);
        Some(HookSpec {
            url: url?,
            secret: secret?,
            batch_max: batch_max?,
            batch_ms: batch_ms?,
            max_age_ms: max_age_ms?,
            delivery: delivery?,
            types: types?,
            headers: headers?,
        })
    }

    /// The host that it is sent to, as the standard for URLs reads it: `http://0x7f.1/` is 127.0.0.1's.
    pub fn host(&self) -> Option<Host<String>> {
        Url::parse(&self.url).ok()?.host().map(|host| host.to_owned())
    }
}

fn read_url(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<String> {
    let text = field.string(faults)?;
    if let Some(why) = fault_of_url(&text) {
        field.wrong(faults, why);
        return None;
    }
    Some(text)
}

/// Types of entries: names, or families such as `gift.*`.
fn read_types(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Vec<String>> {
    let items = field.items(2 * ENTRY_TYPES.len(), faults)?;
    let types: Vec<String> = items.iter().filter_map(|item| item.string(&mut Vec::new())).collect();
    let is_known = |it: &String| match it.strip_suffix(".*") {
        Some(family) => {
            ENTRY_TYPES.iter().any(|kind| kind.split_once('.').is_some_and(|(of, _)| of == family))
        }
        None => ENTRY_TYPES.contains(&it.as_str()),
    };
    if types.is_empty() || types.len() < items.len() || !types.iter().all(is_known) {
        let known = ENTRY_TYPES.join(", ");
        field.wrong(
            faults,
            format!("must list at least one type of {known}, or a family of them such as gift.*"),
        );
        return None;
    }
    Some(types)
}

fn read_headers(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<BTreeMap<String, String>> {
    let headers: Option<BTreeMap<String, String>> = serde_json::from_str(field.raw).ok();
    let headers = headers
        .ok_or("must be an object of names and texts, such as {\"Authorization\":\"Bearer …\"}".into());
    let headers = headers.and_then(|headers| match fault_of_headers(&headers) {
        Some(why) => Err(why),
        None => Ok(headers),
    });
    headers.map_err(|why| field.wrong(faults, why)).ok()
}

/// What is wrong with headers to send. No value is repeated: it may be a secret.
fn fault_of_headers(headers: &BTreeMap<String, String>) -> Option<String> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > HEADERS_MAX || bytes > HEADERS_BYTES {
        return Some(format!(
            "must have at most {HEADERS_MAX} names, and {HEADERS_BYTES} bytes with their values"
        ));
    }
    let names: BTreeSet<String> = headers.keys().map(|name| name.to_ascii_lowercase()).collect();
    if names.len() < headers.len() {
        return Some("must have no name twice: of headers, capital letters make no difference".into());
    }
    let is_taken = |name: &&String| {
        RESERVED.iter().any(|it| it.strip_suffix('*').map_or(it == name, |start| name.starts_with(start)))
    };
    if let Some(name) = names.iter().find(is_taken) {
        return Some(format!("must not have {name:?}: HTTP, Standard Webhooks or a trace sets it"));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !names.iter().all(|name| !name.is_empty() && name.bytes().all(is_token)) {
        return Some("must have names of letters, digits and !#$%&'*+-.^_`|~ only".into());
    }
    let is_legal =
        |value: &&String| value.trim() == *value && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let wrong = headers.iter().find(|(_, value)| !is_legal(value));
    wrong.map(|(name, _)| format!("the value of {name:?} must be visible ASCII, with spaces inside only"))
}

/// What is wrong with an address to send to.
fn fault_of_url(text: &str) -> Option<&'static str> {
    if text.len() > URL_BYTES {
        return Some("must have at most 2048 bytes");
    }
    // Readers of URLs skip some of these without a word.
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Some("must be a URL without white space, control characters or backslashes");
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let Some(url) = Url::parse(text).ok().filter(|url| http && url.has_host() && !rest.starts_with('/'))
    else {
        return Some("must be an http or https URL with a host, such as https://games.example/gifts");
    };
    if !url.username().is_empty() || url.password().is_some() || authority(rest).contains('@') {
        return Some(
            "must not hold a user name or password: every delivery is signed with the secret instead",
        );
    }
    if url.fragment().is_some() {
        return Some("must not have a fragment (#...): it would not be sent");
    }
    None
}

/// Host, port and credentials, of what follows the `://`.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::syntax;
    use data_encoding::BASE64;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn body() -> Value {
        json!({"url": "https://games.example/gifts?room=1", "secret": SECRET})
    }

    fn with(name: &str, value: Value) -> Value {
        let mut body = body();
        body[name] = value;
        body
    }

    fn parse(body: &Value) -> Result<HookSpec, Refused> {
        let text = body.to_string();
        HookSpec::parse(syntax(text.as_bytes()).unwrap())
    }

    fn pointers(body: &Value) -> Vec<String> {
        match parse(body).unwrap_err() {
            Refused::Invalid(faults) => faults.into_iter().map(|f| f.pointer).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn absent_members_have_their_defaults() {
        let spec = parse(&body()).unwrap();
        assert_eq!((spec.batch_max, spec.batch_ms, spec.max_age_ms), (128, 1_000, 0));
        assert_eq!((spec.delivery, spec.secret.as_str()), (Delivery::AtLeastOnce, SECRET));
        let mut whole = with("max_age_ms", json!(180_000));
        whole["delivery"] = json!("best_effort");
        whole["batch_max"] = json!(1);
        whole["batch_ms"] = json!(0);
        let spec = parse(&whole).unwrap();
        assert_eq!((spec.batch_max, spec.batch_ms, spec.max_age_ms), (1, 0, 180_000));
        assert_eq!(spec.delivery, Delivery::BestEffort);
        assert_eq!(spec.types, Vec::<String>::new());
        let types = ["gift.*", "drop.sold", "ledger.lost"];
        assert_eq!(parse(&with("types", json!(types))).unwrap().types, types);
    }

    #[test]
    fn headers_are_kept_as_they_are_sent() {
        let headers = json!({"Authorization": "Bearer a b", "X-Room": "7".repeat(987), "x-empty": ""});
        let spec = parse(&with("headers", headers.clone())).unwrap();
        assert_eq!(json!(spec.headers), headers);
        assert!(!format!("{spec:?}").contains("Bearer"), "{spec:?}");
        assert_eq!(parse(&body()).unwrap().headers, BTreeMap::new());
    }

    #[test]
    fn every_fault_is_named() {
        assert_eq!(pointers(&json!([])), [""]);
        assert_eq!(pointers(&json!({})), ["/url", "/secret"]);
        for (name, value) in [
            ("batch_max", json!(0)),
            ("batch_max", json!(1_001)),
            ("batch_ms", json!(60_001)),
            ("batch_ms", json!(-1)),
            ("max_age_ms", json!(-1)),
            ("max_age_ms", json!(604_800_001)),
            ("max_age_ms", json!("0")),
            // It would drop what was promised.
            ("max_age_ms", json!(180_000)),
            ("delivery", json!("twice")),
            ("delivery", json!(null)),
            ("types", json!([])),
            ("types", json!("gift.accepted")),
            ("types", json!([7])),
            ("types", json!(["gift.accepted", "gift"])),
            ("types", json!(["*"])),
            ("types", json!(["present.*"])),
            ("state", json!("active")),
            ("headers", json!("Authorization: Bearer x")),
            ("headers", json!(["Authorization"])),
            ("headers", json!(null)),
            ("headers", json!({"X-Room": 7})),
            ("headers", json!({"": "7"})),
            ("headers", json!({"X Room": "7"})),
            ("headers", json!({"X-Röm": "7"})),
            ("headers", json!({"X-Room": "7", "x-room": "8"})),
            ("headers", json!({"X-Room": "a\r\nX-Other: b"})),
            ("headers", json!({"X-Room": " 7"})),
            ("headers", json!({"X-Room": "sieben ☃"})),
            ("headers", json!({"HOST": "other.example"})),
            ("headers", json!({"Content-Type": "text/plain"})),
            ("headers", json!({"Webhook-Signature": "v1,x"})),
            ("headers", json!({"Proxy-Authorization": "x"})),
            ("headers", json!({"TE": "trailers"})),
            ("headers", json!({"X-Room": "7".repeat(1_019)})),
            ("headers", Value::Object((0..9).map(|n| (format!("X-{n}"), json!("7"))).collect())),
        ] {
            assert_eq!(pointers(&with(name, value.clone())), [format!("/{name}")], "{name} {value}");
        }
        assert!(parse(&with("max_age_ms", json!(0))).is_ok());
    }

    #[test]
    fn only_plain_http_addresses_are_taken() {
        for good in [
            "http://a",
            "HTTPS://A.example:8443/x/y?z=@",
            "http://10.0.0.1/",
            "http://[::1]:9000/hook",
            "https://bücher.example/",
        ] {
            assert!(parse(&with("url", json!(good))).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a.example",
            "http://",
            "http:///x",
            "https:a.example",
            "ftp://a.example/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http://user@a.example/",
            "http://user:pass@a.example/",
            "http://@a.example/",
            "http://:@a.example/",
            "http://a.example/#part",
            "http://a.example/#",
            "http://a.example/ x",
            " http://a.example/",
            "http://a.ex\nample/",
            "http://a.example\\@b.example/",
            "http://a.example:99999/",
            "http://[::1/",
        ] {
            assert_eq!(pointers(&with("url", json!(bad))), ["/url"], "{bad}");
        }
        let long = |n: usize| format!("http://a.example/{}", "x".repeat(n - 17));
        assert!(parse(&with("url", json!(long(2_048)))).is_ok());
        assert_eq!(pointers(&with("url", json!(long(2_049)))), ["/url"]);
        assert_eq!(pointers(&with("url", json!(7))), ["/url"]);
    }

    #[test]
    fn an_address_in_disguise_is_seen_as_what_it_is() {
        for (url, host) in [
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://127.1:80/", "127.0.0.1"),
            ("http://[::ffff:127.0.0.1]/", "[::ffff:7f00:1]"),
            ("http://LOCALHOST./", "localhost."),
            ("http://１２７.0.0.1/", "127.0.0.1"),
        ] {
            let spec = parse(&with("url", json!(url))).unwrap();
            assert_eq!(spec.host().unwrap().to_string(), host, "{url}");
        }
    }

    #[test]
    fn a_secret_is_base64_of_24_to_64_bytes_with_or_without_padding() {
        let of = |n: usize| format!("whsec_{}", BASE64.encode(&vec![0xfb; n]));
        for n in [24, 25, 26, 63, 64] {
            for secret in [of(n), of(n).trim_end_matches('=').to_owned()] {
                assert_eq!(secret_key(&secret), Some(vec![0xfb; n]), "{secret}");
                assert!(parse(&with("secret", json!(secret))).is_ok());
            }
        }
        let url_safe = of(24).replace('+', "-").replace('/', "_");
        for bad in
            ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!!", &of(23), &of(65), &url_safe]
        {
            assert_eq!(pointers(&with("secret", json!(bad))), ["/secret"], "{bad}");
        }
        assert_eq!(pointers(&with("secret", json!(null))), ["/secret"]);
    }

    proptest! {
        #[test]
        fn accepted_addresses_have_a_host_and_no_credentials(text in "(?i)(https?:/?/?)?[a-z0-9.:@/#?\\[\\]%\\\\ -]{0,40}") {
            if fault_of_url(&text).is_none() {
                let url = Url::parse(&text).unwrap();
                prop_assert!(matches!(url.scheme(), "http" | "https") && url.has_host());
                prop_assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
            }
        }

        #[test]
        fn a_key_survives_being_spelled(key in proptest::collection::vec(any::<u8>(), 0..80)) {
            let read = secret_key(&format!("whsec_{}", BASE64.encode(&key)));
            prop_assert_eq!(read, (24..=64).contains(&key.len()).then_some(key));
        }
    }
}

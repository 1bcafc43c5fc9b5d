//! Webhooks: setting and showing them. They are sent by `work::reports`.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, web};
use url::Host;

use super::{Gate, MAX_SWAP_ATTEMPTS, body, hook_of, scope_of, unknown_hook};
use crate::domain::address::is_public;
use crate::domain::json::fault;
use crate::domain::{FeedId, Hook, HookKey, HookScope, HookSpec, Millis, Reader, json};
use crate::engine::Swapped;
use crate::http::answers::{self, Webhook, WebhookList, fresh};
use crate::http::problem::ApiError;

/// How long a receiver keeps the key of signatures. It never changes, unless a store is lost.
const KEY_CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// `PUT /v1/feeds/{feed}/webhooks/{name}`
pub(in crate::http) async fn put(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let key = hook_of(&req)?;
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let spec = HookSpec::parse(json::syntax(&bytes)?)?;
    if !gate.limits.allow_private {
        judge(&spec)?;
    }
    let overlap_ms = gate.limits.secret_overlap_ms;
    swap(&gate, &key, |was, now| {
        let (status, to) = match was {
            None => (StatusCode::CREATED, Hook::new(spec.clone(), now)),
            Some(hook) => (StatusCode::OK, hook.set(spec.clone(), overlap_ms, now)),
        };
        Ok((fresh(status, &Webhook::new(&key, &to)), Some(to)))
    })
    .await
}

/// `POST /v1/feeds/{feed}/webhooks/{name}/retry`
pub(in crate::http) async fn retry(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let key = hook_of(&req)?;
    let overlap_ms = gate.limits.secret_overlap_ms;
    swap(&gate, &key, |was, now| {
        let hook = was.ok_or_else(unknown_hook)?;
        let to = hook.set(hook.spec.clone(), overlap_ms, now);
        Ok((fresh(StatusCode::OK, &Webhook::new(&key, &to)), Some(to)))
    })
    .await
}

/// Puts what `change` makes of a webhook in its place, again when somebody else has changed it meanwhile, and answers as it says.
async fn swap(
    gate: &Gate,
    key: &HookKey,
    change: impl Fn(Option<&Hook>, Millis) -> Result<(HttpResponse, Option<Hook>), ApiError>,
) -> Result<HttpResponse, ApiError> {
    for _ in 0..MAX_SWAP_ATTEMPTS {
        let now = Millis::now();
        let was = gate.run(gate.store.read_webhook(key)).await?;
        let (answer, to) = change(was.as_ref(), now)?;
        let version = was.map(|hook| hook.version);
        match gate.run(gate.store.swap_webhook(key, version, to, now)).await? {
            Swapped::Done => return Ok(answer),
            Swapped::Stale => {}
            Swapped::Full => return Err(ApiError::TooManyReaders),
        }
    }
    Err(ApiError::Overloaded("line of those who change this webhook"))
}

/// Refuses an address that leads where it should not. Names are judged when they are sent to: an answer that depended on
/// what a name resolves to here would show those who set webhooks which names there are in the operator's network.
fn judge(spec: &HookSpec) -> Result<(), ApiError> {
    let inside: String = match spec.host() {
        Some(Host::Ipv4(ip)) if !is_public(ip.into()) => ip.to_string(),
        Some(Host::Ipv6(ip)) if !is_public(ip.into()) => ip.to_string(),
        // The same on every machine.
        Some(Host::Domain(name)) if is_localhost(&name) => name,
        _ => return Ok(()),
    };
    Err(ApiError::Invalid(vec![fault(
        "/url",
        format!(
            "leads to {inside}, which is not an address of the public internet; the operator may allow such addresses \
             with [webhooks] allow_private"
        ),
    )]))
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// `GET /v1/feeds/{feed}/webhooks/{name}`
pub(in crate::http) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let key = hook_of(&req)?;
    let hook = gate.run(gate.store.read_webhook(&key)).await?.ok_or_else(unknown_hook)?;
    Ok(fresh(StatusCode::OK, &Webhook::new(&key, &hook)))
}

/// `GET /v1/feeds/{feed}/webhooks`
pub(in crate::http) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let hooks = match scope_of(&req)? {
        HookScope::All => {
            let hooks = gate.run(gate.store.list_webhooks()).await?;
            hooks.into_iter().filter(|(key, _)| key.scope == HookScope::All).collect()
        }
        HookScope::Feed(feed) => of_feed(&gate, &feed).await?,
    };
    let webhooks = hooks.iter().map(|(key, hook)| Webhook::new(key, hook)).collect();
    Ok(fresh(StatusCode::OK, &WebhookList { webhooks }))
}

/// A feed's own webhooks, however many other feeds have.
async fn of_feed(gate: &Gate, feed: &FeedId) -> Result<Vec<(HookKey, Hook)>, ApiError> {
    let readers = gate.run(gate.store.list_readers(Some(feed))).await?;
    let mut all = Vec::new();
    for (_, reader) in readers.iter().filter(|(_, reader)| matches!(reader, Reader::Hook(_))) {
        if let Some(key) = HookKey::of(feed, reader)
            && let Some(hook) = gate.run(gate.store.read_webhook(&key)).await?
        {
            all.push((key, hook));
        }
    }
    Ok(all)
}

/// `DELETE /v1/feeds/{feed}/webhooks/{name}`
pub(in crate::http) async fn delete(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let key = hook_of(&req)?;
    swap(&gate, &key, |was, _| {
        was.ok_or_else(unknown_hook)?;
        Ok((HttpResponse::NoContent().finish(), None))
    })
    .await
}

/// `GET /.well-known/jwks.json`
pub(in crate::http) async fn signing_keys(gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let key = gate.run(gate.store.read_signing_key()).await?;
    let mut answer = answers::text(StatusCode::OK, key.key_set());
    answer.headers_mut().insert(CACHE_CONTROL, KEY_CACHE_CONTROL);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Delivery, HookFault};

    fn spec(url: &str) -> HookSpec {
        let delivery = Delivery::AtLeastOnce;
        let (url, secret) = (url.to_owned(), "whsec_c2VjcmV0".to_owned());
        HookSpec {
            url,
            secret,
            batch_max: 1,
            batch_ms: 2,
            max_age_ms: 0,
            delivery,
            types: vec![],
            headers: [("X-Key".into(), "hunter2".into())].into(),
        }
    }

    #[test]
    fn a_webhook_is_shown_without_its_secrets() {
        let key = HookKey { scope: HookScope::All, name: "a".parse().unwrap() };
        let mut hook = Hook::new(spec("https://a.example/"), Millis(0));
        hook.before = Some(("whsec_b2xk".into(), i64::MAX));
        hook.last_error = Some(HookFault { at: 1, text: "it said \"no\"".into() });
        hook.failing_since = Some(1);
        let text = serde_json::to_string(&Webhook::new(&key, &hook)).unwrap();
        assert!(!text.contains("whsec") && !text.contains("secret") && !text.contains("hunter2"), "{text}");
        let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["headers"], serde_json::json!({"X-Key": "***"}));
        assert_eq!(
            (&shown["feed"], &shown["last_error"]),
            (&serde_json::json!("*"), &serde_json::json!("it said \"no\""))
        );
        assert_eq!(shown["failing_since"], "1970-01-01T00:00:00.001Z");
    }

    #[test]
    fn addresses_that_lead_inside_are_refused_and_no_name_is_looked_up() {
        for bad in [
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://0x7f.1/",
            "http://localhost:1/",
            "http://a.LocalHost./",
            "http://10.1/",
        ] {
            let Err(ApiError::Invalid(faults)) = judge(&spec(bad)) else { panic!("{bad}") };
            assert_eq!(faults[0].pointer, "/url");
            assert!(faults[0].detail.contains("[webhooks] allow_private"), "{faults:?}");
        }
        for good in ["https://8.8.8.8/", "https://[2606:4700::1111]/", "https://nobody.invalid/"] {
            assert_eq!(judge(&spec(good)), Ok(()), "{good}");
        }
    }
}

//! What came back from a webhook's endpoint lately, and trying it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;

use super::{Gate, hook_of, unknown_hook};
use crate::domain::attempt::{DeliveryAttempt, test_body};
use crate::domain::signature::{SigningKey, batch_name};
use crate::domain::{Hook, HookScope, Millis};
use crate::engine::ATTEMPTS_KEPT;
use crate::http::answers;
use crate::http::integer_within;
use crate::http::problem::ApiError;

/// A delivery that is only a test.
pub struct TestDelivery {
    /// Where it goes, and with which secrets it is signed.
    pub hook: Hook,
    /// The installation's key.
    pub signing_key: Arc<SigningKey>,
    /// What it is about, but for what came back.
    pub attempt: DeliveryAttempt,
    /// The body.
    pub body: Bytes,
}

/// Sends it, and says what came back.
pub type TestSender =
    Arc<dyn Fn(TestDelivery) -> Pin<Box<dyn Future<Output = DeliveryAttempt> + Send>> + Send + Sync>;

/// `GET /v1/feeds/{feed}/webhooks/{name}/attempts?limit=50`
pub(in crate::http) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let key = hook_of(&req)?;
    let mut limit = ATTEMPTS_KEPT;
    for (name, value) in url::form_urlencoded::parse(req.query_string().as_bytes()) {
        if name == "limit" {
            limit = integer_within(&name, &value, 1..=ATTEMPTS_KEPT)?;
        }
    }
    gate.run(gate.store.read_webhook(&key)).await?.ok_or_else(unknown_hook)?;
    let attempts = gate.run(gate.store.list_attempts(&key, limit)).await?;
    Ok(answers::fresh_text(StatusCode::OK, format!("{{\"attempts\":[{}]}}", attempts.join(","))))
}

/// `POST /v1/feeds/{feed}/webhooks/{name}/test`
pub(in crate::http) async fn test(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let key = hook_of(&req)?;
    let hook = gate.run(gate.store.read_webhook(&key)).await?.ok_or_else(unknown_hook)?;
    let send = gate.test_sender.as_ref().ok_or(ApiError::Internal)?;
    let signing_key = gate.run(gate.store.read_signing_key()).await?;
    let (batch, now) = (batch_name(), Millis::now());
    let feed = match &key.scope {
        HookScope::Feed(feed) => feed.to_string(),
        HookScope::All => "*".to_owned(),
    };
    let (body, entries) = test_body(&feed, &batch, &hook.spec.types, now);
    let attempt = DeliveryAttempt {
        at: now,
        feed,
        batch,
        entries,
        status: None,
        ms: 0,
        error: None,
        response: None,
        test: true,
    };
    let attempt = send(TestDelivery { hook, signing_key, attempt, body: body.into() }).await;
    if let Ok(text) = serde_json::to_string(&attempt)
        && let Err(error) = gate.run(gate.store.note_attempts(&key, &[text])).await
    {
        tracing::debug!(?error, "the attempt of a test is not kept");
    }
    Ok(answers::fresh(StatusCode::OK, &attempt))
}

//! Signed requests: who sent one is found by its body, and what it is for is recorded, before a handler sees it.

use actix_web::dev::ServiceRequest;

use super::access::{self, RouteEntry};
use super::door::{Caller, Identity, RequestHead};
use super::gifts::idempotency_key;
use super::payload::Body;
use super::problem::{ApiError, invalid};
use super::{Gate, body, named_feed};
use crate::domain::Millis;
use crate::domain::limits::IDEMPOTENCY_WINDOW_MS;
use crate::engine::RequestUse;

/// Proves a signed request, or refuses it; any other passes. Afterwards `caller` is the holder of the key and `body` is
/// to be read from its beginning.
///
/// Until the signature is checked nothing here may depend on whether the key that is named exists.
pub(super) async fn prove(
    gate: &Gate,
    req: &ServiceRequest,
    body: &Body,
    caller: &mut Caller,
    entry: &RouteEntry,
) -> Result<(), ApiError> {
    let Some(signed) = caller.signed.take() else { return Ok(()) };
    let head = RequestHead::of(req.request());
    body::check_type(req.request())?;
    body::check_coding(req.request())?;
    if idempotency_key(req.request())?.is_some_and(|key| key.as_str() != signed.id) {
        return Err(invalid(
            "the Idempotency-Key header differs from webhook-id, which is the identity of a signed request; send one",
        ));
    }
    let limit = if entry.path == access::BATCH { gate.limits.batch } else { gate.limits.body };
    let (bounds, address) = ((limit, gate.limits.body_time), gate.door.counted_address(&head));
    let unverified = gate.unverified.read(req.headers(), body.clone(), bounds, address).await?;
    let key = match signed.verify(&unverified.bytes) {
        Ok(key) => key,
        Err(why) => {
            caller.identity = Identity::WrongKey;
            gate.door.guessed(&head)?;
            return Err(ApiError::BadSignature(why));
        }
    };
    let bytes = unverified.bytes.clone();
    drop(unverified);
    let feed = entry.param(req.path(), "feed");
    gate.door.admit_signer(caller, key, &feed)?;
    let feed = named_feed(&feed)?;
    let (identity, now) = (signed.identity(key), Millis::now());
    let kind = if entry.path == access::BATCH { "batch" } else { "gifts" };
    let target = format!("{kind} {feed}");
    match gate.run(gate.store.claim_request(&identity, &target, now)).await? {
        RequestUse::First => {}
        RequestUse::Elsewhere => return Err(ApiError::Replayed),
        // The feed answers a repeated gift from what it remembers of ids. Once that may be gone, it would count again.
        RequestUse::Again(age_ms) if age_ms >= IDEMPOTENCY_WINDOW_MS.0 => {
            if age_ms >= gate.run(gate.store.read_policy(&feed)).await?.idempotency_window_ms {
                return Err(ApiError::Replayed);
            }
        }
        RequestUse::Again(_) => {}
    }
    body.put_back(bytes);
    caller.signed = Some(signed);
    Ok(())
}

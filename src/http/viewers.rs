//! Viewers whose tokens are refused from now on.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, RevokedViewer};
use super::problem::{ApiError, invalid};
use super::{Gate, body};
use crate::auth::revoked::viewer_mark;
use crate::domain::json::{Object, syntax};
use crate::domain::{Millis, Refused};
use crate::engine::Revocation;

/// `POST /v1/viewers/{sub}/revoke`
pub(super) async fn revoke(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let sub = req.match_info().get("sub").unwrap_or_default();
    if !(1..=64).contains(&sub.len()) {
        return Err(invalid("the viewer must be 1 to 64 bytes long"));
    }
    let bytes = body::read_of_any_type(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let now = Millis::now();
    let before = match bytes.is_empty() {
        true => None,
        false => {
            body::check_type(&req)?;
            read_before(&bytes, now)?
        }
    };
    let before = gate.door.revoked().covering(viewer_mark(sub), before.unwrap_or(now));
    let until = before.plus(gate.door.tokens_live_ms());
    let what = Revocation { sub: sub.into(), before, until };
    let before = gate.run(gate.store.revoke_viewer(&what, now)).await?;
    // Here at once; other nodes learn of it from the store.
    gate.refuse_viewer(viewer_mark(sub), before, until);
    // What is answered can be sent again, so it is never in the future.
    Ok(answers::json(StatusCode::OK, &RevokedViewer { before: before.min(now).to_string() }))
}

fn read_before(bytes: &[u8], now: Millis) -> Result<Option<Millis>, Refused> {
    let mut faults = Vec::new();
    let Some(mut body) = Object::open(syntax(bytes)?, &mut faults) else {
        return Err(Refused::Invalid(faults));
    };
    let before = body.take("before").and_then(|field| {
        let text = field.string(&mut faults)?;
        let time = Millis::parse(&text);
        if time.is_none_or(|time| time > now) {
            field.wrong(&mut faults, "must be a time such as 2027-01-01T00:00:00Z that is not in the future");
        }
        time
    });
    body.close(&mut faults);
    match faults.is_empty() {
        true => Ok(before),
        false => Err(Refused::Invalid(faults)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_past_may_be_named() {
        let now = Millis(1_000);
        assert_eq!(read_before(b"{}", now), Ok(None));
        let at = |time: &str| read_before(format!("{{\"before\":{time}}}").as_bytes(), now);
        assert_eq!(at("\"1970-01-01T00:00:01Z\""), Ok(Some(now)));
        for wrong in ["\"1970-01-01T00:00:01.001Z\"", "1", "null", "\"yesterday\""] {
            let refused = at(wrong).unwrap_err();
            assert!(
                matches!(&refused, Refused::Invalid(faults) if faults[0].pointer == "/before"),
                "{wrong}"
            );
        }
        assert!(matches!(read_before(b"{\"after\":1}", now), Err(Refused::Invalid(_))));
    }
}

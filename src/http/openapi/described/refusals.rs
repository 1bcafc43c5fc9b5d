//! What operations may answer instead.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

/// What every write may answer instead.
pub(super) struct Refusals;

/// What a write with a body may answer besides.
pub(super) struct BodyRefusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [
            (401, "A producer key is needed", false),
            (403, "This web page or key may not", false),
            (422, "Something breaks a rule", false),
            (429, "Too many requests, or too many gifts wait to be shown", true),
            (503, "The store does not answer; a retry with the same id is safe", true),
        ]
        .map(refusal)
        .into()
    }
}

impl IntoResponses for BodyRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [
            (400, "The body is not JSON, or a parameter of the path is malformed", false),
            (408, "The body came too slowly", false),
            (413, "The body is too large", false),
            (415, "The body is not said to be JSON", false),
        ]
        .map(refusal)
        .into()
    }
}

/// A problem; its schema is the one of all of them, see `close_bodies_and_share_problems`.
pub(super) fn refusal((status, why, again): (u16, &str, bool)) -> (String, RefOr<Response>) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let answer = ResponseBuilder::new().description(why).content("application/problem+json", content);
    let answer = match again {
        true => {
            let seconds = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Integer)).minimum(Some(0));
            let header = HeaderBuilder::new().schema(seconds).description(Some("In seconds")).build();
            answer.header("Retry-After", header)
        }
        false => answer,
    };
    (status.to_string(), answer.build().into())
}

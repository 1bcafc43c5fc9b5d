//! The shapes of section 11: sources.

use serde_json::Value as Json;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::http::bodies::GiftKind;

macro_rules! words {
    ($($name:ident = [$($word:literal),+],)*) => {$(
        fn $name() -> Object {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some([$($word),+])).build()
        }
    )*};
}

words! {
    preset = [
        "kofi", "stripe", "buymeacoffee", "github-sponsors", "twitch", "standard-webhooks", "custom"
    ],
    scheme = ["hmac-sha256", "body-token", "standard-webhooks"],
    encoding = ["hex", "base64"],
    body = ["json", "form"],
    unit = ["minor", "decimal", "micros"],
    outcome = ["gift", "refund", "ignored", "challenge", "revoked", "refused"],
    status = [
        "accepted", "merged", "suppressed", "scheduled", "in_review", "duplicate", "retracted", "refunded", "ignored"
    ],
}

fn scalar() -> Object {
    let kinds = [Type::String, Type::Number, Type::Boolean, Type::Null];
    ObjectBuilder::new().schema_type(SchemaType::from_iter(kinds)).build()
}

/// Where tips come from. A preset knows the platform; `custom` says everything itself.
#[derive(ToSchema)]
pub struct SourceSpec {
    #[schema(schema_with = preset)]
    preset: String,
    /// What the platform signs with. One of secret and token is required; they are the same thing.
    #[schema(required = false, min_length = 1, max_length = 512, write_only)]
    secret: String,
    /// What the platform sends along, where it does not sign.
    #[schema(required = false, min_length = 1, max_length = 512, write_only)]
    token: String,
    default_gift: GiftKind,
    /// From how many minor units on a gift has which tier.
    #[schema(required = false, max_items = 32)]
    tier: Vec<SourceTier>,
    #[schema(required = false)]
    verify: SourceVerify,
    /// `custom` only.
    #[schema(required = false, schema_with = body, default = "json")]
    body: String,
    /// `custom` only: the field of the form that holds JSON.
    #[schema(required = false, max_length = 256)]
    form_field: String,
    /// `custom` and `standard-webhooks` only: deliveries for which not all of these hold are left out.
    #[schema(required = false, max_items = 32)]
    when: Vec<SourceWhen>,
    #[schema(required = false)]
    map: SourceMap,
    /// `custom` and `standard-webhooks` only: what the amount counts.
    #[schema(required = false, schema_with = unit, default = "minor")]
    amount: String,
    #[schema(required = false)]
    refund: SourceRefund,
}

/// A tier by amount.
#[derive(ToSchema)]
pub struct SourceTier {
    /// Minor units.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    from: u64,
    #[schema(minimum = 0, maximum = 9)]
    tier: u64,
}

/// `custom` only: how a delivery shows whose it is.
#[derive(ToSchema)]
pub struct SourceVerify {
    #[schema(schema_with = scheme)]
    scheme: String,
    /// Of `hmac-sha256`: the header with the signature of the body.
    #[schema(required = false, max_length = 256)]
    header: String,
    #[schema(required = false, schema_with = encoding, default = "hex")]
    encoding: String,
    /// What precedes the signature, such as `sha256=`.
    #[schema(required = false, max_length = 256)]
    prefix: String,
    /// Of `body-token`: where the token is, a JSON pointer.
    #[schema(required = false, max_length = 256)]
    pointer: String,
}

/// A condition on a delivery.
#[derive(ToSchema)]
pub struct SourceWhen {
    /// A JSON pointer.
    #[schema(max_length = 256)]
    pointer: String,
    /// A string, a number, true, false or null; nothing at the pointer is null.
    #[schema(schema_with = scalar)]
    equals: Json,
}

/// Where the parts of a gift stand: JSON pointers, or `header:NAME` if the signature covers that header (`webhook-id`
/// and `webhook-timestamp` of `standard-webhooks`); a currency may be its code.
#[derive(ToSchema)]
pub struct SourceMap {
    /// What is the same when the platform repeats itself.
    #[schema(required = false, max_length = 256)]
    id: String,
    #[schema(required = false, max_length = 256)]
    user_id: String,
    #[schema(required = false, max_length = 256)]
    user_name: String,
    #[schema(required = false, max_length = 256)]
    amount: String,
    #[schema(required = false, max_length = 256)]
    currency: String,
    #[schema(required = false, max_length = 256)]
    message: String,
    #[schema(required = false, max_length = 256)]
    count: String,
}

/// `custom` and `standard-webhooks` only: which deliveries take a gift back, and which gift.
#[derive(ToSchema)]
pub struct SourceRefund {
    #[schema(max_items = 32)]
    when: Vec<SourceWhen>,
    /// Where the id of the gift is.
    #[schema(max_length = 256)]
    id: String,
}

/// A source: how it was set, without its secret, and what came to it.
#[derive(ToSchema)]
pub struct Source {
    source: String,
    feed: String,
    /// Where the platform posts to, behind the gateway's own address. Everybody who has it can be taken for the platform
    /// where it does not sign: keep it like a secret.
    #[schema(pattern = "^/in/[0-9a-f]{32}\\.[A-Za-z0-9_.-]{1,64}$")]
    path: String,
    #[schema(schema_with = preset)]
    preset: String,
    default_gift: GiftKind,
    #[schema(required = false)]
    tier: Vec<SourceTier>,
    #[schema(required = false)]
    verify: SourceVerify,
    #[schema(required = false, schema_with = body)]
    body: String,
    #[schema(required = false)]
    form_field: String,
    #[schema(required = false)]
    when: Vec<SourceWhen>,
    #[schema(required = false)]
    map: SourceMap,
    #[schema(required = false, schema_with = unit)]
    amount: String,
    #[schema(required = false)]
    refund: SourceRefund,
    /// Deliveries by what became of them: accepted, merged, suppressed, scheduled, in_review, duplicate, retracted,
    /// ignored, refused (could not become a gift), unverified. What never happened is absent.
    #[schema(value_type = Object)]
    counts: Json,
    /// When the last delivery came, whatever became of it; else null.
    #[schema(required)]
    last_at: Option<String>,
    /// What was wrong with the last delivery with which something was; else null.
    #[schema(required)]
    last_error: Option<String>,
    #[schema(required = false, value_type = String, format = DateTime)]
    last_error_at: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: String,
}

/// A feed's sources, by name.
#[derive(ToSchema)]
pub struct SourceList {
    #[schema(max_items = 16)]
    sources: Vec<Source>,
}

/// What a sample would become.
#[derive(ToSchema)]
pub struct SourceTestResult {
    #[schema(schema_with = outcome)]
    outcome: String,
    /// The gift as it would be posted.
    #[schema(required = false, value_type = Object)]
    gift: Json,
    /// Of a refund: the id of the gift that would be taken back.
    #[schema(required = false)]
    id: String,
    /// Of a refund of a part: how much of the gift's value would be refunded so far, in minor units.
    #[schema(required = false)]
    refunded: u64,
    /// Why it is no gift.
    #[schema(required = false)]
    detail: String,
}

/// What became of a delivery.
#[derive(ToSchema)]
pub struct SourceDeliveryResult {
    #[schema(schema_with = status)]
    status: String,
    /// Why nothing is shown.
    #[schema(required = false)]
    detail: String,
}

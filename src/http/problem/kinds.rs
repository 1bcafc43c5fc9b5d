//! The table of problems: every `type` that an answer can carry, in one place.

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse};

use super::ApiError;

/// One kind of problem.
#[derive(Debug, PartialEq, Eq)]
pub struct ProblemKind {
    /// The last part of `type`, `/problems/NAME`. Never changes: clients compare it.
    pub name: &'static str,
    /// Its status code.
    pub status: StatusCode,
    /// A short sentence, the same for every occurrence.
    pub title: &'static str,
    /// What a person should know who meets it, as `GET /problems/NAME` answers.
    pub about: &'static str,
}

impl ProblemKind {
    /// The problem's `type`.
    pub fn uri(&self) -> String {
        format!("/problems/{}", self.name)
    }
}

macro_rules! kinds {
    ($($constant:ident = $name:literal, $status:ident, $title:literal, $about:literal;)*) => {
        $(pub(super) const $constant: ProblemKind =
            ProblemKind { name: $name, status: StatusCode::$status, title: $title, about: $about };)*
        /// All of them, by status.
        pub const KINDS: &[ProblemKind] = &[$($constant),*];
    };
}

kinds! {
    SYNTAX = "json-syntax", BAD_REQUEST, "The body is not JSON",
        "The body is not one JSON text in UTF-8. The detail says where it stops being one. A body that is \
         JSON but has wrong types or values is refused as /problems/invalid instead.";
    BROKEN_BODY = "broken-body", BAD_REQUEST, "The body broke off",
        "The body ended before its announced length, or its chunks are damaged. Nothing was done; send it again.";
    MALFORMED_PATH = "malformed-path", BAD_REQUEST, "The path is not percent-encoded as it should be",
        "A parameter of the path has a % that no two hexadecimal digits follow, or is not UTF-8 when it is decoded. Nothing \
         was done. Encode each parameter by itself, once: a literal % is %25, a slash within a name is %2F.";
    BAD_HANDSHAKE = "bad-handshake", BAD_REQUEST, "The WebSocket handshake is wrong",
        "The request asks for a WebSocket, but its headers are not those of RFC 6455: version 13 and a key are needed.";
    UNAUTHENTICATED = "unauthenticated", UNAUTHORIZED, "A key or a token is needed",
        "Writing, and whatever else is not for every viewer, needs a key: send it as Authorization: Bearer tck_... The \
         operator makes one with `tipcast key new`. Nothing was done.";
    BAD_TOKEN = "bad-token", UNAUTHORIZED, "The token is not valid",
        "The viewer token that came is no good: the detail says what is wrong with it. Get a new one from the site that \
         gave it, and come back once.";
    BAD_SIGNATURE = "bad-signature", UNAUTHORIZED, "The request is not signed as it should be",
        "A request with Tipcast-Key is signed as Standard Webhooks are: webhook-id, webhook-timestamp (seconds, within 5 \
         minutes) and webhook-signature, v1 and the HMAC-SHA256 of id.timestamp.body in base64. Nothing was done.";
    NOT_ALLOWED = "not-allowed", FORBIDDEN, "The key or token may not do that",
        "The key or token is valid, and lacks the right for this, or is not for this feed; the detail says which. Nothing \
         was done. The operator changes may and feeds of [[auth.keys]]; a token's come from the site that signs it.";
    UNVERIFIED = "unverified", UNAUTHORIZED, "The delivery does not show whose it is",
        "What is posted to a source carries the platform's signature or token (docs/SOURCES.md). It is missing, does not \
         fit, or is too old. Nothing was shown. If the platform is right, its secret is another one than the source's: \
         PUT the source again with the secret that the platform shows.";
    FOREIGN_ORIGIN = "foreign-origin", FORBIDDEN, "Not from this web page",
        "The request comes from a web page of an origin that the operator did not list in [http] allowed_origins \
         (while there are no producer keys, \"*\" is for watching only, not for writing). Nothing was done. \
         Programs that are no browsers send no Origin header and do not meet this.";
    KEYS_NEEDED = "keys-needed", FORBIDDEN, "Keys are needed for that",
        "The server has no keys. Then what is not open to every viewer (writing, reports, scheduled gifts, holds, /admin) \
         is answered only to programs of the same machine, which ask it by a loopback name (localhost, 127.0.0.1, [::1]) \
         over HTTP/1.1 and without any header that proxies add (Forwarded, Via, X-Forwarded-For, X-Real-IP and the \
         like). Nothing was done. To open it, make a key with `tipcast key new`, put its hash into \
         [auth] producer_keys and reload the configuration; or run with --insecure where something in front keeps \
         strangers out.";
    BLOCKED = "blocked", FORBIDDEN, "The user is blocked",
        "A host has blocked this user in this feed, or in all feeds. Nothing was taken. Gifts of a blocked user are \
         recorded and not shown; claims of drops are refused.";
    NOT_FOUND = "not-found", NOT_FOUND, "Not found",
        "There is nothing under this path, or no longer: a row that left the list cannot be retracted, and a hold that \
         ended is forgotten after the feed's idempotency window.";
    METHOD_NOT_ALLOWED = "method-not-allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "The path exists and does not know this method. The Allow header lists those that it knows.";
    BODY_TIMEOUT = "body-timeout", REQUEST_TIMEOUT, "The body came too slowly",
        "The body did not arrive whole in time. Nothing was done; a retry with the same id is safe.";
    TOO_LARGE = "too-large", PAYLOAD_TOO_LARGE, "The body is too large",
        "The body of a single gift or another request may have 8 KiB, that of a batch 1 MiB, unless the operator \
         set other limits. The detail says which limit was met.";
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "Unsupported media type",
        "Bodies are JSON: send Content-Type: application/json (or application/*+json) and no Content-Encoding.";
    MISDIRECTED = "misdirected", MISDIRECTED_REQUEST, "Not by this name",
        "The operator listed the names by which this server may be asked ([http] hosts), and the request names another \
         one in its Host header or authority. Nothing was done.";
    INVALID = "invalid", UNPROCESSABLE_ENTITY, "The request breaks a rule",
        "The body is JSON, but something in it, or a name in the path, or a header, breaks a rule. Each entry of \
         errors has a pointer (RFC 6901) into the body and what would be right; the empty pointer is the \
         request itself. Unknown fields are refused by name.";
    ID_REUSED = "id-reused", UNPROCESSABLE_ENTITY, "The id came before with another payload",
        "Within the idempotency window of the feed (see GET policy), one id is one gift. The same id with the same \
         payload gets the first answer again; with another payload it is refused, and nothing changes.";
    NOT_COUNTED = "not-counted", NOT_FOUND, "The period is not counted",
        "A feed counts the periods that its policy lists in totals, from when they are switched on; none by default. \
         PATCH the policy with {\"totals\": [\"session\"]}, for one. A goal whose period is not counted is refused with \
         409 under the same name. Nothing changed.";
    GOAL_NOT_COUNTED = "not-counted", CONFLICT, "The goal's period is not counted",
        "A goal goes by a period that the feed's policy lists in totals. PATCH the policy first. Nothing changed.";
    TOO_MANY_GOALS = "too-many-goals", CONFLICT, "The feed has as many goals as may be",
        "A feed has at most 16 goals. Nothing was made. Delete one that nobody needs any more.";
    DROP_TOTAL = "drop-total", CONFLICT, "The total is below what is taken",
        "A drop's total can shrink down to the units that are sold and held, and no further. Nothing changed. Cancel \
         holds first, or choose a larger total; a drop is stopped at once by a closes_at that has passed.";
    SOLD_OUT = "sold-out", CONFLICT, "Sold out",
        "Fewer units are free than the claim is for. Nothing was taken; a claim is filled whole or refused. Units \
         come back when holds end unpaid: the same claim, with the same id, may be sent again later.";
    ALREADY_CLAIMED = "already-claimed", CONFLICT, "The user has claimed before",
        "With this claim the user would have more units of the drop, held and sold, than its per_user allows. The \
         member claim holds the answer to the user's first claim. An ended hold gives its units back.";
    TOO_MANY_HOLDS = "too-many-holds", CONFLICT, "Too many unpaid holds",
        "The user has as many unpaid holds, over all drops of the feed, as this drop allows. Nothing was taken. \
         Confirm or cancel one, or wait: Retry-After says when the earliest ends.";
    DROP_NOT_OPEN = "drop-not-open", CONFLICT, "The drop is not open",
        "The drop has not opened yet, or has closed; its GET shows opens_at and closes_at. Nothing was taken. Holds \
         that were made before it closed can still be confirmed.";
    NOTHING_TO_REFUND = "nothing-to-refund", CONFLICT, "Nothing of the gift can be refunded",
        "A refund gives back a part of a gift's value, which a gift without one does not have, and one that waits for its time or \
         for a host has not been counted yet. Nothing changed. Take the gift back instead.";
    HOLD_ENDED = "hold-ended", CONFLICT, "The hold has ended",
        "The hold expired or was cancelled, and its units are free again; or, where it is to be cancelled, \
         it was confirmed and is sold. Nothing changed.";
    REPLAYED = "replayed", CONFLICT, "The signed request came before",
        "A signed request is known by its key and its webhook-id, and each is accepted for one method and path. This one \
         came before for another, or so long ago that the feed has forgotten its gift (policy idempotency_window_ms). \
         Nothing was done. Give each request a webhook-id of its own; only a retry of the same request repeats it.";
    ALREADY_SHOWN = "already-shown", CONFLICT, "The gift was shown already",
        "A gift can be cancelled while it waits to be shown (GET /v1/feeds/{feed}/scheduled lists those). This one \
         was shown, or the dedup lock kept it from being shown. To take it from the screens, retract its row: \
         DELETE /v1/feeds/{feed}/rows/{row}.";
    REVIEWED = "reviewed", CONFLICT, "The gift was decided about already",
        "Something else was decided about this gift, by somebody or by time, which does what the feed's review_default \
         says. The member decision says what. Nothing changed. A gift that is shown can be taken back: POST \
         /v1/feeds/{feed}/gifts/{id}/retract.";
    TOO_MANY_BLOCKS = "too-many-blocks", CONFLICT, "As many users are blocked as may be",
        "A feed has at most 1 000 blocks, and so has \"*\". Nothing was done. DELETE one that nobody needs any more.";
    TOO_MANY_READERS = "too-many-readers", CONFLICT, "As many read the ledger as may",
        "A feed's ledger has at most 64 readers, groups and webhooks together, and there are at most 16 webhooks of all \
         feeds, each of which reads every ledger. Nothing was made. Delete a group or a webhook that nobody needs any more.";
    TOO_MANY_SOURCES = "too-many-sources", CONFLICT, "The feed has as many sources as may be",
        "A feed has at most 16 sources. Nothing was made. Delete one that nobody needs any more.";
    UPGRADE_REQUIRED = "upgrade-required", UPGRADE_REQUIRED, "This path speaks WebSocket",
        "A plain GET cannot be answered here. Connect with a WebSocket client, or read GET /v1/feeds/{feed}.";
    RATE_LIMITED = "rate-limited", TOO_MANY_REQUESTS, "Too many requests",
        "This key, or this address while there are no keys, has used up its requests; a batch counts its gifts. Or \
         too many wrong keys came from this address; a right one is still let in. \
         Nothing was done. Retry-After says when there is room again, the RateLimit headers of every answer how \
         much is left. A retry with the same id is safe.";
    SCHEDULE_FULL = "schedule-full", TOO_MANY_REQUESTS, "Too many gifts wait to be shown",
        "As many gifts of this feed wait to be shown as the operator allows ([due] scheduled_max). This one was not \
         taken, and its id is not used. Retry-After says when the first of those that wait is due; GET \
         /v1/feeds/{feed}/scheduled lists them, and DELETE cancels one.";
    REVIEW_FULL = "review-full", TOO_MANY_REQUESTS, "Too many gifts wait for review",
        "1 000 gifts of this feed wait for a host's decision. This one was not taken, and its id is not used. Retry-After \
         says when time decides about the first of them; GET /v1/feeds/{feed}/review lists them.";
    TOO_MANY_CONNECTIONS = "too-many-connections", TOO_MANY_REQUESTS, "Too many connections from this address",
        "As many watchers as may are connected from this address. Close some, or come back later. On a WebSocket \
         the same is close code 4129.";
    TOO_MANY_WAITING_CLAIMS = "too-many-waiting-claims", TOO_MANY_REQUESTS, "Too many claims wait for entries",
        "There is nothing to hand out now, and as many claims of this key, or of this group, wait on this node as may. \
         Claim again after Retry-After, or wait with fewer consumers: one claim can take up to 1000 entries. A claim \
         that finds entries gets them also then.";
    TOO_MANY_SUBSCRIPTIONS = "too-many-subscriptions", TOO_MANY_REQUESTS, "Too many feeds are watched",
        "The address watches as many feeds as it may, or asks too fast for feeds that nobody else watches, or the server \
         follows as many as it may; the detail says which. Watch fewer, or come back later. On a WebSocket the same is \
         close code 4129, on /v1/ws an error for the one feed.";
    INTERNAL = "internal", INTERNAL_SERVER_ERROR, "The server has a defect",
        "Something went wrong that should not be possible. The server's log has a line about it; please report it. \
         A retry with the same id is safe.";
    KEYS_UNAVAILABLE = "keys-unavailable", SERVICE_UNAVAILABLE, "The keys for tokens are not there",
        "The token cannot be judged, because the key set that it is signed with ([auth.tokens] jwks_url) could not be \
         fetched yet, or not for a day. Retry-After says when to try again.";
    UNAVAILABLE = "unavailable", SERVICE_UNAVAILABLE, "The store does not answer",
        "The store did not answer in time or refuses to write. Nothing is half-written: the gift is there whole or \
         not at all, and a retry with the same id is safe. Retry-After says when.";
    NO_PLACE = "no-place", SERVICE_UNAVAILABLE, "The server has no place for another watcher",
        "As many watchers as the operator allows are connected. Retry-After says when to try again. On a WebSocket \
         the same is close code 4129.";
    OVERLOADED = "overloaded", SERVICE_UNAVAILABLE, "Too much is waiting",
        "More is waiting than the server will hold. Nothing was written; a retry with the same id is safe. \
         Retry-After says when.";
    STORE_FULL = "store-full", SERVICE_UNAVAILABLE, "The store is full",
        "The data of the embedded store takes as much memory as it may ([embedded] max_memory). Nothing was written; a retry \
         with the same id is safe. Reading, acknowledging, cancelling and what expires go on, and make room. Retry-After says \
         when.";
    NOT_REPLICATED = "not-replicated", SERVICE_UNAVAILABLE, "Too few replicas have it",
        "The store has the write, but fewer replicas confirmed it in time than the operator wants ([redis] \
         wait_replicas), so a failover could still lose it. A retry with the same id is safe, and its answer waits \
         for the replicas as well. Retry-After says when.";
    FEED_DAMAGED = "feed-damaged", SERVICE_UNAVAILABLE, "The feed is damaged",
        "A stored record of this feed cannot be read, so nothing of it is served, shortened or guessed, and nothing is \
         written to it. Other feeds are not affected. The operator names it with `tipcast store check` and restores \
         it from a backup.";
    PART_DOWN = "part-down", SERVICE_UNAVAILABLE, "A part of the server does not run",
        "GET /healthz: a thread or task that every feed depends on has ended. It is started again within seconds, or \
         the process ends so that its supervisor starts it; the detail names it.";
    NOT_READY = "not-ready", SERVICE_UNAVAILABLE, "Not ready",
        "GET /readyz: the last probe through the store and back failed or is too old, a part of the server does \
         not run or is stuck, or the server is shutting down. The detail says which. Send traffic elsewhere until it answers 200.";
}

/// `GET /problems/{name}`.
pub(in crate::http) async fn about(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    let name = req.match_info().get("name").unwrap_or_default();
    let kind = KINDS.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| ApiError::NotFound("there is no problem of this name".to_owned()))?;
    let text = format!("{} {}\n\n{}\n", kind.status.as_str(), kind.title, kind.about);
    Ok(HttpResponse::Ok()
        .content_type("text/plain; charset=utf-8")
        .insert_header((CACHE_CONTROL, "no-cache"))
        .body(text))
}

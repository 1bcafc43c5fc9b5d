//! Who asks: the key or token that came with a request, and what it opens.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::http::header::{AUTHORIZATION, HeaderName, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

use super::rates::{Budget, Who};
use super::{AccessRules, RequestHead};
use crate::auth::keys::Denied;
use crate::auth::revoked::viewer_mark;
use crate::auth::signed::{SignedRequest, Unsigned};
use crate::auth::{BadToken, Key, Right, Rights, Viewer};
use crate::domain::{FeedId, Millis, Visibility};
use crate::http::access::{Access, RouteMatch};
use crate::http::problem::ApiError;

/// What a key begins with; any other bearer is a token.
const KEY_PREFIX: &str = crate::auth::hash::PREFIX;

/// The prefix of a token among the subprotocols of a handshake.
const BEARER_PROTOCOL: &str = "bearer.";

/// The subprotocol that is agreed on with clients that name one.
pub const PROTOCOL: &str = "tipcast.v1";

/// Names the key that a request was signed with.
static SIGNING_KEY: HeaderName = HeaderName::from_static("tipcast-key");

/// What a signed request says of itself: its id, its time, and the signature over both and its body.
static SIGNATURE: [HeaderName; 3] = [
    HeaderName::from_static("webhook-id"),
    HeaderName::from_static("webhook-timestamp"),
    HeaderName::from_static("webhook-signature"),
];

/// The sender of a request that access control let in.
#[derive(Clone, Default)]
pub struct Caller {
    /// Whose bucket is charged.
    pub(super) who: Option<Who>,
    /// What is left in it.
    pub budget: Option<Budget>,
    /// Who it is.
    pub identity: Identity,
    /// The feed that must be found to be open to it before anything is done.
    pub reads: Option<FeedId>,
    /// Of a signed request: what it says of itself. Its sender is [`Identity::Nobody`] until `http::signed` has found that
    /// to be right, which it does before anything else is done.
    pub signed: Option<SignedRequest>,
}

impl Caller {
    /// What names a signed request, once it was found right.
    pub fn request_identity(&self) -> Option<String> {
        Some(self.signed.as_ref()?.identity(self.identity.key()?))
    }
}

/// Who somebody is known to be.
#[derive(Clone, Default)]
pub enum Identity {
    /// Somebody without key or token.
    #[default]
    Nobody,
    /// The holder of a key.
    Key(Arc<Key>),
    /// The bearer of a token.
    Viewer(Arc<Viewer>),
    /// Somebody with a token that is no good.
    Bad(BadToken),
    /// Somebody with a key that is none, or expired.
    WrongKey,
}

/// Whether a key opens a GET by the right to observe. Keys of `producer_keys` have that right too, and are not for what is
/// an administrator's.
fn observes(key: &Key, access: Access, feed: Option<&str>) -> bool {
    let is_admins = access == Access::Key(Right::Admin);
    key.allows(Some(Right::Observe), feed).is_ok() && !(is_admins && key.may == Rights::PRODUCER)
}

impl Identity {
    /// Whether this is somebody who may read and watch a feed of this visibility; the refusal says what is
    /// missing, and nothing about the feed.
    pub fn may_see(&self, feed: &str, visibility: Visibility) -> Result<(), ApiError> {
        if visibility == Visibility::Public {
            return Ok(());
        }
        match self {
            Identity::Nobody => Err(ApiError::Unauthenticated { tried: false }),
            Identity::WrongKey => Err(ApiError::Unauthenticated { tried: true }),
            Identity::Bad(bad) => Err(ApiError::BadToken(*bad)),
            Identity::Key(key) => key.allows(Some(Right::Read), Some(feed)).map_err(ApiError::NotAllowed),
            Identity::Viewer(viewer) if viewer.may_see(feed) => Ok(()),
            Identity::Viewer(viewer) if viewer.may_watch => {
                Err(ApiError::NotAllowed(Denied::Feed(feed.into())))
            }
            Identity::Viewer(_) => Err(ApiError::NotAllowed(Denied::Right(Right::Read))),
        }
    }

    /// The key, if it is one.
    pub fn key(&self) -> Option<&Arc<Key>> {
        match self {
            Identity::Key(key) => Some(key),
            _ => None,
        }
    }

    /// The viewer who may only act for itself.
    pub fn viewer(&self) -> Option<&Arc<Viewer>> {
        match self {
            Identity::Viewer(viewer) => Some(viewer),
            _ => None,
        }
    }
}

/// Whether what came as a bearer is a token. Where there are no keys, nobody is asked for one, and a token
/// still means its viewer.
pub(super) fn is_token(head: &RequestHead<'_>) -> bool {
    matches!(bearer(head), Some(Some(text)) if !text.starts_with(KEY_PREFIX) && text.matches('.').count() == 2)
}

/// Whether this text, which is nobody's or this somebody's, was a guess at a key: keys of an operator's own need not
/// begin as ours do, so any text is one that does not have the form of a token.
pub(super) fn is_guess(text: &str, identity: &Identity) -> bool {
    let is_token = !text.starts_with(KEY_PREFIX) && text.matches('.').count() == 2;
    matches!(identity, Identity::WrongKey | Identity::Bad(_)) && !is_token
}

/// Whether a WebSocket is asked for.
pub(super) fn is_handshake(head: &RequestHead<'_>) -> bool {
    head.has(&UPGRADE)
}

/// What `Authorization` holds: `None` without the header, `Some(None)` if it makes no sense.
fn bearer<'a>(head: &RequestHead<'a>) -> Option<Option<&'a str>> {
    let sent = head.single(&AUTHORIZATION)?;
    Some(sent.and_then(|sent| {
        let (scheme, text) = sent.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| text.trim())
    }))
}

/// A token where no header can be set: in the address, or among the subprotocols of a handshake.
fn elsewhere<'a>(head: &RequestHead<'a>, access: Access) -> Option<Cow<'a, str>> {
    let mut query = url::form_urlencoded::parse(head.query.as_bytes());
    let token = query.find(|(name, value)| name == "token" && !value.is_empty()).map(|(_, value)| value);
    token.or_else(|| {
        let protocols = head.texts(&SEC_WEBSOCKET_PROTOCOL).filter(|_| access == Access::Watch);
        let mut offered = protocols.flat_map(|all| all.split(','));
        offered.find_map(|one| one.trim().strip_prefix(BEARER_PROTOCOL)).map(Cow::Borrowed)
    })
}

impl AccessRules {
    /// Who says to be what this text shows: a key, or a token.
    pub(super) fn identify(&self, text: &str, clock: Millis) -> Identity {
        // Keys of an operator's own need not begin as ours do.
        if let Some(key) = self.keys.sent(text, clock) {
            return Identity::Key(key);
        }
        if text.starts_with(KEY_PREFIX) {
            return Identity::WrongKey;
        }
        self.bearer_of(text, clock)
    }

    /// The bearer of a token.
    pub(super) fn bearer_of(&self, token: &str, clock: Millis) -> Identity {
        match self.tokens.check(token, clock) {
            // A bad token is refused also then.
            Ok(_) if self.revoked.is_awaited() => Identity::Bad(BadToken::RevocationsUnknown),
            Ok(viewer) if self.is_revoked(&viewer, clock) => Identity::Bad(BadToken::Revoked),
            Ok(viewer) => Identity::Viewer(Arc::new(viewer)),
            Err(bad) => Identity::Bad(bad),
        }
    }

    fn is_revoked(&self, viewer: &Viewer, clock: Millis) -> bool {
        let Some(mark) = viewer.sub.as_deref().map(viewer_mark) else { return false };
        self.revoked.is_revoked(mark, viewer.issued_at) || {
            self.revoked.note_shown(mark, viewer.issued_at, clock);
            false
        }
    }

    /// Who reads or watches, and whether that was a guess at a key.
    pub(super) fn viewer(&self, head: &RequestHead<'_>, access: Access, clock: Millis) -> (Identity, bool) {
        match bearer(head) {
            Some(Some(text)) => {
                let identity = self.identify(text, clock);
                // Where no tokens are taken, anything that is no key of ours is ignored.
                let is_ignored = matches!(identity, Identity::Bad(BadToken::NotConfigured));
                let is_guess = !is_ignored && is_guess(text, &identity);
                (identity, is_guess)
            }
            Some(None) => (Identity::WrongKey, false),
            None => {
                let token = elsewhere(head, access);
                (token.map_or(Identity::Nobody, |token| self.bearer_of(&token, clock)), false)
            }
        }
    }

    /// Who asks for what needs a key.
    pub(super) fn caller(
        &self,
        head: &RequestHead<'_>,
        clock: Millis,
    ) -> Result<Caller, (ApiError, Identity)> {
        let header = |name: &'static HeaderName| head.single(name).flatten();
        if head.has(&SIGNING_KEY) {
            let bad = |why| (ApiError::BadSignature(why), Identity::WrongKey);
            let malformed = || bad(Unsigned::Malformed);
            let name = header(&SIGNING_KEY).ok_or_else(malformed)?;
            let [id, time, signature] = SIGNATURE.each_ref().map(header);
            let (Some(id), Some(time), Some(signature)) = (id, time, signature) else {
                return Err(malformed());
            };
            let key = self.keys.signing(name, clock);
            let signed = Some(SignedRequest::read(key, id, time, signature, clock).map_err(bad)?);
            return Ok(Caller { signed, ..Caller::default() });
        }
        let identity = match bearer(head) {
            None => return Err((ApiError::Unauthenticated { tried: false }, Identity::Nobody)),
            Some(None) => return Err((ApiError::Unauthenticated { tried: true }, Identity::WrongKey)),
            Some(Some(text)) => self.identify(text, clock),
        };
        match identity {
            Identity::Bad(BadToken::NotConfigured) | Identity::WrongKey => {
                Err((ApiError::Unauthenticated { tried: true }, Identity::WrongKey))
            }
            Identity::Bad(bad) => Err((ApiError::BadToken(bad), Identity::Bad(bad))),
            identity => Ok(Caller { identity, ..Caller::default() }),
        }
    }

    /// Whether `caller` may do what is asked for. Nobody in particular comes here only while there are no keys.
    pub(super) fn authorize(
        &self,
        asked: &RouteMatch<'_>,
        caller: Caller,
    ) -> Result<Caller, (ApiError, Identity)> {
        if caller.signed.is_some() && !matches!(asked, RouteMatch::For { entry, .. } if entry.takes_signed())
        {
            return Err((ApiError::NotAllowed(Denied::Signed), Identity::WrongKey));
        }
        let RouteMatch::For { access, is_get, feed, .. } = asked else { return Ok(caller) };
        let feed = feed.as_deref();
        let denied = match (&caller.identity, access) {
            (Identity::Key(key), access) if *is_get && observes(key, *access, feed) => None,
            // Either right will do; a refusal names the other one.
            (Identity::Key(key), Access::Claim) if key.allows(Some(Right::Reports), feed).is_ok() => None,
            (Identity::Key(key), access) => {
                let right = match access {
                    Access::Key(right) => Some(*right),
                    Access::Hold | Access::Claim => Some(Right::Claims),
                    _ => None,
                };
                key.allows(right, feed).err()
            }
            (Identity::Viewer(viewer), Access::Hold) if feed.is_some_and(|feed| viewer.may_hold_in(feed)) => {
                None
            }
            (Identity::Viewer(viewer), Access::Hold) if viewer.may_hold => {
                Some(Denied::Feed(feed.unwrap_or_default().into()))
            }
            (Identity::Viewer(_), Access::Key(right)) => Some(Denied::Right(*right)),
            (Identity::Viewer(_), _) => Some(Denied::Right(Right::Claims)),
            _ => None,
        };
        match denied {
            Some(denied) => Err((ApiError::NotAllowed(denied), caller.identity)),
            None => Ok(caller),
        }
    }
}

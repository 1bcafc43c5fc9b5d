//! What a watcher showed that is good, and what it opens.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::keys::Denied;
use crate::auth::revoked::viewer_mark;
use crate::auth::{Key, Right, Scope, Viewer};
use crate::domain::{FeedId, Millis};
use crate::live::moment::MonoTime;

/// How long before its end the client is asked to get a new token.
pub(super) const RENEWAL_NOTICE_TIME: Duration = Duration::from_secs(30);

/// A token or a key that is good.
pub(super) enum Pass {
    /// What this key does, until then.
    Key(Box<(Arc<Key>, Option<MonoTime>)>),
    /// A token that opens the only feed of this socket.
    ThisFeed(Box<Token>),
    /// A token, but not for the only feed of this socket.
    OtherFeeds(Box<Token>),
    /// A token that opens these.
    These(Box<(Token, Scope)>),
}

/// What is kept of a token: what is needed while the connection lives.
pub(super) struct Token {
    /// By the clock that is never set, so that a clock that is set ends nothing.
    ends: MonoTime,
    /// Of its viewer, see [`viewer_mark`]; 0 when it names none.
    pub mark: u64,
    /// When it was issued in the upper bits, see [`Token::issued_at`], and the two facts in the lowest.
    issued: i64,
}

// There is one for each watcher of a private feed, and an allocation of up to 24 bytes takes 32.
const _: () = assert!(size_of::<Token>() <= 24 && size_of::<Pass>() <= 16);

/// It came shortly before its end, which is announced only after the first frame.
const IS_SHORT: i64 = 1;

/// Its end was announced.
const TOLD_SOON: i64 = 2;

impl Pass {
    /// Of a key, at `now`.
    pub(super) fn of_key(key: Arc<Key>, now: MonoTime) -> Pass {
        let ends = key.expires_at.map(|at| steady(at, now));
        Pass::Key(Box::new((key, ends)))
    }

    /// Of a token; `only`: the one feed of the connection, if it has one.
    pub(super) fn of_viewer(viewer: &Viewer, only: Option<&FeedId>, now: MonoTime) -> Pass {
        let token = Token::of(viewer, now);
        match only {
            Some(feed) if viewer.may_see(feed.as_str()) => Pass::ThisFeed(Box::new(token)),
            None if viewer.may_watch => Pass::These(Box::new((token, viewer.feeds.clone()))),
            _ => Pass::OtherFeeds(Box::new(token)),
        }
    }

    /// None: it is a key.
    pub(super) fn token(&self) -> Option<&Token> {
        match self {
            Pass::Key(_) => None,
            Pass::ThisFeed(token) | Pass::OtherFeeds(token) => Some(token),
            Pass::These(these) => Some(&these.0),
        }
    }

    /// When it ends, if it does.
    pub(super) fn ends(&self) -> Option<MonoTime> {
        match self {
            Pass::Key(key) => key.1,
            _ => Some(self.token()?.ends),
        }
    }

    /// Of a token's viewer; 0 when it names none, and for keys.
    pub(super) fn mark(&self) -> u64 {
        self.token().map_or(0, |token| token.mark)
    }

    /// Whether its end is still to be announced before it comes. The end of a key is not announced.
    pub(super) fn tells_soon(&self, started: bool) -> bool {
        self.token().is_some_and(|token| !token.is(TOLD_SOON) && (started || !token.is(IS_SHORT)))
    }

    /// Its end was announced.
    pub(super) fn told_soon(&mut self) {
        match self {
            Pass::Key(_) => {}
            Pass::ThisFeed(token) | Pass::OtherFeeds(token) => token.issued |= TOLD_SOON,
            Pass::These(these) => these.0.issued |= TOLD_SOON,
        }
    }

    /// Whether it opens this feed; else what it lacks.
    pub(super) fn may_see(&self, feed: &FeedId) -> Result<(), Denied> {
        let sees = match self {
            Pass::Key(key) => return key.0.allows(Some(Right::Read), Some(feed.as_str())),
            Pass::ThisFeed(_) => true,
            Pass::OtherFeeds(_) => false,
            Pass::These(these) => these.1.covers(feed.as_str()),
        };
        if sees { Ok(()) } else { Err(Denied::Feed(feed.as_str().into())) }
    }
}

impl Token {
    fn of(viewer: &Viewer, now: MonoTime) -> Token {
        let ends = steady(viewer.ends_at, now);
        let is_short = ends <= now + RENEWAL_NOTICE_TIME;
        // Two bits are nothing to a time in milliseconds.
        let issued = viewer.issued_at.0.clamp(i64::MIN >> 2, i64::MAX >> 2) << 2;
        let issued = issued | if is_short { IS_SHORT } else { 0 };
        let mark = viewer.sub.as_deref().map_or(0, viewer_mark);
        Token { ends, mark, issued }
    }

    /// When it was issued.
    pub(super) fn issued_at(&self) -> Millis {
        Millis(self.issued >> 2)
    }

    fn is(&self, fact: i64) -> bool {
        self.issued & fact != 0
    }
}

/// When `at` is, by the clock that is never set.
fn steady(at: Millis, now: MonoTime) -> MonoTime {
    now + Duration::from_millis(at.since(Millis::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_token_its_time_of_issue_is_kept_to_the_millisecond_beside_what_was_told() {
        for issued_at in [Millis(0), Millis(1_800_000_000_123), Millis((1 << 53) - 1)] {
            let feeds = Scope::parse(["*"]).unwrap();
            let ends_at = Millis::now().plus(10_000);
            let (sub, may_watch, may_hold) = (Some("ann".into()), true, false);
            let viewer = Viewer { sub, feeds, may_watch, may_hold, issued_at, ends_at };
            let mut pass = Pass::of_viewer(&viewer, None, MonoTime::now());
            pass.told_soon();
            let token = pass.token().unwrap();
            assert_eq!((token.issued_at(), token.is(IS_SHORT), token.is(TOLD_SOON)), (issued_at, true, true));
            assert!(!pass.tells_soon(true));
        }
    }
}

//! Who watches over one connection: what it showed at its handshake or later, what that lets it see, and when
//! it ends.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_ws::CloseCode;

use super::pass::{Pass, RENEWAL_NOTICE_TIME};
use crate::auth::BadToken;
use crate::auth::keys::Denied;
use crate::domain::{FeedId, Millis};
use crate::http::Gate;
use crate::http::audited::refused_watcher;
use crate::http::door::Identity;
use crate::live::moment::MonoTime;

/// 4001: the feed needs a token or a key, and none that is good came; the client should not come back without.
const UNAUTHENTICATED: CloseCode = CloseCode::Other(4001);

/// 4003: the token or key is not for this; the client should not come back with it.
const FORBIDDEN: CloseCode = CloseCode::Other(4003);

/// 4100: it cannot be judged now; the client should back off.
const TRY_LATER: CloseCode = CloseCode::Other(4100);

/// 4101: the token has expired; the client should get a new one and come back.
const EXPIRED: CloseCode = CloseCode::Other(4101);

/// How long a socket of a private feed may take to show a token or a key.
const AUTH_WITHIN: Duration = Duration::from_secs(5);

/// Who watches. Watchers who showed nothing cost no more than this.
pub struct Watcher {
    gate: Arc<Gate>,
    shown: Shown,
    /// The door's rules by which it was judged last.
    rules: u64,
}

/// What a watcher showed so far.
enum Shown {
    /// Nothing, until which it may.
    Nothing {
        until: MonoTime,
    },
    /// A key that is none any more.
    WrongKey,
    Bad(BadToken),
    Good(Pass),
}

/// Why a watcher may not go on, or not watch a feed.
pub struct WatchRefusal {
    /// For programs.
    pub code: &'static str,
    /// For people. Says nothing about the feed.
    pub message: String,
    /// With what the connection is closed, if it is.
    pub close: CloseCode,
}

/// What is due.
pub enum WatcherDue {
    /// The token ends in this number of milliseconds.
    Soon(u64),
    /// What it showed has expired.
    Ended(WatchRefusal),
}

impl Watcher {
    /// A watcher with `identity`. `only`: the one feed that this connection watches; `None` if it chooses feeds
    /// later.
    pub fn new(gate: Arc<Gate>, identity: Identity, only: Option<&FeedId>) -> Watcher {
        let now = MonoTime::now();
        // 0: judged at the first frame, because what was judged at the door may be revoked since.
        let rules = 0;
        let shown = match identity {
            // Where no tokens are taken, one is as good as none.
            Identity::Nobody | Identity::Bad(BadToken::NotConfigured) => {
                Shown::Nothing { until: now + AUTH_WITHIN }
            }
            Identity::WrongKey => Shown::WrongKey,
            Identity::Bad(bad) => Shown::Bad(bad),
            Identity::Key(key) => Shown::Good(Pass::of_key(key, now)),
            Identity::Viewer(viewer) => Shown::Good(Pass::of_viewer(&viewer, only, now)),
        };
        Watcher { gate, shown, rules }
    }

    /// Whether it may see this feed while that is private.
    pub fn may_see(&self, feed: &FeedId) -> bool {
        matches!(&self.shown, Shown::Good(pass) if pass.may_see(feed).is_ok())
    }

    /// By what a revocation finds its connection; 0 when none concerns it.
    pub fn mark(&self) -> u32 {
        match &self.shown {
            Shown::Good(pass) if pass.mark() != 0 => short_mark(pass.mark()),
            _ => 0,
        }
    }

    /// Whether there is still time to show a token or a key.
    pub fn may_wait(&self, now: MonoTime) -> bool {
        matches!(self.shown, Shown::Nothing { until } if now < until)
    }

    /// Why a private feed is not shown.
    pub fn refusal(&self, feed: &FeedId) -> WatchRefusal {
        match &self.shown {
            Shown::Bad(bad) => bad_token(*bad),
            Shown::Good(pass) => {
                if let Pass::Key(key) = pass {
                    refused_watcher(&self.gate, Some(&key.0), Some(feed));
                }
                match pass.may_see(feed) {
                    Err(Denied::Right(_)) => forbidden("this token or key may not watch"),
                    _ => forbidden("this token or key is not for this feed"),
                }
            }
            Shown::WrongKey => {
                refused_watcher(&self.gate, None, Some(feed));
                unauthenticated("this key is not known, or has expired")
            }
            Shown::Nothing { .. } => {
                unauthenticated("this needs a token or a key; send {\"type\":\"auth\",\"token\":…}")
            }
        }
    }

    /// Why the connection may not begin at all: a token came that is no good.
    pub fn bad_from_the_start(&self) -> Option<WatchRefusal> {
        match self.shown {
            Shown::Bad(bad) => Some(bad_token(bad)),
            _ => None,
        }
    }

    /// Judges again what was judged by other rules. None: nothing has changed. What came of it otherwise.
    pub fn judge_again(&mut self) -> Option<Result<(), WatchRefusal>> {
        let rules = self.gate.door.generation();
        if rules == self.rules {
            return None;
        }
        self.rules = rules;
        let Shown::Good(pass) = &mut self.shown else { return Some(Ok(())) };
        if let Pass::Key(key) = pass {
            match self.gate.door.key_like(&key.0, Millis::now()) {
                Some(key) => *pass = Pass::of_key(key, MonoTime::now()),
                None => self.shown = Shown::WrongKey,
            }
        } else if let Some(token) = pass.token()
            && self.gate.door.revoked().is_revoked(token.mark, token.issued_at())
        {
            return Some(Err(forbidden("the token was revoked; sign in again")));
        }
        Some(Ok(()))
    }

    /// What is due, given once. `started`: frames of a feed went out.
    pub fn due(&mut self, now: MonoTime, started: bool) -> Option<WatcherDue> {
        let Shown::Good(pass) = &mut self.shown else { return None };
        let left = pass.ends()?.since(now);
        if left.is_zero() && pass.token().is_none() {
            // By its own kind of end: who comes back with the same key is not let in.
            return Some(WatcherDue::Ended(unauthenticated("the key has expired")));
        }
        if left.is_zero() {
            let message = "the token has expired; get a new one, then reconnect".into();
            return Some(WatcherDue::Ended(WatchRefusal { code: "token_expired", message, close: EXPIRED }));
        }
        let soon = left <= RENEWAL_NOTICE_TIME && pass.tells_soon(started);
        soon.then(|| {
            pass.told_soon();
            WatcherDue::Soon(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
        })
    }

    /// When something is due next; `started` as in [`Watcher::due`].
    pub fn deadline(&self, started: bool) -> Option<MonoTime> {
        match &self.shown {
            // Of what has passed nothing comes any more.
            Shown::Nothing { until } if !started => Some(*until).filter(|until| *until > MonoTime::now()),
            Shown::Good(pass) => pass.ends().map(|ends| match pass.tells_soon(started) {
                true => ends - RENEWAL_NOTICE_TIME,
                false => ends,
            }),
            _ => None,
        }
    }

    /// Takes a token or a key that came in a frame, from a client that watches `feeds`. After one that was good it
    /// must be of the same viewer and open what is watched, or the one before goes on. Answers in how many
    /// milliseconds it ends, if it does. Wrong keys count for `address`. `only` as in [`Watcher::new`].
    pub fn present<'a>(
        &mut self,
        credential: &str,
        address: Option<IpAddr>,
        only: Option<&FeedId>,
        mut feeds: impl Iterator<Item = &'a FeedId>,
    ) -> Result<Option<u64>, WatchRefusal> {
        let now = MonoTime::now();
        // Before it is judged: what is revoked from here on has another number.
        let rules = self.gate.door.generation();
        let identity = self.gate.door.identify(credential, address, Millis::now());
        let pass = match identity.map_err(|_| too_many_guesses())? {
            Identity::Bad(bad) => return Err(bad_token(bad)),
            Identity::WrongKey | Identity::Nobody => {
                refused_watcher(&self.gate, None, None);
                return Err(WatchRefusal {
                    code: "bad_token",
                    ..unauthenticated("this key is not known, or has expired")
                });
            }
            Identity::Key(key) => Pass::of_key(key, now),
            Identity::Viewer(viewer) => Pass::of_viewer(&viewer, only, now),
        };
        if let Shown::Good(old) = &self.shown {
            let same = match (old.token(), pass.token()) {
                (None, _) => true,
                (_, None) => false,
                (Some(old), Some(new)) => old.mark == new.mark,
            };
            if !same || feeds.any(|feed| old.may_see(feed).is_ok() && pass.may_see(feed).is_err()) {
                return Err(forbidden(
                    "a new token must have the same sub and be for what is watched; the old one goes on",
                ));
            }
        }
        let left = pass.ends().map(|ends| ends.since(now));
        self.rules = rules;
        self.shown = Shown::Good(pass);
        Ok(left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Whether nothing that is good was shown yet.
    pub fn is_nobody(&self) -> bool {
        !matches!(self.shown, Shown::Good(_))
    }
}

/// What is left of a mark where there is little room; several viewers may share one.
pub(in crate::http) fn short_mark(mark: u64) -> u32 {
    (mark as u32).max(1)
}

fn forbidden(why: &str) -> WatchRefusal {
    WatchRefusal { code: "forbidden", message: why.to_owned(), close: FORBIDDEN }
}

fn unauthenticated(why: &str) -> WatchRefusal {
    WatchRefusal { code: "unauthenticated", message: why.to_owned(), close: UNAUTHENTICATED }
}

fn too_many_guesses() -> WatchRefusal {
    let message = "too many wrong keys came from this address; wait some seconds, then connect again".into();
    WatchRefusal { code: "rate_limited", message, close: TRY_LATER }
}

fn bad_token(bad: BadToken) -> WatchRefusal {
    let close = match bad {
        BadToken::KeysUnavailable(_) | BadToken::RevocationsUnknown => TRY_LATER,
        BadToken::Revoked => FORBIDDEN,
        _ => UNAUTHENTICATED,
    };
    WatchRefusal { code: "bad_token", message: bad.detail().to_owned(), close }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Scope, Viewer};

    fn viewer(ends_in_ms: u64, feeds: &[&str]) -> Identity {
        let now = Millis::now();
        Identity::Viewer(Arc::new(Viewer {
            sub: Some("ann".into()),
            feeds: Scope::parse(feeds.iter().copied()).unwrap(),
            may_watch: true,
            may_hold: false,
            issued_at: now,
            ends_at: now.plus(ends_in_ms),
        }))
    }

    async fn watcher(identity: Identity, only: Option<&FeedId>) -> Watcher {
        let gate = crate::http::testing::watcher().await.gate;
        Watcher::new(gate, identity, only)
    }

    #[tokio::test]
    async fn the_end_comes_by_the_clock_that_is_never_set_and_is_told_once_before() {
        let mut watcher = watcher(viewer(600_000, &["*"]), None).await;
        let now = MonoTime::now();
        let after = |s: u64| now + Duration::from_secs(s);
        assert!(watcher.due(after(569), true).is_none());
        assert!(matches!(watcher.due(after(571), false), Some(WatcherDue::Soon(28_000..=29_100))));
        assert!(watcher.due(after(572), true).is_none(), "told once");
        assert!(watcher.due(after(599), true).is_none());
        let Some(WatcherDue::Ended(refusal)) = watcher.due(after(600), true) else { panic!("it is over") };
        assert_eq!((refusal.code, refusal.close), ("token_expired", EXPIRED));
    }

    #[tokio::test]
    async fn a_short_token_is_told_of_after_the_first_frame_and_a_wait_for_a_token_ends() {
        let mut short = watcher(viewer(10_000, &["*"]), None).await;
        assert!(short.due(MonoTime::now(), false).is_none());
        assert!(matches!(short.due(MonoTime::now(), true), Some(WatcherDue::Soon(9_000..=10_000))));
        let nobody = watcher(Identity::Nobody, None).await;
        let now = MonoTime::now();
        assert!(nobody.may_wait(now) && !nobody.may_wait(now + AUTH_WITHIN));
        assert!(nobody.deadline(false).is_some() && nobody.deadline(true).is_none());
        assert!(!watcher(Identity::WrongKey, None).await.may_wait(now));
    }

    #[tokio::test]
    async fn a_socket_of_one_feed_keeps_of_a_token_only_whether_it_is_for_it() {
        let (a, b): (FeedId, FeedId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let one = watcher(viewer(60_000, &["a"]), Some(&a)).await;
        assert!(one.may_see(&a) && one.mark() != 0);
        let other = watcher(viewer(60_000, &["a"]), Some(&b)).await;
        assert!(!other.may_see(&b));
        assert_eq!((other.refusal(&b).code, other.refusal(&b).close), ("forbidden", FORBIDDEN));
        let many = watcher(viewer(60_000, &["a"]), None).await;
        assert!(many.may_see(&a) && !many.may_see(&b));
    }
}

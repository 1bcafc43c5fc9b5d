//! Who was let in before: whether that still holds, and when everybody is to be judged again.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::caller::is_guess;
use super::{Caller, Door, Identity};
use crate::auth::{Key, Revoked, Right};
use crate::domain::Millis;
use crate::http::problem::ApiError;

impl Door {
    /// Another number after every change of who may do what; never 0.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether viewers' tokens are taken.
    pub fn takes_tokens(&self) -> bool {
        self.now.load().rules.tokens.is_on()
    }

    /// Who says to be what a token or a key shows, from this address; an error if too many wrong keys came from there.
    pub fn identify(
        &self,
        credential: &str,
        address: Option<IpAddr>,
        clock: Millis,
    ) -> Result<Identity, ApiError> {
        let identity = self.now.load().rules.identify(credential, clock);
        if is_guess(credential, &identity) {
            self.guessed_by(address)?;
        }
        Ok(identity)
    }

    /// What has become of a key that was good before: the same one, perhaps with other rights.
    pub fn key_like(&self, key: &Key, clock: Millis) -> Option<Arc<Key>> {
        self.now.load().rules.keys.like(key, clock).cloned()
    }

    /// Whose tokens are revoked.
    pub fn revoked(&self) -> &Arc<Revoked> {
        &self.revoked
    }

    /// Refuses tokens of the viewer of this mark that were issued before then. True when that is news: then
    /// sockets are to be judged again.
    pub fn refuse_viewer(&self, mark: u64, before: Millis, until: Millis) -> bool {
        let news = self.revoked.refuse(mark, before, until);
        if news {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        news
    }

    /// How long a revocation must be remembered after its time, in milliseconds.
    pub fn tokens_live_ms(&self) -> u64 {
        self.now.load().rules.tokens.tokens_live_ms()
    }

    /// Whether somebody who was let in with a key before still may: an error when the key lost what it needs.
    pub fn still(&self, caller: &Caller, right: Right, feed: &str, clock: Millis) -> Result<(), ApiError> {
        let now = self.now.load();
        match &caller.identity {
            Identity::Key(key) if now.rules.keys.still(key, clock) => Ok(()),
            Identity::Key(old) => match now.rules.keys.like(old, clock) {
                Some(key) => key.allows(Some(right), Some(feed)).map_err(ApiError::NotAllowed),
                None => Err(ApiError::Unauthenticated { tried: true }),
            },
            _ if now.rules.keys.is_empty() => Ok(()),
            _ => Err(ApiError::Unauthenticated { tried: false }),
        }
    }
}

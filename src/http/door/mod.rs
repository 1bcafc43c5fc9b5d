//! The door: who may come in, before anything of a request is done.
//!
//! Every request passes [`Door::admit`] (before its handler runs), which asks, in this order: may the server be
//! asked by this name ([`hosts`]), may this web page be here ([`origins`]), does a key or a token open what is
//! asked for ([`caller`], by the table in `http::access`), and has its holder requests left ([`rates`]). Watchers
//! take a connection slot in addition ([`places`]). What is asked can change while the server runs: [`Door::change`].

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::http::Method;
use actix_web::http::header::{ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, ORIGIN};
use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::access::{Access, RouteEntry, RouteMatch, find};
use super::inbound::counted;
use super::problem::ApiError;
use crate::auth::{Key, Keys, Revoked, Right, Verifier};
use crate::domain::{FeedId, Millis};
use crate::supervise::LogThrottle;

pub mod address;
pub mod caller;
pub mod head;
pub mod hosts;
pub mod origins;
pub mod places;
pub mod rates;

mod again;
mod cors;

use address::Proxies;
pub use caller::{Caller, Identity};
pub use head::RequestHead;
use hosts::Hosts;
use origins::{Origins, Page};
use places::{Full, PlaceLimits, Places, WatcherPlace};
use rates::{Budget, Rate, Rates, Who};

/// How often the log says that there was no place.
const FULL_SAID_EVERY: Duration = Duration::from_secs(10);

/// Wrong keys, and paths of sources that there are not, that an address may try in a second in the long run, and
/// 128 at once. Beyond it they are answered 429. A right one still opens: keys and paths are too long for anybody to
/// find one by trying, and one producer's outdated key must not lock out the others behind the same address.
const GUESSES_PER_SECOND: u32 = 2;

/// What is asked at the door. The default asks nothing of programs of this machine and keeps foreign pages out.
#[derive(Clone, Default)]
pub struct AccessRules {
    /// Who may do what. While there are no keys at all, nobody is asked for one.
    pub keys: Keys,
    /// Judges viewers' tokens.
    pub tokens: Verifier,
    /// Whose tokens are not taken any more. A door puts its own here, which outlives its rules.
    pub revoked: Arc<Revoked>,
    /// Which web pages may be here.
    pub origins: Origins,
    /// By which names the server may be asked.
    pub hosts: Hosts,
    /// Without keys: something in front of the server keeps strangers out, so every caller may write.
    pub insecure: bool,
    /// The proxies that may say which client a request is from.
    pub proxies: Proxies,
    /// How many may watch.
    pub places: PlaceLimits,
    /// How often the holder of a key may ask.
    pub rate: Option<Rate>,
    /// How often one viewer may ask for holds.
    pub viewer_rate: Option<Rate>,
}

/// The rules and what is counted under them.
pub struct Door {
    now: ArcSwap<InForce>,
    changes: watch::Sender<()>,
    /// Counts changes of who may do what.
    generation: AtomicU64,
    revoked: Arc<Revoked>,
    places: Arc<Places>,
    full: LogThrottle<()>,
    /// What an address has left of guesses at secrets.
    guesses: Option<Rates>,
}

struct InForce {
    rules: AccessRules,
    rates: Option<Arc<Rates>>,
    viewer_rates: Option<Arc<Rates>>,
}

/// What a request wants, as far as web pages are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessClass {
    /// Something for everybody that no other site's page has a use for: pages, health, metrics.
    Page,
    /// Something that other sites' pages may use.
    Read,
    /// A live feed.
    Watch,
    /// What needs a key.
    Produce,
    /// What needs a key for everything.
    Admin,
}

impl AccessClass {
    fn of(asked: &RouteMatch<'_>, path: &str) -> AccessClass {
        match asked {
            RouteMatch::For { access, .. } => match access {
                Access::Page => AccessClass::Page,
                Access::Open | Access::Feed | Access::List => AccessClass::Read,
                Access::Watch => AccessClass::Watch,
                Access::Key(Right::Admin) => AccessClass::Admin,
                Access::AnyKey | Access::Key(_) | Access::Hold | Access::Claim => AccessClass::Produce,
            },
            _ if path.starts_with("/v1/") => AccessClass::Produce,
            _ => AccessClass::Page,
        }
    }

    /// Whether a key is asked for, where there are keys.
    fn needs_key(self) -> bool {
        matches!(self, AccessClass::Produce | AccessClass::Admin)
    }
}

/// What the door says.
pub enum AccessVerdict {
    /// Go on, to the row of the table that was asked for. A signed request only once its signature was found to be
    /// right.
    Enter(Caller, &'static RouteEntry),
    /// A browser asks whether a page may; it may.
    Preflight,
    /// No.
    Refuse {
        /// Why.
        why: ApiError,
        /// What is left in the bucket that was charged.
        budget: Option<Budget>,
        /// Who asked, as far as that was looked at.
        identity: Option<Identity>,
    },
}

fn refuse(why: ApiError, budget: Option<Budget>, identity: Option<Identity>) -> AccessVerdict {
    AccessVerdict::Refuse { why, budget, identity }
}

impl Door {
    /// A door with these rules.
    pub fn new(rules: AccessRules) -> Door {
        let revoked = Arc::<Revoked>::default();
        Door {
            now: ArcSwap::from_pointee(InForce::new(AccessRules { revoked: revoked.clone(), ..rules }, None)),
            revoked,
            changes: watch::Sender::new(()),
            generation: AtomicU64::new(1),
            places: Arc::default(),
            full: LogThrottle::every(FULL_SAID_EVERY),
            guesses: Rate::new(GUESSES_PER_SECOND, 0).map(Rates::new),
        }
    }

    /// New rules, from the next request on. Who is in is judged again where that lasts; buckets stay as full as
    /// they are unless the rate is another.
    pub fn change(&self, rules: AccessRules) {
        let old = self.now.load_full();
        let rules = AccessRules { revoked: self.revoked.clone(), ..rules };
        rules.keys.keep_uses(&old.rules.keys);
        self.now.store(Arc::new(InForce::new(rules, Some(&old))));
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.changes.send_replace(());
    }

    /// Announces every change of the rules from here on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Judges a request by its head.
    pub fn admit(&self, head: &RequestHead<'_>, clock: Millis) -> AccessVerdict {
        let asked_for = preflight(head);
        let path = head.path;
        let asked = find(asked_for.as_ref().unwrap_or(head.method), path);
        let want = AccessClass::of(&asked, path);
        let now = self.now.load();
        let rules = &now.rules;
        let host = hosts::asked(head);
        if !rules.hosts.allow(host) {
            return refuse(ApiError::Misdirected, None, None);
        }
        if let RouteMatch::Malformed(name) = asked {
            return refuse(ApiError::MalformedPath(name), None, None);
        }
        if want.needs_key() && rules.needs_keys(want, host, head) {
            return refuse(ApiError::KeysNeeded, None, None);
        }
        if want != AccessClass::Page {
            let page = rules.page_of(host, head);
            if let Err(refused) = rules.check_page(page, want, asked_for.is_some()) {
                return refuse(refused, None, None);
            }
            if asked_for.is_some() {
                return AccessVerdict::Preflight;
            }
        }
        if !want.needs_key() {
            return match asked {
                RouteMatch::For { access, feed, entry, .. } => {
                    let (identity, reads) =
                        match self.admit_viewer(rules, (access, feed.as_deref()), head, clock) {
                            Ok(admitted) => admitted,
                            Err(why) => return refuse(why, None, None),
                        };
                    AccessVerdict::Enter(Caller { identity, reads, ..Caller::default() }, entry)
                }
                RouteMatch::OtherMethod(allow) => refuse(ApiError::MethodNotAllowed(allow), None, None),
                RouteMatch::Malformed(_) | RouteMatch::Nothing => {
                    refuse(ApiError::NotFound(format!("there is nothing at {path}")), None, None)
                }
            };
        }
        let caller = match rules.keys.is_empty() && !caller::is_token(head) {
            true => Ok(Caller::default()),
            false => rules.caller(head, clock),
        };
        let judged = caller.and_then(|caller| rules.authorize(&asked, caller));
        self.charge_head(&now, judged, &asked, head)
    }

    /// Who reads or watches comes in; whether the feed lets it see anything is known when its policy is.
    fn admit_viewer(
        &self,
        rules: &AccessRules,
        asked: (Access, Option<&str>),
        head: &RequestHead<'_>,
        clock: Millis,
    ) -> Result<(Identity, Option<FeedId>), ApiError> {
        let (access, feed) = asked;
        let (identity, is_guess) = match access {
            Access::Feed | Access::List | Access::Watch => rules.viewer(head, access, clock),
            _ => (Identity::Nobody, false),
        };
        // Also where the feed is open to everybody: else the answer to a wrong key would cost nothing.
        if is_guess {
            self.guessed(head)?;
        }
        // A name that is none is for the handler to refuse.
        let reads = feed.filter(|_| access == Access::Feed).and_then(|feed| feed.parse().ok());
        // A browser does not show its page the status of a refused handshake.
        let told_later = access == Access::Watch && caller::is_handshake(head);
        match identity {
            Identity::Bad(bad) if rules.tokens.is_on() && !told_later => Err(ApiError::BadToken(bad)),
            identity => Ok((identity, reads)),
        }
    }

    /// Charges the sender of a request that needs a key, and says what becomes of it.
    fn charge_head(
        &self,
        now: &InForce,
        judged: Result<Caller, (ApiError, Identity)>,
        asked: &RouteMatch<'_>,
        head: &RequestHead<'_>,
    ) -> AccessVerdict {
        let address = || Who::Address(now.rules.client(head).map(counted));
        if let Err((ApiError::Unauthenticated { tried: true } | ApiError::BadSignature(_), _)) = &judged
            && let Err(slow_down) = self.guessed(head)
        {
            return refuse(slow_down, None, None);
        }
        // Anybody may name a signing key. Its holder is charged once the signature was found right.
        if let (Ok(caller), RouteMatch::For { entry, .. }) = (&judged, asked)
            && caller.signed.is_some()
        {
            return AccessVerdict::Enter(caller.clone(), entry);
        }
        // Who has no valid key is charged by address, so that trying keys is limited too.
        let identity = judged.as_ref().map_or_else(|(_, identity)| identity, |caller| &caller.identity);
        let (who, rates) = match identity {
            Identity::Viewer(viewer) => (Who::Viewer(viewer.id()), &now.viewer_rates),
            Identity::Key(key) => (Who::Key(key.id()), &now.rates),
            _ => (address(), &now.rates),
        };
        let budget = match rates.as_ref().map(|rates| rates.charge(who, NonZeroU32::MIN)) {
            Some(Err(budget)) => {
                return refuse(ApiError::RateLimited(budget.retry_after()), Some(budget), None);
            }
            Some(Ok(budget)) => Some(budget),
            None => None,
        };
        match (judged, asked) {
            (Err((refused, identity)), _) => refuse(refused, budget, Some(identity)),
            (Ok(_), RouteMatch::OtherMethod(allow)) => {
                refuse(ApiError::MethodNotAllowed(allow), budget, None)
            }
            (Ok(_), RouteMatch::Malformed(_) | RouteMatch::Nothing) => {
                refuse(ApiError::NotFound(format!("there is nothing at {}", head.path)), budget, None)
            }
            (Ok(caller), RouteMatch::For { entry, .. }) => {
                AccessVerdict::Enter(Caller { who: budget.is_some().then_some(who), budget, ..caller }, entry)
            }
        }
    }

    /// Somebody tried what only the owner of a secret knows, and it was wrong: an error when its address has done so
    /// too often, which is then the answer.
    pub fn guessed(&self, head: &RequestHead<'_>) -> Result<(), ApiError> {
        self.guessed_by(self.counted_address(head))
    }

    /// [`Door::guessed`], of who comes from this address.
    pub fn guessed_by(&self, address: Option<IpAddr>) -> Result<(), ApiError> {
        let Some(guesses) = &self.guesses else { return Ok(()) };
        let charged = guesses.charge(Who::Address(address), NonZeroU32::MIN);
        charged.map(drop).map_err(|budget| ApiError::RateLimited(budget.retry_after()))
    }

    /// Lets in who sent a signed request that was found right, with this key to this feed; an error if the key is not
    /// for it, or has no requests left.
    pub fn admit_signer(&self, caller: &mut Caller, key: &Arc<Key>, feed: &str) -> Result<(), ApiError> {
        key.note_use(Millis::now());
        caller.identity = Identity::Key(key.clone());
        caller.who = self.now.load().rates.is_some().then_some(Who::Key(key.id()));
        self.charge(caller, 1)?;
        key.allows(Some(Right::Gifts), Some(feed)).map_err(ApiError::NotAllowed)
    }

    /// Charges a caller for `more` than the one request that it was let in with.
    pub fn charge(&self, caller: &mut Caller, more: usize) -> Result<(), ApiError> {
        let more = NonZeroU32::new(u32::try_from(more).unwrap_or(u32::MAX));
        let now = self.now.load();
        let rates = if matches!(caller.who, Some(Who::Viewer(_))) { &now.viewer_rates } else { &now.rates };
        let (Some(who), Some(rates), Some(more)) = (caller.who, rates, more) else { return Ok(()) };
        let charged = rates.charge(who, more);
        caller.budget = Some(charged.unwrap_or_else(|budget| budget));
        charged.map(|_| ()).map_err(|budget| ApiError::RateLimited(budget.retry_after()))
    }

    /// Whether the pages of those who look after feeds need a key; an error when they are closed to who asks.
    pub fn asks_for_key(&self, head: &RequestHead<'_>) -> Result<bool, ApiError> {
        let now = self.now.load();
        match now.rules.needs_keys(AccessClass::Admin, hosts::asked(head), head) {
            true => Err(ApiError::KeysNeeded),
            false => Ok(!now.rules.keys.is_empty()),
        }
    }

    /// All keys, as they are in force.
    pub fn keys(&self) -> Keys {
        self.now.load().rules.keys.clone()
    }

    /// Whether nobody has a key, so that everybody who reaches the server may write.
    pub fn has_no_keys(&self) -> bool {
        self.now.load().rules.keys.is_empty()
    }

    /// A place for the watcher that asks.
    pub fn place(&self, head: &RequestHead<'_>) -> Result<WatcherPlace, Full> {
        let now = self.now.load();
        let taken = self.places.take(now.rules.client(head).map(counted), now.rules.places);
        taken.inspect_err(|full| {
            let Some(more) = self.full.allow_more() else { return };
            match full {
                Full::Server => tracing::warn!(more, "no place for a watcher: [limits] watchers is reached"),
                Full::Address => tracing::warn!(
                    address = now.rules.client(head).map(tracing::field::display),
                    more,
                    "no place for a watcher: its address has as many as [limits] watchers_per_address; if it is a \
                     proxy's, name it in [http] trusted_proxies"
                ),
            }
        })
    }

    /// The address that a watcher counts for; `None` if that is not limited.
    pub fn address(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        let now = self.now.load();
        let limited = |ip: &IpAddr| now.rules.places.count_loopback || !ip.is_loopback();
        now.rules.client(head).map(counted).filter(limited)
    }

    /// By what a client is counted where every address is limited.
    pub fn counted_address(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        self.now.load().rules.client(head).map(counted)
    }

    /// Whether an address is a trusted proxy's, whose connections are many people's.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.now.load().rules.proxies.trusts(address.to_canonical())
    }

    /// A permit to refuse a watcher over its socket.
    pub fn turn_away(&self) -> Option<WatcherPlace> {
        self.places.turn_away()
    }

    /// The headers by which a browser lets a page of another origin see the answer.
    pub fn cors(&self, head: &RequestHead<'_>, headers: &mut HeaderMap) {
        // To a program, which names no page, what producers get says nothing more; and whatever is not read is
        // theirs, or for no page at all.
        let reads = matches!(*head.method, Method::GET | Method::HEAD);
        if !reads && !head.has(&ORIGIN) {
            return;
        }
        let asked_for = preflight(head);
        let want = AccessClass::of(&find(asked_for.as_ref().unwrap_or(head.method), head.path), head.path);
        if want == AccessClass::Page || want.needs_key() && !head.has(&ORIGIN) {
            return;
        }
        let now = self.now.load();
        let page = now.rules.page_of(hosts::asked(head), head);
        cors::put(&now.rules, page, want, asked_for.is_some(), head, headers);
    }
}

impl InForce {
    fn new(rules: AccessRules, old: Option<&InForce>) -> InForce {
        let kept = |old: Option<&Arc<Rates>>, rate: Option<Rate>| {
            let kept = old.filter(|old| Some(old.rate()) == rate).cloned();
            rate.map(|rate| kept.unwrap_or_else(|| Arc::new(Rates::new(rate))))
        };
        let rates = kept(old.and_then(|old| old.rates.as_ref()), rules.rate);
        let viewer_rates = kept(old.and_then(|old| old.viewer_rates.as_ref()), rules.viewer_rate);
        InForce { rules, rates, viewer_rates }
    }
}

impl AccessRules {
    fn client(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        self.proxies.client(head)
    }

    fn page_of(&self, host: Option<&str>, head: &RequestHead<'_>) -> Page {
        // Two of them, or one that is no text, belong to no known key.
        let origin = head.single(&ORIGIN).map(|value| value.unwrap_or_default());
        self.origins.judge(origin, host)
    }

    /// Whether a request that is not open to viewers cannot be answered while nobody has a key: reaching the
    /// server is the only permission there is then, so only what looks like a program of this machine has it.
    /// `insecure` gives it to everybody, but for looking after all feeds, which needs more than being there.
    fn needs_keys(&self, want: AccessClass, host: Option<&str>, head: &RequestHead<'_>) -> bool {
        let open = self.insecure && want != AccessClass::Admin;
        self.keys.is_empty() && !open && !hosts::looks_local(host, head)
    }

    /// What a page may want. Programs are not pages.
    fn check_page(&self, page: Page, want: AccessClass, preflight: bool) -> Result<(), ApiError> {
        let may = match (page, want) {
            (Page::Unnamed | Page::Named, _) => true,
            (Page::Welcome, AccessClass::Page | AccessClass::Read | AccessClass::Watch) => true,
            // Without keys, a name that was made to point here was refused before: see `needs_keys`.
            (Page::Own, _) => true,
            // Without keys any page that somebody has open on this machine could write.
            (Page::Welcome, AccessClass::Produce) => !self.keys.is_empty(),
            // A browser does not show the page the answer without CORS headers.
            (Page::Foreign, AccessClass::Read | AccessClass::Page) => !preflight,
            (Page::Foreign, AccessClass::Watch | AccessClass::Produce) => false,
            // Its key is not for other pages, unless they are named.
            (Page::Welcome | Page::Foreign, AccessClass::Admin) => false,
        };
        if may { Ok(()) } else { Err(ApiError::ForeignOrigin) }
    }
}

/// The method that a browser asks about (the Fetch standard's CORS-preflight).
fn preflight(head: &RequestHead<'_>) -> Option<Method> {
    let asks = *head.method == Method::OPTIONS && head.has(&ORIGIN);
    let asked = head.all(&ACCESS_CONTROL_REQUEST_METHOD).next().filter(|_| asks)?;
    Method::from_bytes(asked).ok()
}

#[cfg(test)]
mod tests;

//! The door: who may come in, before anything of a request is done.
//!
//! Every request passes [`Door::admit`] (before its handler runs), which asks, in this order: may this
//! web page be here ([`origins`]), is there a producer key where one is needed ([`keys`]), and has its
//! holder any requests left ([`rates`]). Watchers take a place in addition ([`places`]). What is asked can
//! change while the server runs: [`Door::change`].

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HeaderMap, HeaderName, ORIGIN};
use arc_swap::ArcSwap;

use super::problem::ApiError;
use super::seldom::Seldom;

pub mod address;
pub mod hosts;
pub mod keys;
pub mod origins;
pub mod places;
pub mod rates;

use address::{Proxies, counted};
use hosts::Hosts;
use keys::Keys;
use origins::{Origins, Page};
use places::{Full, Place, PlaceLimits, Places};
use rates::{Budget, Rate, Rates, Who};

/// How often the log says that there was no place.
const FULL_SAID_EVERY: Duration = Duration::from_secs(10);

/// Wrong keys that an address may try in a second in the long run, and 128 at once. Beyond it they are answered
/// 429. A right key still opens: a key has 256 random bits, so nobody finds one by trying, and one
/// producer's outdated key must not lock out the others behind the same address.
const WRONG_KEYS_PER_SECOND: u32 = 2;

/// What is asked at the door. The default asks nothing of programs and keeps foreign pages out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Who may write. While there are no keys at all, nobody is asked for one.
    pub keys: Keys,
    /// Who may also look after reports.
    pub admin: Keys,
    /// Which web pages may be here.
    pub origins: Origins,
    /// By which names the server may be asked.
    pub hosts: Hosts,
    /// Without keys: something in front of the server keeps strangers out, so whoever asks may write.
    pub insecure: bool,
    /// Who may say for whom a request is.
    pub proxies: Proxies,
    /// How many may watch.
    pub places: PlaceLimits,
    /// How often a producer may ask.
    pub rate: Option<Rate>,
}

/// The rules and what is counted under them.
pub struct Door {
    now: ArcSwap<Now>,
    places: Arc<Places>,
    full: Seldom,
    /// What an address has left of wrong keys.
    wrong_keys: Option<Rates>,
}

struct Now {
    rules: Rules,
    rates: Option<Arc<Rates>>,
}

/// What a request wants, as far as the door cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Something for everybody that no other site's page has a use for: pages, health, metrics.
    Page,
    /// Something for everybody, that other sites' pages may use.
    Read,
    /// A live feed.
    Watch,
    /// What only producers may.
    Produce,
    /// Groups and webhooks: for producers, and for those who look after them.
    Report,
    /// What only those may who look after reports.
    Admin,
}

impl Want {
    /// Of the path as the router sees it, percent-decoded. What is not listed here as open is for
    /// producers, so that a new path below /v1 is closed until somebody decides otherwise.
    pub fn of(method: &Method, path: &str) -> Want {
        let Some(path) = path.strip_prefix("/v1/") else {
            // The client library is a module, which other sites' pages load with CORS only.
            let shared = path.starts_with("/static/") || path == "/openapi.json";
            return if shared { Want::Read } else { Want::Page };
        };
        let mut parts = path.split('/');
        let parts = [(); 5].map(|()| parts.next());
        match parts {
            [Some("admin"), ..] => return Want::Admin,
            [Some("feeds"), Some(_), Some("groups" | "webhooks"), ..] => return Want::Report,
            _ if !matches!(*method, Method::GET | Method::HEAD) => return Want::Produce,
            _ => {}
        }
        match parts {
            [Some("ws"), None, ..] => Want::Watch,
            [Some("feeds"), Some(_), Some("ws" | "sse"), None, _] => Want::Watch,
            [Some("feeds"), Some(_), None, ..] => Want::Read,
            // What it says also travels in the feed.
            [Some("feeds"), Some(_), Some("drops"), Some(_), None] => Want::Read,
            [Some("feeds"), Some(_), Some("drops" | "presence"), None, _] => Want::Read,
            _ => Want::Produce,
        }
    }

    /// Whether a key is asked for, where there are keys.
    fn needs_key(self) -> bool {
        matches!(self, Want::Produce | Want::Report | Want::Admin)
    }
}

/// Somebody whom the door let in.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Whose bucket is charged.
    who: Option<Who>,
    /// What is left in it.
    pub budget: Option<Budget>,
}

/// What the door says.
pub enum Verdict {
    /// Go on.
    Enter(Caller),
    /// A browser asks whether a page may; it may.
    Preflight,
    /// No, and what is left in the bucket that was charged.
    Refuse(ApiError, Option<Budget>),
}

impl Door {
    /// A door with these rules.
    pub fn new(rules: Rules) -> Door {
        Door {
            now: ArcSwap::from_pointee(Now::new(rules, None)),
            places: Arc::default(),
            full: Seldom::new(FULL_SAID_EVERY),
            wrong_keys: Rate::new(WRONG_KEYS_PER_SECOND, 0).map(Rates::new),
        }
    }

    /// New rules, from the next request on. Who is in stays in, and buckets stay as full as they are
    /// unless the rate is another.
    pub fn change(&self, rules: Rules) {
        let old = self.now.load_full();
        self.now.store(Arc::new(Now::new(rules, old.rates.clone())));
    }

    /// Judges a request by its head.
    pub fn admit(&self, method: &Method, path: &str, req: &HttpRequest) -> Verdict {
        let asked = preflight(method, req);
        let want = Want::of(asked.as_ref().unwrap_or(method), path);
        let now = self.now.load();
        let host = hosts::asked(req);
        if !now.rules.hosts.allow(host.as_deref()) {
            return Verdict::Refuse(ApiError::Misdirected, None);
        }
        if want == Want::Page {
            return Verdict::Enter(Caller { who: None, budget: None });
        }
        if want.needs_key() && now.rules.needs_keys(want, host.as_deref(), req) {
            return Verdict::Refuse(ApiError::KeysNeeded, None);
        }
        let page = now.rules.page_of(host.as_deref(), req);
        if let Err(refused) = now.rules.check_page(page, want, asked.is_some()) {
            return Verdict::Refuse(refused, None);
        }
        if asked.is_some() {
            return Verdict::Preflight;
        }
        if !want.needs_key() {
            return Verdict::Enter(Caller { who: None, budget: None });
        }
        let keyed = now.rules.check_key(want, req);
        if let Err(ApiError::Unauthenticated { tried: true } | ApiError::AdminKey { tried: true }) = keyed
            && let Some(wrong_keys) = &self.wrong_keys
            && let Err(budget) =
                wrong_keys.charge(Who::Address(now.rules.client(req).map(counted)), NonZeroU32::MIN)
        {
            return Verdict::Refuse(ApiError::RateLimited(budget.retry_after()), None);
        }
        let Some(rates) = &now.rates else {
            return match keyed {
                Ok(_) => Verdict::Enter(Caller { who: None, budget: None }),
                Err(refused) => Verdict::Refuse(refused, None),
            };
        };
        // Who has no valid key is charged by address, so that trying keys is limited too.
        let who = match keyed {
            Ok(Some(hash)) => Who::Key(hash),
            _ => Who::Address(now.rules.client(req).map(counted)),
        };
        match (rates.charge(who, NonZeroU32::MIN), keyed) {
            (Err(budget), _) => Verdict::Refuse(ApiError::RateLimited(budget.retry_after()), Some(budget)),
            (Ok(budget), Err(refused)) => Verdict::Refuse(refused, Some(budget)),
            (Ok(budget), Ok(_)) => Verdict::Enter(Caller { who: Some(who), budget: Some(budget) }),
        }
    }

    /// Charges a caller for `more` than the one request that it was let in with.
    pub fn charge(&self, caller: &mut Caller, more: usize) -> Result<(), ApiError> {
        let more = NonZeroU32::new(u32::try_from(more).unwrap_or(u32::MAX));
        let now = self.now.load();
        let (Some(who), Some(rates), Some(more)) = (caller.who, &now.rates, more) else { return Ok(()) };
        let charged = rates.charge(who, more);
        caller.budget = Some(charged.unwrap_or_else(|budget| budget));
        charged.map(|_| ()).map_err(|budget| ApiError::RateLimited(budget.retry_after()))
    }

    /// Whether the page of those who look after reports needs a key; an error when it is closed to who asks.
    pub fn admin(&self, req: &HttpRequest) -> Result<bool, ApiError> {
        let now = self.now.load();
        match now.rules.needs_keys(Want::Admin, hosts::asked(req).as_deref(), req) {
            true => Err(ApiError::KeysNeeded),
            false => Ok(now.rules.has_keys()),
        }
    }

    /// A place for the watcher that asks.
    pub fn place(&self, req: &HttpRequest) -> Result<Place, Full> {
        let now = self.now.load();
        self.places.take(now.rules.client(req).map(counted), now.rules.places).inspect_err(|full| {
            let Some(more) = self.full.may_speak() else { return };
            match full {
                Full::Server => tracing::warn!(more, "no place for a watcher: [limits] watchers is reached"),
                Full::Address => tracing::warn!(
                    address = now.rules.client(req).map(tracing::field::display),
                    more,
                    "no place for a watcher: its address has as many as [limits] watchers_per_address; if it is a \
                     proxy's, name it in [http] trusted_proxies"
                ),
            }
        })
    }

    /// A place to tell a watcher in that there is none.
    pub fn turn_away(&self) -> Option<Place> {
        self.places.turn_away()
    }

    /// The headers by which a browser lets a page of another origin see the answer.
    pub fn cors(&self, method: &Method, path: &str, req: &HttpRequest, headers: &mut HeaderMap) {
        let asked = preflight(method, req);
        let want = Want::of(asked.as_ref().unwrap_or(method), path);
        if want == Want::Page {
            return;
        }
        let now = self.now.load();
        let page = now.rules.page_of(hosts::asked(req).as_deref(), req);
        cors::put(&now.rules, page, want, asked.is_some(), req, headers);
    }
}

mod cors;

impl Now {
    fn new(rules: Rules, old: Option<Arc<Rates>>) -> Now {
        let kept = old.filter(|old| Some(old.rate()) == rules.rate);
        let rates = rules.rate.map(|rate| kept.unwrap_or_else(|| Arc::new(Rates::new(rate))));
        Now { rules, rates }
    }
}

impl Rules {
    fn client(&self, req: &HttpRequest) -> Option<IpAddr> {
        self.proxies.client(req.peer_addr(), req.headers())
    }

    fn page_of(&self, host: Option<&str>, req: &HttpRequest) -> Page {
        // Two of them, or one that is no text, are nobody's whom we know.
        let origin = single(req.headers(), &ORIGIN).map(|value| value.unwrap_or_default());
        self.origins.judge(origin, host)
    }

    /// Whether anybody has a key. If so, whatever is not open to viewers needs one.
    fn has_keys(&self) -> bool {
        !self.keys.is_empty() || !self.admin.is_empty()
    }

    /// Whether a request that is not open to viewers cannot be answered while nobody has a key: reaching the
    /// server is the only permission there is then, so only programs of this machine have it. `insecure`
    /// gives it to everybody, but for looking after all feeds, which needs more than being there.
    fn needs_keys(&self, want: Want, host: Option<&str>, req: &HttpRequest) -> bool {
        let open = self.insecure && want != Want::Admin;
        !self.has_keys() && !open && !hosts::is_local(host, req)
    }

    /// What a page may want. Programs are not pages.
    fn check_page(&self, page: Page, want: Want, preflight: bool) -> Result<(), ApiError> {
        let may = match (page, want) {
            (Page::Unnamed | Page::Named, _) => true,
            (Page::Welcome, Want::Page | Want::Read | Want::Watch) => true,
            // Without keys, a name that was made to point here was refused before: see `needs_keys`.
            (Page::Own, _) => true,
            // Without keys any page that somebody has open on this machine could write.
            (Page::Welcome, Want::Produce | Want::Report) => self.has_keys(),
            // A browser does not show the page the answer without CORS headers.
            (Page::Foreign, Want::Read | Want::Page) => !preflight,
            (Page::Foreign, Want::Watch | Want::Produce | Want::Report) => false,
            // Its key is not for other pages, unless they are named.
            (Page::Welcome | Page::Foreign, Want::Admin) => false,
        };
        if may { Ok(()) } else { Err(ApiError::ForeignOrigin) }
    }

    /// The key that came, when keys are needed.
    fn check_key(&self, want: Want, req: &HttpRequest) -> Result<Option<keys::KeyHash>, ApiError> {
        if !self.has_keys() {
            return Ok(None);
        }
        let refuse = |tried| match want {
            Want::Admin => ApiError::AdminKey { tried },
            _ => ApiError::Unauthenticated { tried },
        };
        let Some(sent) = single(req.headers(), &AUTHORIZATION) else {
            return Err(refuse(false));
        };
        let bearer = sent.and_then(|sent| {
            let (scheme, key) = sent.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let found = bearer.and_then(|key| match want {
            Want::Admin => self.admin.find(key),
            _ => self.keys.find(key).or_else(|| self.admin.find(key)),
        });
        found.map(Some).ok_or(refuse(true))
    }
}

/// A header that may stand there once: none when it is absent, `Some(None)` when it makes no sense.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut all = headers.get_all(name);
    let first = all.next()?;
    Some(first.to_str().ok().filter(|_| all.next().is_none()))
}

/// The method that a browser asks about (the Fetch standard's CORS-preflight).
fn preflight(method: &Method, req: &HttpRequest) -> Option<Method> {
    let asks = *method == Method::OPTIONS && req.headers().contains_key(ORIGIN);
    let asked = req.headers().get(ACCESS_CONTROL_REQUEST_METHOD).filter(|_| asks)?;
    Method::from_bytes(asked.as_bytes()).ok()
}

#[cfg(test)]
mod tests;

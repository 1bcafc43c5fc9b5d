//! The HTTP API: routes, reading requests, composing answers. Nothing here knows how a feed is
//! stored; it asks the [`Store`].
//!
//! Reading order: `TABLE` (every path, who may ask for it, what answers), `access` (how a request finds its row), [`problem`] (every
//! error), then one file per resource.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::{HttpMessage, HttpRequest};

use crate::auth::Right::{Admin, Claims, Drops, Gifts, Moderate, Observe, Policy, Read, Reports};
use crate::auth::audit::Audit;
use crate::domain::tally::{GoalView, LeadersAsk, LeadersView, TotalsView};
use crate::domain::{DropId, DropView, FeedId, Millis, Visibility};
use crate::engine::{Shards, Store, StoreError, StoreResult};
use crate::live::{Judge, Live};
use crate::supervise::LogThrottle;
use crate::traces::Tracer;

mod abort;
mod access;
mod answers;
mod audited;
mod batch;
#[cfg(test)]
mod bodies;
mod body;
mod claims;
mod docs;
pub mod door;
mod drops;
mod etag;
mod feed;
mod feeds;
#[doc(hidden)]
pub mod fuzzed;
mod gifts;
mod guard;
pub mod health;
pub mod inbound;
mod line_end;
mod meter;
mod moderation;
mod nodes;
mod openapi;
mod pages;
mod payload;
mod policy;
mod presence;
pub mod problem;
mod reports;
mod resource;
mod review;
mod routes;
mod scheduled;
mod shared_reads;
mod signed;
mod sources;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod tls;
mod totals;
mod traced;
mod unverified;
mod viewers;
pub mod watch;
mod who;

pub use door::{AccessRules, Door};
pub use health::Readiness;
pub use nodes::{NodeReports, keep_reporting, leave as leave_nodes};
pub use reports::{TestDelivery, TestSender, WaitingClaims};
pub use routes::app;
pub use sources::Pace;

use crate::metrics::labels::Route;
use access::Access::{AnyKey, Claim, Feed, Hold, Key, List, Open, Page, Watch};
use access::{BATCH, GIFTS, Handler, TableRow, delete, get, patch, post, put};
use door::Caller;
use problem::{ApiError, invalid};
use shared_reads::SharedReads;
use unverified::UnverifiedBodies;

/// A handler of the table.
macro_rules! to {
    ($handler:path) => {
        Handler::Route(|| actix_web::web::route().to($handler))
    };
}

/// Every path with the label that counts its requests, and its methods: what opens each, and what answers it. Names in braces vary.
#[rustfmt::skip]
const TABLE: &[TableRow] = &[
    (Route::Gifts, GIFTS, &[post(Key(Gifts), Handler::Guard)]),
    (Route::Batch, BATCH, &[post(Key(Gifts), to!(batch::publish))]),
    (Route::Ws, "/v1/feeds/{feed}/ws", &[get(Watch, to!(watch::endpoints::socket))]),
    (Route::Many, "/v1/ws", &[get(Watch, to!(watch::endpoints::socket))]),
    (Route::Sse, "/v1/feeds/{feed}/sse", &[get(Watch, to!(watch::endpoints::events))]),
    (Route::Drops, "/v1/feeds/{feed}/drops/{drop}/claims", &[post(Hold, to!(claims::claim))]),
    (Route::Drops, "/v1/feeds/{feed}/drops/{drop}/claims/{id}", &[get(Claim, to!(claims::look_up))]),
    (Route::Drops, "/v1/feeds/{feed}/drops/{drop}/claims/{id}/refund", &[post(Key(Moderate), to!(claims::refund))]),
    (Route::Drops, "/v1/feeds/{feed}/drops/{drop}/claims/{id}/retract", &[post(Key(Moderate), to!(claims::retract))]),
    (Route::Holds, "/v1/feeds/{feed}/holds/{hold}/confirm", &[post(Key(Claims), to!(claims::confirm))]),
    (Route::Holds, "/v1/feeds/{feed}/holds/{hold}", &[delete(Hold, to!(claims::cancel))]),
    (Route::Holds, "/v1/feeds/{feed}/users/{user}/holds", &[get(Hold, to!(claims::holds))]),
    (Route::Drops, "/v1/feeds/{feed}/drops/{drop}", &[get(Feed, to!(drops::get)), put(Key(Drops), to!(drops::put))]),
    (Route::Drops, "/v1/feeds/{feed}/drops", &[get(Feed, to!(drops::list))]),
    (Route::Console, "/v1/feeds", &[get(Key(Read), to!(feeds::list))]),
    (Route::Feed, "/v1/feeds/{feed}", &[get(List, to!(feed::snapshot))]),
    (Route::Rows, "/v1/feeds/{feed}/rows/{row}", &[delete(Key(Moderate), to!(gifts::retract))]),
    (Route::Rows, "/v1/feeds/{feed}/rows", &[delete(Key(Moderate), to!(moderation::retract_user))]),
    (Route::Groups, "/v1/feeds/{feed}/gifts/{id}", &[get(Key(Reports), to!(reports::story::get))]),
    (Route::Moderation, "/v1/feeds/{feed}/gifts/{id}/refund", &[post(Key(Moderate), to!(moderation::refund_gift))]),
    (Route::Moderation, "/v1/feeds/{feed}/gifts/{id}/retract", &[post(Key(Moderate), to!(moderation::retract_gift))]),
    (Route::Moderation, "/v1/feeds/{feed}/review", &[get(Key(Moderate), to!(review::list))]),
    (Route::Moderation, "/v1/feeds/{feed}/review/{id}", &[post(Key(Moderate), to!(review::decide))]),
    (Route::Moderation, "/v1/feeds/{feed}/blocks/{user}", &[put(Key(Moderate), to!(review::block)), delete(Key(Moderate), to!(review::unblock))]),
    (Route::Moderation, "/v1/feeds/{feed}/blocks", &[get(Key(Moderate), to!(review::blocks))]),
    (Route::Presence, "/v1/feeds/{feed}/presence", &[get(Feed, to!(presence::get))]),
    (Route::Moderation, "/v1/feeds/{feed}/control", &[post(Key(Moderate), to!(moderation::control))]),
    (Route::Totals, "/v1/feeds/{feed}/totals", &[get(Feed, to!(totals::totals))]),
    (Route::Totals, "/v1/feeds/{feed}/leaders", &[get(Feed, to!(totals::leaders))]),
    (Route::Totals, "/v1/feeds/{feed}/session", &[post(Key(Policy), to!(totals::session))]),
    (Route::Totals, "/v1/feeds/{feed}/goals", &[get(Feed, to!(totals::goals))]),
    (Route::Totals, "/v1/feeds/{feed}/goals/{goal}", &[get(Feed, to!(totals::goal)), put(Key(Policy), to!(totals::put_goal)), delete(Key(Policy), to!(totals::delete_goal))]),
    (Route::Policy, "/v1/feeds/{feed}/policy", &[get(AnyKey, to!(policy::get)), put(Key(Policy), to!(policy::put)), patch(Key(Policy), to!(policy::patch))]),
    (Route::Scheduled, "/v1/feeds/{feed}/scheduled", &[get(Key(Gifts), to!(scheduled::list))]),
    (Route::Scheduled, "/v1/feeds/{feed}/scheduled/{id}", &[delete(Key(Gifts), to!(scheduled::cancel))]),
    (Route::Scheduled, "/v1/feeds/{feed}/due/dead", &[get(Key(Gifts), to!(scheduled::dead))]),
    (Route::Groups, "/v1/feeds/{feed}/ledger", &[get(Key(Reports), to!(reports::ledger::get))]),
    (Route::Groups, "/v1/feeds/{feed}/ledger/summary", &[get(Key(Reports), to!(reports::ledger::summary))]),
    (Route::Groups, "/v1/feeds/{feed}/groups", &[get(Key(Reports), to!(reports::groups::list))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}", &[get(Key(Reports), to!(reports::groups::get)), delete(Key(Reports), to!(reports::groups::delete))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}/claim", &[post(Key(Reports), to!(reports::groups::claim))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}/ack", &[post(Key(Reports), to!(reports::groups::ack))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}/nack", &[post(Key(Reports), to!(reports::groups::nack))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}/seek", &[post(Key(Reports), to!(reports::groups::seek))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}/dead", &[get(Key(Reports), to!(reports::dead::of_group))]),
    (Route::Groups, "/v1/feeds/{feed}/groups/{group}/dead/replay", &[post(Key(Reports), to!(reports::dead::replay_group))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks", &[get(Key(Reports), to!(reports::webhooks::list))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks/{name}", &[get(Key(Reports), to!(reports::webhooks::get)), put(Key(Reports), to!(reports::webhooks::put)), delete(Key(Reports), to!(reports::webhooks::delete))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks/{name}/attempts", &[get(Key(Reports), to!(reports::attempts::list))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks/{name}/test", &[post(Key(Reports), to!(reports::attempts::test))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks/{name}/retry", &[post(Key(Reports), to!(reports::webhooks::retry))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks/{name}/dead", &[get(Key(Reports), to!(reports::dead::of_webhook))]),
    (Route::Webhooks, "/v1/feeds/{feed}/webhooks/{name}/dead/replay", &[post(Key(Reports), to!(reports::dead::replay_webhook))]),
    (Route::Sources, "/v1/feeds/{feed}/sources", &[get(Key(Policy), to!(sources::list))]),
    (Route::Sources, "/v1/feeds/{feed}/sources/{name}", &[get(Key(Policy), to!(sources::get)), put(Key(Policy), to!(sources::put)), delete(Key(Policy), to!(sources::delete))]),
    (Route::Sources, "/v1/feeds/{feed}/sources/{name}/test", &[post(Key(Policy), to!(sources::test))]),
    // Those who know the path; the delivery itself shows whose it is.
    (Route::In, "/in/{path}", &[post(Page, to!(sources::receive::receive))]),
    (Route::Console, "/v1/nodes", &[get(Key(Observe), to!(nodes::nodes))]),
    (Route::Console, "/v1/stats", &[get(Key(Observe), to!(nodes::stats))]),
    (Route::Console, "/v1/audit", &[get(Key(Observe), to!(who::audit))]),
    (Route::Console, "/v1/keys", &[get(Key(Observe), to!(who::keys))]),
    (Route::Admin, "/v1/admin/overview", &[get(Key(Admin), to!(reports::admin::overview))]),
    (Route::Viewers, "/v1/viewers/{sub}/revoke", &[post(Key(Admin), to!(viewers::revoke))]),
    (Route::Operations, "/healthz", &[get(Page, to!(health::alive))]),
    (Route::Operations, "/readyz", &[get(Page, to!(health::ready))]),
    (Route::Operations, "/metrics", &[get(Page, to!(meter::show))]),
    (Route::Pages, "/openapi.json", &[get(Open, to!(openapi::newest))]),
    (Route::Pages, "/openapi-3.0.json", &[get(Open, to!(openapi::older_version))]),
    (Route::Pages, "/asyncapi.yaml", &[get(Open, to!(docs::file))]),
    (Route::Webhooks, "/.well-known/jwks.json", &[get(Open, to!(reports::webhooks::signing_keys))]),
    (Route::Pages, "/docs", &[get(Page, to!(docs::file))]),
    (Route::Pages, "/docs/protocol", &[get(Page, to!(docs::moved))]),
    (Route::Pages, "/static/docs.js", &[get(Open, to!(docs::file))]),
    (Route::Pages, "/static/docs_samples.js", &[get(Open, to!(docs::file))]),
    (Route::Pages, "/static/docs_try.js", &[get(Open, to!(docs::file))]),
    (Route::Pages, "/static/docs.css", &[get(Open, to!(docs::file))]),
    (Route::Pages, "/", &[get(Page, to!(pages::index))]),
    (Route::Pages, "/console", &[get(Page, to!(pages::console))]),
    (Route::Pages, "/admin", &[get(Page, to!(pages::admin))]),
    (Route::Pages, "/desk/{feed}", &[get(Page, to!(pages::desk))]),
    (Route::Pages, "/overlay/{feed}", &[get(Page, to!(pages::overlay))]),
    (Route::Pages, "/overlay/{feed}/leaders", &[get(Page, to!(pages::leaders))]),
    (Route::Pages, "/overlay/{feed}/goal/{goal}", &[get(Page, to!(pages::goal))]),
    (Route::Pages, "/static/{file}", &[get(Open, to!(pages::file))]),
    (Route::Pages, "/problems/{name}", &[get(Page, to!(problem::about))]),
];

/// Longer than any store call may take, and short enough that a write is refused within the 5 s
/// that the contract promises even if a store breaks its own time-out.
const ENGINE_TIMEOUT: Duration = Duration::from_millis(4_500);

/// The same for what only reads: the store gives up before.
const READ_TIMEOUT: Duration = Duration::from_secs(35);

/// How large and how slow a request's body may be, and how answers are made.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of any body but a batch.
    pub body: usize,
    /// Bytes of a batch.
    pub batch: usize,
    /// Bytes of all bodies together whose signature is not checked yet.
    pub unverified: usize,
    /// From the end of the head to the end of the body.
    pub body_time: Duration,
    /// Whether WebSocket frames are compressed for clients that ask for it.
    pub compress: bool,
    /// Whether webhooks may lead to addresses that are not public.
    pub allow_private: bool,
    /// How long a webhook's secret that was replaced still holds, in milliseconds.
    pub secret_overlap_ms: u64,
    /// Deliveries to one source in a second, on this node; 0 is no limit.
    pub deliveries_per_second: u32,
    /// Claims that may wait for entries at the same time, on this node.
    pub waiting_claims: usize,
    /// Whether `/metrics` names feeds that are private.
    pub names_private_feeds: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 8 * 1024,
            batch: 1024 * 1024,
            unverified: 16 * 1024 * 1024,
            body_time: Duration::from_secs(10),
            compress: false,
            allow_private: false,
            secret_overlap_ms: 86_400_000,
            deliveries_per_second: 50,
            waiting_claims: 10_000,
            names_private_feeds: false,
        }
    }
}

/// What every handler can reach: one per server, shared by its workers.
pub struct Gate {
    pub(crate) store: Store,
    pub(crate) live: Arc<Live>,
    pub(crate) ready: Arc<Readiness>,
    pub(crate) limits: Limits,
    /// Who may come in. Its rules may change while the server runs.
    pub door: Door,
    /// Where it is written down who changed what.
    pub audit: Arc<Audit>,
    /// Where posts are recorded as steps of traces.
    pub tracer: Arc<Tracer>,
    /// What this node reports to the others.
    pub nodes: NodeReports,
    /// Sends tests to webhooks; `None` where nothing is sent.
    pub test_sender: Option<TestSender>,
    /// Claims that wait for entries.
    pub waiting: WaitingClaims,
    /// Lists that are being sent.
    lists: feed::ListTexts,
    /// Bodies whose signature is not checked yet.
    unverified: UnverifiedBodies,
    /// How often a source may be posted to.
    pace: Pace,
    overview: reports::Kept,
    steps: reports::Steps,
    leaders: SharedReads<LeadersAsk, Option<LeadersView>>,
    totals: SharedReads<bool, Option<TotalsView>>,
    goals: SharedReads<(), Vec<GoalView>>,
    drops: SharedReads<(), Vec<DropView>>,
    trouble: LogThrottle<()>,
    refusals: meter::Refusals,
    /// When the metrics looked what waits for hosts, and which feeds are public.
    looked: LogThrottle<()>,
}

impl Gate {
    /// A gate in front of `store`, with a door that lets every program in.
    pub fn new(store: Store, live: Arc<Live>, ready: Arc<Readiness>, limits: Limits) -> Self {
        live.metrics().expect_problems(problem::KINDS.iter().map(|kind| kind.name));
        let unverified = UnverifiedBodies::new(limits.unverified, limits.batch, live.metrics().clone());
        Gate {
            store,
            live,
            ready,
            limits,
            door: Door::new(AccessRules::default()),
            audit: Arc::default(),
            tracer: Arc::default(),
            nodes: NodeReports::default(),
            test_sender: None,
            waiting: WaitingClaims::new(limits.waiting_claims),
            lists: feed::ListTexts::default(),
            unverified,
            pace: Pace::new(limits.deliveries_per_second),
            overview: reports::Kept::default(),
            steps: reports::Steps::default(),
            leaders: SharedReads::default(),
            totals: SharedReads::default(),
            goals: SharedReads::default(),
            drops: SharedReads::default(),
            trouble: LogThrottle::every(Duration::from_secs(1)),
            refusals: meter::Refusals::default(),
            looked: LogThrottle::every(Duration::from_secs(5)),
        }
    }

    /// Why the server is not ready at `now`, if it is not: a write is not possible, or a part does not run.
    /// Else which shards of the store answer.
    pub(crate) fn is_ready(&self, now: Instant) -> Result<Shards, String> {
        self.live.parts().working(now)?;
        self.ready.verdict(now)
    }

    /// New rules for the door; who watches is judged by them at once.
    pub fn change_rules(&self, rules: AccessRules) {
        self.door.change(rules);
        self.live.judge_again(Judge::All);
    }

    /// Refuses tokens of the viewer of this mark that were issued before then; its sockets are judged at once.
    pub fn refuse_viewer(&self, mark: u64, before: Millis, until: Millis) {
        if self.door.refuse_viewer(mark, before, until) {
            self.live.judge_again(Judge::Marked(watch::short_mark(mark)));
        }
    }

    /// Whether the caller may read the feed that the request is about: an error when that is private and nothing
    /// that came opens it. Asks the store only where that is needed, and never for what is in the feed.
    async fn may_read(&self, caller: &Caller) -> Result<(), ApiError> {
        let Some(feed) = &caller.reads else { return Ok(()) };
        let Err(closed) = caller.identity.may_see(feed.as_str(), Visibility::Private) else { return Ok(()) };
        let private = match self.live.is_private(feed) {
            Some(false) => false,
            // Also where it is known: a refusal that came sooner would show strangers that the feed is watched.
            Some(true) | None => {
                self.run(self.store.read_policy(feed)).await?.visibility == Visibility::Private
            }
        };
        if private { Err(closed) } else { Ok(()) }
    }

    /// Waits for what the store does, at most [`ENGINE_TIMEOUT`].
    pub(crate) async fn run<T>(&self, call: impl Future<Output = StoreResult<T>>) -> Result<T, ApiError> {
        self.run_within(call, ENGINE_TIMEOUT).await
    }

    /// Waits for what the store reads. That may wait for a write that is under way, at most [`READ_TIMEOUT`].
    pub(crate) async fn read<T>(&self, call: impl Future<Output = StoreResult<T>>) -> Result<T, ApiError> {
        self.run_within(call, READ_TIMEOUT).await
    }

    async fn run_within<T>(
        &self,
        call: impl Future<Output = StoreResult<T>>,
        within: Duration,
    ) -> Result<T, ApiError> {
        match tokio::time::timeout(within, call).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.unanswered(error)),
            Err(_) => Err(self.unanswered(StoreError::Unavailable("no answer in time".into()))),
        }
    }

    /// Apart from [`Gate::run`], which is compiled once for each of its callers.
    fn unanswered(&self, error: StoreError) -> ApiError {
        match self.trouble.allow_more() {
            Some(0) => tracing::warn!("a request got 503: {error}"),
            Some(more) => tracing::warn!(more, "a request got 503: {error}"),
            None => {}
        }
        ApiError::from(error)
    }
}

/// The sender of a request that access control let in.
pub(crate) fn caller_of(req: &HttpRequest) -> Caller {
    req.extensions().get::<Caller>().cloned().unwrap_or_default()
}

/// The drop that the path names.
pub(crate) fn drop_of(req: &HttpRequest) -> Result<DropId, ApiError> {
    let name = req.match_info().get("drop").unwrap_or_default();
    name.parse().map_err(|rule| invalid(format!("the drop's name {rule}")))
}

/// The feed that the path names.
pub(crate) fn feed_of(req: &HttpRequest) -> Result<FeedId, ApiError> {
    named_feed(req.match_info().get("feed").unwrap_or_default())
}

/// The integer that a parameter of a query has, within these bounds.
pub(crate) fn integer_within(
    name: &str,
    value: &str,
    bounds: RangeInclusive<usize>,
) -> Result<usize, ApiError> {
    let given = value.parse().ok().filter(|given| bounds.contains(given));
    let (least, most) = bounds.into_inner();
    given.ok_or_else(|| invalid(format!("{name} must be an integer from {least} to {most}")))
}

/// The feed of this name.
pub(crate) fn named_feed(name: &str) -> Result<FeedId, ApiError> {
    name.parse().map_err(|rule| invalid(format!("the feed's name {rule}")))
}

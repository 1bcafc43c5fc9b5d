//! What is in paths and queries, each described once.

use utoipa::IntoParams;

/// The feed that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct FeedName {
    /// The feed's name
    #[param(example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    feed: String,
}

/// The drop that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct DropName {
    /// The drop's name
    #[param(example = "rocket", pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    drop: String,
}

/// The group that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct GroupName {
    /// The group's name
    #[param(example = "game", pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    group: String,
}

/// Whose webhook a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WebhookScope {
    /// The feed's name, or * for all feeds
    #[param(example = "show", pattern = "^([A-Za-z0-9_.-]{1,64}|\\*)$")]
    feed: String,
}

/// The webhook that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct WebhookName {
    /// The webhook's name
    #[param(example = "game", pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    name: String,
}

/// The source that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct SourceName {
    /// The source's name
    #[param(example = "tips", pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    name: String,
}

/// The hold that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct HoldName {
    /// The hold's name, as the claim was answered
    #[param(example = "rocket~order-7712")]
    hold: String,
}

/// The row that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct RowName {
    /// The row's id
    #[param(example = "00w6f5hrbbqm5-1")]
    row: String,
}

/// The user that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct UserId {
    /// The user's id, percent-encoded
    #[param(example = "u-42")]
    user: String,
}

/// Where a block holds.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct BlockScope {
    /// The feed's name, or * for all feeds
    #[param(example = "show", pattern = "^([A-Za-z0-9_.-]{1,64}|\\*)$")]
    feed: String,
}

/// The viewer that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ViewerName {
    /// The viewer's sub, percent-encoded
    #[param(example = "ann")]
    sub: String,
}

/// The gift that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct GiftIdInPath {
    /// The gift's id
    #[param(example = "order-7712")]
    id: String,
}

/// The problem that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ProblemName {
    /// The last part of a problem's type
    #[param(example = "invalid")]
    name: String,
}

/// A claim.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct ClaimIdInPath {
    /// The claim's id, which entries have as the gift's; of a claim that a viewer made, what follows the drop in the hold's name
    #[param(pattern = "^([0-9a-f]{32}~)?[A-Za-z0-9_.:-]{1,64}$")]
    id: String,
}

/// The header that names a gift or a claim.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct IdempotencyKey {
    /// The same thing as the body's id
    #[param(rename = "Idempotency-Key", required = false, pattern = "^[A-Za-z0-9_.:-]{1,64}$")]
    key: String,
}

/// What a watcher asks for.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WatchQuery {
    /// The position you have, epoch:seq; one that is not covered gets a snapshot, never a refusal
    #[param(required = false)]
    since: String,
    /// At most this many frames a second
    #[param(required = false, minimum = 0.01, maximum = 1000)]
    max_hz: f64,
    /// Leaves totals, leaders and goals out: their ops are only counted, as `none`
    #[param(required = false, pattern = "^totals$")]
    without: String,
    /// `overlay`: counts among the connected overlays; another word counts nothing
    #[param(rename = "as", required = false, example = "overlay")]
    kind: String,
}

/// Which entries of a ledger.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LedgerQuery {
    /// Behind this cursor: the `next` of the page before
    #[param(required = false, pattern = "^[0-9]{1,16}$")]
    after: String,
    /// Entries in the page; 100 when absent
    #[param(required = false, minimum = 1, maximum = 1000)]
    limit: u32,
    /// Not before this time
    #[param(required = false, format = DateTime)]
    from: String,
    /// Before this time
    #[param(required = false, format = DateTime)]
    to: String,
    /// Of this type
    #[param(rename = "type", required = false, example = "gift.accepted")]
    kind: String,
    /// About a gift of the user with this id
    #[param(required = false)]
    user: String,
}

/// The time of entries that are added up.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TimeQuery {
    /// Not before this time
    #[param(required = false, format = DateTime)]
    from: String,
    /// Before this time
    #[param(required = false, format = DateTime)]
    to: String,
}

/// Which page of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Gifts in the page; 100 when absent
    #[param(required = false, minimum = 1, maximum = 1000)]
    limit: u32,
    /// The `next` of the page before
    #[param(required = false)]
    after: String,
}

/// Which page of the list of feeds.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FeedsQuery {
    /// How the names begin
    #[param(required = false, pattern = "^[A-Za-z0-9_.-]{0,64}$")]
    prefix: String,
    /// The `next` of the page before
    #[param(required = false)]
    after: String,
    /// Feeds in the page; 100 when absent
    #[param(required = false, minimum = 1, maximum = 1000)]
    limit: u32,
}

/// Which page of the audit log.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// The `next` of the page before: older lines
    #[param(required = false)]
    after: String,
    /// Lines in the page; 100 when absent
    #[param(required = false, minimum = 1, maximum = 1000)]
    limit: u32,
}

/// How many attempts of a webhook are read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AttemptsQuery {
    /// Attempts; 50 when absent
    #[param(required = false, minimum = 1, maximum = 50)]
    limit: u32,
}

/// How far back series go.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StatsQuery {
    /// Minutes; 60 when absent
    #[param(required = false, minimum = 1, maximum = 60)]
    minutes: u32,
}

/// Of which shard the store is asked.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ShardOfFeed {
    /// Ask only for the shard of this feed
    #[param(required = false)]
    feed: String,
}

/// Whose rows a query names.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct UserQuery {
    /// The user's id
    #[param(example = "u-1")]
    user: String,
}

/// The goal that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct GoalName {
    /// The goal's name
    #[param(example = "mic", pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    goal: String,
}

/// Which run of periods is read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct BackQuery {
    /// 1 for the runs that ended last
    #[param(required = false, minimum = 0, maximum = 1)]
    back: u32,
}

/// Which ranking is read.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LeadersQuery {
    /// all, session, day, week or month; session when absent
    #[param(required = false, example = "session")]
    period: String,
    /// points, units, or a currency; points when absent
    #[param(required = false, example = "units")]
    by: String,
    /// 1 for the run that ended last
    #[param(required = false, minimum = 0, maximum = 1)]
    back: u32,
    /// Leaders at most; 10 when absent
    #[param(required = false, minimum = 1, maximum = 100)]
    limit: u32,
    /// A user's id, whose rank is answered too
    #[param(required = false)]
    user: String,
}

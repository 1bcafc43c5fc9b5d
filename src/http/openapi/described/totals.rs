//! Section 8 of the contract: totals, leaders, sessions and goals.

use super::params::{BackQuery, FeedName, GoalName, LeadersQuery};
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::texts::{FeedTotals, Goal, GoalList, Leaders};
use crate::http::answers::{DeletedGoal, SessionResult};
use crate::http::bodies::{GoalSpec, SessionStart};
use crate::http::problem::Problem;

/// Read totals
///
/// Of each period that the policy counts. `gifters` is the number of different users.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/totals",
    operation_id = "getTotals",
    tag = "totals",
    params(FeedName, BackQuery),
    responses(
        (status = 200, description = "As they stand", body = FeedTotals),
        (status = 404, description = "Nothing is counted", body = Problem, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn totals() {}

/// Read a ranking
///
/// The highest first; of equal scores, who came to the present score first. At most 100 000 users are ranked in a period
/// by each measure. What other nodes took in the last second may be missing. Somebody without a key may ask for twenty
/// rankings a second that were not read just before, and is answered 429 beyond that.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/leaders",
    operation_id = "getLeaders",
    tag = "totals",
    params(FeedName, LeadersQuery),
    responses(
        (status = 200, description = "The present ranking", body = Leaders),
        (status = 404, description = "The period is not counted", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn leaders() {}

/// Begin a session
///
/// What counts by session begins anew. The id of the present session changes nothing.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/session",
    operation_id = "beginSession",
    tag = "totals",
    params(FeedName),
    request_body(content = SessionStart, examples(
        ("friday" = (summary = "A show", value = json!({"id": "friday-7"}))),
    )),
    responses(
        (status = 201, description = "It began", body = SessionResult),
        (status = 200, description = "It is the present one", body = SessionResult),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn session() {}

/// List the goals of a feed
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/goals",
    operation_id = "listGoals",
    tag = "totals",
    params(FeedName),
    responses((status = 200, description = "As they stand, by name; at most 16", body = GoalList), Refusals),
)]
pub(super) fn goals() {}

/// Read a goal
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/goals/{goal}",
    operation_id = "getGoal",
    tag = "totals",
    params(FeedName, GoalName),
    responses(
        (status = 200, description = "The present state", body = Goal),
        (status = 404, description = "The feed has no such goal", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn goal() {}

/// Define or change a goal
///
/// It is reached once in each run of its period, which is sent to watchers at once and is an entry of the ledger.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/goals/{goal}",
    operation_id = "defineGoal",
    tag = "totals",
    params(FeedName, GoalName),
    request_body(content = GoalSpec, examples(
        ("mic" = (summary = "A new microphone", value = json!(
            {"title": "New mic", "period": "session", "by": "EUR", "target": 20_000}
        ))),
    )),
    responses(
        (status = 201, description = "It is new", body = Goal),
        (status = 200, description = "It was there, and is this now", body = Goal),
        (status = 409, description = "Its period is not counted, or the feed has 16 goals", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn put_goal() {}

/// Delete a goal
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/goals/{goal}",
    operation_id = "deleteGoal",
    tag = "totals",
    params(FeedName, GoalName),
    responses(
        (status = 200, description = "It is gone", body = DeletedGoal),
        (status = 404, description = "The feed has no such goal", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn delete_goal() {}

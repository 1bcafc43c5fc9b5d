//! Totals, leaders, sessions and goals.

use std::fmt::Write;
use std::net::IpAddr;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, DeletedGoal, SessionResult, fresh_text};
use super::door::caller::Identity;
use super::door::head::RequestHead;
use super::problem::{ApiError, invalid};
use super::{Gate, body, caller_of, feed_of, integer_within};
use crate::domain::json::{Object, Refused, fault};
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Measure, Period};
use crate::domain::{FeedId, GoalId, Millis, json};
use crate::engine::GoalPut;

/// Leaders in one answer, and as many as are meant when nobody says.
const LEADERS_PER_PAGE: (usize, usize) = (100, 10);

/// `GET /v1/feeds/{feed}/totals`
pub(super) async fn totals(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let back = read_back(&query(&req))?;
    let fetch = async || gate.read(gate.store.read_totals(&feed, back, Millis::now())).await;
    let totals = gate.totals.read(&gate, &feed, &back, fetch).await?;
    let totals = totals.ok_or(ApiError::NotCounted(false))?;
    let mut text = format!("{{\"feed\":\"{feed}\",\"totals\":{{");
    for (n, (period, view)) in totals.iter().enumerate() {
        let _ = write!(text, "{}\"{period}\":", if n > 0 { "," } else { "" });
        view.push_json(&mut text, false);
    }
    text.push_str("}}");
    Ok(fresh_text(StatusCode::OK, text))
}

/// `GET /v1/feeds/{feed}/leaders?period=session&by=points`
pub(super) async fn leaders(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let ask = read_ask(&query(&req))?;
    let stranger = match caller_of(&req).identity {
        Identity::Key(_) => None,
        _ => gate.door.address(&RequestHead::of(&req)),
    };
    let leaders = read_leaders(&gate, &feed, &ask, stranger).await?.ok_or(ApiError::NotCounted(false))?;
    Ok(fresh_text(StatusCode::OK, leaders.to_json(&ask)))
}

/// A stranger may ask for what nobody else asks for, and a ranking costs the store more than a list does: so often at most.
pub(super) async fn read_leaders(
    gate: &Gate,
    feed: &FeedId,
    ask: &LeadersAsk,
    stranger: Option<IpAddr>,
) -> Result<Option<LeadersView>, ApiError> {
    let fetch = async || match stranger {
        Some(address) if !gate.live.admit_ranking(address) => Err(ApiError::RateLimited(1)),
        _ => gate.read(gate.store.read_leaders(feed, ask.clone(), Millis::now())).await,
    };
    gate.leaders.read(gate, feed, ask, fetch).await
}

/// `POST /v1/feeds/{feed}/session`
pub(super) async fn session(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let id = read_session(json::syntax(&bytes)?)?;
    let (session, new) = gate.run(gate.store.begin_session(&feed, id, Millis::now())).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answers::json(status, &SessionResult { id: session.id, since: session.since }))
}

/// `GET /v1/feeds/{feed}/goals`
pub(super) async fn goals(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let goals = read_goals(&gate, &feed).await?;
    let mut text = format!("{{\"feed\":\"{feed}\",\"goals\":[");
    for (n, goal) in goals.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        goal.push_json(&mut text);
    }
    text.push_str("]}");
    Ok(fresh_text(StatusCode::OK, text))
}

/// `GET /v1/feeds/{feed}/goals/{goal}`
pub(super) async fn goal(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, goal) = (feed_of(&req)?, goal_of(&req)?);
    let goals = read_goals(&gate, &feed).await?;
    let goal = goals.into_iter().find(|known| known.goal == goal).ok_or_else(unknown)?;
    Ok(fresh_text(StatusCode::OK, goal.to_json()))
}

async fn read_goals(gate: &Gate, feed: &FeedId) -> Result<Vec<GoalView>, ApiError> {
    let fetch = async || gate.read(gate.store.list_goals(feed, Millis::now())).await;
    gate.goals.read(gate, feed, &(), fetch).await
}

/// `PUT /v1/feeds/{feed}/goals/{goal}`
pub(super) async fn put_goal(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, goal) = (feed_of(&req)?, goal_of(&req)?);
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let spec = GoalSpec::parse(json::syntax(&bytes)?)?;
    match gate.run(gate.store.put_goal(&feed, &goal, spec, Millis::now())).await? {
        GoalPut::New(view) => Ok(fresh_text(StatusCode::CREATED, view.to_json())),
        GoalPut::Changed(view) => Ok(fresh_text(StatusCode::OK, view.to_json())),
        GoalPut::TooMany => Err(ApiError::TooManyGoals),
        GoalPut::NotCounted => Err(ApiError::NotCounted(true)),
    }
}

/// `DELETE /v1/feeds/{feed}/goals/{goal}`
pub(super) async fn delete_goal(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, goal) = (feed_of(&req)?, goal_of(&req)?);
    match gate.run(gate.store.delete_goal(&feed, &goal, Millis::now())).await? {
        true => Ok(answers::json(StatusCode::OK, &DeletedGoal { goal: goal.to_string(), deleted: true })),
        false => Err(unknown()),
    }
}

fn unknown() -> ApiError {
    ApiError::NotFound("the feed has no goal of this name".to_owned())
}

/// The goal that a path names.
pub(super) fn goal_of(req: &HttpRequest) -> Result<GoalId, ApiError> {
    let goal = req.match_info().get("goal").unwrap_or_default();
    goal.parse().map_err(|rule: crate::domain::ids::BadName| invalid(format!("the goal's name {rule}")))
}

type Query = Vec<(String, String)>;

fn query(req: &HttpRequest) -> Query {
    url::form_urlencoded::parse(req.query_string().as_bytes()).into_owned().collect()
}

fn find<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn read_back(query: &Query) -> Result<bool, ApiError> {
    match find(query, "back") {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(_) => Err(invalid("back must be 0 (what runs now) or 1 (what ended last)")),
    }
}

fn read_ask(query: &Query) -> Result<LeadersAsk, ApiError> {
    let period = find(query, "period").unwrap_or("session").parse::<Period>();
    let by = Measure::of(find(query, "by").unwrap_or("points"));
    let limit = find(query, "limit").map(|limit| integer_within("limit", limit, 1..=LEADERS_PER_PAGE.0));
    let user = find(query, "user").filter(|user| !user.is_empty());
    Ok(LeadersAsk {
        period: period.map_err(|rule| invalid(format!("period {rule}")))?,
        back: read_back(query)?,
        by: by.ok_or_else(|| invalid("by must be points, units, or a currency: 3 to 12 of A-Z a-z"))?,
        limit: limit.transpose()?.unwrap_or(LEADERS_PER_PAGE.1),
        user: match user {
            Some(user) if user.len() > 64 => {
                return Err(invalid("user must be a user's id of at most 64 bytes"));
            }
            user => user.map(str::to_owned),
        },
    })
}

/// Whether this is a query of a reader of rankings.
pub(super) fn is_query(query: &str) -> bool {
    read_ask(&url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()).is_ok()
}

fn read_session(raw: &serde_json::value::RawValue) -> Result<String, Refused> {
    let mut faults = Vec::new();
    let Some(mut body) = Object::open(raw, &mut faults) else { return Err(Refused::Invalid(faults)) };
    let id = body.need("id", &mut faults).and_then(|f| f.string(&mut faults));
    body.close(&mut faults);
    match id {
        Some(id) if faults.is_empty() && (1..=64).contains(&id.len()) => Ok(id),
        Some(_) if faults.is_empty() => {
            Err(Refused::Invalid(vec![fault("/id", "must be 1 to 64 bytes long")]))
        }
        _ => Err(Refused::Invalid(faults)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<LeadersAsk, ApiError> {
        read_ask(&url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    #[test]
    fn a_ranking_is_asked_for_with_defaults_and_bounds() {
        let plain = ask("").unwrap();
        assert_eq!((plain.period, plain.by, plain.limit), (Period::Session, Measure::Points, 10));
        let all = ask("period=day&back=1&by=EUR&limit=100&user=a%3Ab").unwrap();
        assert!(all.back && all.user.as_deref() == Some("a:b") && all.by == Measure::Currency("EUR".into()));
        for bad in ["period=year", "back=2", "by=x", "limit=0", "limit=101", "limit=a"] {
            assert!(matches!(ask(bad), Err(ApiError::Invalid(_))), "{bad}");
        }
    }
}

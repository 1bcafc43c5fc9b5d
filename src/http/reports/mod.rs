//! Reports (contract section 6): groups that pull, webhooks that push, what neither could take, and the
//! overview of all of it.

use actix_web::HttpRequest;
use futures_util::future::try_join_all;

use super::problem::{ApiError, invalid};
use super::{Gate, body, feed_of};
use crate::domain::{GroupId, HookId, HookKey, HookScope};

pub(super) mod admin;
pub(super) mod attempts;
pub(super) mod dead;
pub(super) mod groups;
pub(super) mod ledger;
mod steps;
pub(super) mod story;
mod waiting;
pub(super) mod webhooks;

pub use admin::Kept;
pub use attempts::{TestDelivery, TestSender};
pub(super) use steps::Steps;
pub use waiting::WaitingClaims;

/// How often a change of a webhook is tried again that met another one.
const MAX_SWAP_ATTEMPTS: usize = 16;

/// Questions to the store at the same time.
const AT_ONCE: usize = 16;

/// Asks the store about each of these, some at the same time. The answers are in their order.
async fn ask_each<'a, T, R, F>(all: &'a [T], ask: impl Fn(&'a T) -> F) -> Result<Vec<R>, ApiError>
where
    F: Future<Output = Result<R, ApiError>>,
{
    let mut answers = Vec::with_capacity(all.len());
    for some in all.chunks(AT_ONCE) {
        answers.extend(try_join_all(some.iter().map(&ask)).await?);
    }
    Ok(answers)
}

/// The group that the path names.
fn group_of(req: &HttpRequest) -> Result<GroupId, ApiError> {
    let name = req.match_info().get("group").unwrap_or_default();
    name.parse().map_err(|rule| invalid(format!("the group's name {rule}")))
}

/// Whose webhook the path names: a feed's, or with `*` that of all feeds.
fn scope_of(req: &HttpRequest) -> Result<HookScope, ApiError> {
    match req.match_info().get("feed") {
        Some("*") => Ok(HookScope::All),
        _ => feed_of(req).map(HookScope::Feed),
    }
}

/// The webhook that the path names.
fn hook_of(req: &HttpRequest) -> Result<HookKey, ApiError> {
    let scope = scope_of(req)?;
    let name = req.match_info().get("name").unwrap_or_default();
    let name: HookId = name.parse().map_err(|rule| invalid(format!("the webhook's name {rule}")))?;
    Ok(HookKey { scope, name })
}

fn unknown_group() -> ApiError {
    ApiError::NotFound("the feed has no group of this name; its first claim makes it".to_owned())
}

fn unknown_hook() -> ApiError {
    ApiError::NotFound("there is no webhook of this name; PUT makes one".to_owned())
}

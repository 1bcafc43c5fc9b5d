//! Operations on signed requests.

use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::requests;
use super::super::rule::Rule;
use crate::engine::{ClaimRequest, RequestUse};

impl Rule for ClaimRequest {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<RequestUse> {
        requests::claim(&feeds.db, &self.request, &self.target, self.now, feeds.common.may_forget)
    }
}

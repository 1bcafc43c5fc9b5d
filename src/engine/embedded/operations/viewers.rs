//! Operations on revoked viewers.

use super::super::EmbeddedEngine;
use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::rule::Rule;
use super::super::viewers;
use crate::domain::Millis;
use crate::engine::{EngineError, ListRevocations, RevokeViewer, RevokedPage, Run};

impl Rule for ListRevocations {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<RevokedPage> {
        viewers::revoked(&feeds.db, &self.after, self.max)
    }
}

impl Run<EmbeddedEngine> for RevokeViewer {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<Millis, EngineError> {
        let RevokeViewer { revocation, now } = self;
        let revoke =
            move |feeds: &mut Feeds| viewers::revoke(&feeds.db, &revocation, now, feeds.common.may_forget);
        let before = engine.task((1, Some(now)), revoke).await?;
        before.ok_or(EngineError::Overloaded("list of revoked viewers"))
    }
}

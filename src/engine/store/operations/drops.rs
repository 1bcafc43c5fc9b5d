//! Operations on drops, claims and holds.

use super::super::engine::Store;
use crate::domain::moderate::GiftRefunded;
use crate::domain::{Cancelled, ClaimStory, Claimed, Confirmed, Defined, DropView, Hold};
use crate::engine::{
    CancelHold, ClaimDrop, ConfirmHold, DefineDrop, EngineError, ListDrops, ListHolds, LookUpClaim,
    ReverseSale, Run, TickDrop,
};

impl Run<Store> for DefineDrop {
    async fn run_on(self, store: &Store) -> Result<Defined, EngineError> {
        Ok(store.stock.define(&self.feed, &self.drop, &self.spec, self.now).await?)
    }
}

impl Run<Store> for TickDrop {
    async fn run_on(self, store: &Store) -> Result<Option<DropView>, EngineError> {
        Ok(store.stock.tick(&self.feed, &self.drop, self.now).await?.view)
    }
}

impl Run<Store> for ListDrops {
    async fn run_on(self, store: &Store) -> Result<Vec<DropView>, EngineError> {
        Ok(store.stock.all(&self.feed, self.now).await?)
    }
}

impl Run<Store> for ClaimDrop {
    async fn run_on(self, store: &Store) -> Result<Claimed, EngineError> {
        store.stock.claim(&self.feed, &self.drop, self.claim, self.now).await
    }
}

impl Run<Store> for ConfirmHold {
    async fn run_on(self, store: &Store) -> Result<Confirmed, EngineError> {
        Ok(store.stock.confirm(&self.feed, &self.hold, self.trace.as_ref(), self.now).await?)
    }
}

impl Run<Store> for CancelHold {
    async fn run_on(self, store: &Store) -> Result<Cancelled, EngineError> {
        Ok(store.stock.cancel(&self.feed, &self.hold, self.now).await?)
    }
}

impl Run<Store> for LookUpClaim {
    async fn run_on(self, store: &Store) -> Result<Option<ClaimStory>, EngineError> {
        Ok(store.stock.look_up(&self.feed, &self.claim, self.now).await?)
    }
}

impl Run<Store> for ReverseSale {
    async fn run_on(self, store: &Store) -> Result<GiftRefunded, EngineError> {
        Ok(store.stock.reverse(&self.feed, &self.claim, &self.what, self.now).await?)
    }
}

impl Run<Store> for ListHolds {
    async fn run_on(self, store: &Store) -> Result<Vec<Hold>, EngineError> {
        Ok(store.stock.holds(&self.feed, &self.user, self.now).await?)
    }
}

//! Operations on sources and refunds.

use super::super::engine::Store;
use crate::engine::{
    EngineError, IsRefunded, Kept, ListSources, RecordDelivery, RecordRefund, Run, SwapSource, Swapped,
};

impl Run<Store> for ListSources {
    async fn run_on(self, store: &Store) -> Result<Vec<Kept>, EngineError> {
        Ok(store.sources.sources(&self.feed).await?)
    }
}

impl Run<Store> for SwapSource {
    async fn run_on(self, store: &Store) -> Result<Swapped, EngineError> {
        Ok(store.sources.swap_source(&self.feed, &self.name, self.was, self.to.as_ref()).await?)
    }
}

impl Run<Store> for RecordDelivery {
    async fn run_on(self, store: &Store) -> Result<(), EngineError> {
        Ok(store.sources.note_delivery(&self.feed, &self.name, &self.note, self.now).await?)
    }
}

impl Run<Store> for RecordRefund {
    async fn run_on(self, store: &Store) -> Result<(), EngineError> {
        Ok(store.sources.note_refund(&self.feed, &self.gift, self.now).await?)
    }
}

impl Run<Store> for IsRefunded {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        Ok(store.sources.is_refunded(&self.feed, &self.gift).await?)
    }
}

//! Operations on sources and refunds.

use super::super::engine::Store;
use crate::engine::{
    EngineError, Kept, ListSources, ReadRefund, RecordDelivery, RecordRefund, Refund, Run, SwapSource,
    Swapped,
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
        Ok(store.sources.note_refund(&self.feed, &self.gift, self.refund, self.now).await?)
    }
}

impl Run<Store> for ReadRefund {
    async fn run_on(self, store: &Store) -> Result<Option<Refund>, EngineError> {
        Ok(store.sources.refund_of(&self.feed, &self.gift).await?)
    }
}

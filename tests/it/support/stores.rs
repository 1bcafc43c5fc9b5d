//! The stores that tests run on, each private to its test.

use std::sync::Arc;

use tipcast::domain::Policy;
use tipcast::engine::Engine;

use super::model::Model;

/// A store that engines can be opened on, again and again.
pub enum Store {
    /// The oracle.
    Model(Arc<Model>),
}

impl Store {
    /// The model.
    pub fn model() -> Store {
        Store::Model(Model::new(Policy::default()))
    }

    /// An engine on this store, with the contract's default policy.
    pub async fn open(&self) -> Arc<dyn Engine> {
        match self {
            Store::Model(model) => model.clone(),
        }
    }
}

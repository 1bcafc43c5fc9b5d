//! The stores that tests run on, each private to its test.

use std::sync::Arc;

use tempfile::TempDir;
use tipcast::domain::Policy;
use tipcast::engine::Engine;
use tipcast::engine::embedded::{EmbeddedEngine, EmbeddedOptions};

use super::model::Model;

/// A store that engines can be opened on, again and again.
pub enum Store {
    /// The oracle.
    Model(Arc<Model>),
    /// A folder.
    Embedded(TempDir),
}

impl Store {
    /// The model.
    pub fn model() -> Store {
        Store::Model(Model::new(Policy::default()))
    }

    /// An empty folder.
    pub fn embedded() -> Store {
        Store::Embedded(TempDir::new().unwrap())
    }

    /// An engine on this store, with the contract's default policy.
    pub async fn open(&self) -> Arc<dyn Engine> {
        let defaults = Policy::default();
        match self {
            Store::Model(model) => model.clone(),
            Store::Embedded(dir) => {
                EmbeddedEngine::open(EmbeddedOptions { data_dir: dir.path().into(), defaults }).unwrap()
            }
        }
    }
}

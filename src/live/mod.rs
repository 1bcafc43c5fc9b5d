//! Fan-out to watchers. A placeholder with the shape that the composition root needs.

use std::sync::Arc;

use crate::engine::Engine;

/// The live layer of one process.
pub struct Live;

impl Live {
    /// Starts it over `engine`.
    pub fn start(_engine: Arc<dyn Engine>) -> Arc<Live> {
        Arc::new(Live)
    }

    /// Says goodbye to every watcher.
    pub async fn close(&self) {}
}

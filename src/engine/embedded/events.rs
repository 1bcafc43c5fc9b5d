//! What the two threads of the store receive: from callers, and from each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use super::effect::Effect;
use super::group::Answer;
use super::host::ScriptText;
use crate::engine::protocol::words::Words;

/// Hears what scripts publish: a channel, and a message.
pub type PublishHook = Arc<dyn Fn(&[u8], &[u8]) + Send + Sync>;

/// Something to do for the thread that has the data.
pub(super) enum StoreEvent {
    Call(Call),
    /// The disk has a group, and whether there was anything to write of it; or why it has not.
    Committed(Result<bool, String>),
    /// The disk takes rows again, or why not.
    Probed(Result<bool, String>),
    /// Finish what was accepted, and end.
    Close,
}

/// What a call asks for.
pub(super) enum StoreRequest {
    Script {
        script: ScriptText,
        keys: Words,
        args: Words,
    },
    Command(Words),
    /// A row on the disk.
    Row,
}

/// A call, and who waits for its answer.
pub(super) struct Call {
    pub work: StoreRequest,
    pub to: oneshot::Sender<Answer>,
    /// Its place among the calls that wait.
    pub _place: QueuedBytes,
}

/// Bytes and one call that wait; let go when this is dropped.
pub(super) struct QueuedBytes {
    pub waiting: Arc<QueueLoad>,
    pub bytes: usize,
}

/// How much waits for the thread.
#[derive(Default)]
pub(super) struct QueueLoad {
    pub calls: AtomicUsize,
    pub bytes: AtomicUsize,
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.waiting.calls.fetch_sub(1, Ordering::Relaxed);
        self.waiting.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Something to do for the thread that has the file.
pub(super) enum ToDisk {
    /// Commit what a group left behind; with a row in any case, if somebody asks whether that goes. The time comes with it.
    Commit(Arc<Vec<Effect>>, bool, i64),
    /// Say whether a row can be written.
    Probe,
}

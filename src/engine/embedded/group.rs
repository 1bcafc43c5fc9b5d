//! What is committed together: what calls changed since the group before, and who waits for it to be durable.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::changes::{Changes, Undo};
use super::effect::{Effect, Name};
use super::reply::Reply;

/// Why a call was not made, or not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallRefusal {
    /// The disk does not take what is written, or the store is closed; and what to do about it.
    Unavailable(String),
    /// It would have written, and the disk takes nothing now; why. What only reads is answered.
    ReadOnly(String),
    /// There is no room in memory for more; what is there, in bytes, and the bound.
    Full(u64, u64),
    /// Too much waits already; what is full.
    Overloaded(&'static str),
    /// The script failed, and left nothing behind; what it said.
    Failed(String),
}

/// What a call comes to.
pub type Answer = Result<Reply, CallRefusal>;

/// An answer that waits until what it reports is durable.
pub(super) struct Held {
    pub to: oneshot::Sender<Answer>,
    pub answer: Answer,
}

/// The changes of one commit, and the answers that wait for it.
#[derive(Default)]
pub(super) struct Group {
    /// Grows by one with each group.
    pub number: u64,
    /// In order. Shared with the disk thread during the commit.
    pub effects: Arc<Vec<Effect>>,
    pub messages: Vec<(Vec<u8>, Vec<u8>)>,
    pub undo: Vec<Undo>,
    pub held: Vec<Held>,
    /// About how many bytes its effects are.
    pub bytes: usize,
    /// It is to be committed though nothing changed: somebody asks whether that goes.
    pub asked: bool,
}

impl Group {
    /// Adds what a call changed.
    pub fn add(&mut self, changes: Changes) {
        let Changes { effects, messages, undo } = changes;
        self.bytes += effects.iter().map(Effect::size).sum::<usize>();
        match Arc::get_mut(&mut self.effects) {
            Some(all) => all.extend(effects),
            // Nobody else has it before it is handed over.
            None => debug_assert!(false, "a group that is being written was added to"),
        }
        self.messages.extend(messages);
        self.undo.extend(undo);
    }

    /// True if there is nothing to commit and no answer waits.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.held.is_empty() && self.messages.is_empty() && !self.asked
    }

    /// The keys that it changed, some of them more than once.
    pub fn keys(&self) -> impl Iterator<Item = &Name> {
        self.effects.iter().map(Effect::key)
    }
}

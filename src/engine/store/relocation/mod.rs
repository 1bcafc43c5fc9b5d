//! Moving all that a folder holds into servers (`tipcast store move`). What every key becomes there is `plan`'s, how that is
//! written `copying`'s, and how it is compared afterwards `comparing`'s. The folder is only read.
//!
//! The servers' marks say that a move is under way, so no gateway begins on a half of it. Its progress is in a hash beside
//! the feeds: a run that was interrupted goes on from there, and gives the feeds the epochs that they have been given already.

mod comparing;
mod copying;
mod plan;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

use self::comparing::compare;
use self::copying::copy;
use self::plan::{Epochs, Plan};
use crate::domain::{FeedId, Millis};
use crate::engine::embedded::FolderContent;
use crate::engine::protocol::keys::{Keys, Part, SharedIndex};
use crate::engine::protocol::options::StoreOptions;
use crate::engine::protocol::slots::{slot_of_key, slot_of_tag};
use crate::engine::protocol::tags::random;
use crate::engine::redis::purpose::Purpose;
use crate::engine::redis::topology::Topology;
use crate::engine::store::parts::{StoreBuilder, connect};
use crate::engine::store::runner::AGREED_MS;

/// How long a server may take for one batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveProgress {
    /// True while what was written is compared, false while it is written.
    pub compares: bool,
    /// Keys of the folder that are done.
    pub done: usize,
    /// Keys of the folder.
    pub all: usize,
}

/// What was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Feeds of which anything was there.
    pub feeds: usize,
    /// Keys that were written.
    pub keys: usize,
}

/// The servers that a folder is moved into.
struct MoveTarget {
    topology: Arc<Topology>,
    keys: Keys,
}

/// Moves what the folder holds to the servers that `options` name, under their prefix, where nothing may be yet; `resumed` goes on
/// with a run that was interrupted. `progressed` gets its progress, many times a second.
///
/// # Errors
/// What is wrong and what to do. The folder is as it was, whatever happened.
pub async fn move_folder(
    content: &FolderContent,
    options: &StoreOptions,
    resumed: bool,
    progressed: &mut dyn FnMut(MoveProgress),
) -> Result<Moved, String> {
    let (begun, topology, _eviction) = connect(options, Purpose::MoveIn { resumed }).await?;
    let StoreBuilder { keys, .. } = begun;
    let target = MoveTarget { topology, keys };
    let go_on = "; the folder is as it was: once that is fixed, run the same command again, with --resume where copying had begun";
    let with_advice = |why: String| format!("{why}{go_on}");
    let begun = target.begin(&content.name, content.now()).await.map_err(with_advice)?;
    let part_of = |what: SharedIndex, feed: &FeedId| {
        let home = || Part::Slot(target.topology.home(slot_of_tag(feed.as_str())));
        target.keys.named_part(what, feed).unwrap_or_else(home)
    };
    let plan = Plan::new(&content.space, &target.keys, &part_of, begun.epochs);
    copy(&target, &plan, content, &begun.place, progressed).await.map_err(with_advice)?;
    let moved = compare(&target, &plan, content, progressed).await.map_err(with_advice)??;
    target.end().await.map_err(with_advice)?;
    Ok(moved)
}

/// Where a run begins.
struct Beginning {
    epochs: Epochs,
    /// The last key that an interrupted run has written; empty when there is none.
    place: Vec<u8>,
}

impl MoveTarget {
    /// Where is noted how far a move is.
    fn state_key(&self) -> String {
        self.keys.moving()
    }

    /// `steady` is the folder's clock. Reads how far an interrupted run came, and notes what a new one has to give again when it is interrupted.
    async fn begin(&self, folder: &str, steady: i64) -> Result<Beginning, String> {
        let key = self.state_key();
        let known: HashMap<String, Vec<u8>> = self.ask(&key, redis::cmd("HGETALL").arg(&key)).await?;
        let text = |name: &str| {
            known.get(name).map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
        };
        if known.is_empty() {
            let at = Millis::now();
            // As in calls of scripts, times that differ by less are one.
            let ahead = Some(at.0 - steady).filter(|ahead| ahead.abs() > AGREED_MS).unwrap_or(0);
            let epochs = Epochs { at, life: life(), ahead };
            let mut set = redis::cmd("HSET");
            set.arg(&key).arg("folder").arg(folder).arg("at").arg(at.0).arg("life").arg(&epochs.life);
            set.arg("ahead").arg(epochs.ahead);
            let _: i64 = self.ask(&key, &set).await?;
            return Ok(Beginning { epochs, place: Vec::new() });
        }
        if text("folder") != folder {
            return Err("the interrupted move was of another folder, or a gateway has run on this one since: remove all keys \
                        with the prefix, and begin anew without --resume"
                .into());
        }
        let number = |name: &str| text(name).parse().map_err(|_| format!("{key} is not what a move writes"));
        let epochs = Epochs { at: Millis(number("at")?), life: text("life"), ahead: number("ahead")? };
        Ok(Beginning { epochs, place: known.get("place").cloned().unwrap_or_default() })
    }

    /// Lets gateways begin.
    async fn end(&self) -> Result<(), String> {
        let key = self.state_key();
        let _: i64 = self.ask(&key, redis::cmd("DEL").arg(&key)).await?;
        self.topology.end_move().await.map_err(|fault| fault.why)
    }

    async fn ask<T: FromRedisValue>(&self, key: &str, command: &Cmd) -> Result<T, String> {
        let said = self.topology.command(key, command, BATCH_TIMEOUT).await.map_err(|fault| fault.why)?;
        redis::from_redis_value(said)
            .map_err(|_| "Redis answered something else than it was asked".to_owned())
    }

    /// Makes a batch of calls, each about one key. The answers in their order; an error when any was refused.
    async fn ask_all(&self, commands: &[(u16, Cmd)]) -> Result<Vec<redis::Value>, String> {
        let answers = self.topology.commands(commands, BATCH_TIMEOUT).await;
        answers.into_iter().map(|answer| answer.map_err(|fault| fault.why)).collect()
    }
}

/// A call about a key, with its slot.
fn about(key: &str, command: Cmd) -> (u16, Cmd) {
    (slot_of_key(key), command)
}

/// What the epochs end with that begin with a move: nobody's life.
fn life() -> String {
    let mut number = random();
    let mut digit = || {
        let digit = char::from_digit((number % 36) as u32, 36).unwrap_or('0');
        number /= 36;
        digit
    };
    (0..5).map(|_| digit()).collect()
}

//! Writing what a plan says, in batches of which one is under way at a time: a bound of the memory and of the servers' load.

use redis::Cmd;

use super::{MoveProgress, MoveTarget, about};
use crate::engine::embedded::FolderContent;
use crate::engine::embedded::numbers::write_float;
use crate::engine::store::relocation::plan::{Content, Plan, PlannedKey};

/// Calls in a batch.
pub(super) const CALLS_PER_BATCH: usize = 512;

/// Bytes in a batch, but for a value that alone is larger.
pub(super) const BYTES_PER_BATCH: usize = 256 << 10;

/// Elements that one call is about.
pub(super) const ELEMENTS: usize = 128;

/// Writes all of the plan that comes behind `place`. What it writes takes the place of what an interrupted run had begun.
pub(super) async fn copy(
    target: &MoveTarget,
    plan: &Plan<'_>,
    content: &FolderContent,
    place: &[u8],
    progressed: &mut dyn FnMut(MoveProgress),
) -> Result<(), String> {
    let (names, mut batch) = (plan.names(), CallBatch::default());
    let first = names.partition_point(|name| !place.is_empty() && *name <= place);
    let progress = |done| MoveProgress { compares: false, done, all: names.len() };
    for (at, name) in names.iter().enumerate().skip(first) {
        for item in plan.items(name, content.now()) {
            write(target, &mut batch, &item, content).await?;
        }
        if batch.is_full() {
            batch.send(target).await?;
            // Behind the keys that it counts: written with the next batch.
            let mut note = redis::cmd("HSET");
            note.arg(target.state_key()).arg("place").arg(*name);
            batch.add(&target.state_key(), note, 0);
            progressed(progress(at + 1));
        }
    }
    for item in plan.divided() {
        write(target, &mut batch, item, content).await?;
    }
    batch.send(target).await?;
    progressed(progress(names.len()));
    Ok(())
}

/// Calls that are sent together.
#[derive(Default)]
struct CallBatch {
    calls: Vec<(u16, Cmd)>,
    bytes: usize,
}

impl CallBatch {
    fn is_full(&self) -> bool {
        self.calls.len() >= CALLS_PER_BATCH || self.bytes >= BYTES_PER_BATCH
    }

    fn add(&mut self, key: &str, command: Cmd, bytes: usize) {
        self.calls.push(about(key, command));
        self.bytes += key.len() + bytes;
    }

    async fn send(&mut self, target: &MoveTarget) -> Result<(), String> {
        let CallBatch { calls, .. } = std::mem::take(self);
        target.ask_all(&calls).await.map(drop)
    }
}

/// Adds the calls that write an item, and sends those that fill a batch.
async fn write(
    target: &MoveTarget,
    batch: &mut CallBatch,
    item: &PlannedKey<'_>,
    content: &FolderContent,
) -> Result<(), String> {
    let PlannedKey { key, until, .. } = item;
    let left = until.map(|until| until - content.now());
    if left.is_some_and(|left| left <= 0) {
        return Ok(());
    }
    let command = |name: &str| {
        let mut command = redis::cmd(name);
        command.arg(key);
        command
    };
    if let Content::Text(text) = &item.content {
        let mut set = command("SET");
        set.arg(&**text);
        if let Some(left) = left {
            set.arg("PX").arg(left);
        }
        batch.add(key, set, text.len());
        return Ok(());
    }
    batch.add(key, command("DEL"), 0);
    let word = match &item.content {
        Content::Hash(_) => "HSET",
        Content::List(_) => "RPUSH",
        Content::Set(_) | Content::Text(_) => "ZADD",
    };
    let elements = elements(&item.content);
    let (mut call, mut count, mut bytes) = (command(word), 0, 0);
    for element in elements {
        for part in element.iter().flatten() {
            call.arg(&**part);
            bytes += part.len();
        }
        count += 1;
        if count >= ELEMENTS || bytes >= BYTES_PER_BATCH / 4 {
            batch.add(key, std::mem::replace(&mut call, command(word)), bytes);
            (count, bytes) = (0, 0);
            if batch.is_full() {
                batch.send(target).await?;
            }
        }
    }
    if count > 0 {
        batch.add(key, call, bytes);
    }
    if let Some(left) = left {
        let mut expire = command("PEXPIRE");
        expire.arg(left);
        batch.add(key, expire, 0);
    }
    Ok(())
}

type Word<'a> = std::borrow::Cow<'a, [u8]>;

/// A collection's elements, each as the one or two words that a call has for it.
fn elements<'a>(content: &'a Content<'_>) -> Box<dyn Iterator<Item = [Option<Word<'a>>; 2]> + 'a> {
    let word = |bytes: &'a [u8]| Some(Word::Borrowed(bytes));
    match content {
        Content::Hash(fields) => {
            Box::new(fields.iter().map(move |(field, value)| [word(field), word(value)]))
        }
        Content::List(items) => Box::new(items.iter().map(move |item| [word(item), None])),
        Content::Set(members) => Box::new(
            members.iter().map(move |(member, score)| [Some(Word::Owned(write_float(*score))), word(member)]),
        ),
        Content::Text(_) => Box::new(std::iter::empty()),
    }
}

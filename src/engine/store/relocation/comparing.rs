//! Comparing what servers have with what a plan says, all of it: every value, every expiry, and that nothing else is there.

use redis::{Cmd, FromRedisValue, Value};

use super::{BATCH_TIMEOUT, MoveProgress, MoveTarget, Moved, about};
use crate::engine::embedded::FolderContent;
use crate::engine::redis::form::{FENCE, FORM_KEY};
use crate::engine::redis::scan::all_under;
use crate::engine::store::relocation::copying::{BYTES_PER_BATCH, CALLS_PER_BATCH, ELEMENTS};
use crate::engine::store::relocation::plan::{Content, Plan, PlannedKey};

/// By how many milliseconds an expiry may be another: clocks are read at both ends of a batch.
const TOLERATED: i64 = 10_000;

/// Differences that are named.
const MAX_NAMED_DIFFERENCES: usize = 5;

/// Keys that one step of SCAN looks at.
const KEYS_PER_SCAN: u32 = 1_000;

/// What was moved, if it is there as it is in the folder; else which keys are not.
///
/// # Errors
/// When the servers cannot be asked.
pub(super) async fn compare(
    target: &MoveTarget,
    plan: &Plan<'_>,
    content: &FolderContent,
    progressed: &mut dyn FnMut(MoveProgress),
) -> Result<Result<Moved, String>, String> {
    let names = plan.names();
    let progress = |done| MoveProgress { compares: true, done, all: names.len() };
    let (mut keys, mut differences, mut asking) = (0, Differences::default(), Asking::default());
    for (at, name) in names.iter().enumerate() {
        for item in plan.items(name, content.now()) {
            keys += 1;
            asking.add(target, &item, content, &mut differences).await?;
        }
        progressed(progress(at + 1));
    }
    for item in plan.divided() {
        keys += 1;
        asking.add(target, item, content, &mut differences).await?;
    }
    asking.send(target, content, &mut differences).await?;
    look_for_others(target, plan, content, &mut differences).await?;
    Ok(match differences.count {
        0 => Ok(Moved { feeds: plan.feeds(), keys }),
        count => Err(format!(
            "{count} keys are not what the folder has ({}): something else writes under this prefix, or Redis lost what it was given. \
             The folder is as it was: remove all keys with the prefix, and begin anew",
            differences.named.join(", ")
        )),
    })
}

/// Keys that are not what they should be, and some of them by name.
#[derive(Default)]
struct Differences {
    count: usize,
    named: Vec<String>,
    last: String,
}

impl Differences {
    /// A key counts once, whatever of it is another.
    fn add(&mut self, key: &str, what: &str) {
        if self.last == key {
            return;
        }
        key.clone_into(&mut self.last);
        self.count += 1;
        if self.named.len() < MAX_NAMED_DIFFERENCES {
            self.named.push(format!("{key}: {what}"));
        }
    }
}

/// What a call has to answer.
enum Wanted {
    Text(Vec<u8>),
    Count(usize),
    Values(Vec<Vec<u8>>),
    Scores(Vec<(Vec<u8>, f64)>),
    Expiry(Option<i64>),
}

impl Wanted {
    fn bytes(&self) -> usize {
        match self {
            Wanted::Text(text) => text.len(),
            Wanted::Values(values) => values.iter().map(Vec::len).sum(),
            Wanted::Scores(scores) => scores.iter().map(|(member, _)| member.len() + 8).sum(),
            Wanted::Count(_) | Wanted::Expiry(_) => 8,
        }
    }

    /// What differs where it is not answered.
    fn what(&self) -> &'static str {
        match self {
            Wanted::Expiry(_) => "another expiry",
            Wanted::Count(_) => "another number of elements",
            Wanted::Text(_) | Wanted::Values(_) | Wanted::Scores(_) => "another content",
        }
    }
}

/// A call about a key.
struct Check {
    key: String,
    call: Cmd,
    wanted: Wanted,
    until: Option<i64>,
}

/// What is to be asked about an item, one after the other: a value may be larger than a batch.
fn checks_of<'a>(item: &'a PlannedKey<'_>) -> Box<dyn Iterator<Item = Check> + 'a> {
    let check = |word: &str, more: &[&[u8]], wanted| {
        let mut call = redis::cmd(word);
        call.arg(&item.key);
        more.iter().for_each(|arg| _ = call.arg(*arg));
        Check { key: item.key.clone(), call, wanted, until: item.until }
    };
    let bounds = |at: usize, length: usize| {
        [at * ELEMENTS, at * ELEMENTS + length - 1].map(|bound| bound.to_string().into_bytes())
    };
    let owned = |text: &&[u8]| text.to_vec();
    let content: Box<dyn Iterator<Item = Check> + 'a> = match &item.content {
        Content::Text(text) => Box::new(std::iter::once(check("GET", &[], Wanted::Text(text.to_vec())))),
        Content::Hash(fields) => {
            let parts = fields.chunks(ELEMENTS).map(move |part| {
                let names: Vec<&[u8]> = part.iter().map(|(field, _)| *field).collect();
                check("HMGET", &names, Wanted::Values(part.iter().map(|(_, value)| owned(value)).collect()))
            });
            Box::new(std::iter::once(check("HLEN", &[], Wanted::Count(fields.len()))).chain(parts))
        }
        Content::List(items) => {
            let parts = items.chunks(ELEMENTS).enumerate().map(move |(at, part)| {
                let [from, to] = bounds(at, part.len());
                check("LRANGE", &[&from, &to], Wanted::Values(part.iter().map(owned).collect()))
            });
            Box::new(std::iter::once(check("LLEN", &[], Wanted::Count(items.len()))).chain(parts))
        }
        Content::Set(members) => {
            let parts = members.chunks(ELEMENTS).enumerate().map(move |(at, part)| {
                let [from, to] = bounds(at, part.len());
                let wanted = part.iter().map(|(member, score)| (owned(member), *score)).collect();
                check("ZRANGE", &[&from, &to, b"WITHSCORES"], Wanted::Scores(wanted))
            });
            Box::new(std::iter::once(check("ZCARD", &[], Wanted::Count(members.len()))).chain(parts))
        }
    };
    Box::new(content.chain(std::iter::once(check("PTTL", &[], Wanted::Expiry(item.until)))))
}

/// Checks that are sent together.
#[derive(Default)]
struct Asking {
    checks: Vec<Check>,
    bytes: usize,
}

impl Asking {
    /// Adds what is to be asked about an item, and sends what fills a batch.
    async fn add(
        &mut self,
        target: &MoveTarget,
        item: &PlannedKey<'_>,
        content: &FolderContent,
        differences: &mut Differences,
    ) -> Result<(), String> {
        for check in checks_of(item) {
            self.bytes += check.wanted.bytes();
            self.checks.push(check);
            if self.checks.len() >= CALLS_PER_BATCH || self.bytes >= BYTES_PER_BATCH {
                self.send(target, content, differences).await?;
            }
        }
        Ok(())
    }

    async fn send(
        &mut self,
        target: &MoveTarget,
        content: &FolderContent,
        differences: &mut Differences,
    ) -> Result<(), String> {
        let Asking { checks, .. } = std::mem::take(self);
        let calls: Vec<_> = checks.iter().map(|check| about(&check.key, check.call.clone())).collect();
        let answers = target.ask_all(&calls).await?;
        let now = content.now();
        for (check, said) in checks.into_iter().zip(answers) {
            let may_be_gone = check.until.is_some_and(|until| until - now < TOLERATED);
            if !agrees(&check.wanted, said, now) && !may_be_gone {
                differences.add(&check.key, check.wanted.what());
            }
        }
        Ok(())
    }
}

fn agrees(wanted: &Wanted, said: Value, now: i64) -> bool {
    match wanted {
        Wanted::Text(text) => read::<Option<Vec<u8>>>(said).flatten().as_ref() == Some(text),
        Wanted::Count(count) => read(said) == Some(*count),
        Wanted::Values(values) => {
            let found: Option<Vec<Option<Vec<u8>>>> = read(said);
            found.is_some_and(|found| found.iter().map(Option::as_ref).eq(values.iter().map(Some)))
        }
        Wanted::Scores(scores) => read(said).as_ref() == Some(scores),
        Wanted::Expiry(None) => read(said) == Some(-1_i64),
        Wanted::Expiry(Some(until)) => {
            read::<i64>(said).is_some_and(|left| left >= 0 && (until - now - left).abs() <= TOLERATED)
        }
    }
}

fn read<T: FromRedisValue>(said: Value) -> Option<T> {
    redis::from_redis_value(said).ok()
}

/// Looks for keys that were not moved.
async fn look_for_others(
    target: &MoveTarget,
    plan: &Plan<'_>,
    content: &FolderContent,
    differences: &mut Differences,
) -> Result<(), String> {
    let (shards, pattern) = (target.topology.shards(), all_under(target.keys.prefix()));
    let state = target.state_key();
    for shard in 0..shards.count() {
        let mut cursor = 0;
        loop {
            let step = shards
                .scan(shard, cursor, (&pattern, KEYS_PER_SCAN), BATCH_TIMEOUT)
                .await
                .map_err(|fault| fault.why)?;
            let step = step.ok_or("Redis answered SCAN with something else")?;
            for key in step.keys {
                let is_ours = key == state || key.ends_with(FENCE) || key.ends_with(FORM_KEY);
                // What has expired here may be there for a moment more.
                if !is_ours && !plan.has(&key, content.now() - TOLERATED) {
                    differences.add(&key, "the folder has no such key");
                }
            }
            cursor = step.cursor;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(())
}

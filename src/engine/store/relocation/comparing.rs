//! Comparing what servers have with what a plan says, all of it: every value, every expiry, and that nothing else is there.

use redis::{Cmd, FromRedisValue, Value};

use super::plan::{Content, Item, Plan};
use super::{MoveProgress, Moved, Target, WITHIN, about};
use crate::engine::embedded::FolderContent;
use crate::engine::redis::form::{FENCE, FORM_KEY, all_under};

/// Calls in a batch.
const CALLS: usize = 512;

/// Elements that one call reads.
const ELEMENTS: usize = 128;

/// By how many milliseconds an expiry may be another: clocks are read at both ends of a batch.
const TOLERATED: i64 = 10_000;

/// Differences that are named.
const NAMED: usize = 5;

/// Keys that one step of SCAN looks at.
const STEP: u32 = 1_000;

/// What was moved, if it is there as it is in the folder.
pub(super) async fn compare(
    target: &Target,
    plan: &Plan<'_>,
    content: &FolderContent,
    told: &mut dyn FnMut(MoveProgress),
) -> Result<Moved, String> {
    let names = plan.names();
    let progress = |done| MoveProgress { compares: true, done, all: names.len() };
    let (mut keys, mut differences) = (0, Differences::default());
    let mut checks = Vec::new();
    for (at, name) in names.iter().enumerate() {
        for item in plan.items(name, content.now()) {
            keys += 1;
            checks.extend(checks_of(&item));
        }
        if checks.len() >= CALLS || at + 1 == names.len() {
            ask(target, std::mem::take(&mut checks), content, &mut differences).await?;
            told(progress(at + 1));
        }
    }
    for item in plan.divided() {
        keys += 1;
        ask(target, checks_of(item), content, &mut differences).await?;
    }
    look_for_others(target, plan, content, &mut differences).await?;
    match differences.count {
        0 => Ok(Moved { feeds: plan.feeds(), keys }),
        count => Err(format!(
            "{count} keys are not what the folder has ({}): something else writes under this prefix, or Redis lost what it was given. \
             The folder is as it was: remove all keys with the prefix, and begin anew",
            differences.named.join(", ")
        )),
    }
}

#[derive(Default)]
struct Differences {
    count: usize,
    named: Vec<String>,
}

impl Differences {
    fn add(&mut self, key: &str, what: &str) {
        self.count += 1;
        if self.named.len() < NAMED {
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

/// A call about a key.
struct Check {
    key: String,
    call: Cmd,
    wanted: Wanted,
    until: Option<i64>,
}

fn checks_of(item: &Item<'_>) -> Vec<Check> {
    let Item { key, until, .. } = item;
    let mut checks = Vec::new();
    let mut add = |word: &str, more: &[&[u8]], wanted| {
        let mut call = redis::cmd(word);
        call.arg(key);
        more.iter().for_each(|arg| _ = call.arg(*arg));
        checks.push(Check { key: key.clone(), call, wanted, until: *until });
    };
    let bounds = |at: usize, length: usize| {
        [at * ELEMENTS, at * ELEMENTS + length - 1].map(|bound| bound.to_string().into_bytes())
    };
    match &item.content {
        Content::Text(text) => add("GET", &[], Wanted::Text(text.to_vec())),
        Content::Hash(fields) => {
            add("HLEN", &[], Wanted::Count(fields.len()));
            for part in fields.chunks(ELEMENTS) {
                let names: Vec<&[u8]> = part.iter().map(|(field, _)| *field).collect();
                add("HMGET", &names, Wanted::Values(part.iter().map(|(_, value)| value.to_vec()).collect()));
            }
        }
        Content::List(items) => {
            add("LLEN", &[], Wanted::Count(items.len()));
            for (at, part) in items.chunks(ELEMENTS).enumerate() {
                let [from, to] = bounds(at, part.len());
                add("LRANGE", &[&from, &to], Wanted::Values(part.iter().map(|item| item.to_vec()).collect()));
            }
        }
        Content::Set(members) => {
            add("ZCARD", &[], Wanted::Count(members.len()));
            for (at, part) in members.chunks(ELEMENTS).enumerate() {
                let [from, to] = bounds(at, part.len());
                let wanted = part.iter().map(|(member, score)| (member.to_vec(), *score)).collect();
                add("ZRANGE", &[&from, &to, b"WITHSCORES"], Wanted::Scores(wanted));
            }
        }
    }
    add("PTTL", &[], Wanted::Expiry(*until));
    checks
}

async fn ask(
    target: &Target,
    checks: Vec<Check>,
    content: &FolderContent,
    differences: &mut Differences,
) -> Result<(), String> {
    let calls: Vec<_> = checks.iter().map(|check| about(&check.key, check.call.clone())).collect();
    let answers = target.ask_all(&calls).await?;
    let now = content.now();
    let mut last = String::new();
    for (check, said) in checks.into_iter().zip(answers) {
        let may_be_gone = check.until.is_some_and(|until| until - now < TOLERATED);
        // A key counts once, whatever of it is another.
        if !agrees(&check.wanted, said, now) && !may_be_gone && check.key != last {
            let what = match check.wanted {
                Wanted::Expiry(_) => "another expiry",
                Wanted::Count(_) => "another number of elements",
                _ => "another content",
            };
            differences.add(&check.key, what);
            last = check.key;
        }
    }
    Ok(())
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

/// Looks for keys that nobody moved.
async fn look_for_others(
    target: &Target,
    plan: &Plan<'_>,
    content: &FolderContent,
    differences: &mut Differences,
) -> Result<(), String> {
    let (shards, pattern) = (target.topology.shards(), all_under(target.keys.prefix()));
    let state = target.state_key();
    for shard in 0..shards.count() {
        let mut cursor = 0;
        loop {
            let step =
                shards.scan(shard, cursor, (&pattern, STEP), WITHIN).await.map_err(|fault| fault.why)?;
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

//! Commands by name. A command checks all of its arguments before it changes anything, as those of Redis do.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;

use super::changes::Changes;
use super::fields::Fields;
use super::keyspace::Keyspace;
use super::numbers::integer;
use super::reply::{NO_INTEGER, Reply, SYNTAX, WRONG_TYPE};
use super::stored::{Collection, List, ZSet};

/// What one command works on.
pub(super) struct CommandSession<'a> {
    pub space: &'a mut Keyspace,
    /// Milliseconds since 1970; what expires until then is gone.
    pub now: i64,
    pub changes: &'a mut Changes,
}

/// A refusal, as `Err`.
pub(super) type Answer = Result<Reply, &'static str>;

/// What a command's name means.
struct CommandSpec {
    name: &'static str,
    /// The number of words, the name included. A negative number is a minimum.
    arity: i32,
    run: fn(&mut CommandSession<'_>, &[&[u8]]) -> Answer,
}

const COMMANDS: &[CommandSpec] = &[
    CommandSpec { name: "get", arity: 2, run: |s, words| s.get(words) },
    CommandSpec { name: "mget", arity: -2, run: |s, words| s.mget(words) },
    CommandSpec { name: "set", arity: -3, run: |s, words| s.set(words) },
    CommandSpec { name: "del", arity: -2, run: |s, words| s.del(words) },
    CommandSpec { name: "unlink", arity: -2, run: |s, words| s.del(words) },
    CommandSpec { name: "exists", arity: -2, run: |s, words| s.exists(words) },
    CommandSpec { name: "pexpire", arity: 3, run: |s, words| s.pexpire(words) },
    CommandSpec { name: "persist", arity: 2, run: |s, words| s.persist(words) },
    CommandSpec { name: "time", arity: 1, run: |s, words| s.time(words) },
    CommandSpec { name: "spublish", arity: 3, run: |s, words| s.spublish(words) },
    CommandSpec { name: "scan", arity: -2, run: |s, words| s.scan(words) },
    CommandSpec { name: "hget", arity: 3, run: |s, words| s.hget(words) },
    CommandSpec { name: "hmget", arity: -3, run: |s, words| s.hmget(words) },
    CommandSpec { name: "hset", arity: -4, run: |s, words| s.hset(words) },
    CommandSpec { name: "hdel", arity: -3, run: |s, words| s.hdel(words) },
    CommandSpec { name: "hlen", arity: 2, run: |s, words| s.hlen(words) },
    CommandSpec { name: "hexists", arity: 3, run: |s, words| s.hexists(words) },
    CommandSpec { name: "hkeys", arity: 2, run: |s, words| s.hkeys(words) },
    CommandSpec { name: "hvals", arity: 2, run: |s, words| s.hvals(words) },
    CommandSpec { name: "hgetall", arity: 2, run: |s, words| s.hgetall(words) },
    CommandSpec { name: "hincrby", arity: 4, run: |s, words| s.hincrby(words) },
    CommandSpec { name: "hscan", arity: -3, run: |s, words| s.hscan(words) },
    CommandSpec { name: "llen", arity: 2, run: |s, words| s.llen(words) },
    CommandSpec { name: "lindex", arity: 3, run: |s, words| s.lindex(words) },
    CommandSpec { name: "lrange", arity: 4, run: |s, words| s.lrange(words) },
    CommandSpec { name: "ltrim", arity: 4, run: |s, words| s.ltrim(words) },
    CommandSpec { name: "lset", arity: 4, run: |s, words| s.lset(words) },
    CommandSpec { name: "lpush", arity: -3, run: |s, words| s.lpush(words) },
    CommandSpec { name: "rpush", arity: -3, run: |s, words| s.rpush(words) },
    CommandSpec { name: "zadd", arity: -4, run: |s, words| s.zadd(words) },
    CommandSpec { name: "zrem", arity: -3, run: |s, words| s.zrem(words) },
    CommandSpec { name: "zcard", arity: 2, run: |s, words| s.zcard(words) },
    CommandSpec { name: "zscore", arity: 3, run: |s, words| s.zscore(words) },
    CommandSpec { name: "zmscore", arity: -3, run: |s, words| s.zmscore(words) },
    CommandSpec { name: "zrank", arity: 3, run: |s, words| s.zrank(words) },
    CommandSpec { name: "zcount", arity: 4, run: |s, words| s.zcount(words) },
    CommandSpec { name: "zlexcount", arity: 4, run: |s, words| s.zlexcount(words) },
    CommandSpec { name: "zrange", arity: -4, run: |s, words| s.zrange(words) },
    CommandSpec { name: "zrangebyscore", arity: -4, run: |s, words| s.zrangebyscore(words) },
    CommandSpec { name: "zrangebylex", arity: -4, run: |s, words| s.zrangebylex(words) },
    CommandSpec { name: "zremrangebyrank", arity: 4, run: |s, words| s.zremrangebyrank(words) },
    CommandSpec { name: "zscan", arity: -3, run: |s, words| s.zscan(words) },
];

/// The command of a name, which scripts spell in capitals.
fn command_of(name: &[u8]) -> Option<&'static CommandSpec> {
    static BY_NAME: LazyLock<HashMap<Vec<u8>, &'static CommandSpec, RandomState>> =
        LazyLock::new(|| COMMANDS.iter().map(|it| (it.name.to_ascii_uppercase().into_bytes(), it)).collect());
    let known = BY_NAME.get(name).copied();
    known.or_else(|| BY_NAME.get(&name.to_ascii_uppercase()).copied())
}

impl Keyspace {
    /// Runs one command, given as its words. `now` is in milliseconds since 1970. A refusal has changed nothing.
    pub fn execute(&mut self, words: &[&[u8]], now: i64, changes: &mut Changes) -> Reply {
        let Some(name) = words.first() else { return Reply::error("ERR an empty command") };
        let Some(command) = command_of(name) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
            return Reply::Error(format!("ERR unknown command '{name}'"));
        };
        let least = command.arity.unsigned_abs() as usize;
        if words.len() < least || command.arity > 0 && words.len() > least {
            return Reply::Error(format!("ERR wrong number of arguments for '{}' command", command.name));
        }
        let mut session = CommandSession { space: self, now, changes };
        (command.run)(&mut session, &words[1..]).unwrap_or_else(Reply::error)
    }
}

/// The rest of a scan's words: `MATCH pattern` and `COUNT n`, in any order.
pub(super) struct ScanOptions<'a> {
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
}

pub(super) fn scan_options<'a>(words: &[&'a [u8]]) -> Result<ScanOptions<'a>, &'static str> {
    let mut options = ScanOptions { pattern: None, count: 10 };
    for pair in words.chunks(2) {
        match pair {
            [name, value] if name.eq_ignore_ascii_case(b"match") => options.pattern = Some(*value),
            [name, value] if name.eq_ignore_ascii_case(b"count") => {
                let count = integer(value).ok_or(NO_INTEGER)?;
                options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(options)
}

/// A cursor that a scan gave.
pub(super) fn cursor_of(word: &[u8]) -> Result<u64, &'static str> {
    std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).ok_or("ERR invalid cursor")
}

/// Whether a text fits a pattern: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, and `\` in front of what is meant as it is.
pub(super) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not fit: the star takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if t == text.len() => return true,
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(_) if t < text.len() => one_fits(&pattern[p..], text[t]),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((after, from))) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// How many bytes of the pattern this byte fits, if it does.
fn one_fits(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|it| *it == b']')?;
            let (negated, set) = match &rest[..end] {
                [b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            let mut found = false;
            let mut at = 0;
            while at < set.len() {
                match set[at..] {
                    [from, b'-', to, ..] => {
                        found |= (from.min(to)..=from.max(to)).contains(&byte);
                        at += 3;
                    }
                    [one, ..] => {
                        found |= one == byte;
                        at += 1;
                    }
                    [] => {}
                }
            }
            (found != negated).then_some(end + 2)
        }
        [one, ..] => (*one == byte).then_some(1),
        [] => None,
    }
}

impl CommandSession<'_> {
    /// The collection of a key, read by `of`, if there is one; refused where the key holds anything else.
    fn collection_of<'s, T>(
        &'s self,
        key: &[u8],
        of: impl FnOnce(&'s Collection) -> Option<T>,
    ) -> Result<Option<T>, &'static str> {
        match self.space.collection(key, self.now) {
            Some(held) => of(&held.value).map(Some).ok_or(WRONG_TYPE),
            None if self.space.string(key, self.now).is_some() => Err(WRONG_TYPE),
            None => Ok(None),
        }
    }

    /// The hash of a key, if there is one.
    pub(super) fn hash(&self, key: &[u8]) -> Result<Option<&Fields<Arc<[u8]>>>, &'static str> {
        self.collection_of(key, |it| if let Collection::Hash(fields) = it { Some(fields) } else { None })
    }

    /// The list of a key, if there is one.
    pub(super) fn list(&self, key: &[u8]) -> Result<Option<&List>, &'static str> {
        self.collection_of(key, |it| if let Collection::List(list) = it { Some(list) } else { None })
    }

    /// The sorted set of a key, if there is one.
    pub(super) fn zset(&self, key: &[u8]) -> Result<Option<&ZSet>, &'static str> {
        self.collection_of(key, |it| if let Collection::Set(set) = it { Some(set) } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_those_of_redis() {
        for (pattern, text, wanted) in [
            ("tc:{*}:rows", "tc:{a:rows}:rows", true),
            ("tc:{*}:rows", "tc:{a}:rowsx", false),
            ("a?c", "abc", true),
            ("[*] *", "* x", true),
            ("[*] *", "a x", false),
            ("[^a-c]", "d", true),
            ("[^a-c]", "b", false),
            ("\\*", "*", true),
            ("*a*b", "xaxxab", true),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }
}

//! A call of a script looks at no more than 1 000 elements beyond those that it was asked about, however long its keys are
//! (`docs/ARCHITECTURE.md`). Calls that cases of the suite make are made again with one of their keys grown to 100 000 elements,
//! on a Redis; the text of the script counts what its commands go through.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use redis::Value;
use tipcast::engine::protocol::scripts::{self, Script};

use super::recorded::{cases, is_of_data, monitor, timed, until_mark};
use crate::support::case::Case;
use crate::support::redis_server::RedisServer;
use crate::support::stores::{Corner, Storage};

/// How long a key becomes.
const ELEMENTS: i64 = 100_000;

/// How much more a call may look at than the same call with the key as it was.
const MORE_ELEMENTS: i64 = 1_000;

/// How often a script is called, at most, with one of its keys grown in one way, until it does what was asked.
const CALLS: u32 = 10;

/// Stands around the text of a script and counts the elements of each key that its commands go through; the key of which it saw
/// most counts. Redis jumps over some hundred elements of a list at once, and drops as many; `UNLINK` takes as long for any key.
const COUNTING: &str = r"
local own, looked_at = redis, {}
local function length(key)
  local lengths = { list = 'LLEN', hash = 'HLEN', zset = 'ZCARD', set = 'SCARD' }
  local command = lengths[own.call('TYPE', key).ok]
  return command and own.call(command, key) or 0
end
local function add(key, elements) looked_at[key] = (looked_at[key] or 0) + elements end
local function look(way, ...)
  local command, key, third = ...
  local names, words, before = { ... }, select('#', ...), 0
  if command == 'DEL' then for n = 2, words do add(names[n], length(names[n])) end end
  if command == 'LREM' or command == 'LPOS' or command == 'LINSERT' then add(key, length(key)) end
  if command == 'LINDEX' or command == 'LRANGE' or command == 'LSET' then
    local at, all = tonumber(third), length(key)
    if at < 0 then at = at + all end
    add(key, math.max(0, math.min(at, all - at)) / 100)
  end
  local pairs_of, reads = command == 'HGETALL', { LRANGE = 1, HMGET = 1, HKEYS = 1, HVALS = 1, HGETALL = 1, HSCAN = 1, SMEMBERS = 1,
    ZRANGE = 1, ZRANGEBYSCORE = 1, ZRANGEBYLEX = 1, ZMSCORE = 1, LINDEX = 1, HGET = 1, HEXISTS = 1, ZSCORE = 1 }
  for n = 3, words do
    if names[n] == 'WITHSCORES' then pairs_of = true end
    if names[n] == 'LIMIT' and n < words then add(key, tonumber(names[n + 1])) end
  end
  if command == 'LTRIM' or command == 'ZREMRANGEBYRANK' then before = length(key) end
  local reply = own[way](...)
  if command == 'LTRIM' then add(key, (before - length(key)) / 100) end
  if command == 'ZREMRANGEBYRANK' then add(key, before - length(key)) end
  if reads[command] then
    local all = command == 'HSCAN' and reply[2] or reply
    add(key, type(all) == 'table' and (pairs_of and #all / 2 or #all) or 1)
  end
  return reply
end
local redis = setmetatable({
  call = function(...) return look('call', ...) end,
  pcall = function(...) return look('pcall', ...) end,
}, { __index = own })
local function script()
";

const COUNTED: &str = "
end
local reply = script()
local most = 0
for _, elements in pairs(looked_at) do most = math.max(most, math.floor(elements)) end
return { most, type(reply) == 'table' and reply.err and 1 or 0 }
";

/// What makes a key long: copies of what is there, before it or behind it.
const GROW: &str = r"
local key, way, wanted = KEYS[1], ARGV[1], tonumber(ARGV[2])
local kind, is_before, command, words = redis.call('TYPE', key).ok, ARGV[1] == 'before', nil, {}
local function add(...)
  for _, word in ipairs({ ... }) do words[#words + 1] = word end
  if #words >= 5000 then
    redis.call(command, key, unpack(words))
    words = {}
  end
end
if kind == 'list' then
  command = is_before and 'LPUSH' or 'RPUSH'
  local copied = redis.call('LINDEX', key, is_before and '0' or '-1')
  for _ = redis.call('LLEN', key) + 1, wanted do add(copied) end
elseif kind == 'hash' then
  command = 'HSET'
  local all = redis.call('HGETALL', key)
  for n = redis.call('HLEN', key) + 1, wanted do
    local at = n % (#all / 2) * 2
    add(is_before and n .. all[at + 1] or all[at + 1] .. n, all[at + 2])
  end
elseif kind == 'zset' then
  command = 'ZADD'
  local end_at, step = is_before and '0' or '-1', is_before and -1 or 1
  local copied = redis.call('ZRANGE', key, end_at, end_at, 'WITHSCORES')
  local score = tonumber(copied[2])
  for n = redis.call('ZCARD', key) + 1, wanted do
    -- All of one score stay so.
    if score ~= 0 then score = score + step end
    add(string.format('%d', score), copied[1] .. n)
  end
end
if #words > 0 then redis.call(command, key, unpack(words)) end
";

/// Keys that their scripts keep short, and how short: a longer one was not written by them.
const SHORT: [(&str, i64); 8] = [
    ("announced", 100),
    ("approved", 10_000),
    ("hooks", 64),
    ("readers", 80),
    ("refunds", 1_000),
    ("reviews", 1_000),
    ("shown", 64),
    ("walks", 1_000),
];

/// What was counted of a script with one of its keys grown in one way.
#[derive(Debug, Default)]
struct Counted {
    calls: u32,
    answered: u32,
    most: i64,
}

struct Counter {
    redis: redis::Connection,
    scripts: HashMap<Vec<u8>, &'static Script>,
    /// By script, key and way.
    counted: BTreeMap<(&'static str, String, &'static str), Counted>,
}

impl Counter {
    /// What a call goes through, and whether it did what was asked; without a trace of it.
    fn count(
        &mut self,
        script: &Script,
        words: &[Vec<u8>],
        grown: Option<(&[u8], &str, i64)>,
    ) -> Option<i64> {
        let all: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut self.redis).unwrap();
        let mut dumps = redis::pipe();
        all.iter().for_each(|key| _ = dumps.cmd("DUMP").arg(key).cmd("PTTL").arg(key));
        let dumps: Vec<Value> = dumps.query(&mut self.redis).unwrap();
        if let Some((key, way, elements)) = grown {
            redis::cmd("EVAL")
                .arg(GROW)
                .arg(1)
                .arg(key)
                .arg(way)
                .arg(elements)
                .exec(&mut self.redis)
                .unwrap();
        }
        let text = [COUNTING, &script.source(), COUNTED].concat();
        let mut call = redis::cmd("EVAL");
        call.arg(text);
        words[2..].iter().for_each(|word| _ = call.arg(word));
        let said = call.query::<(i64, i64)>(&mut self.redis);
        let mut back = redis::pipe();
        back.cmd("FLUSHALL").arg("SYNC");
        for (key, dump) in all.iter().zip(dumps.chunks(2)) {
            if let [Value::BulkString(bytes), Value::Int(ttl)] = dump {
                back.cmd("RESTORE").arg(key).arg((*ttl).max(0)).arg(bytes);
            }
        }
        back.exec(&mut self.redis).unwrap();
        let (looked_at, failed) = match said {
            Ok(said) => said,
            Err(error) if grown.is_none() => panic!("{}: {error}", script.name),
            Err(_) => return None,
        };
        (failed == 0).then_some(looked_at)
    }

    fn call(&mut self, mut words: Vec<Vec<u8>>) {
        if words[0].eq_ignore_ascii_case(b"EVALSHA") {
            let script = self.scripts[&words[1]];
            timed(script, &mut words);
            self.count_with_long_keys(script, &words);
        }
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        if name == "EVALSHA" || is_of_data(&name) {
            let mut command = redis::cmd(&name);
            words[1..].iter().for_each(|word| _ = command.arg(word));
            // A refusal is an answer as well.
            drop(command.query::<Value>(&mut self.redis));
        }
    }

    fn count_with_long_keys(&mut self, script: &'static Script, words: &[Vec<u8>]) {
        let count: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
        let header = script.header();
        let mut as_it_was = None;
        for (at, key) in words[3..3 + count].iter().enumerate() {
            let each = header.item_keys.len().max(1);
            let name = header.keys.get(at).copied();
            let name = name.or_else(|| header.item_keys.get((at - header.keys.len()) % each).copied());
            let kind: String = redis::cmd("TYPE").arg(key).query(&mut self.redis).unwrap();
            if matches!(kind.as_str(), "none" | "string") {
                continue;
            }
            // A hash has no order.
            let ways: &[&'static str] = if kind == "hash" { &["behind"] } else { &["before", "behind"] };
            for &way in ways {
                let key_name = name.unwrap_or("one of the last");
                let name = format!("{key_name} ({kind})");
                let counted = self.counted.entry((script.name, name.clone(), way)).or_default();
                if counted.calls >= CALLS || counted.answered > 0 {
                    continue;
                }
                counted.calls += 1;
                if as_it_was.is_none() {
                    as_it_was = Some(self.count(script, words, None));
                }
                // It would have been refused anyway.
                let Some(Some(before)) = as_it_was else { continue };
                let elements = SHORT.iter().find(|(short, _)| key_name == *short).map_or(ELEMENTS, |it| it.1);
                let with = self.count(script, words, Some((key, way, elements)));
                let counted = self.counted.get_mut(&(script.name, name, way)).unwrap();
                if let Some(looked_at) = with {
                    counted.answered += 1;
                    counted.most = counted.most.max(looked_at - before);
                }
            }
        }
    }
}

#[tokio::test]
async fn no_script_looks_at_more_than_a_thousand_elements_that_nobody_asked_about() {
    let (server, other) = (Arc::new(RedisServer::start()), RedisServer::start());
    let asked = monitor(&server);
    let mut counter = Counter { redis: other.connect(), scripts: HashMap::new(), counted: BTreeMap::new() };
    for script in scripts::ALL {
        let sha: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(script.source()).query(&mut counter.redis).unwrap();
        counter.scripts.insert(sha.into_bytes(), script);
    }
    for (_, case) in cases() {
        case(Case::on(Storage::Redis(Corner::of(server.clone()))).await).await;
        for words in until_mark(&asked, &server) {
            counter.call(words);
        }
        redis::cmd("FLUSHALL").exec(&mut counter.redis).unwrap();
    }
    for ((script, key, way), counted) in &counter.counted {
        println!("{script} {key} {way}: {} of {}, {} more", counted.answered, counted.calls, counted.most);
    }
    let is_long = |script: &str, key: &str, most: i64| {
        // The gifts of a row are looked for among the newest entries; see lua/feed/retraction.
        let exempt = if (script, key) == ("feed_retract", "ledger (list)") { 30_000 } else { 0 };
        most > MORE_ELEMENTS + exempt
    };
    let all = || counter.counted.iter().map(|((script, key, way), it)| (*script, key.as_str(), *way, it));
    let long: Vec<_> = all().filter(|(script, key, _, it)| is_long(script, key, it.most)).collect();
    assert!(long.is_empty(), "{long:?}");
    // Each was measured, and not only refused.
    let refused: Vec<_> = all().filter(|(.., it)| it.answered == 0).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(counter.counted.len() > 400, "{}", counter.counted.len());
}

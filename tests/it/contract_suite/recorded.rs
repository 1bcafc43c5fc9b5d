//! Every script, with the arguments that cases of the suite give it: a Redis and the store in the process, beside each other,
//! answer the same and have the same keys afterwards. And what fails on a key that no script wrote has written nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use redis::Value;
use tipcast::engine::embedded::{Keyspace, Reply, Room, ScriptHost, ScriptText};
use tipcast::engine::protocol::scripts::{self, Script};

use crate::embedded::clock::Bench;
use crate::support::case::{Case, CaseFn};
use crate::support::redis_server::RedisServer;
use crate::support::stores::{Corner, Storage};

/// The words of a line of MONITOR: each in quotes, with escapes.
fn words_of(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'"' {
            continue;
        }
        let mut word = Vec::new();
        loop {
            match bytes.next().expect("the end of a word") {
                b'"' => break,
                b'\\' => word.push(match bytes.next().unwrap() {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                        u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
                    }
                    other => other,
                }),
                other => word.push(other),
            }
        }
        words.push(word);
    }
    words
}

/// What clients ask of a Redis from now on.
pub(super) fn monitor(server: &RedisServer) -> Receiver<Vec<Vec<u8>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            // Not what scripts do themselves.
            if !line.contains(" lua] ") && tell.send(words_of(&line)).is_err() {
                return;
            }
        }
    });
    told
}

/// What was asked until this mark was.
pub(super) fn until_mark(told: &Receiver<Vec<Vec<u8>>>, server: &RedisServer) -> Vec<Vec<Vec<u8>>> {
    redis::cmd("ECHO").arg("the end of a case").exec(&mut server.connect()).unwrap();
    told.iter().take_while(|words| words.last().is_none_or(|word| word != b"the end of a case")).collect()
}

fn ours(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(bytes) => Reply::Bulk(bytes),
        Value::Okay => Reply::Status("OK"),
        Value::Array(all) => Reply::Array(all.into_iter().map(ours).collect()),
        other => panic!("{other:?}"),
    }
}

/// Without the order in which a hash gives its fields, which is nobody's to rely on.
fn sorted(reply: Reply) -> Reply {
    match reply {
        Reply::Array(mut all) => {
            all.sort_by_key(|it| format!("{it:?}"));
            Reply::Array(all)
        }
        reply => reply,
    }
}

type Stored = BTreeMap<Vec<u8>, (String, BTreeSet<Vec<u8>>)>;

fn stored_in_redis(redis: &mut redis::Connection) -> Stored {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let pairs = |all: Vec<Vec<u8>>| all.chunks(2).map(|pair| [&*pair[0], b"=", &*pair[1]].concat()).collect();
    let mut all = Stored::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(redis).unwrap();
        let content: Vec<Vec<u8>> = match kind.as_str() {
            "string" => vec![redis::cmd("GET").arg(&key).query(redis).unwrap()],
            "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(redis).unwrap(),
            "hash" => pairs(redis::cmd("HGETALL").arg(&key).query(redis).unwrap()),
            "zset" => {
                pairs(redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").query(redis).unwrap())
            }
            // Gone meanwhile.
            _ => continue,
        };
        all.insert(key, (kind, content.into_iter().collect()));
    }
    all
}

/// Every key with what DUMP says of it, and how long it has to live.
fn dumped(redis: &mut redis::Connection) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let mut all = Vec::new();
    for key in keys {
        let (dump, ttl): (Option<Vec<u8>>, i64) =
            redis::pipe().cmd("DUMP").arg(&key).cmd("PTTL").arg(&key).query(redis).unwrap();
        // One without a dump expired meanwhile.
        all.extend(dump.map(|dump| (key, dump, ttl.max(0))));
    }
    all
}

fn restore(redis: &mut redis::Connection, all: &[(Vec<u8>, Vec<u8>, i64)]) {
    let mut pipe = redis::pipe();
    pipe.cmd("FLUSHALL");
    for (key, dump, ttl) in all {
        pipe.cmd("RESTORE").arg(key).arg(ttl).arg(dump);
    }
    pipe.exec(redis).unwrap();
}

/// The commands that make a key what no script wrote, one way each: of another type, and with other content.
fn garblings(redis: &mut redis::Connection, key: &[u8]) -> Vec<Vec<Vec<Vec<u8>>>> {
    let command = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let kind: String = redis::cmd("TYPE").arg(key).query(redis).unwrap();
    let other: &[u8] = if kind == "string" { b"RPUSH" } else { b"SET" };
    let mut ways = vec![vec![command(&[b"DEL", key]), command(&[other, key, GARBAGE])]];
    // What was cut, as by a copy that stopped.
    let half = |text: Vec<u8>| text[..text.len() / 2].to_vec();
    match kind.as_str() {
        "string" => {
            let cut = half(redis::cmd("GET").arg(key).query(redis).unwrap());
            ways.extend([GARBAGE, b"1 2 3", &cut].map(|text| vec![command(&[b"SET", key, text])]));
        }
        "list" => {
            let ends = [b"0".as_slice(), b"-1"];
            let cut = half(redis::cmd("LINDEX").arg(key).arg(0).query(redis).unwrap());
            ways.extend(
                [GARBAGE, &cut].map(|text| ends.map(|at| command(&[b"LSET", key, at, text])).to_vec()),
            );
        }
        "hash" => {
            let all: Vec<(Vec<u8>, Vec<u8>)> = redis::cmd("HGETALL").arg(key).query(redis).unwrap();
            ways.push(all.iter().map(|(field, _)| command(&[b"HSET", key, field, GARBAGE])).collect());
            ways.push(
                all.into_iter().map(|(field, text)| command(&[b"HSET", key, &field, &half(text)])).collect(),
            );
        }
        "zset" => ways.push(vec![command(&[b"ZADD", key, b"1", GARBAGE])]),
        _ => {}
    }
    ways
}

/// No number, no JSON, no record.
const GARBAGE: &[u8] = b"what nobody wrote";

/// How often each script is called with every key garbled.
const GARBLED_CALLS: u32 = 2;

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Puts a time into a call where each side would take that of its own clock.
pub(super) fn timed(script: &Script, words: &mut [Vec<u8>]) {
    let keys: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
    let at = script.header().args.iter().position(|name| *name == "now");
    if let Some(now) = at.and_then(|at| words.get_mut(3 + keys + at)).filter(|now| *now == b"-") {
        *now = now_ms().to_string().into_bytes();
    }
}

/// Commands outside scripts that read or change data; others are about connections.
pub(super) fn is_of_data(name: &str) -> bool {
    matches!(
        name,
        "GET"
            | "MGET"
            | "SET"
            | "DEL"
            | "EXISTS"
            | "HSET"
            | "HGETALL"
            | "HDEL"
            | "HMGET"
            | "PEXPIRE"
            | "ZRANGE"
            | "ZADD"
            | "ZREM"
            | "HGET"
            | "HSCAN"
            | "ZSCAN"
            | "HLEN"
            | "ZCARD"
            | "ZRANGEBYSCORE"
            | "LRANGE"
    )
}

struct Sides {
    redis: redis::Connection,
    host: ScriptHost,
    scripts: HashMap<Vec<u8>, &'static Script>,
    seen: BTreeMap<&'static str, u32>,
    /// Replies that were the same only without their order.
    reordered: u32,
    /// Calls that failed because of what a key held.
    garbled: u32,
    /// Those of them that had written something.
    halves: BTreeSet<String>,
}

impl Sides {
    fn replay(&mut self, story: &str, mut words: Vec<Vec<u8>>) {
        if let Some(script) = words.get(1).and_then(|sha| self.scripts.get(sha)) {
            timed(script, &mut words);
        }
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let said = match name.as_str() {
            "EVALSHA" => {
                let script = self.scripts[&words[1]];
                let count: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
                let (keys, args) = borrowed[3..].split_at(count);
                let calls = self.seen.entry(script.name).or_default();
                *calls += 1;
                if *calls <= GARBLED_CALLS {
                    let words = words.clone();
                    self.fails_whole(script.name, &words);
                }
                let text = ScriptText {
                    name: script.name,
                    text: script.source().into(),
                    reads: false,
                    room: Room::Any,
                };
                let (keys, args) = (keys.iter().copied().collect(), args.iter().copied().collect());
                self.host
                    .run(&text, &keys, &args, now_ms())
                    .map_or_else(|e| Reply::Error(e.0), |ran| ran.reply)
            }
            // The mark of the form is Redis' alone.
            "GET" | "SET" if words[1].ends_with(b":form") => return,
            name if is_of_data(name) => self.host.run_command(&borrowed, now_ms()).reply,
            // What is about connections.
            _ => return,
        };
        let mut command = redis::cmd(&name);
        words[1..].iter().for_each(|word| _ = command.arg(word));
        let wanted = match command.query::<Value>(&mut self.redis) {
            Ok(value) => ours(value),
            Err(error) => Reply::Error(error.code().unwrap_or_default().to_owned()),
        };
        let story = || {
            format!(
                "{story}: {name} {:?}",
                borrowed.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>()
            )
        };
        match (&said, &wanted) {
            (Reply::Error(said), Reply::Error(code)) => {
                assert!(said.starts_with(code.as_str()), "{}: {said}", story())
            }
            _ if said == wanted => {}
            _ => {
                self.reordered += 1;
                assert_eq!(sorted(said), sorted(wanted), "{}", story());
            }
        }
    }

    /// A call that fails, because a key holds what no script wrote, has written nothing.
    fn fails_whole(&mut self, name: &str, words: &[Vec<u8>]) {
        let count: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
        let before = dumped(&mut self.redis);
        for key in &words[3..3 + count] {
            for way in garblings(&mut self.redis, key) {
                for command in &way {
                    let mut it = redis::cmd(std::str::from_utf8(&command[0]).unwrap());
                    command[1..].iter().for_each(|word| _ = it.arg(word));
                    it.exec(&mut self.redis).unwrap();
                }
                let mut garbled = stored_in_redis(&mut self.redis);
                let mut call = redis::cmd("EVALSHA");
                words[1..].iter().for_each(|word| _ = call.arg(word));
                let said = call.query::<Value>(&mut self.redis);
                if let Err(error) = said {
                    self.garbled += 1;
                    let now = stored_in_redis(&mut self.redis);
                    let may_expire = |key: &Vec<u8>| {
                        before.iter().any(|(it, _, ttl)| it == key && (1..2_000).contains(ttl))
                    };
                    garbled.retain(|key, _| now.contains_key(key) || !may_expire(key));
                    if now != garbled {
                        let key = String::from_utf8_lossy(key);
                        let key = key.rsplit_once("}:").map_or(&*key, |(_, name)| name);
                        self.halves.insert(format!("{name}, with {key} garbled: {error}"));
                    }
                }
                restore(&mut self.redis, &before);
            }
        }
    }

    fn have_the_same(&mut self, story: &str) {
        let mut wanted = stored_in_redis(&mut self.redis);
        let now = now_ms();
        let all = self.host.with_space(|space| space.dump()).into_iter();
        let alive = all.filter(|(_, (_, _, until))| until.is_none_or(|until| until > now));
        let mut here: Stored = alive
            .map(|(key, (kind, content, _))| (key, (kind.to_owned(), content.into_iter().collect())))
            .collect();
        // What expired between the two looks, on either side.
        let mut is_there =
            |key: &[u8]| redis::cmd("EXISTS").arg(key).query::<u8>(&mut self.redis).unwrap() == 1;
        here.retain(|key, _| wanted.contains_key(key) || is_there(key));
        wanted.retain(|key, _| here.contains_key(key) || is_there(key));
        for (key, wanted) in &wanted {
            let name = String::from_utf8_lossy(key);
            assert_eq!(here.get(key), Some(wanted), "{story}: {name}");
        }
        assert_eq!(here.len(), wanted.len(), "{story}");
    }
}

/// A gift that waits and cannot be read is set aside.
async fn a_spoiled_gift(t: Case) {
    let Storage::Redis(corner) = &t.store else { unreachable!() };
    let (later, corner) = (format!("{}{{{}}}:later", corner.prefix, t.feed), corner.clone());
    let spoil = move |id: &str| {
        redis::cmd("HSET").arg(&later).arg(id).arg("no gift").exec(&mut corner.server.connect()).unwrap();
    };
    crate::due::entries::spoiled_gifts_are_given_up_and_hold_up_nobody(t, Box::new(spoil)).await;
}

/// What was made while the clock was ahead is put right, on a Redis whose callers' clock counts.
async fn a_clock_that_was_ahead(t: Case) {
    crate::embedded::clock::made_a_year_ahead(Bench::of(t.engine.store().clone(), t.feed, t.now)).await;
}

/// The cases whose calls are looked at.
pub(super) fn cases() -> Vec<(&'static str, CaseFn)> {
    let suites = [
        super::combos::cases(),
        super::dedup::cases(),
        super::drops::cases(),
        super::history::cases(),
        super::moderation::cases(),
        super::requests::cases(),
        super::review::cases(),
        super::scheduled::cases(),
        super::sources::cases(),
        super::viewers::cases(),
        super::reports::groups::cases(),
        super::reports::hooks::cases(),
        super::reports::jobs::cases(),
        super::reports::letters::cases(),
        super::reports::ledger::cases(),
        super::reports::deltas::cases(),
        crate::totals::cases(),
    ];
    let spoiled: CaseFn = |case| Box::pin(a_spoiled_gift(case));
    let ahead: CaseFn = |case| Box::pin(a_clock_that_was_ahead(case));
    let alone = [("a spoiled gift", spoiled), ("a clock that was ahead", ahead)];
    suites.into_iter().flatten().chain(alone).collect()
}

#[tokio::test]
async fn every_script_answers_and_writes_in_this_process_what_it_does_in_redis() {
    let (server, other) = (Arc::new(RedisServer::start()), RedisServer::start());
    let told = monitor(&server);
    let mut sides = Sides {
        redis: other.connect(),
        host: ScriptHost::new(Keyspace::default()).unwrap(),
        scripts: HashMap::new(),
        seen: BTreeMap::new(),
        reordered: 0,
        garbled: 0,
        halves: BTreeSet::new(),
    };
    for script in scripts::ALL {
        let sha: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(script.source()).query(&mut sides.redis).unwrap();
        sides.scripts.insert(sha.into_bytes(), script);
    }
    let mut calls = 0;
    for (name, case) in cases() {
        case(Case::on(Storage::Redis(Corner::of(server.clone()))).await).await;
        for words in until_mark(&told, &server) {
            calls += 1;
            sides.replay(name, words);
        }
        sides.have_the_same(name);
        // Each case has its own corner, and nothing else is looked at again.
        redis::cmd("FLUSHALL").exec(&mut sides.redis).unwrap();
        sides.host.with_space(|space| *space = Keyspace::default());
    }
    let missing: Vec<_> =
        scripts::ALL.iter().map(|it| it.name).filter(|it| !sides.seen.contains_key(it)).collect();
    println!("{calls} calls, {} replies in another order; {:?}", sides.reordered, sides.seen);
    println!("{} calls failed on a garbled key", sides.garbled);
    assert!(sides.garbled > 100, "{}", sides.garbled);
    assert_eq!(sides.halves, BTreeSet::new());
    // Of a cluster alone, and of readiness.
    assert_eq!(missing, ["hooks_copy", "probe"]);
}

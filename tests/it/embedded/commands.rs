//! The commands of the store in the process, beside a real Redis: the same replies and the same data, whatever comes; then
//! everything taken back from the end; and the effects alone give the same data again.

use std::collections::BTreeMap;

use redis::Value;
use tipcast::engine::embedded::{
    Changes, Effect, Keyspace, Replay, Reply, Room, ScriptHost, ScriptText, Words,
};

use crate::support::dice::{Dice, seeds};
use crate::support::redis_server::RedisServer;

/// A key's kind, content and whether it expires.
type Data = BTreeMap<Vec<u8>, (String, Vec<Vec<u8>>, bool)>;

const KEYS: &[&str] = &["a", "b", "c", "d", "e", "f"];
const NAMES: &[&str] = &["", "x", "y", "z", "yy", "é\0", "10", "a longer name"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "-2",
    "5",
    "-100",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "",
    "x",
    "01",
    "+1",
    " 1",
];
const SCORES: &[&str] =
    &["0", "1", "2", "3", "-1", "0.1", "1e300", "inf", "-inf", "9007199254740993", "nan", "x", "", "1.5"];
const SCORE_BOUNDS: &[&str] = &["-inf", "+inf", "0", "(0", "1", "(1", "2", "(2", "(0.1", "-1", "x", "(", "3"];
const LEX_BOUNDS: &[&str] = &["-", "+", "[x", "(x", "[y", "(y", "[", "(", "[yy", "x", "[z"];

/// A command with words that are mostly right, and sometimes for a key of another kind.
pub fn some_command(dice: &mut Dice) -> Vec<String> {
    // Mostly a key of the kind's own, so that there is something in it.
    let key =
        |dice: &mut Dice, own: &str| if dice.one_in(12) { dice.of(KEYS).to_owned() } else { own.to_owned() };
    let number = |dice: &mut Dice| {
        if dice.one_in(6) { dice.of(NUMBERS).to_owned() } else { (dice.below(8) as i64 - 3).to_string() }
    };
    let name = |dice: &mut Dice| {
        if dice.one_in(4) { format!("n{}", dice.below(40)) } else { dice.of(NAMES).to_owned() }
    };
    let score = |dice: &mut Dice| {
        if dice.one_in(2) { dice.of(SCORES).to_owned() } else { dice.below(20).to_string() }
    };
    let many = |dice: &mut Dice, one: &dyn Fn(&mut Dice) -> Vec<String>| -> Vec<String> {
        (0..1 + dice.below(3)).flat_map(|_| one(dice)).collect()
    };
    let lifetime =
        |dice: &mut Dice| dice.of(&["100000", "200000", "0", "-5", "x", "9223372036854775807"]).to_owned();
    let (string, hash, list, set) = ("a", "b", "c", dice.of(&["d", "e"]));
    let limit = |dice: &mut Dice| match dice.below(3) {
        0 => vec!["LIMIT".to_owned(), number(dice), number(dice)],
        _ => vec![],
    };
    let mut words: Vec<String> = match dice.below(44) {
        0 => vec!["GET".into(), key(dice, string)],
        1 => [vec!["MGET".into()], many(dice, &|dice| vec![dice.of(KEYS).to_owned()])].concat(),
        2 | 3 => vec!["SET".into(), key(dice, string), name(dice)],
        4 => vec!["SET".into(), key(dice, string), name(dice), "PX".into(), lifetime(dice)],
        5 => vec!["SET".into(), key(dice, string), name(dice), "PX".into(), lifetime(dice), "GET".into()],
        6 => {
            vec!["SET".into(), key(dice, string), name(dice), dice.of(&["KEEPTTL", "keepttl", "XX Y"]).into()]
        }
        7 => vec!["SET".into(), key(dice, string), name(dice), "px".into(), lifetime(dice)],
        8 => vec!["GET".into(), key(dice, string)],
        9 => [vec![dice.of(&["DEL", "UNLINK"]).into()], many(dice, &|dice| vec![dice.of(KEYS).to_owned()])]
            .concat(),
        10 => [vec!["EXISTS".into()], many(dice, &|dice| vec![dice.of(KEYS).to_owned()])].concat(),
        11 => vec!["PEXPIRE".into(), dice.of(KEYS).into(), lifetime(dice)],
        12 => vec!["PERSIST".into(), dice.of(KEYS).into()],
        13 => vec!["HGET".into(), key(dice, hash), name(dice)],
        14 => [vec!["HMGET".into(), key(dice, hash)], many(dice, &|dice| vec![name(dice)])].concat(),
        15 | 16 => [vec!["HSET".into(), key(dice, hash)], many(dice, &|dice| vec![name(dice), number(dice)])]
            .concat(),
        17 => [vec!["HDEL".into(), key(dice, hash)], many(dice, &|dice| vec![name(dice)])].concat(),
        18 => vec!["HLEN".into(), key(dice, hash)],
        19 => vec!["HEXISTS".into(), key(dice, hash), name(dice)],
        20 => vec![dice.of(&["HKEYS", "HVALS", "HGETALL"]).into(), key(dice, hash)],
        21 => vec!["HINCRBY".into(), key(dice, hash), name(dice), number(dice)],
        22 => vec!["LLEN".into(), key(dice, list)],
        23 => vec!["LINDEX".into(), key(dice, list), number(dice)],
        24 => vec!["LRANGE".into(), key(dice, list), number(dice), number(dice)],
        25 => vec!["LTRIM".into(), key(dice, list), number(dice), number(dice)],
        26 => vec!["LSET".into(), key(dice, list), number(dice), name(dice)],
        27 => [vec!["LPUSH".into(), key(dice, list)], many(dice, &|dice| vec![name(dice)])].concat(),
        28 | 29 => [vec!["RPUSH".into(), key(dice, list)], many(dice, &|dice| vec![name(dice)])].concat(),
        30 | 31 => {
            [vec!["ZADD".into(), key(dice, set)], many(dice, &|dice| vec![score(dice), name(dice)])].concat()
        }
        32 => [
            vec!["ZADD".into(), key(dice, set), "LT".into()],
            many(dice, &|dice| vec![score(dice), name(dice)]),
        ]
        .concat(),
        33 => [vec!["ZREM".into(), key(dice, set)], many(dice, &|dice| vec![name(dice)])].concat(),
        34 => vec!["ZCARD".into(), key(dice, set)],
        35 => vec![dice.of(&["ZSCORE", "ZRANK"]).into(), key(dice, set), name(dice)],
        36 => [vec!["ZMSCORE".into(), key(dice, set)], many(dice, &|dice| vec![name(dice)])].concat(),
        37 => {
            vec!["ZCOUNT".into(), key(dice, set), dice.of(SCORE_BOUNDS).into(), dice.of(SCORE_BOUNDS).into()]
        }
        38 => [
            vec!["ZRANGE".into(), key(dice, set), number(dice), number(dice)],
            dice.of(&[vec![], vec!["WITHSCORES".to_owned()], vec!["REV".to_owned()]]),
        ]
        .concat(),
        39 => [
            vec![
                "ZRANGE".into(),
                key(dice, set),
                dice.of(SCORE_BOUNDS).into(),
                dice.of(SCORE_BOUNDS).into(),
                "BYSCORE".into(),
            ],
            limit(dice),
        ]
        .concat(),
        40 => [
            vec![
                "ZRANGEBYSCORE".into(),
                key(dice, set),
                dice.of(SCORE_BOUNDS).into(),
                dice.of(SCORE_BOUNDS).into(),
            ],
            dice.of(&[vec![], vec!["WITHSCORES".to_owned()]]),
            limit(dice),
        ]
        .concat(),
        // Ranges of members are only defined where all scores are one: this key has such.
        41 => match dice.below(4) {
            0 => vec!["ZADD".into(), "f".into(), "0".into(), name(dice)],
            1 => vec!["ZLEXCOUNT".into(), "f".into(), dice.of(LEX_BOUNDS).into(), dice.of(LEX_BOUNDS).into()],
            2 => [
                vec![
                    "ZRANGEBYLEX".into(),
                    "f".into(),
                    dice.of(LEX_BOUNDS).into(),
                    dice.of(LEX_BOUNDS).into(),
                ],
                limit(dice),
            ]
            .concat(),
            _ => [
                vec![
                    "ZRANGE".into(),
                    "f".into(),
                    dice.of(LEX_BOUNDS).into(),
                    dice.of(LEX_BOUNDS).into(),
                    "BYLEX".into(),
                ],
                dice.of(&[vec![], vec!["REV".to_owned()]]),
                limit(dice),
            ]
            .concat(),
        },
        42 => vec!["ZREMRANGEBYRANK".into(), key(dice, set), number(dice), number(dice)],
        _ => vec![
            dice.of(&["HGETALL", "LPUSH", "ZADD", "GET", "PEXPIRE", "HSET", "NOSUCH"]).into(),
            key(dice, string),
        ],
    };
    if dice.one_in(200) {
        words.pop();
    }
    words
}

/// Redis' answer in our shape.
fn reply_of(value: Result<Value, redis::RedisError>) -> Reply {
    match value {
        Ok(Value::Nil) => Reply::Nil,
        Ok(Value::Int(number)) => Reply::Int(number),
        Ok(Value::BulkString(bytes)) => Reply::Bulk(bytes),
        Ok(Value::Okay) => Reply::Status("OK"),
        Ok(Value::Array(all)) => Reply::Array(all.into_iter().map(|it| reply_of(Ok(it))).collect()),
        Ok(Value::ServerError(error)) => Reply::Error(error.code().to_owned()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Reply::Error(error.code().unwrap_or("?").to_owned()),
    }
}

/// Where the order of a reply is nobody's to rely on, it is sorted; of a refusal its code is compared.
pub fn comparable(command: &str, reply: Reply) -> Reply {
    match (command, reply) {
        (_, Reply::Error(words)) => Reply::Error(words.split(' ').next().unwrap_or_default().to_owned()),
        ("HKEYS" | "HVALS", Reply::Array(mut all)) => {
            all.sort_by_key(|it| format!("{it:?}"));
            Reply::Array(all)
        }
        ("HGETALL", Reply::Array(all)) => {
            let mut pairs: Vec<Vec<Reply>> = all.chunks(2).map(<[Reply]>::to_vec).collect();
            pairs.sort_by_key(|it| format!("{it:?}"));
            Reply::Array(pairs.concat())
        }
        (_, reply) => reply,
    }
}

fn ours(space: &Keyspace) -> Data {
    let all = space.dump().into_iter();
    all.map(|(key, (kind, content, until))| (key, (kind.to_owned(), content, until.is_some()))).collect()
}

fn theirs(redis: &mut redis::Connection) -> Data {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let mut all = Data::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(redis).unwrap();
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(redis).unwrap();
        let pairs = |all: Vec<Vec<u8>>| {
            all.chunks(2).map(|pair| [&*pair[0], b"=", &*pair[1]].concat()).collect::<Vec<_>>()
        };
        let content = match kind.as_str() {
            "string" => vec![redis::cmd("GET").arg(&key).query(redis).unwrap()],
            "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(redis).unwrap(),
            "hash" => {
                let mut all = pairs(redis::cmd("HGETALL").arg(&key).query(redis).unwrap());
                all.sort();
                all
            }
            _ => pairs(redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").query(redis).unwrap()),
        };
        all.insert(key, (kind, content, ttl >= 0));
    }
    all
}

#[test]
fn every_command_answers_and_leaves_what_redis_does_and_can_be_taken_back_and_played_again() {
    let server = RedisServer::start();
    let mut redis = server.connect();
    let now = 1_800_000_000_000;
    let mut refused = 0;
    for seed in seeds(0..40) {
        let mut dice = Dice(seed);
        redis::cmd("FLUSHALL").exec(&mut redis).unwrap();
        let (mut space, mut history) = (Keyspace::default(), Vec::<(Changes, Data)>::new());
        let mut log: Vec<Effect> = Vec::new();
        for step in 0..400 {
            let words = some_command(&mut dice);
            let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let (before, mut changes) = (ours(&space), Changes::default());
            let said = comparable(&words[0], space.execute(&bytes, now, &mut changes));
            let mut command = redis::cmd(&words[0]);
            let wanted = comparable(&words[0], reply_of(command.arg(&words[1..]).query(&mut redis)));
            assert_eq!(said, wanted, "seed {seed}, step {step}: {words:?}");
            if matches!(said, Reply::Error(_)) {
                refused += 1;
                assert_eq!(
                    (ours(&space), changes.effects.len()),
                    (before.clone(), 0),
                    "{words:?} was refused and changed something"
                );
            }
            if step % 20 == 19 {
                assert_eq!(ours(&space), theirs(&mut redis), "seed {seed}, step {step}: {words:?}");
            }
            log.extend(changes.effects.iter().cloned());
            history.push((changes, before));
        }
        let after = ours(&space);
        // What a log says gives the same data, also when it is read twice.
        for times in 1..=2 {
            let mut replay = Replay::default();
            (0..times).for_each(|_| log.iter().for_each(|effect| replay.apply(effect)));
            let (played, broken) = replay.finish();
            assert_eq!((&ours(&played), broken.len()), (&after, 0), "seed {seed}, played {times} times");
        }
        while let Some((mut changes, before)) = history.pop() {
            space.undo(&mut changes);
            assert_eq!(ours(&space), before, "seed {seed}: taken back to step {}", history.len());
        }
        assert!(space.is_empty());
    }
    assert!(refused > 200 || std::env::var("TIPCAST_SEED").is_ok(), "{refused}");
}

#[test]
fn expired_keys_are_invisible_and_collected_later() {
    let (mut space, mut changes) = (Keyspace::default(), Changes::default());
    let mut run = |words: &[&str], now: i64| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        space.execute(&words, now, &mut changes)
    };
    run(&["SET", "s", "v", "PX", "100"], 1_000);
    run(&["HSET", "h", "f", "v"], 1_000);
    run(&["PEXPIRE", "h", "100"], 1_000);
    assert_eq!(run(&["EXISTS", "s", "h"], 1_099), Reply::Int(2));
    assert_eq!(run(&["EXISTS", "s", "h"], 1_100), Reply::Int(0));
    assert_eq!(run(&["GET", "s"], 1_100), Reply::Nil);
    assert_eq!(run(&["DEL", "s"], 1_100), Reply::Int(0), "it was gone before");
    // Written anew it is another one, which does not expire.
    assert_eq!(run(&["HSET", "h", "g", "w"], 1_200), Reply::Int(1));
    assert_eq!(run(&["HGETALL", "h"], 9_999), Reply::texts([b"g".to_vec(), b"w".to_vec()]));
    run(&["SET", "t", "v", "PX", "100"], 2_000);
    let mut collected = Changes::default();
    run(&["RPUSH", "l", "v"], 2_000);
    run(&["PEXPIRE", "l", "100"], 2_000);
    // Some seconds later: nobody looks for what has expired at every step.
    let gone = [4_999, 5_000, 5_000].map(|now| space.collect_garbage(now, 10, &mut collected, |_, _| ()));
    assert_eq!((gone, space.len()), ([0, 2, 0], 1));
    // What is read back leaves out strings that have expired; what else has expired must be said.
    assert_eq!(collected.effects, [Effect::Deleted { key: b"l".as_slice().into() }]);
}

#[test]
fn a_walk_over_keys_finds_every_collection_that_stays_and_no_string() {
    let (mut space, mut changes) = (Keyspace::default(), Changes::default());
    for n in 0..500 {
        space.execute(&[b"RPUSH", format!("list {n}").as_bytes(), b"x"], 0, &mut changes);
        space.execute(&[b"SET", format!("list string {n}").as_bytes(), b"x"], 0, &mut changes);
    }
    let (mut cursor, mut seen, mut steps) = (b"0".to_vec(), std::collections::BTreeSet::new(), 0);
    loop {
        let reply = space.execute(&[b"SCAN", &cursor, b"MATCH", b"list *", b"COUNT", b"20"], 0, &mut changes);
        let Reply::Array(parts) = reply else { panic!("{reply:?}") };
        let [Reply::Bulk(next), Reply::Array(found)] = &parts[..] else { panic!("{parts:?}") };
        assert!(found.len() <= 21);
        seen.extend(found.iter().map(|it| format!("{it:?}")));
        // Others go meanwhile.
        space.execute(&[b"DEL", format!("list {}", 2 * steps + 1).as_bytes()], 0, &mut changes);
        steps += 1;
        cursor = next.clone();
        if cursor == b"0" {
            break;
        }
    }
    let name = |n: i32| format!("{:?}", Reply::Bulk(format!("list {n}").into_bytes()));
    assert!((0..500).step_by(2).all(|n| seen.contains(&name(n))) && steps > 20, "{steps}");
    assert!(!seen.iter().any(|it| it.contains("string")));
}

#[test]
fn large_collections_answer_as_redis_does() {
    let server = RedisServer::start();
    let mut redis = server.connect();
    let (mut space, mut changes) = (Keyspace::default(), Changes::default());
    let mut dice = Dice(11);
    let mut both = |words: Vec<String>| {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let said = comparable(&words[0], space.execute(&bytes, 0, &mut changes));
        let wanted =
            comparable(&words[0], reply_of(redis::cmd(&words[0]).arg(&words[1..]).query(&mut redis)));
        assert_eq!(said, wanted, "{words:?}");
    };
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for _ in 0..60 {
        let members: Vec<String> = (0..200)
            .flat_map(|_| [dice.below(500).to_string(), format!("member {}", dice.below(9_000))])
            .collect();
        both([words("ZADD scores"), members.clone()].concat());
        both([words("HSET fields"), members.iter().rev().cloned().collect()].concat());
        both(
            [
                words("ZADD names"),
                members.chunks(2).flat_map(|pair| ["0".to_owned(), pair[1].clone()]).collect(),
            ]
            .concat(),
        );
        both(
            [words("ZREM names"), members.chunks(2).take(20).map(|pair| pair[1].clone()).collect()].concat(),
        );
        both(
            [words("HDEL fields"), members.chunks(2).take(20).map(|pair| pair[1].clone()).collect()].concat(),
        );
        let (from, score) = (dice.below(6_000), dice.below(500));
        both(words(&format!("ZRANGE scores {from} {} WITHSCORES", from + 20)));
        both(words(&format!("ZRANGE scores -{} -{} REV", from + 20, from + 1)));
        both(words(&format!("ZCOUNT scores ({score} {}", score + 9)));
        both(words(&format!("ZRANGEBYSCORE scores {score} +inf WITHSCORES LIMIT 3 40")));
        both(vec!["ZLEXCOUNT".into(), "names".into(), format!("[member {from}"), "+".into()]);
        both(vec![
            "ZRANGEBYLEX".into(),
            "names".into(),
            format!("(member {from}"),
            "+".into(),
            "LIMIT".into(),
            "0".into(),
            "30".into(),
        ]);
        both(words(&format!("ZREMRANGEBYRANK scores {from} {}", from + 30)));
        for command in
            ["ZCARD scores", "ZCARD names", "HLEN fields", "ZRANGE scores 0 -1 WITHSCORES", "HGETALL fields"]
        {
            both(words(command));
        }
    }
    assert_eq!(ours(&space), theirs(&mut redis));
    // A scan in steps gives each field once where nothing changes meanwhile.
    let (mut cursor, mut seen) = (b"0".to_vec(), Vec::new());
    loop {
        let Reply::Array(parts) =
            space.execute(&[b"HSCAN", b"fields", &cursor, b"COUNT", b"100"], 0, &mut changes)
        else {
            panic!()
        };
        let [Reply::Bulk(next), Reply::Array(found)] = &parts[..] else { panic!("{parts:?}") };
        assert!(found.len() <= 202);
        seen.extend(found.chunks(2).map(|pair| format!("{:?}", pair[0])));
        cursor = next.clone();
        if cursor == b"0" {
            break;
        }
    }
    let fields = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(Reply::Int(seen.len() as i64), space.execute(&[b"HLEN", b"fields"], 0, &mut changes));
    assert_eq!(fields, seen.len());
    space.undo(&mut changes);
    assert!(space.is_empty());
}

/// Runs a script in a Redis and in this process, where it must answer the same: the answer of this process.
fn on_both_sides(server: &RedisServer) -> impl FnMut(&'static str, &[&[u8]]) -> Reply {
    let mut redis = server.connect();
    let host = ScriptHost::new(Keyspace::default()).unwrap();
    move |script, args| {
        let text = ScriptText { name: script, text: script.into(), reads: false, room: Room::Any };
        let answer = match host.run(&text, &Words::default(), &args.iter().copied().collect(), 0) {
            Ok(run) => run.reply,
            Err(error) => Reply::Error(error.0),
        };
        let wanted = reply_of(redis::cmd("EVAL").arg(script).arg(0).arg(args).query(&mut redis));
        match (&answer, &wanted) {
            (Reply::Error(_), Reply::Error(_)) => {}
            _ => assert_eq!(answer, wanted, "{script} {args:?}"),
        }
        answer
    }
}

#[test]
fn packed_values_equal_those_of_redis() {
    let server = RedisServer::start();
    let mut both = on_both_sides(&server);
    let values = "local f = {}
        for n = 1, #ARGV do f[n] = tonumber(ARGV[n]) or ARGV[n] end
        local t = cmsgpack.pack({ f, 'x', { 1, { true, false, f[1] } }, {} }, f[1])
        local all, first = cmsgpack.unpack(t)
        return { t, cmsgpack.pack(all), cmsgpack.pack(first), #all }";
    for size in [0, 1, 31, 32, 255, 256, 65_535, 65_536] {
        let text = vec![b'x'; size];
        both(values, &[&text, b"1"]);
    }
    let numbers = [
        "0",
        "127",
        "128",
        "255",
        "256",
        "65535",
        "65536",
        "4294967295",
        "4294967296",
        "9007199254740993",
        "1e300",
        "-1",
        "-32",
        "-33",
        "-128",
        "-129",
        "-32768",
        "-32769",
        "-2147483648",
        "-2147483649",
        "-9007199254740992",
        "0.5",
        "0.1",
        "-1.25",
    ];
    for number in numbers {
        both(values, &[number.as_bytes(), b"text"]);
    }
    both(values, &numbers.map(str::as_bytes));
    // A map of one name, whose order is nobody's.
    both("return cmsgpack.pack({ name = { 1, 2 } })", &[]);
    both("local t = { 1, 2, 3 } t[5] = 5 t[8] = 8 return cmsgpack.pack(t)", &[]);
    // What is no message, or is cut, is refused, and so is a format that nobody knows.
    for text in [&b"\xd9"[..], b"\xdc\xff\xff\x01", b"\xc1", b"\xa5abc", b"\x92\x01"] {
        assert!(
            matches!(both("return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))", &[text]), Reply::Error(_)),
            "{text:?}"
        );
    }
}

/// What scripts read and write as JSON. The order of an object's members is that of Lua's tables, which is no order.
#[test]
fn json_is_read_and_written_as_redis_does() {
    let server = RedisServer::start();
    let mut both = on_both_sides(&server);
    let through = "return cjson.encode(cjson.decode(ARGV[1]))";
    let digits = "return string.format('%.17g', cjson.decode(ARGV[1]))";
    for number in [
        "0",
        "-0",
        "1",
        "-1",
        "0.1",
        "-0.25",
        "1e3",
        "1E+3",
        "1e-7",
        "123456789012345",
        "12345678901234567",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551615",
        "1e300",
        "99999999999999",
        "100000000000000",
        "0.1e1",
        "3.141592653589793",
    ] {
        both(through, &[number.as_bytes()]);
        both(digits, &[number.as_bytes()]);
    }
    let texts = [
        r#""""#,
        r#""plain""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u0000\u0001\u001f\u007f""#,
        r#""a/b""#,
        r#""Zoë ☃ 名無し""#,
        r#""\u00e9\u2603\ud83d\ude00""#,
        r#"null"#,
        r#"true"#,
        r#"[false,null,"x"]"#,
        r#"[]"#,
        r#"{}"#,
        r#"[[],{},[1]]"#,
        r#"{"a":1}"#,
        r#"{"a":{"b":["c",{"d":null}]}}"#,
        r#" { "a" : [ 1 , 2 ] } "#,
        r#"{"a":1,"a":2}"#,
        "[1,[2,[3,[4]]]]",
    ];
    for text in texts {
        both(through, &[text.as_bytes()]);
    }
    for code in [
        "return cjson.encode({ 1, 2, nil, 4 })",
        "return cjson.encode({ [3] = 'x' })",
        "return cjson.encode({ [1] = 'x', [10] = 'y' })",
        "return cjson.encode({ [20] = 'x' })",
        "return cjson.encode({ [-1] = 'x' })",
        "return cjson.encode({ [1.5] = 'x' })",
        "return cjson.encode({ [true] = 'x' })",
        "return cjson.encode(1 / 0)",
        "return cjson.encode(0 / 0)",
        "return cjson.encode(print)",
        "return cjson.encode(nil)",
        "return cjson.encode(string.char(0, 31, 127, 128, 255))",
        "local t = {} for _ = 1, 50 do t = { t } end return cjson.encode(t)",
        "return tostring(cjson.decode('null') == cjson.null)",
        "return tostring(cjson.decode('{\"a\":null}').a == cjson.null)",
        "return type(cjson.decode('[1]')[1])",
    ] {
        both(code, &[]);
    }
    for damaged in [
        "",
        "{",
        "[1",
        r#"{"a"}"#,
        r#"{"a":}"#,
        "tru",
        "1 2",
        r#""open"#,
        r#""\x""#,
        r#""\ud800""#,
        "[1,]",
        "{1:2}",
        "'a'",
        "\u{1}",
    ] {
        assert!(matches!(both(through, &[damaged.as_bytes()]), Reply::Error(_)), "{damaged}");
    }
}

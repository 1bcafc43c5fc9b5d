//! Publishing: Redis and the store in the process write the same, and nothing is half written where a feed lost
//! something.

use std::collections::BTreeMap;

use super::*;
use crate::support::dice::{Dice, seeds};
use serde_json::Value;
use tipcast::domain::{Show, row};
use tipcast::engine::embedded::{Changes, Keyspace, Reply, Room, ScriptHost, ScriptText, Words};
use tipcast::engine::protocol::records::{WaitingGift, entry_members, gift_body};
use tipcast::engine::protocol::scripts;

/// A key's type, content and whether it expires.
type Key = (String, Vec<String>, bool);

/// A character for each byte: records may be MessagePack.
fn bytes_as_text(bytes: Vec<u8>) -> String {
    bytes.into_iter().map(char::from).collect()
}

/// Everything that is stored.
fn stored(redis: &mut redis::Connection) -> BTreeMap<String, Key> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    if keys.is_empty() {
        return BTreeMap::new();
    }
    let (mut about, mut contents) = (redis::pipe(), redis::pipe());
    keys.iter().for_each(|key| _ = about.cmd("TYPE").arg(key).cmd("PTTL").arg(key));
    let about: Vec<redis::Value> = about.query(redis).unwrap();
    let about: Vec<(String, i64)> = about
        .chunks(2)
        .map(|it| {
            (redis::from_redis_value(it[0].clone()).unwrap(), redis::from_redis_value(it[1].clone()).unwrap())
        })
        .collect();
    for (key, (kind, _)) in keys.iter().zip(&about) {
        match kind.as_str() {
            "string" => contents.cmd("MGET").arg(key),
            "list" => contents.cmd("LRANGE").arg(key).arg(0).arg(-1),
            "zset" => contents.cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES"),
            "hash" => contents.cmd("HGETALL").arg(key),
            other => panic!("{key} is a {other}"),
        };
    }
    let contents: Vec<Vec<Vec<u8>>> = contents.query(redis).unwrap();
    let all = keys.iter().zip(about).zip(contents);
    all.map(|((key, (kind, ttl)), content)| {
        let mut content: Vec<String> = content.into_iter().map(bytes_as_text).collect();
        if kind == "hash" {
            let mut fields: Vec<String> = content.chunks(2).map(|it| it.join("=")).collect();
            fields.sort();
            content = fields;
        }
        (key.clone(), (kind, content, ttl > 0))
    })
    .collect()
}

fn some_gift(dice: &mut Dice, id: &str) -> Gift {
    let name = dice.of(&["Ann", "Zoë ☃ \"quoted\"", "名無し", "a\\b", "-"]);
    let users = dice.of(&[3, 1_000_000, 1_000_000, 1_000_000]);
    let mut user = json!({"id": format!("u{}", dice.below(users)), "name": name});
    if dice.one_in(4) {
        user["avatar"] = "https://example.com/a.png".into();
    }
    if dice.one_in(6) {
        user["anonymous"] = true.into();
    }
    let mut gift = json!({"id": id, "user": user, "gift": {"id": dice.of(&["rose", "🚀"]), "name": "R"}});
    if dice.one_in(2) {
        gift["count"] = (1 + dice.below(1_000)).into();
    }
    if dice.one_in(2) {
        gift["value"] = json!({"amount": dice.below(1 << 40), "currency": dice.of(&["EUR", "JPY"])});
    }
    if dice.one_in(3) {
        gift["message"] = dice.of(&["hi", "line\nbreak \u{7f} ünï", "👍"]).into();
    }
    if dice.one_in(3) {
        gift["tier"] = dice.below(6).into();
    }
    if dice.one_in(3) {
        gift["meta"] = json!({"k": "v w"});
    }
    match dice.below(200) {
        0 => gift["test"] = true.into(),
        1 => gift["delay_ms"] = dice.below(3_000).into(),
        2 | 3 => {
            gift["combo"] =
                json!({"id": dice.of(&["c", "c d"]), "count": dice.below(50), "end": dice.one_in(4)})
        }
        _ => {}
    }
    gift_of(gift)
}

/// The ARGV of a gift, as `lua/feed/gift.lua` explains them.
fn gift_args(gift: &Gift) -> [String; 9] {
    let combo = row::combo_key(gift).unwrap_or_default();
    let units = gift.combo.as_ref().map_or(gift.count, |combo| combo.count.into());
    let given = match &gift.value {
        Some(value) => {
            format!(r#"{{"units":{units},"amount":{},"currency":"{}"}}"#, value.amount, value.currency)
        }
        None => format!(r#"{{"units":{units}}}"#),
    };
    let show = match gift.show {
        Show::ByPolicy => String::new(),
        Show::After(0) => "-".to_owned(),
        Show::After(ms) => format!("+{ms}"),
        Show::At(at) => at.0.to_string(),
    };
    let ranked = if gift.user.anonymous { "0" } else { "1" };
    [
        gift.fingerprint.to_string(),
        combo,
        given,
        gift_body(gift),
        entry_members(gift),
        ranked.to_owned(),
        gift.user.id.to_string(),
        WaitingGift::text(gift, false),
        show,
    ]
}

/// As MessagePack, which totals are stored as.
fn packed(value: &Value) -> Vec<u8> {
    let sized = |kind: u8, size: usize| vec![kind | u8::try_from(size).unwrap()];
    match value {
        Value::Array(all) => [sized(0x90, all.len()), all.iter().flat_map(packed).collect()].concat(),
        Value::Object(all) => {
            let members = all.iter().flat_map(|(name, value)| [packed(&json!(name)), packed(value)].concat());
            [sized(0x80, all.len()), members.collect()].concat()
        }
        Value::String(text) => [sized(0xa0, text.len()), text.clone().into_bytes()].concat(),
        number => [vec![0xcf], number.as_u64().unwrap().to_be_bytes().to_vec()].concat(),
    }
}

/// The lock of a gift, or how far the combo of a frame is.
fn lock_of(gift: &Gift) -> String {
    match row::combo_key(gift) {
        Some(key) => format!("combo:{key}"),
        None => format!("lock:{}", row::lock_key(gift)),
    }
}

/// The script, keeping what it publishes in a list.
fn with_listed_messages(source: &str) -> String {
    assert!(source.contains("call('SPUBLISH', ARGV[9],"));
    source.replace("call('SPUBLISH', ARGV[9],", "call('RPUSH', ARGV[9],")
}

/// The script on Redis: it keeps what it publishes in a list.
struct OnRedis {
    script: redis::Script,
}

impl OnRedis {
    fn new(source: &str) -> OnRedis {
        OnRedis { script: redis::Script::new(&with_listed_messages(source)) }
    }

    fn key(name: &str) -> String {
        format!("{{room1}}:{name}")
    }

    fn run(
        &self,
        redis: &mut redis::Connection,
        args: &[String],
        gifts: &[Gift],
    ) -> Result<Vec<String>, String> {
        let mut call = self.script.prepare_invoke();
        for name in scripts::PUBLISH.header().keys.iter() {
            call.key(OnRedis::key(name));
        }
        for gift in gifts {
            call.key(OnRedis::key(&format!("id:{}", gift.id))).key(OnRedis::key(&lock_of(gift)));
        }
        for (arg, name) in args.iter().zip(&scripts::PUBLISH.header().args) {
            call.arg(if *name == "live_channel" { OnRedis::key("messages") } else { arg.clone() });
        }
        gifts.iter().for_each(|gift| _ = call.arg(&gift_args(gift)[..]));
        call.invoke::<Vec<String>>(redis).map_err(|error| error.to_string())
    }
}

/// The same script in this process, on data of its own.
struct InProcess {
    host: ScriptHost,
    source: ScriptText,
}

impl InProcess {
    fn key(name: &str) -> String {
        format!("{{room1}}:{name}")
    }

    fn command(&self, name: &str, key: &str, args: &[&[u8]]) {
        let key = InProcess::key(key);
        let words = [&[name.as_bytes(), key.as_bytes()], args].concat();
        self.host.with_space(|space| space.execute(&words, 1_800_000_000_000, &mut Changes::default()));
    }

    fn run(&self, args: &[String], gifts: &[Gift], now: u64) -> Result<Vec<String>, String> {
        let header = scripts::PUBLISH.header();
        let mut keys: Vec<String> = header.keys.iter().map(|name| InProcess::key(name)).collect();
        let mut words = Vec::new();
        for (arg, name) in args.iter().zip(&header.args) {
            words.push(if *name == "live_channel" { InProcess::key("messages") } else { arg.clone() });
        }
        for gift in gifts {
            keys.extend([InProcess::key(&format!("id:{}", gift.id)), InProcess::key(&lock_of(gift))]);
            words.extend(gift_args(gift));
        }
        let [keys, words] = [&keys, &words].map(|all| all.iter().map(|it| it.as_bytes()).collect::<Words>());
        match self.host.run(&self.source, &keys, &words, now as i64).map_err(|error| error.0)?.reply {
            Reply::Array(all) => Ok(all.into_iter().map(text_of).collect()),
            other => Err(format!("{other:?}")),
        }
    }

    fn stored(&self) -> BTreeMap<String, Key> {
        let all = self.host.with_space(|space| space.dump()).into_iter();
        all.map(|(key, (kind, content, until))| {
            let mut content: Vec<String> = content.into_iter().map(bytes_as_text).collect();
            if kind == "zset" {
                // As Redis gives members and scores.
                content = content
                    .iter()
                    .flat_map(|it| it.rsplit_once('='))
                    .flat_map(|(a, b)| [a.into(), b.into()])
                    .collect();
            }
            (String::from_utf8(key).unwrap(), (kind.to_owned(), content, until.is_some()))
        })
        .collect()
    }
}

fn text_of(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        Reply::Int(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn redis_and_the_process_write_the_same_for_random_gifts() {
    let server = RedisServer::start();
    let mut redis = server.connect();
    let remote = OnRedis::new(&scripts::PUBLISH.source());
    let (mut taken, mut refused, mut counted) = (0, 0, 0);
    for seed in seeds(0..60) {
        let mut dice = Dice(seed);
        run(&server, &["FLUSHALL"]);
        let local = InProcess {
            host: ScriptHost::new(Keyspace::default()).unwrap(),
            source: ScriptText {
                reads: false,
                room: Room::Any,
                name: "feed_publish",
                text: with_listed_messages(&scripts::PUBLISH.source()).into(),
            },
        };
        let command = |words: &[&str]| {
            local.command(words[0], words[1], &words[2..].iter().map(|it| it.as_bytes()).collect::<Vec<_>>());
            let mut command = redis::cmd(words[0]);
            command.arg(OnRedis::key(words[1])).arg(&words[2..]);
            command.exec(&mut server.connect()).unwrap();
        };
        let counts = dice.one_in(2);
        let default = json!({
            "capacity": dice.of(&[1, 2, 5, 10]), "dedup": dice.of(&["off", "combine", "drop"]), "dedup_window_ms": 5_000,
            "row_ttl_ms": dice.of(&[0, 0, 0, 0, 0, 0, 0, 2_000]), "delay_ms": 0, "flush_ms": 50,
            "idempotency_window_ms": dice.of(&[86_400_000, 60_000]), "history": dice.of(&[0, 1, 7, 40, 1_024]),
            "review": dice.of(&["off", "off", "off", "off", "messages", "messages", "all"]),
            "review_timeout_ms": 60_000, "review_default": "mask",
            "totals": if counts || dice.one_in(12) { json!(["session", "day"]) } else { json!([]) },
            "time_zone": "UTC", "points": dice.of(&[json!({}), json!({"EUR": 2, "JPY": 1})]),
        });
        if dice.one_in(2) {
            let own = [
                ("capacity", dice.of(&[Value::Null, json!(3)])),
                ("dedup", dice.of(&[Value::Null, json!("off"), json!("drop")])),
                ("dedup_window_ms", dice.of(&[Value::Null, json!(0), json!(700)])),
                ("delay_ms", dice.of(&[Value::Null, Value::Null, Value::Null, json!(0), json!(900)])),
                ("history", dice.of(&[Value::Null, json!(2)])),
                ("review", dice.of(&[Value::Null, Value::Null, Value::Null, json!("messages")])),
            ];
            let own: serde_json::Map<String, Value> = own
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            let policy = serde_json::to_string(&own).unwrap();
            command(&["SET", "policy", &policy]);
        }
        if counts {
            let goal = |by: &str, target: u64| json!({"goal": "mic", "period": "day", "by": by, "target": target, "title": "M"});
            let goals =
                dice.of(&[vec![], vec![goal("points", 9_000_000_000_000)], vec![goal("units", 2_000)]]);
            let totals = json!({
                "last": 2, "notified_at": dice.of(&[1_799_999_999_000_u64, 1_800_000_005_000]), "time_zone": "UTC",
                "periods": "session,day", "goals": goals,
                "runs": [
                    {"number": 1, "period": "session", "state": "open", "since": 1_799_000_000_000_u64},
                    {"number": 2, "period": "day", "state": "open", "since": 1_799_999_000_000_u64, "until": 1_800_000_020_000_u64},
                ],
            });
            let totals = packed(&totals);
            local.command("SET", "totals", &[&totals]);
            redis::cmd("SET").arg(OnRedis::key("totals")).arg(&totals).exec(&mut redis).unwrap();
        }
        let idle = if dice.one_in(16) { "3600000" } else { "0" };
        let bounds = dice.of(&["10000 100000 0", "40 100 0"]);
        let (mut now, mut heads, mut registered) =
            (1_800_000_000_000_u64, vec![["", "", ""].map(str::to_owned)], String::new());
        for n in 0..60 {
            now += dice.below(3) * 400;
            let count = dice.of(&[1, 1, 1, 2, 3, 12]);
            let gifts: Vec<Gift> = (0..count)
                .map(|k| {
                    let again = dice.one_in(30).then(|| format!("g{}-0", dice.below(n + 1)));
                    let id = again.unwrap_or_else(|| format!("g{n}-{k}"));
                    some_gift(&mut dice, &id)
                })
                .collect();
            for gift in &gifts {
                if dice.one_in(4) {
                    continue;
                }
                let name = |text: &str| serde_json::to_string(text).unwrap();
                let (name, til) = (
                    format!("{} {}", name(&gift.user.id), name(&gift.user.name)),
                    (now + dice.below(9) * 10_000).to_string(),
                );
                command(&["ZADD", "approved", &til, &name]);
            }
            if counts && dice.below(3) > 0 {
                let at = (now + 200 - dice.below(2)).to_string();
                command(&["ZADD", "due", &at, "0000000000000000 ttotals"]);
            }
            match dice.below(60) {
                0 => {
                    let lost = dice.of(&["list", "hist", "meta", "ledger", "reports"]);
                    command(&["DEL", lost]);
                }
                1 => command(&["SET", "blocks", "0 1 \"u1\"\n"]),
                2..6 => command(&["DEL", "blocks"]),
                _ => {}
            }
            // A node knows where the feed stands, or stood; sometimes what never was.
            let back = dice.of(&[0, 0, 0, 0, 1, 3]).min(heads.len() - 1);
            let [epoch, seq, mut tag] = heads[heads.len() - 1 - back].clone();
            if dice.one_in(50) && !tag.is_empty() {
                tag = "12345".to_owned();
            }
            let everywhere =
                if dice.one_in(20) { dice.of(&["1", "0"]).repeat(gifts.len()) } else { String::new() };
            let args = [
                &now.to_string(),
                &format!("{:09}aaaaa", 100 + n),
                &(1_000_000 * seed + n + 1).to_string(),
                &epoch,
                &seq,
                &tag,
                &default.to_string(),
                idle,
                "",
                "0",
                "",
                bounds,
                &registered,
                "5",
                &everywhere,
            ]
            .map(str::to_owned);
            let reply = remote.run(&mut redis, &args, &gifts);
            let what = format!("seed {seed}, call {n}: {args:?}");
            let in_process = local.run(&args, &gifts, now);
            match (&in_process, &reply) {
                // A refusal by an error is known by its code.
                (Err(ours), Err(theirs)) => {
                    assert!(theirs.contains(ours.split(['"', ' ']).next().unwrap()), "{ours} {theirs}")
                }
                _ => assert_eq!(in_process, reply, "{what}"),
            }
            assert_eq!(stored(&mut redis), local.stored(), "{what}");
            match &reply {
                Ok(reply) if !reply[0].is_empty() => {
                    taken += 1;
                    counted += u32::from(counts);
                }
                _ => refused += 1,
            }
            match &reply {
                Ok(reply) if reply[0].is_empty() && reply[1] == "register" => {
                    reply[2].clone_into(&mut registered)
                }
                Ok(reply) if !reply[0].is_empty() => {
                    let words: Vec<&str> = reply[0].split(' ').collect();
                    heads.push([words[0], words[1], words[2]].map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    let enough = taken > 750 && refused > 80 && counted > 250;
    assert!(
        enough || std::env::var("TIPCAST_SEED").is_ok(),
        "{taken} taken, {counted} of them counted, {refused} refused"
    );
}

#[tokio::test]
async fn keys_lost_between_gifts_never_leave_half_a_write() {
    let server = RedisServer::start();
    for (key, kept) in [("list", 1), ("hist", 10), ("ledger", 10), ("reports", 10)] {
        for few in [true, false] {
            run(&server, &["FLUSHALL"]);
            let engine = engine_on(&server).await;
            for n in 0..if few { 5 } else { 14 } {
                post(&engine, &format!("g{n}")).await;
            }
            let before = at(&engine).await;
            run(&server, &["DEL", &format!("tc:{{room1}}:{key}")]);
            let entries = || -> u64 {
                redis::cmd("LLEN").arg("tc:{room1}:ledger").query(&mut server.connect()).unwrap()
            };
            let had = entries();
            let after = post(&engine, "next").await.at;
            let wanted = if kept == 10 && few { 6 } else { kept };
            assert_eq!(ids(&engine).await.len(), wanted, "{key} {few}");
            // Without its numbers a ledger begins anew.
            let wanted = if key == "reports" { 1 } else { had + 1 };
            assert_eq!(entries(), wanted, "{key} {few}: one gift, one entry");
            assert_eq!(after.epoch == before.epoch, !matches!(key, "list" | "hist"), "{key} {few}");
            assert_eq!(at(&engine).await, after);
        }
    }
}

/// How many scripts the server has run.
fn script_runs(server: &RedisServer) -> u64 {
    let stats = server.run(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0,");
    line.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_gift_costs_one_run_of_a_script_whoever_posted_before() {
    let server = RedisServer::start();
    let nodes = [engine_on(&server).await, engine_on(&server).await];
    for n in 0..4 {
        post(&nodes[n % 2], &format!("first{n}")).await;
    }
    let before = script_runs(&server);
    for n in 0..20 {
        assert_eq!(post(&nodes[n % 2], &format!("g{n}")).await.at.seq, 5 + n as u64);
    }
    // Others of this process ask now and then for what is due.
    assert!((20..26).contains(&(script_runs(&server) - before)), "{}", script_runs(&server) - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_post_to_one_feed_at_the_same_time_take_every_gift_once() {
    let server = RedisServer::start();
    let options = || StoreOptions::new(server.url());
    let nodes = [Store::redis(options()).await.unwrap(), Store::redis(options()).await.unwrap()];
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200usize {
        let engine = nodes[n % 2].clone();
        calls.spawn(async move {
            let answer = engine.publish(&feed(), vec![gift(&format!("g{n}"))], NOW).await.unwrap().remove(0);
            let again = engine.publish(&feed(), vec![gift(&format!("g{n}"))], NOW).await.unwrap().remove(0);
            let answer = new(answer);
            assert!(matches!(&again, Outcome::Duplicate(same) if same.at == answer.at), "{again:?}");
            answer.at.seq
        });
    }
    let mut all = vec![];
    while let Some(seq) = calls.join_next().await {
        all.push(seq.unwrap());
    }
    all.sort();
    assert_eq!(all, (1..=200).collect::<Vec<u64>>());
}

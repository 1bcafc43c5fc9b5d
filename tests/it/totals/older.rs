//! What versions before spans wrote to Redis is read, added to and taken back exactly.

use serde_json::json;
use tipcast::domain::tally::{LeadersAsk, Period};

use super::{ask, ranking, totals};
use crate::support::case::Case;
use crate::support::gifts::gift;
use crate::support::stores::{Corner, Store};
use tipcast::engine::ReadLeaders;

const DAY: i64 = 1_799_971_200_000;

#[tokio::test]
async fn what_an_older_version_counted_on_redis_goes_on() {
    let corner = Corner::new();
    let mut t = Case::on(Store::Redis(corner.clone())).await;
    t.patch(json!({"totals": ["all", "day"], "points": {"EUR": 2}, "dedup": "off"})).await;
    let row = t.accepted(gift("a").count(3).value(5, "EUR")).await.row.unwrap();
    let feed = t.feed.clone();
    let key = |what: &str| format!("{}{{{feed}}}:{what}", corner.prefix);
    // In one go: the engine's own connections live in this thread.
    let mut pipe = redis::pipe();
    for what in ["count", "tally", "parts", "left", "told", "sums", "gifters", "ranks"] {
        pipe.cmd("DEL").arg(key(what));
    }
    // Twenty have given, one each and then one more each time; ann's gift was taken and not added up.
    let (time, max) = (t.now.0 - 1_000, 253_402_300_799_999_i64);
    let head = format!("{} {} {max} 11.12 EUR:2 {}", DAY - 3_600_000, DAY + 86_400_000, time);
    let all = format!("o all 11 {DAY} {max} 20 210 40 20 EUR=20");
    let day = format!("o day 12 {DAY} {} 20 210 40 20 EUR=20", DAY + 86_400_000);
    let count = format!("{head}\n12 20 -\nall,day UTC EUR:2\n-\n{all}\n{day}\ns\n");
    pipe.cmd("SET").arg(key("count")).arg(&count);
    for n in 1..=20_u64 {
        let user = format!("u{n}");
        let scores = format!("u={n}={n}={time} p=2={n}={time} $EUR=1={n}={time}");
        let text = format!("{{\"id\":\"{user}\",\"name\":\"{user}\"}}\n11 1 {scores}\n12 1 {scores}\n");
        pipe.cmd("HSET").arg(key("gifters")).arg(&user).arg(&text);
        for run in [11, 12] {
            for (code, score) in [("u", n), ("p", 2), ("$EUR", 1)] {
                let member =
                    format!("{run:016} {code} {:016} {n:016} {user}", tipcast::domain::MAX_SAFE - score);
                pipe.cmd("ZADD").arg(key("ranks")).arg(0).arg(&member);
            }
        }
    }
    let entry = format!("+ 11.12 1 3 10 5:EUR r {time}\n{{\"id\":\"ann\",\"name\":\"Ann\"}}\nann");
    pipe.cmd("RPUSH").arg(key("tally")).arg(&entry);
    pipe.cmd("HSET").arg(key("parts")).arg(row.as_str()).arg("11.12 1 3 10 5:EUR r\n\nann");
    let known = corner.server.run(&["GET", &key("id:a")]);
    let plain: Vec<&str> = known.split(' ').take(8).collect();
    let known = format!("{} {max} 11.12 1 3 10 5:EUR r ann", plain.join(" "));
    pipe.cmd("SET").arg(key("id:a")).arg(&known);
    pipe.query::<()>(&mut corner.server.connect()).unwrap();

    let sums = "21 213 21 50 EUR=25";
    assert_eq!((totals(&t, Period::All).await, totals(&t, Period::Day).await), (sums.into(), sums.into()));
    let by_units = ranking(&t, ask(Period::Day, "units")).await;
    assert_eq!(by_units.len(), 21);
    assert_eq!((by_units[0].clone(), by_units[17].clone()), (("u20".into(), 20), ("u3".into(), 3)));
    assert_eq!(by_units[18].0, "ann", "who came to three after u3");
    let user = LeadersAsk { user: Some("u2".into()), limit: 1, ..ask(Period::All, "EUR") };
    let view =
        t.engine.run(ReadLeaders { feed: t.feed.clone(), ask: user, now: t.now }).await.unwrap().unwrap();
    assert_eq!(view.user, Some((3, 1)), "ann has five, and u1 came to one before");
    // A gift joins what was counted before, and another day begins where the old runs go on.
    t.post(gift("b").by("u2").count(9)).await;
    assert_eq!(totals(&t, Period::All).await, "22 222 21 50 EUR=25");
    t.pass(86_400_000);
    t.work().await;
    t.post(gift("c").by("u2").count(1)).await;
    assert_eq!(totals(&t, Period::All).await, "23 223 21 50 EUR=25");
    assert_eq!(totals(&t, Period::Day).await, "1 1 1 0");
    assert_eq!(ranking(&t, ask(Period::All, "units")).await[9], ("u2".into(), 12));
    // Taken back from where it was added.
    t.retract(&row).await;
    assert!(t.take_back("a").await);
    assert_eq!(totals(&t, Period::All).await, "22 220 20 40 EUR=20");
    t.pass(600);
    t.work().await;
    let ranks = corner.server.run(&["ZRANGE", &key("ranks"), "0", "-1"]);
    let is_old =
        |line: &str| ["0000000000000011 ", "0000000000000012 "].iter().any(|old| line.starts_with(old));
    assert!(!ranks.lines().any(is_old), "rankings of old are cleaned up: {ranks}");
}

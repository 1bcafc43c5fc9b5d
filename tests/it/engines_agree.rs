//! A seeded random sequence of calls on the Redis engine and on the embedded one: outcomes, rows,
//! changes and positions must be the same, field by field. `TIPCAST_SEED` plays one seed again.

use serde_json::json;
use serde_json::value::RawValue;
use tipcast::domain::{
    Block, BlockScope, Decision, FeedId, Gift, GiftId, MAX_SAFE, Millis, PolicyPatch, Position, RowId,
};
use tipcast::engine::embedded::EmbeddedOptions;
use tipcast::engine::redis::RedisOptions;
use tipcast::engine::{
    BlockUser, CancelScheduled, DecideReview, Engine, ListBlocks, ListReviews, ListScheduled, Missed, Notice,
    PolicyChange, Publish, ReadChanges, ReadHeads, ReadPolicy, ReadSnapshot, RetractGift, RetractRow, RunDue,
    SetPolicy, Subscribe, Subscription, UnblockUser,
};

use crate::support::redis_server::RedisServer;

/// SplitMix64: the same numbers from the same seed everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

fn random_gift(dice: &mut Dice, now: Millis) -> Gift {
    let user = dice.of(&["u", "u", "u", "u", "a:b", "a", "\"\n\\"]);
    let kind = dice.of(&["g", "g", "g", "g", "c", "b:c"]);
    let mut gift = json!({"user": {"id": user, "name": user}, "gift": {"id": kind, "name": "名"}});
    // Few ids, so that some come again, with the same payload or another.
    gift["id"] = json!(format!("id:{}", dice.below(400)));
    gift["count"] = json!(dice.of(&[1, 1, 2, 1_000_000]));
    let combo = dice.one_in(3);
    if combo || dice.one_in(2) {
        let amount = dice.of(&[0, 1, 500, MAX_SAFE / 2, MAX_SAFE - 1, MAX_SAFE]);
        gift["value"] = json!({"amount": amount, "currency": dice.of(&["EUR", "EUR", "gems"])});
    }
    if combo {
        let combo = dice.of(&["x", "x", "y z", "[\"u\",\"g\"]"]);
        gift["combo"] = json!({"id": combo, "count": dice.of(&[0, 1, 2, 5, 9, 4_294_967_295u64]), "end": dice.one_in(20)});
    }
    if dice.one_in(4) {
        gift["message"] =
            json!(dice.of(&["hi", "\u{7f}q", "line\u{2028}two", "back\\slash \"q\"", "n", "n\\n"]));
    }
    if dice.one_in(4) {
        gift["tier"] = json!(dice.below(10));
    }
    if dice.one_in(4) {
        gift["meta"] = dice.of(&[json!({}), json!({"a b": [1, "\n x"]}), json!({"k": 1.5e300})]);
    }
    if dice.one_in(10) {
        gift["test"] = json!(true);
    }
    match dice.below(20) {
        0 => gift["delay_ms"] = json!(dice.of(&[0, 0, 1000])),
        1 => gift["deliver_at"] = json!(Millis(now.0 + dice.of(&[-5, 0, 1, 5000])).to_string()),
        _ => {}
    }
    let raw = RawValue::from_string(gift.to_string()).unwrap();
    Gift::parse(&raw, None).unwrap()
}

fn random_patch(dice: &mut Dice) -> PolicyPatch {
    let patch = match dice.below(10) {
        8 => json!({"review": dice.of(&["off", "off", "messages", "all"]),
            "review_timeout_ms": dice.of(&[1_000, 60_000])}),
        9 => json!({"review_default": dice.of(&["show", "mask", "deny"])}),
        0 => json!({"capacity": dice.of(&[1, 2, 3, 10, 100])}),
        1 => json!({"dedup": dice.of(&["combine", "combine", "drop", "off"])}),
        2 => json!({"dedup_window_ms": dice.of(&[0, 1, 5000, 86_400_000])}),
        3 => json!({"row_ttl_ms": dice.of(&[0, 1000, 4000])}),
        4 => json!({"history": dice.of(&[0, 1, 5, 40, 1024])}),
        5 => json!({"idempotency_window_ms": dice.of(&[60_000, 86_400_000])}),
        6 => json!({"delay_ms": dice.of(&[0, 0, 0, 5, 1_500])}),
        _ => json!({"flush_ms": dice.below(1000), "capacity": 5}),
    };
    let raw = RawValue::from_string(patch.to_string()).unwrap();
    PolicyPatch::parse(&raw).unwrap()
}

/// One engine, what was heard of its changes, and its epoch, which the other does not share.
struct Side {
    engine: Engine,
    subscription: Subscription,
    heard: Vec<String>,
}

fn feed() -> FeedId {
    "agree".parse().unwrap()
}

impl Side {
    async fn on(engine: Engine) -> Side {
        let subscription = engine.run(Subscribe { feed: feed() }).await.unwrap();
        Side { engine, subscription, heard: vec![] }
    }

    async fn epoch(&self) -> String {
        self.engine
            .run(ReadHeads { feeds: vec![feed()] })
            .await
            .unwrap()
            .remove(0)
            .unwrap()
            .at
            .epoch
            .to_string()
    }

    /// As the other engine would say it.
    async fn said(&self, what: impl std::fmt::Debug) -> String {
        let epoch = self.epoch().await;
        let text = format!("{what:?}");
        if epoch == "0" { text } else { text.replace(&epoch, "EPOCH") }
    }

    async fn list(&self, now: Millis) -> (Position, String) {
        let list = self.engine.run(ReadSnapshot { feed: feed(), now }).await.unwrap();
        let head = self.engine.run(ReadHeads { feeds: vec![feed()] }).await.unwrap().remove(0).unwrap();
        assert_eq!((&head.at, head.tag), (&list.at, list.tag));
        let said = self.said((list.at.seq, &list.policy, &list.rows)).await;
        (list.at, said)
    }

    async fn history(&self, since: &Position, max: usize) -> String {
        match self.engine.run(ReadChanges { feed: feed(), since: since.clone(), max }).await.unwrap() {
            Missed::NotCovered => "not covered".into(),
            Missed::Changes(changes) => {
                for pair in changes.windows(2) {
                    assert_eq!((pair[1].seq, pair[1].prev), (pair[0].seq + 1, pair[0].tag), "a chain");
                }
                self.said(changes.iter().map(|c| (c.seq, &c.op)).collect::<Vec<_>>()).await
            }
        }
    }

    /// Hears everything up to `at`.
    async fn listen(&mut self, at: &Position) {
        while self.heard.len() < at.seq as usize {
            let notice = tokio::time::timeout(std::time::Duration::from_secs(10), self.subscription.next());
            match notice.await.expect("every change is told").unwrap() {
                Notice::Changes(changes) => {
                    for change in changes.iter() {
                        assert_eq!(change.seq as usize, self.heard.len() + 1, "in order");
                        self.heard.push(self.said((change.seq, &change.op)).await);
                    }
                }
                Notice::Policy => {}
                Notice::Lost => panic!("nothing was lost"),
            }
        }
    }
}

async fn agree(seed: u64, steps: usize, server: &RedisServer) {
    let mut dice = Dice(seed);
    let folder = tempfile::TempDir::new().unwrap();
    let embedded = Engine::embedded(EmbeddedOptions::new(folder.path())).unwrap();
    let options = RedisOptions {
        prefix: format!("agree-{seed}:"),
        store_clock: false,
        ..RedisOptions::new(server.url())
    };
    let mut sides = [Side::on(embedded).await, Side::on(Engine::redis(options).await.unwrap()).await];
    let mut now = Millis(1_800_000_000_000);
    let mut posted: Vec<Gift> = vec![];
    for step in 0..steps {
        now = now.plus(dice.of(&[0, 0, 1, 100, 999, 1000, 5000, 70_000]));
        let context = format!("seed {seed}, step {step}");
        let mut said = vec![];
        match dice.below(12) {
            10 => {
                // What waits for a host, and a decision about some gift.
                let (pick, wish) = (dice.below(4), dice.of(&Decision::ALL));
                for side in &sides {
                    let all = side.engine.run(ListReviews { feed: feed(), now }).await.unwrap();
                    let id = all.get(pick as usize).map(|it| it.gift.id.clone());
                    let id = id.unwrap_or_else(|| "id:7".parse().unwrap());
                    let done = side
                        .engine
                        .run(DecideReview { feed: feed(), id: id.clone(), decision: wish, now })
                        .await
                        .unwrap();
                    said.push(side.said((all, done)).await);
                }
            }
            11 => {
                let user = dice.of(&["u", "a:b", "a", "\"\n\\"]).to_owned();
                let scope = dice.of(&[BlockScope::All, BlockScope::Feed(feed())]);
                let until = dice.of(&[None, Some(now.plus(3_000))]);
                let (ends, id) =
                    (dice.one_in(2), format!("id:{}", dice.below(400)).parse::<GiftId>().unwrap());
                for side in &sides {
                    let block = Block { user: user.clone(), at: now, until };
                    let done = match ends {
                        true => format!(
                            "{:?}",
                            side.engine
                                .run(UnblockUser { scope: scope.clone(), user: user.to_string(), now })
                                .await
                                .unwrap()
                        ),
                        false => format!(
                            "{:?}",
                            side.engine.run(BlockUser { scope: scope.clone(), block }).await.unwrap()
                        ),
                    };
                    let all = side.engine.run(ListBlocks { scope: scope.clone(), now }).await.unwrap();
                    let back =
                        side.engine.run(RetractGift { feed: feed(), id: id.clone(), now }).await.unwrap();
                    said.push(side.said((done, all, back)).await);
                }
            }
            0..5 => {
                let count = dice.of(&[1, 1, 1, 2, 7, 30]);
                let gifts: Vec<Gift> = (0..count)
                    .map(|_| match posted.len() as u64 {
                        known @ 1.. if dice.one_in(6) => posted[dice.below(known) as usize].clone(),
                        _ => random_gift(&mut dice, now),
                    })
                    .collect();
                posted.extend(gifts.iter().cloned());
                for side in &sides {
                    let outcomes =
                        side.engine.run(Publish { feed: feed(), gifts: gifts.clone(), now }).await.unwrap();
                    said.push(side.said(outcomes).await);
                }
            }
            5 => {
                // Several steps, one, or a gift cancelled before its time.
                let (steps, id) =
                    (dice.below(4), format!("id:{}", dice.below(400)).parse::<GiftId>().unwrap());
                for side in &sides {
                    for _ in 0..steps {
                        let run = side.engine.run(RunDue { feed: feed(), now }).await.unwrap();
                        said.push(side.said((run.handled, run.next)).await);
                    }
                    if steps == 0 {
                        said.push(
                            side.said(
                                side.engine.run(CancelScheduled { feed: feed(), id: id.clone(), now }).await,
                            )
                            .await,
                        );
                    }
                    let page = side
                        .engine
                        .run(ListScheduled { feed: feed(), after: None, max: 100_000 })
                        .await
                        .unwrap();
                    said.push(
                        side.said(page.gifts.iter().map(|it| (it.place.at, &it.gift)).collect::<Vec<_>>())
                            .await,
                    );
                }
                let own = said.split_off(said.len() / 2);
                said = vec![said.join("\n"), own.join("\n")];
            }
            6 => {
                // Any row of the list, or one that is not in it.
                let pick = dice.below(12);
                for side in &sides {
                    let list = side.engine.run(ReadSnapshot { feed: feed(), now }).await.unwrap();
                    let row = list.rows.get(pick as usize).map(|row| row.id.clone());
                    let row = row.unwrap_or_else(|| RowId::of(&list.at.epoch, 1));
                    let at =
                        side.engine.run(RetractRow { feed: feed(), row: row.clone(), now }).await.unwrap();
                    said.push(side.said(at.map(|at| at.seq)).await);
                }
            }
            7 => {
                let patch = random_patch(&mut dice);
                let replace = dice.one_in(4);
                for side in &sides {
                    let patch = patch.clone();
                    let change =
                        if replace { PolicyChange::Replace(patch) } else { PolicyChange::Merge(patch) };
                    let policy = side.engine.run(SetPolicy { feed: feed(), change, now }).await.unwrap();
                    assert_eq!(policy, side.engine.run(ReadPolicy { feed: feed() }).await.unwrap());
                    said.push(side.said(policy).await);
                }
            }
            _ => {
                let (back, max) = (dice.below(60), dice.of(&[1, 2, 100_000]));
                for side in &sides {
                    let head = side
                        .engine
                        .run(ReadHeads { feeds: vec![feed()] })
                        .await
                        .unwrap()
                        .remove(0)
                        .unwrap()
                        .at;
                    let seq = (head.seq + 2).saturating_sub(back);
                    said.push(side.history(&Position { seq, ..head }, max).await);
                }
            }
        }
        assert_eq!(said[0], said[1], "{context}");
        let mut lists = vec![];
        for side in &mut sides {
            let (at, list) = side.list(now).await;
            side.listen(&at).await;
            lists.push(list);
        }
        assert_eq!(lists[0], lists[1], "{context}");
    }
    assert_eq!(sides[0].heard, sides[1].heard, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_engines_say_the_same_whatever_happens() {
    let server = RedisServer::start();
    let seeds: Vec<u64> = match std::env::var("TIPCAST_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=6).collect(),
    };
    for seed in seeds {
        agree(seed, 250, &server).await;
    }
}

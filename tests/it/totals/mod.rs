//! Totals, leaders and goals: what engines count is what a plain recount of the ledger gives, whatever happens.

mod recount;
mod seeded;

use serde_json::json;
use tipcast::domain::tally::{GoalSpec, LeadersAsk, Measure, Period, Zone};
use tipcast::domain::{EntryStatus, MAX_SAFE, Millis, Op};
use tipcast::engine::{GoalPut, Missed, Notice};

use crate::support::case::Case;
use crate::support::gifts::gift;

on_engines_that_count![
    nothing_is_counted_until_a_period_is_switched_on,
    a_gift_counts_once_and_leaves_once,
    a_refund_takes_money_and_points_and_leaves_the_counts,
    a_row_that_is_taken_back_takes_its_gifts_with_it_also_across_midnight,
    equal_scores_are_in_the_order_of_user_ids,
    sums_are_exact_and_stop_at_the_largest,
    a_goal_is_reached_once_and_told_at_once,
    a_goal_that_a_gift_reaches_is_told_in_the_same_notice,
    a_ranking_of_many_is_the_same_however_much_of_it_is_asked_for,
    a_ranking_by_what_nobody_gave_is_empty_until_somebody_does,
    a_session_begins_by_name,
    watchers_are_told_twice_a_second_at_most_and_the_last_state_always,
    sales_and_scheduled_gifts_count_when_they_are_shown,
    totals_survive_a_restart,
];

fn ask(period: Period, by: &str) -> LeadersAsk {
    let by = Measure::of(by).unwrap();
    LeadersAsk { period, back: false, by, limit: 100, user: None }
}

/// `gifts units gifters points CURRENCY=AMOUNT…` of a period; nothing when it is not counted.
async fn totals_of(t: &Case, period: Period, back: bool) -> Option<String> {
    let totals = t.engine.read_totals(&t.feed, back, t.now).await.unwrap()?;
    let view = totals.get(&period)?.clone();
    let mut values = view.values.clone();
    values.sort();
    let values: Vec<String> = values.iter().map(|(by, amount)| format!(" {by}={amount}")).collect();
    Some(format!("{} {} {} {}{}", view.gifts, view.units, view.gifters, view.points, values.concat()))
}

async fn totals(t: &Case, period: Period) -> String {
    totals_of(t, period, false).await.unwrap_or_else(|| format!("{period} is not counted"))
}

/// Users and scores of a ranking.
async fn ranking(t: &Case, ask: LeadersAsk) -> Vec<(String, u64)> {
    let Some(leaders) = t.engine.read_leaders(&t.feed, ask, t.now).await.unwrap() else {
        return vec![];
    };
    let user = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).unwrap()["id"].as_str().unwrap().to_owned()
    };
    leaders.leaders.iter().map(|leader| (user(&leader.user), leader.score)).collect()
}

async fn nothing_is_counted_until_a_period_is_switched_on(mut t: Case) {
    t.accepted(gift("g1")).await;
    assert_eq!(t.engine.read_totals(&t.feed, false, t.now).await.unwrap(), None);
    assert_eq!(t.engine.read_leaders(&t.feed, ask(Period::All, "units"), t.now).await.unwrap(), None);
    let policy = t.patch(json!({"totals": ["all"], "points": {"EUR": 2}})).await;
    assert_eq!(serde_json::to_value(policy.totals).unwrap(), json!(["all"]));
    t.pass(10_000);
    t.post(gift("g2").value(5, "EUR")).await;
    assert_eq!(totals(&t, Period::All).await, "1 1 1 10 EUR=5");
    assert_eq!(totals(&t, Period::Day).await, "day is not counted");
    t.post(gift("g3").test()).await;
    t.post(gift("g2").value(5, "EUR")).await;
    assert_eq!(totals(&t, Period::All).await, "1 1 1 10 EUR=5", "tests and repeated ids do not count");
    t.patch(json!({"totals": []})).await;
    assert_eq!(t.engine.read_totals(&t.feed, false, t.now).await.unwrap(), None);
    t.patch(json!({"totals": ["all", "day"]})).await;
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0", "switching off discards");
}

async fn a_gift_counts_once_and_leaves_once(mut t: Case) {
    t.patch(json!({"totals": ["all"], "dedup": "drop"})).await;
    t.post(gift("a").count(3).value(7, "EUR")).await;
    t.post(gift("b").count(2).value(1, "EUR")).await;
    assert_eq!(totals(&t, Period::All).await, "2 5 1 0 EUR=8", "a suppressed gift counts");
    assert!(t.take_back("a").await && t.take_back("a").await);
    assert_eq!(totals(&t, Period::All).await, "1 2 1 0 EUR=1");
    assert!(t.take_back("b").await);
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0 EUR=0");
    assert_eq!(ranking(&t, ask(Period::All, "units")).await, []);
    // Frames of a combo count by what they grew.
    t.post(gift("c1").combo("run", 3)).await;
    t.post(gift("c2").combo("run", 2)).await;
    t.post(gift("c3").combo("run", 9)).await;
    assert_eq!(totals(&t, Period::All).await, "2 9 1 0 EUR=0");
    t.take_back("c3").await;
    assert_eq!(totals(&t, Period::All).await, "1 3 1 0 EUR=0");
    let mut shy = gift("shy").kind("tulip").json();
    shy["user"] = json!({"id": "shy", "name": "S", "anonymous": true});
    let mut spec = gift("shy").kind("tulip");
    spec = spec.with("user", shy["user"].clone());
    t.post(spec).await;
    assert_eq!(totals(&t, Period::All).await, "2 4 2 0 EUR=0");
    assert_eq!(ranking(&t, ask(Period::All, "units")).await, [("ann".to_owned(), 3)]);
    assert!(t.list().await.rows.iter().any(|row| row.user.contains("\"anonymous\":true")));
}

async fn a_refund_takes_money_and_points_and_leaves_the_counts(mut t: Case) {
    t.patch(json!({"totals": ["all"], "points": {"EUR": 2}, "dedup": "drop"})).await;
    t.post(gift("a").count(3).value(500, "EUR")).await;
    t.post(gift("b").value(70, "EUR")).await;
    t.post(gift("c").by("bob").value(900, "coins")).await;
    assert_eq!(totals(&t, Period::All).await, "3 5 2 1140 EUR=570 coins=900");
    let refund = async |t: &mut Case, id: &str, refunded: u64| {
        let (feed, id, now) = (t.feed.clone(), id.parse().unwrap(), t.now);
        t.engine.refund_gift(&feed, &id, refunded, None, now).await.unwrap();
        t.list().await;
    };
    refund(&mut t, "a", 120).await;
    refund(&mut t, "a", 120).await;
    refund(&mut t, "b", 20).await;
    refund(&mut t, "c", 1).await;
    assert_eq!(totals(&t, Period::All).await, "3 5 2 860 EUR=430 coins=899");
    for (by, score) in [("points", 860), ("EUR", 430), ("units", 4)] {
        assert_eq!(ranking(&t, ask(Period::All, by)).await[0], ("ann".to_owned(), score), "{by}");
    }
    // What is left goes with the gift, and with its row.
    assert!(t.take_back("a").await);
    assert_eq!(totals(&t, Period::All).await, "2 2 2 100 EUR=50 coins=899");
    refund(&mut t, "b", 70).await;
    let rows = t.list().await.rows;
    let bobs = rows.iter().find(|row| row.user.contains("bob")).unwrap().id.clone();
    t.retract(&bobs).await;
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0 EUR=0 coins=0");
}

async fn a_ranking_by_what_nobody_gave_is_empty_until_somebody_does(mut t: Case) {
    t.patch(json!({"totals": ["all"]})).await;
    for by in ["XYZ", "units", "points"] {
        let view = t.engine.read_leaders(&t.feed, ask(Period::All, by), t.now).await.unwrap().unwrap();
        assert_eq!((view.leaders.len(), view.user), (0, None), "{by}");
    }
    t.post(gift("a").by("ann").value(5, "EUR")).await;
    for user in [None, Some("ann".to_owned())] {
        let none = LeadersAsk { user, ..ask(Period::All, "XYZ") };
        let view = t.engine.read_leaders(&t.feed, none, t.now).await.unwrap().unwrap();
        assert_eq!((view.leaders.len(), view.user), (0, None));
    }
    t.post(gift("b").by("bob").kind("lily").value(7, "XYZ")).await;
    assert_eq!(ranking(&t, ask(Period::All, "XYZ")).await, [("bob".to_owned(), 7)]);
    // 64 currencies are summed; of further ones gifts and units count.
    for n in 0..70_u8 {
        let code = format!("Q{}{}", char::from(b'A' + n / 26), char::from(b'A' + n % 26));
        t.post(gift(&format!("c{n}")).by("cid").kind(&format!("k{n}")).value(u64::from(n) + 1, &code)).await;
    }
    assert_eq!(ranking(&t, ask(Period::All, "QCJ")).await, [("cid".to_owned(), 62)]);
    assert_eq!(ranking(&t, ask(Period::All, "QCK")).await, []);
    assert!(totals(&t, Period::All).await.starts_with("72 72 3 0 "));
    assert_eq!(ranking(&t, ask(Period::All, "ZZZ")).await, []);
    // Each run has currencies of its own: a new day counts what has no place in all of time.
    t.patch(json!({"totals": ["all", "day"]})).await;
    t.post(gift("d").by("dan").kind("oak").value(9, "QCK")).await;
    assert_eq!(ranking(&t, ask(Period::All, "QCK")).await, []);
    assert_eq!(ranking(&t, ask(Period::Day, "QCK")).await, [("dan".to_owned(), 9)]);
}

async fn a_row_that_is_taken_back_takes_its_gifts_with_it_also_across_midnight(mut t: Case) {
    t.patch(json!({"totals": ["all", "day"], "time_zone": "Asia/Shanghai", "dedup_window_ms": 86_400_000}))
        .await;
    let first = t.accepted(gift("a").count(2)).await;
    t.pass(12 * 3_600_000);
    t.merged(gift("b").count(3)).await;
    t.pass(1_000);
    t.post(gift("c").by("bob").kind("lily")).await;
    t.work().await;
    let (day, yesterday) = (totals(&t, Period::Day).await, totals_of(&t, Period::Day, true).await);
    t.retract(first.row.as_ref().unwrap()).await;
    assert_eq!(totals(&t, Period::All).await, "1 1 1 0");
    if yesterday.as_deref() == Some("1 2 1 0") {
        assert_eq!(day, "2 4 2 0");
        assert_eq!(totals_of(&t, Period::Day, true).await.as_deref(), Some("0 0 0 0"));
    }
    assert_eq!(totals(&t, Period::Day).await, "1 1 1 0");
    // What left with its row does not leave again.
    assert!(t.take_back("a").await && t.take_back("b").await);
    assert_eq!(totals(&t, Period::All).await, "1 1 1 0");
    assert_eq!(t.take_user_back("bob").await, 1);
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0");
    // Long after its window an id can be taken back, as long as a period that it counted in runs.
    t.post(gift("old").kind("oak").count(4)).await;
    t.pass(20 * 86_400_000);
    assert!(t.take_back("old").await);
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0");
}

async fn equal_scores_are_in_the_order_of_user_ids(mut t: Case) {
    t.patch(json!({"totals": ["session"], "dedup": "off"})).await;
    for (n, (user, count)) in
        [("zoe", 5), ("al", 3), ("al", 2), ("bo", 5), ("a:b \n\"", 9)].iter().enumerate()
    {
        t.post(gift(&format!("g{n}")).by(user).count(*count)).await;
        t.pass(1);
    }
    let names = |ranking: Vec<(String, u64)>| ranking.into_iter().map(|(user, _)| user).collect::<Vec<_>>();
    assert_eq!(names(ranking(&t, ask(Period::Session, "units")).await), ["a:b \n\"", "al", "bo", "zoe"]);
    t.take_back("g4").await;
    assert_eq!(names(ranking(&t, ask(Period::Session, "units")).await), ["al", "bo", "zoe"]);
    let user = LeadersAsk { user: Some("bo".into()), limit: 1, ..ask(Period::Session, "units") };
    let view = t.engine.read_leaders(&t.feed, user, t.now).await.unwrap().unwrap();
    assert_eq!((view.leaders.len(), view.user), (1, Some((2, 5))));
    assert_eq!(ranking(&t, ask(Period::Session, "points")).await, [], "nobody is ranked with nothing");
}

async fn sums_are_exact_and_stop_at_the_largest(mut t: Case) {
    t.patch(json!({"totals": ["all"], "points": {"EUR": 1_000_000}, "dedup": "off"})).await;
    for id in ["a", "b", "c"] {
        t.post(gift(id).value(MAX_SAFE, "EUR")).await;
    }
    t.post(gift("d").value(7, "EUR")).await;
    let full = format!("4 4 1 {MAX_SAFE} EUR={MAX_SAFE}");
    assert_eq!(totals(&t, Period::All).await, full);
    assert_eq!(ranking(&t, ask(Period::All, "EUR")).await, [("ann".to_owned(), MAX_SAFE)]);
    // What came after it stopped is not known any more: it is short, and never below nothing.
    assert!(t.take_back("d").await);
    assert_eq!(ranking(&t, ask(Period::All, "EUR")).await, [("ann".to_owned(), MAX_SAFE - 7)]);
    for id in ["a", "b", "c"] {
        assert!(t.take_back(id).await);
    }
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0 EUR=0");
    assert_eq!(ranking(&t, ask(Period::All, "EUR")).await, []);
    t.post(gift("e").value(MAX_SAFE - 8, "EUR")).await;
    t.post(gift("f").value(7, "EUR")).await;
    assert_eq!(
        ranking(&t, ask(Period::All, "EUR")).await,
        [("ann".to_owned(), MAX_SAFE - 1)],
        "no float on the way"
    );
}

fn goal(target: u64) -> GoalSpec {
    GoalSpec { title: "New \"mic\"".into(), period: Period::All, by: Measure::Units, target }
}

async fn a_goal_is_reached_once_and_told_at_once(mut t: Case) {
    let name: tipcast::domain::GoalId = "mic".parse().unwrap();
    assert_eq!(t.engine.put_goal(&t.feed, &name, goal(5), t.now).await.unwrap(), GoalPut::NotCounted);
    t.patch(json!({"totals": ["all"], "dedup": "off"})).await;
    let GoalPut::New(view) = t.engine.put_goal(&t.feed, &name, goal(5), t.now).await.unwrap() else {
        panic!()
    };
    assert_eq!((view.value, view.reached_at), (0, None));
    t.list().await;
    t.post(gift("a").count(4)).await;
    t.post(gift("b").count(1)).await;
    t.work().await;
    t.pass(700);
    t.work().await;
    let told = t.list().await.goals[&name].clone();
    assert!(told.value == 5 && told.reached_at.is_some(), "{told:?}");
    t.take_back("b").await;
    t.post(gift("c").count(3)).await;
    t.pass(700);
    t.work().await;
    let goals = t.engine.list_goals(&t.feed, t.now).await.unwrap();
    assert_eq!((goals.len(), goals[0].value, goals[0].reached_at), (1, 7, told.reached_at));
    let mut recount = recount::Recount::new(&[]);
    let (group, all) = (
        "goals".parse::<tipcast::domain::GroupId>().unwrap(),
        tipcast::domain::Ask { max: 100, lease_ms: 1000, from: Default::default() },
    );
    let taken = t.engine.claim_entries(&t.feed, &group, all, t.now).await.unwrap().unwrap();
    let reached: Vec<_> = taken.entries.iter().filter(|it| it.entry.status == EntryStatus::Goal).collect();
    assert_eq!(reached.len(), 1, "once: {taken:?}");
    let entry: serde_json::Value = serde_json::from_str(&reached[0].entry.gift).unwrap();
    assert_eq!(
        (&entry["goal"], &entry["target"], &entry["title"]),
        (&json!("mic"), &json!(5), &json!("New \"mic\""))
    );
    recount.read(&t).await;
    for n in 0..15 {
        let name: tipcast::domain::GoalId = format!("g{n}").parse().unwrap();
        assert!(matches!(t.engine.put_goal(&t.feed, &name, goal(1), t.now).await.unwrap(), GoalPut::New(_)));
    }
    let more: tipcast::domain::GoalId = "more".parse().unwrap();
    assert_eq!(t.engine.put_goal(&t.feed, &more, goal(1), t.now).await.unwrap(), GoalPut::TooMany);
    assert!(t.engine.delete_goal(&t.feed, &name, t.now).await.unwrap());
    assert!(!t.engine.delete_goal(&t.feed, &name, t.now).await.unwrap());
    assert!(!t.list().await.goals.contains_key(&name));
}

/// The changes of the notice that brings the row of this gift.
async fn notice_of(subscription: &mut tipcast::engine::Subscription, gift: &str) -> Vec<Op> {
    loop {
        let notice = tokio::time::timeout(std::time::Duration::from_secs(60), subscription.next()).await;
        let Some(Notice::Changes(changes)) = notice.expect("a notice of the gift") else { continue };
        let ops: Vec<Op> = changes.iter().map(|change| change.op.clone()).collect();
        if ops.iter().any(|op| matches!(op, Op::Add(row) | Op::Update(row) if row.gift.contains(gift))) {
            return ops;
        }
    }
}

async fn a_goal_that_a_gift_reaches_is_told_in_the_same_notice(mut t: Case) {
    t.patch(json!({"totals": ["all", "day"], "points": {"EUR": 2}})).await;
    let names = ["units", "points", "coins", "far"];
    let of = |by: &str, target| GoalSpec { by: Measure::of(by).unwrap(), target, ..goal(1) };
    for (name, spec) in
        names.iter().zip([of("units", 10), of("points", 100), of("coins", 7), of("units", 1_000)])
    {
        t.engine.put_goal(&t.feed, &name.parse().unwrap(), spec, t.now).await.unwrap();
    }
    t.list().await;
    let mut subscription = t.engine.subscribe(&t.feed).await.unwrap();
    let told = |ops: &[Op]| -> Vec<(String, u64, bool)> {
        let goal = |op: &Op| match op {
            Op::Goal(name, Some(view)) => Some((name.to_string(), view.value, view.reached_at.is_some())),
            _ => None,
        };
        ops.iter().filter_map(goal).collect()
    };
    t.post(gift("a").kind("g-a").count(4)).await;
    assert_eq!(told(&notice_of(&mut subscription, "g-a").await), []);
    t.post(gift("b").kind("g-b").count(6)).await;
    assert_eq!(told(&notice_of(&mut subscription, "g-b").await), [("units".to_owned(), 10, true)]);
    t.post(gift("c").kind("g-c").value(60, "EUR")).await;
    assert_eq!(told(&notice_of(&mut subscription, "g-c").await), [("points".to_owned(), 120, true)]);
    // What is taken back is missing again; reaching it is published at once all the same.
    t.post(gift("d").kind("g-d").value(5, "coins")).await;
    assert_eq!(told(&notice_of(&mut subscription, "g-d").await), []);
    assert!(t.take_back("d").await);
    t.post(gift("e").kind("g-e").value(3, "coins")).await;
    assert_eq!(told(&notice_of(&mut subscription, "g-e").await), []);
    // A gift that merges counts like any other, and so do several in one call.
    t.post_all([gift("f").kind("g-e").value(3, "coins"), gift("g").kind("g-g").value(1, "coins")]).await;
    assert_eq!(told(&notice_of(&mut subscription, "g-g").await), [("coins".to_owned(), 7, true)]);
    for name in &names[..3] {
        let view = t.list().await.goals[&name.parse().unwrap()].clone();
        assert_eq!(view.reached_at, Some(t.now), "{name}");
    }
    t.pass(700);
    t.work().await;
    t.post(gift("h").kind("g-h").count(5)).await;
    let goals = t.engine.list_goals(&t.feed, t.now).await.unwrap();
    let reached: Vec<_> = goals.iter().map(|goal| (goal.goal.as_str(), goal.reached_at.is_some())).collect();
    assert_eq!(reached, [("coins", true), ("far", false), ("points", true), ("units", true)]);
    let (group, all) = (
        "goals".parse::<tipcast::domain::GroupId>().unwrap(),
        tipcast::domain::Ask { max: 100, lease_ms: 1000, from: tipcast::domain::Start::Start },
    );
    let taken = t.engine.claim_entries(&t.feed, &group, all, t.now).await.unwrap().unwrap();
    assert_eq!(
        taken.entries.iter().filter(|it| it.entry.status == EntryStatus::Goal).count(),
        3,
        "once each"
    );
}

async fn a_ranking_of_many_is_the_same_however_much_of_it_is_asked_for(mut t: Case) {
    t.patch(json!({"totals": ["all", "day", "session"], "dedup": "off", "capacity": 100})).await;
    let mut recount = recount::Recount::new(&[]);
    for round in 0..4_u64 {
        for n in 0..40_u64 {
            let user = format!("u{}", (n * 7 + round) % 40);
            let spec = gift(&format!("g{round}-{n}")).by(&user).kind(&format!("k{n}"));
            t.post(spec.count(1 + (n * 13 + round * 5) % 9)).await;
        }
        if round == 1 {
            // The first ones lose what they had, also more of them than a list keeps in reserve.
            recount.read(&t).await;
            for (user, _) in recount.ranking(Millis(0), Millis::MAX, "units").into_iter().take(12) {
                let theirs: Vec<_> = recount.events.iter().filter(|it| it.user == user).cloned().collect();
                assert!(t.take_back(&theirs[theirs.len() - 1].id).await);
            }
        }
        if round == 2 {
            t.pass(90_000_000);
            t.work().await;
        }
        recount.read(&t).await;
        let (day, _) = Zone::default().bounds(Period::Day, t.now);
        for (period, from) in [(Period::All, Millis(0)), (Period::Session, Millis(0)), (Period::Day, day)] {
            let wanted = recount.ranking(from, Millis::MAX, "units");
            // Few are in the frames; for more, a ranking is made.
            for limit in [3, 10, 100, 16, 1] {
                let some = LeadersAsk { limit, ..ask(period, "units") };
                let first: Vec<_> = wanted.iter().take(limit).cloned().collect();
                assert_eq!(ranking(&t, some).await, first, "round {round}, {period}, {limit}");
            }
            for (place, (user, score)) in wanted.iter().enumerate().step_by(5) {
                let some = LeadersAsk { user: Some(user.clone()), limit: 1, ..ask(period, "units") };
                let view = t.engine.read_leaders(&t.feed, some, t.now).await.unwrap().unwrap();
                assert_eq!(view.user, Some((place as u64 + 1, *score)), "round {round}, {period}, {user}");
            }
        }
        t.pass(1_000);
        t.work().await;
        let told = t.list().await.totals[&Period::All].leaders[0].1.clone();
        let wanted = recount.ranking(Millis(0), Millis::MAX, "units");
        let scores: Vec<u64> = wanted.iter().take(10).map(|(_, score)| *score).collect();
        assert_eq!(told.iter().map(|it| it.score).collect::<Vec<_>>(), scores);
        t.pass(1_000);
    }
}

async fn a_session_begins_by_name(mut t: Case) {
    t.patch(json!({"totals": ["session", "all"], "dedup": "off"})).await;
    t.post(gift("a")).await;
    t.pass(5);
    let (session, new) = t.engine.begin_session(&t.feed, "show \n 1".into(), t.now).await.unwrap();
    assert!(new && session.since == t.now);
    t.list().await;
    t.pass(5);
    let (again, new) = t.engine.begin_session(&t.feed, "show \n 1".into(), t.now).await.unwrap();
    assert!(!new && again == session);
    t.post(gift("b").count(2)).await;
    assert_eq!(totals(&t, Period::Session).await, "1 2 1 0");
    assert_eq!(totals_of(&t, Period::Session, true).await.as_deref(), Some("1 1 1 0"));
    assert_eq!(totals(&t, Period::All).await, "2 3 1 0");
}

async fn watchers_are_told_twice_a_second_at_most_and_the_last_state_always(mut t: Case) {
    t.patch(json!({"totals": ["all"], "dedup": "off"})).await;
    let mut posted = 0;
    for _ in 0..40 {
        for _ in 0..3 {
            posted += 1;
            t.post(gift(&format!("g{posted}"))).await;
        }
        t.pass(50);
        t.work().await;
    }
    t.pass(600);
    t.work().await;
    assert_eq!(t.list().await.totals[&Period::All].gifts, posted);
    let Missed::Changes(changes) = t.after(0).await else { panic!("history is there") };
    let told = changes.iter().filter(|change| matches!(change.op, Op::Totals(_))).count();
    // Forty steps of 50 ms, and one more look: two seconds and a half.
    assert!((2..=6).contains(&told), "{told} announcements");
    let leaders = &t.list().await.totals[&Period::All].leaders;
    assert_eq!((leaders[0].0.as_str(), leaders[0].1[0].score), ("units", posted));
}

async fn sales_and_scheduled_gifts_count_when_they_are_shown(mut t: Case) {
    t.patch(json!({"totals": ["all"]})).await;
    t.scheduled(gift("later").count(2).with("delay_ms", json!(1_000))).await;
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0");
    t.pass(1_000);
    t.work().await;
    assert_eq!(totals(&t, Period::All).await, "1 2 1 0");
    let spec = json!({"gift": {"id": "r", "name": "R"}, "total": 9, "per_user": 9});
    let raw = serde_json::value::to_raw_value(&spec).unwrap();
    let (drop, spec) = (
        "rocket".parse::<tipcast::domain::DropId>().unwrap(),
        tipcast::domain::DropSpec::parse(&raw).unwrap(),
    );
    t.engine.define_drop(&t.feed, &drop, &spec, t.now).await.unwrap();
    for (id, pay) in [("c1", "now"), ("c2", "later")] {
        let claim = json!({"id": id, "user": {"id": "b\"\\\n", "name": "B"}, "count": 3, "pay": pay});
        let raw = serde_json::value::to_raw_value(&claim).unwrap();
        let claim = tipcast::domain::Claim::parse(&raw, None).unwrap();
        t.engine.claim_drop(&t.feed, &drop, claim, t.now).await.unwrap();
    }
    assert_eq!(totals(&t, Period::All).await, "2 5 2 0", "a hold does not count");
    t.engine.confirm_hold(&t.feed, &"rocket~c2".parse().unwrap(), None, t.now).await.unwrap();
    assert_eq!(totals(&t, Period::All).await, "3 8 2 0");
    assert_eq!(ranking(&t, ask(Period::All, "units")).await[0], ("b\"\\\n".to_owned(), 6));
    let row = t.row_ids().await[0].clone();
    t.retract(&row).await;
    assert_eq!(totals(&t, Period::All).await, "2 5 2 0");
}

async fn totals_survive_a_restart(mut t: Case) {
    t.patch(json!({"totals": ["all", "week"], "points": {"EUR": 3}})).await;
    let row = t.accepted(gift("a").count(2).value(5, "EUR")).await.row.unwrap();
    t.pass(700);
    t.work().await;
    let before = (totals(&t, Period::Week).await, t.list().await.totals.clone());
    t.reopen().await;
    assert_eq!((totals(&t, Period::Week).await, t.list().await.totals.clone()), before);
    t.merged(gift("b").count(1)).await;
    assert_eq!(ranking(&t, ask(Period::All, "units")).await, [("ann".to_owned(), 3)]);
    t.reopen().await;
    t.retract(&row).await;
    assert_eq!(totals(&t, Period::All).await, "0 0 0 0 EUR=0");
    assert_eq!(ranking(&t, ask(Period::All, "units")).await, []);
}

//! Gifts that wait for a host, and users whose gifts are not shown.

use serde_json::json;
use tipcast::domain::{
    Block, BlockScope, Blocked, Decision, Entry, EntryStatus, Epoch, GiftId, Millis, Outcome, Reviewed,
    Status,
};
use tipcast::engine::DueFate;

use crate::support::case::{Case, fresh_feed};
use crate::support::gifts::{GiftSpec, gift};

on_every_engine![
    a_gift_with_a_message_waits_and_nothing_of_it_is_seen,
    approved_gifts_are_shown_in_order_of_approval,
    a_masked_gift_shows_nothing_that_its_giver_wrote_and_is_entered_as_it_was,
    a_denied_gift_is_an_entry_and_no_row,
    deciding_again_answers_the_same_and_otherwise_says_what_was_decided,
    time_decides_as_the_policy_says,
    a_name_that_was_approved_passes_for_a_month_and_no_other_name,
    tests_and_frames_without_a_new_message_do_not_wait,
    a_thousand_wait_and_no_more,
    a_gift_for_later_is_shown_at_its_own_time_also_when_it_was_masked,
    retracting_a_waiting_gift_denies_it,
    waiting_gifts_outlive_the_engine,
    a_blocked_users_gifts_are_entered_and_not_shown,
    a_block_holds_for_what_waits_already,
    a_block_ends_at_its_time_and_when_it_is_taken_away,
    a_block_of_all_feeds_holds_in_each,
    a_thousand_users_are_blocked_and_no_more,
    a_sale_shows_without_its_message,
];

fn said(id: &str) -> GiftSpec {
    gift(id).by(&format!("of-{id}")).with("message", json!("hello \"you\""))
}

/// The whole ledger, as a group that was not there before reads it.
async fn entries(t: &mut Case) -> Vec<Entry> {
    let group = format!("g{}", Epoch::mint());
    t.take(&group).await.into_iter().map(|it| it.entry).collect()
}

async fn in_review(t: &Case) -> Vec<String> {
    let all = t.engine.list_reviews(&t.feed, t.now).await.unwrap();
    all.into_iter().map(|it| it.gift.id.to_string()).collect()
}

async fn decide(t: &mut Case, id: &str, wish: Decision) -> Reviewed {
    let id: GiftId = id.parse().unwrap();
    let waits = in_review(t).await.contains(&id.to_string());
    let done = t.engine.decide_review(&t.feed, &id, wish, t.now).await.unwrap();
    // What waited was decided by this call, and nothing is decided twice.
    assert!(done.done.is_some() || !waits, "{done:?}");
    let again = t.engine.decide_review(&t.feed, &id, wish, t.now).await.unwrap();
    assert_eq!((again.done, &again.outcome), (None, &done.outcome));
    t.list().await;
    done.outcome
}

async fn hold(t: &mut Case, gift: GiftSpec) {
    let before = t.list().await;
    let outcome = t.post(gift).await;
    assert!(matches!(outcome, Outcome::InReview(_)), "{outcome:?}");
    assert_eq!(t.list().await, before, "nothing is seen");
}

fn status(done: Reviewed) -> Status {
    match done {
        Reviewed::Decided(answer) => answer.status,
        other => panic!("{other:?}"),
    }
}

fn here(t: &Case) -> BlockScope {
    BlockScope::Feed(t.feed.clone())
}

async fn block(t: &Case, scope: &BlockScope, user: &str, until: Option<Millis>) -> Blocked {
    t.engine.block_user(scope, &Block { user: user.into(), at: t.now, until }).await.unwrap()
}

async fn a_gift_with_a_message_waits_and_nothing_of_it_is_seen(mut t: Case) {
    assert_eq!(t.patch(json!({"review": "messages"})).await.review.as_str(), "messages");
    hold(&mut t, said("a")).await;
    assert_eq!(t.list().await.at.seq, 0);
    let all = t.engine.list_reviews(&t.feed, t.now).await.unwrap();
    assert_eq!((all[0].at, all[0].expires_at), (t.now, t.now.plus(60_000)));
    assert_eq!(all[0].gift, said("a").parse());
    assert_eq!(t.post(said("a")).await, Outcome::InReviewBefore("a".parse().unwrap()));
    let other = t.post(said("a").count(2)).await;
    assert!(matches!(other, Outcome::IdReused(_)), "{other:?}");
    assert!(t.waiting().await.gifts.is_empty(), "it is not scheduled");
    assert_eq!(entries(&mut t).await, []);
    t.patch(json!({"review": "all"})).await;
    hold(&mut t, gift("b")).await;
    assert_eq!(in_review(&t).await, ["a", "b"]);
    t.patch(json!({"review": "off"})).await;
    t.accepted(said("c")).await;
    assert_eq!(in_review(&t).await, ["a", "b"], "what waits goes on waiting");
}

async fn approved_gifts_are_shown_in_order_of_approval(mut t: Case) {
    t.patch(json!({"review": "all"})).await;
    for id in ["a", "b", "c"] {
        hold(&mut t, said(id)).await;
        t.pass(5);
    }
    for (n, id) in ["b", "c", "a"].into_iter().enumerate() {
        t.pass(5);
        let Reviewed::Decided(answer) = decide(&mut t, id, Decision::Approve).await else { panic!("{id}") };
        assert_eq!((answer.status, answer.at.seq, answer.id.as_str()), (Status::Accepted, n as u64 + 1, id));
        let list = t.list().await;
        assert_eq!((Some(&list.rows[0].id), list.rows[0].at), (answer.row.as_ref(), t.now));
        assert!(list.rows[0].user.contains(&format!("of-{id}")));
        let repeated = t.post(said(id)).await;
        assert_eq!(repeated, Outcome::Duplicate(answer), "the answer is that of its showing");
    }
    assert_eq!(in_review(&t).await, [""; 0]);
    assert!(t.work().await.is_empty(), "time has nothing to decide");
    // A second gift of the same user joins the row that was approved.
    hold(&mut t, said("d").with("user", json!({"id": "of-a", "name": "user of-a"}))).await;
    assert_eq!(status(decide(&mut t, "d", Decision::Approve).await), Status::Merged);
    assert_eq!(t.list().await.rows[0].count, 2);
}

async fn a_masked_gift_shows_nothing_that_its_giver_wrote_and_is_entered_as_it_was(mut t: Case) {
    t.patch(json!({"review": "all"})).await;
    let user = json!({"id": "a\"\\b", "name": "Rude, \"name\":", "avatar": "https://a.example/x"});
    let rude = said("a").with("user", user).value(5, "EUR").with("meta", json!({"k": 1}));
    hold(&mut t, rude.clone()).await;
    assert_eq!(status(decide(&mut t, "a", Decision::Mask).await), Status::Accepted);
    let row = t.list().await.rows.remove(0);
    assert_eq!(&*row.user, r#"{"id":"a\"\\b","name":"•••"}"#);
    assert_eq!((row.message.clone(), row.count, row.value.as_ref().unwrap().amount), (None, 1, 5));
    let told = entries(&mut t).await;
    assert_eq!(told.len(), 1);
    let mut event = String::new();
    rude.parse().push_json(&mut event);
    let parse = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    assert_eq!((told[0].status, parse(&told[0].gift)), (EntryStatus::Accepted, parse(&event)));
}

async fn a_denied_gift_is_an_entry_and_no_row(mut t: Case) {
    t.accepted(gift("first")).await;
    t.patch(json!({"review": "messages"})).await;
    hold(&mut t, said("a")).await;
    let before = t.list().await;
    let Reviewed::Decided(answer) = decide(&mut t, "a", Decision::Deny).await else { panic!() };
    assert_eq!((answer.status, answer.row.clone(), answer.count), (Status::Denied, None, None));
    assert_eq!(t.list().await, before);
    assert_eq!(t.post(said("a")).await, Outcome::Duplicate(answer));
    let told = entries(&mut t).await;
    assert_eq!((told[1].status, told[1].seq, told[1].row.clone()), (EntryStatus::Denied, None, None));
    assert!(told[1].gift.contains("hello"), "the money was paid: {}", told[1].gift);
    assert!(t.take_back("a").await && t.take_back("a").await);
    assert_eq!(entries(&mut t).await.last().unwrap().status, EntryStatus::Retracted);
    assert_eq!(entries(&mut t).await.len(), 3);
}

async fn deciding_again_answers_the_same_and_otherwise_says_what_was_decided(mut t: Case) {
    t.patch(json!({"review": "all"})).await;
    for (id, wish) in [("a", Decision::Approve), ("b", Decision::Mask), ("c", Decision::Deny)] {
        hold(&mut t, said(id)).await;
        let first = decide(&mut t, id, wish).await;
        let at = t.list().await.at;
        assert_eq!(decide(&mut t, id, wish).await, first);
        for other in Decision::ALL.into_iter().filter(|other| *other != wish) {
            assert_eq!(decide(&mut t, id, other).await, Reviewed::Otherwise(wish));
        }
        assert_eq!(t.list().await.at, at);
    }
    t.patch(json!({"review": "off"})).await;
    t.accepted(gift("plain")).await;
    for unknown in ["plain", "nobody"] {
        assert_eq!(decide(&mut t, unknown, Decision::Deny).await, Reviewed::Unknown);
    }
    t.pass(86_400_001);
    assert_eq!(decide(&mut t, "a", Decision::Approve).await, Reviewed::Unknown, "it is forgotten");
}

async fn time_decides_as_the_policy_says(mut t: Case) {
    for (n, (default, decision)) in
        [("show", Decision::Approve), ("mask", Decision::Mask), ("deny", Decision::Deny)]
            .into_iter()
            .enumerate()
    {
        t.patch(json!({"review": "all", "review_timeout_ms": 5_000, "review_default": default})).await;
        let ids = [format!("worked-{n}"), format!("asked-{n}")];
        for id in &ids {
            hold(&mut t, said(id)).await;
        }
        t.pass(4_999);
        assert!(t.work().await.is_empty());
        assert_eq!(in_review(&t).await.len(), 2);
        t.pass(1);
        assert_eq!(in_review(&t).await.len(), 0, "time has decided, also before it was done");
        // Who comes too late meets what time decided, whether the loop was here or not.
        let late = if decision == Decision::Deny { Decision::Approve } else { Decision::Deny };
        assert_eq!(decide(&mut t, &ids[1], late).await, Reviewed::Otherwise(decision));
        let done = t.work().await;
        let [only] = &done[..] else { panic!("{done:?}") };
        let DueFate::Shown(answer) = &only.fate else { panic!("{done:?}") };
        assert_eq!(answer.id.as_str(), ids[0]);
        assert_eq!(answer.status == Status::Denied, decision == Decision::Deny);
        assert_eq!(decide(&mut t, &ids[0], decision).await, Reviewed::Decided(answer.clone()));
        assert!(t.work().await.is_empty(), "once");
    }
    // Nobody looked at these names.
    t.patch(json!({"review": "messages"})).await;
    hold(&mut t, gift("again").by("of-worked-0")).await;
}

async fn a_name_that_was_approved_passes_for_a_month_and_no_other_name(mut t: Case) {
    t.patch(json!({"review": "messages", "dedup": "off", "idempotency_window_ms": 60_000})).await;
    hold(&mut t, gift("a")).await;
    decide(&mut t, "a", Decision::Approve).await;
    t.accepted(gift("b")).await;
    hold(&mut t, gift("c").with("message", json!("hi"))).await;
    hold(&mut t, gift("d").with("user", json!({"id": "ann", "name": "Other"}))).await;
    hold(&mut t, gift("e").with("user", json!({"id": "bob", "name": "Ann"}))).await;
    decide(&mut t, "e", Decision::Mask).await;
    hold(&mut t, gift("f").with("user", json!({"id": "bob", "name": "Ann"}))).await;
    t.pass(30 * 86_400_000 - 1);
    t.work().await;
    t.accepted(gift("g")).await;
    t.pass(1);
    hold(&mut t, gift("h")).await;
}

async fn tests_and_frames_without_a_new_message_do_not_wait(mut t: Case) {
    t.patch(json!({"review": "all"})).await;
    t.accepted(said("test").test()).await;
    t.accepted(gift("f1").combo("c", 1)).await;
    let frame = |id: &str, n| gift(id).combo("c", n).with("message", json!("go \"go\"!"));
    hold(&mut t, frame("f2", 2)).await;
    assert_eq!(status(decide(&mut t, "f2", Decision::Approve).await), Status::Merged);
    t.merged(frame("f3", 3)).await;
    hold(&mut t, frame("f4", 4).with("message", json!("other"))).await;
}

async fn a_thousand_wait_and_no_more(mut t: Case) {
    t.patch(json!({"review": "all", "review_timeout_ms": 60_000})).await;
    for batch in 0..8 {
        let gifts: Vec<_> = (0..125).map(|n| said(&format!("g-{batch}-{n}"))).collect();
        let outcomes = t.post_all(gifts).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::InReview(_))), "{outcomes:?}");
        t.pass(1_000);
    }
    let full = t.post(said("more")).await;
    assert_eq!(full, Outcome::TooManyInReview { id: "more".parse().unwrap(), retry_in_ms: 52_000 });
    assert_eq!(in_review(&t).await.len(), 1_000);
    decide(&mut t, "g-3-3", Decision::Deny).await;
    hold(&mut t, said("more")).await;
    t.patch(json!({"review_default": "deny"})).await;
    t.pass(60_000);
    assert_eq!(t.work().await.len(), 1_000);
}

async fn a_gift_for_later_is_shown_at_its_own_time_also_when_it_was_masked(mut t: Case) {
    t.patch(json!({"review": "all", "delay_ms": 10_000})).await;
    for id in ["a", "b", "late", "now"] {
        let spec = said(id);
        hold(&mut t, if id == "now" { spec.with("delay_ms", json!(0)) } else { spec }).await;
    }
    t.pass(4_000);
    for (id, wish) in [("a", Decision::Approve), ("b", Decision::Mask)] {
        let done = decide(&mut t, id, wish).await;
        let Reviewed::Later(it) = done else { panic!("{done:?}") };
        assert_eq!(it.deliver_at, t.now.plus(6_000), "the delay runs from the post");
        assert_eq!(decide(&mut t, id, wish).await, Reviewed::Later(it.clone()));
        assert_eq!(decide(&mut t, id, Decision::Deny).await, Reviewed::Otherwise(wish));
        assert_eq!(t.post(said(id)).await, Outcome::ScheduledBefore(it));
    }
    assert_eq!(status(decide(&mut t, "now", Decision::Approve).await), Status::Accepted);
    assert_eq!(t.waiting().await.gifts.len(), 2);
    t.pass(6_000);
    assert_eq!(t.shown().await.len(), 2);
    let rows = t.list().await.rows;
    let users: Vec<String> = rows.iter().map(|row| row.user.to_string()).collect();
    assert!(users[0].contains("•••") && users[1].contains("user of-a"), "{users:?}");
    assert_eq!(rows[0].message, None);
    assert_eq!(status(decide(&mut t, "b", Decision::Mask).await), Status::Accepted);
    assert_eq!(status(decide(&mut t, "late", Decision::Approve).await), Status::Accepted);
    let told = entries(&mut t).await;
    assert!(told.iter().all(|entry| entry.gift.contains("hello")), "{told:?}");
}

async fn retracting_a_waiting_gift_denies_it(mut t: Case) {
    t.patch(json!({"review": "all"})).await;
    hold(&mut t, said("a")).await;
    // A client that got no answer asks once more, and changes nothing.
    for _ in 0..3 {
        assert!(t.take_back("a").await);
        assert_eq!(in_review(&t).await, [""; 0]);
        assert_eq!(status(decide(&mut t, "a", Decision::Deny).await), Status::Denied);
    }
    let all = entries(&mut t).await;
    let deltas: Vec<_> =
        all.iter().map(|it| (it.status, it.delta.as_ref().map(|delta| delta.count))).collect();
    assert_eq!(deltas, [(EntryStatus::Denied, Some(1)), (EntryStatus::Retracted, Some(-1))]);
    assert_eq!(t.cancel("a").await, tipcast::engine::Unscheduled::Shown, "there is nothing to cancel");
}

async fn waiting_gifts_outlive_the_engine(mut t: Case) {
    t.patch(json!({"review": "messages", "review_default": "show", "review_timeout_ms": 9_000})).await;
    for id in ["a", "b", "c"] {
        hold(&mut t, said(id)).await;
    }
    decide(&mut t, "b", Decision::Mask).await;
    block(&t, &here(&t), "rude", None).await;
    t.reopen().await;
    assert_eq!(in_review(&t).await, ["a", "c"]);
    assert_eq!(decide(&mut t, "b", Decision::Deny).await, Reviewed::Otherwise(Decision::Mask));
    assert_eq!(t.engine.list_blocks(&here(&t), t.now).await.unwrap().len(), 1);
    assert_eq!(status(decide(&mut t, "c", Decision::Approve).await), Status::Accepted);
    t.accepted(gift("d").by("of-c").kind("other")).await;
    t.pass(9_000);
    assert_eq!(t.shown().await[0].id.as_str(), "a");
}

async fn a_blocked_users_gifts_are_entered_and_not_shown(mut t: Case) {
    let rude = "r \"\\ u";
    assert_eq!(block(&t, &here(&t), rude, None).await, Blocked::New);
    assert_eq!(block(&t, &here(&t), rude, None).await, Blocked::Replaced);
    assert_eq!(t.list().await.at.seq, 0, "a block does not begin a feed");
    let answer = t.suppressed(gift("a").by(rude).with("delay_ms", json!(5_000))).await;
    assert_eq!(answer.row, None);
    t.duplicate(gift("a").by(rude).with("delay_ms", json!(5_000)), &answer).await;
    t.accepted(gift("b").by("r")).await;
    t.accepted(gift("c").by("\\ u").combo("c", 1)).await;
    assert_eq!(t.suppressed(gift("d").by(rude).combo("c", 1)).await.row, None);
    assert_eq!(t.suppressed(gift("e").by(rude).test()).await.row, None);
    let statuses: Vec<_> =
        entries(&mut t).await.iter().map(|entry| (entry.status, entry.row.is_some())).collect();
    use EntryStatus::{Accepted, Suppressed};
    assert_eq!(statuses, [(Suppressed, false), (Accepted, true), (Accepted, true), (Suppressed, false)]);
    assert!(t.engine.is_blocked(&t.feed, rude, t.now).await.unwrap());
    assert!(!t.engine.is_blocked(&t.feed, "r", t.now).await.unwrap());
    assert!(!t.engine.is_blocked(&fresh_feed(), rude, t.now).await.unwrap());
    assert!(t.take_back("a").await);
}

async fn a_block_holds_for_what_waits_already(mut t: Case) {
    t.patch(json!({"review": "messages", "review_default": "show", "review_timeout_ms": 1_000})).await;
    decide_name(&mut t, "rude").await;
    t.scheduled(gift("later").by("rude").with("delay_ms", json!(5_000))).await;
    for id in ["a", "b"] {
        hold(&mut t, gift(id).by("rude").with("message", json!("x"))).await;
    }
    let before = t.list().await;
    block(&t, &here(&t), "rude", None).await;
    assert_eq!(in_review(&t).await, [""; 0]);
    assert_eq!(decide(&mut t, "a", Decision::Approve).await, Reviewed::Otherwise(Decision::Deny));
    t.pass(5_000);
    let statuses: Vec<_> = t.shown().await.into_iter().map(|it| (it.status, it.row)).collect();
    assert_eq!(statuses, [(Status::Denied, None), (Status::Suppressed, None)]);
    assert_eq!(t.list().await.rows, before.rows);
}

/// Has this user's name pass.
async fn decide_name(t: &mut Case, user: &str) {
    hold(t, gift("name").by(user)).await;
    decide(t, "name", Decision::Approve).await;
}

async fn a_block_ends_at_its_time_and_when_it_is_taken_away(mut t: Case) {
    let scope = here(&t);
    block(&t, &scope, "a", Some(t.now.plus(1_000))).await;
    block(&t, &scope, "b", None).await;
    t.pass(999);
    t.suppressed(gift("a1").by("a")).await;
    let users = |blocks: Vec<Block>| blocks.into_iter().map(|it| (it.user, it.until)).collect::<Vec<_>>();
    let known = users(t.engine.list_blocks(&scope, t.now).await.unwrap());
    assert_eq!(known, [("a".to_owned(), Some(t.now.plus(1))), ("b".to_owned(), None)]);
    t.pass(1);
    t.accepted(gift("a2").by("a")).await;
    assert_eq!(users(t.engine.list_blocks(&scope, t.now).await.unwrap()), [("b".to_owned(), None)]);
    assert_eq!(block(&t, &scope, "a", None).await, Blocked::New, "the other one was over");
    assert!(t.engine.unblock_user(&scope, "a", t.now).await.unwrap());
    assert!(!t.engine.unblock_user(&scope, "a", t.now).await.unwrap());
    assert!(t.engine.unblock_user(&scope, "b", t.now).await.unwrap());
    t.accepted(gift("b1").by("b")).await;
}

async fn a_block_of_all_feeds_holds_in_each(mut t: Case) {
    // The store may be shared with other cases.
    let user = format!("user-{}", t.feed);
    t.accepted(gift("a").by(&user)).await;
    block(&t, &BlockScope::All, &user, None).await;
    t.suppressed(gift("b").by(&user)).await;
    t.accepted(gift("c").by("other")).await;
    assert!(t.engine.is_blocked(&fresh_feed(), &user, t.now).await.unwrap());
    t.patch(json!({"review": "all"})).await;
    t.suppressed(gift("d").by(&user)).await;
    let all = t.engine.list_blocks(&BlockScope::All, t.now).await.unwrap();
    assert!(all.iter().any(|block| block.user == user));
    assert!(t.engine.unblock_user(&BlockScope::All, &user, t.now).await.unwrap());
    hold(&mut t, gift("e").by(&user)).await;
}

async fn a_thousand_users_are_blocked_and_no_more(t: Case) {
    let scope = here(&t);
    for n in 0..1_000 {
        assert_eq!(block(&t, &scope, &format!("u{n}"), None).await, Blocked::New);
    }
    assert_eq!(block(&t, &scope, "one-more", None).await, Blocked::Full);
    assert_eq!(block(&t, &scope, "u7", None).await, Blocked::Replaced);
    assert!(t.engine.unblock_user(&scope, "u8", t.now).await.unwrap());
    assert_eq!(block(&t, &scope, "one-more", None).await, Blocked::New);
    assert_eq!(t.engine.list_blocks(&scope, t.now).await.unwrap().len(), 1_000);
}

async fn a_sale_shows_without_its_message(mut t: Case) {
    use tipcast::domain::{Claim, DropSpec, json};
    let spec = br#"{"gift":{"id":"r","name":"R"},"total":9}"#;
    let spec = DropSpec::parse(json::syntax(spec).unwrap()).unwrap();
    let drop: tipcast::domain::DropId = "rocket".parse().unwrap();
    t.engine.define_drop(&t.feed, &drop, &spec, t.now).await.unwrap();
    t.patch(json!({"review": "messages"})).await;
    let body = br#"{"id":"c1","user":{"id":"u","name":"U"},"pay":"now","message":"rude"}"#;
    let claim = Claim::parse(json::syntax(body).unwrap(), None).unwrap();
    t.engine.claim_drop(&t.feed, &drop, claim, t.now).await.unwrap();
    let row = t.list().await.rows.remove(0);
    assert_eq!((row.message.clone(), row.drop.is_some()), (None, true));
    assert!(entries(&mut t).await[0].gift.contains("rude"), "it was said all the same");
}

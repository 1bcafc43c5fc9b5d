//! What a store keeps of revoked viewers: a time that never moves back, in the order in which it was set, on every
//! node, until no such token lives. Stores are shared by cases, so each looks at its own viewers.

use tipcast::domain::{Epoch, Millis};
use tipcast::engine::{Revocation, RevokedAt};

use crate::support::case::Case;

on_every_engine![
    a_revocation_never_moves_back_and_comes_again_when_it_is_made_again,
    revocations_outlive_the_process_and_are_seen_by_another_node,
];

const DAY: u64 = 86_400_000;

fn viewer(name: &str) -> Box<str> {
    format!("{name} \u{1F339}\n'; {}", Epoch::mint()).into()
}

fn of(sub: &str, before: Millis) -> Revocation {
    Revocation { sub: sub.into(), before, until: before.plus(DAY) }
}

/// What came since, of these viewers.
async fn since(t: &Case, at: &mut RevokedAt, subs: &[&str]) -> Vec<Revocation> {
    let mut all = Vec::new();
    loop {
        // One at a time: pages follow each other without a hole.
        let page = t.engine.list_revocations(at, 1).await.unwrap();
        let over = page.at == *at;
        *at = page.at;
        all.extend(page.revoked.into_iter().filter(|one| subs.contains(&&*one.sub)));
        if over {
            return all;
        }
    }
}

async fn a_revocation_never_moves_back_and_comes_again_when_it_is_made_again(t: Case) {
    let (ann, eve) = (viewer("ann"), viewer("eve"));
    let (subs, mut at) = ([&*ann, &*eve], RevokedAt::default());
    assert_eq!(since(&t, &mut at, &subs).await, vec![]);
    assert_eq!(t.engine.revoke_viewer(&of(&ann, t.now), t.now).await.unwrap(), t.now);
    assert_eq!(t.engine.revoke_viewer(&of(&eve, t.now), t.now).await.unwrap(), t.now);
    assert_eq!(since(&t, &mut at, &subs).await, [of(&ann, t.now), of(&eve, t.now)]);
    assert_eq!(since(&t, &mut at, &subs).await, vec![]);
    let earlier = Millis(t.now.0 - 1);
    assert_eq!(
        t.engine.revoke_viewer(&of(&ann, earlier), t.now).await.unwrap(),
        t.now,
        "it never moves back"
    );
    assert_eq!(since(&t, &mut at, &subs).await, vec![]);
    let later = t.now.plus(5);
    assert_eq!(t.engine.revoke_viewer(&of(&ann, later), later).await.unwrap(), later);
    assert_eq!(since(&t, &mut at, &subs).await, [of(&ann, later)]);
    let mut anew = RevokedAt { life: "another".into(), seq: 0 };
    assert_eq!(since(&t, &mut anew, &subs).await, [of(&eve, t.now), of(&ann, later)]);
}

async fn revocations_outlive_the_process_and_are_seen_by_another_node(mut t: Case) {
    let ann = viewer("ann");
    t.engine.revoke_viewer(&of(&ann, t.now), t.now).await.unwrap();
    t.engine.close().await;
    t.engine = t.store.open().await;
    let mut at = RevokedAt::default();
    assert_eq!(since(&t, &mut at, &[&*ann]).await, [of(&ann, t.now)]);
    let later = t.now.plus(1);
    t.engine.revoke_viewer(&of(&ann, later), later).await.unwrap();
    assert_eq!(since(&t, &mut at, &[&*ann]).await, [of(&ann, later)], "numbers go on");
}

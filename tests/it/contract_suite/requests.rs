//! What a store keeps of signed requests: each is for one target, on every node and after a restart.

use tipcast::domain::Epoch;
use tipcast::engine::{REQUEST_KEPT_MS, RequestUse};

use crate::support::case::Case;

on_every_engine![
    a_signed_request_is_for_the_target_that_it_came_with_first,
    signed_requests_outlive_the_process_and_are_seen_by_another_node,
];

/// Stores are shared by cases, so each has requests of its own.
fn fresh() -> String {
    Epoch::mint().to_string().chars().filter(char::is_ascii_alphanumeric).collect()
}

async fn a_signed_request_is_for_the_target_that_it_came_with_first(t: Case) {
    let (one, two) = (fresh(), fresh());
    let claim = async |request: &str, target: &str, after: u64| {
        t.engine.claim_request(request, target, t.now.plus(after)).await.unwrap()
    };
    assert_eq!(claim(&one, "gifts show", 0).await, RequestUse::First);
    assert_eq!(claim(&one, "gifts show", 5).await, RequestUse::Again(5));
    assert_eq!(claim(&one, "batch show", 5).await, RequestUse::Elsewhere);
    assert_eq!(claim(&two, "batch show", 5).await, RequestUse::First, "another request");
    assert_eq!(claim(&one, "gifts sho", 6).await, RequestUse::Elsewhere);
    let last = REQUEST_KEPT_MS - 1;
    assert_eq!(claim(&one, "gifts show", last).await, RequestUse::Again(last));
}

async fn signed_requests_outlive_the_process_and_are_seen_by_another_node(mut t: Case) {
    let request = fresh();
    let claim = async |t: &Case, target: &str| t.engine.claim_request(&request, target, t.now).await.unwrap();
    assert_eq!(claim(&t, "gifts show").await, RequestUse::First);
    t.engine.close().await;
    t.engine = t.store.open().await;
    assert_eq!(claim(&t, "gifts other").await, RequestUse::Elsewhere);
    assert_eq!(claim(&t, "gifts show").await, RequestUse::Again(0));
}

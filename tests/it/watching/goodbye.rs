//! SIGTERM: goodbye, close 4200, exit 0.

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::process::Process;
use crate::support::sse::SseWatcher;
use crate::support::watcher::Watcher;

on_both_stores![sigterm_says_goodbye_to_every_watcher_and_ends_in_order,];

async fn sigterm_says_goodbye_to_every_watcher_and_ends_in_order() {
    let backing = Backing::fresh();
    let mut gateway = Process::on(&backing);
    gateway.give("show", &gift("g1")).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    let mut many = Many::open(&gateway).await;
    many.subscribe("show").await;
    many.subscribe("other").await;
    let mut sse = SseWatcher::open(&gateway, "show").await;
    watcher.wait_for_seq(1).await;
    sse.wait_for_seq(1).await;
    many.wait_until("both lists", |m| m.folds.values().all(|fold| fold.snapshots == 1)).await;
    let posts: Vec<_> = (0..20)
        .map(|n| {
            let late = gift(&format!("late{n}")).json();
            tokio::spawn(Api::try_send(gateway.request("POST", "/v1/feeds/show/gifts").json(&late)))
        })
        .collect();
    gateway.terminate();
    assert_eq!(watcher.wait_for_close().await.map(u16::from), Some(4200), "{}", watcher.fold.story());
    let goodbye = watcher.fold.goodbye.clone().expect("a goodbye before the close");
    assert!(goodbye["reconnect_in_ms"].as_u64().unwrap() <= 60_000, "{goodbye}");
    assert_eq!(many.wait_for_close().await, Some(4200));
    assert!(many.folds.values().any(|fold| fold.goodbye.is_some()));
    sse.wait_for_end().await;
    let told = sse.fold.goodbye.as_ref().expect("a goodbye before the end");
    assert_eq!(sse.retry, told["reconnect_in_ms"].as_u64(), "{told}");
    let status = gateway.wait();
    assert_eq!(status.code(), Some(0), "{}", gateway.said());

    let mut taken = 0;
    for post in posts {
        taken += u64::from(post.await.unwrap().is_ok_and(|said| matches!(said.status, 200 | 201)));
    }
    let gateway = Process::on(&backing);
    let seq = gateway.get_feed("show").await["seq"].as_u64().unwrap();
    assert!(seq > taken, "{seq}, and {taken} acknowledged beside the first");
    watcher.api = Api::clone(&gateway);
    watcher.reconnect().await;
    watcher.wait_until("the resume", |fold| fold.resumes + fold.snapshots == 2).await;
    watcher.wait_for_the_list().await;
    assert_eq!((watcher.fold.resumes, watcher.fold.snapshots), (1, 1), "{}", watcher.fold.story());
}
